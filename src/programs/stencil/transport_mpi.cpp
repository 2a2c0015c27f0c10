#include <algorithm>

#include "lib/mpi/world.h"
#include "programs/stencil/exchange.h"

namespace stencil {

namespace {

/// Maximum size of a message: MPI counts in an int.
constexpr std::size_t max_bytes = std::size_t{1} << 30;

class MpiTransport : public Transport {
  public:
    void swap(const std::vector<Message>& out, const std::vector<Message>& in) override {
        std::vector<MPI_Request> requests;
        for (const Message& message : in) {
            in_pieces(message, [&](void* data, int bytes) {
                requests.emplace_back();
                TENKEN_MPI(MPI_Irecv(data, bytes, MPI_BYTE, message.process, message.tag, MPI_COMM_WORLD,
                                     &requests.back()));
            });
        }
        for (const Message& message : out) {
            in_pieces(message, [&](void* data, int bytes) {
                requests.emplace_back();
                TENKEN_MPI(MPI_Isend(data, bytes, MPI_BYTE, message.process, message.tag, MPI_COMM_WORLD,
                                     &requests.back()));
            });
        }
        TENKEN_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    }

  private:
    template <typename Post>
    static void in_pieces(const Message& message, const Post& post) {
        for (std::size_t done = 0; done < message.bytes; done += max_bytes) {
            post(static_cast<char*>(message.data) + done,
                 static_cast<int>(std::min(max_bytes, message.bytes - done)));
        }
    }
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport() {
    return std::unique_ptr<Transport>(new MpiTransport);
}

}  // namespace stencil
