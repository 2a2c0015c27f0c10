// A simulated GPU: its memory is the host's, its kernels are loops, its times are made up from published
// GH200 figures. With it the programs of copy trials run their whole logic without a GPU, malloc memory
// included. TENKEN_DOUBLE selects a fault: "tail" copies all but the last element, "misplaced" reports pages
// of the device as the host's, "no_sam" has no pageable access.
#include <cstdlib>
#include <string>
#include <utility>

#include "lib/base/copy_gpu.h"

namespace {

using namespace tenken;

bool wrong(const char* how) {
    const char* const chosen = std::getenv("TENKEN_DOUBLE");
    return chosen != nullptr && std::string(chosen) == how;
}

class DoubleGpu : public CopyGpu {
  public:
    DoubleGpu() {
        description_.name = "Double of a GH200";
        description_.uuid = std::string("GPU-00000000-0000-0000-0000-000000000001");
        description_.compute_capability = "9.0";
        description_.multiprocessors = 132;
        description_.memory_bytes = std::uint64_t{96} << 30;
        description_.memory_free_bytes = std::uint64_t{95} << 30;
        description_.l2_bytes = 0;  // so that small arrays have a limit
        description_.memory_bus_bits = 6144;
        description_.memory_clock_mhz = 2619.0;
        description_.cuda_driver = description_.cuda_runtime = "12.6";
        description_.managed_memory = description_.concurrent_managed_access = true;
        description_.pageable_memory_access = description_.pageable_uses_host_page_tables = !wrong("no_sam");
    }

    const DeviceDescription& description() const override { return description_; }
    Buffer allocate(Method, MemorySpace, std::size_t elements) override {
        const Buffer array = allocate_pageable(elements);
        settle(array.get(), MemorySpace::host);  // earlier data at this address are gone
        return array;
    }
    void advise(double* array, std::size_t, MemorySpace space) override { settle(array, space); }
    void prefetch(double* array, std::size_t, MemorySpace space) override { settle(array, space); }
    void fill(double* array, std::size_t elements, int pattern) override {
        settle(array, MemorySpace::device);
        fill_on_host(array, elements, pattern);
    }

    /// Pages move within the first repetitions, and then stay.
    std::vector<double> copy(double* to, const double* from, std::size_t elements,
                             long repetitions) override {
        const std::size_t copied = wrong("tail") ? elements - 1 : elements;
        for (std::size_t i = 0; i < copied; ++i) to[i] = from[i];
        std::vector<double> seconds;
        const double bytes = 2.0 * static_cast<double>(elements * sizeof(double));
        for (long i = 0; i < repetitions; ++i) {
            const bool remote = space_of(to) == MemorySpace::host || space_of(from) == MemorySpace::host;
            const double rate = !remote ? 3200 : i < 50 ? 400 + 50.0 * static_cast<double>(i) : 3000;
            seconds.push_back(bytes / (rate * 1e9));
        }
        settle(to, MemorySpace::device);
        settle(from, MemorySpace::device);
        return seconds;
    }

    ErrorScan compare(const double* array, std::size_t elements, int pattern) override {
        return compare_on_host(array, elements, pattern);
    }
    void flip_bit(double* array, std::size_t index) override {
        array[index] = with_flipped_bit(array[index]);
    }

    Residence residence(const double* array, std::size_t, Method method, MemorySpace space) override {
        if (method == Method::explicit_memory) return Residence::all_on(space);
        return Residence::all_on(wrong("misplaced") ? MemorySpace::host : space_of(array));
    }
    void begin_timed() override {}
    void end_timed() override {}

  private:
    void settle(const double* array, MemorySpace space) { places_.emplace_back(array, space); }
    MemorySpace space_of(const double* array) const {
        for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
            if (place->first == array) return place->second;
        }
        return MemorySpace::host;
    }

    DeviceDescription description_;
    std::vector<std::pair<const double*, MemorySpace>> places_;  ///< the last entry of an array counts
};

class DoubleGpus : public CopyGpus {
  public:
    void options(Arguments&) override {}
    void prepare(const Arguments&) override {}
    std::vector<DeviceDescription> descriptions() const override { return {gpu_.description()}; }
    void each(const std::function<void(CopyGpu&)>& work) override { work(gpu_); }
    void report(Document& document) override {
        document.devices = descriptions();
        document.health.available = true;  // a simulated GPU is always healthy
        document.health.reason.clear();
        document.path("double", "no GPU: a test double");
    }

  private:
    DoubleGpu gpu_;
};

}  // namespace

std::unique_ptr<tenken::CopyGpus> tenken::make_copy_gpus() {
    return std::unique_ptr<CopyGpus>(new DoubleGpus);
}
