// One address space for all GPUs and the host. A part reads its neighbour's planes by their addresses; the
// driver migrates the pages there and, when the neighbour continues to compute, back.
#include "lib/cuda/copy.h"
#include "lib/cuda/memory.h"
#include "programs/stencil/gpu_exchange.h"

namespace stencil {

namespace {

class ManagedExchange : public Pull {
  public:
    Memory memory() override {
        return [](std::size_t bytes) {
            return std::shared_ptr<void>(tenken::cuda::ManagedMemory::allocate(bytes),
                                         tenken::cuda::ManagedMemory::free);
        };
    }

    std::string path() const override {
        return "a kernel reads the neighbour's managed memory, the driver moves pages";
    }

  protected:
    void move(GpuPart& receiver, void* to, GpuPart&, const void* from, std::size_t bytes) override {
        tenken::cuda::copy(static_cast<double*>(to), static_cast<const double*>(from), bytes / sizeof(double),
                           tenken::cuda::copy_launch(), receiver.stream(Queue::boundary));
    }
};

}  // namespace

std::unique_ptr<Exchange> make_managed_exchange() {
    return std::unique_ptr<Exchange>(new ManagedExchange);
}

}  // namespace stencil
