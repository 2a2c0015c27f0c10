#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "lib/base/clock.h"
#include "lib/base/verification.h"
#include "lib/cuda/check.h"
#include "lib/cuda/library.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/hpl/engine_kernels.cuh"
#include "programs/hpl/gpu_engine.h"
#include "programs/hpl/gpu_lane.h"

namespace hpl {

namespace {

using tenken::cuda::DeviceArray;

constexpr std::int64_t solve_block = 512;
/// The part of a slot that a step needs, followed by the permutation: contiguous, for one message.
std::int64_t slot_doubles(const Layout& layout) {
    return aligned(layout.n) * layout.nb + (Permutation::ints(layout.nb) + 1) / 2;
}

std::int64_t gathered_rows(const Layout& layout) {
    return layout.one_row() ? layout.nb : 2 * layout.nb;
}

/// Rows of U outside A itself.
std::int64_t result_rows(const Layout& layout) {
    return layout.one_row() ? 0 : layout.nb;
}

/// Environment variables that would make cuBLAS emulate doubles by integers.
void forbid_emulation() {
    unsetenv("CUBLAS_EMULATE_DOUBLE_PRECISION");
}

class GpuEngine : public lu::GpuLanes<Engine, LaneParts> {
  public:
    GpuEngine(const Layout& layout, const GpuChoices& choices, Communicator* communicator)
        : GpuLanes((layout.padded_columns + alignment) * gathered_rows(layout),
                   (layout.padded_columns + alignment) * result_rows(layout) + 1,
                   aligned(layout.nb) * gathered_rows(layout), aligned(layout.nb) * result_rows(layout) + 1),
          layout_(layout),
          choices_(choices),
          communicator_(communicator),
          place_{layout.rows, layout.columns, layout.stride},
          a_(static_cast<std::size_t>(std::max<std::int64_t>(1, layout.local_rows) * layout.stride)),
          slots_{DeviceArray<double>(static_cast<std::size_t>(slot_doubles(layout))),
                 DeviceArray<double>(static_cast<std::size_t>(slot_doubles(layout)))},
          own_{DeviceArray<double>(own_doubles()), DeviceArray<double>(own_doubles())},
          inverse_{DeviceArray<double>(static_cast<std::size_t>(layout.nb * layout.nb)),
                   DeviceArray<double>(static_cast<std::size_t>(layout.nb * layout.nb))},
          inverse_part_(static_cast<std::size_t>(layout.nb * layout.nb)),
          x_(static_cast<std::size_t>(layout.n)),
          found_(static_cast<std::size_t>(layout.local_rows + 1)),
          factoriser_(choices.panel, layout.n, std::min(layout.nb, layout.n), choices.panel_blocks,
                      choices.few_rows, panel_.stream.get(), panel_.blas.get()) {}

    ~GpuEngine() override { cudaDeviceSynchronize(); }

    const Layout& layout() const override { return layout_; }

    void generate(const Matrix& matrix) override {
        if (layout_.local_rows == 0) return;
        const dim3 grid(blocks_for(layout_.stride, row_threads * 8),
                        static_cast<unsigned>(std::min<std::int64_t>(layout_.local_rows, 32768)));
        generate_kernel<<<grid, row_threads, 0, update_.stream.get()>>>(a_.data(), place_, layout_.local_rows,
                                                                        layout_.local_columns, matrix);
        TENKEN_CUDA(cudaGetLastError());
        factoriser_.forget_singular();
        TENKEN_CUDA(cudaDeviceSynchronize());
    }

    void load_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        cudaStream_t const stream = panel_.stream.get();
        double* const panel = slot_of(slot).data();
        if (!layout_.one_row()) {
            TENKEN_CUDA(cudaMemsetAsync(panel, 0, static_cast<std::size_t>(shape.doubles()) * sizeof(double),
                                        stream));
        }
        const std::int64_t first = layout_.rows.below(step.begin);
        if (first >= layout_.local_rows) return;
        const dim3 grid(blocks_for(layout_.local_rows - first, tile), blocks_for(step.width, tile));
        load_kernel<<<grid, dim3(tile, 8), 0, stream>>>(a_.data() + layout_.columns.below(step.begin), place_,
                                                        first, layout_.local_rows, step.begin, panel,
                                                        shape.stride, static_cast<int>(step.width));
        TENKEN_CUDA(cudaGetLastError());
    }

