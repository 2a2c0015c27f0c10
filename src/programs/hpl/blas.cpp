#include "programs/hpl/blas.h"

#include <vector>

#include "lib/base/dynlib.h"
#include "lib/base/placement.h"

namespace hpl {

namespace {

template <typename Function>
bool load(const tenken::DynamicLibrary& library, Function& function, const std::string& name) {
    return library.load(function, {name.c_str(), ("scipy_" + name).c_str()});
}

std::string version_of(const tenken::DynamicLibrary& library) {
    const char* (*config)() = nullptr;
    if (!load(library, config, "openblas_get_config")) return "";
    return std::string(" (") + config() + ")";
}

}  // namespace

std::unique_ptr<Blas> Blas::open(std::string& why_not) {
    // Libraries start their threads when they are loaded, on the CPUs that this thread has at that time.
    const tenken::UnboundThread unbound;
    const std::vector<std::string> names = tenken::DynamicLibrary::names(
        "TENKEN_BLAS", {"libopenblas.so.0", "libflexiblas.so.3", "libmkl_rt.so.2", "liblapack.so.3"});
    for (const std::string& name : names) {
        std::string error;
        const tenken::DynamicLibrary library = tenken::DynamicLibrary::open(name, error);
        if (!library) {
            why_not += (why_not.empty() ? "" : "; ") + error;
            continue;
        }
        std::unique_ptr<Blas> found(new Blas);
        if (load(library, found->dgemm, "dgemm_") && load(library, found->dtrsm, "dtrsm_") &&
            load(library, found->dgetrf, "dgetrf_") && load(library, found->dgetrs, "dgetrs_")) {
            found->text_ = name.substr(name.rfind('/') + 1) + version_of(library);
            return found;
        }
        why_not += (why_not.empty() ? "" : "; ") + name + " lacks dgemm_, dtrsm_, dgetrf_ or dgetrs_";
    }
    why_not = "no BLAS with LAPACK (TENKEN_BLAS may name one): " + why_not +
              "; Debian's libopenblas-dev has it, and scipy-openblas32 of PyPI";
    return nullptr;
}

}  // namespace hpl
