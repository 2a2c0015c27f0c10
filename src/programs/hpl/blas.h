// BLAS and LAPACK of the host, loaded at run time: the program also starts without them, and a site can name
// its own library.
#pragma once

#include <memory>
#include <string>

namespace hpl {

/// Fortran's calling convention, 32-bit integers.
class Blas {
  public:
    /// Loads the library named by TENKEN_BLAS, otherwise the first one found of OpenBLAS, FlexiBLAS, MKL and
    /// the system's LAPACK. Function names with the prefix of SciPy's wheels are supported.
    /// @return nothing if none can be loaded, with the reason in `why_not`
    static std::unique_ptr<Blas> open(std::string& why_not);
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;

    /// "libopenblas.so.0 (OpenBLAS 0.3.21 ...)"
    const std::string& text() const { return text_; }

    void (*dgemm)(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                  const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                  const double* beta, double* c, const int* ldc) = nullptr;
    void (*dtrsm)(const char* side, const char* uplo, const char* transa, const char* diag, const int* m,
                  const int* n, const double* alpha, const double* a, const int* lda, double* b,
                  const int* ldb) = nullptr;
    void (*dgetrf)(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info) = nullptr;
    void (*dgetrs)(const char* trans, const int* n, const int* nrhs, const double* a, const int* lda,
                   const int* pivots, double* b, const int* ldb, int* info) = nullptr;

  private:
    Blas() = default;
    std::string text_;
};

}  // namespace hpl
