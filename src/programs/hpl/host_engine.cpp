#include "programs/hpl/host_engine.h"

#include <algorithm>
#include <cstring>

#include "lib/base/clock.h"
#include "lib/base/host_array.h"
#include "lib/base/placement.h"
#include "lib/base/verification.h"
#include "lib/lu/host_lanes.h"

namespace hpl {

namespace {

using tenken::HostArray;

/// The rows that a panel exchanges, from its first row on.
struct Order {
    std::vector<int> top;         ///< the row that moves to each top row
    std::vector<int> low;         ///< lower rows that change
    std::vector<int> low_source;  ///< the rows that move there
};

/// The combined effect of the successive exchanges of rows i and pivots[i]. @param rows the identity,
/// restored on return
Order order_of(const std::vector<int>& pivots, std::vector<int>& rows) {
    const int width = static_cast<int>(pivots.size());
    const auto at = [&](int row) -> int& { return rows[static_cast<std::size_t>(row)]; };
    for (int i = 0; i < width; ++i) std::swap(at(i), at(pivots[static_cast<std::size_t>(i)]));
    Order order;
    for (int i = 0; i < width; ++i) order.top.push_back(at(i));
    for (int row : pivots) {
        if (row < width || at(row) == row) continue;
        order.low.push_back(row);
        order.low_source.push_back(at(row));
        at(row) = row;
    }
    for (int i = 0; i < width; ++i) at(i) = i;
    return order;
}

class HostEngine : public lu::HostLanes<Engine> {
  public:
    HostEngine(const Layout& layout, const Blas& blas, Ranks& ranks, bool direct)
        : layout_(layout),
          blas_(blas),
          ranks_(ranks),
          direct_(direct),
          a_(size(direct ? layout.n * (layout.n + 1) : layout.local_rows * layout.stride)),
          gathered_(size(direct ? 1 : 2 * layout.nb * aligned(layout.padded_columns))),
          slots_{HostArray(slot_size()), HostArray(slot_size())},
          own_{HostArray(own_size()), HostArray(own_size())},
          rows_(static_cast<std::size_t>(layout.n)),
          x_(static_cast<std::size_t>(layout.n)) {
        for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i] = static_cast<int>(i);
    }

    const Layout& layout() const override { return layout_; }

    void generate(const Matrix& matrix) override {
        singular_ = -1;
        if (direct_) {
            const std::int64_t n = layout_.n;
#pragma omp parallel for schedule(static)
            for (std::int64_t j = 0; j <= n; ++j)
                for (std::int64_t i = 0; i < n; ++i) a_[place(i, j, n)] = matrix(i, j);
            return;
        }
#pragma omp parallel for schedule(static)
        for (std::int64_t i = 0; i < layout_.local_rows; ++i) {
            const std::int64_t row = layout_.rows.global(i);
            for (std::int64_t j = 0; j < layout_.stride; ++j) {
                a_[place(j, i, layout_.stride)] =
                    j < layout_.local_columns ? matrix(row, layout_.columns.global(j)) : 0.0;
            }
        }
    }

    void load_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        double* const panel = slot_of(slot);
        if (!layout_.one_row()) std::fill(panel, panel + shape.doubles(), 0.0);
        const std::int64_t column = layout_.columns.below(step.begin);
        for (std::int64_t i = layout_.rows.below(step.begin); i < layout_.local_rows; ++i) {
            const std::int64_t position = layout_.rows.global(i) - step.begin;
            for (std::int64_t j = 0; j < step.width; ++j)
                panel[j * shape.stride + position] = row(i)[column + j];
        }
    }

    void sum_panel(int slot, const Step& step) override {
        ranks_.sum_in_column(slot_of(slot), size(PanelShape(layout_, step).doubles()));
    }

