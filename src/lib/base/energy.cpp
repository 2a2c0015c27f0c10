#include "lib/base/energy.h"

#include <cstdlib>

#include "lib/base/clock.h"
#include "lib/base/text_file.h"

namespace tenken {

namespace {

/// Power and clock are read less often than the counter.
constexpr int counter_readings_per_power = 8;

/// Between two readings of the host's sensors: RAPL's counters step every millisecond, Grace's power is a
/// mean over 50 ms.
constexpr double host_interval_seconds = 0.005;

constexpr double microunits = 1e-6;

Optional<double> sum_of(const std::vector<std::string>& files) {
    if (files.empty()) return {};
    double sum = 0;
    for (const std::string& file : files) {
        const Optional<std::uint64_t> value = read_number(file);
        if (!value) return {};
        sum += microunits * static_cast<double>(*value);
    }
    return sum;
}

std::string sensors_root() {
    const char* const named = std::getenv("TENKEN_HOST_SENSORS");
    return named == nullptr ? "" : named;
}

EnergyReading of_pass(EnergyReading reading, const std::string& source, double duration) {
    reading.source = source;
    reading.duration = duration;
    reading.joules = reading.watts * duration;
    return reading;
}

std::string line_in(const std::string& file) {
    return trimmed(read_text(file).value_or(""));
}

}  // namespace

void EnergyReading::describe(Document& document, const std::string& key) const {
    document.path(key + ".source", source);
    document.path(key + ".watts", watts);
    document.path(key + ".joules", joules);
    document.path(key + ".seconds", seconds);
    document.path(key + ".duration", duration);
    document.path(key + ".repeatability", repeatability);
    document.path(key + ".uncertainty", uncertainty());
    if (sm_clock_mhz) document.path(key + ".sm_clock_mhz", *sm_clock_mhz);
    if (temperature_c) document.path(key + ".temperature_c", *temperature_c);
}

Optional<EnergyReading> energy_of_counter(const std::vector<EnergySample>& samples) {
    std::size_t first = 0;
    std::size_t last = 0;
    for (std::size_t i = 1; i < samples.size(); ++i) {
        if (samples[i].value == samples[i - 1].value) continue;
        if (first == 0) first = i;
        last = i;
    }
    if (first == 0 || last == first) return {};
    EnergyReading reading;
    reading.seconds = samples[last].seconds - samples[first].seconds;
    reading.watts = (samples[last].value - samples[first].value) / reading.seconds;
    // A step may have occurred at any time since the previous reading.
    const double unseen = (samples[first].seconds - samples[first - 1].seconds) +
                          (samples[last].seconds - samples[last - 1].seconds);
    reading.repeatability = unseen / reading.seconds;
    return reading;
}

Optional<EnergyReading> energy_of_power(const std::vector<EnergySample>& samples) {
    if (samples.size() < 2) return {};
    EnergyReading reading;
    reading.seconds = samples.back().seconds - samples.front().seconds;
    if (!(reading.seconds > 0)) return {};
    double joules = 0;
    for (std::size_t i = 1; i < samples.size(); ++i) {
        joules +=
            0.5 * (samples[i].value + samples[i - 1].value) * (samples[i].seconds - samples[i - 1].seconds);
    }
    reading.watts = joules / reading.seconds;
    reading.repeatability = 1.0 / static_cast<double>(samples.size());
    return reading;
}

EnergyMeter::EnergyMeter(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id,
                         double interval_seconds)
    : nvml_(std::move(nvml)), interval_seconds_(interval_seconds) {
    std::string why_not;
    if (nvml_) device_ = nvml_->find(pci_bus_id, why_not);
}

void EnergyMeter::start() {
    if (device_ == nullptr) return;
    counter_.clear();
    power_.clear();
    clock_sum_ = 0;
    clocks_ = 0;
    temperature_ = {};
    readings_ = 0;
    begin_ = now_seconds();
    reader_.start([this] { read(); }, interval_seconds_);
}

void EnergyMeter::read() {
    const Optional<double> joules = nvml_->energy_joules(device_);
    if (joules) counter_.push_back({now_seconds(), *joules});
    const bool with_power = !joules || readings_ % counter_readings_per_power == 0;
    ++readings_;
    if (!with_power) return;
    const Optional<double> watts = nvml_->power_watts(device_);
    if (watts) power_.push_back({now_seconds(), *watts});
    const HealthSample sample = nvml_->read(device_, false);
    if (sample.sm_clock_mhz) {
        clock_sum_ += *sample.sm_clock_mhz;
        ++clocks_;
    }
    if (sample.temperature_c && (!temperature_ || *sample.temperature_c > *temperature_))
        temperature_ = sample.temperature_c;
}

Optional<EnergyReading> EnergyMeter::stop() {
    if (!reader_.running()) return {};
    const double duration = now_seconds() - begin_;
    reader_.stop();
    Optional<EnergyReading> found = energy_of_counter(counter_);
    std::string source = "NVML total energy counter";
    if (!found) {
        found = energy_of_power(power_);
        source = "NVML power readings, integrated";
    }
    if (!found) return {};
    EnergyReading reading = of_pass(*found, source, duration);
    if (clocks_ > 0) reading.sm_clock_mhz = clock_sum_ / clocks_;
    reading.temperature_c = temperature_;
    return reading;
}

HostEnergy::HostEnergy() : HostEnergy(sensors_root()) {}

HostEnergy::HostEnergy(const std::string& root) {
    const std::string powercap = root + "/sys/class/powercap";
    // Packages are intel-rapl:N; their subdomains (cores, memory) are intel-rapl:N:M.
    for (int package : numbered_entries(powercap, "intel-rapl:")) {
        const std::string folder = powercap + "/intel-rapl:" + std::to_string(package);
        Counter counter;
        counter.file = folder + "/energy_uj";
        const Optional<std::uint64_t> value = read_number(counter.file);  // often readable only by root
        const Optional<std::uint64_t> range = read_number(folder + "/max_energy_range_uj");
        if (!value || !range) continue;
        counter.last = microunits * static_cast<double>(*value);
        counter.range = microunits * static_cast<double>(*range);
        source_ += (source_.empty() ? "RAPL " : " + ") + line_in(folder + "/name");
        counters_.push_back(counter);
    }
    const std::string hwmon = root + "/sys/class/hwmon";
    for (int sensor : numbered_entries(hwmon, "hwmon")) {
        const std::string device = hwmon + "/hwmon" + std::to_string(sensor) + "/device/";
        // The module's sensor includes the GPU, and that of the CPU covers only a part of the socket.
        const std::string text = line_in(device + "power1_oem_info");
        const std::string file = device + "power1_average";
        if (!read_number(file)) continue;
        if (text.compare(0, 19, "Module Power Socket") == 0) module_files_.push_back(file);
        if (text.compare(0, 18, "Grace Power Socket") != 0 || !counters_.empty()) continue;
        source_ += (source_.empty() ? "hwmon " : " + ") + text;
        power_files_.push_back(file);
    }
}

Optional<double> HostEnergy::joules() {
    if (counters_.empty()) return {};
    double sum = 0;
    for (Counter& counter : counters_) {
        const Optional<std::uint64_t> value = read_number(counter.file);
        if (!value) return {};
        const double now = microunits * static_cast<double>(*value);
        counter.total += now >= counter.last ? now - counter.last : now + counter.range - counter.last;
        counter.last = now;
        sum += counter.total;
    }
    return sum;
}

Optional<double> HostEnergy::watts() const {
    return sum_of(power_files_);
}

Optional<double> HostEnergy::module_watts() const {
    return sum_of(module_files_);
}

void HostEnergyMeter::start() {
    if (!there()) return;
    counter_.clear();
    power_.clear();
    module_power_.clear();
    module_ = {};
    begin_ = now_seconds();
    reader_.start([this] { read(); }, host_interval_seconds);
}

void HostEnergyMeter::read() {
    if (const Optional<double> joules = sensors_.joules()) counter_.push_back({now_seconds(), *joules});
    if (const Optional<double> watts = sensors_.watts()) power_.push_back({now_seconds(), *watts});
    if (const Optional<double> watts = sensors_.module_watts())
        module_power_.push_back({now_seconds(), *watts});
}

Optional<EnergyReading> HostEnergyMeter::stop() {
    if (!reader_.running()) return {};
    const double duration = now_seconds() - begin_;
    reader_.stop();
    if (const Optional<EnergyReading> module = energy_of_power(module_power_))
        module_ = of_pass(*module, "hwmon Module Power Socket", duration);
    Optional<EnergyReading> found = energy_of_counter(counter_);
    if (!found) found = energy_of_power(power_);
    if (!found) return {};
    return of_pass(*found, sensors_.source(), duration);
}

}  // namespace tenken
