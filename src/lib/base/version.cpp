#include "lib/base/version.h"

#include "tenken_build.h"
#include "tenken_revision.h"

namespace tenken {

const char* version() {
    return TENKEN_REVISION;
}
const char* compiler() {
    return TENKEN_COMPILER;
}
const char* compiler_flags() {
    return TENKEN_COMPILER_FLAGS;
}
const char* build_type() {
    return TENKEN_BUILD_TYPE;
}

}  // namespace tenken
