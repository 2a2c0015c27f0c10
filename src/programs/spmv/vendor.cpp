#include "programs/spmv/vendor.h"

#ifdef SPMV_HAVE_CUSPARSE
#include <cusparse.h>
#if CUSPARSE_VERSION < 11000
#include "programs/spmv/csrmv.h"
#endif
#endif

#include <algorithm>
#include <stdexcept>

#include "lib/cuda/memory.h"
#include "lib/sparse/sell.h"
#include "programs/spmv/backend.h"

namespace spmv {

#if defined(SPMV_HAVE_CUSPARSE) && CUSPARSE_VERSION < 11000  // before 10.1 the macro is not defined

namespace {

template <typename T>
class LegacyProduct : public VendorProduct {
  public:
    LegacyProduct(const Problem& problem, const CsrView<T>& view, T* x, T* y,
                  const tenken::cuda::Stream& stream)
        : product_(problem.matrix->rows, problem.matrix->columns, static_cast<int>(problem.matrix->entries()),
                   view.offsets, view.columns, view.values, x, y, stream.get()),
          traffic_(problem.csr_traffic()) {}
    void enqueue() override { product_.enqueue(); }
    double traffic_bytes() const override { return traffic_; }

  private:
    Csrmv<T> product_;
    double traffic_;
};

}  // namespace

std::vector<std::string> vendor_variants() {
    return {"cusparse_csrmv"};
}

std::string vendor_version() {
    return csrmv_version();
}

template <typename T>
std::unique_ptr<VendorProduct> make_vendor_product(const std::string&, const sparse::Csr& matrix,
                                                   const CsrView<T>& view, T* x, T* y,
                                                   const tenken::cuda::Stream& stream, std::string&) {
    Problem problem;
    problem.matrix = &matrix;
    problem.single = sizeof(T) == sizeof(float);
    return std::unique_ptr<VendorProduct>(new LegacyProduct<T>(problem, view, x, y, stream));
}

#elif !defined(SPMV_HAVE_CUSPARSE) || CUSPARSE_VERSION < 11400

std::vector<std::string> vendor_variants() {
    return {};
}

std::string vendor_version() {
    return "built without cuSPARSE, of CUDA 8 to 10 or from 11.4 on";
}

template <typename T>
std::unique_ptr<VendorProduct> make_vendor_product(const std::string&, const sparse::Csr&, const CsrView<T>&,
                                                   T*, T*, const tenken::cuda::Stream&, std::string& why) {
    why = vendor_version();
    return nullptr;
}

#else

namespace {

void require(cusparseStatus_t status, const char* expression) {
    if (status == CUSPARSE_STATUS_SUCCESS) return;
    throw std::runtime_error(std::string(expression) + ": " + cusparseGetErrorString(status));
}
#define SPMV_CUSPARSE(call) require((call), #call)

template <typename T>
tenken::cuda::DeviceArray<T> uploaded(const T* from, std::size_t count) {
    tenken::cuda::DeviceArray<T> array(std::max<std::size_t>(count, 1));
    if (count > 0) TENKEN_CUDA(cudaMemcpy(array.data(), from, count * sizeof(T), cudaMemcpyHostToDevice));
    return array;
}

template <typename T>
constexpr cudaDataType real_type() {
    return sizeof(T) == sizeof(double) ? CUDA_R_64F : CUDA_R_32F;
}

/// cuSPARSE multiplies all formats by the same call.
template <typename T>
class Product : public VendorProduct {
  public:
    Product(const Problem& problem, cusparseSpMVAlg_t algorithm) : problem_(problem), algorithm_(algorithm) {
        SPMV_CUSPARSE(cusparseCreate(&handle_));
    }
    ~Product() override {
        if (matrix_ != nullptr) cusparseDestroySpMat(matrix_);
        if (x_ != nullptr) cusparseDestroyDnVec(x_);
        if (y_ != nullptr) cusparseDestroyDnVec(y_);
        cusparseDestroy(handle_);
    }
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;

