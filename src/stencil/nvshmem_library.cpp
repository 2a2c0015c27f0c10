#include "stencil/nvshmem_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace stencil {

static_assert(sizeof(Nvshmem::UniqueId) == 128, "as the library has it");
static_assert(sizeof(Nvshmem::InitArguments) == 128, "as the library has it");
static_assert(sizeof(Nvshmem::InitAttributes) == 144, "as the library has it");

namespace {

template <typename Function>
bool load(void* library, Function& function, const char* name) {
    // A function pointer cannot be cast from void* in ISO C++; POSIX promises that this works.
    *reinterpret_cast<void**>(&function) = dlsym(library, name);
    return function != nullptr;
}

}  // namespace

std::unique_ptr<Nvshmem> Nvshmem::open(std::string& why_not) {
    const char* const given = std::getenv("TENKEN_NVSHMEM");
    const std::string name = given != nullptr && *given != '\0' ? given : "libnvshmem_host.so.3";
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
        const char* const error = dlerror();
        why_not = "NVSHMEM cannot be loaded: " + (error == nullptr ? name : std::string(error));
        return nullptr;
    }
    std::unique_ptr<Nvshmem> found(new Nvshmem);
    const bool complete = load(handle, found->get_unique_id, "nvshmemx_get_uniqueid") &&
                          load(handle, found->set_unique_id, "nvshmemx_set_attr_uniqueid_args") &&
                          load(handle, found->init, "nvshmemx_hostlib_init_attr") &&
                          load(handle, found->get_version, "nvshmemx_vendor_get_version_info") &&
                          load(handle, found->malloc, "nvshmem_malloc") &&
                          load(handle, found->free, "nvshmem_free") &&
                          load(handle, found->put_and_signal, "nvshmemx_putmem_signal_on_stream") &&
                          load(handle, found->signal, "nvshmemx_signal_op_on_stream") &&
                          load(handle, found->wait_for_signal, "nvshmemx_signal_wait_until_on_stream");
    if (complete) return found;
    why_not = name + " is no NVSHMEM from 3.0 on: nvshmemx_hostlib_init_attr or another function is missing";
    return nullptr;
}

}  // namespace stencil
