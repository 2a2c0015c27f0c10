// The engine on a GPU: factorisation, refinement and verification are in separate files.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/hpl_mxp/gpu_engine.h"
#include "programs/hpl_mxp/gpu_lane.h"
#include "programs/hpl_mxp/low_products.h"

namespace mxp {

constexpr int threads = 256;
/// Columns of A that one block of threads regenerates for a residual, and rows per thread.
constexpr std::int64_t residual_columns = 8192;
constexpr int residual_rows = 4;
/// Groups of columns verified at a time.
constexpr std::int64_t groups_at_once = 64;

/// Numbers rounded to below the normal range of the low format, or beyond it.
struct Counts {
    unsigned long long small;
    unsigned long long overflowed;
};

class GpuEngine : public lu::GpuLanes<Engine, LaneParts> {
  public:
    /// @param sizes of this distribution
    GpuEngine(std::int64_t n, const lu::Distribution& distribution, const Sizes& sizes, lu::Ranks& ranks,
              const GpuChoices& choices, lu::Communicator* communicator)
        : GpuLanes(sizes.temporary_update, sizes.low_update, sizes.temporary_panel, sizes.low_panel),
          ranks_(ranks),
          choices_(choices),
          communicator_(communicator),
          n_(n),
          distribution_(distribution),
          sizes_(sizes),
          rows_(sizes_.rows),
          ld_(sizes_.ld),
          a_(size(std::max<std::int64_t>(sizes_.a, 1))),
          inverse_l_(size(std::max<std::int64_t>(sizes_.inverses, 1))),
          inverse_u_(size(std::max<std::int64_t>(sizes_.inverses, 1))),
          slots_{DeviceArray<char>(size(sizes_.slot_bytes)), DeviceArray<char>(size(sizes_.slot_bytes))},
          fp8_l_{DeviceArray<unsigned char>(fp8(sizes_.slot_low)),
                 DeviceArray<unsigned char>(fp8(sizes_.slot_low))},
          fp8_u_update_(fp8(sizes_.low_update)),
          fp8_u_panel_(fp8(sizes_.low_panel)),
          states_(size(n + 1)),
          x_(size(n)),
          counts_(1),
          info_(size(rows_ / gpu_tile)) {
        int device = 0;
        TENKEN_CUDA(cudaGetDevice(&device));
        TENKEN_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
        TENKEN_CUSOLVER(cusolverDnCreate(&solver_));
        TENKEN_CUSOLVER(cusolverDnSetStream(solver_, panel_.stream.get()));
        int floats = 0;
        TENKEN_CUSOLVER(cusolverDnSgetrf_bufferSize(solver_, gpu_tile, gpu_tile, a_.data(),
                                                    static_cast<int>(ld_), &floats));
        solver_work_.reset(new DeviceArray<float>(size(floats) + 1));
        if (choices.low == Low::fp8) TENKEN_CUDA(cudaMemset(fp8_l_[0].data(), 0, fp8_l_[0].bytes()));
    }
    ~GpuEngine() override {
        cudaDeviceSynchronize();
        if (solver_ != nullptr) cusolverDnDestroy(solver_);
    }
    const lu::Distribution& distribution() const override { return distribution_; }
    std::int64_t end_of_columns() const override { return distribution_.local_columns; }
    std::int64_t tile() const override { return gpu_tile; }
    void generate(const Matrix& matrix) override;
    void breaks(Broken broken, const lu::Step& step) override;
    /// In A itself; the data for other processes is stored in the slot: L below the triangles in 16 bits, and
    /// the inverses of the triangles of L.
    void factor_panel(int slot, const lu::Step& step) override;
    void broadcast_panel(int slot, const lu::Step& step, int root) override;
    void ready_panel(int slot, const lu::Step& step) override;
    void solve_rows(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) override;
    void multiply(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) override;
    std::int64_t finish() override {
        update_.stream.synchronize();
        panel_.stream.synchronize();
        std::vector<int> info(info_.size());
        TENKEN_CUDA(cudaMemcpy(info.data(), info_.data(), info_.bytes(), cudaMemcpyDeviceToHost));
        for (std::size_t t = 0; t < info.size(); ++t)
            if (info[t] != 0) return static_cast<std::int64_t>(t) * gpu_tile + info[t] - 1;
        return -1;
    }
    std::vector<double> correction(lu::Ranks& ranks, const std::vector<double>& r) override;
    std::vector<double> residual(const Matrix& matrix, const std::vector<double>& x, std::int64_t begin,
                                 std::int64_t end, std::vector<double>* sums) override;
    Conversions conversions() override;
    FactorError factor_error(const Matrix& matrix, lu::Ranks& ranks) override;
    double bound_at(std::int64_t row, std::int64_t group) override;
    void spoil(std::int64_t row, std::int64_t column, double change) override;
    std::vector<double> time_products(const Matrix& matrix, double heat_seconds, int repetitions,
                                      double& flops) override;
    void describe(tenken::Document& document) const override;

