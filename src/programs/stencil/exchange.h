// How the planes that a part computes at its ends come into the halos of its neighbours. Each way is one
// small file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "programs/stencil/part.h"

namespace stencil {

/// A local part and one of its neighbours: what goes to it, and what comes from it.
struct Link {
    std::size_t part;  ///< place among the local parts
    int side;          ///< 0: the neighbour below, 1: above
    int neighbour;     ///< its number among all parts
    int process;       ///< where it is
    bool same_process;
    bool same_node;
    Range send;     ///< planes of this part that the neighbour needs
    Range receive;  ///< planes of the neighbour that go into this part's halo
    Range fetched;  ///< the neighbour's planes as they should come: `receive`, unless a test wants it wrong
    long neighbour_first;  ///< the neighbour's first plane
    long destination;      ///< the first plane that it should take from here: that of `send`, unless a test
                           ///< wants it wrong
};

/// Messages between processes in host memory or, where the MPI can, on GPUs.
struct Message {
    void* data;
    std::size_t bytes;
    int process;
    int tag;
};
class Transport {
  public:
    virtual ~Transport() = default;
    /// Sends and receives all at the same time. Alone in the world, messages go from memory to memory.
    virtual void swap(const std::vector<Message>& out, const std::vector<Message>& in) = 0;
};
/// The tag of what comes into the halo of a part.
inline int tag_of(int receiver, int side) {
    return 2 * receiver + side;
}
std::unique_ptr<Transport> make_transport(bool alone);

typedef std::vector<std::unique_ptr<Part>> Parts;
typedef std::vector<Link> Links;

class Exchange {
  public:
    virtual ~Exchange() = default;
    /// Where arrays must lie for it; empty: anywhere.
    virtual Memory memory() { return {}; }
    /// Gets to know the parts, which stay where they are until the next call. All processes call it.
    virtual void connect(Parts& parts, const Links& links) = 0;
    /// Starts to move the halos of array `array` over these links, behind what the boundary queues hold.
    virtual void start(const Links& links, int array) = 0;
    /// Lets the boundary queues wait until halos are in place and may be sent again.
    virtual void finish(const Links& links, int array) = 0;
    /// Seconds spent since the last call on copies between a GPU and buffers; they are timed only while
    /// `timed`.
    virtual double packing(bool timed) {
        (void)timed;
        return 0;
    }
    /// Lets go of the parts, before any process frees them.
    virtual void disconnect() {}
    /// How the bytes go, for the document.
    virtual std::string path() const = 0;
};

/// Messages of MPI or copies in memory, straight from and to the arrays.
std::unique_ptr<Exchange> make_message_exchange(Transport& transport);

}  // namespace stencil
