// Every link between the GPUs of a node: by copy engine and by kernels, unidirectional, bidirectional and
// many at the same time, direct and through host memory, from a few bytes to a GiB.
#include <algorithm>
#include <functional>

#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/sweep.h"
#include "lib/cuda/check.h"
#include "programs/p2p/transfers.h"

namespace p2p {

namespace {

/// Warm-up of all transfers but the first: clocks are high, and only new memory needs one.
constexpr double brief_seconds = 0.03;

const std::vector<std::string> transfer_names = {"driver_staged", "host_staged", "peer",      "memcpy_peer",
                                                 "read",          "write",       "both_ways", "all_to_one",
                                                 "one_to_all",    "latency"};

struct Pair {
    int from;
    int to;
};

std::string text_of(const Pair& pair) {
    return tenken::Subject::pair(pair.from, pair.to).text();
}

class P2p : public tenken::Program {
  public:
    std::string name() const override { return "p2p"; }
    std::string purpose() const override {
        return "Copies between the GPUs of a node: all ordered pairs, direct and through the host, bandwidth "
               "in GB/s (10^9 bytes, each byte counted once) and the time of a small copy.";
    }

    void options(tenken::Arguments& arguments) override {
        gpus_.options(arguments, false);
        arguments.text("transfers", asked_, "LIST",
                       "which: all, or some of " + tenken::joined(transfer_names));
        arguments.bytes("bytes", bytes_, 1 << 20, std::uint64_t{1} << 40,
                        "bytes of one copy, rounded down to whole pages of 4096");
        arguments.bytes("staged-bytes", staged_bytes_, 1 << 16, std::uint64_t{1} << 40,
                        "maximum bytes of a copy through host memory");
        arguments.bytes("chunk-bytes", chunk_bytes_, 4096, std::uint64_t{1} << 30,
                        "chunk of host_staged, which goes through one page-locked buffer");
        arguments.integer("chunk-buffers", chunk_buffers_, 2, 64, "page-locked buffers of host_staged");
        arguments.bytes("latency-bytes", latency_bytes_, 1, 1 << 16, "bytes of one copy of latency");
        arguments.integer("latency-copies", latency_copies_, 1, 200,
                          "consecutive copies in one repetition of latency, which reports the time of one");
        arguments.choice("sweep", sweep_, {"none", "first", "all"},
                         "also measure copies of all sizes: for no pair, the first two GPUs, or all pairs");
        arguments.bytes("sweep-from-bytes", sweep_from_, 4, 1 << 20, "the smallest size of the sweep");
        arguments.integer("sweep-factor", sweep_factor_, 2, 1024, "factor between sizes of the sweep");
    }

    void prepare(const tenken::Arguments& arguments) override {
        wanted_ = tenken::all_or_distinct_words(arguments, "transfers", asked_, transfer_names);
        bytes_ &= ~std::uint64_t{4095};
        gpus_.prepare(arguments);
        if (gpus_.size() < 2) {
            throw tenken::Waived(tenken::Waiver::needs_two_gpus,
                                 std::to_string(gpus_.size()) + " GPU is selected or available");
        }
        for (const auto& gpu : gpus_.list()) {
            const std::uint64_t left = gpu->description().memory_free_bytes;
            const std::uint64_t maximum = left / 10 * 9 / 2;
            if (bytes_ <= maximum) continue;
            throw arguments.error("bytes", "at most " + tenken::format_bytes(maximum) + ": requested " +
                                               tenken::format_bytes(2 * bytes_) + " for two arrays, free " +
                                               tenken::format_bytes(left) + " on gpu" +
                                               std::to_string(gpu->index()));
        }
        const std::uint64_t pinned = chunk_bytes_ * static_cast<std::uint64_t>(chunk_buffers_);
        const std::uint64_t host = tenken::available_memory_bytes();
        if (wanted("host_staged") && pinned > host / 2) {
            throw arguments.error(
                "chunk-bytes",
                "at most " + tenken::format_bytes(host / 2 / static_cast<std::uint64_t>(chunk_buffers_)) +
                    " with this many buffers: requested " + tenken::format_bytes(pinned) + ", free " +
                    tenken::format_bytes(host));
        }
        staged_bytes_ = std::min(staged_bytes_, bytes_);
        find_pairs();
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
        warmup_seconds_ = run.warmup_seconds;
        fault_ = run.fault;
        arena_.reset(new Arena(gpus_, bytes_));
        describe_links();
        for (const Pair& pair : pairs_) through_the_host(pair);
        {
            const std::vector<std::unique_ptr<tenken::cuda::PeerAccess>> access = enable_all();
            for (const Pair& pair : pairs_) {
                if (accessible(pair)) straight(pair);
            }
            if (linked_.size() == pairs_.size()) many_at_once();
        }
        tenken::Document& document = run.document;
        document.build.backends = {"cuda"};
        document.placement = tenken::find_placement();
        gpus_.report(document);
        for (const tenken::Check& check : checks_) document.add(check);
        if (linked_.empty()) {
            throw tenken::Waived(tenken::Waiver::no_peer_access,
                                 "cudaDeviceCanAccessPeer is 0 for " + text_of(pairs_.front()) +
                                     (pairs_.size() > 2 ? " and all other pairs" : ""));
        }
    }