  private:
    std::size_t fp8(std::int64_t bytes) const { return choices_.low == Low::fp8 ? size(bytes) : 1; }
    std::int64_t height(const lu::Step& step) const { return rows_ - step.begin; }
    DeviceArray<unsigned char>& fp8_u(lu::Lane lane) {
        return lane == lu::Lane::update ? fp8_u_update_ : fp8_u_panel_;
    }
    float* at(std::int64_t row, std::int64_t local_column) { return a_.data() + local_column * ld_ + row; }
    /// The panel of a slot: height(step) rows from step.begin on.
    unsigned short* low_of(int slot) { return reinterpret_cast<unsigned short*>(slots_[slot].data()); }
    float* inverse_of(int slot, const lu::Step& step, std::int64_t t) {
        return reinterpret_cast<float*>(slots_[slot].data() + 2 * height(step) * step.width) +
               t * gpu_tile * gpu_tile;
    }
    static unsigned grid_of(std::int64_t columns) {
        return static_cast<unsigned>(std::min<std::int64_t>((columns + 31) / 32, 65535));
    }
    std::int64_t valid(std::int64_t first, std::int64_t count) const {
        return std::max<std::int64_t>(0, std::min(count, n_ - first));
    }

    // The factorisation (gpu_engine.cu)
    void leave_multiprocessors(int count);
    /// Multiprocessors used by a product of the update's lane; 0: all.
    int kept() const { return left_ == 0 ? 0 : multiprocessors_ - left_; }
    Low sixteen_bits() const { return choices_.low == Low::bf16 ? Low::bf16 : Low::fp16; }
    LowProduct product_of(Low low, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t l_ld,
                          std::int64_t u_ld, int multiprocessors) const;
    /// Tries algorithms for the update and for the rows of U, on the data of the first step.
    void choose_products(const lu::Step& step, lu::Range columns);
    /// C -= L U / scales, both of 16 bits.
    void subtract(LaneParts& parts, std::int64_t m, std::int64_t n, std::int64_t k, const unsigned short* l,
                  std::int64_t l_ld, const unsigned short* u, std::int64_t u_ld, float* c);
    void multiply_fp8(LaneParts& parts, lu::Lane lane, int slot, const lu::Step& step, lu::Range columns,
                      float* c);
    /// temporary = inverse A or A inverse, m x n, where the inverse is of order 512.
    void apply_inverse(LaneParts& parts, bool from_left, std::int64_t m, std::int64_t n, const float* inverse,
                       const float* a);
    /// Stores the result of apply_inverse() in A and, scaled and rounded, in `low`.
    void store(LaneParts& parts, std::int64_t m, std::int64_t n, float* a, unsigned short* low,
               std::int64_t low_ld, double scale, std::int64_t valid_rows, std::int64_t valid_columns);
    /// Converts rows of the tiles [begin, end) of a panel to rows of U: with the panel's L in 16 bits, and
    /// the inverted triangles. `low` holds them from tile `begin` on.
    void solve_tiles(LaneParts& parts, int slot, const lu::Step& step, std::int64_t begin, std::int64_t end,
                     lu::Range columns, unsigned short* low);
    /// Tiles [begin, end) of a panel whose first column is local column `first`: the left half, its update
    /// of the right half, the right half.
    void factor_tiles(int slot, const lu::Step& step, std::int64_t first, std::int64_t begin,
                      std::int64_t end);
    void factor_tile(int slot, const lu::Step& step, std::int64_t first, std::int64_t t);

    // Refinement (gpu_refinement.cu)
    /// v contains a part of every unknown's right-hand side in each process; their sum is the whole. The
    /// solution is stored in y of the owner of the columns.
    void solve_block(lu::Ranks& ranks, const lu::Step& block, bool lower);
    void sum_over_ranks(lu::Ranks& ranks, DeviceArray<float>& values, std::int64_t groups);

    // Verification of the factors (gpu_verification.cu)
    /// z += L w, squares += L^2 q, of 512 columns of L without their diagonal.
    void add_lower(std::int64_t column, std::int64_t first_group, std::int64_t groups,
                   const DeviceArray<float>& w, const DeviceArray<float>& q, DeviceArray<float>& z,
                   DeviceArray<float>& squares, DeviceArray<float>& squares_panel,
                   DeviceArray<float>& l_squares);

    lu::Ranks& ranks_;
    GpuChoices choices_;
    lu::Communicator* communicator_;
    std::int64_t n_;
    lu::Distribution distribution_;
    Sizes sizes_;
    std::int64_t rows_;
    std::int64_t ld_;
    Matrix matrix_ = {0, 0, 0};
    float scale_l_ = 1;
    DeviceArray<float> a_;
    DeviceArray<float> inverse_l_;  ///< of the triangles of this process's columns
    DeviceArray<float> inverse_u_;
    DeviceArray<char> slots_[2];
    DeviceArray<unsigned char> fp8_l_[2];
    DeviceArray<unsigned char> fp8_u_update_;
    DeviceArray<unsigned char> fp8_u_panel_;
    DeviceArray<std::uint64_t> states_;
    DeviceArray<double> x_;
    DeviceArray<Counts> counts_;
    DeviceArray<int> info_;  ///< of the triangles, by cuSOLVER
    cusolverDnHandle_t solver_ = nullptr;
    std::unique_ptr<DeviceArray<float>> solver_work_;
    LowProducts products_by_trial_;
    std::unique_ptr<DeviceArray<float>> v_;
    std::unique_ptr<DeviceArray<float>> y_;
    std::unique_ptr<DeviceArray<double>> products_;
    std::unique_ptr<DeviceArray<double>> sums_;
    std::unique_ptr<DeviceArray<double>> r_;
    std::unique_ptr<DeviceArray<double>> row_sums_;
    std::unique_ptr<DeviceArray<float>> bounds_;
    double converted_ = 0;
    int multiprocessors_ = 1;
    int left_ = 0;         ///< multiprocessors left to the panel by updates
    bool beside_ = false;  ///< whether a panel is factorised concurrently with the updates
    Broken broken_ = Broken::none;
    std::int64_t broken_at_ = -1;
};

}  // namespace mxp
