#include "programs/spmv/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catalogue/spmv.h"

namespace spmv {

namespace {

/// A sum in double-double arithmetic (Dekker 1971, Knuth: error-free sum and product).
struct TwiceDouble {
    double high = 0;
    double low = 0;

    void add(double value) {
        const double sum = high + value;
        const double other = sum - high;
        low += (high - (sum - other)) + (value - other);
        high = sum;
    }
    void add_product(double a, double b) {
        const double product = a * b;
        add(product);
        low += std::fma(a, b, -product);
    }
    double rounded() const { return high + low; }
};

}  // namespace

Reference::Reference(const Problem& problem) {
    const sparse::Csr& a = *problem.matrix;
    const bool single = problem.single;
    const auto in_precision = [single](double value) {
        return single ? static_cast<double>(static_cast<float>(value)) : value;
    };
    const double half_epsilon =
        single ? std::numeric_limits<float>::epsilon() / 2 : std::numeric_limits<double>::epsilon() / 2;
    y_.resize(static_cast<std::size_t>(a.rows));
    bound_.resize(y_.size());
#pragma omp parallel for schedule(guided)
    for (int r = 0; r < a.rows; ++r) {
        const auto row = static_cast<std::size_t>(r);
        TwiceDouble sum;
        double size = 0;
        for (int j = a.offsets[row]; j < a.offsets[row + 1]; ++j) {
            const auto entry = static_cast<std::size_t>(j);
            const double value = in_precision(a.value[entry]);
            const double x = problem.x[static_cast<std::size_t>(a.column[entry])];
            sum.add_product(value, x);
            size += std::fabs(value * x);
        }
        y_[row] = sum.rounded();
        // n products and n - 1 sums in any order lose at most n u / (1 - n u) of the sum of the absolute
        // products (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1); one more for `size`
        // itself.
        const double roundings = (a.offsets[row + 1] - a.offsets[row] + 1) * half_epsilon;
        bound_[row] = roundings / (1 - roundings) * size;
    }
}

tenken::Check Reference::check(const std::vector<double>& y, const tenken::Subject& subject,
                               tenken::At at) const {
    tenken::Check check = {catalogue::rows(), subject, std::move(at)};
    if (y.size() != y_.size()) {
        check.error = std::numeric_limits<double>::infinity();
        check.first_wrong = tenken::Json::object().set("rows", y.size()).set("expected", y_.size());
        return check;
    }
    for (std::size_t r = 0; r < y.size(); ++r) {
        const double difference = std::fabs(y[r] - y_[r]);
        double error = difference == 0 ? 0 : difference / bound_[r];
        if (!std::isfinite(y[r])) error = std::numeric_limits<double>::infinity();
        if (!(error <= check.of.tolerance) && check.first_wrong.is_null()) {
            check.first_wrong =
                tenken::Json::object().set("row", r).set("value", tenken::number_or_name(y[r]));
            check.first_wrong.set("expected", y_[r]).set("bound", bound_[r]);
        }
        check.error = std::max(check.error, error);
    }
    return check;
}

std::size_t Reference::largest_row() const {
    std::size_t largest = 0;
    for (std::size_t r = 0; r < y_.size(); ++r) {
        if (std::fabs(y_[r]) > std::fabs(y_[largest])) largest = r;
    }
    return largest;
}

}  // namespace spmv
