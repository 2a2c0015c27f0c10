// Stores that bypass the caches. A normal store first reads the cache line that it writes, which costs a
// third of copy's bandwidth; not every compiler generates streaming stores by itself.
#pragma once

#if defined(__SSE2__) && defined(__GNUC__) && !defined(__NVCOMPILER)
#define TENKEN_HAS_STREAMING_STORES 1
#include <immintrin.h>
#else
#define TENKEN_HAS_STREAMING_STORES 0
#endif

#include <cstddef>

namespace tenken {

#if TENKEN_HAS_STREAMING_STORES

#if defined(__AVX512F__)
typedef __m512d Pack;
inline void store_streaming(double* to, Pack value) {
    _mm512_stream_pd(to, value);
}
#elif defined(__AVX__)
typedef __m256d Pack;
inline void store_streaming(double* to, Pack value) {
    _mm256_stream_pd(to, value);
}
#else
typedef __m128d Pack;
inline void store_streaming(double* to, Pack value) {
    _mm_stream_pd(to, value);
}
#endif

/// Makes this thread's streaming stores visible to the others; called before the barrier that ends a kernel.
inline void finish_streaming() {
    _mm_sfence();
}

#else  // POWER and ARM detect long runs of stores in hardware; nvc++ has -Mnontemporal

typedef double Pack;
inline void store_streaming(double* to, Pack value) {
    *to = value;
}
inline void finish_streaming() {}

#endif

constexpr std::size_t pack_elements = sizeof(Pack) / sizeof(double);

}  // namespace tenken
