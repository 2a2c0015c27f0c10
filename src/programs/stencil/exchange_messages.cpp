// The arrays themselves are sent and received: planes of a slab are contiguous, nothing is packed. On
// GPUs it needs an MPI that accepts device pointers.
#include "programs/stencil/exchange.h"

namespace stencil {

namespace {

class MessageExchange : public Exchange {
  public:
    explicit MessageExchange(Transport& transport) : transport_(transport) {}

    void connect(Parts& parts, const Links&) override { parts_ = &parts; }
    void start(const Links&, int) override {}

    void finish(const Links& links, int array) override {
        std::vector<Message> out;
        std::vector<Message> in;
        for (const Link& link : links) {
            Part& part = *(*parts_)[link.part];
            part.wait(Queue::boundary);
            const auto bytes = [&](const Range& range) {
                return part.plane_bytes() * static_cast<std::size_t>(range.planes());
            };
            out.push_back({part.plane(array, link.send.begin), bytes(link.send), link.process,
                           tag_of(link.neighbour, 1 - link.side)});
            in.push_back({part.plane(array, link.receive.begin), bytes(link.receive), link.process,
                          tag_of(part.number(), link.side)});
        }
        transport_.swap(out, in);
    }

    std::string path() const override { return "messages from array to array"; }

  private:
    Transport& transport_;
    Parts* parts_ = nullptr;
};

}  // namespace

std::unique_ptr<Exchange> make_message_exchange(Transport& transport) {
    return std::unique_ptr<Exchange>(new MessageExchange(transport));
}

}  // namespace stencil
