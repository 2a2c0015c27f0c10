// The expected product: every row summed in twice the precision, with an error bound by its length.
#pragma once

#include <string>
#include <vector>

#include "lib/base/verification.h"
#include "programs/spmv/backend.h"

namespace spmv {

/// y = A x of a problem, to about 2^-100, rounded to double; and for each row the largest error that a sum of
/// its products may have in the problem's precision, in any order.
class Reference {
  public:
    explicit Reference(const Problem& problem);

    /// Every element of y against its own bound; the error is |y - expected| / bound.
    tenken::Check check(const std::vector<double>& y, const tenken::Subject& subject, tenken::At at) const;
    /// The row with the largest result.
    std::size_t largest_row() const;

  private:
    std::vector<double> y_;
    std::vector<double> bound_;
};

}  // namespace spmv
