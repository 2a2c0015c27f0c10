// Transfer of the boundary planes of a part into the halos of its neighbours. Each method is one
// small file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "programs/stencil/part.h"

namespace stencil {

/// A local part and one of its neighbours: the data in both directions.
struct Link {
    std::size_t part;  ///< index among the local parts
    int side;          ///< 0: the neighbour below, 1: above
    int neighbour;     ///< its number among all parts
    int process;       ///< its location
    bool same_process;
    bool same_node;
    Range send;            ///< planes of this part that the neighbour needs
    Range receive;         ///< planes of the neighbour that go into this part's halo
    Range fetched;         ///< the neighbour's planes as required: `receive`, unless a test injects an error
    long neighbour_first;  ///< the neighbour's first plane
    long destination;      ///< the first plane that it should take from here: that of `send`, unless a test
                           ///< injects an error
};

/// Messages between processes in host memory or, if the MPI supports it, on GPUs.
struct Message {
    void* data;
    std::size_t bytes;
    int process;
    int tag;
};
class Transport {
  public:
    virtual ~Transport() = default;
    /// Sends and receives concurrently. Within a single process, messages are memory copies.
    virtual void swap(const std::vector<Message>& out, const std::vector<Message>& in) = 0;
};
/// The tag of messages into the halo of a part.
inline int tag_of(int receiver, int side) {
    return 2 * receiver + side;
}
std::unique_ptr<Transport> make_transport(bool alone);

typedef std::vector<std::unique_ptr<Part>> Parts;
typedef std::vector<Link> Links;

class Exchange {
  public:
    virtual ~Exchange() = default;
    /// Required location of the arrays; empty: any.
    virtual Memory memory() { return {}; }
    /// Registers the parts, which stay in place until the next call. All processes call it.
    virtual void connect(Parts& parts, const Links& links) = 0;
    /// Starts to transfer the halos of array `array` over these links, after the work in the boundary queues.
    virtual void start(const Links& links, int array) = 0;
    /// Makes the boundary queues wait until halos are complete and may be sent again.
    virtual void finish(const Links& links, int array) = 0;
    /// Seconds spent since the last call on copies between a GPU and buffers; they are timed only while
    /// `timed`.
    virtual double packing(bool timed) {
        (void)timed;
        return 0;
    }
    /// Releases the parts, before any process frees them.
    virtual void disconnect() {}
    /// The data path, for the document.
    virtual std::string path() const = 0;
};

/// MPI messages or memory copies, directly from and to the arrays.
std::unique_ptr<Exchange> make_message_exchange(Transport& transport);

}  // namespace stencil
