// The factorisation on the host: operands of the update are rounded to their format, sums are FP32, panels
// and triangular solves FP32. Tests of accuracy, refinement and verification use it without a
// GPU.
#include <algorithm>
#include <stdexcept>

#include "lib/base/clock.h"
#include "lib/base/program.h"
#include "lib/lu/host_lanes.h"
#include "programs/hpl_mxp/backend.h"

namespace mxp {

namespace {

constexpr std::int64_t host_tile = 32;
/// Rows and columns of the tile omitted by Broken::lost_tile.
constexpr std::int64_t lost = 32;

std::size_t size(std::int64_t count) {
    return static_cast<std::size_t>(count);
}

std::int64_t padded(std::int64_t n) {
    return (n + host_tile - 1) / host_tile * host_tile;
}

class HostEngine : public lu::HostLanes<Engine> {
  public:
    HostEngine(std::int64_t n, std::int64_t nb, lu::Ranks& ranks, Low low)
        : ranks_(ranks),
          low_(format_of(low)),
          rows_(padded(n)),
          distribution_(rows_, rows_, nb, 1, ranks.size(), 0, ranks.rank()),
          a_(size(rows_ * distribution_.local_columns)),
          u_(size(nb * distribution_.local_columns)) {
        for (Slot& slot : slots_) slot.resize(size(rows_ * nb));
    }

    const lu::Distribution& distribution() const override { return distribution_; }
    std::int64_t end_of_columns() const override { return distribution_.local_columns; }
    std::int64_t tile() const override { return host_tile; }

    void generate(const Matrix& matrix) override {
        matrix_ = matrix;
        scale_l_ = scale_l(matrix.diagonal);
        conversions_ = {};
        singular_ = -1;
#pragma omp parallel for schedule(static)
        for (std::int64_t j = 0; j < distribution_.local_columns; ++j) {
            const std::int64_t column = distribution_.columns.global(j);
            for (std::int64_t i = 0; i < rows_; ++i) {
                const bool inside = i < matrix.n && column < matrix.n;
                at(i, j) = inside ? static_cast<float>(matrix(i, column)) : i == column ? 1.0f : 0.0f;
            }
        }
    }

    void breaks(Broken broken, const lu::Step& step) override {
        broken_ = broken;
        broken_at_ = step.begin;
    }

    /// A slot contains the columns of the panel, the triangle in FP32 and the part below it rounded and
    /// scaled.
    void factor_panel(int slot, const lu::Step& step) override {
        const std::int64_t first = distribution_.columns.below(step.begin);
        for (std::int64_t k = 0; k < step.width; ++k) {
            const std::int64_t row = step.begin + k;
            const float pivot = at(row, first + k);
            if (!(std::fabs(pivot) > 0) && singular_ < 0) singular_ = row;
            for (std::int64_t i = row + 1; i < rows_; ++i) at(i, first + k) /= pivot;
#pragma omp parallel for schedule(static)
            for (std::int64_t j = k + 1; j < step.width; ++j) {
                const float u = at(row, first + j);
                const float* const l = &at(0, first + k);
                float* const c = &at(0, first + j);
                for (std::int64_t i = row + 1; i < rows_; ++i) c[i] -= l[i] * u;
            }
        }
        if (broken_ == Broken::zero_l && step.begin == broken_at_)
            for (std::int64_t j = 0; j < step.width; ++j)
                for (std::int64_t i = step.end(); i < rows_; ++i) at(i, first + j) = 0;
        const std::int64_t height = rows_ - step.begin;
        for (std::int64_t j = 0; j < step.width; ++j) {
            float* const to = slots_[slot].data() + j * height;
            for (std::int64_t i = 0; i < height; ++i) {
                const float value = at(step.begin + i, first + j);
                const bool counted = step.begin + i < matrix_.n && step.begin + j < matrix_.n;
                to[i] = i < step.width ? value : converted(value * scale_l_, counted);
            }
        }
    }

