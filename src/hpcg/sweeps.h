// The passes over the matrix, each said once for the host and for GPUs: which parts of a row are summed up
// against which vector, and what is made of the sums.
//
// With A = L + D + U in the order of the colours, a symmetric Gauss-Seidel step from zero is
//     y = (r - L y) / D by ascending colours, then x = y - (U x) / D by descending ones,
// because D y = r - L y holds already. q = (U x) / D = y - x is kept: the residual r - A x of a row is then
// (L q) less what other ranks' values give, and the second step, from x + e, needs of U x only what e adds to
// it:
//     t = (r - L y') / D,  y' = t - q - (U e) / D,  then x' = t - (U x') / D.
// e is not zero in coarse points only, so U e reads the entries of U whose column is a coarse point.
#pragma once

#include "hpcg/layout.h"

namespace hpcg {

/// A sum over `width` places of a slice: of value times from[column].
struct Gather {
    const int* columns;
    const double* values;
    const double* from;
    int width;
};

SPARSE_EVERYWHERE inline Gather whole_slice(const Slices& part, const double* from, int slice, int height) {
    const std::int64_t begin = part.offsets[slice];
    return {part.columns + begin, part.values + begin, from,
            static_cast<int>((part.offsets[slice + 1] - begin) / height)};
}

struct PreForward {
    enum { gathers = 1 };
    Slices lower;
    const double* r;
    const double* diagonal;
    double* y;
    SPARSE_EVERYWHERE Gather gather(int, int slice, int height) const {
        return whole_slice(lower, y, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        y[row] = (r[row] - sums[0]) / diagonal[row];
        return 0;
    }
};

/// The last colour, where U is empty: the backward sweep is done with it too.
struct PreForwardLast {
    enum { gathers = 1 };
    Slices lower;
    const double* r;
    const double* diagonal;
    double* y;
    double* x;
    SPARSE_EVERYWHERE Gather gather(int, int slice, int height) const {
        return whole_slice(lower, y, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        x[row] = (r[row] - sums[0]) / diagonal[row];
        y[row] = 0;
        return 0;
    }
};

/// Leaves x, and q in the place of y.
struct PreBackward {
    enum { gathers = 1 };
    Slices upper;
    const double* diagonal;
    double* y;
    double* x;
    SPARSE_EVERYWHERE Gather gather(int, int slice, int height) const {
        return whole_slice(upper, x, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double q = sums[0] / diagonal[row];
        x[row] = y[row] - q;
        y[row] = q;
        return 0;
    }
};

/// On the coarsest level, where nothing comes after: x alone, and its part of r x.
struct PreBackwardAlone {
    enum { gathers = 1 };
    Slices upper;
    const double* diagonal;
    const double* y;
    double* x;
    SPARSE_EVERYWHERE Gather gather(int, int slice, int height) const {
        return whole_slice(upper, x, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        x[row] = y[row] - sums[0] / diagonal[row];
        return 0;
    }
};

/// Leaves y' in the place of q, and t.
struct PostForward {
    enum { gathers = 2 };
    Slices lower;
    Slices upper;
    const int* coarse_width;
    const double* correction;  ///< e, zero but in coarse points
    const double* r;
    const double* diagonal;
    double* y;
    double* t;
    SPARSE_EVERYWHERE Gather gather(int which, int slice, int height) const {
        if (which == 0) return whole_slice(lower, y, slice, height);
        const std::int64_t begin = upper.offsets[slice];
        return {upper.columns + begin, upper.values + begin, correction, coarse_width[slice]};
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double settled = (r[row] - sums[0]) / diagonal[row];
        t[row] = settled;
        y[row] = settled - y[row] - sums[1] / diagonal[row];
        return 0;
    }
};

/// The last colour: U is empty, x' is t.
struct PostForwardLast {
    enum { gathers = 1 };
    Slices lower;
    const double* y;
    const double* r;
    const double* diagonal;
    double* x;
    SPARSE_EVERYWHERE Gather gather(int, int slice, int height) const {
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
struct PostBackward {
    enum { gathers = 1 };
    Slices upper;
    const double* diagonal;
    const double* t;
    const double* r;
    double* x;
    SPARSE_EVERYWHERE Gather gather(int, int slice, int height) const {
        return whole_slice(upper, x, slice, height);
    }
    SPARSE_EVERYWHERE double finish(int row, const double* sums) const {
        const double settled = t[row] - sums[0] / diagonal[row];
        x[row] = settled;
        return r[row] * settled;
    }
};

/// out = A p, and each row's part of p A p.
struct Multiply {
    enum { gathers = 2 };
    Slices lower;
    Slices upper;
    const double* diagonal;
    const double* p;
    double* out;
    SPARSE_EVERYWHERE Gather gather(int which, int slice, int height) const {
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
        const Gather row = whole_slice(lower, q, position / height, height);
        std::int64_t at = position % height;
        double sum = 0;
        for (int k = 0; k < row.width; ++k, at += height) sum += row.values[at] * row.from[row.columns[at]];
        coarse_r[coarse_positions[place]] = sum;
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

/// What is sent to other ranks: x, or x + e, or -x.
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

// Vectors of CG. `scalars` are numbers where the vectors are; a sum of one step is read by the next one
// there.

/// Two neighbours of a vector.
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

/// p = z + beta p with beta = now / before; p = z where before is null.
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

/// x += alpha p, r -= alpha A p with alpha = rz / pap; gives r r.
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

/// r = b - A p; gives r r.
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
