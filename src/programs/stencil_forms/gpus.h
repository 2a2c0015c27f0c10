// The GPUs of a run of the formulations.
#pragma once

#include <memory>
#include <string>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "programs/stencil_forms/form.h"

namespace stencil_forms {

class GpuForms {
  public:
    virtual ~GpuForms() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    /// @param bytes of both arrays @throws ArgumentError if they do not fit; Waived
    virtual void prepare(const tenken::Arguments& arguments, const std::string& form,
                         std::uint64_t bytes) = 0;
    /// GPUs that work on one grid: one for `device`, all selected ones for `managed`.
    virtual int parts(const std::string& form) const = 0;
    virtual std::unique_ptr<Form> make(const std::string& form, const Grid& grid) = 0;
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
    virtual void report(tenken::Document& document) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuForms> make_gpu_forms();

}  // namespace stencil_forms