    void broadcast_panel(int slot, const lu::Step& step, int root) override {
        ranks_.broadcast(slots_[slot].data(), size((rows_ - step.begin) * step.width) * sizeof(float), root);
    }
    void ready_panel(int, const lu::Step&) override {}

    void solve_rows(lu::Lane, int slot, const lu::Step& step, lu::Range columns) override {
        const std::int64_t height = rows_ - step.begin;
        const float* const l = slots_[slot].data();
        for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            float* const c = &at(step.begin, j);
            for (std::int64_t k = 0; k < step.width; ++k)
                for (std::int64_t i = k + 1; i < step.width; ++i) c[i] -= l[k * height + i] * c[k];
            for (std::int64_t k = 0; k < step.width; ++k)
                u_[size(j * distribution_.nb + k)] =
                    converted(c[k] * scale_u,
                              step.begin + k < matrix_.n && distribution_.columns.global(j) < matrix_.n);
        }
    }

    void multiply(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) override {
        if (broken_ == Broken::skip_updates) return;
        const bool here = step.begin == broken_at_ && lane == lu::Lane::update;
        if (broken_ == Broken::skip_update && step.begin == broken_at_) return;
        const std::int64_t height = rows_ - step.begin;
        const float back = static_cast<float>(1.0 / (scale_l_ * scale_u));
#pragma omp parallel for schedule(static)
        for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            std::vector<float> sum(size(height - step.width), 0.0f);
            for (std::int64_t k = 0; k < step.width; ++k) {
                const float u = u_[size(j * distribution_.nb + k)];
                const float* const l = slots_[slot].data() + k * height + step.width;
                for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += l[i] * u;
            }
            const bool loses = here && broken_ == Broken::lost_tile && j >= columns.end - lost;
            float* const c = &at(step.end(), j);
            const std::int64_t written = static_cast<std::int64_t>(sum.size()) - (loses ? lost : 0);
            for (std::int64_t i = 0; i < written; ++i) c[i] -= back * sum[size(i)];
        }
    }

    std::vector<double> correction(lu::Ranks& ranks, const std::vector<double>& r) override {
        std::vector<double> v(size(rows_), 0.0);
        if (ranks.rank() == 0) std::copy(r.begin(), r.end(), v.begin());
        const std::vector<lu::Step> blocks = lu::plan_steps(rows_, distribution_.nb, 0, 1);
        for (std::size_t b = 0; b < blocks.size(); ++b) solve_block(ranks, blocks[b], v, true);
        for (std::size_t b = blocks.size(); b-- > 0;) solve_block(ranks, blocks[b], v, false);
        if (ranks.size() > 1) ranks.sum_in_row(v.data(), v.size());
        v.resize(r.size());
        return v;
    }

    std::vector<double> residual(const Matrix& matrix, const std::vector<double>& x, std::int64_t begin,
                                 std::int64_t end, std::vector<double>* sums) override {
        std::vector<double> r(size(end - begin));
        if (sums != nullptr) sums->assign(r.size(), 0.0);
        std::vector<std::uint64_t> states(size(matrix.n));
        for (std::int64_t j = 0; j < matrix.n; ++j) states[size(j)] = column_state(matrix.seed, j);
#pragma omp parallel for schedule(static)
        for (std::int64_t i = begin; i < end; ++i) {
            double product = 0;
            double sum = 0;
            for (std::int64_t j = 0; j < matrix.n; ++j) {
                const double value = uniform_of(states[size(j)], i) + (i == j ? matrix.diagonal : 0.0);
                product += value * x[size(j)];
                sum += std::fabs(value);
            }
            r[size(i - begin)] = matrix.rhs(i) - product;
            if (sums != nullptr) (*sums)[size(i - begin)] = sum;
        }
        return r;
    }

    Conversions conversions() override { return conversions_; }

