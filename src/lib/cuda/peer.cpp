#include "lib/cuda/peer.h"

#include <algorithm>
#include <utility>

namespace tenken {
namespace cuda {

bool can_access_peer(int from, int to) {
    int can = 0;
    TENKEN_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
    return can != 0;
}

CurrentGpu::CurrentGpu(int gpu) {
    TENKEN_CUDA(cudaGetDevice(&before_));
    TENKEN_CUDA(cudaSetDevice(gpu));
}

CurrentGpu::~CurrentGpu() {
    cudaSetDevice(before_);
}

PeerAccess::PeerAccess(int one, int other) : one_(one), other_(other) {
    forth_ = enable(one, other);
    back_ = enable(other, one);
}

bool PeerAccess::enable(int from, int to) {
    const CurrentGpu current(from);
    const cudaError_t result = cudaDeviceEnablePeerAccess(to, 0);
    if (result == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        return false;
    }
    if (result != cudaSuccess) fail(result, "cudaDeviceEnablePeerAccess(to, 0)", __FILE__, __LINE__);
    return true;
}

PeerAccess::~PeerAccess() {
    int before = 0;
    cudaGetDevice(&before);
    if (forth_ && cudaSetDevice(one_) == cudaSuccess) cudaDeviceDisablePeerAccess(other_);
    if (back_ && cudaSetDevice(other_) == cudaSuccess) cudaDeviceDisablePeerAccess(one_);
    cudaSetDevice(before);
}

Together::Together(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) {
        const CurrentGpu current(part.gpu);  // streams and events belong to the current GPU
        Branch branch;
        branch.stream.reset(new Stream);
        branch.done.reset(new Event);
        branches_.push_back(std::move(branch));
    }
}

void Together::launch(const Stream& lead) {
    begin_.record(lead);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const CurrentGpu current(parts_[i].gpu);
        const Branch& branch = branches_[i];
        TENKEN_CUDA(cudaStreamWaitEvent(branch.stream->get(), begin_.get(), 0));
        parts_[i].enqueue(*branch.stream);
        branch.done->record(*branch.stream);
    }
    for (const Branch& branch : branches_) {
        TENKEN_CUDA(cudaStreamWaitEvent(lead.get(), branch.done->get(), 0));
    }
}

HostStaging::HostStaging(int from, int to, std::size_t chunk_bytes, int buffers)
    : from_gpu_(from), to_gpu_(to), chunk_bytes_(chunk_bytes) {
    {
        const CurrentGpu current(to);
        in_.reset(new Stream);
    }
    const CurrentGpu current(from);
    out_.reset(new Stream);
    for (int i = 0; i < buffers; ++i) {
        Slot slot;
        slot.memory.reset(new PinnedArray<unsigned char>(chunk_bytes));
        slot.filled.reset(new Event);
        {
            const CurrentGpu destination(to);
            slot.emptied.reset(new Event);
        }
        slots_.push_back(std::move(slot));
    }
}

HostStaging::~HostStaging() {
    // No copy may still read the buffers when they are freed.
    cudaStreamSynchronize(out_->get());
    cudaStreamSynchronize(in_->get());
}

void HostStaging::copy(void* to, const void* from, std::size_t bytes) {
    const CurrentGpu current(from_gpu_);
    std::size_t done = 0;
    for (std::size_t i = 0; done < bytes; ++i) {
        Slot& slot = slots_[i % slots_.size()];
        const std::size_t count = std::min(chunk_bytes_, bytes - done);
        // The previous chunk must have left the buffer; an event that was never recorded does not block.
        TENKEN_CUDA(cudaStreamWaitEvent(out_->get(), slot.emptied->get(), 0));
        TENKEN_CUDA(cudaMemcpyAsync(slot.memory->data(), static_cast<const unsigned char*>(from) + done,
                                    count, cudaMemcpyDeviceToHost, out_->get()));
        slot.filled->record(*out_);
        {
            const CurrentGpu destination(to_gpu_);
            TENKEN_CUDA(cudaStreamWaitEvent(in_->get(), slot.filled->get(), 0));
            TENKEN_CUDA(cudaMemcpyAsync(static_cast<unsigned char*>(to) + done, slot.memory->data(), count,
                                        cudaMemcpyHostToDevice, in_->get()));
            slot.emptied->record(*in_);
        }
        done += count;
    }
    out_->synchronize();
    in_->synchronize();
}

}  // namespace cuda
}  // namespace tenken
