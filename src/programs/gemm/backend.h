// Where products are computed: the host, with formats emulated, or a GPU.
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

/// Random numbers, or zeros, which draw less power and flatter.
enum class Data { random, zeros };

/// Products timed together, one after the other.
struct Batch {
    double begin;    ///< seconds since the first one began
    double seconds;  ///< of all of them
    long count;
};

/// What choosing the library's algorithm has found; rates of stretches that each had the GPU to itself.
struct Choice {
    std::string text;       ///< the chosen one, and of how many
    double over_first = 1;  ///< the chosen one's rate over that of the library's first proposal
};

/// One place and, between prepare() and the next prepare(), one case.
class Place {
  public:
    virtual ~Place() = default;
    virtual tenken::Subject subject() const = 0;
    /// "device" or "host".
    virtual std::string clock() const = 0;
    /// Allocates and makes ready. @return why this case cannot be computed here; empty when it can
    virtual std::string prepare(const Case& one) = 0;
    /// Writes the operands, and into C what no product gives (zeros where products are added).
    virtual void fill(Data data) = 0;
    /// Finds the fastest algorithm on the current operands.
    /// @param stretch seconds that each candidate has the GPU to itself
    /// @param twice measures the candidates close to the fastest again in reverse order before choosing
    virtual Choice choose(double stretch, bool twice) = 0;
    /// Computes for so many seconds, without a gap.
    virtual std::vector<Batch> run_for(double seconds) = 0;
    /// The chosen way's rate over the best of all that were close, stretches before and after the timed part.
    virtual double of_best() = 0;
    /// Compares every element of C, for random data; one that is added to is computed anew first.
    /// @param fault element: first puts one element of C a little more than twice its bound beside what it
    /// must be
    virtual tenken::Check verify(tenken::Fault fault) = 0;
    /// Frees what prepare() has allocated.
    virtual void release() = 0;
    /// What the units, or the memory that operands and C must cross once, allow.
    virtual tenken::Limit peak(const Case& one) const = 0;
    /// Null where there is no sensor.
    virtual tenken::EnergyMeter* energy() { return nullptr; }
    /// Health is watched in between.
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
    /// The order of square problems where none is given; 0: each precision's own.
    virtual std::int64_t square() const { return 0; }
    virtual void describe(tenken::Document& document) { (void)document; }
};

std::unique_ptr<Family> make_host_family();
std::unique_ptr<Family> make_cuda_family();

}  // namespace gemm
