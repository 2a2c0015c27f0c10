// A GPU or the host, and the phases that it can run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "programs/burn/chain.h"
#include "programs/burn/data.h"
#include "programs/burn/faults.h"
#include "programs/burn/log.h"

namespace burn {

struct Phase {
    const char* name;
    Kind kind;
    const Format* format;  ///< of products
    bool own;              ///< products by the kernel of this program
    Pattern pattern;       ///< of memory
    bool together;         ///< all GPUs take part in each step
    Chain chain;           ///< of chains of steps
};

/// All phases, in the order in which they run.
const std::vector<Phase>& phases();

/// Lets GPUs take part in a step together.
class Meeting {
  public:
    virtual ~Meeting() = default;
    /// Waits for all.
    /// @return the decision of the first
    virtual bool go_on(bool wish) = 0;
    virtual void wait() = 0;
};

struct How {
    double seconds = 1;
    std::uint32_t number = 0;  ///< of the visit: other data, another mapping of tiles
    bool checked = true;
    bool in_phase = false;      ///< power steps of all GPUs at the same time
    Fault fault = Fault::none;  ///< injected once, into the second step
    Meeting* meeting = nullptr;
    std::function<void(std::uint64_t)> beat;  ///< called with the number of completed steps
};

/// What one visit of a phase did.
struct Visit {
    double seconds = 0;
    std::uint64_t steps = 0;  ///< products, passes, copies
    double operations = 0;    ///< of all steps: floating-point or integer; bytes of memory and copies
    double checked = 0;       ///< of these, those whose result was compared
    std::uint64_t wrong = 0;  ///< segments, words
    std::vector<Record> records;
    std::string
        verdict;  ///< of the first wrong one, computed again: transient, bound to its place, to its data
    std::string fingerprint;  ///< of the first result of visit 0; empty otherwise
};

/// One reading; unreadable values are absent.
struct Sensors {
    tenken::Optional<double> temperature_c;
    tenken::Optional<double> power_w;
    tenken::Optional<double> clock_mhz;
    tenken::Optional<double> joules;  ///< of a counter
    tenken::Optional<std::int64_t> ecc_corrected;
    tenken::Optional<std::int64_t> ecc_uncorrected;

    /// For a line of the report.
    std::string text() const;
};

class Place {
  public:
    virtual ~Place() = default;
    virtual tenken::Subject subject() const = 0;
    /// @return why it cannot run here; empty if it can
    virtual std::string why_not(const Phase& phase) = 0;
    virtual Visit visit(const Phase& phase, const How& how) = 0;
    /// Injects at least `wanted` faults of one class and counts those found.
    virtual Study study(const Phase& phase, Fault fault, double wanted,
                        const std::function<void(std::uint64_t)>& beat) = 0;
    /// Bytes per second of a plain copy within the memory, read and written, for about this many seconds.
    virtual double copy_rate(double seconds) = 0;
    /// Bytes that memory phases cover, over those that were free.
    virtual double memory_share() const = 0;
    virtual tenken::Meter* energy() { return nullptr; }
    virtual std::string serial() const { return ""; }
    /// For fingerprints: the kind of device by its driver's name, and what determines the bits apart from the
    /// seed.
    virtual std::string kind() const = 0;
    virtual std::string algorithm() const = 0;
    virtual tenken::Json gpu() const { return {}; }
    /// Health is monitored between the two calls.
    virtual void begin() {}
    virtual void end() {}
    virtual Sensors sensors() { return {}; }
    /// For tests: work that never ends.
    virtual void hang() = 0;
};

/// Of one back end.
class Family {
  public:
    virtual ~Family() = default;
    virtual std::string name() const = 0;
    virtual void options(tenken::Arguments& arguments) { (void)arguments; }
    /// @param memory_share of the free memory, at most
    /// @throws ArgumentError, Waived, std::runtime_error
    virtual std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments,
                                                       double memory_share, std::uint64_t host_bytes,
                                                       std::uint32_t host_order, std::uint64_t seed) = 0;
    virtual void describe(tenken::Document& document) { (void)document; }
};

std::unique_ptr<Family> make_host_family();
std::unique_ptr<Family> make_cuda_family();

}  // namespace burn
