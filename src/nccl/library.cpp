#include "nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace nccl {

namespace {

template <typename Function>
bool load(void* library, Function& function, const char* name) {
    // A function pointer cannot be cast from void* in ISO C++; POSIX promises that this works.
    *reinterpret_cast<void**>(&function) = dlsym(library, name);
    return function != nullptr;
}

}  // namespace

std::unique_ptr<Library> Library::open(std::string& why_not) {
    const char* const given = std::getenv("TENKEN_NCCL");
    const std::string name = given != nullptr && *given != '\0' ? given : "libnccl.so.2";
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* const error = dlerror();
        why_not = "NCCL cannot be loaded: " + (error == nullptr ? name : std::string(error));
        return nullptr;
    }
    std::unique_ptr<Library> found(new Library);
    found->handle_ = handle;
    const bool complete =
        load(handle, found->get_version, "ncclGetVersion") &&
        load(handle, found->get_unique_id, "ncclGetUniqueId") &&
        load(handle, found->comm_init_rank, "ncclCommInitRank") &&
        load(handle, found->comm_destroy, "ncclCommDestroy") &&
        load(handle, found->group_start, "ncclGroupStart") &&
        load(handle, found->group_end, "ncclGroupEnd") && load(handle, found->all_reduce, "ncclAllReduce") &&
        load(handle, found->all_gather, "ncclAllGather") && load(handle, found->broadcast, "ncclBroadcast") &&
        load(handle, found->error_string, "ncclGetErrorString") && load(handle, found->send, "ncclSend") &&
        load(handle, found->receive, "ncclRecv");
    if (complete) return found;
    why_not = name + " is no NCCL from 2.7 on: ncclSend or another function is missing";
    return nullptr;
}

Library::~Library() {
    // Its threads may still run: it stays loaded.
}

std::string Library::version() const {
    int code = 0;
    if (get_version(&code) != 0) return "unknown";
    // 2803 was written for 2.8.3; since 2.9 it is 20903.
    const int scale = code < 10000 ? 1000 : 10000;
    return std::to_string(code / scale) + "." + std::to_string(code % scale / 100) + "." +
           std::to_string(code % 100);
}

void Library::check(int result, const char* expression) const {
    if (result == 0) return;
    throw std::runtime_error(std::string("NCCL: ") + expression + " failed: " + error_string(result));
}

}  // namespace nccl
