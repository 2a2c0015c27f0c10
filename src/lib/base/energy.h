// Energy consumed by a GPU or a host during a pass (docs/energy.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/document.h"
#include "lib/base/nvml.h"
#include "lib/base/optional.h"
#include "lib/base/periodic_reader.h"

namespace tenken {

/// One reading of a sensor: a counter of joules, or instantaneous watts.
struct EnergySample {
    double seconds;  ///< by now_seconds(), when the value was available
    double value;
};

/// The energy of one pass. No value here is corrected or scaled.
struct EnergyReading {
    std::string source;   ///< "NVML total energy counter", "NVML power readings, integrated", "RAPL", ...
    double watts = 0;     ///< mean over `seconds`
    double joules = 0;    ///< watts x the duration of the pass
    double seconds = 0;   ///< between the two readings (or steps) that `watts` come from
    double duration = 0;  ///< of the pass
    double repeatability = 0;        ///< relative; from step and distance of the readings
    Optional<double> sm_clock_mhz;   ///< mean of the readings
    Optional<double> temperature_c;  ///< highest

    /// Relative; includes the gain error of the sensor, which cannot be checked here.
    double uncertainty() const { return repeatability + sensor_gain; }
    /// Writes it into the path of a document, each value under a key that begins with `key`.
    void describe(Document& document, const std::string& key) const;

    /// NVML specifies +-5 % for its power readings, and the counter uses the same sensor.
    static constexpr double sensor_gain = 0.05;
};

/// Mean watts from a counter of joules that advances in steps, from its first step to its last, since it says
/// nothing between steps. @param samples at least two steps apart
/// @return nothing if there were fewer than two steps
Optional<EnergyReading> energy_of_counter(const std::vector<EnergySample>& samples);

/// Mean watts by the trapezoidal rule. @return nothing for fewer than two readings
Optional<EnergyReading> energy_of_power(const std::vector<EnergySample>& samples);

/// Measures the energy of a pass, between start() and stop().
class Meter {
  public:
    virtual ~Meter() = default;
    virtual void start() = 0;
    /// @return nothing if no sensor can be read, or the pass was shorter than two of its steps
    virtual Optional<EnergyReading> stop() = 0;
    /// Whether its sensors cover the whole node and are shared by the processes on it.
    virtual bool of_node() const { return false; }
};

/// Reads the energy counter of one GPU, or its power if it has no counter, in a separate thread between
/// start() and stop(), for at least two seconds. Without NVML stop() returns nothing.
class EnergyMeter : public Meter {
  public:
    /// @param nvml may be null @param interval_seconds between the end of a reading and the next
    EnergyMeter(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id,
                double interval_seconds = 0.002);

    void start() override;
    Optional<EnergyReading> stop() override;

  private:
    void read();

    std::shared_ptr<const Nvml> nvml_;
    Nvml::Device device_ = nullptr;
    double interval_seconds_;
    double begin_ = 0;
    std::vector<EnergySample> counter_;
    std::vector<EnergySample> power_;
    double clock_sum_ = 0;
    int clocks_ = 0;
    Optional<double> temperature_;
    long readings_ = 0;
    PeriodicReader reader_;
};

/// The host's sensors: RAPL's packages (powercap), or the module's or socket's power of Grace (hwmon).
/// @param root prefix of every path, so that tests can supply their own tree
class HostEnergy {
  public:
    explicit HostEnergy(const std::string& root);
    /// Below the folder given by TENKEN_HOST_SENSORS if set, for tests.
    HostEnergy();
    /// "RAPL package-0 + package-1"; empty if nothing can be read.
    const std::string& source() const { return source_; }
    /// Joules of RAPL's counters since an arbitrary moment, corrected for wrap-around. Absent without RAPL.
    Optional<double> joules();
    /// Watts of hwmon's sensors. Absent without.
    Optional<double> watts() const;
    /// Watts of Grace's modules, their GPUs and memory included. Absent without.
    Optional<double> module_watts() const;

  private:
    struct Counter {
        std::string file;
        double range = 0;  ///< joules at which the counter wraps around
        double last = 0;
        double total = 0;
    };
    std::vector<Counter> counters_;
    std::vector<std::string> power_files_;
    std::vector<std::string> module_files_;
    std::string source_;
};

/// The processors of a node, by the sensors of HostEnergy, read in a separate thread.
class HostEnergyMeter : public Meter {
  public:
    HostEnergyMeter() = default;
    explicit HostEnergyMeter(const std::string& root) : sensors_(root) {}

    bool of_node() const override { return true; }
    /// Whether there is any sensor.
    bool there() const { return !sensors_.source().empty(); }
    void start() override;
    Optional<EnergyReading> stop() override;
    /// For the pass ended by stop(): Grace's modules, if they have a sensor.
    const Optional<EnergyReading>& module() const { return module_; }

  private:
    void read();

    HostEnergy sensors_;
    double begin_ = 0;
    std::vector<EnergySample> counter_;
    std::vector<EnergySample> power_;
    std::vector<EnergySample> module_power_;
    Optional<EnergyReading> module_;
    PeriodicReader reader_;
};

}  // namespace tenken
