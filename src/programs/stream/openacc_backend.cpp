// STREAM in OpenACC: on the device chosen by the OpenACC runtime, or on the host if it has none.
#include <openacc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/host.h"
#include "lib/base/host_array.h"
#include "lib/base/openacc_device.h"
#include "lib/base/placement.h"
#include "programs/stream/backend.h"

namespace stream {

namespace {

/// Calls part(begin, end) with all elements for a device. On the host, where gcc runs a region in the single
/// thread that encounters it, every OpenMP thread calls it with its own share; otherwise all cores but one
/// would be idle.
template <typename Part>
void in_parts(std::size_t elements, const Part& part) {
    if (tenken::openacc_is_on_host()) {
        tenken::in_shares(elements, part);
    } else {
        part(std::size_t{0}, elements);
    }
}

class OpenAccBackend : public HostTimedBackend {
  public:
    ~OpenAccBackend() override {
        for (tenken::HostArray& array : arrays_) acc_delete(array.data(), array.bytes());
    }

    Capacity capacity() const override {
        Capacity capacity;
        capacity.free_bytes = tenken::available_memory_bytes();
        capacity.min_default_bytes = std::uint64_t{64} << 20;
        if (tenken::openacc_is_on_host()) {
            capacity.cache_bytes = tenken::describe_host().last_level_cache_bytes;
        } else {
            // The host has a copy of each array. Its clock times the kernels, with each launch: at 1 GiB the
            // median of an H200 was 5.4 % below the best. Far above the size of any cache, which OpenACC does
            // not report.
            capacity.free_bytes = std::min(capacity.free_bytes, tenken::openacc_free_bytes());
            capacity.min_default_bytes = std::min(std::uint64_t{4} << 30, capacity.free_bytes / 6);
        }
        return capacity;
    }

    tenken::Subject subject() const override {
        return tenken::openacc_is_on_host() ? tenken::Subject::host()
                                            : tenken::Subject::gpu(acc_get_device_num(acc_get_device_type()));
    }

    void allocate(std::size_t elements) override {
        for (std::size_t i = 0; i < 3; ++i) arrays_.emplace_back(elements);
        double* a = at(Array::a).data();
        double* b = at(Array::b).data();
        double* c = at(Array::c).data();
#pragma acc enter data create(a[0 : elements], b[0 : elements], c[0 : elements])
        in_parts(elements, [=](std::size_t begin, std::size_t end) {
#pragma acc parallel loop present(a[0 : elements], b[0 : elements], c[0 : elements])
            for (std::size_t i = begin; i < end; ++i) {
                a[i] = 1.0 + static_cast<double>(i % period) / 1024.0;  // start(i), written for the device
                b[i] = 0;
                c[i] = 0;
            }
        });
    }

    const double* read(Array array, std::size_t first, std::size_t count, double*) override {
        double* data = at(array).data();
        (void)count;  // used by OpenACC only
#pragma acc update self(data[first : count])
        return data + first;
    }

    void write(Array array, std::size_t index, double value) override {
        double* data = at(array).data();
        data[index] = value;
#pragma acc update device(data[index : 1])
    }

    void describe(tenken::Document& document) const override {
        for (const tenken::HostArray& array : arrays_) {
            if (!tenken::openacc_is_on_host()) break;
            for (int node : tenken::numa_nodes_of(array.data(), array.bytes())) {
                document.placement.numa_nodes_of_memory.insert(node);
            }
        }
        tenken::describe_openacc(document);
    }

  protected:
    double run(Kernel kernel, double scalar) override {
        double* const a = at(Array::a).data();
        double* const b = at(Array::b).data();
        double* const c = at(Array::c).data();
        const std::size_t n = at(Array::a).size();
        double sum = 0;
        in_parts(n, [&](std::size_t begin, std::size_t end) {
            const double mine = part(kernel, scalar, a, b, c, n, begin, end);
#pragma omp atomic
            sum += mine;
        });
        return sum;
    }

  private:
    /// One kernel over [begin, end) of arrays of n; returns the dot product of that part, 0 for the other
    /// kernels.
    static double part(Kernel kernel, double scalar, double* a, double* b, double* c, std::size_t n,
                       std::size_t begin, std::size_t end) {
        double sum = 0;
        switch (kernel) {
            case Kernel::copy:
#pragma acc parallel loop present(a[0 : n], c[0 : n])
                for (std::size_t i = begin; i < end; ++i) c[i] = a[i];
                break;
            case Kernel::scale:
#pragma acc parallel loop present(b[0 : n], c[0 : n])
                for (std::size_t i = begin; i < end; ++i) b[i] = scalar * c[i];
                break;
            case Kernel::add:
#pragma acc parallel loop present(a[0 : n], b[0 : n], c[0 : n])
                for (std::size_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
                break;
            case Kernel::triad:
#pragma acc parallel loop present(a[0 : n], b[0 : n], c[0 : n])
                for (std::size_t i = begin; i < end; ++i) a[i] = b[i] + scalar * c[i];
                break;
            case Kernel::dot:
#pragma acc parallel loop present(a[0 : n], b[0 : n]) reduction(+ : sum)
                for (std::size_t i = begin; i < end; ++i) sum += a[i] * b[i];
                break;
        }
        return sum;
    }

    tenken::HostArray& at(Array array) { return arrays_[static_cast<std::size_t>(array)]; }

    std::vector<tenken::HostArray> arrays_;
};

}  // namespace

std::unique_ptr<Backend> make_openacc_backend() {
    return std::unique_ptr<Backend>(new OpenAccBackend);
}

}  // namespace stream
