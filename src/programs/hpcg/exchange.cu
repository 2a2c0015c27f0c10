#include <cuda_runtime.h>

#include <cstring>

#include "lib/base/program.h"
#include "lib/cuda/memory.h"
#include "lib/nccl/library.h"
#include "programs/hpcg/comm_stream.h"
#include "programs/hpcg/exchange.h"
#include "programs/hpcg/peer_exchange.h"

#define HPCG_NCCL(call) library_->check(library_->call, #call)

namespace hpcg {

namespace {

class Alone : public Exchange {
  public:
    std::string name() const override { return "none"; }
    void exchange(const Halo&, const double*, double*) override {}
    void begin(const Halo&, const double*, double*) override {}
    void end() override {}
    void sum(double*) override {}
    bool capturable() const override { return true; }
};

/// Through page-locked host memory and any MPI.
class ThroughHost : public Exchange {
  public:
    ThroughHost(Ranks& ranks, const tenken::cuda::Stream& stream)
        : ranks_(ranks), stream_(stream), comm_stream_(stream), number_(1) {}
    std::string name() const override { return "host"; }
    bool capturable() const override { return false; }

    void exchange(const Halo& halo, const double* send, double* receive) override {
        move(halo, send, receive, stream_);
    }
    void begin(const Halo& halo, const double* send, double* receive) override {
        comm_stream_.fork();
        halo_ = &halo;
        send_ = send;
        receive_ = receive;
    }
    void end() override {
        move(*halo_, send_, receive_, comm_stream_.stream());
        comm_stream_.join();
    }

    void sum(double* number) override {
        TENKEN_CUDA(
            cudaMemcpyAsync(number_.data(), number, sizeof(double), cudaMemcpyDeviceToHost, stream_.get()));
        stream_.synchronize();
        ranks_.sum(number_.data(), 1);
        TENKEN_CUDA(
            cudaMemcpyAsync(number, number_.data(), sizeof(double), cudaMemcpyHostToDevice, stream_.get()));
    }

  protected:
    virtual void move(const Halo& halo, const double* send, double* receive,
                      const tenken::cuda::Stream& stream) {
        const auto points = static_cast<std::size_t>(halo.points);
        stream.synchronize();  // the copy of the previous exchange may still be reading
        if (!sent_ || sent_->size() < points) {
            sent_.reset(new tenken::cuda::PinnedArray<double>(points));
            received_.reset(new tenken::cuda::PinnedArray<double>(points));
        }
        const std::size_t bytes = points * sizeof(double);
        TENKEN_CUDA(cudaMemcpyAsync(sent_->data(), send, bytes, cudaMemcpyDeviceToHost, stream.get()));
        stream.synchronize();
        ranks_.exchange(halo, sent_->data(), received_->data());
        TENKEN_CUDA(cudaMemcpyAsync(receive, received_->data(), bytes, cudaMemcpyHostToDevice, stream.get()));
        stream.synchronize();  // consecutive exchanges may use different streams
    }

    Ranks& ranks_;

  private:
    const tenken::cuda::Stream& stream_;
    CommStream comm_stream_;
    tenken::cuda::PinnedArray<double> number_;
    std::unique_ptr<tenken::cuda::PinnedArray<double>> sent_;
    std::unique_ptr<tenken::cuda::PinnedArray<double>> received_;
    const Halo* halo_ = nullptr;
    const double* send_ = nullptr;
    double* receive_ = nullptr;
};

/// Messages from and to device memory. Sums go through the host: an MPI that transfers device memory does not
/// necessarily reduce in it.
class DeviceMpi : public ThroughHost {
  public:
    using ThroughHost::ThroughHost;
    std::string name() const override { return "mpi"; }

  protected:
    void move(const Halo& halo, const double* send, double* receive,
              const tenken::cuda::Stream& stream) override {
        stream.synchronize();
        ranks_.exchange(halo, send, receive);
    }
};

class Nccl : public StreamExchange {
  public:
    Nccl(std::unique_ptr<nccl::Library> library, Ranks& ranks, const tenken::cuda::Stream& stream)
        : StreamExchange(stream), library_(std::move(library)) {
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
    void sum(double* number) override {
        HPCG_NCCL(all_reduce(number, number, 1, nccl::float64, nccl::sum, comm_, stream_.get()));
    }

  private:
    void move(const Halo& halo, const double* from, double* to, const tenken::cuda::Stream& stream) override {
        HPCG_NCCL(group_start());
        for (const Neighbour& neighbour : halo.neighbours) {
            const auto count = static_cast<std::size_t>(neighbour.count);
            HPCG_NCCL(
                send(from + neighbour.begin, count, nccl::float64, neighbour.rank, comm_, stream.get()));
            HPCG_NCCL(
                receive(to + neighbour.begin, count, nccl::float64, neighbour.rank, comm_, stream.get()));
        }
        HPCG_NCCL(group_end());
    }

    std::unique_ptr<nccl::Library> library_;
    nccl::Comm comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const std::string& way, Ranks& ranks,
                                        const tenken::cuda::Stream& stream, bool own_gpu, int max_points,
                                        std::string& why) {
    if (ranks.size() == 1) {
        why = "one rank";
        return std::unique_ptr<Exchange>(new Alone);
    }
    // These methods are tried only if every rank has its own GPU.
    const bool all_own = ranks.largest({own_gpu ? 0.0 : 1.0}).front() == 0;
    const std::string shared = "two ranks share a GPU";
    const bool any = way == "auto";
    std::string no_peer = shared;
    if (any || way == "peer") {
        std::unique_ptr<Exchange> peer;
        if (all_own) peer = make_peer_exchange(ranks, stream, max_points, no_peer);
        if (peer) {
            why = any ? "each rank has its own GPU, and they reach each other's memory" : "requested";
            return peer;
        }
        if (!any) throw tenken::Waived(tenken::Waiver::no_peer_access, no_peer);
    }
    std::string no_nccl = shared + ", which NCCL refuses";
    if (any || way == "nccl") {
        std::unique_ptr<nccl::Library> library;
        if (all_own) library = nccl::Library::open(no_nccl);
        const bool all = ranks.largest({library ? 0.0 : 1.0}).front() == 0;
        if (!all && library) no_nccl = "another rank has no NCCL";
        if (all) {
            why = any ? "NCCL is available and each rank has its own GPU; no peer stores: " + no_peer
                      : "requested";
            return std::unique_ptr<Exchange>(new Nccl(std::move(library), ranks, stream));
        }
        if (!any) throw tenken::Waived(tenken::Waiver::library_missing, no_nccl);
    }
    why = any ? "no peer stores: " + no_peer + "; no NCCL: " + no_nccl : "requested";
    if (way == "mpi") return std::unique_ptr<Exchange>(new DeviceMpi(ranks, stream));
    return std::unique_ptr<Exchange>(new ThroughHost(ranks, stream));
}

}  // namespace hpcg
