// What was built, from what, and how. Generated while building, see src/cmake/version.cmake.
#pragma once

namespace tenken {

/// git describe --always --dirty of the sources, else the content of a file REVISION, else "unknown".
const char* version();
/// e.g. "GNU 12.2.0"
const char* compiler();
const char* compiler_flags();
const char* build_type();

}  // namespace tenken
