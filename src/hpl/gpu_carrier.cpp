#include "hpl/gpu_carrier.h"

#include <stdexcept>
#include <vector>

#include "common/cuda/check.h"

namespace hpl {

namespace {

/// Through the host's memory by MPI: works everywhere.
class HostCarrier : public Carrier {
  public:
    explicit HostCarrier(Ranks& ranks) : ranks_(ranks) {}

    void broadcast(void* data, std::size_t bytes, int root, cudaStream_t stream) override {
        buffer_.resize((bytes + sizeof(double) - 1) / sizeof(double));
        if (root == ranks_.rank())
            TENKEN_CUDA(cudaMemcpyAsync(buffer_.data(), data, bytes, cudaMemcpyDeviceToHost, stream));
        TENKEN_CUDA(cudaStreamSynchronize(stream));
        ranks_.broadcast(buffer_.data(), bytes, root);
        if (root != ranks_.rank())
            TENKEN_CUDA(cudaMemcpyAsync(data, buffer_.data(), bytes, cudaMemcpyHostToDevice, stream));
        TENKEN_CUDA(cudaStreamSynchronize(stream));
    }

    void sum_in_column(double* data, std::size_t count, cudaStream_t stream) override {
        buffer_.resize(count);
        TENKEN_CUDA(cudaMemcpyAsync(buffer_.data(), data, count * sizeof(double), cudaMemcpyDeviceToHost, stream));
        TENKEN_CUDA(cudaStreamSynchronize(stream));
        ranks_.sum_in_column(buffer_.data(), count);
        TENKEN_CUDA(cudaMemcpyAsync(data, buffer_.data(), count * sizeof(double), cudaMemcpyHostToDevice, stream));
        TENKEN_CUDA(cudaStreamSynchronize(stream));
    }

    std::string text() const override { return "MPI, staged through the host"; }

  private:
    Ranks& ranks_;
    std::vector<double> buffer_;
};

}  // namespace

std::unique_ptr<Carrier> make_carrier(CarrierKind kind, Ranks& ranks, int, int) {
    if (kind == CarrierKind::host || kind == CarrierKind::automatic)
        return std::unique_ptr<Carrier>(new HostCarrier(ranks));
    throw std::runtime_error("this carrier is not there");
}

}  // namespace hpl