    void sum_panel(int slot, const Step& step) override {
        communicator_->sum_in_column(slot_of(slot).data(),
                                     static_cast<std::size_t>(PanelShape(layout_, step).doubles()),
                                     panel_.stream.get());
    }

    void factor_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        factoriser_.factorise(slot_of(slot).data(), shape.rows, shape.width, shape.stride, step.begin,
                              permutation(slot, step));
    }

    void broadcast_panel(int slot, const Step& step, int root) override {
        const std::size_t bytes =
            static_cast<std::size_t>(PanelShape(layout_, step).doubles()) * sizeof(double) +
            static_cast<std::size_t>(Permutation::ints(step.width)) * sizeof(int);
        communicator_->broadcast(slot_of(slot).data(), bytes, root, panel_.stream.get());
    }

    void ready_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        const std::int64_t block = triangle_of(step);
        if (block > 0) invert(slot, step, block);
        if (layout_.rows.owns(step.begin) && layout_.columns.owns(step.begin)) {
            const unsigned tiles = blocks_for(step.width, tile);
            store_triangle_kernel<<<dim3(tiles, tiles), dim3(tile, 8), 0, panel_.stream.get()>>>(
                slot_of(slot).data(), shape.stride, static_cast<int>(step.width),
                a_.data() + layout_.rows.below(step.begin) * layout_.stride +
                    layout_.columns.below(step.begin),
                layout_.stride);
            TENKEN_CUDA(cudaGetLastError());
        }
        if (layout_.one_row()) return;
        const std::int64_t first = layout_.rows.below(step.end());
        const std::int64_t count = layout_.local_rows - first;
        if (count <= 0) return;
        const dim3 grid(blocks_for(count, row_threads), static_cast<unsigned>(step.width));
        own_rows_kernel<<<grid, row_threads, 0, panel_.stream.get()>>>(slot_of(slot).data(), shape.stride,
                                                                       step.begin, place_, first, count,
                                                                       own_of(slot).data(), aligned(count));
        TENKEN_CUDA(cudaGetLastError());
    }

    void spoil_panel(int slot, const Step& step) override {
        const PanelShape shape(layout_, step);
        const std::int64_t row =
            shape.rows > shape.width ? shape.width + (shape.rows - shape.width) / 2 : shape.rows - 1;
        const std::int64_t column = shape.rows > shape.width ? shape.width / 2 : 0;
        flip_kernel<<<1, 1, 0, panel_.stream.get()>>>(slot_of(slot).data() + column * shape.stride + row);
        TENKEN_CUDA(cudaGetLastError());
    }

    void swap_rows(Lane lane, int slot, const Step& step, Range columns) override {
        LaneParts& parts = of(lane);
        cudaStream_t const stream = parts.stream.get();
        const Permutation order = permutation(slot, step);
        const std::int64_t stride = aligned(columns.size());
        const unsigned across = blocks_for(columns.size(), row_threads * per_thread);
        const bool alone = layout_.one_row();
        gather_kernel<<<dim3(across, static_cast<unsigned>((alone ? 1 : 2) * step.width)), row_threads, 0,
                        stream>>>(a_.data() + columns.begin, place_, step.begin, order, columns.size(),
                                  parts.gathered.data(), stride);
        TENKEN_CUDA(cudaGetLastError());
        if (!alone)
            communicator_->sum_in_column(parts.gathered.data(),
                                         static_cast<std::size_t>(2 * step.width * stride), stream);
        lower_kernel<<<dim3(across, static_cast<unsigned>(step.width)), row_threads, 0, stream>>>(
            a_.data() + columns.begin, place_, step.begin, order, columns.size(),
            alone ? nullptr : parts.gathered.data(), stride);
        TENKEN_CUDA(cudaGetLastError());
    }

    void solve_rows(Lane lane, int slot, const Step& step, Range columns) override {
        LaneParts& parts = of(lane);
        const PanelShape shape(layout_, step);
        double* const w = parts.gathered.data();
        const int count = static_cast<int>(columns.size());
        const int ldw = static_cast<int>(aligned(columns.size()));
        const Rows to = upper(lane, step, columns);
        const double* const l = slot_of(slot).data();
        const int ldl = static_cast<int>(shape.stride);
        const double one = 1;
        const double minus_one = -1;
        const double zero = 0;
        const std::int64_t block = triangle_of(step);
        if (block == 0) {
            TENKEN_CUBLAS(cublasDtrsm(parts.blas.get(), CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER,
                                      CUBLAS_OP_T, CUBLAS_DIAG_UNIT, count, static_cast<int>(step.width),
                                      &one, l, ldl, w, ldw));
            TENKEN_CUDA(cudaMemcpy2DAsync(to.data, static_cast<std::size_t>(to.stride) * sizeof(double), w,
                                          static_cast<std::size_t>(ldw) * sizeof(double),
                                          static_cast<std::size_t>(count) * sizeof(double),
                                          static_cast<std::size_t>(step.width), cudaMemcpyDeviceToDevice,
                                          parts.stream.get()));
        } else {
            const int b = static_cast<int>(block);
            const int ldx = static_cast<int>(step.width);
            const double* const x = inverse_[static_cast<std::size_t>(slot)].data();
            for (std::int64_t j = 0; j < step.width; j += block) {
                double* const wj = w + j * ldw;
                if (j > 0) {
                    TENKEN_CUBLAS(cublasDgemm(parts.blas.get(), CUBLAS_OP_N, CUBLAS_OP_T, count, b,
                                              static_cast<int>(j), &minus_one, to.data,
                                              static_cast<int>(to.stride), l + j, ldl, &one, wj, ldw));
                }
                TENKEN_CUBLAS(cublasDgemm(parts.blas.get(), CUBLAS_OP_N, CUBLAS_OP_T, count, b, b, &one, wj,
                                          ldw, x + j * (step.width + 1), ldx, &zero, to.data + j * to.stride,
                                          static_cast<int>(to.stride)));
            }
        }
        if (!layout_.one_row() && layout_.rows.owns(step.begin)) {
            double* const own = a_.data() + layout_.rows.below(step.begin) * layout_.stride + columns.begin;
            TENKEN_CUDA(cudaMemcpy2DAsync(own, static_cast<std::size_t>(layout_.stride) * sizeof(double),
                                          to.data, static_cast<std::size_t>(to.stride) * sizeof(double),
                                          static_cast<std::size_t>(count) * sizeof(double),
                                          static_cast<std::size_t>(step.width), cudaMemcpyDeviceToDevice,
                                          parts.stream.get()));
        }
    }

    void multiply(Lane lane, int slot, const Step& step, Range columns) override {
        const PanelShape shape(layout_, step);
        const std::int64_t first = layout_.rows.below(step.end());
        const std::int64_t rows = layout_.local_rows - first;
        if (rows <= 0) return;
        const Rows u = upper(lane, step, columns);
        const double* const l = layout_.one_row() ? slot_of(slot).data() + step.width : own_of(slot).data();
        const std::int64_t ldl = layout_.one_row() ? shape.stride : aligned(rows);
        const double one = 1;
        const double minus_one = -1;
        TENKEN_CUBLAS(cublasDgemm(
            of(lane).blas.get(), CUBLAS_OP_N, CUBLAS_OP_T, static_cast<int>(columns.size()),
            static_cast<int>(rows), static_cast<int>(step.width), &minus_one, u.data,
            static_cast<int>(u.stride), l, static_cast<int>(ldl), &one,
            a_.data() + first * layout_.stride + columns.begin, static_cast<int>(layout_.stride)));
    }

    std::int64_t finish() override {
        TENKEN_CUDA(cudaStreamSynchronize(update_.stream.get()));
        return factoriser_.singular();
    }

    void solve(Ranks& ranks) override {
        cudaStream_t const stream = panel_.stream.get();
        cublasHandle_t const blas = panel_.blas.get();
        TENKEN_CUDA(cudaMemsetAsync(found_.data(), 0, found_.bytes(), stream));
        const std::int64_t b = layout_.columns.owns(layout_.n) ? layout_.columns.below(layout_.n) : -1;
        const bool several = ranks.size() > 1;
        std::vector<double> part(static_cast<std::size_t>(solve_block));
        std::vector<Step> blocks;
        for (const Step& whole : plan_steps(layout_.n, layout_.nb, 0, 1))
            for (std::int64_t at = whole.begin; at < whole.end(); at += solve_block)
                blocks.push_back({at, std::min(solve_block, whole.end() - at)});
        for (std::size_t i = blocks.size(); i-- > 0;) {
            const Step& step = blocks[i];
            const int count = static_cast<int>(step.width);
            const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
            const bool has_rows = layout_.rows.owns(step.begin);
            const bool has_columns = layout_.columns.owns(step.begin);
            const std::int64_t row = layout_.rows.below(step.begin);
            const std::int64_t column = layout_.columns.below(step.begin);
            double* const x = x_.data() + step.begin;
            if (has_rows) {
                right_hand_side<<<blocks_for(count, 256), 256, 0, stream>>>(a_.data(), layout_.stride, row, b,
                                                                            count, found_.data(), x);
                TENKEN_CUDA(cudaGetLastError());
                if (several) {
                    TENKEN_CUDA(cudaMemcpyAsync(part.data(), x, bytes, cudaMemcpyDeviceToHost, stream));
                    TENKEN_CUDA(cudaStreamSynchronize(stream));
                    ranks.sum_in_row(part.data(), static_cast<std::size_t>(count));
                    TENKEN_CUDA(cudaMemcpyAsync(x, part.data(), bytes, cudaMemcpyHostToDevice, stream));
                }
                if (has_columns) {
                    // A is row-major: cuBLAS sees its transpose, a lower triangle.
                    TENKEN_CUBLAS(cublasDtrsv(blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT,
                                              count, a_.data() + row * layout_.stride + column,
                                              static_cast<int>(layout_.stride), x, 1));
                }
            }
            if (several) {
                if (has_rows && has_columns)
                    TENKEN_CUDA(cudaMemcpyAsync(part.data(), x, bytes, cudaMemcpyDeviceToHost, stream));
                TENKEN_CUDA(cudaStreamSynchronize(stream));
                ranks.broadcast(part.data(), bytes,
                                ranks.at(layout_.rows.owner(step.begin), layout_.columns.owner(step.begin)));
                TENKEN_CUDA(cudaMemcpyAsync(x, part.data(), bytes, cudaMemcpyHostToDevice, stream));
                TENKEN_CUDA(cudaStreamSynchronize(stream));
            }
            if (has_columns && row > 0) {
                const double one = 1;
                TENKEN_CUBLAS(cublasDgemv(blas, CUBLAS_OP_T, count, static_cast<int>(row), &one,
                                          a_.data() + column, static_cast<int>(layout_.stride), x, 1, &one,
                                          found_.data(), 1));
            }
        }
        TENKEN_CUDA(cudaStreamSynchronize(stream));
    }

    Norms norms(const Matrix& matrix, std::int64_t begin, std::int64_t end) override {
        const std::int64_t rows = end - begin;
        Norms found;
        for (double value : solution()) found.x = Norms::larger(found.x, value);
        if (rows <= 0) return found;
        const std::int64_t parts = (layout_.n + norm_columns - 1) / norm_columns;
        const std::size_t size = static_cast<std::size_t>(parts * rows);
        DeviceArray<double> products(size);
        DeviceArray<double> sums(size);
        norm_kernel<<<dim3(blocks_for(rows, row_threads), static_cast<unsigned>(parts)), row_threads, 0,
                      panel_.stream.get()>>>(matrix, x_.data(), begin, rows, products.data(), sums.data());
        TENKEN_CUDA(cudaGetLastError());
        TENKEN_CUDA(cudaStreamSynchronize(panel_.stream.get()));
        std::vector<double> product(size);
        std::vector<double> sum(size);
        TENKEN_CUDA(cudaMemcpy(product.data(), products.data(), products.bytes(), cudaMemcpyDeviceToHost));
        TENKEN_CUDA(cudaMemcpy(sum.data(), sums.data(), sums.bytes(), cudaMemcpyDeviceToHost));
        for (std::int64_t i = 0; i < rows; ++i) {
            const double b = matrix(begin + i, matrix.n);
            double residual = -b;
            double weight = 0;
            for (std::int64_t p = 0; p < parts; ++p) {
                residual += product[static_cast<std::size_t>(p * rows + i)];
                weight += sum[static_cast<std::size_t>(p * rows + i)];
            }
            found.add_row(residual, weight, b);
        }
        return found;
    }

    std::vector<double> solution() override {
        std::vector<double> x(x_.size());
        TENKEN_CUDA(cudaMemcpy(x.data(), x_.data(), x_.bytes(), cudaMemcpyDeviceToHost));
        return x;
    }

    std::vector<double> time_products(double heat_seconds, int repetitions, double& flops) override {
        const Step step = {0, std::min(layout_.nb, layout_.n)};
        const Range columns = {layout_.columns.below(step.end()), layout_.padded_columns};
        const std::int64_t rows = layout_.local_rows - layout_.rows.below(step.end());
        flops = 2.0 * static_cast<double>(rows) * static_cast<double>(columns.size()) *
                static_cast<double>(step.width);
        if (flops <= 0) return {};
        // Any nonzero numbers can stand for L and U.
        TENKEN_CUDA(cudaMemcpyAsync(slot_of(0).data(), a_.data(), std::min(a_.bytes(), slot_of(0).bytes()),
                                    cudaMemcpyDeviceToDevice, update_.stream.get()));
        const auto product = [&] { multiply(Lane::update, 0, step, columns); };
        tenken::warm_up(heat_seconds, [&] {
            product();
            TENKEN_CUDA(cudaStreamSynchronize(update_.stream.get()));
        });
        std::vector<double> seconds;
        forget_stamps();
        for (int i = 0; i < repetitions; ++i) {
            const int begin = stamp(Lane::update);
            product();
            const int end = stamp(Lane::update);
            TENKEN_CUDA(cudaStreamSynchronize(update_.stream.get()));
            seconds.push_back(seconds_between(begin, end));
        }
        return seconds;
    }

    std::vector<double> time_library(const Matrix& matrix, int repetitions, std::string& why_not) override {
        if (layout_.rows.count * layout_.columns.count > 1) {
            why_not = "cuSOLVER factorises on one GPU";
            return {};
        }
#if CUDART_VERSION >= 11010
        cusolverDnHandle_t solver = nullptr;
        cusolverDnParams_t parameters = nullptr;
        TENKEN_CUSOLVER(cusolverDnCreate(&solver));
        TENKEN_CUSOLVER(cusolverDnCreateParams(&parameters));
        TENKEN_CUSOLVER(cusolverDnSetStream(solver, update_.stream.get()));
        std::size_t on_device = 0;
        std::size_t on_host = 0;
        TENKEN_CUSOLVER(cusolverDnXgetrf_bufferSize(solver, parameters, layout_.n, layout_.n, CUDA_R_64F,
                                                    a_.data(), layout_.stride, CUDA_R_64F, &on_device,
                                                    &on_host));
        std::size_t free_bytes = 0;
        std::size_t all_bytes = 0;
        TENKEN_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
        std::vector<double> seconds;
        if (on_device + sizeof(std::int64_t) * static_cast<std::size_t>(layout_.n) > free_bytes / 10 * 9) {
            why_not = "no memory is left for cuSOLVER's work space";
        } else {
            DeviceArray<char> device_work(on_device + 1);
            std::vector<char> host_work(on_host + 1);
            DeviceArray<std::int64_t> pivots(static_cast<std::size_t>(layout_.n));
            DeviceArray<int> info(1);
            const auto factorise_first = [&](std::int64_t n) {
                TENKEN_CUSOLVER(cusolverDnXgetrf(
                    solver, parameters, n, n, CUDA_R_64F, a_.data(), layout_.stride, pivots.data(),
                    CUDA_R_64F, device_work.data(), on_device, host_work.data(), on_host, info.data()));
                TENKEN_CUDA(cudaStreamSynchronize(update_.stream.get()));
            };
            generate(matrix);
            factorise_first(std::min<std::int64_t>(layout_.n, 4096));  // loads its kernels
            for (int i = 0; i < repetitions; ++i) {
                generate(matrix);
                const double begin = tenken::now_seconds();
                factorise_first(layout_.n);
                seconds.push_back(tenken::now_seconds() - begin);
            }
        }
        cusolverDnDestroyParams(parameters);
        cusolverDnDestroy(solver);
        return seconds;
#else
        (void)matrix;
        (void)repetitions;
        why_not =
            "cuSOLVER " + tenken::cuda::library_version(cusolverGetProperty) + " has no cusolverDnXgetrf";
        return {};
#endif
    }

    void describe(tenken::Document& document) const override {
        document.build.libraries.emplace_back("cuBLAS", tenken::cuda::library_version(cublasGetProperty));
        document.build.libraries.emplace_back("cuSOLVER", tenken::cuda::library_version(cusolverGetProperty));
        document.path("panel", factoriser_.text());
        document.path("triangle", choices_.triangle > 0 ? "inverted by blocks of " +
                                                              std::to_string(choices_.triangle) + " at most"
                                                        : "cublasDtrsm");
        document.path("update", "cublasDgemm N T, A row by row");
        document.path("fp64_emulation", "off");
        if (communicator_ != nullptr) document.path("communicator", communicator_->text());
    }

  private:
    struct Rows {
        double* data;
        std::int64_t stride;
    };

    std::size_t own_doubles() const {
        return layout_.one_row() ? 1 : static_cast<std::size_t>(aligned(layout_.local_rows + 1) * layout_.nb);
    }
    DeviceArray<double>& slot_of(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
    DeviceArray<double>& own_of(int slot) { return own_[static_cast<std::size_t>(slot)]; }

    Permutation permutation(int slot, const Step& step) {
        return {reinterpret_cast<int*>(slot_of(slot).data() + PanelShape(layout_, step).doubles()),
                step.width};
    }

    /// Location of the rows of U of these columns: in A itself if this process has all rows.
    Rows upper(Lane lane, const Step& step, Range columns) {
        if (layout_.one_row())
            return {a_.data() + step.begin * layout_.stride + columns.begin, layout_.stride};
        return {of(lane).result.data(), aligned(columns.size())};
    }

    /// The inverted blocks of the triangle: of the requested size, or smaller so that they divide it; 0 if
    /// none does.
    std::int64_t triangle_of(const Step& step) const {
        if (choices_.triangle < smallest_triangle || step.width % smallest_triangle != 0) return 0;
        std::int64_t block = smallest_triangle;
        while (2 * block <= choices_.triangle && step.width % (2 * block) == 0) block *= 2;
        return block;
    }

    void invert(int slot, const Step& step, std::int64_t block) {
        cudaStream_t const stream = panel_.stream.get();
        cublasHandle_t const blas = panel_.blas.get();
        const std::int64_t width = step.width;
        const std::int64_t stride = PanelShape(layout_, step).stride;
        const double* const l = slot_of(slot).data();
        double* const x = inverse_[static_cast<std::size_t>(slot)].data();
        TENKEN_CUDA(cudaMemsetAsync(x, 0, static_cast<std::size_t>(width * width) * sizeof(double), stream));
        invert_kernel<<<static_cast<unsigned>(width / smallest_triangle), smallest_triangle, 0, stream>>>(
            l, stride, x, width);
        TENKEN_CUDA(cudaGetLastError());
        const double one = 1;
        const double minus_one = -1;
        const double zero = 0;
        for (std::int64_t s = smallest_triangle; s < block; s *= 2) {
            // [X1 0; -X2 L21 X1 X2] is the inverse of [L1 0; L21 L2].
            const int size = static_cast<int>(s);
            const int pairs = static_cast<int>(width / (2 * s));
            const long long l_step = 2 * s * (stride + 1);
            const long long x_step = 2 * s * (width + 1);
            TENKEN_CUBLAS(cublasDgemmStridedBatched(
                blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, l + s, static_cast<int>(stride),
                l_step, x, static_cast<int>(width), x_step, &zero, inverse_part_.data(), size, s * s, pairs));
            TENKEN_CUBLAS(cublasDgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size,
                                                    &minus_one, x + s * (width + 1), static_cast<int>(width),
                                                    x_step, inverse_part_.data(), size, s * s, &zero, x + s,
                                                    static_cast<int>(width), x_step, pairs));
        }
    }

    Layout layout_;
    GpuChoices choices_;
    Communicator* communicator_;
    Place place_;
    DeviceArray<double> a_;
    DeviceArray<double> slots_[2];
    DeviceArray<double> own_[2];
    DeviceArray<double> inverse_[2];
    DeviceArray<double> inverse_part_;
    DeviceArray<double> x_;
    DeviceArray<double> found_;
    PanelFactoriser factoriser_;
};

}  // namespace

