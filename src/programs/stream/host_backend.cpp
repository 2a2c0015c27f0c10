// STREAM on the host: OpenMP, first touch by the thread that uses an element, streaming stores.
#include <cstddef>

#include "lib/base/host.h"
#include "lib/base/host_array.h"
#include "lib/base/host_dot.h"
#include "lib/base/placement.h"
#include "lib/base/streaming_store.h"
#include "programs/stream/backend.h"

namespace stream {

namespace {

// The kernels by element: the value at i, for a T that is one double or a pack of adjacent ones.
template <typename T>
inline T load(const double* from) {
    return *reinterpret_cast<const T*>(from);
}

struct Copy {
    const double* a;
    template <typename T>
    T at(std::size_t i) const {
        return load<T>(a + i);
    }
};

struct Scale {
    const double* c;
    double scalar;
    template <typename T>
    T at(std::size_t i) const {
        return scalar * load<T>(c + i);
    }
};

struct Add {
    const double* a;
    const double* b;
    template <typename T>
    T at(std::size_t i) const {
        return load<T>(a + i) + load<T>(b + i);
    }
};

struct Triad {
    const double* b;
    const double* c;
    double scalar;
    template <typename T>
    T at(std::size_t i) const {
        return load<T>(b + i) + scalar * load<T>(c + i);
    }
};

/// out[i] = values.at(i) for all elements, each thread in its share.
template <typename Values>
void sweep(tenken::HostArray& array, const Values& values) {
    double* const out = array.data();
    tenken::in_shares(array.size(), [&](std::size_t begin, std::size_t end) {
        std::size_t i = begin;  // a share begins at a page, so packs are aligned
        for (; i + tenken::pack_elements <= end; i += tenken::pack_elements) {
            tenken::store_streaming(out + i, values.template at<tenken::Pack>(i));
        }
        for (; i < end; ++i) out[i] = values.template at<double>(i);
        tenken::finish_streaming();
    });
}

class HostBackend : public HostTimedBackend {
  public:
    Capacity capacity() const override {
        Capacity capacity;
        capacity.cache_bytes = tenken::describe_host().last_level_cache_bytes;
        capacity.min_default_bytes = std::uint64_t{64} << 20;
        capacity.free_bytes = tenken::available_memory_bytes();
        return capacity;
    }

    tenken::Subject subject() const override { return tenken::Subject::host(); }

    void allocate(std::size_t elements) override {
        arrays_.clear();
        for (std::size_t i = 0; i < 3; ++i) arrays_.emplace_back(elements);
        tenken::in_shares(elements, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) {
                at(Array::a)[i] = start(i);
                at(Array::b)[i] = 0;
                at(Array::c)[i] = 0;
            }
        });
    }

    const double* read(Array array, std::size_t first, std::size_t, double*) override {
        return at(array).data() + first;
    }

    void write(Array array, std::size_t index, double value) override { at(array)[index] = value; }

    void describe(tenken::Document& document) const override {
        for (const tenken::HostArray& array : arrays_) {
            for (int node : tenken::numa_nodes_of(array.data(), array.bytes())) {
                document.placement.numa_nodes_of_memory.insert(node);
            }
        }
        document.path("stores", TENKEN_HAS_STREAMING_STORES ? "streaming" : "as the compiler chose");
    }

  protected:
    double run(Kernel kernel, double scalar) override {
        tenken::HostArray& a = at(Array::a);
        tenken::HostArray& b = at(Array::b);
        tenken::HostArray& c = at(Array::c);
        switch (kernel) {
            case Kernel::copy:
                sweep(c, Copy{a.data()});
                return 0;
            case Kernel::scale:
                sweep(b, Scale{c.data(), scalar});
                return 0;
            case Kernel::add:
                sweep(c, Add{a.data(), b.data()});
                return 0;
            case Kernel::triad:
                sweep(a, Triad{b.data(), c.data(), scalar});
                return 0;
            case Kernel::dot:
                break;
        }
        return tenken::dot_on_host(a, b);
    }

  private:
    tenken::HostArray& at(Array array) { return arrays_[static_cast<std::size_t>(array)]; }

    std::vector<tenken::HostArray> arrays_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() {
    return std::unique_ptr<Backend>(new HostBackend);
}

}  // namespace stream
