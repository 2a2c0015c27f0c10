// The transpose of a matrix by kernels of a GPU with its data in every kind of memory, all phases timed
// separately; on the host for comparison.
#include <algorithm>
#include <cstdlib>

#include "lib/base/clock.h"
#include "lib/base/copy_gpu.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/sweep.h"
#include "lib/base/timed_anew.h"
#include "programs/transpose/transposes.h"

namespace transpose {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuTransposes> make_gpu_transposes() {
    return nullptr;
}
#endif

void write_matrix(float* matrix, const Shape& shape, int run) {
    const auto elements = static_cast<long>(shape.elements());
#pragma omp parallel for schedule(static)
    for (long at = 0; at < elements; ++at) matrix[at] = value_at(static_cast<std::size_t>(at), run);
}

tenken::ErrorScan compare_transposed(const float* transposed, const Shape& shape, int run) {
    tenken::ErrorScan total(0);
    const auto rows = static_cast<std::size_t>(shape.rows);
#pragma omp parallel
    {
        tenken::ErrorScan mine(0);
#pragma omp for schedule(static)
        for (int c = 0; c < shape.columns; ++c) {
            for (std::size_t r = 0; r < rows; ++r) {
                const std::size_t at = static_cast<std::size_t>(c) * rows + r;
                const std::size_t from =
                    r * static_cast<std::size_t>(shape.columns) + static_cast<std::size_t>(c);
                mine.compare(at, static_cast<double>(transposed[at]),
                             static_cast<double>(value_at(from, run)));
            }
        }
#pragma omp critical(transpose_scan)
        total.merge(mine);
    }
    return total;
}

namespace {

typedef std::vector<std::string> Words;

void transpose_naive(float* to, const float* from, const Shape& shape) {
    const std::size_t rows = static_cast<std::size_t>(shape.rows);
    const std::size_t columns = static_cast<std::size_t>(shape.columns);
#pragma omp parallel for schedule(static)
    for (int c = 0; c < shape.columns; ++c) {
        for (std::size_t r = 0; r < rows; ++r) {
            to[static_cast<std::size_t>(c) * rows + r] = from[r * columns + static_cast<std::size_t>(c)];
        }
    }
}

/// By square tiles that fit into the L1.
void transpose_tile(float* to, const float* from, const Shape& shape) {
    constexpr int side = 32;
    const std::size_t rows = static_cast<std::size_t>(shape.rows);
    const std::size_t columns = static_cast<std::size_t>(shape.columns);
#pragma omp parallel for collapse(2) schedule(static)
    for (int c0 = 0; c0 < shape.columns; c0 += side) {
        for (int r0 = 0; r0 < shape.rows; r0 += side) {
            for (int c = c0; c < std::min(c0 + side, shape.columns); ++c) {
                for (int r = r0; r < std::min(r0 + side, shape.rows); ++r) {
                    to[static_cast<std::size_t>(c) * rows + static_cast<std::size_t>(r)] =
                        from[static_cast<std::size_t>(r) * columns + static_cast<std::size_t>(c)];
                }
            }
        }
    }
}

class Transpose : public tenken::Program {
  public:
    Transpose() : gpu_(make_gpu_transposes()) {}

