#include <cstring>

#include "stencil/exchange.h"

namespace stencil {

namespace {

class Copies : public Wires {
  public:
    void swap(const std::vector<Message>& out, const std::vector<Message>& in) override {
        for (const Message& wanted : in) {
            for (const Message& sent : out) {
                if (sent.tag == wanted.tag) std::memcpy(wanted.data, sent.data, wanted.bytes);
            }
        }
    }
};

}  // namespace

#ifdef TENKEN_HAVE_MPI
std::unique_ptr<Wires> make_mpi_wires();  // wires_mpi.cpp
#else
std::unique_ptr<Wires> make_mpi_wires() {
    return nullptr;  // there is one process then
}
#endif

std::unique_ptr<Wires> make_wires(bool alone) {
    return alone ? std::unique_ptr<Wires>(new Copies) : make_mpi_wires();
}

}  // namespace stencil
