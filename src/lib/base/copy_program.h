// The common part of programs that run copy trials: sizes, placements, trials, GPUs and document.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/copy_gpu.h"
#include "lib/base/copy_trial.h"
#include "lib/base/program.h"

namespace tenken {

/// A program of copy trials, on the host only or on every GPU in turn. A derived class defines one
/// trial.
class CopyProgram : public Program {
  public:
    CopyProgram() : gpus_(make_copy_gpus()) {}

    void options(Arguments& arguments) override;
    void prepare(const Arguments& arguments) override;
    void measure(Run& run) override;

  protected:
    /// Options of the derived program.
    virtual void more_options(Arguments& arguments) { (void)arguments; }
    virtual void more_prepare(const Arguments& arguments) { (void)arguments; }
    /// All trials on the host (`gpu` null) or with one GPU; adds metrics and checks.
    virtual void measure_on(CopyGpu* gpu, Run& run) = 0;

    /// A trial with the values of the options; the caller fills in sides, phases and `what`.
    /// @param number of the trial, from 1
    CopyTrial trial(long number, Fault fault) const;
    /// Records where the pages were and adds the comparison.
    /// @param key names the trial within the document, e.g. "gpu0.pattern=5.trial=1"
    static void note(const std::string& key, const CopySeries& series, Document& document);
    /// Bytes counted for one copy: each is read once and written once.
    std::vector<std::pair<std::string, double>> counts() const {
        return {{"bytes", 2.0 * static_cast<double>(bytes_)}};
    }
    /// Coordinates of a metric, with the trial if there are several.
    std::vector<std::pair<std::string, Json>> at(std::vector<std::pair<std::string, Json>> others,
                                                 long number) const;
    /// Seconds of a copy between arrays of cudaMalloc, after a warm-up: the attainable time of the device.
    std::vector<double> device_copy(CopyGpu& gpu, const Run& run) const;

    bool on_host() const { return backend_ == "host"; }
    Method method() const { return method_of(placement_); }
    long trials() const { return static_cast<long>(trials_); }

  private:
    std::unique_ptr<CopyGpus> gpus_;
    std::string backend_ = "host";
    std::string placement_ = "sam";
    std::string cpu_copy_ = "optimised";
    std::uint64_t bytes_ = 4000000000;
    std::int64_t trials_ = 1;
    std::size_t elements_ = 0;
};

}  // namespace tenken
