// SpMV by the cuSPARSE of CUDA 8 to 10: one function per type, which CUDA 11 no longer has. Included behind
// cusparse.h. Compiled and run only with a stand-in for that library; it has never run on a GPU.
#pragma once

#include <stdexcept>
#include <string>

namespace spmv {

inline void require_legacy(cusparseStatus_t status, const char* call) {
    if (status == CUSPARSE_STATUS_SUCCESS) return;
    // before 10.1 the library names no error
    throw std::runtime_error(std::string(call) + ": cuSPARSE status " +
                             std::to_string(static_cast<int>(status)));
}
#define SPMV_LEGACY(call) ::spmv::require_legacy((call), #call)

inline cusparseStatus_t csrmv(cusparseHandle_t handle, int rows, int columns, int entries, const double* one,
                              cusparseMatDescr_t kind, const double* values, const int* offsets,
                              const int* column, const double* x, const double* zero, double* y) {
    return cusparseDcsrmv(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, rows, columns, entries, one, kind, values,
                          offsets, column, x, zero, y);
}
inline cusparseStatus_t csrmv(cusparseHandle_t handle, int rows, int columns, int entries, const float* one,
                              cusparseMatDescr_t kind, const float* values, const int* offsets,
                              const int* column, const float* x, const float* zero, float* y) {
    return cusparseScsrmv(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, rows, columns, entries, one, kind, values,
                          offsets, column, x, zero, y);
}

/// y = A x of a general matrix in CSR with indices from 0, all of it in the memory of the GPU.
template <typename T>
class Csrmv {
  public:
    /// @throws std::runtime_error with the call and the status of cuSPARSE
    Csrmv(int rows, int columns, int entries, const int* offsets, const int* column, const T* values,
          const T* x, T* y, cudaStream_t stream)
        : rows_(rows),
          columns_(columns),
          entries_(entries),
          offsets_(offsets),
          column_(column),
          values_(values),
          x_(x),
          y_(y) {
        SPMV_LEGACY(cusparseCreate(&handle_));
        SPMV_LEGACY(cusparseSetStream(handle_, stream));
        SPMV_LEGACY(cusparseCreateMatDescr(&kind_));
        SPMV_LEGACY(cusparseSetMatType(kind_, CUSPARSE_MATRIX_TYPE_GENERAL));
        SPMV_LEGACY(cusparseSetMatIndexBase(kind_, CUSPARSE_INDEX_BASE_ZERO));
    }
    ~Csrmv() {
        cusparseDestroyMatDescr(kind_);
        cusparseDestroy(handle_);
    }
    Csrmv(const Csrmv&) = delete;
    Csrmv& operator=(const Csrmv&) = delete;

    void enqueue() {
        SPMV_LEGACY(csrmv(handle_, rows_, columns_, entries_, &one_, kind_, values_, offsets_, column_, x_,
                          &zero_, y_));
    }

  private:
    int rows_, columns_, entries_;
    const int* offsets_;
    const int* column_;
    const T* values_;
    const T* x_;
    T* y_;
    const T one_ = 1;
    const T zero_ = 0;
    cusparseHandle_t handle_ = nullptr;
    cusparseMatDescr_t kind_ = nullptr;
};

/// The library's number: 8000 of CUDA 8.0.
inline std::string csrmv_version() {
    cusparseHandle_t handle = nullptr;
    int version = 0;
    if (cusparseCreate(&handle) == CUSPARSE_STATUS_SUCCESS) {
        cusparseGetVersion(handle, &version);
        cusparseDestroy(handle);
    }
    return std::to_string(version);
}

}  // namespace spmv
