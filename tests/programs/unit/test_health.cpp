#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "lib/base/health.h"
#include "unit.h"

namespace {

const std::string pci = "0000:01:00.0";
const std::string healthy =
    "pci=0000:01:00.0 driver=580.1 vbios=96.00 serial=1320 power_limit_mw=700000 persistence=1 sm_clock=1980 "
    "memory_clock=3201 sm_clock_max=1990 "
    "memory_clock_max=3202 power_mw=123456 temperature=40 reasons=0 ecc=1 ecc_later=0 ecc_corrected=3 "
    "ecc_uncorrected=0 remapped=2 remapped_uncorrectable=1 remapping_pending=0 remapping_failed=0 mig=0 "
    "mig_later=1 pcie_generation=5 pcie_width=16 pcie_generation_max=5 pcie_width_max=16 "
    "nvlinks_active=17 field_91=18 field_90=26562 field_82=55 memory_total=3000 memory_free=2000 "
    "memory_used=1000 utilization=99 utilization_of_memory=98 xid=0 ";

std::string own_pid() {
    return std::to_string(getpid());
}

void say_only(const std::string& text) {
    void* const library = dlopen(TENKEN_FAKE_NVML, RTLD_NOW);
    void (*function)(const char*) = nullptr;
    *reinterpret_cast<void**>(&function) = dlsym(library, "fake_nvml_say");
    function(text.c_str());
}

/// The GPU's values from now on: `healthy`, preceded by some words, since the first of a key counts.
void say(const std::string& changed) {
    say_only(changed + " " + healthy);
}

std::shared_ptr<const tenken::Nvml> fake(std::string* why_not = nullptr) {
    setenv("TENKEN_NVML", TENKEN_FAKE_NVML, 1);
    std::string why;
    const auto nvml = tenken::Nvml::open(why);
    if (why_not != nullptr) *why_not = why;
    return nvml;
}

/// Waits until a monitor has read the present values: once for the current reading to end, once for a new
/// one.
void let_it_read() {
    void* const library = dlopen(TENKEN_FAKE_NVML, RTLD_NOW);
    long (*asked)(const char*) = nullptr;
    *reinterpret_cast<void**>(&asked) = dlsym(library, "fake_nvml_asked");
    const long before = asked("utilization");  // the last one that a reading queries
    for (int i = 0; i < 10000 && asked("utilization") < before + 2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

TEST(clock_event_reasons_have_nvmls_names) {
    CHECK(tenken::clock_event_reasons(0).empty());
    const auto reasons = tenken::clock_event_reasons(0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 1ULL << 20);
    const std::vector<std::string> expected = {"sw_power_cap",
                                               "hw_slowdown",
                                               "sw_thermal_slowdown",
                                               "hw_thermal_slowdown",
                                               "hw_power_brake_slowdown",
                                               "bit_20"};
    CHECK(reasons == expected);
}

TEST(a_missing_nvml_is_told_with_its_reason) {
    setenv("TENKEN_NVML", "/nowhere/libnvidia-ml.so", 1);
    std::string why_not;
    CHECK(tenken::Nvml::open(why_not) == nullptr);
    CHECK(why_not.find("/nowhere/libnvidia-ml.so") != std::string::npos);
    tenken::HealthMonitor monitor(nullptr, pci, 0);
    monitor.start();
    monitor.stop();
    CHECK(static_cast<bool>(monitor.why_not()));
    CHECK(monitor.finish().samples == 0);
}

TEST(an_nvml_that_cannot_start_is_told) {
    say("init=9");
    std::string why_not;
    CHECK(fake(&why_not) == nullptr);
    CHECK_EQUAL(why_not, "nvmlInit_v2 failed: Driver Not Loaded");
}

TEST(an_unknown_gpu_is_told) {
    say("");
    tenken::HealthMonitor monitor(fake(), "0000:99:00.0", 0);
    CHECK(static_cast<bool>(monitor.why_not()));
    CHECK(monitor.why_not()->find("0000:99:00.0") != std::string::npos);
}

TEST(a_device_is_described_by_nvml) {
    say("");
    const auto nvml = fake();
    std::string why_not;
    tenken::DeviceDescription device;
    nvml->describe(nvml->find(pci, why_not), device);
    CHECK_EQUAL(*device.driver, "580.1");
    CHECK(*device.memory_clock_max_mhz == 3202 && *device.sm_clock_max_mhz == 1990);
    CHECK(*device.pcie_generation_max == 5);
    CHECK(*device.nvlinks_total == 18);
    CHECK(*device.nvlinks_active == 17);
    CHECK(*device.nvlink_gbs_per_link == 26.562);
    CHECK(*device.ecc_enabled && !*device.mig_enabled);
    CHECK_EQUAL(*device.serial, "1320");
    CHECK(*device.power_limit_w == 700 && *device.persistence_mode);
    CHECK(device.json().dump().find("\"serial\"") != std::string::npos);
}

TEST(what_a_driver_does_not_report_of_a_device_is_absent) {
    say_only("pci=0000:01:00.0 serial= ");
    const auto nvml = fake();
    std::string why_not;
    tenken::DeviceDescription device;
    nvml->describe(nvml->find(pci, why_not), device);
    CHECK(!device.serial && !device.power_limit_w && !device.persistence_mode);
}

/// No two values are alike: each is in its own field, and there is no other field.
TEST(one_reading_has_every_field_and_no_two_are_exchanged) {
    say("pids=" + own_pid() +
        ",17,18 reasons=4 ecc_corrected=21 ecc_uncorrected=22 remapped=23 "
        "remapped_uncorrectable=24 remapping_pending=1 pcie_generation=4 pcie_width=8 memory_total=27 "
        "memory_free=26 memory_used=25");
    const auto nvml = fake();
    std::string why_not;
    CHECK_EQUAL(
        nvml->read(nvml->find(pci, why_not)).json().dump(),
        "{\"sm_clock_mhz\":1980,\"memory_clock_mhz\":3201,\"power_w\":123.456,\"temperature_c\":40,"
        "\"memory_temperature_c\":55,\"reasons\":[\"sw_power_cap\"],\"ecc_corrected\":21,"
        "\"ecc_uncorrected\":22,\"remapped_rows_correctable\":23,\"remapped_rows_uncorrectable\":24,"
        "\"remapping_pending\":true,\"remapping_failed\":false,\"pcie_generation\":4,\"pcie_width\":8,"
        "\"nvlinks_active\":17,\"other_processes\":2,\"memory_used_bytes\":25,"
        "\"utilization_percent\":99}");
    say("remapping_failed=1");
    const tenken::HealthSample failed = nvml->read(nvml->find(pci, why_not));
    CHECK(*failed.remapping_failed && !*failed.remapping_pending);
}

TEST(a_description_has_every_field_of_nvml_and_no_two_are_exchanged) {
    for (const bool on : {true, false}) {
        say("power_limit_mw=31000 pcie_generation_max=4 pcie_width_max=8 persistence=" + std::to_string(on) +
            " ecc=" + std::to_string(!on) + " ecc_later=" + std::to_string(on) +
            " mig=" + std::to_string(on) + " mig_later=" + std::to_string(!on));
        const auto nvml = fake();
        std::string why_not;
        tenken::DeviceDescription device;
        nvml->describe(nvml->find(pci, why_not), device);
        CHECK(*device.power_limit_w == 31 && *device.pcie_generation_max == 4 && *device.pcie_width_max == 8);
        CHECK(*device.persistence_mode == on && *device.ecc_enabled == !on && *device.mig_enabled == on);
        CHECK_EQUAL(*device.driver + " " + *device.vbios + " " + *device.serial, "580.1 96.00 1320");
    }
}

TEST(what_a_gpu_does_not_tell_is_absent) {
    say_only("pci=0000:01:00.0");
    const auto nvml = fake();
    std::string why_not;
    const tenken::HealthSample sample = nvml->read(nvml->find(pci, why_not));
    CHECK(!sample.sm_clock_mhz && !sample.power_w && !sample.ecc_corrected && !sample.nvlinks_active);
    CHECK(!sample.other_processes && !sample.remapping_pending && sample.reasons.empty());
    tenken::HealthMonitor monitor(nvml, pci, 0);
    CHECK(!monitor.finish().xids);
}

TEST(in_another_pid_namespace_some_of_the_processes_are_this_run) {
    const auto nvml = fake();
    std::string why_not;
    say("pids=900001,900002");
    const auto device = nvml->find(pci, why_not);
    CHECK(*nvml->read(device).other_processes == 1);
    say("pids=900001");
    CHECK(*nvml->read(device).other_processes == 0);
    say("pids=");
    CHECK(*nvml->read(device).other_processes == 0);
    tenken::set_processes_of_run({static_cast<int>(getpid()), 1, 2});  // two other ranks
    say("pids=900001,900002,900003");
    CHECK(*nvml->read(device).other_processes == 0);
    say("pids=900001,900002,900003,900004");
    CHECK(*nvml->read(device).other_processes == 1);
    tenken::set_processes_of_run({static_cast<int>(getpid())});
}

TEST(many_processes_are_all_counted) {
    std::string pids = own_pid();
    for (int i = 0; i < 100; ++i) pids += "," + std::to_string(900000 + i);
    say("pids=" + pids);
    const auto nvml = fake();
    std::string why_not;
    CHECK(*nvml->read(nvml->find(pci, why_not)).other_processes == 100);
}

TEST(work_of_others_is_read_after_that_of_this_run) {
    say("pids=" + own_pid());
    tenken::HealthMonitor alone(fake(), pci, 0);
    CHECK(!alone.finish().others_percent);
    say("pids=" + own_pid() + ",17 utilization=100");
    tenken::HealthMonitor monitor(fake(), pci, 0);
    std::thread idle_later([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        say("pids=" + own_pid() + ",17 utilization=4");
    });
    const tenken::DeviceHealth quiet = monitor.finish();
    idle_later.join();
    CHECK(*quiet.after.utilization_percent == 100);
    CHECK(*quiet.others_percent == 4);
    CHECK(quiet.json().dump().find("\"others_percent\":4") != std::string::npos);
    say("pids=" + own_pid() + ",17 utilization=100");
    CHECK(*tenken::HealthMonitor(fake(), pci, 0).finish().others_percent == 100);
    say_only("pci=0000:01:00.0 pids=" + own_pid() + ",17");
    CHECK(!tenken::HealthMonitor(fake(), pci, 0).finish().others_percent);
}

TEST(the_worst_of_two_readings_is_told_field_by_field) {
    tenken::HealthSample one;
    one.sm_clock_mhz = 1900;
    one.memory_clock_mhz = 2000;
    one.nvlinks_active = 18;
    one.utilization_percent = 40;
    one.power_w = 500;
    one.temperature_c = 50;
    one.memory_temperature_c = 80;
    one.ecc_corrected = 4;
    one.ecc_uncorrected = 0;
    one.remapped_rows_correctable = 1;
    one.remapped_rows_uncorrectable = 0;
    one.remapping_pending = true;
    one.pcie_generation = 1;
    one.pcie_width = 16;
    one.other_processes = 2;
    one.memory_used_bytes = 100;
    one.reasons = {"gpu_idle", "sw_power_cap"};
    tenken::HealthSample other;
    other.sm_clock_mhz = 1700;
    other.memory_clock_mhz = 3000;
    other.nvlinks_active = 17;
    other.utilization_percent = 90;
    other.power_w = 700;
    other.temperature_c = 70;
    other.memory_temperature_c = 60;
    other.ecc_corrected = 3;
    other.ecc_uncorrected = 1;
    other.remapped_rows_correctable = 0;
    other.remapped_rows_uncorrectable = 2;
    other.remapping_pending = false;
    other.pcie_generation = 5;
    other.pcie_width = 8;
    other.other_processes = 0;
    other.memory_used_bytes = 200;
    other.reasons = {"hw_slowdown", "gpu_idle"};
    for (const bool first : {true, false}) {
        tenken::HealthSample worst;
        tenken::fold_worst(worst, first ? one : other, true);
        tenken::fold_worst(worst, first ? other : one, false);
        CHECK(*worst.sm_clock_mhz == 1700 && *worst.memory_clock_mhz == 2000);
        CHECK(*worst.nvlinks_active == 17 && *worst.utilization_percent == 40);
        CHECK(*worst.power_w == 700 && *worst.temperature_c == 70 && *worst.memory_temperature_c == 80);
        CHECK(*worst.ecc_corrected == 4 && *worst.ecc_uncorrected == 1);
        CHECK(*worst.remapped_rows_correctable == 1 && *worst.remapped_rows_uncorrectable == 2);
        CHECK(*worst.remapping_pending);
        CHECK(*worst.pcie_generation == 5 && *worst.pcie_width == 16);  // an idle link trains down
        CHECK(*worst.other_processes == 2 && *worst.memory_used_bytes == 200);
        CHECK(worst.reasons.size() == 3);
    }
}

TEST(the_timed_part_keeps_the_worst) {
    say("pids=" + own_pid() + " pcie_generation=1 sm_clock=345");
    tenken::HealthMonitor monitor(fake(), pci, 2, 0.005);
    say("pids=" + own_pid() + " pcie_generation=1 sm_clock=1900 nvlinks_active=16");
    monitor.start();
    let_it_read();
    say("pids=" + own_pid() + ",77 reasons=4 sm_clock=1740 temperature=61 power_mw=700000 ");
    let_it_read();
    say("pids=" + own_pid() + " reasons=64 sm_clock=1800 ecc_corrected=4 xid=79");
    let_it_read();
    monitor.stop();
    say("pids=" + own_pid() + " reasons=1 sm_clock=345 pcie_generation=1 ecc_corrected=4 xid=31");
    const tenken::DeviceHealth health = monitor.finish();
    CHECK(health.index == 2);
    CHECK(health.samples > 3);
    CHECK(health.seconds > 0 && health.seconds < 60);
    CHECK(*health.before.sm_clock_mhz == 345);
    CHECK(*health.worst.sm_clock_mhz == 1740);
    CHECK(*health.worst.power_w == 700);
    CHECK(*health.worst.temperature_c == 61);
    CHECK(*health.worst.nvlinks_active == 16);
    CHECK(*health.worst.other_processes == 1);
    CHECK(*health.worst.pcie_generation == 5);  // the highest: an idle link trains down
    CHECK(*health.worst.ecc_corrected == 4);
    const std::vector<std::string> reasons = {"sw_power_cap", "hw_thermal_slowdown"};
    CHECK(health.worst.reasons == reasons);  // not gpu_idle, which came after the timed part
    CHECK(*health.after.sm_clock_mhz == 345);
    const std::vector<int> xids = {79, 31};
    CHECK(health.xids && *health.xids == xids);  // also that of the verification, after the timed part
    CHECK(monitor.reading_seconds() > 0);
}

TEST(a_short_timed_part_is_read_at_least_once) {
    say("pids=" + own_pid());
    tenken::HealthMonitor monitor(fake(), pci, 0, 10);
    for (int i = 0; i < 3; ++i) {
        monitor.start();
        monitor.stop();
    }
    CHECK(monitor.finish().samples == 3);
}
