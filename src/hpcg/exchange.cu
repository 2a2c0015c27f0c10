#include <cuda_runtime.h>

#include <cstring>

#include "common/cuda/memory.h"
#include "common/program.h"
#include "hpcg/exchange.h"
#include "nccl/library.h"

#define HPCG_NCCL(call) library_->check(library_->call, #call)

namespace hpcg {

namespace {

class Alone : public Exchange {
  public:
    std::string name() const override { return "none"; }
    void exchange(const Halo&, const double*, double*) override {}
    void sum(double*) override {}
    bool capturable() const override { return true; }
};

/// Through page-locked memory of the host and whatever MPI there is.
class ThroughHost : public Exchange {
  public:
    ThroughHost(Ranks& ranks, const tenken::cuda::Stream& stream)
        : ranks_(ranks), stream_(stream), number_(1) {}
    std::string name() const override { return "host"; }
    bool capturable() const override { return false; }

    void exchange(const Halo& halo, const double* send, double* receive) override {
        const auto points = static_cast<std::size_t>(halo.points);
        if (!sent_ || sent_->size() < points) {
            sent_.reset(new tenken::cuda::PinnedArray<double>(points));
            received_.reset(new tenken::cuda::PinnedArray<double>(points));
        }
        const std::size_t bytes = points * sizeof(double);
        TENKEN_CUDA(cudaMemcpyAsync(sent_->data(), send, bytes, cudaMemcpyDeviceToHost, stream_.get()));
        // The copy of the exchange before has been read by now too.
        stream_.synchronize();
        ranks_.exchange(halo, sent_->data(), received_->data());
        TENKEN_CUDA(
            cudaMemcpyAsync(receive, received_->data(), bytes, cudaMemcpyHostToDevice, stream_.get()));
    }

    void sum(double* number) override {
        TENKEN_CUDA(
            cudaMemcpyAsync(number_.data(), number, sizeof(double), cudaMemcpyDeviceToHost, stream_.get()));
        stream_.synchronize();
        ranks_.sum(number_.data(), 1);
        TENKEN_CUDA(
            cudaMemcpyAsync(number, number_.data(), sizeof(double), cudaMemcpyHostToDevice, stream_.get()));
    }

  private:
    Ranks& ranks_;
    const tenken::cuda::Stream& stream_;
    tenken::cuda::PinnedArray<double> number_;
    std::unique_ptr<tenken::cuda::PinnedArray<double>> sent_;
    std::unique_ptr<tenken::cuda::PinnedArray<double>> received_;
};

/// Messages from and to device memory. Sums go through the host: an MPI that moves device memory need not add
/// in it.
class DeviceMpi : public ThroughHost {
  public:
    DeviceMpi(Ranks& ranks, const tenken::cuda::Stream& stream)
        : ThroughHost(ranks, stream), ranks_(ranks), stream_(stream) {}
    std::string name() const override { return "mpi"; }
    void exchange(const Halo& halo, const double* send, double* receive) override {
        stream_.synchronize();
        ranks_.exchange(halo, send, receive);
    }

  private:
    Ranks& ranks_;
    const tenken::cuda::Stream& stream_;
};

class Nccl : public Exchange {
  public:
    Nccl(std::unique_ptr<nccl::Library> library, Ranks& ranks, const tenken::cuda::Stream& stream)
        : library_(std::move(library)), stream_(stream) {
        nccl::UniqueId id{};
        if (ranks.rank() == 0) HPCG_NCCL(get_unique_id(&id));
        const std::string bytes = ranks.broadcast(std::string(id.bytes, sizeof id.bytes));
        std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
        HPCG_NCCL(comm_init_rank(&comm_, ranks.size(), id, ranks.rank()));
    }
    ~Nccl() override {
        if (comm_ != nullptr) library_->comm_destroy(comm_);
    }
    std::string name() const override { return "nccl " + library_->version(); }
    bool capturable() const override { return true; }

    void exchange(const Halo& halo, const double* send, double* receive) override {
        HPCG_NCCL(group_start());
        for (const Neighbour& neighbour : halo.neighbours) {
            const auto count = static_cast<std::size_t>(neighbour.count);
            HPCG_NCCL(
                send(send + neighbour.begin, count, nccl::float64, neighbour.rank, comm_, stream_.get()));
            HPCG_NCCL(receive(receive + neighbour.begin, count, nccl::float64, neighbour.rank, comm_,
                              stream_.get()));
        }
        HPCG_NCCL(group_end());
    }
    void sum(double* number) override {
        HPCG_NCCL(all_reduce(number, number, 1, nccl::float64, nccl::sum, comm_, stream_.get()));
    }

  private:
    std::unique_ptr<nccl::Library> library_;
    const tenken::cuda::Stream& stream_;
    nccl::Comm comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const std::string& way, Ranks& ranks,
                                        const tenken::cuda::Stream& stream, bool own_gpu, std::string& why) {
    if (ranks.size() == 1) {
        why = "one rank";
        return std::unique_ptr<Exchange>(new Alone);
    }
    std::string why_not;
    std::unique_ptr<nccl::Library> library;
    if (way == "auto" || way == "nccl") {
        if (own_gpu) library = nccl::Library::open(why_not);
        if (!own_gpu) why_not = "two ranks share a GPU, which NCCL refuses";
        const bool all = ranks.largest({library ? 0.0 : 1.0}).front() == 0;
        if (!all && library) why_not = "another rank has no NCCL";
        if (!all) library.reset();
        if (!library && way == "nccl") throw tenken::Waived(tenken::Waiver::library_missing, why_not);
    }
    if (library) {
        why = way == "auto" ? "NCCL is there and each rank has a GPU of its own" : "asked for";
        return std::unique_ptr<Exchange>(new Nccl(std::move(library), ranks, stream));
    }
    why = way == "auto" ? why_not : "asked for";
    if (way == "mpi") return std::unique_ptr<Exchange>(new DeviceMpi(ranks, stream));
    return std::unique_ptr<Exchange>(new ThroughHost(ranks, stream));
}

}  // namespace hpcg
