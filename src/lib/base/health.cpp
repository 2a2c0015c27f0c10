#include "lib/base/health.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/base/clock.h"

namespace tenken {

namespace {

/// The state of a link does not change within a second, and querying all links dominates the time of a
/// reading.
constexpr std::int64_t readings_per_look_at_links = 20;

/// The driver's utilisation is that of the last second at most (NVML, nvmlUtilization_t).
constexpr double utilisation_window_seconds = 1.0;
/// Percent up to which a GPU is idle; it then no longer shows this run's work.
constexpr double idle_percent = 5;
/// Readings without own work, and the time between them: work of others may pause.
constexpr int readings_of_others = 3;
constexpr std::chrono::milliseconds between_readings(100);

template <typename T>
void lower(Optional<T>& worst, const Optional<T>& reading) {
    if (reading && (!worst || *reading < *worst)) worst = reading;
}

template <typename T>
void higher(Optional<T>& worst, const Optional<T>& reading) {
    if (reading && (!worst || *reading > *worst)) worst = reading;
}

}  // namespace

void fold_worst(HealthSample& worst, const HealthSample& reading, bool first) {
    if (first) {
        worst = reading;
        return;
    }
    lower(worst.sm_clock_mhz, reading.sm_clock_mhz);
    lower(worst.memory_clock_mhz, reading.memory_clock_mhz);
    lower(worst.nvlinks_active, reading.nvlinks_active);
    lower(worst.utilization_percent, reading.utilization_percent);
    higher(worst.power_w, reading.power_w);
    higher(worst.temperature_c, reading.temperature_c);
    higher(worst.memory_temperature_c, reading.memory_temperature_c);
    higher(worst.ecc_corrected, reading.ecc_corrected);
    higher(worst.ecc_uncorrected, reading.ecc_uncorrected);
    higher(worst.remapped_rows_correctable, reading.remapped_rows_correctable);
    higher(worst.remapped_rows_uncorrectable, reading.remapped_rows_uncorrectable);
    higher(worst.remapping_pending, reading.remapping_pending);
    higher(worst.remapping_failed, reading.remapping_failed);
    // An idle link trains down, so a low reading is meaningless, and the highest shows what the link can do.
    higher(worst.pcie_generation, reading.pcie_generation);
    higher(worst.pcie_width, reading.pcie_width);
    higher(worst.other_processes, reading.other_processes);
    higher(worst.memory_used_bytes, reading.memory_used_bytes);
    for (const std::string& reason : reading.reasons) {
        if (std::find(worst.reasons.begin(), worst.reasons.end(), reason) == worst.reasons.end()) {
            worst.reasons.push_back(reason);
        }
    }
}

HealthMonitor::HealthMonitor(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id, int index,
                             double interval_seconds)
    : nvml_(std::move(nvml)), interval_seconds_(interval_seconds) {
    health_.index = index;
    if (!nvml_) {
        why_not_ = std::string("no NVML");
        return;
    }
    std::string why_not;
    device_ = nvml_->find(pci_bus_id, why_not);
    if (device_ == nullptr) {
        why_not_ = why_not;
        return;
    }
    xid_watch_.reset(new Nvml::XidWatch(*nvml_, device_));
    health_.before = nvml_->read(device_);
}

void HealthMonitor::start() {
    if (device_ == nullptr) return;
    if (began_ == 0) began_ = now_seconds();
    reader_.start([this] { read(); }, interval_seconds_);
}

void HealthMonitor::stop() {
    if (began_ != 0) health_.seconds += now_seconds() - began_;
    began_ = 0;
    reader_.stop();
}

void HealthMonitor::read() {
    const double begin = now_seconds();
    const bool with_links = health_.samples % readings_per_look_at_links == 0;
    fold_worst(health_.worst, nvml_->read(device_, with_links), health_.samples == 0);
    fetch_xids();
    ++health_.samples;
    seconds_reading_ += now_seconds() - begin;
}

void HealthMonitor::fetch_xids() {
    for (int xid : xid_watch_->fetch()) xids_.push_back(xid);
}

DeviceHealth HealthMonitor::finish() {
    stop();
    if (device_ == nullptr) return health_;
    health_.after = nvml_->read(device_);
    health_.others_percent = utilisation_by_others();
    fetch_xids();
    if (xid_watch_->readable()) health_.xids = xids_;
    return health_;
}

Optional<double> HealthMonitor::utilisation_by_others() const {
    Optional<double> busiest;
    if (health_.after.other_processes.value_or(0) == 0) return busiest;
    Optional<double> busy = health_.after.utilization_percent;
    const double end = now_seconds() + utilisation_window_seconds;
    while (busy && *busy > idle_percent && now_seconds() < end) {
        std::this_thread::sleep_for(between_readings);
        busy = nvml_->read(device_, false).utilization_percent;
    }
    for (int i = 0; i < readings_of_others; ++i) {
        higher(busiest, busy);
        std::this_thread::sleep_for(between_readings);
        busy = nvml_->read(device_, false).utilization_percent;
    }
    return busiest;
}

double HealthMonitor::reading_seconds() const {
    return health_.samples == 0 ? 0 : seconds_reading_ / static_cast<double>(health_.samples);
}

}  // namespace tenken
