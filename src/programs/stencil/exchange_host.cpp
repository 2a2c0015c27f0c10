// Through host memory: the sender copies its planes into a page-locked buffer, the receiver copies them
// out; between processes they are sent as a message between two such buffers.
#include "lib/base/clock.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"

namespace stencil {

namespace {

using tenken::cuda::CurrentGpu;
using tenken::cuda::Event;
typedef tenken::cuda::PinnedArray<unsigned char> Buffer;

class StagedExchange : public Exchange {
  public:
    explicit StagedExchange(Transport& transport) : transport_(transport) {}

    void connect(Parts& parts, const Links& links) override {
        parts_ = &parts;
        sides_.clear();
        sides_.resize(2 * parts.size());
        for (const Link& link : links) {
            GpuPart& part = gpu_part(parts, link.part);
            const CurrentGpu current(part.device());
            Side& side = side_of(link);
            side.out.reset(new Buffer(bytes_of(part, link.send) + 1));
            if (!link.same_process) side.in.reset(new Buffer(bytes_of(part, link.receive) + 1));
            side.filled.reset(new Event);
            side.emptied.reset(new Event);
        }
    }

    void start(const Links& links, int array) override {
        for (const Link& link : links) copy_out(link, array);
        for (const Link& link : links) {
            if (!link.same_process) continue;
            // The neighbour's buffer for the side that faces this part.
            const Side& theirs = opposite(link);
            copy_in(link, array, theirs.out->data(), theirs.filled.get());
            const CurrentGpu current(gpu_part(*parts_, link.part).device());
            side_of(link).emptied->record(gpu_part(*parts_, link.part).stream(Queue::boundary));
        }
    }

    void finish(const Links& links, int array) override {
        std::vector<Message> out;
        std::vector<Message> in;
        for (const Link& link : links) {
            GpuPart& part = gpu_part(*parts_, link.part);
            if (link.same_process) {
                // A buffer is refilled only after its neighbour has emptied it.
                const CurrentGpu current(part.device());
                TENKEN_CUDA(cudaStreamWaitEvent(part.stream(Queue::boundary).get(),
                                                opposite(link).emptied->get(), 0));
                continue;
            }
            part.wait(Queue::boundary);
            out.push_back({side_of(link).out->data(), bytes_of(part, link.send), link.process,
                           tag_of(link.neighbour, 1 - link.side)});
            in.push_back({side_of(link).in->data(), bytes_of(part, link.receive), link.process,
                          tag_of(part.number(), link.side)});
        }
        if (in.empty()) return;
        transport_.swap(out, in);
        for (const Link& link : links) {
            if (!link.same_process) copy_in(link, array, side_of(link).in->data(), nullptr);
        }
        for (const Link& link : links) (*parts_)[link.part]->wait(Queue::boundary);
    }

    double packing(bool timed) override {
        const double seconds = packed_;
        packed_ = 0;
        timed_ = timed;
        return seconds;
    }

    std::string path() const override { return "page-locked buffers of the host"; }

  private:
    struct Side {
        std::unique_ptr<Buffer> out;
        std::unique_ptr<Buffer> in;      ///< only if another process sends
        std::unique_ptr<Event> filled;   ///< out
        std::unique_ptr<Event> emptied;  ///< the neighbour's out
    };

    Side& side_of(const Link& link) { return sides_[2 * link.part + static_cast<std::size_t>(link.side)]; }
    /// The side of a neighbour in this process that faces this part.
    Side& opposite(const Link& link) {
        const int place = link.neighbour - parts_->front()->number();
        return sides_[static_cast<std::size_t>(2 * place + 1 - link.side)];
    }

    template <typename Enqueue>
    void packing_step(GpuPart& part, const Enqueue& enqueue) {
        const double begin = tenken::now_seconds();
        enqueue(part.stream(Queue::boundary).get());
        if (!timed_) return;
        part.wait(Queue::boundary);
        packed_ += tenken::now_seconds() - begin;
    }

    void copy_out(const Link& link, int array) {
        GpuPart& part = gpu_part(*parts_, link.part);
        const CurrentGpu current(part.device());
        packing_step(part, [&](cudaStream_t stream) {
            TENKEN_CUDA(cudaMemcpyAsync(side_of(link).out->data(), part.plane(array, link.send.begin),
                                        bytes_of(part, link.send), cudaMemcpyDeviceToHost, stream));
        });
        side_of(link).filled->record(part.stream(Queue::boundary));
    }

    void copy_in(const Link& link, int array, const void* buffer, Event* filled) {
        GpuPart& part = gpu_part(*parts_, link.part);
        const CurrentGpu current(part.device());
        packing_step(part, [&](cudaStream_t stream) {
            if (filled != nullptr) TENKEN_CUDA(cudaStreamWaitEvent(stream, filled->get(), 0));
            TENKEN_CUDA(cudaMemcpyAsync(part.plane(array, link.receive.begin), buffer,
                                        bytes_of(part, link.receive), cudaMemcpyHostToDevice, stream));
        });
    }

    Transport& transport_;
    Parts* parts_ = nullptr;
    std::vector<Side> sides_;  ///< of each part, below and above
    bool timed_ = false;
    double packed_ = 0;
};

}  // namespace

std::unique_ptr<Exchange> make_staged_exchange(Transport& transport) {
    return std::unique_ptr<Exchange>(new StagedExchange(transport));
}

}  // namespace stencil
