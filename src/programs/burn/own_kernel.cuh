// Products in FP16 with sums in FP32 by the tensor cores' mma.sync, so that faults can be injected into real
// sums, and a tile can be computed on every multiprocessor. Needs compute capability 8.0.
//
// C is m x n column by column, A m x k and B n x k row by row. A block computes 256 rows of A times 128 of B,
// a warp 64 x 64; k advances by 64 through a ring of buffers in shared memory, filled by cp.async.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "programs/burn/data.h"
#include "programs/burn/faults.h"

namespace burn {
namespace own {

constexpr std::uint32_t rows_a = 256;
constexpr std::uint32_t rows_b = 128;
constexpr std::uint32_t depth = 64;
constexpr std::uint32_t threads = 256;
constexpr std::uint32_t stage_bytes = (rows_a + rows_b) * depth * 2;
/// Neighbouring tiles of B, computed together so that the caches hold the data they share.
constexpr std::uint32_t group = 8;

/// A fault in real sums. Tiles are numbered as units of studies are: along the rows of C first.
struct Defect {
    Fault fault;
    std::uint64_t seed;
    std::uint8_t* state;   ///< of each tile: set to 1 where the fault acted
    std::uint32_t broken;  ///< multiprocessors of which one in `broken` is defective
};

/// Where a tile is computed again: by the block that runs on each multiprocessor.
struct Everywhere {
    std::uint32_t tile_a;
    std::uint32_t tile_b;
    std::uint32_t row;  ///< of the tile, of the element in question
    std::uint32_t column;
    std::uint32_t* found;    ///< by multiprocessor, the bits of the element
    std::uint32_t* visited;  ///< by multiprocessor
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ inline std::uint32_t multiprocessor() {
    std::uint32_t id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

__device__ inline void copy_async(std::uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ inline void commit() {
    asm volatile("cp.async.commit_group;");
}
template <int pending>
__device__ inline void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending));
}

__device__ inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

__device__ inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Byte of the 16-byte part `part` of row `row` within a buffer of rows of 128 bytes, without bank conflicts.
__device__ inline std::uint32_t swizzled(std::uint32_t row, std::uint32_t part) {
    return row * 128 + ((part ^ (row & 7)) << 4);
}

/// The effect of a defect on the sums of one thread after the step at `step` of its tile's products.
__device__ inline void damage(float (&sums)[4][8][4], const Defect& defect, std::uint32_t tile,
                              std::uint32_t step, std::uint32_t last, const std::uint32_t (&b)[4]) {
    const std::uint64_t random = mixed64(defect.seed + tile);
    const std::uint32_t bit = 1U << (random & 31);
    if (defect.fault == Fault::accumulator_bit) {
        // one sum of one thread, once
        if (step != 1 + (random >> 8) % (last - 1) || threadIdx.x != (random >> 40) % threads) return;
        sums[1][2][3] = float_of(bits_of_float(sums[1][2][3]) ^ bit);
        defect.state[tile] = 1;
    } else if (defect.fault == Fault::stuck_sm) {
        if (step != last - 1 || mixed64(defect.seed ^ multiprocessor()) % defect.broken != 0) return;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j)
#pragma unroll
                for (int c = 0; c < 4; ++c) sums[i][j][c] = float_of(bits_of_float(sums[i][j][c]) | bit);
        if (threadIdx.x == 0) defect.state[tile] = 1;
    } else if (defect.fault == Fault::stuck_operand) {
        // one thread is wrong whenever its operand has certain bits in its significand
        if (threadIdx.x != (random >> 40) % threads || (b[0] >> 6 & 7) != (random >> 56 & 7)) return;
        sums[1][2][3] += 2;
        defect.state[tile] = 1;
    }
}
#endif

/// @tparam stages buffers of the ring @tparam kind 0: as it is; 1: with a defect; 2: one tile everywhere
template <int stages, int kind>
__global__ void __launch_bounds__(threads, 1)
    multiply(const void* a, const void* b, float* c, std::uint32_t m, std::uint32_t n, std::uint32_t k,
             Defect defect, Everywhere everywhere) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    extern __shared__ __align__(1024) unsigned char ring[];
    const std::uint32_t tiles_a = m / rows_a;
    const std::uint32_t tiles_b = n / rows_b;
    std::uint32_t tile_a;
    std::uint32_t tile_b;
    if (kind == 2) {
        tile_a = everywhere.tile_a;
        tile_b = everywhere.tile_b;
    } else {
        const std::uint32_t in_group = group * tiles_a;
        const std::uint32_t first = blockIdx.x / in_group * group;
        const std::uint32_t wide = tiles_b - first < group ? tiles_b - first : group;
        tile_b = first + blockIdx.x % in_group % wide;
        tile_a = blockIdx.x % in_group / wide;
    }
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t first_b = warp % 2 * 64;  // of this warp, within the tile
    const std::uint32_t first_a = warp / 2 * 64;
    const auto begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(ring));

    // each thread copies the same 16 bytes of every 32nd row
    const std::uint32_t part = threadIdx.x % 8;
    const std::uint32_t row = threadIdx.x / 8;
    const char* from_b =
        static_cast<const char*>(b) + (static_cast<std::size_t>(tile_b * rows_b + row) * k + part * 8) * 2;
    const char* from_a =
        static_cast<const char*>(a) + (static_cast<std::size_t>(tile_a * rows_a + row) * k + part * 8) * 2;
    const std::size_t apart = static_cast<std::size_t>(k) * 64;  // bytes between rows 32 apart
    const std::uint32_t to = begin + swizzled(row, part);
    const auto fetch = [&](std::uint32_t stage) {
        const std::uint32_t base = to + stage * stage_bytes;
#pragma unroll
        for (std::uint32_t i = 0; i < rows_b / 32; ++i) copy_async(base + i * 4096, from_b + i * apart);
#pragma unroll
        for (std::uint32_t i = 0; i < rows_a / 32; ++i)
            copy_async(base + rows_b * 128 + i * 4096, from_a + i * apart);
        from_b += depth * 2;
        from_a += depth * 2;
    };

    float sums[4][8][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;

    const std::uint32_t steps = k / depth;
#pragma unroll
    for (std::uint32_t s = 0; s < stages - 1; ++s) {
        if (s < steps) fetch(s);
        commit();
    }
    // rows of this lane's addresses for ldmatrix, whose low three bits are those of the lane
    const std::uint32_t row_b = first_b + lane % 16;
    const std::uint32_t row_a = first_a + lane / 16 * 8 + lane % 8;
    const std::uint32_t part_b = lane / 16;
    const std::uint32_t part_a = lane / 8 % 2;
    std::uint32_t of_b[2][4][4];
    std::uint32_t of_a[2][4][4];
    const auto load = [&](int to_set, std::uint32_t from_stage, std::uint32_t sub) {
        const std::uint32_t at_b = begin + from_stage * stage_bytes;
        const std::uint32_t at_a = at_b + rows_b * 128;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            load_matrices(of_b[to_set][i], at_b + swizzled(row_b + 16 * i, part_b + 2 * sub));
#pragma unroll
        for (int j = 0; j < 4; ++j)
            load_matrices(of_a[to_set][j], at_a + swizzled(row_a + 16 * j, part_a + 2 * sub));
    };
    std::uint32_t stage = 0;
    wait<stages - 2>();
    __syncthreads();
    load(0, 0, 0);
    for (std::uint32_t step = 0; step < steps; ++step) {
        const std::uint32_t next = stage + 1 == stages ? 0 : stage + 1;
        // every warp has taken what it needs from the previous step, so its buffer is free
        if (step + stages - 1 < steps) fetch(stage == 0 ? stages - 1 : stage - 1);
        commit();
#pragma unroll
        for (int sub = 0; sub < 4; ++sub) {
            const int now = sub % 2;
            if (sub < 3) {
                load(1 - now, stage, sub + 1);
            } else {  // the next step's first operands are loaded while this step's last products are formed
                wait<stages - 2>();
                __syncthreads();
                load(1 - now, next, 0);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    multiply_add(sums[i][j], of_b[now][i], of_a[now][j / 2][j % 2 * 2],
                                 of_a[now][j / 2][j % 2 * 2 + 1]);
        }
        if (kind == 1) damage(sums, defect, tile_b * tiles_a + tile_a, step, steps, of_b[1][0]);
        stage = next;
    }
    wait<0>();

    const std::uint32_t column = tile_b * rows_b + first_b + lane / 4;
    const std::uint32_t at = tile_a * rows_a + first_a + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            if (kind == 2) {  // only the element in question is stored
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (column + 16 * i + e / 2 * 8 != everywhere.column ||
                        at + 8 * j + e % 2 != everywhere.row)
                        continue;
                    everywhere.found[multiprocessor()] = bits_of_float(sums[i][j][e]);
                    everywhere.visited[multiprocessor()] = 1;
                }
            } else {
                float* const upper = c + static_cast<std::size_t>(column + 16 * i) * m + at + 8 * j;
                float* const lower = upper + static_cast<std::size_t>(8) * m;
                *reinterpret_cast<float2*>(upper) = make_float2(sums[i][j][0], sums[i][j][1]);
                *reinterpret_cast<float2*>(lower) = make_float2(sums[i][j][2], sums[i][j][3]);
            }
        }
    }
#endif
}

}  // namespace own
}  // namespace burn
