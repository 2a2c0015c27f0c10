#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/energy.h"
#include "unit.h"

namespace {

const std::string pci = "0000:01:00.0";

void say(const std::string& text) {
    void* const library = dlopen(TENKEN_FAKE_NVML, RTLD_NOW);
    void (*function)(const char*) = nullptr;
    *reinterpret_cast<void**>(&function) = dlsym(library, "fake_nvml_say");
    function(("pci=" + pci + " " + text).c_str());
}

/// Waits until a quantity was read this many more times; ten seconds at most.
void await(const char* key, long times) {
    void* const library = dlopen(TENKEN_FAKE_NVML, RTLD_NOW);
    long (*asked)(const char*) = nullptr;
    *reinterpret_cast<void**>(&asked) = dlsym(library, "fake_nvml_asked");
    const long before = asked(key);
    for (int i = 0; i < 10000 && asked(key) < before + times; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

std::shared_ptr<const tenken::Nvml> fake() {
    setenv("TENKEN_NVML", TENKEN_FAKE_NVML, 1);
    std::string why;
    return tenken::Nvml::open(why);
}

/// A folder that is removed after all tests.
std::string folder() {
    struct Folders {
        std::string names;
        ~Folders() {
            if (!names.empty() && std::system(("rm -rf" + names).c_str()) != 0) std::perror("rm");
        }
    };
    static Folders folders;
    char name[] = "/tmp/tenken-energy-XXXXXX";
    const std::string made = mkdtemp(name);
    folders.names += " " + made;
    return made;
}

void write(const std::string& root, const std::string& file, const std::string& text) {
    for (std::size_t slash = 0; (slash = file.find('/', slash + 1)) != std::string::npos;)
        mkdir((root + file.substr(0, slash)).c_str(), 0755);
    std::ofstream(root + file) << text << '\n';
}

}  // namespace

TEST(energy_is_counted_from_the_first_step_to_the_last) {
    // 30 J every 0.1 s: 300 W; energy before the first step and after the last is unknown.
    std::vector<tenken::EnergySample> samples;
    for (int i = 0; i < 205; ++i) samples.push_back({5 + 0.01 * i, 1000 + 30.0 * std::floor((i + 3) / 10.0)});
    const auto reading = tenken::energy_of_counter(samples);
    CHECK(static_cast<bool>(reading));
    CHECK(std::fabs(reading->watts - 300) < 1e-6);
    // steps at readings 7, 17, ..., 197
    CHECK(std::fabs(reading->seconds - 1.9) < 1e-9);
    CHECK(std::fabs(reading->repeatability - 0.02 / 1.9) < 1e-9);
    CHECK(std::fabs(reading->uncertainty() - (0.02 / 1.9 + 0.05)) < 1e-9);
}

TEST(a_counter_that_stands_still_or_steps_once_tells_nothing) {
    CHECK(!tenken::energy_of_counter({}));
    CHECK(!tenken::energy_of_counter({{0, 5}, {1, 5}, {2, 5}}));
    CHECK(!tenken::energy_of_counter({{0, 5}, {1, 6}, {2, 6}}));
    CHECK(static_cast<bool>(tenken::energy_of_counter({{0, 5}, {1, 6}, {2, 8}})));
}

TEST(power_is_integrated_by_trapezoids) {
    CHECK(!tenken::energy_of_power({{0, 100}}));
    const auto reading = tenken::energy_of_power({{0, 100}, {1, 300}, {3, 300}});
    CHECK(std::fabs(reading->watts - (200 + 600) / 3.0) < 1e-9);
}

TEST(a_meter_reads_the_counter_and_falls_back_to_power) {
    say("energy_mj=1000 power_mw=500000 sm_clock=1500 temperature=60");
    tenken::EnergyMeter meter(fake(), pci);
    meter.start();
    const double begin = tenken::now_seconds();
    // 20 W, in steps of 20 ms or as long as a busy machine takes to notice one
    for (int step = 1; step <= 15; ++step) {
        while (tenken::now_seconds() - begin < 0.02 * step)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto millijoules = static_cast<long>(20000 * (tenken::now_seconds() - begin));
        say("energy_mj=" + std::to_string(1000 + millijoules) +
            " power_mw=500000 sm_clock=1500 temperature=60");
        await("energy_mj", 2);
    }
    auto reading = meter.stop();
    CHECK(static_cast<bool>(reading));
    CHECK_EQUAL(reading->source, "NVML total energy counter");
    CHECK(reading->watts > 14 && reading->watts < 28);  // not the 500 W of the power readings
    CHECK(*reading->sm_clock_mhz == 1500 && *reading->temperature_c == 60);
    CHECK(std::fabs(reading->joules - reading->watts * reading->duration) < 1e-9);

    say("power_mw=321000");
    meter.start();
    await("power_mw", 3);
    reading = meter.stop();
    CHECK(static_cast<bool>(reading));
    CHECK_EQUAL(reading->source, "NVML power readings, integrated");
    CHECK(std::fabs(reading->watts - 321) < 1e-6);

    say("temperature=60");
    meter.start();
    CHECK(!meter.stop());
    tenken::EnergyMeter none(nullptr, pci);
    none.start();
    CHECK(!none.stop());
}

TEST(rapl_packages_are_added_up_and_unrolled) {
    const std::string root = folder();
    for (const std::string package : {"0", "1"}) {
        const std::string base = "/sys/class/powercap/intel-rapl:" + package;
        write(root, base + "/name", "package-" + package);
        write(root, base + "/energy_uj", "900000000");
        write(root, base + "/max_energy_range_uj", "1000000000");
        write(root, base + ":0/energy_uj", "5");  // its cores are not a package
    }
    tenken::HostEnergy host(root);
    CHECK_EQUAL(host.source(), "RAPL package-0 + package-1");
    CHECK(std::fabs(*host.joules()) < 1e-9);
    write(root, "/sys/class/powercap/intel-rapl:0/energy_uj", "950000000");
    write(root, "/sys/class/powercap/intel-rapl:1/energy_uj", "20000000");  // wrapped after 1000 J
    CHECK(std::fabs(*host.joules() - (50 + 120)) < 1e-9);
    CHECK(!host.watts());
}

TEST(graces_socket_is_read_and_not_its_module) {
    const std::string root = folder();
    const std::pair<const char*, const char*> sensors[] = {{"Module Power Socket 0", "700000000"},
                                                           {"Grace Power Socket 0", "180000000"},
                                                           {"CPU Power Socket 0", "120000000"}};
    int number = 0;
    for (const auto& sensor : sensors) {
        const std::string base = "/sys/class/hwmon/hwmon" + std::to_string(number++) + "/device/";
        write(root, base + "power1_oem_info", sensor.first);
        write(root, base + "power1_average", sensor.second);
    }
    tenken::HostEnergy host(root);
    CHECK_EQUAL(host.source(), "hwmon Grace Power Socket 0");
    CHECK(std::fabs(*host.watts() - 180) < 1e-9);
    CHECK(std::fabs(*host.module_watts() - 700) < 1e-9);
    CHECK(!host.joules());
    tenken::HostEnergy nothing(folder());
    CHECK_EQUAL(nothing.source(), "");
    CHECK(!nothing.joules() && !nothing.watts());
}

TEST(a_meter_of_the_host_reads_its_processors_and_modules) {
    const std::string root = folder();
    const std::string base = "/sys/class/powercap/intel-rapl:0";
    write(root, base + "/name", "package-0");
    write(root, base + "/energy_uj", "0");
    write(root, base + "/max_energy_range_uj", "1000000000");
    write(root, "/sys/class/hwmon/hwmon0/device/power1_oem_info", "Module Power Socket 0");
    write(root, "/sys/class/hwmon/hwmon0/device/power1_average", "700000000");
    tenken::HostEnergyMeter meter(root);
    CHECK(meter.there() && meter.of_node());
    meter.start();
    const double begin = tenken::now_seconds();
    // 20 W, in steps of 20 ms or as long as a busy machine takes
    for (int step = 1; step <= 15; ++step) {
        while (tenken::now_seconds() - begin < 0.02 * step)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        // renamed into place: a file being written would be read as empty
        write(root, base + "/energy_new",
              std::to_string(static_cast<long>(20e6 * (tenken::now_seconds() - begin))));
        std::rename((root + base + "/energy_new").c_str(), (root + base + "/energy_uj").c_str());
    }
    const auto reading = meter.stop();
    CHECK(static_cast<bool>(reading));
    CHECK_EQUAL(reading->source, "RAPL package-0");
    CHECK(reading->watts > 14 && reading->watts < 28);
    CHECK(reading->uncertainty() > 0.05);
    CHECK(static_cast<bool>(meter.module()));
    CHECK(std::fabs(meter.module()->watts - 700) < 1e-6);

    tenken::HostEnergyMeter none(folder());
    CHECK(!none.there());
    none.start();
    CHECK(!none.stop() && !none.module());
}
