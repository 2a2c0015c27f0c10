// From host to device memory by the GPU, then by the CPU, then by the GPU again: shows whether pages migrate,
// and whether they migrate back.
#include <string>

#include "lib/base/copy_program.h"
#include "lib/base/ramp.h"

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<tenken::CopyGpus> tenken::make_copy_gpus() {
    return nullptr;
}
#endif

namespace {

class Migration : public tenken::CopyProgram {
  public:
    std::string name() const override { return "migration"; }
    std::string purpose() const override {
        return "Copies from host to device memory by the GPU, by the CPU and by the GPU again, in GB/s (10^9 "
               "bytes, read + written), every repetition kept in order; --repetitions applies to each phase.";
    }

  protected:
    void measure_on(tenken::CopyGpu* gpu, tenken::Run& run) override {
        std::vector<std::vector<tenken::Ramp>> ramps(3);
        if (gpu != nullptr)
            device_copy(*gpu, run);  // warms up and selects the launch configuration; not a metric
        for (long number = 1; number <= trials(); ++number) {
            const std::vector<tenken::Ramp> of_trial = run_trial(number, gpu, run);
            for (std::size_t phase = 0; phase < 3; ++phase) ramps[phase].push_back(of_trial[phase]);
        }
        if (gpu != nullptr) report_ramps(ramps, *gpu, run.document);
    }

  private:
    std::vector<tenken::Ramp> run_trial(long number, tenken::CopyGpu* gpu, tenken::Run& run) {
        const auto repetitions = static_cast<long>(run.repetitions);
        const auto by = gpu == nullptr ? tenken::Processor::cpu : tenken::Processor::gpu;
        tenken::CopyTrial one = trial(number, number == 1 ? run.fault : tenken::Fault::none);
        one.source = tenken::MemorySpace::host;
        one.destination = gpu == nullptr ? tenken::MemorySpace::host : tenken::MemorySpace::device;
        one.phases = {{by, repetitions}, {tenken::Processor::cpu, repetitions}, {by, repetitions}};
        one.what = "trial " + std::to_string(number);
        const tenken::CopySeries series = tenken::run_copy_trial(one, gpu);

        static const char* const names[] = {"gpu_first", "cpu", "gpu_last"};
        static const char* const on_host[] = {"cpu_first", "cpu", "cpu_last"};
        std::vector<tenken::Ramp> ramps;
        tenken::Metric metric;
        metric.unit = "GB/s";
        metric.at = at({}, number);
        if (gpu != nullptr) metric.subject = tenken::Subject::gpu(gpu->description().index);
        for (std::size_t phase = 0; phase < 3; ++phase) {
            const bool by_cpu = gpu == nullptr || phase == 1;
            metric.name = gpu == nullptr ? on_host[phase] : names[phase];
            metric.clock = by_cpu ? "host" : "device";
            metric.samples = rates(series.seconds[phase]);
            run.document.add(metric, by_cpu
                                         ? tenken::Limit::unknown("no limit is known for accesses by the CPU")
                                         : device_limit(*gpu));
            ramps.push_back(tenken::find_ramp(metric.samples));
        }
        note(metric.subject.text() + ".trial=" + std::to_string(number), series, run.document);
        return ramps;
    }

    static void report_ramps(const std::vector<std::vector<tenken::Ramp>>& ramps, const tenken::CopyGpu& gpu,
                             tenken::Document& document) {
        static const char* const phases[] = {"first", "cpu", "last"};
        const tenken::Limit none = tenken::Limit::unknown("a count");
        tenken::Metric metric;
        metric.subject = tenken::Subject::gpu(gpu.description().index);
        for (std::size_t phase = 0; phase < 3; ++phase) {
            metric.at = {{"phase", tenken::Json(phases[phase])}};
            metric.name = "ramp";
            metric.unit = "1";
            metric.direction = tenken::Direction::lower;
            metric.samples.clear();
            for (const tenken::Ramp& ramp : ramps[phase]) {
                metric.samples.push_back(static_cast<double>(ramp.repetition));
            }
            document.add(metric, none);
            metric.name = "plateau";
            metric.unit = "GB/s";
            metric.direction = tenken::Direction::higher;
            metric.samples.clear();
            for (const tenken::Ramp& ramp : ramps[phase]) metric.samples.push_back(ramp.plateau);
            document.add(metric, tenken::Limit::unknown("gpu_first and gpu_last have it"));
        }
        metric.at.clear();
        metric.name = "new_ramp";
        metric.unit = "1";
        metric.direction = tenken::Direction::lower;
        metric.statistic = tenken::Statistic::mean;
        metric.samples.clear();
        for (const tenken::Ramp& ramp : ramps[2]) metric.samples.push_back(ramp.seen() ? 1 : 0);
        document.add(metric, none);
    }
};

}  // namespace

int main(int argc, char** argv) {
    Migration program;
    return tenken::run_program(program, argc, argv);
}
