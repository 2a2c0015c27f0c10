// From host to device memory by the GPU, then by the CPU, then by the GPU again: shows whether pages migrate,
// and whether they migrate back.
#include "catalogue/migration.h"

#include <string>

#include "lib/base/copy_program.h"

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
        if (gpu != nullptr)
            device_copy(*gpu, run);  // warms up and selects the launch configuration; not a metric
        for (long number = 1; number <= trials(); ++number) run_trial(number, gpu, run);
    }

  private:
    void run_trial(long number, tenken::CopyGpu* gpu, tenken::Run& run) {
        const auto repetitions = static_cast<long>(run.repetitions);
        const auto by = gpu == nullptr ? tenken::Processor::cpu : tenken::Processor::gpu;
        tenken::CopyTrial one = trial(number, number == 1 ? run.fault : tenken::Fault::none);
        one.source = tenken::MemorySpace::host;
        one.destination = gpu == nullptr ? tenken::MemorySpace::host : tenken::MemorySpace::device;
        one.phases = {{by, repetitions}, {tenken::Processor::cpu, repetitions}, {by, repetitions}};
        one.verified = catalogue::copied();
        one.at = {{"trial", tenken::Json(number)}};
        if (gpu != nullptr) one.subject = tenken::Subject::gpu(gpu->description().index);
        const tenken::CopySeries series = tenken::run_copy_trial(one, gpu);

        static const char* const names[] = {"gpu_first", "cpu", "gpu_last"};
        static const char* const on_host[] = {"cpu_first", "cpu", "cpu_last"};
        tenken::Metric metric;
        metric.at = at({}, number);
        if (gpu != nullptr) metric.subject = tenken::Subject::gpu(gpu->description().index);
        for (std::size_t phase = 0; phase < 3; ++phase) {
            const bool by_cpu = gpu == nullptr || phase == 1;
            metric.name = gpu == nullptr ? on_host[phase] : names[phase];
            metric.clock = by_cpu ? "host" : "device";
            metric.timed(series.seconds[phase], counts());
            run.document.add(metric);
        }
        note(metric.subject.text() + ".trial=" + std::to_string(number), series, run.document);
    }
};

}  // namespace

int main(int argc, char** argv) {
    Migration program;
    return tenken::run_program(program, argc, argv);
}
