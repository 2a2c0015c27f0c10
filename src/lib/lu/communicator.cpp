#include "lib/lu/communicator.h"

#include <cstring>
#include <stdexcept>
#include <vector>

#include "lib/cuda/check.h"
#include "lib/cuda/memory.h"
#include "lib/nccl/library.h"

namespace lu {

namespace {

/// By MPI: from device buffers if the MPI accepts them, otherwise through host memory, which works
/// everywhere.
class MpiCommunicator : public Communicator {
  public:
    MpiCommunicator(Ranks& ranks, bool staged) : ranks_(ranks), staged_(staged) {}

    void broadcast(void* data, std::size_t bytes, int root, cudaStream_t stream) override {
        void* const buffer = fetch(data, bytes, root == ranks_.rank(), stream);
        ranks_.broadcast(buffer, bytes, root);
        if (root != ranks_.rank()) put_back(data, bytes, stream);
    }

    void sum_in_column(double* data, std::size_t count, cudaStream_t stream) override {
        const std::size_t bytes = count * sizeof(double);
        ranks_.sum_in_column(static_cast<double*>(fetch(data, bytes, true, stream)), count);
        put_back(data, bytes, stream);
    }

    std::string text() const override {
        return staged_ ? "MPI, staged through the host" : "MPI, device buffers";
    }

  private:
    void* fetch(void* data, std::size_t bytes, bool needed, cudaStream_t stream) {
        if (staged_) {
            if (!buffer_ || buffer_->bytes() < bytes) {
                buffer_.reset();
                buffer_.reset(new tenken::cuda::PinnedArray<double>(bytes / sizeof(double) + 1));
            }
            if (needed)
                TENKEN_CUDA(cudaMemcpyAsync(buffer_->data(), data, bytes, cudaMemcpyDeviceToHost, stream));
        }
        TENKEN_CUDA(cudaStreamSynchronize(stream));
        return staged_ ? buffer_->data() : data;
    }

    void put_back(void* data, std::size_t bytes, cudaStream_t stream) {
        if (!staged_) return;
        TENKEN_CUDA(cudaMemcpyAsync(data, buffer_->data(), bytes, cudaMemcpyHostToDevice, stream));
        TENKEN_CUDA(cudaStreamSynchronize(stream));
    }

    Ranks& ranks_;
    bool staged_;
    std::unique_ptr<tenken::cuda::PinnedArray<double>> buffer_;
};

class NcclCommunicator : public Communicator {
  public:
    NcclCommunicator(std::unique_ptr<nccl::Library> library, Ranks& ranks, int p, int q)
        : library_(std::move(library)), ranks_(ranks) {
        std::vector<int> all;
        for (int rank = 0; rank < ranks.size(); ++rank) all.push_back(rank);
        all_ = join(all);
        if (p == 1) return;
        for (int column = 0; column < q; ++column) {
            std::vector<int> members;
            for (int row = 0; row < p; ++row) members.push_back(ranks.at(row, column));
            const nccl::Comm made = join(members);
            if (column == ranks.column()) column_ = made;
        }
    }

    ~NcclCommunicator() override {
        for (nccl::Comm one : {all_, column_}) {
            if (one != nullptr) library_->comm_destroy(one);
        }
    }

    void broadcast(void* data, std::size_t bytes, int root, cudaStream_t stream) override {
        // NCCL's kernels would occupy multiprocessors that the update needs while they wait, so no rank
        // starts before the panel is ready.
        if (root == ranks_.rank()) TENKEN_CUDA(cudaStreamSynchronize(stream));
        char ready = 1;
        ranks_.broadcast(&ready, sizeof ready, root);
        library_->check(library_->broadcast(data, data, bytes, nccl::int8, root, all_, stream), "broadcast");
    }

    void sum_in_column(double* data, std::size_t count, cudaStream_t stream) override {
        library_->check(library_->all_reduce(data, data, count, nccl::float64, nccl::sum, column_, stream),
                        "all_reduce");
    }

    std::string text() const override { return "NCCL " + library_->version(); }

  private:
    /// Called by all ranks; those that are not members only forward the name. @return null for them
    nccl::Comm join(const std::vector<int>& members) {
        nccl::UniqueId id{};
        if (ranks_.rank() == members.front()) library_->check(library_->get_unique_id(&id), "get_unique_id");
        ranks_.broadcast(id.bytes, sizeof id.bytes, members.front());
        nccl::Comm made = nullptr;
        for (std::size_t i = 0; i < members.size(); ++i) {
            if (members[i] != ranks_.rank()) continue;
            library_->check(
                library_->comm_init_rank(&made, static_cast<int>(members.size()), id, static_cast<int>(i)),
                "comm_init_rank");
        }
        return made;
    }

    std::unique_ptr<nccl::Library> library_;
    Ranks& ranks_;
    nccl::Comm all_ = nullptr;
    nccl::Comm column_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(CommunicatorKind kind, Ranks& ranks, int p, int q) {
    if (kind == CommunicatorKind::nccl || kind == CommunicatorKind::automatic) {
        std::string why_not;
        std::unique_ptr<nccl::Library> library = nccl::Library::open(why_not);
        const bool everywhere = ranks.largest({library ? 0.0 : 1.0}).front() == 0;
        if (everywhere)
            return std::unique_ptr<Communicator>(new NcclCommunicator(std::move(library), ranks, p, q));
        if (kind == CommunicatorKind::nccl)
            throw std::runtime_error(why_not.empty() ? "another rank cannot load NCCL" : why_not);
    }
    return std::unique_ptr<Communicator>(new MpiCommunicator(ranks, kind != CommunicatorKind::mpi));
}

}  // namespace lu
