// The memory of every GPU in turn, and the capabilities of cuFile there.
#include <unistd.h>

#include <cstdlib>

#include "lib/base/copy_gpu.h"
#include "lib/base/text_file.h"
#include "lib/file_io/cuda/gpu_memory_space.h"
#include "lib/file_io/gds_probe.h"
#include "lib/file_io/scratch.h"

namespace file_io {

namespace {

class CudaMemorySpaces : public GpuMemorySpaces {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }
    void prepare(const tenken::Arguments& arguments) override { gpus_.prepare(arguments); }
    void require_fit(const tenken::Arguments& arguments, const std::string& option, std::uint64_t bytes,
                     const std::string& what) const override {
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) {
            const std::uint64_t free = gpu->description().memory_free_bytes;
            if (bytes <= free / 10 * 9) continue;
            throw arguments.error(option, "what fits into memory: " + what + " need " +
                                              tenken::format_bytes(bytes) + " on gpu" +
                                              std::to_string(gpu->index()) + ", free " +
                                              tenken::format_bytes(free));
        }
    }

    void each(int threads, const std::string& folder,
              const std::function<void(MemorySpace&)>& work) override {
        gpus_.each([&](tenken::cuda::Gpu& gpu, tenken::DeviceWorker&) {
            const std::shared_ptr<const CuFile> cufile = open_cufile(folder, gpu.index());
            GpuMemorySpace space(gpu, threads, cufile, native_);
            work(space);
        });
    }

    void report(tenken::Document& document) override {
        gpus_.report(document);
        tenken::describe_pages(document);
        document.path("staging", Staging::describe());
        describe_cufile(document);
    }

    void describe_cufile(tenken::Document& document) override {
        if (properties_.empty() && why_no_cufile_.empty()) return;  // waived before it was opened
        if (properties_.empty()) {
            document.path("cufile", "none: " + why_no_cufile_);
            document.path("cufile_probe", "with CUFILE_ALLOW_COMPAT_MODE=false: " + why_not_native_);
            return;
        }
        document.build.libraries.push_back({"cuFile", cufile_version_});
        document.path("cufile", native_ ? "GPUDirect Storage" : "compatibility mode, no GPUDirect Storage");
        document.path("cufile_properties", properties_);
        document.path("cufile_probe", native_ ? std::string("works with CUFILE_ALLOW_COMPAT_MODE=false")
                                              : "with CUFILE_ALLOW_COMPAT_MODE=false: " + why_not_native_);
        document.path("nvidia_fs",
                      tenken::read_text("/proc/driver/nvidia-fs/version").value_or("not loaded"));
    }

  private:
    /// Tests the capabilities in separate processes, because a failing cuFile may end its process.
    std::shared_ptr<const CuFile> open_cufile(const std::string& folder, int gpu) {
        const RunFolder probing(folder, "gds");
        const char* const forced = std::getenv("CUFILE_FORCE_COMPAT_MODE");
        GdsProbe straight;
        if (forced != nullptr && std::string(forced) == "true") {
            straight.why_not = "not tried, as CUFILE_FORCE_COMPAT_MODE is true";
        } else {
            straight = probe_gds(probing.file("probe"), gpu, {{"CUFILE_ALLOW_COMPAT_MODE", "false"}});
        }
        native_ = straight.works;
        why_not_native_ = straight.why_not;
        if (!native_) {
            const Settings settings = {{"CUFILE_ALLOW_COMPAT_MODE", "true"}};
            const GdsProbe bounced = probe_gds(probing.file("probe"), gpu, settings);
            if (!bounced.works) {
                why_no_cufile_ = bounced.why_not;
                // It queries udev for the device of a file, in any mode, and containers often have no udev.
                const std::string database = "/run/udev/data";
                if (access(database.c_str(), R_OK) != 0) {
                    why_no_cufile_ += "; cuFile asks udev for the device, and there is no " + database;
                }
                return nullptr;
            }
            for (const Setting& one : settings) setenv(one.first.c_str(), one.second.c_str(), 1);
        }
        const std::shared_ptr<const CuFile> cufile = CuFile::open(why_no_cufile_);
        if (cufile) {
            cufile_version_ = cufile->version();
            properties_ = cufile->properties();
        }
        return cufile;
    }

    tenken::cuda::Gpus gpus_;
    bool native_ = false;
    std::string why_no_cufile_;
    std::string why_not_native_;
    std::string cufile_version_;
    std::string properties_;
};

}  // namespace

std::unique_ptr<GpuMemorySpaces> make_gpu_memory_spaces() {
    return std::unique_ptr<GpuMemorySpaces>(new CudaMemorySpaces);
}

}  // namespace file_io
