// Messages between MPI ranks, from and to host, device and managed memory: latency, bandwidth in one and both
// directions, message rate, and three collectives, over all sizes; and the path of GPU data.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "lib/base/host.h"
#include "lib/base/known_ranks.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/base/rank_devices.h"
#include "lib/base/sweep.h"
#include "lib/mpi/probe.h"
#include "lib/mpi/rank_gpus.h"
#include "lib/mpi/world.h"
#include "programs/mpi_p2p/binding.h"
#include "programs/mpi_p2p/exchange.h"
#include "programs/mpi_p2p/halves.h"

namespace mpi_p2p {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<RankGpus> make_rank_gpus() {
    return nullptr;
}
#endif

namespace {

/// Below this fraction of a peer copy in the same job the data went through the host, whatever the MPI
/// reports.
constexpr double direct_fraction = 0.60;

const std::vector<std::string> test_names = {"latency",   "bandwidth", "bidirectional", "message_rate",
                                             "allreduce", "alltoall",  "bcast"};
const std::vector<std::string> pattern_names = {"bisection", "incast", "victim", "arrival"};
/// How late a rank arrives by --inject-fault rank-late.
constexpr double late_seconds = 5e-3;
/// Warm-up of all exchanges but the first: clocks are high, and connections exist.
constexpr double brief_seconds = 0.01;

/// Memory of the lower half of the ranks, and of the upper half.
struct BufferPair {
    Kind lower;
    Kind upper;

    bool same() const { return lower == upper; }
    /// From the memory of one GPU to another's.
    bool direct() const { return lower == Kind::device && upper == Kind::device; }
    bool needs_gpu() const { return lower != Kind::host || upper != Kind::host; }
    std::string text() const {
        return same() ? text_of(lower) : std::string(text_of(lower)) + "-" + text_of(upper);
    }
};

bool parse_kind(const std::string& word, Kind& kind) {
    for (Kind one : {Kind::host, Kind::device, Kind::managed}) {
        if (word != text_of(one)) continue;
        kind = one;
        return true;
    }
    return false;
}

class MpiP2p : public tenken::Program {
  public:
    explicit MpiP2p(tenken::mpi::World& world) : world_(world), gpu_(make_rank_gpus()) {}

    std::string name() const override { return "mpi_p2p"; }
    std::string purpose() const override {
        return "Messages between MPI ranks: latency, bandwidth, message rate and collectives over all sizes, "
               "from "
               "and to host, device and managed memory.";
    }

    void options(tenken::Arguments& arguments) override {
        arguments.integer("ranks", ranks_, 0, 1 << 20,
                          "required number of ranks (a launcher that does not match the MPI starts single "
                          "processes); 0: any");
        arguments.integer("nodes", nodes_, 0, 1 << 20, "required number of nodes; 0: any");
        arguments.text("tests", tests_text_, "LIST",
                       "exchanges: all, or some of " + tenken::joined(test_names));
        arguments.text(
            "buffers", buffers_text_, "LIST",
            "memory of the messages: host, device or managed, or two of them such as host-device for "
            "the lower and the upper half of the ranks");
        arguments.integer("partner", partner_, -1, 1 << 20,
                          "the rank that rank 0 exchanges messages with; -1: the first of the upper half");
        arguments.bytes("min-bytes", min_bytes_, 1, std::uint64_t{1} << 30, "the smallest message");
        arguments.bytes("max-bytes", max_bytes_, 1, std::uint64_t{1} << 30, "the largest message");
        arguments.bytes("max-collective-bytes", max_collective_bytes_, 8, std::uint64_t{1} << 30,
                        "the largest message of a collective, whole multiples of 8");
        arguments.former_name("least-bytes", "min-bytes");
        arguments.former_name("most-bytes", "max-bytes");
        arguments.former_name("most-collective-bytes", "max-collective-bytes");
        arguments.text(
            "patterns", patterns_text_, "LIST",
            "exchanges of all ranks at once: none, all, or some of " + tenken::joined(pattern_names));
        arguments.bytes("pattern-bytes", pattern_bytes_, 1, std::uint64_t{1} << 30, "messages of these");
        arguments.text(
            "halves", halves_text_, "LIST",
            "halves of the bisection: opposite (across leaf switches), neighbours, or seeds of random "
            "ones");
        arguments.text("leaves", leaves_file_, "FILE",
                       "file of lines with a node and its leaf switch; none: all nodes on one switch");
        arguments.integer("factor", factor_, 2, 1 << 20, "factor between sizes");
        arguments.integer("window", window_, 1, 4096, "messages in flight for bandwidth and message rate");
        arguments.bytes("window-bytes", window_bytes_, 1, std::uint64_t{1} << 36,
                        "maximum bytes in flight; large messages are sent in smaller windows");
        arguments.real(
            "repetition-seconds", repetition_seconds_, "s", 0, 3600,
            "minimum duration of a repetition, for sustained load; 0: as short as the clock allows");
        arguments.real("patience-seconds", patience_seconds_, "s", 1, 3600,
                       "abort after this time without progress");
        arguments.flag("stay", stay_,
                       "run on the CPUs chosen by the launcher, even if they are remote from the rank's GPU");
        if (gpu_) {
            arguments.heading("GPUs");
            gpu_->options(arguments);
        }
    }

