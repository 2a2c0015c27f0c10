#include <algorithm>

#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"

namespace stencil {

using tenken::cuda::CurrentGpu;
using tenken::cuda::Event;

void Pull::connect(Parts& parts, const Links& links) {
    parts_ = &parts;
    std::size_t maximum = 0;
    for (const Link& link : links) maximum = std::max(maximum, static_cast<std::size_t>(link.neighbour));
    for (const auto& part : parts) maximum = std::max(maximum, static_cast<std::size_t>(part->number()));
    by_number_.assign(maximum + 1, nullptr);
    ready_.clear();
    pulled_.clear();
    for (std::size_t place = 0; place < parts.size(); ++place) {
        GpuPart& part = gpu_part(parts, place);
        const CurrentGpu current(part.device());
        by_number_[static_cast<std::size_t>(part.number())] = &part;
        ready_.emplace_back(new Event);
        pulled_.emplace_back(new Event);
        pulled_.emplace_back(new Event);
    }
}

void Pull::start(const Links& links, int array) {
    for (std::size_t place = 0; place < parts_->size(); ++place) {
        const CurrentGpu current(gpu_part(*parts_, place).device());
        ready_[place]->record(gpu_part(*parts_, place).stream(Queue::boundary));
    }
    for (const Link& link : links) {
        GpuPart& receiver = gpu_part(*parts_, link.part);
        GpuPart& sender = neighbour(link);
        const CurrentGpu current(receiver.device());
        tenken::cuda::Stream& stream = receiver.stream(Queue::boundary);
        const auto of_sender = static_cast<std::size_t>(sender.number() - parts_->front()->number());
        TENKEN_CUDA(cudaStreamWaitEvent(stream.get(), ready_[of_sender]->get(), 0));
        move(receiver, receiver.plane(array, link.receive.begin), sender,
             sender.plane(array, link.fetched.begin), bytes_of(receiver, link.receive));
        pulled_[2 * link.part + static_cast<std::size_t>(link.side)]->record(stream);
    }
}

void Pull::finish(const Links& links, int) {
    // No part overwrites planes that its neighbour is still copying.
    for (const Link& link : links) {
        GpuPart& sender = neighbour(link);
        const CurrentGpu current(sender.device());
        TENKEN_CUDA(cudaStreamWaitEvent(sender.stream(Queue::boundary).get(),
                                        pulled_[2 * link.part + static_cast<std::size_t>(link.side)]->get(),
                                        0));
    }
}

}  // namespace stencil
