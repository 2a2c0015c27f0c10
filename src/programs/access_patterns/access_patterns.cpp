// Copies from host or device memory to host or device memory by the CPU or the GPU: the eight patterns of a
// common address space. Every repetition is recorded, which shows the ramp caused by migration.
#include "catalogue/access_patterns.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/copy_program.h"
#include "lib/base/sweep.h"

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<tenken::CopyGpus> tenken::make_copy_gpus() {
    return nullptr;
}
#endif

namespace {

using tenken::MemorySpace;
using tenken::Processor;

struct Pattern {
    int number;
    const char* metric;
    MemorySpace source;
    MemorySpace destination;
    Processor by;
};
// The groups of the publication are (1), (2)(3), (4), (5)-(7) and (8).
constexpr Pattern patterns[] = {
    {1, "host_by_cpu", MemorySpace::host, MemorySpace::host, Processor::cpu},
    {2, "remote_by_cpu", MemorySpace::host, MemorySpace::device, Processor::cpu},
    {3, "remote_by_cpu", MemorySpace::device, MemorySpace::host, Processor::cpu},
    {4, "device_by_cpu", MemorySpace::device, MemorySpace::device, Processor::cpu},
    {5, "remote_by_gpu", MemorySpace::host, MemorySpace::host, Processor::gpu},
    {6, "remote_by_gpu", MemorySpace::host, MemorySpace::device, Processor::gpu},
    {7, "remote_by_gpu", MemorySpace::device, MemorySpace::host, Processor::gpu},
    {8, "device_by_gpu", MemorySpace::device, MemorySpace::device, Processor::gpu}};

class AccessPatterns : public tenken::CopyProgram {
  public:
    std::string name() const override { return "access_patterns"; }
    std::string purpose() const override {
        return "Copies from {host, device} to {host, device} memory by {CPU, GPU}, in GB/s (10^9 bytes, read "
               "+ "
               "written), every repetition kept in order.";
    }
    std::int64_t default_repetitions() const override { return 200; }

  protected:
    void more_options(tenken::Arguments& arguments) override {
        arguments.text(
            "patterns", asked_, "LIST",
            "which patterns: all that the placement allows, or a list of numbers. 1: host to host by "
            "the CPU; 2: host to device by the CPU; 3: device to host by the CPU; 4: device to device "
            "by the CPU; 5 to 8: the same by the GPU");
    }

    void more_prepare(const tenken::Arguments& arguments) override {
        const auto possible = [&](const Pattern& pattern) {
            if (on_host()) return pattern.number == 1;
            const bool cpu_on_device = pattern.by == Processor::cpu && pattern.number != 1;
            return !(method() == tenken::Method::explicit_memory && cpu_on_device);
        };
        std::vector<std::string> allowed;
        for (const Pattern& pattern : patterns) {
            if (possible(pattern)) allowed.push_back(std::to_string(pattern.number));
        }
        for (const std::string& word :
             tenken::all_or_distinct_words(arguments, "patterns", asked_, allowed, " with this placement")) {
            chosen_.push_back(&patterns[std::stoi(word) - 1]);  // numbers count from 1
        }
    }

    void measure_on(tenken::CopyGpu* gpu, tenken::Run& run) override {
        if (gpu != nullptr) {
            tenken::Metric metric = start("device_copy", gpu);
            metric.clock = "device";
            metric.timed(device_copy(*gpu, run), counts());
            run.document.add(metric);
        }
        for (const Pattern* pattern : chosen_) {
            for (long number = 1; number <= trials(); ++number) run_pattern(*pattern, number, gpu, run);
        }
    }

  private:
    static tenken::Metric start(const std::string& name, const tenken::CopyGpu* gpu) {
        tenken::Metric metric;
        metric.name = name;
        if (gpu != nullptr) metric.subject = tenken::Subject::gpu(gpu->description().index);
        return metric;
    }

    void run_pattern(const Pattern& pattern, long number, tenken::CopyGpu* gpu, tenken::Run& run) {
        const tenken::Fault fault =
            pattern.number == chosen_.front()->number && number == 1 ? run.fault : tenken::Fault::none;
        tenken::CopyTrial one = trial(number, fault);
        one.source = pattern.source;
        one.destination = pattern.destination;
        one.phases = {{pattern.by, static_cast<long>(run.repetitions)}};
        one.verified = catalogue::copied();
        one.at = {{"pattern", tenken::Json(pattern.number)}, {"trial", tenken::Json(number)}};
        if (gpu != nullptr) one.subject = tenken::Subject::gpu(gpu->description().index);
        const tenken::CopySeries series = tenken::run_copy_trial(one, gpu);

        tenken::Metric metric = start(pattern.metric, gpu);
        if (pattern.by == Processor::gpu) metric.clock = "device";
        metric.timed(series.seconds.front(), counts());
        metric.at = at({{"pattern", tenken::Json(pattern.number)}}, number);
        run.document.add(metric);
        const std::string key = metric.subject.text() + ".pattern=" + std::to_string(pattern.number) +
                                ".trial=" + std::to_string(number);
        note(key, series, run.document);
    }

    std::string asked_ = "all";
    std::vector<const Pattern*> chosen_;
};

}  // namespace

int main(int argc, char** argv) {
    AccessPatterns program;
    return tenken::run_program(program, argc, argv);
}
