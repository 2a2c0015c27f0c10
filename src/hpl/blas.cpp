#include "hpl/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "common/placement.h"

namespace hpl {

namespace {

template <typename Function>
bool load(void* library, Function& function, const std::string& name) {
    for (const char* const prefix : {"", "scipy_"}) {
        void* const found = dlsym(library, (prefix + name).c_str());
        if (found == nullptr) continue;
        *reinterpret_cast<void**>(&function) = found;
        return true;
    }
    return false;
}

std::string version_of(void* library) {
    const char* (*config)() = nullptr;
    if (!load(library, config, "openblas_get_config")) return "";
    return std::string(" (") + config() + ")";
}

}  // namespace

std::unique_ptr<Blas> Blas::open(std::string& why_not) {
    // Libraries start their threads when they are loaded, on the CPUs that this thread has then.
    tenken::bind_this_thread(tenken::process_cpus());
    const char* const given = std::getenv("TENKEN_BLAS");
    std::vector<std::string> names = {"libopenblas.so.0", "libflexiblas.so.3", "libmkl_rt.so.2",
                                      "liblapack.so.3"};
    if (given != nullptr && *given != '\0') names = {given};
    for (const std::string& name : names) {
        void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            const char* const error = dlerror();
            why_not += (why_not.empty() ? "" : "; ") + (error == nullptr ? name : std::string(error));
            continue;
        }
        std::unique_ptr<Blas> found(new Blas);
        if (load(handle, found->dgemm, "dgemm_") && load(handle, found->dtrsm, "dtrsm_") &&
            load(handle, found->dgetrf, "dgetrf_") && load(handle, found->dgetrs, "dgetrs_")) {
            found->text_ = name.substr(name.rfind('/') + 1) + version_of(handle);
            return found;
        }
        why_not += (why_not.empty() ? "" : "; ") + name + " lacks dgemm_, dtrsm_, dgetrf_ or dgetrs_";
    }
    why_not = "no BLAS with LAPACK (TENKEN_BLAS may name one): " + why_not;
    return nullptr;
}

}  // namespace hpl