    /// To be called after matrix_ is set.
    void make_ready(T* x, T* y, const tenken::cuda::Stream& stream) {
        const sparse::Csr& a = *problem_.matrix;
        SPMV_CUSPARSE(cusparseSetStream(handle_, stream.get()));
        SPMV_CUSPARSE(cusparseCreateDnVec(&x_, a.columns, x, real_type<T>()));
        SPMV_CUSPARSE(cusparseCreateDnVec(&y_, a.rows, y, real_type<T>()));
        std::size_t bytes = 0;
        SPMV_CUSPARSE(cusparseSpMV_bufferSize(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, x_,
                                              &zero_, y_, real_type<T>(), algorithm_, &bytes));
        buffer_.reset(new tenken::cuda::DeviceArray<char>(std::max<std::size_t>(bytes, 1)));
#if CUSPARSE_VERSION >= 12300
        SPMV_CUSPARSE(cusparseSpMV_preprocess(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, x_,
                                              &zero_, y_, real_type<T>(), algorithm_, buffer_->data()));
#endif
    }

    void enqueue() override {
        SPMV_CUSPARSE(cusparseSpMV(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, x_, &zero_, y_,
                                   real_type<T>(), algorithm_, buffer_->data()));
    }
    double traffic_bytes() const override { return traffic_; }
    double padding() const override { return padding_; }

  protected:
    const Problem problem_;
    cusparseSpMVAlg_t algorithm_;
    cusparseHandle_t handle_ = nullptr;
    cusparseSpMatDescr_t matrix_ = nullptr;
    double traffic_ = 0;
    double padding_ = 1;

  private:
    const T one_ = 1;
    const T zero_ = 0;
    cusparseDnVecDescr_t x_ = nullptr;
    cusparseDnVecDescr_t y_ = nullptr;
    std::unique_ptr<tenken::cuda::DeviceArray<char>> buffer_;
};

template <typename T>
class CsrProduct : public Product<T> {
  public:
    CsrProduct(const Problem& problem, const CsrView<T>& view, cusparseSpMVAlg_t algorithm)
        : Product<T>(problem, algorithm) {
        const sparse::Csr& a = *problem.matrix;
        SPMV_CUSPARSE(cusparseCreateCsr(&this->matrix_, a.rows, a.columns, a.entries(),
                                        const_cast<int*>(view.offsets), const_cast<int*>(view.columns),
                                        const_cast<T*>(view.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                        CUSPARSE_INDEX_BASE_ZERO, real_type<T>()));
        this->traffic_ = problem.csr_traffic();
    }
};

/// Coordinates: the row and the column of every entry.
template <typename T>
class CooProduct : public Product<T> {
  public:
    CooProduct(const Problem& problem, const CsrView<T>& view, cusparseSpMVAlg_t algorithm)
        : Product<T>(problem, algorithm),
          rows_(uploaded(row_of_entries(*problem.matrix).data(), entries(problem))) {
        const sparse::Csr& a = *problem.matrix;
        SPMV_CUSPARSE(cusparseCreateCoo(&this->matrix_, a.rows, a.columns, a.entries(), rows_.data(),
                                        const_cast<int*>(view.columns), const_cast<T*>(view.values),
                                        CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, real_type<T>()));
        this->traffic_ =
            static_cast<double>(a.entries()) * (sizeof(T) + 2.0 * sizeof(int)) + problem.vector_bytes();
    }

  private:
    static std::size_t entries(const Problem& problem) {
        return static_cast<std::size_t>(problem.matrix->entries());
    }
    static sparse::Buffer<int> row_of_entries(const sparse::Csr& a) {
        sparse::Buffer<int> rows(static_cast<std::size_t>(a.entries()));
#pragma omp parallel for schedule(static)
        for (int r = 0; r < a.rows; ++r) {
            const auto row = static_cast<std::size_t>(r);
            std::fill(rows.data() + a.offsets[row], rows.data() + a.offsets[row + 1], r);
        }
        return rows;
    }

    tenken::cuda::DeviceArray<int> rows_;
};

#if CUSPARSE_VERSION >= 12200
#define SPMV_HAVE_CUSPARSE_SELL 1
constexpr int vendor_slice = 32;

template <typename T>
class SellProduct : public Product<T> {
  public:
    SellProduct(const Problem& problem, const sparse::Sell<T>& sell)
        : Product<T>(problem, CUSPARSE_SPMV_SELL_ALG1),
          offsets_(uploaded(narrow(sell.offsets).data(), sell.offsets.size())),
          columns_(uploaded(sell.column.data(), sell.column.size())),
          values_(uploaded(sell.value.data(), sell.value.size())) {
        const sparse::Csr& a = *problem.matrix;
        SPMV_CUSPARSE(cusparseCreateSlicedEll(&this->matrix_, a.rows, a.columns, a.entries(), sell.places(),
                                              sell.height, offsets_.data(), columns_.data(), values_.data(),
                                              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                              CUSPARSE_INDEX_BASE_ZERO, real_type<T>()));
        this->padding_ = static_cast<double>(sell.places()) / a.entries();
        this->traffic_ = static_cast<double>(sell.places()) * (sizeof(T) + sizeof(int)) +
                         sizeof(int) * (sell.slices() + 1.0) + problem.vector_bytes();
    }

