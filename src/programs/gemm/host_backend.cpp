// Products on the host, with formats and sums emulated bit by bit, so that verification and counting
// can be tested without a GPU. Its rates are meaningless.
#include <algorithm>
#include <cmath>

#include "catalogue/gemm.h"
#include "lib/base/clock.h"
#include "lib/base/verification.h"
#include "programs/gemm/backend.h"

namespace gemm {

namespace {

/// Truncates to this many bits, as tensor cores do.
double cut(double value, int digits) {
    if (value == 0) return 0;
    int exponent = 0;
    std::frexp(value, &exponent);
    const double unit = std::ldexp(1.0, exponent - digits);
    return std::trunc(value / unit) * unit;
}

/// Accumulates a sum in a given precision.
class Sum {
  public:
    explicit Sum(Sums kind) : kind_(kind) {}

    void add(double product) {
        switch (kind_) {
            case Sums::fp64:
            case Sums::int32:
                whole_ += product;
                return;
            case Sums::fp32:
                whole_ = static_cast<double>(static_cast<float>(whole_ + product));
                return;
            case Sums::fp8_exact:
            case Sums::fp8_fast:
                together_ += product;
                if (++count_ % 32 == 0) flush();
                if (kind_ == Sums::fp8_exact && count_ % 128 == 0) carry();
                return;
        }
    }

    double value() {
        if (kind_ == Sums::fp8_exact || kind_ == Sums::fp8_fast) {
            flush();
            carry();
        }
        return whole_;
    }

  private:
    void flush() {
        part_ = cut(part_ + together_, 14);
        together_ = 0;
    }
    void carry() {
        whole_ = static_cast<double>(static_cast<float>(whole_ + part_));
        part_ = 0;
    }

    Sums kind_;
    double whole_ = 0;
    double part_ = 0;
    double together_ = 0;
    int count_ = 0;
};

class HostPlace : public Place {
  public:
    tenken::Subject subject() const override { return tenken::Subject::host(); }
    std::string clock() const override { return "host"; }

    std::string prepare(const Case& one) override {
        case_ = one;
        const Shape& shape = one.shape;
        if (shape.operations() > 1e11) return "the host emulates up to 10^11 operations";
        a_.assign(static_cast<std::size_t>(shape.m * shape.k * shape.batch), 0);
        b_.assign(static_cast<std::size_t>(shape.k * shape.n * shape.batch), 0);
        c_.assign(static_cast<std::size_t>(shape.m * shape.n * shape.batch), 0);
        return "";
    }

    void fill(Data data) override {
        for (std::size_t i = 0; i < a_.size(); ++i)
            a_[i] = data == Data::zeros ? 0 : operand(case_.precision->a, 1, i);
        for (std::size_t i = 0; i < b_.size(); ++i)
            b_[i] = data == Data::zeros ? 0 : operand(case_.precision->b, 2, i);
        reset();
    }

    Choice choose(double, bool) override { return {"emulated", 1}; }
    std::string take_first() override { return "emulated"; }
    double of_best() override { return 1; }

    std::vector<Batch> run_for(double seconds) override {
        std::vector<Batch> batches;
        const double begin = tenken::now_seconds();
        do {
            const double before = tenken::now_seconds();
            multiply();
            batches.push_back({before - begin, tenken::now_seconds() - before, 1});
        } while (tenken::now_seconds() - begin < seconds || batches.size() < 3);
        return batches;
    }

    tenken::Meter* energy() override { return meter_.there() ? &meter_ : nullptr; }