  private:
    bool wanted(const std::string& name) const {
        return std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end();
    }

    void find_pairs() {
        for (const auto& from : gpus_.list()) {
            for (const auto& to : gpus_.list()) {
                if (from->index() == to->index()) continue;
                pairs_.push_back({from->index(), to->index()});
                // Both must have access: the pair works in both directions.
                if (tenken::cuda::can_access_peer(from->index(), to->index()) &&
                    tenken::cuda::can_access_peer(to->index(), from->index())) {
                    linked_.push_back(pairs_.back());
                }
            }
        }
    }

    bool accessible(const Pair& pair) const {
        return std::any_of(linked_.begin(), linked_.end(),
                           [&](const Pair& one) { return one.from == pair.from && one.to == pair.to; });
    }

    bool swept(const Pair& pair) const {
        const Pair& first = pairs_.front();
        return sweep_ == "all" || (sweep_ == "first" && pair.from == first.from && pair.to == first.to);
    }

    void describe_links() {
        for (const Pair& pair : pairs_) {
            const tenken::PairLink link =
                tenken::pair_link(arena_->linked(pair.from), arena_->linked(pair.to));
            run_->document.path("link." + text_of(pair), link.text());
            tenken::report_link(run_->document, pair.from, pair.to, link);
            run_->document.path("peer_access." + text_of(pair), accessible(pair));
        }
        for (const auto& gpu : gpus_.list()) {
            const std::string inactive = arena_->linked(gpu->index()).inactive();
            if (!inactive.empty()) {
                run_->document.path("inactive_links.gpu" + std::to_string(gpu->index()), inactive);
            }
        }
    }

    std::vector<std::unique_ptr<tenken::cuda::PeerAccess>> enable_all() const {
        std::vector<std::unique_ptr<tenken::cuda::PeerAccess>> access;
        for (const Pair& pair : linked_) {
            if (pair.from < pair.to) access.emplace_back(new tenken::cuda::PeerAccess(pair.from, pair.to));
        }
        return access;
    }

    /// Peer access is off: the driver stages cudaMemcpyPeer.
    void through_the_host(const Pair& pair) {
        const auto by_driver = [&](std::size_t bytes) {
            Transfer transfer = engine_copy(*arena_, "driver_staged", pair.from, pair.to, bytes);
            const auto enqueue = transfer.launch;
            transfer.waits = true;
            transfer.launch = [enqueue](const tenken::cuda::Stream& stream) {
                enqueue(stream);
                stream.synchronize();
            };
            return transfer;
        };
        const auto by_us = [&](std::size_t bytes) {
            return host_staged(*arena_, pair.from, pair.to, bytes, chunk_bytes_,
                               static_cast<int>(chunk_buffers_));
        };
        measure_transfer("driver_staged", pair, staged_bytes_, by_driver);
        measure_transfer("host_staged", pair, staged_bytes_, by_us);
    }

    void straight(const Pair& pair) {
        const int from = pair.from;
        const int to = pair.to;
        measure_transfer("peer", pair, bytes_,
                         [&](std::size_t bytes) { return engine_copy(*arena_, "peer", from, to, bytes); });
        if (wanted("memcpy_peer")) bandwidth(plain_copy(*arena_, from, to, bytes_));
        if (wanted("read")) {
            const tenken::cuda::Launch launch = choose_launch(*arena_, to, from, to, bytes_);
            measure_transfer("read", pair, bytes_,
                             [&](std::size_t bytes) { return read(*arena_, from, to, bytes, launch); });
        }
        if (wanted("write")) {
            const tenken::cuda::Launch launch = choose_launch(*arena_, from, from, to, bytes_);
            measure_transfer("write", pair, bytes_,
                             [&](std::size_t bytes) { return write(*arena_, from, to, bytes, launch); });
        }
        if (wanted("both_ways") && from < to) bandwidth(both_ways(*arena_, from, to, bytes_));
        if (wanted("latency")) {
            const Transfer transfer =
                small_copies(*arena_, from, to, latency_bytes_, static_cast<long>(latency_copies_));
            tenken::Metric metric = of(transfer.name, transfer);
            metric.timed(done(transfer).seconds);
            run_->document.add(metric);
        }
    }