    std::vector<tenken::FaultKind> faults() const override {
        std::vector<tenken::FaultKind> kinds = tenken::rank_faults(true);
        kinds.push_back({"rank-late", "the last rank arrives late in each collective", "", "", false});
        return kinds;
    }

    void prepare(const tenken::Arguments& arguments) override {
        world_.set_patience(patience_seconds_);
        parse_lists(arguments);
        const std::string asked = std::to_string(ranks_);
        if (ranks_ > 0 && world_.size() != ranks_) {
            throw std::runtime_error("requested " + asked + " ranks, MPI_Comm_size is " +
                                     std::to_string(world_.size()) +
                                     (world_.size() == 1 ? ": the launcher does not match the MPI" : ""));
        }
        if (nodes_ > 0 && world_.node_count() != nodes_) {
            throw std::runtime_error("requested " + std::to_string(nodes_) + " nodes, the ranks run on " +
                                     std::to_string(world_.node_count()));
        }
        if (world_.size() < 2) {
            throw tenken::Waived(tenken::Waiver::needs_more_ranks,
                                 "MPI_Comm_size is 1; start at least two ranks with the launcher of the MPI");
        }
        if (partner_ >= world_.size() || partner_ == 0) {
            throw arguments.error("partner",
                                  "-1, or 1 to " + std::to_string(world_.size() - 1) + " with these ranks");
        }
        if (partner_ < 0) partner_ = world_.size() / 2;
        max_bytes_ = std::max(max_bytes_, min_bytes_);
        plan_.window = static_cast<int>(window_);
        plan_.window_bytes = window_bytes_;
        plan_.repetition_seconds = repetition_seconds_;
        buffer_bytes_ = plan_.buffer_bytes(max_bytes_);
        if (!patterns_.empty()) {
            const auto messages =
                std::max<std::uint64_t>(static_cast<std::uint64_t>(plan_.messages(pattern_bytes_)),
                                        static_cast<std::uint64_t>(world_.size()));
            buffer_bytes_ = std::max<std::size_t>(buffer_bytes_, stride(pattern_bytes_) * messages);
        }
        if (collectives()) {
            const std::uint64_t blocks = max_collective_bytes_ * static_cast<std::uint64_t>(world_.size());
            buffer_bytes_ = std::max<std::size_t>(buffer_bytes_, blocks);
        }
        // collective: errors that only one rank can find are reported afterwards
        tenken::know_each_other(world_);
        require_memory(arguments);
        if (any_gpu()) prepare_gpu(arguments);
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
        plan_.repetitions = static_cast<long>(run.repetitions);
        plan_.warmup_seconds = run.warmup_seconds;
        fault_ = run.fault == tenken::Fault::element;
        describe_binding();
        for (const BufferPair& pair : pairs_) {
            if (!pair.needs_gpu()) measure_pair(pair);
        }
        std::string why_not;
        if (any_gpu()) {
            why_not = find_support();
            if (why_not.empty()) {
                // a copy of a few MiB scatters too much to be measured without need
                if (std::any_of(pairs_.begin(), pairs_.end(),
                                [](const BufferPair& pair) { return pair.direct(); }))
                    compare_with_peer_copy();
                for (const BufferPair& pair : pairs_) {
                    if (pair.needs_gpu()) measure_pair(pair);
                }
                name_path();
            }
        }
        report();
        if (!why_not.empty()) throw tenken::Waived(tenken::Waiver::no_device_buffer_mpi, why_not);
    }

