// Slabs on the host.
#pragma once

#include <memory>

#include "programs/stencil/part.h"

namespace stencil {

std::unique_ptr<Part> make_host_part(const Layout& layout, const Problem& problem, int number);

}  // namespace stencil
