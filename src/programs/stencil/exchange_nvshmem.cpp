// A partitioned global address space: arrays have the same offset in every GPU's symmetric heap, and a part
// puts its planes directly into its neighbour's halo. Signals announce that a halo may be written, and that
// it was written. Everything is done by the boundary queues, without waits on the host.
#include <cstdlib>

#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"
#include "programs/stencil/nvshmem_library.h"

namespace stencil {

namespace {

/// NVSHMEM is initialised once per process, and ends with it.
class Session {
  public:
    static Session& get() {
        static Session session;
        return session;
    }
    bool begun() const { return begun_; }

    const Nvshmem* library() const { return library_.get(); }
    const std::string& why_not() const { return why_not_; }

    void begin(tenken::Ranks& ranks, std::size_t heap_bytes) {
        if (begun_) return;
        // Settings of the user take precedence.
        setenv("NVSHMEM_SYMMETRIC_SIZE", std::to_string(heap_bytes + (std::size_t{256} << 20)).c_str(), 0);
        bool one_node = true;
        for (const std::string& node : ranks.nodes()) one_node = one_node && node == ranks.nodes().front();
        if (one_node) setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
        setenv("NVSHMEM_DISABLE_NVLS", "1", 0);  // multicast serves only collectives, and none are used
        Nvshmem::UniqueId id{};
        id.version = (1 << 16) + static_cast<int>(sizeof id);
        if (ranks.rank() == 0) check(library_->get_unique_id(&id), "nvshmemx_get_uniqueid");
        const std::string all = ranks.broadcast(std::string(reinterpret_cast<const char*>(&id), sizeof id));
        all.copy(reinterpret_cast<char*>(&id), sizeof id);
        Nvshmem::InitAttributes attributes{};
        attributes.version = (1 << 16) + static_cast<int>(sizeof attributes);
        attributes.arguments.version = (1 << 16) + static_cast<int>(sizeof attributes.arguments);
        attributes.arguments.unique_id.version =
            (1 << 16) + static_cast<int>(sizeof attributes.arguments.unique_id);
        check(library_->set_unique_id(ranks.rank(), ranks.size(), &id, &attributes),
              "nvshmemx_set_attr_uniqueid_args");
        check(library_->init(Nvshmem::with_unique_id, &attributes), "nvshmemx_hostlib_init_attr");
        begun_ = true;
    }

  private:
    Session() : library_(Nvshmem::open(why_not_)) {}

    static void check(int status, const char* call) {
        if (status != 0)
            throw std::runtime_error(std::string(call) + " failed with " + std::to_string(status));
    }

    std::string why_not_;
    std::unique_ptr<Nvshmem> library_;
    bool begun_ = false;
};

class NvshmemExchange : public Exchange {
  public:
    NvshmemExchange(tenken::Ranks& ranks, std::size_t heap_bytes) : library_(*Session::get().library()) {
        Session::get().begin(ranks, heap_bytes);
        signals_ = std::static_pointer_cast<std::uint64_t>(allocate(4 * sizeof(std::uint64_t)));
        TENKEN_CUDA(cudaMemset(signals_.get(), 0, 4 * sizeof(std::uint64_t)));
        TENKEN_CUDA(cudaDeviceSynchronize());
        ranks.barrier();
    }

    Memory memory() override {
        return [this](std::size_t bytes) { return allocate(bytes); };
    }

    void connect(Parts& parts, const Links&) override { part_ = &gpu_part(parts, 0); }

    void start(const Links& links, int array) override {
        cudaStream_t const stream = part_->stream(Queue::boundary).get();
        for (const Link& link : links) {
            library_.signal(ready(1 - link.side), ++turn_[link.side], Nvshmem::signal_set, link.neighbour,
                            stream);
        }
        for (const Link& link : links) {
            library_.wait_for_signal(ready(link.side), Nvshmem::greater_or_equal, turn_[link.side], stream);
            library_.put_and_signal(halo_of(link, array), part_->plane(array, link.send.begin),
                                    bytes_of(*part_, link.send), arrived(1 - link.side), turn_[link.side],
                                    Nvshmem::signal_set, link.neighbour, stream);
        }
    }

    void finish(const Links& links, int) override {
        cudaStream_t const stream = part_->stream(Queue::boundary).get();
        for (const Link& link : links) {
            library_.wait_for_signal(arrived(link.side), Nvshmem::greater_or_equal, turn_[link.side], stream);
        }
    }

    std::string path() const override {
        int major = 0;
        int minor = 0;
        int patch = 0;
        library_.get_version(&major, &minor, &patch);
        return "NVSHMEM " + std::to_string(major) + "." + std::to_string(minor) + "." +
               std::to_string(patch) + ", nvshmemx_putmem_signal_on_stream";
    }

  private:
    std::shared_ptr<void> allocate(std::size_t bytes) {
        void* const memory = library_.malloc(bytes);
        if (memory == nullptr)
            throw std::runtime_error("nvshmem_malloc of " + std::to_string(bytes) + " B failed");
        const Nvshmem* const library = &library_;
        return std::shared_ptr<void>(memory, [library](void* one) { library->free(one); });
    }

    std::uint64_t* ready(int side) { return signals_.get() + side; }
    std::uint64_t* arrived(int side) { return signals_.get() + 2 + side; }

    /// The neighbour's halo, by its address in this GPU's part of the heap: the planes that it receives from
    /// here.
    void* halo_of(const Link& link, int array) {
        const long plane = link.destination - link.neighbour_first + part_->layout().halo;
        return static_cast<unsigned char*>(part_->allocation(array)) + GpuPart::front_bytes +
               static_cast<std::size_t>(plane) * part_->plane_bytes();
    }

    const Nvshmem& library_;
    GpuPart* part_ = nullptr;
    std::shared_ptr<std::uint64_t> signals_;  ///< ready below and above, arrived below and above
    std::uint64_t turn_[2] = {};
};

}  // namespace

bool nvshmem_has_begun() {
    return Session::get().begun();
}

std::string why_no_nvshmem() {
    return Session::get().why_not();
}

std::unique_ptr<Exchange> make_nvshmem_exchange(tenken::Ranks& ranks, std::size_t heap_bytes) {
    return std::unique_ptr<Exchange>(new NvshmemExchange(ranks, heap_bytes));
}

}  // namespace stencil
