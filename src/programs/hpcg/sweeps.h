// The passes over the matrix, written once for the host and for GPUs: which parts of a row are multiplied
// with which vector, and the use of the sums.
//
// With A = L + D + U in the order of the colours, a symmetric Gauss-Seidel step from zero is
//     y = (r - L y) / D by ascending colours, then x = y - (U x) / D by descending ones,
// because D y = r - L y already holds. q = (U x) / D = y - x is stored: the residual r - A x of a row is then
// (L q) minus the contribution of other ranks, and the second step, from x + e, needs only the contribution
// of e to U x:
//     t = (r - L y') / D,  y' = t - q - (U e) / D,  then x' = t - (U x') / D.
// e is nonzero only in coarse points, so U e reads the entries of U whose column is a coarse point.
#pragma once

#include "programs/hpcg/layout.h"

namespace hpcg {

template <typename Matrix>
using GatherOf = typename Matrix::Gather;

/// All places of a slice.
template <typename Matrix>
SPARSE_EVERYWHERE GatherOf<Matrix> whole_slice(const Matrix& part, const double* from, int slice,
                                               int height) {
    const std::int64_t begin = part.offsets[slice];
    return part.gather(begin, static_cast<int>((part.offsets[slice + 1] - begin) / height), from, height);
}

template <typename Matrix>
struct PreForward {
    enum { gathers = 1 };
    Matrix lower;
    const double* r;
    const double* diagonal;
    double* y;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(lower, y, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        y[row] = (r[row] - sums[0]) / diagonal[row];
        return 0;
    }
};

/// The last colour, where U is empty: it also completes the backward sweep.
template <typename Matrix>
struct PreForwardLast {
    enum { gathers = 1 };
    Matrix lower;
    const double* r;
    const double* diagonal;
    double* y;
    double* x;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(lower, y, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        x[row] = (r[row] - sums[0]) / diagonal[row];
        y[row] = 0;
        return 0;
    }
};

/// Stores x, and q in place of y.
template <typename Matrix>
struct PreBackward {
    enum { gathers = 1 };
    Matrix upper;
    const double* diagonal;
    double* y;
    double* x;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(upper, x, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double q = sums[0] / diagonal[row];
        x[row] = y[row] - q;
        y[row] = q;
        return 0;
    }
};

/// On the coarsest level, where nothing follows: only x, and its part of r x.
template <typename Matrix>
struct PreBackwardAlone {
    enum { gathers = 1 };
    Matrix upper;
    const double* diagonal;
    const double* y;
    double* x;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(upper, x, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        x[row] = y[row] - sums[0] / diagonal[row];
        return 0;
    }
};

/// Stores y' in place of q, and t.
template <typename Matrix>
struct PostForward {
    enum { gathers = 2 };
    Matrix lower;
    Matrix upper;
    const int* coarse_width;
    const double* correction;  ///< e, zero but in coarse points
    const double* r;
    const double* diagonal;
    double* y;
    double* t;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int which, int slice, int height) const {
        if (which == 0) return whole_slice(lower, y, slice, height);
        const std::int64_t begin = upper.offsets[slice];
        return upper.gather(begin, coarse_width[slice], correction, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double settled = (r[row] - sums[0]) / diagonal[row];
        t[row] = settled;
        y[row] = settled - y[row] - sums[1] / diagonal[row];
        return 0;
    }
};

/// The last colour: U is empty, x' is t.
template <typename Matrix>
struct PostForwardLast {
    enum { gathers = 1 };
    Matrix lower;
    const double* y;
    const double* r;
    const double* diagonal;
    double* x;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(lower, y, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double right = r[row];
        const double settled = (right - sums[0]) / diagonal[row];
        x[row] = settled;
        return right * settled;
    }
};

/// Gives each row's part of r x'.
template <typename Matrix>
struct PostBackward {
    enum { gathers = 1 };
    Matrix upper;
    const double* diagonal;
    const double* t;
    const double* r;
    double* x;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(upper, x, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double settled = t[row] - sums[0] / diagonal[row];
        x[row] = settled;
        return r[row] * settled;
    }
};

/// out = A p, and each row's part of p A p.
template <typename Matrix>
struct Multiply {
    enum { gathers = 2 };
    Matrix lower;
    Matrix upper;
    const double* diagonal;
    const double* p;
    double* out;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int which, int slice, int height) const {
        return whole_slice(which == 0 ? lower : upper, p, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double mine = p[row];
        const double product = diagonal[row] * mine + sums[0] + sums[1];
        out[row] = product;
        return mine * product;
    }
};

/// The residual of a coarse point becomes the right-hand side of the coarser level.
struct Restrict {
    Slices lower;
    const double* q;
    const int* fine_positions;
    const int* coarse_positions;
    int height;
    double* coarse_r;
    SPARSE_EVERYWHERE void operator()(int place) const {
        const int position = fine_positions[place];
        const Slices::Gather row = whole_slice(lower, q, position / height, height);
        std::int64_t at = position % height;
        double sum = 0;
        for (int k = 0; k < row.width; ++k, at += height) sum += row.values[at] * row.from[row.columns[at]];
        coarse_r[coarse_positions[place]] = sum;
    }
};

/// Makes the residual of coarse points the right-hand side of the coarser level, one coarse point at a time.
template <typename Runner, typename Matrix = typename Runner::Matrix>
class Restriction {
  public:
    Restriction() = default;
    Restriction(Runner&, const Layout<Runner>&, const int* fine_positions, const int* coarse_positions,
                int coarse_rows)
        : fine_positions_(fine_positions), coarse_positions_(coarse_positions), coarse_rows_(coarse_rows) {}

