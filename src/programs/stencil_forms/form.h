// One complete formulation of the 27-point stencil in double precision, as short as its model
// allows. The program stencil is optimised for many GPUs and nodes; here the models are compared.
#pragma once

#include <cstddef>
#include <memory>

#include "programs/stencil/grid.h"

namespace tenken {
class Document;
}

namespace stencil_forms {

using stencil::Coefficients;
using stencil::Grid;

inline std::size_t cells_of(const Grid& grid) {
    return static_cast<std::size_t>(grid.nx) * static_cast<std::size_t>(grid.ny) *
           static_cast<std::size_t>(grid.nz);
}

class Form {
  public:
    virtual ~Form() = default;
    /// Receives the cells of the whole grid, x fastest; the outermost ones do not change.
    virtual void load(const double* cells) = 0;
    /// Returns after this many steps.
    virtual void advance(long steps) = 0;
    virtual void store(double* cells) = 0;
};

std::unique_ptr<Form> make_sequential(const Grid& grid);
std::unique_ptr<Form> make_openmp(const Grid& grid);
/// @param processes that share the grid
std::unique_ptr<Form> make_shared(const Grid& grid, int processes);
/// On the device of the OpenACC runtime, or on the host if there is none.
std::unique_ptr<Form> make_openacc(const Grid& grid);
void describe_openacc(tenken::Document& document);
/// On the current GPU.
std::unique_ptr<Form> make_device(const Grid& grid);
/// On these GPUs; each has planes of the grid, which all of them can access.
std::unique_ptr<Form> make_managed(const Grid& grid, const int* gpus, int count);

}  // namespace stencil_forms
