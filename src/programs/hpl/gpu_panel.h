// Factorisation of a tall, narrow panel on one GPU.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <cstdint>
#include <memory>
#include <string>

#include "lib/cuda/library.h"
#include "lib/cuda/memory.h"
#include "programs/hpl/layout.h"
#include "programs/hpl/matrix.h"

namespace hpl {

/// Methods of panel factorisation.
enum class PanelKind {
    automatic,  ///< resident on few multiprocessors while an update hides the panel, then cuSOLVER
    resident,   ///< built-in kernel, rows in shared memory
    streamed,   ///< built-in kernel, rows in the L2 or in memory
    library     ///< cuSOLVER
};

/// The permutation of rows by a panel, on the GPU, as ints: the number of lower rows that change; three
/// unused; for each of `width` top rows, the row that moves there; for each lower row that changes, its
/// index; then, likewise, the (top) row that moves there. Rows count from the first one of the panel.
struct Permutation {
    static constexpr int header = 4;
    static std::int64_t ints(std::int64_t width) { return header + 3 * width; }
    int* data;
    std::int64_t width;
    HPL_BOTH int* count() const { return data; }
    HPL_BOTH int* top() const { return data + header; }
    HPL_BOTH int* low() const { return data + header + width; }
    HPL_BOTH int* low_source() const { return data + header + 2 * width; }
};

class PanelFactoriser {
  public:
    /// @param max_rows, max_width of any panel
    /// @param blocks of the built-in kernel, more only if the rows of 16 columns require them; 0 for all
    /// multiprocessors
    /// @param few_rows panels of fewer rows are no longer hidden (PanelKind::automatic)
    PanelFactoriser(PanelKind kind, std::int64_t max_rows, std::int64_t max_width, int blocks,
                    std::int64_t few_rows, cudaStream_t stream, cublasHandle_t blas);
    ~PanelFactoriser();

    /// Enqueues P = L U of `rows` x `width` doubles, column-major with `stride`; L without its
    /// diagonal.
    /// @param first_column of the panel in the matrix, for `singular`
    void factorise(double* panel, std::int64_t rows, std::int64_t width, std::int64_t stride,
                   std::int64_t first_column, const Permutation& permutation);

    /// The first column without a pivot, -1 if there is none; waits for the stream.
    std::int64_t singular() const;
    void forget_singular();
    /// "own, rows in shared memory, 32 columns at a time"
    std::string text() const;

  private:
    void recurse(double* panel, std::int64_t rows, std::int64_t begin, std::int64_t width, std::int64_t whole,
                 std::int64_t stride, std::int64_t first_column);
    void base(double* panel, std::int64_t rows, std::int64_t begin, std::int64_t width, std::int64_t stride,
              std::int64_t first_column);
    int base_width(std::int64_t rows) const;
    /// Blocks for panels of this many rows.
    std::int64_t blocks_of(std::int64_t rows) const;

    bool by_library(std::int64_t rows) const {
        return kind_ == PanelKind::library || (kind_ == PanelKind::automatic && rows < few_rows_);
    }

    PanelKind kind_;
    std::int64_t few_rows_;
    cudaStream_t stream_;
    cublasHandle_t blas_;
    cusolverDnHandle_t solver_ = nullptr;
    int few_blocks_;
    int max_blocks_;
    int shared_bytes_;
    unsigned epoch_ = 0;
    tenken::cuda::DeviceArray<int> pivots_;
    tenken::cuda::DeviceArray<int> rows_;  ///< identity; new positions of rows while a permutation is built
    tenken::cuda::DeviceArray<long long> singular_;
    tenken::cuda::DeviceArray<int> info_;
    tenken::cuda::DeviceArray<unsigned long long> mail_;
    std::unique_ptr<tenken::cuda::DeviceArray<double>> work_;
};

}  // namespace hpl