    FactorError factor_error(const Matrix& matrix, lu::Ranks& ranks) override {
        const std::int64_t groups = rows_ / host_tile;
        const std::size_t count = size(rows_ * groups);
        // By group: U with signs, its squares; then L times them.
        std::vector<double> w(count, 0.0);
        std::vector<double> q(count, 0.0);
        for (std::int64_t j = 0; j < distribution_.local_columns; ++j) {
            const std::int64_t column = distribution_.columns.global(j);
            const std::size_t group = size(column / host_tile * rows_);
            for (std::int64_t i = 0; i <= column; ++i) {
                w[group + size(i)] += sign_of(matrix.seed, column) * at(i, j);
                q[group + size(i)] += static_cast<double>(at(i, j)) * at(i, j);
            }
        }
        if (ranks.size() > 1) {
            ranks.sum_in_row(w.data(), count);
            ranks.sum_in_row(q.data(), count);
        }
        std::vector<double> z(count, 0.0);
        std::vector<double> low(count, 0.0);
        std::vector<double> panel(count, 0.0);
#pragma omp parallel for schedule(static)
        for (std::int64_t g = 0; g < groups; ++g) {
            for (std::int64_t j = 0; j < distribution_.local_columns; ++j) {
                const std::int64_t column = distribution_.columns.global(j);
                const std::size_t from = size(g * rows_ + column);
                std::vector<double>& squares = column / host_tile == g ? panel : low;
                z[from] += w[from];  // L is 1 on its diagonal
                for (std::int64_t i = column + 1; i < rows_; ++i) {
                    const double l = at(i, j);
                    z[size(g * rows_ + i)] += l * w[from];
                    squares[size(g * rows_ + i)] += l * l * q[from];
                }
            }
        }
        if (ranks.size() > 1) {
            for (std::vector<double>* const one : {&z, &low, &panel}) ranks.sum_in_row(one->data(), count);
        }
        const FactorBound bound = {low_.unit_roundoff(), 1.0 / 8388608,
                                   static_cast<double>(rows_ / host_tile), matrix.diagonal,
                                   static_cast<double>(host_tile)};
        bounds_.assign(count, 0.0);
        FactorError worst;
        for (std::int64_t g = 0; g < groups; ++g) {
            for (std::int64_t i = 0; i < matrix.n; ++i) {
                const std::size_t place = size(g * rows_ + i);
                double sum = 0;
                const std::int64_t end = std::min((g + 1) * host_tile, matrix.n);
                for (std::int64_t j = g * host_tile; j < end; ++j)
                    sum += sign_of(matrix.seed, j) * matrix(i, j);
                bounds_[place] = bound.of(low[place], panel[place] + q[place], i / host_tile == g);
                const double ratio = std::fabs(sum - z[place]) / bounds_[place];
                if (!(ratio <= worst.ratio))
                    worst = {std::isfinite(ratio) ? ratio : 1e300, i, g, bounds_[place]};
            }
        }
        return worst;
    }

    double bound_at(std::int64_t row, std::int64_t group) override {
        return bounds_[size(group * rows_ + row)];
    }

    void spoil(std::int64_t row, std::int64_t column, double change) override {
        if (!distribution_.columns.owns(column)) return;
        float& victim = at(row, distribution_.columns.below(column));
        victim = static_cast<float>(victim + change);
    }

    std::vector<double> time_products(const Matrix& matrix, double heat_seconds, int repetitions,
                                      double& flops) override {
        generate(matrix);
        const lu::Step step = {0, std::min(distribution_.nb, rows_)};
        const lu::Range columns = {distribution_.columns.below(step.end()), distribution_.local_columns};
        flops = 2.0 * static_cast<double>(rows_ - step.width) * static_cast<double>(columns.size()) *
                static_cast<double>(step.width);
        if (flops <= 0) return {};
        std::copy(a_.begin(), a_.begin() + static_cast<std::ptrdiff_t>(std::min(a_.size(), slots_[0].size())),
                  slots_[0].begin());
        std::fill(u_.begin(), u_.end(), 1.0f);
        tenken::warm_up(heat_seconds, [&] { multiply(lu::Lane::update, 0, step, columns); });
        return tenken::time_each(repetitions, [&] { multiply(lu::Lane::update, 0, step, columns); });
    }