  private:
    static std::vector<int> narrow(const sparse::Buffer<std::int64_t>& offsets) {
        return std::vector<int>(offsets.data(), offsets.data() + offsets.size());
    }

    tenken::cuda::DeviceArray<int> offsets_;
    tenken::cuda::DeviceArray<int> columns_;
    tenken::cuda::DeviceArray<T> values_;
};
#endif

#if CUSPARSE_VERSION >= 12600
#define SPMV_HAVE_CUSPARSE_BSR 1
constexpr int block_side = 3;

/// Square blocks, stored row by row, zeros filled in.
template <typename T>
struct Bsr {
    std::vector<int> offsets;
    std::vector<int> columns;
    std::vector<T> values;
};

/// Whether the blocks are nearly full.
template <typename T>
bool worth_it(const Bsr<T>& bsr, const sparse::Csr& a) {
    return static_cast<double>(bsr.columns.size()) * block_side * block_side <= 1.25 * a.entries();
}

/// Omits the values if the blocks are not nearly full.
template <typename T>
Bsr<T> to_bsr(const sparse::Csr& a) {
    const int block_rows = a.rows / block_side;
    Bsr<T> bsr;
    bsr.offsets.push_back(0);
    std::vector<int> columns;
    for (int b = 0; b < block_rows; ++b) {
        columns.clear();
        const auto begin = static_cast<std::size_t>(a.offsets[static_cast<std::size_t>(b * block_side)]);
        const auto end = static_cast<std::size_t>(a.offsets[static_cast<std::size_t>((b + 1) * block_side)]);
        for (std::size_t j = begin; j < end; ++j) columns.push_back(a.column[j] / block_side);
        std::sort(columns.begin(), columns.end());
        columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
        bsr.columns.insert(bsr.columns.end(), columns.begin(), columns.end());
        bsr.offsets.push_back(static_cast<int>(bsr.columns.size()));
    }
    if (!worth_it(bsr, a)) return bsr;
    bsr.values.assign(bsr.columns.size() * block_side * block_side, T(0));
#pragma omp parallel for schedule(static)
    for (int r = 0; r < a.rows; ++r) {
        const auto b = static_cast<std::size_t>(r / block_side);
        const auto first = bsr.columns.begin() + bsr.offsets[b];
        const auto last = bsr.columns.begin() + bsr.offsets[b + 1];
        const auto row = static_cast<std::size_t>(r);
        for (int j = a.offsets[row]; j < a.offsets[row + 1]; ++j) {
            const int column = a.column[static_cast<std::size_t>(j)];
            const auto block = std::lower_bound(first, last, column / block_side) - bsr.columns.begin();
            bsr.values[(static_cast<std::size_t>(block) * block_side + row % block_side) * block_side +
                       static_cast<std::size_t>(column % block_side)] =
                static_cast<T>(a.value[static_cast<std::size_t>(j)]);
        }
    }
    return bsr;
}

template <typename T>
class BsrProduct : public Product<T> {
  public:
    BsrProduct(const Problem& problem, const Bsr<T>& bsr)
        : Product<T>(problem, CUSPARSE_SPMV_BSR_ALG1),
          offsets_(uploaded(bsr.offsets.data(), bsr.offsets.size())),
          columns_(uploaded(bsr.columns.data(), bsr.columns.size())),
          values_(uploaded(bsr.values.data(), bsr.values.size())) {
        const sparse::Csr& a = *problem.matrix;
        const auto blocks = static_cast<std::int64_t>(bsr.columns.size());
        SPMV_CUSPARSE(cusparseCreateBsr(&this->matrix_, a.rows / block_side, a.columns / block_side, blocks,
                                        block_side, block_side, offsets_.data(), columns_.data(),
                                        values_.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                        CUSPARSE_INDEX_BASE_ZERO, real_type<T>(), CUSPARSE_ORDER_ROW));
        this->padding_ = static_cast<double>(bsr.values.size()) / a.entries();
        this->traffic_ =
            static_cast<double>(bsr.values.size()) * sizeof(T) +
            sizeof(int) * (static_cast<double>(blocks) + static_cast<double>(bsr.offsets.size())) +
            problem.vector_bytes();
    }

