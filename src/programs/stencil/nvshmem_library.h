// NVSHMEM's host library, loaded at run time: programs also start without it. The declarations required
// are here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace stencil {

class Nvshmem {
  public:
    struct UniqueId {
        int version;
        char bytes[124];
    };
    /// Version 1 of the structure, accepted by all releases from 3.0 on.
    struct InitArguments {
        int version;
        struct {
            int version;
            UniqueId* id;
            int rank;
            int ranks;
        } unique_id;
        char rest[96];
    };
    struct InitAttributes {
        int version;
        void* communicator;
        InitArguments arguments;
    };
    static constexpr unsigned with_unique_id = 8;
    static constexpr int signal_set = 9;
    static constexpr int greater_or_equal = 5;

    /// Loads the library named by TENKEN_NVSHMEM, otherwise libnvshmem_host.so.3.
    /// @return nothing if it cannot be loaded, with the reason in `why_not`
    static std::unique_ptr<Nvshmem> open(std::string& why_not);

    int (*get_unique_id)(UniqueId*) = nullptr;
    int (*set_unique_id)(int rank, int ranks, const UniqueId*, InitAttributes*) = nullptr;
    int (*init)(unsigned flags, InitAttributes*) = nullptr;
    void (*get_version)(int*, int*, int*) = nullptr;
    void* (*malloc)(std::size_t) = nullptr;
    void (*free)(void*) = nullptr;
    void (*put_and_signal)(void* to, const void* from, std::size_t, std::uint64_t* signal,
                           std::uint64_t value, int op, int rank, cudaStream_t) = nullptr;
    void (*signal)(std::uint64_t*, std::uint64_t value, int op, int rank, cudaStream_t) = nullptr;
    void (*wait_for_signal)(std::uint64_t*, int compare, std::uint64_t value, cudaStream_t) = nullptr;

  private:
    Nvshmem() = default;
};

}  // namespace stencil
