// Where products are computed: the host, with emulated formats, or a GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "lib/base/program.h"
#include "programs/gemm/precision.h"

namespace gemm {

/// Random numbers, or zeros, which draw less power and give higher rates.
enum class Data { random, zeros };

/// Products timed together, in sequence.
struct Batch {
    double begin;    ///< seconds from the start of the first one
    double seconds;  ///< of all of them
    long count;
};

/// The result of choosing the library's algorithm; rates of periods with exclusive use of the GPU.
struct Choice {
    std::string text;       ///< the chosen one, and their number
    double over_first = 1;  ///< the chosen one's rate over that of the library's first proposal
};

/// One host or GPU and, between prepare() and the next prepare(), one case.
class Place {
  public:
    virtual ~Place() = default;
    virtual tenken::Subject subject() const = 0;
    /// "device" or "host".
    virtual std::string clock() const = 0;
    /// Allocates and initialises. @return why this case cannot be computed here; empty if it can
    virtual std::string prepare(const Case& one) = 0;
    /// Writes the operands, and into C values that no product produces (zeros if products are accumulated).
    virtual void fill(Data data) = 0;
    /// Finds the fastest algorithm on the current operands.
    /// @param stretch seconds that each candidate has the GPU to itself
    /// @param twice measures the candidates close to the fastest again in reverse order before choosing
    virtual Choice choose(double stretch, bool twice) = 0;
    /// Uses the library's first proposal that it accepts. @return its description
    virtual std::string take_first() = 0;
    /// Computes for this many seconds, without a gap.
    virtual std::vector<Batch> run_for(double seconds) = 0;
    /// The chosen algorithm's rate over the best of all close ones, from periods before and after the timed
    /// part.
    virtual double of_best() = 0;
    /// Compares every element of C, for random data; an accumulated one is first computed again.
    /// @param fault element: first changes one element of C by a little more than twice its
    /// bound
    virtual tenken::Check verify(tenken::Fault fault) = 0;
    /// Frees the memory allocated by prepare().
    virtual void release() = 0;
    /// Null if there is no sensor.
    virtual tenken::Meter* energy() { return nullptr; }
    /// Health is monitored between the two calls.
    virtual void begin_timed() {}
    virtual void end_timed() {}
};

class Family {
  public:
    virtual ~Family() = default;
    virtual std::string name() const = 0;
    virtual void options(tenken::Arguments& arguments) { (void)arguments; }
    /// @throws ArgumentError, Waived
    virtual std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments) = 0;
    virtual bool at_once() const { return false; }
    /// The order of square problems if none is given; 0: that of each precision.
    virtual std::int64_t square() const { return 0; }
    virtual void describe(tenken::Document& document) { (void)document; }
};

std::unique_ptr<Family> make_host_family();
std::unique_ptr<Family> make_cuda_family();

}  // namespace gemm
