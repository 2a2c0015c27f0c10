#include "lib/lu/gpu_backend.h"
#include "programs/hpl/backend.h"
#include "programs/hpl/gpu_engine.h"

namespace hpl {

namespace {

class CudaBackend : public lu::GpuBackend<Backend> {
  public:
    void options(tenken::Arguments& arguments) override {
        GpuBackend::options(arguments);
        arguments.former_name("carrier", "communicator");
    }

    void own_options(tenken::Arguments& arguments) override {
        arguments.choice("panel", panel_, {"auto", "resident", "streamed", "library"},
                         "panels by the built-in kernel with rows in shared memory or not, or by cuSOLVER; "
                         "auto: the built-in one while an update hides it, cuSOLVER for the last --few-rows");
        arguments.integer("few-rows", few_rows_, 0, 1000000,
                          "rows of a panel below which auto uses cuSOLVER");
        arguments.integer(
            "panel-blocks", panel_blocks_, 0, 1024,
            "multiprocessors that the built-in panel kernel may take from the update; more where the rows of "
            "16 columns need them; 0: all");
        arguments.integer("triangle", triangle_, 0, 4096,
                          "columns of the panel's triangle that are inverted at once; 0: cublasDtrsm");
    }

    void prepare(const tenken::Arguments& arguments, Ranks& ranks) override { select(arguments, ranks); }

    std::uint64_t needed_bytes(const Layout& layout) const override { return gpu_bytes(layout); }
    std::vector<std::int64_t> blocks_to_try() const override { return {512, 1024, 2048}; }
    std::int64_t min_width() const override { return 128; }

    std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) override {
        GpuChoices choices;
        choices.few_rows = few_rows_;
        choices.panel = panel_ == "auto"       ? PanelKind::automatic
                        : panel_ == "resident" ? PanelKind::resident
                        : panel_ == "streamed" ? PanelKind::streamed
                                               : PanelKind::library;
        choices.panel_blocks = static_cast<int>(panel_blocks_);
        choices.triangle = triangle_;
        return make_gpu_engine(layout, choices, communicator(ranks, layout.rows.count, layout.columns.count));
    }

    std::vector<double> library_solution(const Matrix& matrix) override {
        return gpu_library_solution(matrix);
    }

  private:
    std::string panel_ = "auto";
    std::int64_t few_rows_ = 12288;
    std::int64_t panel_blocks_ = 32;
    std::int64_t triangle_ = 256;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() {
    return std::unique_ptr<Backend>(new CudaBackend);
}

}  // namespace hpl