    void many_at_once() {
        for (const auto& gpu : gpus_.list()) {
            std::vector<int> others;
            for (const auto& other : gpus_.list()) {
                if (other->index() != gpu->index()) others.push_back(other->index());
            }
            if (wanted("all_to_one")) bandwidth(all_to_one(*arena_, others, gpu->index(), bytes_));
            if (wanted("one_to_all")) bandwidth(one_to_all(*arena_, gpu->index(), others, bytes_));
        }
    }

    /// The whole size, and all sizes of the sweep.
    void measure_transfer(const std::string& name, const Pair& pair, std::size_t maximum,
                          const std::function<Transfer(std::size_t)>& make) {
        if (!wanted(name)) return;
        bandwidth(make(maximum));
        if (!swept(pair) || sweep_from_ > maximum) return;
        const bool by_kernel = name == "read" || name == "write";
        for (const std::size_t bytes :
             tenken::sweep(sweep_from_, maximum, static_cast<std::uint64_t>(sweep_factor_))) {
            if (by_kernel && bytes % sizeof(double) != 0) continue;  // they move whole doubles
            const Transfer transfer = make(bytes);
            tenken::Metric metric = of(name + "_by_size", transfer);
            metric.at = {{"bytes", tenken::Json(bytes)}};
            metric.timed(done(transfer).seconds, {{"bytes", transfer.bytes()}});
            run_->document.add(metric);
        }
    }

    Measured done(const Transfer& transfer) {
        Measured measured =
            p2p::measure(*arena_, transfer, static_cast<long>(run_->repetitions), warmup_seconds_, fault_);
        warmup_seconds_ = std::min(warmup_seconds_, brief_seconds);
        fault_ = tenken::Fault::none;
        checks_.insert(checks_.end(), measured.checks.begin(), measured.checks.end());
        return measured;
    }

    static tenken::Metric of(const std::string& name, const Transfer& transfer) {
        tenken::Metric metric;
        metric.name = name;
        metric.subject = transfer.subject;
        metric.clock = transfer.waits ? "host" : "device";
        return metric;
    }

    void bandwidth(const Transfer& transfer) {
        const Measured measured = done(transfer);
        tenken::Metric metric = of(transfer.name, transfer);
        metric.timed(measured.seconds, {{"bytes", transfer.bytes()}});
        run_->document.add(metric);
        const std::string key = transfer.name + "." + transfer.subject.text();
        if (!transfer.note.empty()) run_->document.path("launch." + key, transfer.note);
        if (measured.host_seconds.empty()) return;
        run_->document.path("host_clock_gbs." + key,
                            tenken::median(tenken::giga_per_second(transfer.bytes(), measured.host_seconds)));
    }

    tenken::cuda::Gpus gpus_;
    std::string asked_ = "all";
    std::uint64_t bytes_ = std::uint64_t{1} << 30;
    std::uint64_t staged_bytes_ = std::uint64_t{256} << 20;
    std::uint64_t chunk_bytes_ = std::uint64_t{8} << 20;
    std::int64_t chunk_buffers_ = 4;
    std::uint64_t latency_bytes_ = 16;
    std::int64_t latency_copies_ = 32;
    std::string sweep_ = "first";
    std::uint64_t sweep_from_ = 4;
    std::int64_t sweep_factor_ = 4;

    std::vector<std::string> wanted_;
    std::vector<Pair> pairs_;
    std::vector<Pair> linked_;  ///< those with peer access
    std::unique_ptr<Arena> arena_;
    std::vector<tenken::Check> checks_;
    tenken::Run* run_ = nullptr;
    double warmup_seconds_ = 0;
    tenken::Fault fault_ = tenken::Fault::none;
};

}  // namespace

}  // namespace p2p

int main(int argc, char** argv) {
    p2p::P2p program;
    return tenken::run_program(program, argc, argv);
}