    std::string name() const override { return "transpose"; }
    std::string purpose() const override {
        return "Transpose of a matrix of floats by kernels of a GPU, with its data in every kind of memory, "
               "all "
               "phases timed separately in ms.";
    }
    std::int64_t default_repetitions() const override { return 20; }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("backend", backend_, tenken::backends(gpu_ != nullptr),
                         "host: the transpose on the host; cuda: on every GPU in turn");
        arguments.text("sizes", sizes_, "LIST", "sides of squares, or ROWSxCOLUMNS, each from 1 to 262144");
        arguments.text("kernels", kernels_text_, "LIST",
                       "naive: rows read, columns written; tile: through shared memory; padded: without bank "
                       "conflicts (the host has the first two)");
        if (!gpu_) return;
        arguments.heading("back end cuda");
        arguments.text(
            "memory", memory_text_, "LIST",
            "pageable and pinned: copied to and from the device; zero_copy: pinned and mapped; managed; sam: "
            "malloc memory that the GPU reaches");
        arguments.choice("init", init_, {"write", "published"},
                         "initialisation timed before: the host writes the matrix; or as published, "
                         "cudaMemset on the device "
                         "for pageable and pinned, which is not the same work");
        arguments.choice(
            "copy-out", copy_out_, {"auto", "yes", "no"},
            "copy the result from pinned to pageable memory before the host checks it; auto: on GPUs of "
            "compute capability 6.2, whose CPU reads pinned memory past its caches");
        arguments.integer("bandwidth-n", bandwidth_n_, 0, 65536,
                          "side of the square whose transpose is timed in device memory alone; 0: none");
        gpu_->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        for (const std::string& word : tenken::words_of(sizes_))
            shapes_.push_back(parse_shape(arguments, word));
        if (shapes_.empty()) throw arguments.error("sizes", size_range);
        if (on_host() && !arguments.given("kernels")) kernels_text_ = "naive,tile";
        kernels_ =
            tenken::distinct_words(arguments, "kernels", kernels_text_,
                                   on_host() ? Words{"naive", "tile"} : Words{"naive", "tile", "padded"});
        if (!on_host()) {
            memories_ = tenken::distinct_words(arguments, "memory", memory_text_,
                                               {"pageable", "pinned", "zero_copy", "managed", "sam"});
        }
        std::uint64_t largest = 0;
        for (const Shape& shape : shapes_) largest = std::max(largest, shape.bytes());
        const std::uint64_t available = tenken::available_memory_bytes();
        require_fit(arguments, "sizes", 3 * largest, available / 10 * 9, available, "the host");
        if (on_host()) return;
        gpu_->prepare(arguments);
        const std::uint64_t n = static_cast<std::uint64_t>(bandwidth_n_);
        for (const tenken::DeviceDescription& device : gpu_->descriptions()) {
            const std::uint64_t left = device.memory_free_bytes;
            const std::string side = "gpu" + std::to_string(device.index);
            require_fit(arguments, "sizes", 2 * largest, left / 2, left, side);
            require_fit(arguments, "bandwidth-n", 2 * n * n * sizeof(float), left / 10 * 9, left, side);
        }
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        document.build.backends = tenken::backends(gpu_ != nullptr);
        document.path("backend", backend_);
        tenken::describe_pages(document);
        if (on_host()) {
            measure_host(run);
        } else {
            try {
                measure_gpus(run);
            } catch (...) {
                gpu_->describe(document);
                throw;
            }
            gpu_->describe(document);
        }
        document.placement = tenken::find_placement();
    }

  private:
    static constexpr const char* size_range =
        "sides of squares or ROWSxCOLUMNS, each from 1 to 262144, separated by commas";

    bool on_host() const { return backend_ == "host"; }

    static Shape parse_shape(const tenken::Arguments& arguments, const std::string& word) {
        const auto number = [&](const std::string& text) {
            const bool digits =
                !text.empty() && text.size() <= 6 &&
                std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
            const int value = digits ? std::atoi(text.c_str()) : 0;
            if (value < 1 || value > 262144) throw arguments.error("sizes", size_range);
            return value;
        };
        const std::size_t cross = word.find('x');
        if (cross == std::string::npos) return {number(word), number(word)};
        return {number(word.substr(0, cross)), number(word.substr(cross + 1))};
    }

    static void require_fit(const tenken::Arguments& arguments, const std::string& option,
                            std::uint64_t bytes, std::uint64_t maximum, std::uint64_t left,
                            const std::string& side) {
        if (bytes <= maximum) return;
        throw arguments.error(option, "at most " + tenken::format_bytes(maximum) +
                                          " in all matrices: requested " + tenken::format_bytes(bytes) +
                                          ", free " + tenken::format_bytes(left) + " on " + side);
    }