  private:
    void parse_lists(const tenken::Arguments& arguments) {
        if (tests_text_ != "none") {
            tests_ = tenken::all_or_distinct_words(arguments, "tests", tests_text_, test_names, ", or none");
        }
        if (patterns_text_ != "none") {
            patterns_ = tenken::all_or_distinct_words(arguments, "patterns", patterns_text_, pattern_names,
                                                      ", or none");
        }
        if (wants_pattern("victim") && world_.size() < 4)
            throw arguments.error("patterns", "victim with four or more ranks");
        const auto leaves =
            leaves_file_.empty() ? std::map<std::string, std::string>() : read_leaves(leaves_file_);
        for (const std::string& word : tenken::words_of(halves_text_)) {
            try {
                halves_.push_back(halves_of(word, world_.nodes(), leaves));
            } catch (const std::invalid_argument&) {
                throw arguments.error("halves", "a list of opposite, neighbours and seeds of random halves");
            }
        }
        const std::string allowed =
            "a list of host, device, managed and pairs of them such as host-device, without duplicates";
        for (const std::string& word : tenken::words_of(buffers_text_)) {
            const std::size_t dash = word.find('-');
            BufferPair pair{};
            const bool good =
                parse_kind(word.substr(0, dash), pair.lower) &&
                parse_kind(dash == std::string::npos ? word : word.substr(dash + 1), pair.upper);
            const bool twice = std::any_of(pairs_.begin(), pairs_.end(), [&](const BufferPair& other) {
                return other.lower == pair.lower && other.upper == pair.upper;
            });
            if (!good || twice) throw arguments.error("buffers", allowed);
            if (pair.needs_gpu() && !gpu_) {
                throw arguments.error("buffers",
                                      "host in this build, which has no CUDA (TENKEN_CUDA is OFF)");
            }
            pairs_.push_back(pair);
        }
        if (pairs_.empty()) throw arguments.error("buffers", allowed);
    }

    bool wanted(const std::string& test) const {
        return std::find(tests_.begin(), tests_.end(), test) != tests_.end();
    }
    bool collectives() const { return wanted("allreduce") || wanted("alltoall") || wanted("bcast"); }
    bool wants_pattern(const std::string& name) const {
        return std::find(patterns_.begin(), patterns_.end(), name) != patterns_.end();
    }
    bool any_gpu() const {
        return std::any_of(pairs_.begin(), pairs_.end(),
                           [](const BufferPair& pair) { return pair.needs_gpu(); });
    }
    Kind kind_of(const BufferPair& pair) const {
        return world_.rank() < world_.size() / 2 ? pair.lower : pair.upper;
    }

    void require_memory(const tenken::Arguments& arguments) const {
        const auto ranks = static_cast<std::uint64_t>(world_.local_size());
        const std::uint64_t maximum = tenken::available_memory_bytes() / 2 / ranks;
        if (2 * buffer_bytes_ <= maximum) return;
        throw arguments.error("window-bytes", "what fits with this --max-bytes: requested " +
                                                  tenken::format_bytes(2 * buffer_bytes_) +
                                                  " for two buffers per rank, free " +
                                                  tenken::format_bytes(maximum) + " for each of " +
                                                  std::to_string(ranks) + " ranks");
    }

