// The phases on the host: the same data and checks as on GPUs, with products by plain loops.
#include "lib/base/host.h"

#include <algorithm>
#include <cstring>

#include "lib/base/host_array.h"
#include "programs/burn/burner.h"

namespace burn {

namespace {

/// Sums of products of the type in which they are formed, exact for the operands of this program.
template <typename Number>
void multiply(const std::vector<Number>& a, const std::vector<Number>& b, std::size_t m, std::size_t n,
              std::size_t k, Number* c) {
#pragma omp parallel for schedule(static)
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t i = 0; i < m; ++i) {
            const Number* const row = a.data() + i * k;
            const Number* const column = b.data() + j * k;
            Number sum = 0;
#pragma omp simd reduction(+ : sum)
            for (std::size_t l = 0; l < k; ++l) sum += row[l] * column[l];
            c[j * m + i] = sum;
        }
    }
}

double number_of(std::uint64_t bits, Operand kind) {
    switch (kind) {
        case Operand::fp64:
            return double_of(bits);
        case Operand::tf32:
            return static_cast<double>(float_of(static_cast<std::uint32_t>(bits)));
        case Operand::fp16:
            return tenken::decoded(static_cast<unsigned>(bits), tenken::formats::fp16(), 5);
        case Operand::bf16:
            return tenken::decoded(static_cast<unsigned>(bits), tenken::formats::bf16(), 8);
        case Operand::e4m3:
            return tenken::decoded(static_cast<unsigned>(bits), tenken::formats::e4m3(), 4);
        case Operand::int8:
            return static_cast<std::int8_t>(bits);
    }
    return 0;
}

class HostExec {
  public:
    static constexpr std::size_t workspace_bytes = 4096;
    static constexpr std::size_t study_units = 512;

    HostExec(std::uint64_t bytes, std::uint32_t order)
        : order_(order),
          memory_(bytes / sizeof(double)),
          copy_bytes_(std::min<std::size_t>(bytes / 4, 64 << 20) / 4096 * 4096) {
        for (auto& buffer : buffers_) buffer.reset(new tenken::HostArray(copy_bytes_ / sizeof(double)));
    }

    void use() {}
    tenken::Subject subject() const { return tenken::Subject::host(); }
    std::string why_not(const Phase& phase) const {
        return phase.kind == Kind::peer || phase.kind == Kind::all_reduce ? "it is between GPUs" : "";
    }
    double memory_share() const {
        return static_cast<double>(pool_bytes()) /
               static_cast<double>(tenken::available_memory_bytes() + pool_bytes());
    }
    tenken::Meter* energy() { return meter_.there() ? &meter_ : nullptr; }
    std::string serial() const { return tenken::describe_host().name; }
    std::string kind() const { return "host"; }
    tenken::Json index() const { return {}; }
    void begin() {}
    void end() {}
    Sensors sensors() { return {}; }
    void hang() {
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    }

    void* pool() { return memory_.data(); }
    std::size_t pool_bytes() const { return memory_.size() * sizeof(double); }
    Shape shape(const Phase&) const { return {order_, order_, order_}; }
    /// Words and matrix of a chain take a quarter of the memory.
    std::uint32_t chain_bits() const {
        std::uint32_t bits = 12;
        while ((std::size_t{112} << (bits + 1)) < pool_bytes() / 4) ++bits;
        return bits;
    }

    template <typename Body>
    void each(std::size_t count, const Body& body) {
        // starting the threads takes longer than little work
#pragma omp parallel for schedule(static) if (count > 4096)
        for (std::size_t i = 0; i < count; ++i) body(i);
    }
    template <typename Body>
    void each_on_host(std::size_t count, const Body& body) {
        each(count, body);
    }
    void synchronize() {}
    void mark() {}
    void clear(void* at, std::size_t bytes) { std::memset(at, 0, bytes); }
    void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
    void read(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
    void write(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

    void begin_product(const Phase& phase, const Shape& shape, const void*, const void*, void*, void*) {
        format_ = phase.format;
        shape_ = shape;
    }
    void product(const void* a, const void* b, void* c, void*) {
        switch (format_->operand) {
            case Operand::fp64:
                product_as<double>(a, b, c);
                return;
            case Operand::int8:
                product_as<std::int32_t>(a, b, c);
                return;
            default:
                product_as<float>(a, b, c);
        }
    }
    bool real_faults(const Phase&, Fault, Units&) const { return false; }
    void product_with(Fault, std::uint64_t, const void*, const void*, const Product&, std::uint8_t*) {}
    std::string on_every_multiprocessor(const Phase&, const void*, const void*, const Product&, std::uint32_t,
                                        std::uint32_t) {
        return "";
    }

    std::size_t copy_bytes() const { return copy_bytes_; }
    void* host_buffer(std::uint32_t which) { return buffers_[which]->data(); }
    void to_host(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
    void to_device(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
    std::uint32_t rank() const { return 0; }
    std::uint32_t ranks() const { return 1; }
    void pull(void*, std::size_t) {}
    void all_reduce(const double*, double*, std::size_t) {}

  private:
    template <typename Number>
    std::vector<Number> unpacked(const void* stored, std::size_t count) const {
        std::vector<Number> numbers(count);
        each_number(count, [&](std::size_t i) {
            numbers[i] =
                static_cast<Number>(number_of(load(stored, bytes_of(format_->operand), i), format_->operand));
        });
        return numbers;
    }
    template <typename Body>
    static void each_number(std::size_t count, const Body& body) {
#pragma omp parallel for schedule(static)
        for (std::size_t i = 0; i < count; ++i) body(i);
    }
    template <typename Number>
    void product_as(const void* a, const void* b, void* c) const {
        multiply(unpacked<Number>(a, static_cast<std::size_t>(shape_.m) * shape_.k),
                 unpacked<Number>(b, static_cast<std::size_t>(shape_.n) * shape_.k), shape_.m, shape_.n,
                 shape_.k, static_cast<Number*>(c));
    }

    std::uint32_t order_;
    tenken::HostArray memory_;
    std::size_t copy_bytes_;
    std::unique_ptr<tenken::HostArray> buffers_[2];
    const Format* format_ = nullptr;
    tenken::HostEnergyMeter meter_;
    Shape shape_ = {0, 0, 0};
};

class HostFamily : public Family {
  public:
    std::string name() const override { return "host"; }
    std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments, double,
                                               std::uint64_t host_bytes, std::uint32_t host_order,
                                               std::uint64_t seed) override {
        if (host_bytes > tenken::available_memory_bytes() / 10 * 9)
            throw arguments.error("host-bytes", "at most nine tenths of the available memory, " +
                                                    tenken::format_bytes(tenken::available_memory_bytes()));
        std::vector<std::unique_ptr<Place>> list;
        list.emplace_back(
            new Burner<HostExec>(std::unique_ptr<HostExec>(new HostExec(host_bytes, host_order)), seed));
        return list;
    }
};

}  // namespace

std::unique_ptr<Family> make_host_family() {
    return std::unique_ptr<Family>(new HostFamily);
}

}  // namespace burn
