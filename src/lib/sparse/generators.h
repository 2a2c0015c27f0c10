// Matrices generated from a few parameters and a seed: reproducible, independent of the number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/sparse/csr.h"

namespace sparse {

/// One generated matrix: KIND:SIZE or KIND:SIZE:WIDTH.
struct Spec {
    std::string kind;
    std::int64_t size = 0;   ///< side of a grid, rows, or log2 of the rows, by kind
    std::int64_t width = 0;  ///< entries per row or half bandwidth, for the kinds that have one

    /// For metrics and messages: "poisson27_192", "random_1000000_16".
    std::string name() const;
    std::uint64_t rows() const;
    /// Maximum number of entries.
    std::uint64_t entries() const;
};

/// A kind of matrix, its parameters and their ranges.
struct Kind {
    const char* name;
    const char* about;
    std::int64_t min_size;
    std::int64_t max_size;
    std::int64_t default_width;  ///< 0: the kind has none
    std::int64_t max_width;
};
const std::vector<Kind>& kinds();

/// Parses "poisson27:192" or "rmat:22:16".
/// @throws std::invalid_argument with the allowed values
Spec parse_spec(const std::string& text);

/// The smallest matrix of this kind with at least this many bytes as CSR in double precision.
Spec spec_of_bytes(const std::string& kind, std::uint64_t bytes);

/// @throws std::bad_alloc; std::runtime_error if there are 2^31 entries or more
Csr generate(const Spec& spec, std::uint64_t seed);

}  // namespace sparse