    void run(Runner& runner, const Matrix& lower, const double* q, double* coarse_r) const {
        runner.each(coarse_rows_,
                    Restrict{lower, q, fine_positions_, coarse_positions_, Runner::height, coarse_r});
    }
    /// Of the matrix.
    double bytes() const {
        return static_cast<double>(sizeof(double) + sizeof(int)) * (max_entries_of_row - 1) * coarse_rows_;
    }

  private:
    const int* fine_positions_ = nullptr;
    const int* coarse_positions_ = nullptr;
    int coarse_rows_ = 0;
};

/// The same by slices that contain coarse points.
template <typename Matrix>
struct RestrictSlices {
    enum { gathers = 1 };
    Matrix lower;
    const double* q;
    const int* coarse_of_position;  ///< -1 if there is no coarse point
    double* coarse_r;
    SPARSE_EVERYWHERE GatherOf<Matrix> gather(int, int slice, int height) const {
        return whole_slice(lower, q, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        if (coarse_of_position[row] >= 0) coarse_r[coarse_of_position[row]] = sums[0];
        return 0;
    }
};

struct Prolong {
    const double* coarse_x;
    const int* fine_positions;
    const int* coarse_positions;
    double* correction;
    SPARSE_EVERYWHERE void operator()(int place) const {
        correction[fine_positions[place]] = coarse_x[coarse_positions[place]];
    }
};

/// Data for other ranks: x, or x + e, or -x.
struct Pack {
    const int* positions;
    const double* x;
    const double* correction;  ///< may be null
    double factor;
    double* out;
    SPARSE_EVERYWHERE void operator()(int place) const {
        const int position = positions[place];
        out[place] = factor * (x[position] + (correction == nullptr ? 0.0 : correction[position]));
    }
};

struct FillDoubles {
    double* to;
    double value;
    SPARSE_EVERYWHERE void operator()(int place) const { to[place] = value; }
};

// Vectors of CG. `scalars` are in the memory of the vectors; a sum of one step is read there by the next
// one.

/// Two adjacent elements of a vector.
struct alignas(16) Pair {
    double a;
    double b;
};
SPARSE_EVERYWHERE inline Pair pair_of(const double* vector, int i) {
    return reinterpret_cast<const Pair*>(vector)[i];
}
SPARSE_EVERYWHERE inline void put_pair(double* vector, int i, const Pair& pair) {
    reinterpret_cast<Pair*>(vector)[i] = pair;
}

/// p = z + beta p with beta = now / before; p = z if before is null.
struct Direction {
    const double* z;
    double* p;
    const double* now;
    const double* before;
    SPARSE_EVERYWHERE void operator()(int i) const {
        p[i] = before == nullptr ? z[i] : z[i] + *now / *before * p[i];
    }
    SPARSE_EVERYWHERE void pair(int i) const {
        const Pair fresh = pair_of(z, i);
        if (before == nullptr) return put_pair(p, i, fresh);
        const double beta = *now / *before;
        const Pair old = pair_of(p, i);
        put_pair(p, i, {fresh.a + beta * old.a, fresh.b + beta * old.b});
    }
};

/// x += alpha p, r -= alpha A p with alpha = rz / pap; returns r r.
struct Advance {
    const double* p;
    const double* product;
    double* x;
    double* r;
    const double* rz;
    const double* pap;
    SPARSE_EVERYWHERE double operator()(int i) const {
        const double alpha = *rz / *pap;
        x[i] += alpha * p[i];
        const double left = r[i] - alpha * product[i];
        r[i] = left;
        return left * left;
    }
    SPARSE_EVERYWHERE double pair(int i) const {
        const double alpha = *rz / *pap;
        const Pair way = pair_of(p, i);
        const Pair change = pair_of(product, i);
        const Pair before = pair_of(x, i);
        const Pair rest = pair_of(r, i);
        put_pair(x, i, {before.a + alpha * way.a, before.b + alpha * way.b});
        const Pair left = {rest.a - alpha * change.a, rest.b - alpha * change.b};
        put_pair(r, i, left);
        return left.a * left.a + left.b * left.b;
    }
};

/// r = b - A p; returns r r.
struct Begin {
    const double* b;
    const double* product;
    double* r;
    SPARSE_EVERYWHERE double operator()(int i) const {
        const double left = b[i] - product[i];
        r[i] = left;
        return left * left;
    }
};

struct DotOf {
    const double* a;
    const double* b;
    SPARSE_EVERYWHERE double operator()(int i) const { return a[i] * b[i]; }
};

struct CopyOf {
    const double* from;
    double* to;
    SPARSE_EVERYWHERE void operator()(int i) const { to[i] = from[i]; }
};

}  // namespace hpcg
