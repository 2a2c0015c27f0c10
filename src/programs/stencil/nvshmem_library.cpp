#include "programs/stencil/nvshmem_library.h"

#include "lib/base/dynlib.h"

namespace stencil {

static_assert(sizeof(Nvshmem::UniqueId) == 128, "the size in the library");
static_assert(sizeof(Nvshmem::InitArguments) == 128, "the size in the library");
static_assert(sizeof(Nvshmem::InitAttributes) == 144, "the size in the library");

std::unique_ptr<Nvshmem> Nvshmem::open(std::string& why_not) {
    using tenken::DynamicLibrary;
    std::string error;
    // NVSHMEM loads further parts of itself, which need its symbols.
    const DynamicLibrary library =
        DynamicLibrary::open_first(DynamicLibrary::names("TENKEN_NVSHMEM", {"libnvshmem_host.so.3"}), error,
                                   DynamicLibrary::Symbols::global);
    if (!library) {
        why_not = "NVSHMEM cannot be loaded: " + error;
        return nullptr;
    }
    std::unique_ptr<Nvshmem> found(new Nvshmem);
    const bool complete = library.load(found->get_unique_id, "nvshmemx_get_uniqueid") &&
                          library.load(found->set_unique_id, "nvshmemx_set_attr_uniqueid_args") &&
                          library.load(found->init, "nvshmemx_hostlib_init_attr") &&
                          library.load(found->get_version, "nvshmemx_vendor_get_version_info") &&
                          library.load(found->malloc, "nvshmem_malloc") &&
                          library.load(found->free, "nvshmem_free") &&
                          library.load(found->put_and_signal, "nvshmemx_putmem_signal_on_stream") &&
                          library.load(found->signal, "nvshmemx_signal_op_on_stream") &&
                          library.load(found->wait_for_signal, "nvshmemx_signal_wait_until_on_stream");
    if (complete) return found;
    why_not = library.name() +
              " is not NVSHMEM 3.0 or newer:  nvshmemx_hostlib_init_attr or another function is missing";
    return nullptr;
}

}  // namespace stencil
