// Between GPUs of one process by copy engine, over NVLink or PCIe without host memory.
#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"

namespace stencil {

namespace {

class PeerExchange : public Pull {
  public:
    void connect(Parts& parts, const Links& links) override {
        Pull::connect(parts, links);
        access_.clear();
        for (std::size_t place = 1; place < parts.size(); ++place) {
            access_.emplace_back(new tenken::cuda::PeerAccess(gpu_part(parts, place - 1).device(),
                                                              gpu_part(parts, place).device()));
        }
    }

    std::string path() const override { return "cudaMemcpyPeerAsync, peer access on"; }

  protected:
    void move(GpuPart& receiver, void* to, GpuPart& sender, const void* from, std::size_t bytes) override {
        TENKEN_CUDA(cudaMemcpyPeerAsync(to, receiver.device(), from, sender.device(), bytes,
                                        receiver.stream(Queue::boundary).get()));
    }

  private:
    std::vector<std::unique_ptr<tenken::cuda::PeerAccess>> access_;
};

}  // namespace

std::unique_ptr<Exchange> make_peer_exchange() {
    return std::unique_ptr<Exchange>(new PeerExchange);
}

}  // namespace stencil