std::uint64_t gpu_bytes(const Layout& layout) {
    const std::int64_t lane_rows = gathered_rows(layout) + result_rows(layout);
    const std::int64_t doubles = (layout.padded_columns + alignment + aligned(layout.nb)) * lane_rows +
                                 2 * slot_doubles(layout) + 3 * layout.nb * layout.nb +
                                 (layout.one_row() ? 0 : 2 * aligned(layout.local_rows + 1) * layout.nb) +
                                 3 * layout.n;
    return layout.bytes() + sizeof(double) * static_cast<std::uint64_t>(doubles) + 2 * lu::workspace_bytes +
           (std::uint64_t{256} << 20);  // the libraries' own
}

std::vector<double> gpu_library_solution(const Matrix& matrix) {
    const int n = static_cast<int>(matrix.n);
    const std::size_t rows = static_cast<std::size_t>(n);
    std::vector<double> all(rows * (rows + 1));  // column-major
    for (std::int64_t j = 0; j <= n; ++j)
        for (std::int64_t i = 0; i < n; ++i)
            all[static_cast<std::size_t>(j) * rows + static_cast<std::size_t>(i)] = matrix(i, j);
    DeviceArray<double> a(all.size());
    DeviceArray<int> pivots(rows);
    DeviceArray<int> info(1);
    TENKEN_CUDA(cudaMemcpy(a.data(), all.data(), a.bytes(), cudaMemcpyHostToDevice));
    cusolverDnHandle_t solver = nullptr;
    TENKEN_CUSOLVER(cusolverDnCreate(&solver));
    int size = 0;
    TENKEN_CUSOLVER(cusolverDnDgetrf_bufferSize(solver, n, n, a.data(), n, &size));
    DeviceArray<double> work(static_cast<std::size_t>(size) + 1);
    TENKEN_CUSOLVER(cusolverDnDgetrf(solver, n, n, a.data(), n, work.data(), pivots.data(), info.data()));
    double* const b = a.data() + rows * rows;
    TENKEN_CUSOLVER(
        cusolverDnDgetrs(solver, CUBLAS_OP_N, n, 1, a.data(), n, pivots.data(), b, n, info.data()));
    TENKEN_CUDA(cudaDeviceSynchronize());
    cusolverDnDestroy(solver);
    std::vector<double> x(rows);
    TENKEN_CUDA(cudaMemcpy(x.data(), b, rows * sizeof(double), cudaMemcpyDeviceToHost));
    return x;
}

std::unique_ptr<Engine> make_gpu_engine(const Layout& layout, const GpuChoices& choices,
                                        Communicator* communicator) {
    forbid_emulation();
    return std::unique_ptr<Engine>(new GpuEngine(layout, choices, communicator));
}

}  // namespace hpl