    void prepare_gpu(const tenken::Arguments& arguments) {
        gpu_->prepare(arguments, world_.local_rank());
        const std::uint64_t left = gpu_->description().memory_free_bytes;
        if (2 * buffer_bytes_ > left / 10 * 9) {
            throw arguments.error("window-bytes", "what fits with this --max-bytes: requested " +
                                                      tenken::format_bytes(2 * buffer_bytes_) +
                                                      " for two buffers, free " + tenken::format_bytes(left) +
                                                      " on gpu" + std::to_string(gpu_->index()));
        }
        gpu_ready_ = true;
        if (!stay_ && gpu_->description().numa_node) bind_to_numa_node(*gpu_->description().numa_node);
    }

    void describe_binding() {
        tenken::Optional<int> gpu;
        tenken::Optional<int> node;
        std::string address;
        if (gpu_ready_) {
            gpu = gpu_->index();
            node = gpu_->description().numa_node;
            address = gpu_->description().pci_bus_id.value_or("");
        }
        const Binding binding = find_binding(gpu, node);
        const std::vector<std::string> lines = world_.gather(binding.text());
        const std::vector<std::string> far = world_.gather(binding.far());
        for (std::size_t rank = 0; rank < lines.size(); ++rank) {
            run_->document.path("rank" + std::to_string(rank), lines[rank]);
            if (!far[rank].empty()) run_->document.path("far.rank" + std::to_string(rank), far[rank]);
        }
        partner_address_ = world_.broadcast(address, static_cast<int>(partner_));
        same_node_ = world_.nodes()[0] == world_.nodes()[static_cast<std::size_t>(partner_)];
        if (gpu_ready_ && same_node_ && world_.broadcast(address) == partner_address_) {
            throw tenken::Waived(tenken::Waiver::needs_two_gpus,
                                 "ranks 0 and " + std::to_string(partner_) + " have the same GPU");
        }
    }

    /// Whether the MPI accepts device pointers, the same in all ranks. @return why not, empty if it does
    std::string find_support() {
        std::string why_not;
        std::string without_collectives;
        world_.alive("testing device pointers in a separate process");
        if (world_.rank() == 0) {
            for (Kind kind : {Kind::device, Kind::managed}) {
                const bool used = std::any_of(pairs_.begin(), pairs_.end(), [&](const BufferPair& pair) {
                    return pair.lower == kind || pair.upper == kind;
                });
                if (!used) continue;
                const Probe messages = probe("messages", text_of(kind));
                if (!messages.works && why_not.empty()) why_not = messages.why_not;
                if (!messages.works || !collectives()) continue;
                const Probe reductions = probe("collectives", text_of(kind));
                if (!reductions.works) without_collectives = reductions.why_not;
            }
            run_->document.path("mpi_says_cuda", cuda_support());
            run_->document.path("device_collectives",
                                without_collectives.empty() ? "yes" : "no: " + without_collectives);
            if (!why_not.empty()) {
                why_not += "; " + tenken::mpi::World::library() + " reports about CUDA: " + cuda_support();
            }
        }
        world_.alive("measuring");
        device_collectives_ = world_.broadcast(without_collectives).empty();
        return world_.broadcast(why_not);
    }

    /// The rate between the two GPUs without MPI, in rank 0, while the others wait.
    void compare_with_peer_copy() {
        world_.alive("peer copy");
        if (world_.rank() == 0 && same_node_ && !partner_address_.empty()) {
            gpu_->report_link(run_->document, partner_address_);
            constexpr long repetitions = 100;
            const std::size_t bytes = std::max<std::size_t>(max_bytes_, 1 << 20);
            const std::vector<double> seconds = gpu_->peer_copy(partner_address_, bytes, repetitions);
            if (!seconds.empty()) {
                tenken::Metric metric;
                metric.name = "peer_copy";
                metric.subject = tenken::Subject::ranks(world_.size());
                metric.timed(seconds, {{"bytes", static_cast<double>(bytes)}});
                metric.clock = "device";
                run_->document.add(metric);
                peer_copy_ = median_rate(metric);
            }
        }
        world_.barrier();
    }

    std::unique_ptr<Buffer> make_buffer(Kind kind) {
        return kind == Kind::host ? make_host_buffer(buffer_bytes_) : gpu_->buffer(kind, buffer_bytes_);
    }

