// SpMV by the cuSPARSE of CUDA 8 to 10, on a stand-in that multiplies on the host as documented.
#include <string>
#include <vector>

#include "doubles/cusparse_8/cusparse.h"
#include "programs/spmv/csrmv.h"
#include "unit.h"

struct cusparseContext {
    cudaStream_t stream;
};
struct cusparseMatDescr {
    cusparseMatrixType_t type;
    cusparseIndexBase_t base;
};

namespace {

bool refuses = false;
int open_handles = 0;
cudaStream_t used = nullptr;

/// y = alpha A x + beta y; for a general matrix alone, as the library requires.
template <typename T>
cusparseStatus_t multiply(cusparseHandle_t handle, cusparseOperation_t op, int m, int n, int nnz,
                          const T* alpha, const cusparseMatDescr* kind, const T* value, const int* rows,
                          const int* column, const T* x, const T* beta, T* y) {
    const bool fits = op == CUSPARSE_OPERATION_NON_TRANSPOSE && kind->type == CUSPARSE_MATRIX_TYPE_GENERAL &&
                      rows[m] - kind->base == nnz;
    if (refuses || !fits) return CUSPARSE_STATUS_INVALID_VALUE;
    used = handle->stream;
    for (int r = 0; r < m; ++r) {
        T sum = 0;
        for (int j = rows[r] - kind->base; j < rows[r + 1] - kind->base; ++j) {
            if (column[j] - kind->base >= n) return CUSPARSE_STATUS_INVALID_VALUE;
            sum += value[j] * x[column[j] - kind->base];
        }
        y[r] = *alpha * sum + (*beta == 0 ? 0 : *beta * y[r]);
    }
    return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

extern "C" {
cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
    *handle = new cusparseContext{nullptr};
    ++open_handles;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
    delete handle;
    --open_handles;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int* version) {
    *version = 8000;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t* kind) {
    // neither is the default: both must be set
    *kind = new cusparseMatDescr{CUSPARSE_MATRIX_TYPE_SYMMETRIC, CUSPARSE_INDEX_BASE_ONE};
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t kind) {
    delete kind;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t kind, cusparseMatrixType_t type) {
    kind->type = type;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t kind, cusparseIndexBase_t base) {
    kind->base = base;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseScsrmv(cusparseHandle_t handle, cusparseOperation_t op, int m, int n, int nnz,
                                const float* alpha, const cusparseMatDescr_t kind, const float* value,
                                const int* rows, const int* column, const float* x, const float* beta,
                                float* y) {
    return multiply(handle, op, m, n, nnz, alpha, kind, value, rows, column, x, beta, y);
}
cusparseStatus_t cusparseDcsrmv(cusparseHandle_t handle, cusparseOperation_t op, int m, int n, int nnz,
                                const double* alpha, const cusparseMatDescr_t kind, const double* value,
                                const int* rows, const int* column, const double* x, const double* beta,
                                double* y) {
    return multiply(handle, op, m, n, nnz, alpha, kind, value, rows, column, x, beta, y);
}
}

namespace {

// 1 0 2 0
// 0 0 0 0
// 0 3 0 4
const std::vector<int> offsets = {0, 2, 2, 4};
const std::vector<int> columns = {0, 2, 1, 3};

template <typename T>
std::vector<T> product() {
    const std::vector<T> values = {1, 2, 3, 4};
    const std::vector<T> x = {1, 10, 100, 1000};
    std::vector<T> y = {-1, -1, -1};
    const cudaStream_t stream = reinterpret_cast<cudaStream_t>(&refuses);
    spmv::Csrmv<T> all(3, 4, 4, offsets.data(), columns.data(), values.data(), x.data(), y.data(), stream);
    all.enqueue();
    CHECK(used == stream);
    return y;
}

}  // namespace

TEST(a_product_of_csrmv_is_the_one_by_hand_in_both_precisions) {
    CHECK(product<double>() == std::vector<double>({201, 0, 4030}));
    CHECK(product<float>() == std::vector<float>({201, 0, 4030}));
    CHECK(open_handles == 0);
    CHECK(spmv::csrmv_version() == "8000" && open_handles == 0);
}

TEST(a_refused_product_of_csrmv_names_call_and_status) {
    refuses = true;
    std::string what;
    try {
        product<double>();
    } catch (const std::runtime_error& error) {
        what = error.what();
    }
    refuses = false;
    CHECK(what.find("csrmv(") == 0 && what.find("cuSPARSE status 3") != std::string::npos);
}
