#include <algorithm>

#include "programs/hpl/gpu_panel.h"

namespace hpl {

namespace {

constexpr int max_base = 32;  ///< columns eliminated by one launch of the built-in kernel
constexpr int min_base =
    16;  ///< with fewer, launches and passes over the panel cost more than multiprocessors
constexpr int panel_threads = 512;
constexpr unsigned everyone = 0xffffffffu;
constexpr long long patience_cycles = 20000000000LL;

// Blocks exchange words of 8 bytes, with the number of the step and 4 bytes of data. A word is written
// atomically, so a reader of the number also has the data, and no fence is needed.

__device__ inline void post(unsigned long long* word, unsigned value, unsigned step) {
    *reinterpret_cast<volatile unsigned long long*>(word) =
        (static_cast<unsigned long long>(step) << 32) | value;
}

__device__ inline unsigned await(const unsigned long long* word, unsigned step) {
    const volatile unsigned long long* const from = word;
    unsigned long long found = *from;
    if (static_cast<unsigned>(found >> 32) == step) return static_cast<unsigned>(found);
    const long long begin = clock64();
    do {
        found = *from;
        if (clock64() - begin > patience_cycles) __trap();  // a bug must not hang the GPU
    } while (static_cast<unsigned>(found >> 32) != step);
    return static_cast<unsigned>(found);
}

__device__ inline void post_double(unsigned long long* words, double value, unsigned step) {
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(value));
    post(words, static_cast<unsigned>(bits), step);
    post(words + 1, static_cast<unsigned>(bits >> 32), step);
}

__device__ inline double await_double(const unsigned long long* words, unsigned step) {
    const unsigned long long low = await(words, step);
    const unsigned long long high = await(words + 1, step);
    return __longlong_as_double(static_cast<long long>(high << 32 | low));
}

/// The key of the pivot search: NaN is larger than everything, so that it is detected.
__device__ inline double pivot_key(double value) {
    const double size = fabs(value);
    return isnan(size) ? __longlong_as_double(0x7ff0000000000000LL) : size;
}

struct Best {
    double key;
    int row;
    int block;
};

__device__ inline bool beats(double key, int row, const Best& best) {
    return key > best.key || (key == best.key && row < best.row);
}

__device__ inline Best best_of_warp(Best best) {
    for (int offset = 16; offset > 0; offset /= 2) {
        Best other;
        other.key = __shfl_xor_sync(everyone, best.key, offset);
        other.row = __shfl_xor_sync(everyone, best.row, offset);
        other.block = __shfl_xor_sync(everyone, best.block, offset);
        if (beats(other.key, other.row, best)) best = other;
    }
    return best;
}

/// Mailbox words of a block for one step: candidate (key in two, row), its row.
constexpr int mail_of_block = 4 + 2 * max_base;
__host__ __device__ inline int mail_words(int blocks) {
    return blocks * mail_of_block + 2 * max_base;  // and the displaced row
}

/// Eliminates `width` columns of a panel of `rows` rows. Every block has exclusive access to `share`
/// consecutive rows; all blocks must be resident on the GPU at the same time. In each step a block finds its
/// largest element of the column and posts it with the whole row. While the message is in flight it completes
/// the update of the previous step. It then selects the best of all candidates, and eliminates only the next
/// column, from which the next pivot is chosen.
template <bool in_shared>
__global__ void __launch_bounds__(panel_threads, 1)
    eliminate(double* panel, std::int64_t stride, int rows, int width, int share, unsigned long long* mail,
              unsigned epoch, int* pivots, long long* singular, long long first_column) {
    extern __shared__ double shared[];
    __shared__ double pivot_row[max_base];
    __shared__ double new_pivot_row[max_base];
    __shared__ double displaced[max_base];
    __shared__ Best warp_best[panel_threads / 32];
    __shared__ Best winner;

    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    const int first = block * share;
    const int mine = min(share, rows - first);
    double* const s = in_shared ? shared : panel + first;
    const std::int64_t apart = in_shared ? share | 1 : stride;

    if (in_shared) {
        for (int c = 0; c < width; ++c)
            for (int r = thread; r < mine; r += panel_threads)
                s[c * apart + r] = panel[c * stride + first + r];
        __syncthreads();
    }

    Best best = {-1, 0x7fffffff, block};
    for (int r = thread; r < mine; r += panel_threads) {
        const double key = pivot_key(s[r]);
        if (beats(key, r, best)) best = {key, r, block};
    }

    for (int j = 0; j < width; ++j) {
        const unsigned step = epoch + static_cast<unsigned>(j) + 1;
        unsigned long long* const box = mail + static_cast<std::size_t>(j % 2) * mail_words(blocks);
        unsigned long long* const top_box = box + blocks * mail_of_block;

        best = best_of_warp(best);
        if (lane == 0) warp_best[warp] = best;
        __syncthreads();
        if (warp == 0) {
            Best of_block = lane < panel_threads / 32 ? warp_best[lane] : Best{-1, 0x7fffffff, block};
            of_block = best_of_warp(of_block);
            unsigned long long* const own = box + block * mail_of_block;
            if (of_block.key >= 0 && lane < width) {
                double value = s[lane * apart + of_block.row];
                if (j > 0 && lane > j) value -= s[(j - 1) * apart + of_block.row] * pivot_row[lane];
                post_double(own + 4 + 2 * lane, value, step);
            }
            if (lane == 0) {
                post_double(own, of_block.key, step);
                post(own + 2, static_cast<unsigned>(of_block.key >= 0 ? first + of_block.row : 0x7fffffff),
                     step);
            }
        } else if (warp == 1 && j >= first && j < first + mine && lane < width) {
            const int r = j - first;
            double value = s[lane * apart + r];
            if (j > 0 && lane > j) value -= s[(j - 1) * apart + r] * pivot_row[lane];
            post_double(top_box + 2 * lane, value, step);
        }
        if (j > 0) {
            __syncthreads();  // the posted row was read before it changes
            for (int r = max(0, j - first) + thread; r < mine; r += panel_threads) {
                const double factor = s[(j - 1) * apart + r];
                for (int c = j + 1; c < width; ++c) s[c * apart + r] -= factor * pivot_row[c];
            }
        }
        __syncthreads();

        if (warp == 0) {
            Best candidate = {-1, 0x7fffffff, 0};
            for (int b = lane; b < blocks; b += 32) {
                const unsigned long long* const from = box + b * mail_of_block;
                const double key = await_double(from, step);
                const int row = static_cast<int>(await(from + 2, step));
                if (beats(key, row, candidate)) candidate = {key, row, b};
            }
            candidate = best_of_warp(candidate);
            if (lane < width) {
                new_pivot_row[lane] =
                    await_double(box + candidate.block * mail_of_block + 4 + 2 * lane, step);
                displaced[lane] = await_double(top_box + 2 * lane, step);
            }
            if (lane == 0) winner = candidate;
        }
        __syncthreads();

        const int row = winner.row;
        if (warp == 0 && lane < width) {
            pivot_row[lane] = new_pivot_row[lane];
            if (row != j && row >= first && row < first + mine)
                s[lane * apart + row - first] = displaced[lane];
        } else if (warp == 1 && lane < width) {
            if (row != j && j >= first && j < first + mine) s[lane * apart + j - first] = new_pivot_row[lane];
        }
        if (block == 0 && thread == 0) {
            pivots[j] = row;
            if (new_pivot_row[j] == 0) {
                atomicCAS(reinterpret_cast<unsigned long long*>(singular), ~0ULL,
                          static_cast<unsigned long long>(first_column + j));
            }
        }
        __syncthreads();

        const double pivot = pivot_row[j];
        const double next = j + 1 < width ? pivot_row[j + 1] : 0.0;
        best = {-1, 0x7fffffff, block};
        for (int r = max(0, j + 1 - first) + thread; r < mine; r += panel_threads) {
            const double factor = pivot == 0 ? 0.0 : s[j * apart + r] / pivot;
            s[j * apart + r] = factor;
            if (j + 1 < width) {
                const double value = s[(j + 1) * apart + r] - factor * next;
                s[(j + 1) * apart + r] = value;
                const double key = pivot_key(value);
                if (beats(key, r, best)) best = {key, r, block};
            }
        }
    }

    if (in_shared) {
        __syncthreads();
        for (int c = 0; c < width; ++c)
            for (int r = thread; r < mine; r += panel_threads)
                panel[c * stride + first + r] = s[c * apart + r];
    }
}

/// The combined effect of up to 32 successive row exchanges, determined by one warp: position base + lane
/// gets the row at `top`; position `low` (-1: none) gets the row at `low_source`.
struct Exchanges {
    int top;
    int low;
    int low_source;
};

__device__ inline Exchanges exchanges_of(const int* pivots, int base, int count) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int pivot = lane < count ? pivots[lane] : 0;
    Exchanges own = {base + lane, -1, -1};
    int lows = 0;
    for (int i = 0; i < count; ++i) {
        const int row = __shfl_sync(everyone, pivot, i);
        const int here = __shfl_sync(everyone, own.top, i);
        if (row < base + count) {
            const int there = __shfl_sync(everyone, own.top, row - base);
            if (lane == i) own.top = there;
            if (lane == row - base) own.top = here;
        } else {
            const unsigned known = __ballot_sync(everyone, own.low == row);
            const int place = known != 0 ? __ffs(static_cast<int>(known)) - 1 : lows++;
            if (known == 0 && lane == place) {
                own.low = row;
                own.low_source = row;
            }
            const int there = __shfl_sync(everyone, own.low_source, place);
            if (lane == i) own.top = there;
            if (lane == place) own.low_source = here;
        }
    }
    return own;
}