    void measure_pair(const BufferPair& pair) {
        const Kind kind = kind_of(pair);
        const std::unique_ptr<Buffer> send = make_buffer(kind);
        const std::unique_ptr<Buffer> receive = make_buffer(kind);
        Exchange exchange(world_, plan_, *send, *receive,
                          pair.needs_gpu() && gpu_ready_ ? gpu_.get() : nullptr);
        const int partner = static_cast<int>(partner_);
        for (const std::string& test : test_names) {
            if (!wanted(test)) continue;
            const std::string name = test;
            const bool collective = name == "allreduce" || name == "alltoall" || name == "bcast";
            // Without a GPU-aware reduction the MPI would read the buffers by the CPU.
            if (collective && (!pair.same() || (pair.needs_gpu() && !device_collectives_))) continue;
            for (std::uint64_t bytes : sizes(collective)) {
                spoil(exchange);
                if (name != "latency" && world_.rank() == world_.size() - 1) {
                    tenken::end_this_rank(injected_fault());
                }
                const Outcome outcome = name == "latency"         ? exchange.latency(bytes, partner)
                                        : name == "bandwidth"     ? exchange.bandwidth(bytes, partner)
                                        : name == "bidirectional" ? exchange.bidirectional(bytes, partner)
                                        : name == "message_rate"  ? exchange.message_rate(bytes)
                                        : name == "allreduce"     ? exchange.allreduce(bytes)
                                        : name == "alltoall"      ? exchange.alltoall(bytes)
                                                                  : exchange.broadcast(bytes);
                if (world_.rank() == 0) add(name, pair, bytes, outcome);
                plan_.warmup_seconds = std::min(plan_.warmup_seconds, brief_seconds);
            }
        }
        if (pair.same()) measure_patterns(pair, exchange);
        sent_known_ = sent_known_ && exchange.sent_bytes() >= 0;
        sent_bytes_ += exchange.sent_bytes();
        sent_messages_ += exchange.sent_messages();
    }

    void measure_patterns(const BufferPair& pair, Exchange& exchange) {
        using tenken::Json;
        const auto bytes = static_cast<std::size_t>(pattern_bytes_);
        for (const Halves& halves : halves_) {
            if (!wants_pattern("bisection")) break;
            spoil(exchange);
            const int partner = halves.partner[static_cast<std::size_t>(world_.rank())];
            const Outcome outcome = exchange.bisection(bytes, partner);
            const double pairs = static_cast<double>(halves.partner.size() -
                                                     static_cast<std::size_t>(std::count(
                                                         halves.partner.begin(), halves.partner.end(), -1))) /
                                 2;
            add_pattern("bisection", pair, outcome, {{"bytes", Json(bytes)}, {"halves", Json(halves.name)}},
                        2 * pairs * plan_.messages(bytes) * static_cast<double>(bytes));
        }
        if (wants_pattern("incast")) {
            spoil(exchange);
            const Outcome outcome = exchange.incast(bytes);
            add_pattern("incast", pair, outcome, {{"bytes", Json(bytes)}},
                        static_cast<double>(bytes) * exchange.incast_messages(bytes) * (world_.size() - 1));
        }
        for (bool loaded : {false, true}) {
            if (!wants_pattern("victim")) break;
            spoil(exchange);
            Outcome outcome = exchange.victim(bytes, static_cast<int>(partner_), loaded);
            for (double& one : outcome.seconds) one /= 2;
            add_pattern("victim", pair, outcome,
                        {{"bytes", Json(8)}, {"load", Json(loaded ? "incast" : "none")}}, 0);
        }
        if (wants_pattern("arrival")) measure_arrival(pair, exchange);
    }

