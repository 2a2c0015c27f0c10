#include "lib/nccl/library.h"

#include <stdexcept>

#include "lib/base/dynlib.h"

namespace nccl {

std::unique_ptr<Library> Library::open(std::string& why_not) {
    using tenken::DynamicLibrary;
    std::string error;
    const DynamicLibrary library =
        DynamicLibrary::open_first(DynamicLibrary::names("TENKEN_NCCL", {"libnccl.so.2"}), error);
    if (!library) {
        why_not = "NCCL cannot be loaded: " + error + "; nvidia-nccl-cu13 and -cu12 of PyPI have it";
        return nullptr;
    }
    std::unique_ptr<Library> found(new Library);
    const bool complete = library.load(found->get_version, "ncclGetVersion") &&
                          library.load(found->get_unique_id, "ncclGetUniqueId") &&
                          library.load(found->comm_init_rank, "ncclCommInitRank") &&
                          library.load(found->comm_destroy, "ncclCommDestroy") &&
                          library.load(found->group_start, "ncclGroupStart") &&
                          library.load(found->group_end, "ncclGroupEnd") &&
                          library.load(found->all_reduce, "ncclAllReduce") &&
                          library.load(found->all_gather, "ncclAllGather") &&
                          library.load(found->reduce_scatter, "ncclReduceScatter") &&
                          library.load(found->broadcast, "ncclBroadcast") &&
                          library.load(found->error_string, "ncclGetErrorString") &&
                          library.load(found->send, "ncclSend") && library.load(found->receive, "ncclRecv");
    library.load(found->all_to_all, "ncclAlltoAll");
    if (!library.load(found->mem_free, "ncclMemFree") || !library.load(found->mem_alloc, "ncclMemAlloc"))
        found->mem_alloc = nullptr;
    if (complete) return found;
    why_not = library.name() + " is not NCCL 2.7 or newer:  ncclSend or another function is missing";
    return nullptr;
}

std::string Library::version() const {
    int code = 0;
    if (get_version(&code) != 0) return "unknown";
    // The code of 2.8.3 is 2803; since 2.9 they have the form 20903.
    const int scale = code < 10000 ? 1000 : 10000;
    return std::to_string(code / scale) + "." + std::to_string(code % scale / 100) + "." +
           std::to_string(code % 100);
}

bool Library::has_bf16() const {
    int code = 0;
    return get_version(&code) == 0 && code >= 21000;
}

void Library::check(int result, const char* expression) const {
    if (result == 0) return;
    throw std::runtime_error(std::string("NCCL: ") + expression + " failed: " + error_string(result));
}

}  // namespace nccl