/// Exchanges rows base .. base + count - 1 with those in pivots[] (relative to `base`), in all columns of
/// the panel except [base, base + count). One warp per column.
__global__ void exchange_rows(double* panel, std::int64_t stride, const int* pivots, int base, int count,
                              int columns) {
    const Exchanges own = exchanges_of(pivots, 0, count);
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warps = static_cast<int>(gridDim.x * blockDim.x / 32);
    for (int c = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32); c < columns; c += warps) {
        if (c >= base && c < base + count) continue;
        double* const column = panel + c * stride + base;
        const double top = lane < count ? column[own.top] : 0;
        const double low = own.low >= 0 ? column[own.low_source] : 0;
        __syncwarp();
        if (lane < count) column[lane] = top;
        if (own.low >= 0) column[own.low] = low;
    }
}

/// The permutation that results from `width` exchanges; one warp. rows[] is the identity before and after.
__global__ void compose(const int* pivots, int width, int group, int* rows, Permutation to) {
    const int lane = static_cast<int>(threadIdx.x);
    if (lane == 0) *to.count() = 0;
    for (int base = 0; base < width; base += group) {
        const int count = min(group, width - base);
        const Exchanges own = exchanges_of(pivots + base, 0, count);
        const int top = lane < count ? rows[base + own.top] : 0;
        const int low = own.low >= 0 ? rows[base + own.low_source] : 0;
        __syncwarp();
        if (lane < count) rows[base + lane] = top;
        if (own.low >= 0) rows[base + own.low] = low;
        __syncwarp();
    }
    for (int i = lane; i < width; i += 32) to.top()[i] = rows[i];
    __syncwarp();
    for (int begin = 0; begin < width; begin += group) {
        const int i = begin + lane;
        if (lane >= group || i >= width) continue;
        const int row = begin + pivots[i];
        if (row < width) continue;
        const int source = atomicExch(&rows[row], row);
        if (source == row) continue;
        const int place = atomicAdd(to.count(), 1);
        to.low()[place] = row;
        to.low_source()[place] = source;
    }
    __syncwarp();
    for (int i = lane; i < width; i += 32) rows[i] = i;
}