    void measure_host(tenken::Run& run) const {
        tenken::Fault fault = run.fault;
        for (const Shape& shape : shapes_) {
            const tenken::Buffer from = tenken::allocate_pageable(shape.elements() / 2 + 1);
            const tenken::Buffer to = tenken::allocate_pageable(shape.elements() / 2 + 1);
            float* const matrix = reinterpret_cast<float*>(from.get());
            float* const result = reinterpret_cast<float*>(to.get());
            for (const std::string& kernel : kernels_) {
                write_matrix(matrix, shape, 0);
                const auto work = [&] {
                    (kernel == "naive" ? transpose_naive : transpose_tile)(result, matrix, shape);
                };
                tenken::Metric metric;
                metric.name = "host_bandwidth";
                metric.at = {{"kernel", tenken::Json(kernel)}, {"n", shape.coordinate()}};
                metric.timed(tenken::timed_anew(
                                 run.warmup_seconds, static_cast<long>(run.repetitions),
                                 [&] { write_matrix(matrix, shape, 1); }, work),
                             {{"bytes", 2.0 * static_cast<double>(shape.bytes())}});
                run.document.add(metric);
                if (fault == tenken::Fault::element) result[shape.elements() - 1] += 1;
                fault = tenken::Fault::none;
                run.document.add(
                    compare_transposed(result, shape, 1).check(catalogue::host(), metric.subject, metric.at));
            }
        }
    }

    void measure_gpus(tenken::Run& run) {
        const std::vector<tenken::DeviceDescription> devices = gpu_->descriptions();
        for (const tenken::DeviceDescription& device : devices) {
            for (const std::string& memory : memories_) {
                if (memory == "managed") tenken::require_method(tenken::Method::managed_touch, device);
                if (memory == "sam") tenken::require_method(tenken::Method::sam, device);
            }
        }
        tenken::Fault fault = run.fault;
        for (std::size_t which = 0; which < devices.size(); ++which) {
            const tenken::DeviceDescription& device = devices[which];
            if (bandwidth_n_ > 0) {
                const int n = static_cast<int>(bandwidth_n_);
                gpu_->measure_bandwidth(which, {n, n}, 100, run.warmup_seconds, run.document);
            }
            for (const Shape& shape : shapes_) {
                for (const std::string& kernel : kernels_) {
                    for (const std::string& memory : memories_) {
                        Task task = {shape, kernel, memory, static_cast<long>(run.repetitions),
                                     false, false,  fault};
                        task.published_init = init_ == "published";
                        task.copy_out =
                            copy_out_ == "yes" || (copy_out_ == "auto" && device.compute_capability == "6.2");
                        fault = tenken::Fault::none;
                        report(gpu_->run(which, task), task, device.index, run.document);
                    }
                }
            }
        }
    }

    static void report(const Phases& phases, const Task& task, int gpu, tenken::Document& document) {
        const tenken::At at = {{"kernel", tenken::Json(task.kernel)},
                               {"memory", tenken::Json(task.memory)},
                               {"n", task.shape.coordinate()}};
        const auto add = [&](const std::string& name, const std::vector<double>& seconds) {
            tenken::Metric metric;
            metric.name = name;
            metric.subject = tenken::Subject::gpu(gpu);
            if (name == "kernel") metric.clock = "device";
            metric.at = at;
            metric.timed(seconds);
            document.add(metric);
        };
        const std::pair<const char*, const std::vector<double>*> parts[] = {
            {"init", &phases.init}, {"htod", &phases.htod},         {"kernel", &phases.kernel},
            {"dtoh", &phases.dtoh}, {"copy_out", &phases.copy_out}, {"check", &phases.check}};
        std::vector<double> total(static_cast<std::size_t>(task.repetitions), 0);
        for (const auto& part : parts) {
            if (!part.second->empty()) add(part.first, *part.second);
            for (std::size_t i = 0; i < part.second->size(); ++i) total[i] += (*part.second)[i];
        }
        add("total", total);
        document.add(phases.compared.check(catalogue::gpu(), tenken::Subject::gpu(gpu), at));
    }

    std::unique_ptr<GpuTransposes> gpu_;
    std::string backend_ = "host";
    std::string sizes_ = "1024,2048,4096";
    std::string kernels_text_ = "naive,tile,padded";
    std::string memory_text_ = "pageable,pinned,zero_copy,managed";
    std::string init_ = "write";
    std::string copy_out_ = "auto";
    std::int64_t bandwidth_n_ = 16384;
    std::vector<Shape> shapes_;
    Words kernels_;
    Words memories_;
};

constexpr const char* Transpose::size_range;

}  // namespace

}  // namespace transpose

int main(int argc, char** argv) {
    transpose::Transpose program;
    return tenken::run_program(program, argc, argv);
}
