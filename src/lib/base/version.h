// Revision and build information, generated at build time, see src/cmake.
#pragma once

namespace tenken {

/// git describe --always --dirty of the sources, otherwise the content of the file REVISION, otherwise
/// "unknown".
const char* version();
/// e.g. "GNU 12.2.0"
const char* compiler();
const char* compiler_flags();
const char* build_type();

}  // namespace tenken