__global__ void identity(int* rows, int count) {
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count;
         i += static_cast<int>(gridDim.x * blockDim.x)) {
        rows[i] = i;
    }
}

/// cuSOLVER's pivots count from 1 and from the panel's first row; those used here from 0 and from the first
/// of their group.
__global__ void adopt_pivots(int* pivots, int width, int group, const int* info, long long* singular,
                             long long first_column) {
    for (int i = static_cast<int>(threadIdx.x); i < width; i += static_cast<int>(blockDim.x))
        pivots[i] -= 1 + i / group * group;
    if (threadIdx.x == 0 && *info > 0) {
        atomicCAS(reinterpret_cast<unsigned long long*>(singular), ~0ULL,
                  static_cast<unsigned long long>(first_column + *info - 1));
    }
}

int multiprocessors() {
    int device = 0;
    int count = 0;
    TENKEN_CUDA(cudaGetDevice(&device));
    TENKEN_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

/// Maximum shared memory of a block of the kernel in addition to its fixed part.
int max_shared_bytes() {
    int device = 0;
    int maximum = 0;
    TENKEN_CUDA(cudaGetDevice(&device));
    TENKEN_CUDA(cudaDeviceGetAttribute(&maximum, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    cudaFuncAttributes attributes;
    TENKEN_CUDA(cudaFuncGetAttributes(&attributes, eliminate<true>));
    return maximum - static_cast<int>(attributes.sharedSizeBytes);
}

}  // namespace

PanelFactoriser::PanelFactoriser(PanelKind kind, std::int64_t max_rows, std::int64_t max_width, int blocks,
                                 std::int64_t few_rows, cudaStream_t stream, cublasHandle_t blas)
    : kind_(kind),
      few_rows_(few_rows),
      stream_(stream),
      blas_(blas),
      few_blocks_(blocks > 0 ? std::min(blocks, multiprocessors()) : multiprocessors()),
      max_blocks_(multiprocessors()),
      shared_bytes_(max_shared_bytes()),
      pivots_(static_cast<std::size_t>(max_width)),
      rows_(static_cast<std::size_t>(max_rows)),
      singular_(1),
      info_(1),
      mail_(2 * static_cast<std::size_t>(mail_words(max_blocks_))) {
    identity<<<256, 256, 0, stream_>>>(rows_.data(), static_cast<int>(max_rows));
    TENKEN_CUDA(cudaGetLastError());
    TENKEN_CUDA(cudaMemsetAsync(mail_.data(), 0, mail_.bytes(), stream_));
    TENKEN_CUDA(
        cudaFuncSetAttribute(eliminate<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes_));
    forget_singular();
    if (kind_ == PanelKind::library || kind_ == PanelKind::automatic) {
        TENKEN_CUSOLVER(cusolverDnCreate(&solver_));
        TENKEN_CUSOLVER(cusolverDnSetStream(solver_, stream_));
        int size = 0;
        TENKEN_CUSOLVER(cusolverDnDgetrf_bufferSize(solver_, static_cast<int>(max_rows),
                                                    static_cast<int>(max_width), nullptr,
                                                    static_cast<int>(aligned(max_rows)), &size));
        work_.reset(new tenken::cuda::DeviceArray<double>(static_cast<std::size_t>(size) + 1));
    }
}

PanelFactoriser::~PanelFactoriser() {
    if (solver_ != nullptr) cusolverDnDestroy(solver_);
}

std::int64_t PanelFactoriser::blocks_of(std::int64_t rows) const {
    if (kind_ == PanelKind::streamed) return few_blocks_;
    const std::int64_t share = shared_bytes_ / (min_base * static_cast<int>(sizeof(double))) - 1;
    return std::max<std::int64_t>(few_blocks_,
                                  std::min<std::int64_t>(max_blocks_, (rows + share - 1) / share));
}

int PanelFactoriser::base_width(std::int64_t rows) const {
    int width = max_base;
    if (kind_ == PanelKind::streamed) return width;
    const std::int64_t blocks = blocks_of(rows);
    while (width > 4 && ((rows + blocks - 1) / blocks + 1) * width * 8 > shared_bytes_) width /= 2;
    return width;
}

void PanelFactoriser::base(double* panel, std::int64_t rows, std::int64_t begin, std::int64_t width,
                           std::int64_t stride, std::int64_t first_column) {
    const std::int64_t left = rows - begin;
    double* const at = panel + begin * stride + begin;
    // With fewer rows than this some threads of a block are idle, and every additional block slows down the
    // exchange of messages.
    constexpr std::int64_t min_share = 256;
    const std::int64_t wanted = std::min<std::int64_t>(blocks_of(rows), (left + min_share - 1) / min_share);
    const int share = static_cast<int>((left + wanted - 1) / wanted);
    const int blocks = static_cast<int>((left + share - 1) / share);
    const std::size_t shared =
        static_cast<std::size_t>(share | 1) * static_cast<std::size_t>(width) * sizeof(double);
    int* const pivots = pivots_.data() + begin;
    if (kind_ != PanelKind::streamed && shared <= static_cast<std::size_t>(shared_bytes_)) {
        eliminate<true><<<blocks, panel_threads, shared, stream_>>>(
            at, stride, static_cast<int>(left), static_cast<int>(width), share, mail_.data(), epoch_, pivots,
            singular_.data(), first_column + begin);
    } else {
        eliminate<false><<<blocks, panel_threads, 0, stream_>>>(
            at, stride, static_cast<int>(left), static_cast<int>(width), share, mail_.data(), epoch_, pivots,
            singular_.data(), first_column + begin);
    }
    TENKEN_CUDA(cudaGetLastError());
    epoch_ += static_cast<unsigned>(width);
}

void PanelFactoriser::recurse(double* panel, std::int64_t rows, std::int64_t begin, std::int64_t width,
                              std::int64_t whole, std::int64_t stride, std::int64_t first_column) {
    const int narrow = base_width(rows);
    if (width <= narrow) {
        base(panel, rows, begin, width, stride, first_column);
        const unsigned blocks = static_cast<unsigned>((whole + 7) / 8);
        exchange_rows<<<blocks, 256, 0, stream_>>>(panel, stride, pivots_.data() + begin,
                                                   static_cast<int>(begin), static_cast<int>(width),
                                                   static_cast<int>(whole));
        TENKEN_CUDA(cudaGetLastError());
        return;
    }
    std::int64_t half = narrow;
    while (2 * half < width) half *= 2;
    recurse(panel, rows, begin, half, whole, stride, first_column);
    const std::int64_t right = width - half;
    const double one = 1;
    const double minus_one = -1;
    const auto at = [&](std::int64_t row, std::int64_t column) { return panel + column * stride + row; };
    TENKEN_CUBLAS(cublasDtrsm(blas_, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT,
                              static_cast<int>(half), static_cast<int>(right), &one, at(begin, begin),
                              static_cast<int>(stride), at(begin, begin + half), static_cast<int>(stride)));
    TENKEN_CUBLAS(cublasDgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(rows - begin - half),
                              static_cast<int>(right), static_cast<int>(half), &minus_one,
                              at(begin + half, begin), static_cast<int>(stride), at(begin, begin + half),
                              static_cast<int>(stride), &one, at(begin + half, begin + half),
                              static_cast<int>(stride)));
    recurse(panel, rows, begin + half, right, whole, stride, first_column);
}

void PanelFactoriser::factorise(double* panel, std::int64_t rows, std::int64_t width, std::int64_t stride,
                                std::int64_t first_column, const Permutation& permutation) {
    int group = max_base;
    if (by_library(rows)) {
        TENKEN_CUSOLVER(cusolverDnDgetrf(solver_, static_cast<int>(rows), static_cast<int>(width), panel,
                                         static_cast<int>(stride), work_->data(), pivots_.data(),
                                         info_.data()));
        adopt_pivots<<<1, 256, 0, stream_>>>(pivots_.data(), static_cast<int>(width), group, info_.data(),
                                             singular_.data(), first_column);
        TENKEN_CUDA(cudaGetLastError());
    } else {
        group = base_width(rows);
        recurse(panel, rows, 0, width, width, stride, first_column);
    }
    compose<<<1, 32, 0, stream_>>>(pivots_.data(), static_cast<int>(width), group, rows_.data(), permutation);
    TENKEN_CUDA(cudaGetLastError());
}

std::int64_t PanelFactoriser::singular() const {
    long long column = -1;
    TENKEN_CUDA(cudaMemcpyAsync(&column, singular_.data(), sizeof column, cudaMemcpyDeviceToHost, stream_));
    TENKEN_CUDA(cudaStreamSynchronize(stream_));
    return column;
}

void PanelFactoriser::forget_singular() {
    TENKEN_CUDA(cudaMemsetAsync(singular_.data(), 0xff, singular_.bytes(), stream_));
}

std::string PanelFactoriser::text() const {
    if (kind_ == PanelKind::library) return "cuSOLVER";
    std::string text = std::string("own kernel, rows in ") +
                       (kind_ == PanelKind::streamed ? "memory and its caches" : "shared memory") +
                       ", from " + std::to_string(few_blocks_) + " blocks";
    if (kind_ == PanelKind::automatic) text += "; cuSOLVER below " + std::to_string(few_rows_) + " rows";
    return text;
}

}  // namespace hpl
