// A vector register of doubles, if the compiler has a portable type for it.
#pragma once

namespace hpcg {

// nvc++ and others get one double and vectorise automatically.
#if defined(__GNUC__) && !defined(__NVCOMPILER)

#if defined(__AVX512F__)
#define HPCG_LANES 8
#elif defined(__AVX__)
#define HPCG_LANES 4
#else
#define HPCG_LANES 2
#endif

typedef double Lanes __attribute__((vector_size(8 * HPCG_LANES)));
/// The same at any address of a double.
typedef double LanesAnywhere __attribute__((vector_size(8 * HPCG_LANES), aligned(8), may_alias));

#else

#define HPCG_LANES 1
typedef double Lanes;
typedef double LanesAnywhere;

#endif

constexpr int lanes = HPCG_LANES;

// Vectors are never passed by value: the calling convention depends on the machine.

inline void load_lanes(Lanes& to, const double* from) {
    to = *reinterpret_cast<const LanesAnywhere*>(from);
}
inline void store_lanes(double* to, const Lanes& from) {
    *reinterpret_cast<LanesAnywhere*>(to) = from;
}
/// Prefetches data that is read once.
inline void prefetch_for_later(const double* from) {
#if HPCG_LANES > 1
    __builtin_prefetch(from, 0, 2);
#else
    (void)from;
#endif
}
/// to[l] = from[columns[l]].
inline void gather_lanes(Lanes& to, const double* from, const int* columns) {
#if HPCG_LANES == 8
    to = Lanes{from[columns[0]], from[columns[1]], from[columns[2]], from[columns[3]],
               from[columns[4]], from[columns[5]], from[columns[6]], from[columns[7]]};
#elif HPCG_LANES == 4
    to = Lanes{from[columns[0]], from[columns[1]], from[columns[2]], from[columns[3]]};
#elif HPCG_LANES == 2
    to = Lanes{from[columns[0]], from[columns[1]]};
#else
    to = from[columns[0]];
#endif
}

}  // namespace hpcg
