#include "programs/stream/backend.h"

#include <algorithm>

#include "lib/base/clock.h"

namespace stream {

namespace {

/// A back end with a single host or device, which is always available.
class OnePlace : public Family {
  public:
    OnePlace(std::string name, std::unique_ptr<Backend> (*make)()) : name_(std::move(name)), make_(make) {}
    std::string name() const override { return name_; }
    std::vector<std::unique_ptr<Backend>> places(const tenken::Arguments&) override {
        std::vector<std::unique_ptr<Backend>> list;
        list.push_back(make_());
        return list;
    }

  private:
    std::string name_;
    std::unique_ptr<Backend> (*make_)();
};

}  // namespace

tenken::ErrorScan Backend::compare(Array array, std::size_t elements, double factor, double tolerance) {
    tenken::ErrorScan errors(tolerance);
    const std::size_t chunk = std::min<std::size_t>(elements, std::size_t{4} << 20);
    std::vector<double> scratch(chunk);
    for (std::size_t first = 0; first < elements; first += chunk) {
        const std::size_t count = std::min(chunk, elements - first);
        const double* values = read(array, first, count, scratch.data());
        tenken::scan(errors, values, count, first, tolerance,
                     [factor](std::size_t i) { return factor * start(i); });
    }
    return errors;
}

Cycle HostTimedBackend::cycle(double scalar) {
    Cycle result;
    for (std::size_t k = 0; k < kernel_count; ++k) {
        const double begin = tenken::now_seconds();
        result.dot = run(static_cast<Kernel>(k), scalar);  // the last kernel is the dot product
        result.seconds[k] = tenken::now_seconds() - begin;
    }
    return result;
}

std::vector<std::unique_ptr<Family>> families() {
    std::vector<std::unique_ptr<Family>> list;
    list.emplace_back(new OnePlace("host", make_host_backend));
#ifdef TENKEN_HAVE_OPENACC
    list.emplace_back(new OnePlace("openacc", make_openacc_backend));
#endif
#ifdef TENKEN_HAVE_CUDA
    list.push_back(make_cuda_family());
#endif
    return list;
}

}  // namespace stream
