// Point-to-point messages of NCCL: its kernels transfer the planes over any connection of the GPUs.
#include <cstring>

#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"

#define TENKEN_NCCL(call) library_.check(library_.call, #call)

namespace stencil {

namespace {

using tenken::cuda::CurrentGpu;

class NcclExchange : public Exchange {
  public:
    NcclExchange(const nccl::Library& library, tenken::Ranks& ranks, int all)
        : library_(library), ranks_(ranks), all_(all) {}
    ~NcclExchange() override {
        for (nccl::Comm comm : comms_) library_.comm_destroy(comm);
    }

    void connect(Parts& parts, const Links&) override {
        parts_ = &parts;
        if (!comms_.empty()) return;
        nccl::UniqueId id{};
        if (ranks_.rank() == 0) TENKEN_NCCL(get_unique_id(&id));
        const std::string bytes = ranks_.broadcast(std::string(id.bytes, sizeof id.bytes));
        std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
        comms_.resize(parts.size());
        TENKEN_NCCL(group_start());
        for (std::size_t place = 0; place < parts.size(); ++place) {
            const CurrentGpu current(gpu_part(parts, place).device());
            TENKEN_NCCL(comm_init_rank(&comms_[place], all_, id, parts[place]->number()));
        }
        TENKEN_NCCL(group_end());
    }

    void start(const Links& links, int array) override {
        TENKEN_NCCL(group_start());
        for (const Link& link : links) {
            GpuPart& part = gpu_part(*parts_, link.part);
            const CurrentGpu current(part.device());
            cudaStream_t const stream = part.stream(Queue::boundary).get();
            TENKEN_NCCL(send(part.plane(array, link.send.begin), bytes_of(part, link.send), nccl::int8,
                             link.neighbour, comms_[link.part], stream));
            TENKEN_NCCL(receive(part.plane(array, link.receive.begin), bytes_of(part, link.receive),
                                nccl::int8, link.neighbour, comms_[link.part], stream));
        }
        TENKEN_NCCL(group_end());
    }

    void finish(const Links&, int) override {}
    std::string path() const override { return "NCCL " + library_.version() + ", ncclSend and ncclRecv"; }

  private:
    const nccl::Library& library_;
    tenken::Ranks& ranks_;
    int all_;
    Parts* parts_ = nullptr;
    std::vector<nccl::Comm> comms_;
};

}  // namespace

std::unique_ptr<Exchange> make_nccl_exchange(const nccl::Library& library, tenken::Ranks& ranks, int parts) {
    return std::unique_ptr<Exchange>(new NcclExchange(library, ranks, parts));
}

}  // namespace stencil
