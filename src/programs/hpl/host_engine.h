// The engine in host memory: BLAS for the products, LAPACK for panels.
#pragma once

#include <memory>

#include "programs/hpl/blas.h"
#include "programs/hpl/engine.h"

namespace hpl {

std::uint64_t host_bytes(const Layout& layout, bool direct);

/// @param direct solves the whole system by LAPACK (dgetrf, dgetrs); only with one process
std::unique_ptr<Engine> make_host_engine(const Layout& layout, const Blas& blas, Ranks& ranks, bool direct);

}  // namespace hpl