    void measure_arrival(const BufferPair& pair, Exchange& exchange) {
        spoil(exchange);
        const bool late = injected_fault() == "rank-late" && world_.rank() == world_.size() - 1;
        const Outcome outcome = exchange.arrival(late ? late_seconds : 0);
        // of a node the rank that is the latest in a repetition
        std::map<std::string, std::vector<double>> latest;
        for (std::size_t i = 0; i < outcome.seconds.size(); ++i) {
            std::ostringstream text;
            text.precision(9);
            text << outcome.seconds[i];
            const std::vector<std::string> all = world_.gather(text.str());
            for (std::size_t rank = 0; rank < all.size(); ++rank) {
                std::vector<double>& of = latest[world_.nodes()[rank]];
                of.resize(outcome.seconds.size());
                of[i] = std::max(of[i], std::stod(all[rank]));
            }
        }
        for (const auto& node : latest) {
            Outcome of = outcome;
            of.seconds = node.second;
            add_pattern("arrival", pair, of, {{"bytes", tenken::Json(8)}, {"node", tenken::Json(node.first)}},
                        0, node.first == latest.begin()->first);
        }
    }

    void spoil(Exchange& exchange) {
        if (fault_) exchange.spoil_next();
        fault_ = false;
    }

    /// @param bytes of an operation, for a rate; 0: a time
    void add_pattern(const std::string& name, const BufferPair& pair, const Outcome& outcome, tenken::At at,
                     double bytes, bool with_check = true) {
        if (world_.rank() != 0) return;
        tenken::Metric metric;
        metric.name = name;
        metric.subject = tenken::Subject::ranks(world_.size());
        metric.at = std::move(at);
        metric.at.emplace_back("buffers", tenken::Json(pair.text()));
        metric.timed(outcome.seconds);
        if (bytes > 0) metric.counts = {{"bytes", bytes}};
        run_->document.add(metric);
        if (!with_check) return;
        checks_.push_back(outcome.check);
        for (const auto& one : metric.at) {
            if (one.first == "halves" || one.first == "load" || one.first == "buffers")
                checks_.back().at.push_back(one);
        }
    }

    std::vector<std::uint64_t> sizes(bool collective) const {
        std::vector<std::uint64_t> list;
        const std::uint64_t maximum = collective ? std::min(max_collective_bytes_, max_bytes_) : max_bytes_;
        if (!collective) return tenken::sweep(min_bytes_, maximum, static_cast<std::uint64_t>(factor_));
        for (std::uint64_t bytes = min_bytes_; bytes <= maximum;
             bytes *= static_cast<std::uint64_t>(factor_)) {
            if (bytes % sizeof(double) == 0) list.push_back(bytes);
        }
        return list;
    }

    /// GB/s, of a metric with bytes.
    static double median_rate(const tenken::Metric& metric) {
        return tenken::median(tenken::giga_per_second(metric.counts.front().second, metric.samples));
    }

    void add(const std::string& name, const BufferPair& pair, std::uint64_t bytes, const Outcome& outcome) {
        tenken::Metric metric;
        metric.name = name;
        metric.subject = tenken::Subject::ranks(world_.size());
        metric.at = {{"buffers", tenken::Json(pair.text())}, {"bytes", tenken::Json(bytes)}};
        const double messages = plan_.messages(bytes);
        const bool both = name == "bidirectional";
        if (name == "bandwidth" || both) {
            metric.timed(outcome.seconds,
                         {{"bytes", (both ? 2 : 1) * messages * static_cast<double>(bytes)}});
            if (pair.direct() && same_node_ && !both)
                direct_gbs_ = std::max(direct_gbs_, median_rate(metric));
        } else if (name == "message_rate") {
            metric.timed(outcome.seconds, {{"messages", messages * (world_.size() / 2)}});
        } else {
            metric.timed(outcome.seconds);
        }
        run_->document.add(metric);
        checks_.push_back(outcome.check);
        checks_.back().at.emplace_back("buffers", tenken::Json(pair.text()));
    }

    /// Reports the path of GPU data, by the rate that it reached.
    void name_path() {
        if (world_.rank() != 0) return;
        if (!same_node_) {
            run_->document.path("gpu_path", "between nodes");
        } else if (peer_copy_ > 0 && direct_gbs_ > 0) {
            const bool direct = direct_gbs_ >= direct_fraction * peer_copy_;
            run_->document.path("gpu_path", direct ? "GPUDirect" : "not GPUDirect");
            run_->document.path("of_peer_copy", direct_gbs_ / peer_copy_);
        } else {
            run_->document.path("gpu_path", "not known: no peer copy to compare with");
        }
    }

