// A CSR matrix in the memory of a GPU.
#pragma once

namespace spmv {

/// Row r has the entries [offsets[r], offsets[r + 1]). Columns and values can be read a few places beyond
/// the last.
template <typename T>
struct CsrView {
    int rows;
    const int* offsets;
    const int* columns;
    const T* values;
};

}  // namespace spmv
