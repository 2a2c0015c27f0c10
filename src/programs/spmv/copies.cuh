// Asynchronous copies of parts of the matrix into shared memory by warps: by bulk copies, one
// instruction per array (cp.async.bulk), from compute capability 9.0 on, otherwise as in staging.cuh.
#pragma once

#include "programs/spmv/staging.cuh"

namespace spmv {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// The copies of one warp to its own `stages` places. All its lanes make every call together.
template <int stages, Caching caching>
class Copies {
  public:
    /// @param barriers `stages` of this warp's own, in shared memory
    __device__ explicit Copies(unsigned long long* barriers)
        : barriers_(static_cast<unsigned>(__cvta_generic_to_shared(barriers))) {
        if (threadIdx.x % 32 == 0) {
            for (unsigned s = 0; s < stages; ++s) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers_ + 8 * s) : "memory");
            }
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncwarp();
    }

    /// Starts to copy `count` values and columns, a multiple of staging_group, to place s. All lanes must
    /// have read its previous content.
    template <typename T>
    __device__ void begin(int s, T* values, const T* from_values, int* columns, const int* from_columns,
                          int count, const Loads<caching>& loads) {
        if (threadIdx.x % 32 != 0) return;
        const unsigned barrier = barriers_ + 8 * static_cast<unsigned>(s);
        const unsigned value_bytes = static_cast<unsigned>(count) * static_cast<unsigned>(sizeof(T));
        const unsigned column_bytes = static_cast<unsigned>(count) * static_cast<unsigned>(sizeof(int));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                     "r"(value_bytes + column_bytes)
                     : "memory");
        if (count == 0) return;
        copy(values, from_values, value_bytes, barrier, loads);
        copy(columns, from_columns, column_bytes, barrier, loads);
    }

    /// Closes the copies started since the last call, possibly none. Once per tile.
    __device__ void commit() {}

    /// Waits for the copy to place s, after which up to `but` others were closed. Once for each copy.
    template <int but>
    __device__ void wait(int s) {
        unsigned done = 0;
        while (done == 0) {
            asm volatile(
                "{\n.reg .pred p;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                "selp.b32 %0, 1, 0, p;\n}\n"
                : "=r"(done)
                : "r"(barriers_ + 8 * static_cast<unsigned>(s)), "r"(phases_ >> s & 1u)
                : "memory");
        }
        phases_ ^= 1u << s;
    }

  private:
    __device__ static void copy(void* to, const void* from, unsigned bytes, unsigned barrier,
                                const Loads<caching>& loads) {
        const unsigned shared_to = static_cast<unsigned>(__cvta_generic_to_shared(to));
        if (caching == Caching::retaining) {
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                "[%0], [%1], %2, [%3], %4;" ::"r"(shared_to),
                "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier), "l"(loads.first_out)
                : "memory");
        } else {
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                "[%0], [%1], %2, [%3];" ::"r"(shared_to),
                "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
                : "memory");
        }
    }

    unsigned barriers_;
    unsigned phases_ = 0;  ///< bit s: the current phase of the barrier of place s
};

#else

template <int stages, Caching caching>
class Copies {
  public:
    __device__ explicit Copies(unsigned long long*) {}

    template <typename T>
    __device__ void begin(int, T* values, const T* from_values, int* columns, const int* from_columns,
                          int count, const Loads<caching>& loads) {
        stage(values, from_values, columns, from_columns, count, static_cast<int>(threadIdx.x % 32), 32,
              loads);
    }
    __device__ void commit() { stage_commit(); }
    template <int but>
    __device__ void wait(int) {
        stage_wait<but>();
    }
};

#endif

}  // namespace spmv