  private:
    tenken::cuda::DeviceArray<int> offsets_;
    tenken::cuda::DeviceArray<int> columns_;
    tenken::cuda::DeviceArray<T> values_;
};
#endif

}  // namespace

std::vector<std::string> vendor_variants() {
    return {"cusparse_csr_alg1", "cusparse_csr_alg2", "cusparse_coo_alg1",
            "cusparse_coo_alg2", "cusparse_sell",     "cusparse_bsr"};
}

std::string vendor_version() {
    int parts[3] = {0, 0, 0};
    cusparseGetProperty(MAJOR_VERSION, &parts[0]);
    cusparseGetProperty(MINOR_VERSION, &parts[1]);
    cusparseGetProperty(PATCH_LEVEL, &parts[2]);
    return std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." + std::to_string(parts[2]);
}

template <typename T>
std::unique_ptr<VendorProduct> make_vendor_product(const std::string& variant, const sparse::Csr& matrix,
                                                   const CsrView<T>& view, T* x, T* y,
                                                   const tenken::cuda::Stream& stream, std::string& why) {
    Problem problem;
    problem.matrix = &matrix;
    problem.single = sizeof(T) == sizeof(float);
    std::unique_ptr<Product<T>> product;
    if (variant == "cusparse_csr_alg1") {
        product.reset(new CsrProduct<T>(problem, view, CUSPARSE_SPMV_CSR_ALG1));
    } else if (variant == "cusparse_csr_alg2") {
        product.reset(new CsrProduct<T>(problem, view, CUSPARSE_SPMV_CSR_ALG2));
    } else if (variant == "cusparse_coo_alg1") {
        product.reset(new CooProduct<T>(problem, view, CUSPARSE_SPMV_COO_ALG1));
    } else if (variant == "cusparse_coo_alg2") {
        product.reset(new CooProduct<T>(problem, view, CUSPARSE_SPMV_COO_ALG2));
    } else if (variant == "cusparse_sell") {
#ifdef SPMV_HAVE_CUSPARSE_SELL
        sparse::Buffer<std::int64_t> offsets = sparse::sell_offsets(matrix, vendor_slice);
        const std::int64_t places = offsets[offsets.size() - 1];
        if (static_cast<double>(places) > max_padding * matrix.entries() ||
            places > static_cast<std::int64_t>(sparse::max_entries)) {
            why = "sliced ELL would be mostly padding";
            return nullptr;
        }
        product.reset(
            new SellProduct<T>(problem, sparse::to_sell<T>(matrix, vendor_slice, std::move(offsets))));
#else
        why = "cuSPARSE " + vendor_version() + " has no sliced ELL";
        return nullptr;
#endif
    } else {
#ifdef SPMV_HAVE_CUSPARSE_BSR
        if (matrix.rows % block_side != 0 || matrix.columns % block_side != 0) {
            why = "the matrix has no blocks of 3 x 3";
            return nullptr;
        }
        const Bsr<T> bsr = to_bsr<T>(matrix);
        if (!worth_it(bsr, matrix)) {
            why = "the matrix has no blocks of 3 x 3";
            return nullptr;
        }
        product.reset(new BsrProduct<T>(problem, bsr));
#else
        why = "cuSPARSE " + vendor_version() + " multiplies no blocks";
        return nullptr;
#endif
    }
    product->make_ready(x, y, stream);
    return std::unique_ptr<VendorProduct>(std::move(product));
}

#endif

template std::unique_ptr<VendorProduct> make_vendor_product(const std::string&, const sparse::Csr&,
                                                            const CsrView<double>&, double*, double*,
                                                            const tenken::cuda::Stream&, std::string&);
template std::unique_ptr<VendorProduct> make_vendor_product(const std::string&, const sparse::Csr&,
                                                            const CsrView<float>&, float*, float*,
                                                            const tenken::cuda::Stream&, std::string&);

}  // namespace spmv