    void describe(tenken::Document& document) const override {
        document.path("update", "emulated: operands rounded, sums FP32");
        document.path("panel", "FP32");
    }

  private:
    using Slot = std::vector<float>;

    float& at(std::int64_t i, std::int64_t j) { return a_[size(j * rows_ + i)]; }

    /// @param counted no: padding
    float converted(double value, bool counted) {
        const double result = tenken::rounded(value, low_);
        if (!counted) return static_cast<float>(result);
        ++conversions_.all;
        if (std::fabs(result) < low_.min_normal()) ++conversions_.small;
        if (!(std::fabs(value) <= low_.largest)) ++conversions_.overflowed;
        return static_cast<float>(result);
    }

    /// v contains a part of every unknown's right-hand side in each process; their sum is the whole. The
    /// solution is stored by the owner of the columns, and zero elsewhere.
    void solve_block(lu::Ranks& ranks, const lu::Step& block, std::vector<double>& v, bool lower) {
        double* const part = v.data() + block.begin;
        if (ranks.size() > 1) ranks.sum_in_row(part, size(block.width));
        if (!distribution_.columns.owns(block.begin)) {
            std::fill(part, part + block.width, 0.0);
            return;
        }
        const std::int64_t first = distribution_.columns.below(block.begin);
        for (std::int64_t step = 0; step < block.width; ++step) {
            const std::int64_t k = lower ? step : block.width - 1 - step;
            const std::int64_t row = block.begin + k;
            const float* const column = &at(0, first + k);
            if (!lower) v[size(row)] = static_cast<float>(v[size(row)]) / column[row];
            const double x = v[size(row)];
            const std::int64_t begin = lower ? row + 1 : 0;
            const std::int64_t end = lower ? rows_ : row;
            for (std::int64_t i = begin; i < end; ++i) v[size(i)] -= column[i] * x;
        }
    }

    lu::Ranks& ranks_;
    tenken::Format low_;
    std::int64_t rows_;
    lu::Distribution distribution_;
    Matrix matrix_ = {0, 0, 0};
    double scale_l_ = 1;
    std::vector<float> a_;
    std::vector<float> u_;  ///< rounded rows of U, by column
    Slot slots_[2];
    std::vector<double> bounds_;
    Conversions conversions_;
    Broken broken_ = Broken::none;
    std::int64_t broken_at_ = -1;
};

class HostBackend : public tenken::HostRankBackend<Backend> {
  public:
    void prepare(const tenken::Arguments&, lu::Ranks& ranks, Low low) override {
        low_ = low;
        share_with(ranks);
    }
    std::int64_t tile() const override { return host_tile; }
    std::int64_t usual_n() const override { return 768; }
    std::int64_t usual_nb() const override { return 64; }
    std::uint64_t needed_bytes(std::int64_t n, std::int64_t nb, int processes) const override {
        const auto rows = static_cast<std::uint64_t>(padded(n));
        const auto blocks = static_cast<std::uint64_t>(nb);
        const auto columns = rows / static_cast<std::uint64_t>(processes) + blocks;
        return 4 * (rows * columns + 2 * rows * blocks + blocks * columns) +
               8 * 7 * rows * (rows / static_cast<std::uint64_t>(host_tile));
    }
    std::unique_ptr<Engine> make(std::int64_t n, std::int64_t nb, lu::Ranks& ranks) override {
        return std::unique_ptr<Engine>(new HostEngine(n, nb, ranks, low_));
    }

  private:
    Low low_ = Low::fp16;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() {
    return std::unique_ptr<Backend>(new HostBackend);
}

}  // namespace mxp
