// Common part of the programs that time transfers between files and the memory of the host or of GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/program.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/place.h"

namespace file_io {

class FileProgram : public tenken::Program {
  protected:
    FileProgram() : gpus_(make_gpu_memory_spaces()) {}

    /// Declares --backend and --path, which come first.
    void backend_options(tenken::Arguments& arguments, const std::string& backend_help,
                         const std::string& path_help);
    /// Declares the selection of GPUs, if this build supports them; comes last.
    void gpu_options(tenken::Arguments& arguments);
    bool on_host() const { return backend_ == "host"; }

    /// The configurations listed by an option: METHOD_BLOCK_THREADS each.
    /// @throws ArgumentError if one is invalid, listed twice, has more than `threads`, or there is none
    static std::vector<IoConfig> listed_ways(const tenken::Arguments& arguments, const std::string& option,
                                             const std::string& list, std::int64_t threads);
    /// Why a method cannot be used here; empty if it can.
    std::string why_no_way(MemorySpace& space, const std::string& method) const;
    /// Ends the run if a requested configuration is not available. @throws Waived
    [[noreturn]] void waive(const std::string& method, const std::string& why) const;

    /// Begins a document: back ends, and the file system that is written to.
    void begin(tenken::Run& run);
    /// Calls work(space) for the host's memory, or for that of each GPU.
    /// @param host_threads the maximum per configuration on the host; @param threads on a GPU
    void on_each_space(int host_threads, int threads, const std::function<void(MemorySpace&)>& work);
    /// Reports plain copies between page-locked memory and the GPU, which bound every transfer of files.
    void add_link(MemorySpace& space);
    /// Completes a document: placement, and the data of the GPUs.
    void end();

    std::unique_ptr<GpuMemorySpaces> gpus_;
    std::string backend_ = "host";
    std::string path_ = ".";
    Place place_;
    tenken::Run* run_ = nullptr;
};

}  // namespace file_io
