// SpMV on the host with OpenMP: CSR, and sliced ELL for the vector units.
#include <cmath>
#include <limits>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/host_dot.h"
#include "lib/base/timed_anew.h"
#include "lib/sparse/sell.h"
#include "programs/spmv/backend.h"

namespace spmv {

namespace {

int max_threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

template <typename T>
std::vector<T> converted(const std::vector<double>& from) {
    return std::vector<T>(from.begin(), from.end());
}

/// A thread processes rows [rows[part], rows[part + 1]).
template <typename T>
void multiply_csr(const sparse::Csr& a, const T* values, const std::vector<int>& rows, const T* x, T* y) {
    const int parts = static_cast<int>(rows.size()) - 1;
    const int* const offsets = a.offsets.data();
    const int* const columns = a.column.data();
#pragma omp parallel for schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        for (int r = rows[static_cast<std::size_t>(part)]; r < rows[static_cast<std::size_t>(part) + 1];
             ++r) {
            T sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int j = offsets[r]; j < offsets[r + 1]; ++j) sum += values[j] * x[columns[j]];
            y[r] = sum;
        }
    }
}

constexpr int slice_height = 8;

template <typename T>
void multiply_sell(const sparse::Sell<T>& a, const T* x, T* y) {
    const int slices = a.slices();
#pragma omp parallel for schedule(static)
    for (int s = 0; s < slices; ++s) {
        T sum[slice_height] = {};
        const std::int64_t end = a.offsets[static_cast<std::size_t>(s) + 1];
        for (std::int64_t i = a.offsets[static_cast<std::size_t>(s)]; i < end; i += slice_height) {
            const int* const columns = a.column.data() + i;
            const T* const values = a.value.data() + i;
#pragma omp simd
            for (int l = 0; l < slice_height; ++l) {
                if (columns[l] >= 0) sum[l] += values[l] * x[columns[l]];
            }
        }
        const int first = s * slice_height;
        for (int l = 0; l < slice_height && first + l < a.rows; ++l) y[first + l] = sum[l];
    }
}

template <typename T>
class Multiplier {
  public:
    explicit Multiplier(const Problem& problem)
        : problem_(problem),
          x_(converted<T>(problem.x)),
          y_(static_cast<std::size_t>(problem.matrix->rows)) {}

    Outcome measure(const std::string& variant, const Plan& plan) {
        const sparse::Csr& a = *problem_.matrix;
        Outcome outcome;
        const double begin = tenken::now_seconds();
        if (variant == "csr") {
            const std::vector<int> rows = sparse::balanced_rows(a, max_threads());
            const T* const values = csr_values();
            outcome.prepare_seconds = tenken::now_seconds() - begin;
            outcome.traffic_bytes = problem_.csr_traffic();
            time(outcome, plan, [&] { multiply_csr<T>(a, values, rows, x_.data(), y_.data()); });
        } else {
            sparse::Buffer<std::int64_t> offsets = sparse::sell_offsets(a, slice_height);
            const auto places = static_cast<double>(offsets[offsets.size() - 1]);
            if (places > max_padding * a.entries())
                return Outcome::none("sliced ELL would be mostly padding");
            const sparse::Sell<T> sell = sparse::to_sell<T>(a, slice_height, std::move(offsets));
            outcome.prepare_seconds = tenken::now_seconds() - begin;
            outcome.traffic_bytes = problem_.sell_traffic(sell.places(), sell.slices());
            outcome.padding = places / a.entries();
            time(outcome, plan, [&] { multiply_sell<T>(sell, x_.data(), y_.data()); });
        }
        outcome.y.assign(y_.begin(), y_.end());
        return outcome;
    }

  private:
    const T* csr_values();

    template <typename Multiply>
    void time(Outcome& outcome, const Plan& plan, const Multiply& multiply) {
        const auto clear = [&] { std::fill(y_.begin(), y_.end(), std::numeric_limits<T>::quiet_NaN()); };
        outcome.seconds = tenken::timed_anew(plan.warmup_seconds, plan.repetitions, clear, multiply);
    }

    const Problem& problem_;
    std::vector<T> x_;
    std::vector<T> y_;
    sparse::Buffer<T> values_;
};

template <>
const double* Multiplier<double>::csr_values() {
    return problem_.matrix->value.data();
}

template <>
const float* Multiplier<float>::csr_values() {
    const sparse::Csr& a = *problem_.matrix;
    if (values_.size() == 0) values_ = sparse::Buffer<float>(a.value.size());
#pragma omp parallel for schedule(static)
    for (int r = 0; r < a.rows; ++r) {
        const auto row = static_cast<std::size_t>(r);
        for (auto j = static_cast<std::size_t>(a.offsets[row]);
             j < static_cast<std::size_t>(a.offsets[row + 1]); ++j) {
            values_[j] = static_cast<float>(a.value[j]);
        }
    }
    return values_.data();
}

class HostPlace : public Place {
  public:
    tenken::Subject subject() const override { return tenken::Subject::host(); }
    std::uint64_t cache_bytes() const override {
        return tenken::describe_host().last_level_cache_bytes.value_or(0);
    }
    std::uint64_t free_bytes() const override { return tenken::available_memory_bytes(); }

    tenken::TimedDots time_dots(long repetitions, double warmup_seconds) override {
        return tenken::time_dots_on_host(cache_bytes(), repetitions, warmup_seconds);
    }

    void load(const Problem& problem) override {
        in_double_.reset();
        in_single_.reset();
        if (problem.single) {
            in_single_.reset(new Multiplier<float>(problem));
        } else {
            in_double_.reset(new Multiplier<double>(problem));
        }
    }

    Outcome measure(const std::string& variant, const Plan& plan) override {
        return in_single_ ? in_single_->measure(variant, plan) : in_double_->measure(variant, plan);
    }

  private:
    std::unique_ptr<Multiplier<double>> in_double_;
    std::unique_ptr<Multiplier<float>> in_single_;
};

class HostFamily : public Family {
  public:
    std::string name() const override { return "host"; }
    std::vector<std::string> variants() const override { return {"csr", "sell"}; }
    std::vector<std::unique_ptr<Place>> places(const tenken::Arguments&) override {
        std::vector<std::unique_ptr<Place>> list;
        list.emplace_back(new HostPlace);
        return list;
    }
};

}  // namespace

std::unique_ptr<Family> make_host_family() {
    return std::unique_ptr<Family>(new HostFamily);
}

}  // namespace spmv
