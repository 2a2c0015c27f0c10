// What a back end of spmv gives: a place with a matrix on it, and several ways to multiply by it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/sparse/csr.h"

namespace spmv {

/// A matrix and the vector it is multiplied by. In single precision both are rounded to float.
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
    /// The least a product by CSR can move: every value, column, offset, x and y once.
    double csr_traffic() const {
        return static_cast<double>(matrix->entries()) * static_cast<double>(real_bytes() + sizeof(int)) +
               sizeof(int) * (static_cast<double>(matrix->rows) + 1) + vector_bytes();
    }
    /// The same by sliced ELL with so many places, padding included.
    double sell_traffic(std::int64_t places, std::int64_t slices) const {
        return static_cast<double>(places) * static_cast<double>(real_bytes() + sizeof(int)) +
               sizeof(std::int64_t) * (static_cast<double>(slices) + 1) + vector_bytes();
    }
    /// The same of tasks (sorted.h): their places, 16 bytes each, and 4 bytes a row of a slice.
    double sorted_traffic(std::uint64_t places, std::uint64_t tasks, std::uint64_t listed_rows) const {
        return static_cast<double>(places) * static_cast<double>(real_bytes() + sizeof(int)) +
               16.0 * static_cast<double>(tasks) + sizeof(int) * static_cast<double>(listed_rows) +
               vector_bytes();
    }
};

/// Sliced ELL is tried up to this many places an entry.
constexpr double max_padding = 2.0;

struct Plan {
    long repetitions = 100;
    double warmup_seconds = 0.1;  ///< of each variant
};

/// What a variant did on a problem.
struct Outcome {
    std::string left_out;         ///< why it was not measured; empty when it was
    std::vector<double> seconds;  ///< of each repetition
    double prepare_seconds = 0;   ///< from CSR to what is multiplied: conversion, analysis, transfer of it
    double traffic_bytes = 0;     ///< the least that a product in this format moves
    double padding = 1;           ///< places stored an entry
    std::string launch;           ///< how it ran, where there was a choice
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
    /// All last-level caches (the L2 of a GPU); 0 where it is not told.
    virtual std::uint64_t cache_bytes() const = 0;
    virtual std::uint64_t free_bytes() const = 0;
    virtual tenken::Limit dot_limit() const = 0;
    /// GB/s of each dot product of two long arrays: what the memory gives to something that reads.
    virtual std::vector<double> dot_rates(long repetitions, double warmup_seconds) = 0;
    /// Brings a problem here, in place of the one before.
    virtual void load(const Problem& problem) = 0;
    /// Measures one of the family's variants. Every element of y was not a number before the timed part.
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

/// Those that were built, the default first.
std::vector<std::unique_ptr<Family>> families();

std::unique_ptr<Family> make_host_family();
std::unique_ptr<Family> make_cuda_family();

}  // namespace spmv
