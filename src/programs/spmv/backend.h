// The back ends of spmv: the host or a GPU with a matrix, and several variants of the product.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/host_dot.h"
#include "lib/sparse/csr.h"

namespace spmv {

/// A matrix, rounded to float in single precision, and the vector it is multiplied by, which a float holds
/// exactly.
struct Problem {
    const sparse::Csr* matrix = nullptr;
    std::vector<double> x;
    bool single = false;

    std::uint64_t real_bytes() const { return single ? sizeof(float) : sizeof(double); }
    /// Bytes of x and y.
    double vector_bytes() const {
        return static_cast<double>(real_bytes()) *
               (static_cast<double>(matrix->rows) + static_cast<double>(matrix->columns));
    }
    /// Minimum traffic of a product by CSR: every value, column, offset, x and y once.
    double csr_traffic() const {
        return static_cast<double>(matrix->entries()) * static_cast<double>(real_bytes() + sizeof(int)) +
               sizeof(int) * (static_cast<double>(matrix->rows) + 1) + vector_bytes();
    }
    /// The same by sliced ELL with this many places, including padding.
    double sell_traffic(std::int64_t places, std::int64_t slices) const {
        return static_cast<double>(places) * static_cast<double>(real_bytes() + sizeof(int)) +
               sizeof(std::int64_t) * (static_cast<double>(slices) + 1) + vector_bytes();
    }
    /// The same for tasks (sorted.h): their places, 16 bytes each, and 4 bytes per row of a slice.
    double sorted_traffic(std::uint64_t places, std::uint64_t tasks, std::uint64_t listed_rows) const {
        return static_cast<double>(places) * static_cast<double>(real_bytes() + sizeof(int)) +
               16.0 * static_cast<double>(tasks) + sizeof(int) * static_cast<double>(listed_rows) +
               vector_bytes();
    }
};

/// Sliced ELL is tried up to this many places per entry.
constexpr double max_padding = 2.0;

struct Plan {
    long repetitions = 100;
    double warmup_seconds = 0.1;  ///< of each variant
};

/// The result of a variant on a problem.
struct Outcome {
    std::string left_out;         ///< why it was not measured; empty if it was
    std::vector<double> seconds;  ///< of each repetition
    double prepare_seconds = 0;   ///< preparation from CSR: conversion, analysis, transfer
    double traffic_bytes = 0;     ///< minimum traffic of a product in this format
    double padding = 1;           ///< stored places per entry
    std::string launch;           ///< the chosen configuration, if there was a choice
    std::vector<double> y;

    static Outcome none(const std::string& why) {
        Outcome outcome;
        outcome.left_out = why;
        return outcome;
    }
};

/// The host, or a GPU.
class Place {
  public:
    virtual ~Place() = default;
    virtual tenken::Subject subject() const = 0;
    virtual std::string clock() const { return "host"; }
    /// All last-level caches (the L2 of a GPU); 0 if not reported.
    virtual std::uint64_t cache_bytes() const = 0;
    virtual std::uint64_t free_bytes() const = 0;
    /// The attainable read bandwidth of the memory, measured on two long arrays.
    virtual tenken::TimedDots time_dots(long repetitions, double warmup_seconds) = 0;
    /// Transfers a problem here, replacing the previous one.
    virtual void load(const Problem& problem) = 0;
    /// Measures one of the family's variants. Every element of y is NaN before the timed part.
    virtual Outcome measure(const std::string& variant, const Plan& plan) = 0;
};

/// A kind of back end. A vendor's variant begins with the name of its library and '_'.
class Family {
  public:
    virtual ~Family() = default;
    virtual std::string name() const = 0;
    virtual void options(tenken::Arguments& arguments) { (void)arguments; }
    virtual std::vector<std::string> variants() const = 0;
    virtual std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments) = 0;
    virtual void describe(tenken::Document& document) { (void)document; }
};

/// The built ones, the default first.
std::vector<std::unique_ptr<Family>> families();

std::unique_ptr<Family> make_host_family();
std::unique_ptr<Family> make_cuda_family();

}  // namespace spmv
