// NCCL, loaded at run time: programs also start without it. The declarations required are here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace nccl {

struct UniqueId {
    char bytes[128];
};
typedef void* Comm;
constexpr int int8 = 0;
constexpr int float32 = 7;
constexpr int float64 = 8;
constexpr int bfloat16 = 9;  // since 2.10
constexpr int sum = 0;

class Library {
  public:
    /// Loads the library named by TENKEN_NCCL, otherwise libnccl.so.2.
    /// @return nothing if it cannot be loaded, with the reason in `why_not`
    static std::unique_ptr<Library> open(std::string& why_not);
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    /// e.g. "2.28.3"
    std::string version() const;
    bool has_bf16() const;
    /// @throws std::runtime_error with NCCL's own message unless result is success
    void check(int result, const char* expression) const;

    int (*get_version)(int*) = nullptr;
    int (*get_unique_id)(UniqueId*) = nullptr;
    int (*comm_init_rank)(Comm*, int ranks, UniqueId, int rank) = nullptr;
    int (*comm_destroy)(Comm) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*all_reduce)(const void*, void*, std::size_t, int type, int op, Comm, cudaStream_t) = nullptr;
    int (*all_gather)(const void*, void*, std::size_t, int type, Comm, cudaStream_t) = nullptr;
    int (*reduce_scatter)(const void*, void*, std::size_t, int type, int op, Comm, cudaStream_t) = nullptr;
    /// Since 2.28; null before: send and receive in a group do the same.
    int (*all_to_all)(const void*, void*, std::size_t, int type, Comm, cudaStream_t) = nullptr;
    /// Memory of the current GPU, in pieces as large as its driver has; since 2.19, both null before.
    int (*mem_alloc)(void**, std::size_t) = nullptr;
    int (*mem_free)(void*) = nullptr;
    int (*broadcast)(const void*, void*, std::size_t, int type, int root, Comm, cudaStream_t) = nullptr;
    int (*send)(const void*, std::size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
    int (*receive)(void*, std::size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
    const char* (*error_string)(int) = nullptr;

  private:
    Library() = default;
};

}  // namespace nccl
