// From low-precision factors to the accuracy of double precision.
#pragma once

#include <vector>

#include "programs/hpl_mxp/engine.h"

namespace mxp {

struct Refined {
    int refinements = 0;          ///< corrections after the first solution
    double scaled = 0;            ///< ||Ax-b|| / (eps (||A|| ||x|| + ||b||) N), infinity norms, eps = 2^-53
    std::vector<double> history;  ///< of the scaled residual, beginning with that of the first solution
    double residual_seconds = 0;
    double correction_seconds = 0;
};

/// Classical iterative refinement: residuals in double precision with A regenerated, corrections by the
/// factors, until the scaled residual is at most `target`, it no longer shrinks, or `maximum` corrections
/// were made.
Refined refine(Engine& engine, lu::Ranks& ranks, const Matrix& matrix, double target, int maximum);

}  // namespace mxp