    void factor_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        const int rows = static_cast<int>(shape.rows);
        const int width = static_cast<int>(shape.width);
        const int stride = static_cast<int>(shape.stride);
        std::vector<int>& pivots = pivots_[slot];
        pivots.assign(static_cast<std::size_t>(width), 0);
        int info = 0;
        blas_.dgetrf(&rows, &width, slot_of(slot), &stride, pivots.data(), &info);
        for (int& one : pivots) --one;
        if (info > 0 && singular_ < 0) singular_ = step.begin + info - 1;
    }

    void broadcast_panel(int slot, const Step& step, int root) override {
        std::vector<int>& pivots = pivots_[slot];
        pivots.resize(static_cast<std::size_t>(step.width));
        ranks_.broadcast(slot_of(slot), size(PanelShape(layout_, step).doubles()) * sizeof(double), root);
        ranks_.broadcast(pivots.data(), pivots.size() * sizeof(int), root);
    }

    void ready_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        const double* const panel = slot_of(slot);
        orders_[slot] = order_of(pivots_[slot], rows_);
        if (layout_.rows.owns(step.begin) && layout_.columns.owns(step.begin)) {
            const std::int64_t first = layout_.rows.below(step.begin);
            const std::int64_t column = layout_.columns.below(step.begin);
            for (std::int64_t i = 0; i < step.width; ++i)
                for (std::int64_t j = i; j < step.width; ++j)
                    row(first + i)[column + j] = panel[j * shape.stride + i];
        }
        if (layout_.one_row()) return;
        const std::int64_t first = layout_.rows.below(step.end());
        const std::int64_t count = layout_.local_rows - first;
        for (std::int64_t j = 0; j < step.width; ++j)
            for (std::int64_t i = 0; i < count; ++i)
                own_[slot][place(i, j, aligned(count))] =
                    panel[j * shape.stride + layout_.rows.global(first + i) - step.begin];
    }

    void spoil_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        const std::int64_t below = shape.rows - shape.width;
        const std::int64_t position = below > 0 ? shape.width + below / 2 : shape.rows - 1;
        double& victim = slot_of(slot)[(below > 0 ? shape.width / 2 : 0) * shape.stride + position];
        victim = tenken::with_flipped_bit(victim);
    }

    void swap_rows(Lane, int slot, const Step& step, Range columns) override {
        const Order& order = orders_[slot];
        const std::int64_t stride = aligned(columns.size());
        const bool alone = layout_.one_row();
        const std::size_t bytes = size(columns.size()) * sizeof(double);
        double* const to = gathered_.data();
        if (!alone) std::fill(to, to + 2 * step.width * stride, 0.0);
        const auto gather = [&](std::int64_t place_of_row, int position) {
            const std::int64_t source = step.begin + position;
            if (!layout_.rows.owns(source)) return;
            std::memcpy(to + place_of_row * stride, row(layout_.rows.below(source)) + columns.begin, bytes);
        };
        for (std::int64_t i = 0; i < step.width; ++i) gather(i, order.top[size(i)]);
        if (!alone) {
            for (std::size_t i = 0; i < order.low.size(); ++i)
                gather(step.width + static_cast<std::int64_t>(i), order.low_source[i]);
            ranks_.sum_in_column(to, size(2 * step.width * stride));
        }
        for (std::size_t i = 0; i < order.low.size(); ++i) {
            const std::int64_t target = step.begin + order.low[i];
            if (!layout_.rows.owns(target)) continue;
            const double* const from =
                alone ? row(layout_.rows.below(step.begin + order.low_source[i])) + columns.begin
                      : to + (step.width + static_cast<std::int64_t>(i)) * stride;
            std::memcpy(row(layout_.rows.below(target)) + columns.begin, from, bytes);
        }
    }

    void solve_rows(Lane, int slot, const Step& step, Range columns) override {
        const PanelShape shape(layout_, step);
        const int count = static_cast<int>(columns.size());
        const int width = static_cast<int>(step.width);
        const int stride = static_cast<int>(shape.stride);
        const int ldw = static_cast<int>(aligned(columns.size()));
        const double one = 1;
        // Row-major: BLAS sees the transpose.
        blas_.dtrsm("R", "L", "T", "U", &count, &width, &one, slot_of(slot), &stride, gathered_.data(), &ldw);
        if (!layout_.rows.owns(step.begin)) return;
        const std::int64_t first = layout_.rows.below(step.begin);
        for (std::int64_t i = 0; i < step.width; ++i)
            std::memcpy(row(first + i) + columns.begin, gathered_.data() + i * ldw,
                        size(count) * sizeof(double));
    }

    void multiply(Lane, int slot, const Step& step, Range columns) override {
        const PanelShape shape(layout_, step);
        const std::int64_t first = layout_.rows.below(step.end());
        const int rows = static_cast<int>(layout_.local_rows - first);
        if (rows <= 0) return;
        const int count = static_cast<int>(columns.size());
        const int width = static_cast<int>(step.width);
        const int ldu = static_cast<int>(aligned(columns.size()));
        const int ldl = static_cast<int>(layout_.one_row() ? shape.stride : aligned(rows));
        const int lda = static_cast<int>(layout_.stride);
        const double* const l = layout_.one_row() ? slot_of(slot) + step.width : own_[slot].data();
        const double one = 1;
        const double minus_one = -1;
        blas_.dgemm("N", "T", &count, &rows, &width, &minus_one, gathered_.data(), &ldu, l, &ldl, &one,
                    row(first) + columns.begin, &lda);
    }

    void solve(Ranks& ranks) override {
        std::vector<double> found(size(layout_.local_rows));
        const std::int64_t b = layout_.columns.owns(layout_.n) ? layout_.columns.below(layout_.n) : -1;
        const std::vector<Step> blocks = plan_steps(layout_.n, layout_.nb, 0, 1);
        for (std::size_t k = blocks.size(); k-- > 0;) {
            const Step& step = blocks[k];
            const std::int64_t first = layout_.rows.below(step.begin);
            const std::int64_t column = layout_.columns.below(step.begin);
            const bool has_rows = layout_.rows.owns(step.begin);
            const bool has_columns = layout_.columns.owns(step.begin);
            double* const x = x_.data() + step.begin;
            if (has_rows) {
                for (std::int64_t i = 0; i < step.width; ++i)
                    x[i] = (b >= 0 ? row(first + i)[b] : 0.0) - found[size(first + i)];
                ranks.sum_in_row(x, size(step.width));
                if (has_columns) {
                    for (std::int64_t i = step.width; i-- > 0;) {
                        const double* const u = row(first + i) + column;
                        for (std::int64_t j = i + 1; j < step.width; ++j) x[i] -= u[j] * x[j];
                        x[i] /= u[i];
                    }
                }
            }
            ranks.broadcast(x, size(step.width) * sizeof(double),
                            ranks.at(layout_.rows.owner(step.begin), layout_.columns.owner(step.begin)));
            if (!has_columns) continue;
#pragma omp parallel for schedule(static)
            for (std::int64_t i = 0; i < first; ++i) {
                const double* const u = row(i) + column;
                double sum = 0;
                for (std::int64_t j = 0; j < step.width; ++j) sum += u[j] * x[j];
                found[size(i)] += sum;
            }
        }
    }

    bool direct() const override { return direct_; }

    std::int64_t solve_directly(bool spoil) override {
        const int n = static_cast<int>(layout_.n);
        const int one = 1;
        int info = 0;
        std::vector<int> pivots(size(n));
        blas_.dgetrf(&n, &n, a_.data(), &n, pivots.data(), &info);
        if (info > 0) return info - 1;
        if (spoil) {
            double& victim = a_[place(n - 1, n / 2, n)];
            victim = tenken::with_flipped_bit(victim);
        }
        double* const b = a_.data() + place(0, n, n);
        blas_.dgetrs("N", &n, &one, a_.data(), &n, pivots.data(), b, &n, &info);
        std::copy(b, b + n, x_.begin());
        return -1;
    }

    Norms norms(const Matrix& matrix, std::int64_t begin, std::int64_t end) override {
        Norms found;
        for (double value : x_) found.x = Norms::larger(found.x, value);
#pragma omp parallel
        {
            Norms mine;
#pragma omp for schedule(static)
            for (std::int64_t i = begin; i < end; ++i) {
                double residual = 0;
                double weight = 0;
                for (std::int64_t j = 0; j < layout_.n; ++j) {
                    const double value = matrix(i, j);
                    residual += value * x_[size(j)];
                    weight += std::fabs(value);
                }
                const double b = matrix(i, layout_.n);
                mine.add_row(residual - b, weight, b);
            }
#pragma omp critical(hpl_norms)
            found.add_row(mine.r, mine.a, mine.b);
        }
        return found;
    }

    std::vector<double> solution() override { return x_; }

    std::vector<double> time_products(double heat_seconds, int repetitions, double& flops) override {
        const std::int64_t width = std::min(layout_.nb, layout_.n);
        const std::int64_t row0 = layout_.rows.below(width);
        const std::int64_t column0 = layout_.columns.below(width);
        const int rows = static_cast<int>(layout_.local_rows - row0);
        const int columns = static_cast<int>(layout_.local_columns - column0);
        flops =
            2.0 * std::max(0, rows) * static_cast<double>(std::max(0, columns)) * static_cast<double>(width);
        if (flops <= 0) return {};
        const int k = static_cast<int>(width);
        const int lda = static_cast<int>(direct_ ? layout_.n : layout_.stride);
        const int m = direct_ ? rows : columns;
        const int n = direct_ ? columns : rows;
        HostArray left(size(std::int64_t{m} * k));
        HostArray right(size(std::int64_t{n} * k));
        for (HostArray* const one : {&left, &right})
            for (std::size_t i = 0; i < one->size(); ++i)
                (*one)[i] = element(1, static_cast<std::int64_t>(i), 0);
        double* const c = a_.data() + (direct_ ? place(row0, column0, lda) : place(column0, row0, lda));
        const double one = 1;
        const double minus_one = -1;
        const auto product = [&] {
            blas_.dgemm("N", "T", &m, &n, &k, &minus_one, left.data(), &m, right.data(), &n, &one, c, &lda);
        };
        tenken::warm_up(heat_seconds, product);
        return tenken::time_each(repetitions, product);
    }

    std::vector<double> time_library(const Matrix&, int, std::string& why_not) override {
        why_not = "the host uses the library by default";
        return {};
    }

    void describe(tenken::Document& document) const override {
        document.path("blas", blas_.text());
        document.path("algorithm", direct_ ? "dgetrf and dgetrs" : "blocks over ranks, panels by dgetrf");
        document.placement.numa_nodes_of_memory = tenken::numa_nodes_of(a_.data(), a_.bytes());
    }

  private:
    static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
    static std::size_t place(std::int64_t i, std::int64_t j, std::int64_t stride) {
        return size(j * stride + i);
    }
    std::size_t slot_size() const { return size(direct_ ? 1 : aligned(layout_.n) * layout_.nb); }
    std::size_t own_size() const {
        return size(direct_ || layout_.one_row() ? 1 : aligned(layout_.local_rows + 1) * layout_.nb);
    }
    double* row(std::int64_t local) { return a_.data() + local * layout_.stride; }
    double* slot_of(int slot) { return slots_[slot].data(); }

    Layout layout_;
    const Blas& blas_;
    Ranks& ranks_;
    bool direct_;
    HostArray a_;
    HostArray gathered_;
    HostArray slots_[2];
    HostArray own_[2];
    std::vector<int> pivots_[2];
    Order orders_[2];
    std::vector<int> rows_;
    std::vector<double> x_;
};

}  // namespace

std::uint64_t host_bytes(const Layout& layout, bool direct) {
    const std::uint64_t n = static_cast<std::uint64_t>(layout.n);
    const std::uint64_t nb = static_cast<std::uint64_t>(layout.nb);
    const std::uint64_t beside = 2 * nb * (n + alignment);  // operands of the timed products
    if (direct) return sizeof(double) * (n * (n + 1) + beside);
    const std::uint64_t columns = static_cast<std::uint64_t>(layout.padded_columns);
    return layout.bytes() + sizeof(double) * (beside + 2 * nb * columns + 4 * nb * (n + alignment));
}

std::unique_ptr<Engine> make_host_engine(const Layout& layout, const Blas& blas, Ranks& ranks, bool direct) {
    return std::unique_ptr<Engine>(new HostEngine(layout, blas, ranks, direct));
}

}  // namespace hpl