    tenken::Check verify(tenken::Fault fault) override {
        if (case_.precision->adds) {
            reset();
            multiply();
        }
        const Shape& shape = case_.shape;
        const Bound bound = bound_of(*case_.precision, shape.k);
        const std::size_t victim = c_.size() - 1;
        if (fault == tenken::Fault::element) {
            const Exact exact = exact_of(victim);
            const double change = 2.01 * bound.of(exact.value, exact.norm_a, exact.norm_b);
            c_[victim] = stored(exact.value + (exact.value < 0 ? -change : change), case_.precision->c);
        }
        // relative to the bound: any NaN persists
        double worst = 0;
        std::size_t first = c_.size();
#pragma omp parallel for schedule(static)
        for (std::size_t i = 0; i < c_.size(); ++i) {
            const Exact exact = exact_of(i);
            const double error =
                std::fabs(c_[i] - exact.value) / bound.of(exact.value, exact.norm_a, exact.norm_b);
            const bool wrong = !(error <= catalogue::product().tolerance);
            if (!wrong && error <= worst) continue;
#pragma omp critical(gemm_verify)
            {
                if (!(error <= worst)) worst = error;
                if (wrong) first = std::min(first, i);
            }
        }
        tenken::Check check;
        check.of = catalogue::product();
        check.error = worst;
        if (first < c_.size()) {
            check.first_wrong = tenken::Json::object().set("element", first);
            check.first_wrong.set("value", tenken::number_or_name(c_[first]));
            check.first_wrong.set("expected", tenken::number_or_name(exact_of(first).value));
        }
        return check;
    }

    void release() override {}

  private:
    struct Exact {
        double value;
        double norm_a;
        double norm_b;
    };

    double sign() const { return case_.precision->adds ? -1 : 1; }
    double scale() const { return case_.precision->scales == Scales::none ? 1 : scale_a * scale_b; }
    void reset() { std::fill(c_.begin(), c_.end(), case_.precision->adds ? 0.0 : 1e30); }

    /// A is row-major, B column-major: both contiguous along k.
    const double* row(std::size_t element) const {
        const auto m = static_cast<std::size_t>(case_.shape.m);
        const auto per_batch = m * static_cast<std::size_t>(case_.shape.n);
        const std::size_t index = element / per_batch * m + element % per_batch % m;
        return a_.data() + index * static_cast<std::size_t>(case_.shape.k);
    }
    const double* column(std::size_t element) const {
        const std::size_t index = element / static_cast<std::size_t>(case_.shape.m);
        return b_.data() + index * static_cast<std::size_t>(case_.shape.k);
    }

    Exact exact_of(std::size_t element) const {
        const double* const a = row(element);
        const double* const b = column(element);
        long double sum = 0;
        double squares_a = 0;
        double squares_b = 0;
        for (std::int64_t l = 0; l < case_.shape.k; ++l) {
            sum += static_cast<long double>(a[l]) * static_cast<long double>(b[l]);
            squares_a += a[l] * a[l];
            squares_b += b[l] * b[l];
        }
        const double factor = scale();
        return {sign() * factor * static_cast<double>(sum), std::sqrt(squares_a) * factor,
                std::sqrt(squares_b)};
    }

    void multiply() {
#pragma omp parallel for schedule(static)
        for (std::size_t i = 0; i < c_.size(); ++i) {
            const double* const a = row(i);
            const double* const b = column(i);
            Sum sum(case_.precision->sums);
            for (std::int64_t l = 0; l < case_.shape.k; ++l) sum.add(a[l] * b[l]);
            const double product = sign() * scale() * sum.value();
            c_[i] = stored(case_.precision->adds ? c_[i] + product : product, case_.precision->c);
        }
    }

    Case case_ = {nullptr, {}};
    std::vector<double> a_;
    std::vector<double> b_;
    std::vector<double> c_;
    tenken::HostEnergyMeter meter_;
};

class HostFamily : public Family {
  public:
    std::string name() const override { return "host"; }
    std::vector<std::unique_ptr<Place>> places(const tenken::Arguments&) override {
        std::vector<std::unique_ptr<Place>> list;
        list.emplace_back(new HostPlace);
        return list;
    }
    std::int64_t square() const override { return 128; }
};

}  // namespace

std::unique_ptr<Family> make_host_family() {
    return std::unique_ptr<Family>(new HostFamily);
}

}  // namespace gemm