    void report() {
        tenken::Document& document = run_->document;
        document.build.backends = {"mpi"};
        document.build.mpi = tenken::mpi::World::library();
        document.placement = tenken::find_placement();
        document.placement.ranks = world_.size();
        document.placement.nodes = world_.nodes();
        document.path("nodes", world_.node_count());
        document.path("partner", static_cast<int>(partner_));
        const char* const devices = std::getenv("UCX_NET_DEVICES");
        if (devices != nullptr) document.path("net_devices", devices);
        report_sent();
        for (const tenken::Check& check : checks_) document.add(check);
        if (gpu_ready_) report_gpus();
    }

    /// What each node sent to others, where the program alone determines it: pairs, not collectives.
    void report_sent() {
        if (world_.node_count() < 2 || !sent_known_) return;  // the same in all ranks
        std::ostringstream text;
        text.precision(15);
        text << sent_bytes_ << ' ' << sent_messages_;
        const std::vector<std::string> all = world_.gather(text.str());
        std::map<std::string, std::pair<double, double>> of_node;
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            std::istringstream words(all[rank]);
            double bytes = 0;
            double messages = 0;
            words >> bytes >> messages;
            of_node[world_.nodes()[rank]].first += bytes;
            of_node[world_.nodes()[rank]].second += messages;
        }
        for (const auto& one : of_node) {
            run_->document.path("sent_bytes." + one.first, one.second.first);
            run_->document.path("sent_messages." + one.first, one.second.second);
        }
    }

    void report_gpus() {
        gpu_->describe_build(run_->document.build);
        std::string why_not;
        const tenken::Optional<tenken::DeviceHealth> health = gpu_->health(why_not);
        tenken::report_rank_devices(run_->document, world_, gpu_->description(), health, why_not);
    }

    tenken::mpi::World& world_;
    std::unique_ptr<RankGpus> gpu_;
    bool gpu_ready_ = false;

    std::int64_t ranks_ = 0;
    std::int64_t nodes_ = 0;
    std::string tests_text_ = "all";
    std::string buffers_text_ = "host";
    std::int64_t partner_ = -1;
    std::string patterns_text_ = "none";
    std::uint64_t pattern_bytes_ = std::uint64_t{1} << 20;
    std::string halves_text_ = "opposite,neighbours,1,2";
    std::string leaves_file_;
    double repetition_seconds_ = 0;
    std::uint64_t min_bytes_ = 1;
    std::uint64_t max_bytes_ = std::uint64_t{4} << 20;
    std::uint64_t max_collective_bytes_ = std::uint64_t{1} << 20;
    std::int64_t factor_ = 4;
    std::int64_t window_ = 64;
    std::uint64_t window_bytes_ = std::uint64_t{64} << 20;
    double patience_seconds_ = 120;
    bool stay_ = false;

    std::vector<std::string> tests_;
    std::vector<std::string> patterns_;
    std::vector<Halves> halves_;
    bool sent_known_ = true;
    double sent_bytes_ = 0;
    double sent_messages_ = 0;
    std::vector<BufferPair> pairs_;
    Plan plan_;
    std::size_t buffer_bytes_ = 0;
    tenken::Run* run_ = nullptr;
    bool fault_ = false;
    bool same_node_ = true;
    bool device_collectives_ = true;
    std::string partner_address_;
    double peer_copy_ = 0;
    double direct_gbs_ = 0;
    std::vector<tenken::Check> checks_;
};

}  // namespace

}  // namespace mpi_p2p

int main(int argc, char** argv) {
    int code = 0;
    if (mpi_p2p::is_probe(argc, argv, code)) return code;
    tenken::mpi::World world("mpi_p2p");
    mpi_p2p::MpiP2p program(world);
    return tenken::run_program(program, argc, argv, world);
}
