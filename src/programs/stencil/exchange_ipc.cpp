// Between GPUs of two processes on a node: each maps its neighbour's arrays (CUDA IPC) and copies its halo
// from them. One message announces that the neighbour's planes are ready, another that they were copied.
// Between nodes halos go through host memory.
#include <cstring>

#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"

namespace stencil {

namespace {

using tenken::cuda::CurrentGpu;

class IpcExchange : public Exchange {
  public:
    IpcExchange(tenken::Ranks& ranks, Transport& transport)
        : ranks_(ranks), transport_(transport), between_nodes_(make_staged_exchange(transport)) {}
    ~IpcExchange() override { disconnect(); }

    void connect(Parts& parts, const Links& links) override {
        part_ = &gpu_part(parts, 0);
        between_nodes_->connect(parts, of_node(links, false));
        const CurrentGpu current(part_->device());
        cudaIpcMemHandle_t mine[2];
        for (int array = 0; array < 2; ++array) {
            TENKEN_CUDA(cudaIpcGetMemHandle(&mine[array], part_->allocation(array)));
        }
        std::string all;
        for (const std::string& one :
             ranks_.gather(std::string(reinterpret_cast<const char*>(mine), sizeof mine))) {
            all += one;
        }
        all = ranks_.broadcast(all);
        for (const Link& link : of_node(links, true)) {
            for (int array = 0; array < 2; ++array) {
                cudaIpcMemHandle_t theirs;
                std::memcpy(&theirs,
                            all.data() + (2 * link.process + array) * static_cast<long>(sizeof theirs),
                            sizeof theirs);
                TENKEN_CUDA(
                    cudaIpcOpenMemHandle(&mapped_[link.side][array], theirs, cudaIpcMemLazyEnablePeerAccess));
            }
        }
    }

    void disconnect() override {
        for (auto& side : mapped_) {
            for (void*& array : side) {
                if (array != nullptr) cudaIpcCloseMemHandle(array);
                array = nullptr;
            }
        }
    }

    void start(const Links& links, int array) override {
        between_nodes_->start(of_node(links, false), array);
    }

    void finish(const Links& links, int array) override {
        const Links near = of_node(links, true);
        if (!near.empty()) {
            const CurrentGpu current(part_->device());
            part_->wait(Queue::boundary);
            tell(near, ready);
            for (const Link& link : near) {
                TENKEN_CUDA(cudaMemcpyAsync(part_->plane(array, link.receive.begin), theirs(link, array),
                                            bytes_of(*part_, link.receive), cudaMemcpyDeviceToDevice,
                                            part_->stream(Queue::boundary).get()));
            }
            part_->wait(Queue::boundary);
            tell(near, taken);
        }
        between_nodes_->finish(of_node(links, false), array);
    }

    double packing(bool timed) override { return between_nodes_->packing(timed); }
    std::string path() const override { return "CUDA IPC within a node, page-locked buffers between nodes"; }

  private:
    /// Beyond the tags of halos.
    enum Word { ready = 4096, taken = 8192 };

    static Links of_node(const Links& links, bool same) {
        Links some;
        for (const Link& link : links) {
            if (link.same_node == same) some.push_back(link);
        }
        return some;
    }

    const void* theirs(const Link& link, int array) const {
        const long plane = link.fetched.begin - link.neighbour_first + part_->layout().halo;
        return static_cast<const unsigned char*>(mapped_[link.side][array]) + GpuPart::front_bytes +
               static_cast<std::size_t>(plane) * part_->plane_bytes();
    }

    void tell(const Links& links, Word word) {
        std::vector<Message> out;
        std::vector<Message> in;
        for (const Link& link : links) {
            out.push_back({&said_, 1, link.process, word + tag_of(link.neighbour, 1 - link.side)});
            in.push_back({&heard_[link.side], 1, link.process, word + tag_of(part_->number(), link.side)});
        }
        transport_.swap(out, in);
    }

    tenken::Ranks& ranks_;
    Transport& transport_;
    std::unique_ptr<Exchange> between_nodes_;
    GpuPart* part_ = nullptr;
    void* mapped_[2][2] = {};  ///< the neighbours below and above, both arrays
    char said_ = 1;
    char heard_[2] = {};
};

}  // namespace

std::unique_ptr<Exchange> make_ipc_exchange(tenken::Ranks& ranks, Transport& transport) {
    return std::unique_ptr<Exchange>(new IpcExchange(ranks, transport));
}

}  // namespace stencil
