// SpMV on GPUs: the storage of matrices, and the dot product with which they are compared.
#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "lib/cuda/dot.h"
#include "lib/cuda/gpus.h"
#include "programs/spmv/backend.h"
#include "programs/spmv/multiplier.h"
#include "programs/spmv/vendor.h"

namespace spmv {

namespace {

using tenken::cuda::Stream;

class CudaPlace : public Place {
  public:
    explicit CudaPlace(tenken::cuda::Gpu& gpu) : gpu_(gpu) {}

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    std::string clock() const override { return "device"; }
    std::uint64_t cache_bytes() const override { return gpu_.description().l2_bytes; }
    std::uint64_t free_bytes() const override { return gpu_.description().memory_free_bytes; }

    tenken::TimedDots time_dots(long repetitions, double warmup_seconds) override {
        use();
        return tenken::cuda::time_dots(gpu_, *stream_, free_bytes(), repetitions, warmup_seconds, true);
    }

    void load(const Problem& problem) override {
        use();
        multiplier_.reset();
        multiplier_ = problem.single ? make_single_multiplier(problem, *stream_)
                                     : make_double_multiplier(problem, *stream_);
    }

    Outcome measure(const std::string& variant, const Plan& plan) override {
        use();
        return multiplier_->measure(variant, plan, gpu_);
    }

  private:
    void use() {
        gpu_.use();
        if (!stream_) stream_.reset(new Stream);
    }

    tenken::cuda::Gpu& gpu_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Multiplier> multiplier_;
};

class CudaFamily : public Family {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("back end cuda");
        gpus_.options(arguments, false);
    }

    std::vector<std::string> variants() const override {
        std::vector<std::string> list = {"csr_row",  "csr_warp", "csr_bins", "csr_merge",
                                         "csr_tile", "csr_flow", "sell",     "sell_sorted"};
        for (const std::string& name : vendor_variants()) list.push_back(name);
        return list;
    }

    std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments) override {
        gpus_.prepare(arguments);
        std::vector<std::unique_ptr<Place>> list;
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list())
            list.emplace_back(new CudaPlace(*gpu));
        return list;
    }

    void describe(tenken::Document& document) override {
        gpus_.report(document);
        document.build.libraries.emplace_back("cusparse", vendor_version());
    }

  private:
    tenken::cuda::Gpus gpus_;
};

}  // namespace

std::unique_ptr<Family> make_cuda_family() {
    return std::unique_ptr<Family>(new CudaFamily);
}

}  // namespace spmv
