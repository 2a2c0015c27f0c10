// Options of the program stencil, checked for consistency and against the machine before anything is
// allocated.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "lib/base/host.h"
#include "lib/base/sweep.h"
#include "programs/stencil/stencil.h"
#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
#include "lib/mpi/probe.h"
#endif

namespace stencil {

namespace {

const std::vector<std::string> exchange_names = {"none", "host", "p2p", "mpi", "nccl", "nvshmem", "managed"};

}  // namespace

std::string Stencil::purpose() const {
    return "A stencil of 27 or 7 points on a grid cut into slabs, over GPUs or ranks: Gcell/s (10^9 "
           "cells x steps per second) with every method of halo exchange, compared with one GPU alone; a "
           "repetition is a block of --bt steps.";
}

void Stencil::options(tenken::Arguments& arguments) {
    arguments.choice("backend", backend_, tenken::backends(gpu_ != nullptr),
                     "host: OpenMP; cuda: a slab on every GPU");
    arguments.text("exchange", exchanges_text_, "LIST",
                   "methods of halo exchange, one after the other: some of " +
                       tenken::joined(exchange_names) +
                       "; host: through host memory, p2p: from GPU to GPU, mpi: messages directly from and "
                       "to the arrays, none: only one GPU alone is measured");
    arguments.integer(
        "points", points_, 7, 27,
        "neighbours of a cell and itself; 7: across its faces; 27: also across edges and corners");
    arguments.choice("precision", precision_, {"double", "single"}, "of the cells");
    arguments.integer("nx", nx_, 8, 1 << 20, "cells in x");
    arguments.integer("ny", ny_, 8, 1 << 20, "cells in y");
    arguments.integer("nz", nz_, 3, 1 << 30,
                      "cells in z: of each slab, or of the whole grid with --scaling strong");
    arguments.choice("scaling", scaling_, {"weak", "strong"},
                     "whether --nz is the size of each slab or of the whole grid");
    arguments.integer("bt", bt_, 1, 64, "steps between two exchanges, which is the number of halo planes");
    arguments.integer("steps", steps_, 1, 1 << 20, "steps of the run whose total time is reported");
    arguments.real("energy-seconds", energy_seconds_, "s", 0, 600,
                   "minimum duration of the energy pass, at least 2; 0: none");
    arguments.integer("temporal-block", temporal_block_, 0, 8,
                      "steps that a kernel computes per pass over the grid; 0: the fastest available");
    arguments.former_name("steps-a-pass", "temporal-block");
    arguments.integer("phase-blocks", phase_blocks_, 1, 10000,
                      "blocks measured without overlap, phase by phase");
    arguments.integer("parts", parts_, 1, 1024, "slabs of each process of the back end host");
    arguments.integer(
        "ranks", asked_ranks_, 0, 1 << 20,
        "required number of ranks (a launcher that does not match the MPI starts single processes); 0: any");
    arguments.integer("nodes", asked_nodes_, 0, 1 << 20, "required number of nodes; 0: any");
    arguments.real("patience-seconds", patience_seconds_, "s", 1, 3600,
                   "abort after this time without progress");
    if (gpu_) {
        arguments.heading("GPUs");
        gpu_->options(arguments);
    }
}

std::vector<tenken::FaultKind> Stencil::faults() const {
    std::vector<tenken::FaultKind> kinds = tenken::rank_faults(true);
    kinds.push_back({"halo-stale", "a halo plane is not renewed", "spoil", "stale"});
    kinds.push_back({"halo-short", "halos are one plane short", "spoil", "short"});
    kinds.push_back({"halo-swapped", "halos hold the planes of the wrong end", "spoil", "swapped"});
    kinds.push_back({"cell-nan", "one cell is not a number", "spoil", "nan"});
    return kinds;
}

void Stencil::prepare(const tenken::Arguments& arguments) {
    ranks_.set_patience(patience_seconds_);
    plan_.fault = injected_fault();
    if (asked_ranks_ > 0 && ranks_.size() != asked_ranks_) {
        throw std::runtime_error("requested " + std::to_string(asked_ranks_) + " ranks, started " +
                                 std::to_string(ranks_.size()) +
                                 (ranks_.size() == 1 ? ": the launcher does not match the MPI" : ""));
    }
    const std::vector<std::string> nodes = ranks_.nodes();
    const std::size_t count =
        std::max<std::size_t>(1, std::set<std::string>(nodes.begin(), nodes.end()).size());
    if (asked_nodes_ > 0 && count != static_cast<std::size_t>(asked_nodes_)) {
        throw std::runtime_error("requested " + std::to_string(asked_nodes_) + " nodes, the ranks run on " +
                                 std::to_string(count));
    }
    if (points_ != 7 && points_ != 27) throw arguments.error("points", "7 or 27");
    parse_exchanges(arguments);
    problem_.points = static_cast<int>(points_);
    problem_.element_bytes = precision_ == "double" ? sizeof(double) : sizeof(float);
    if (on_host()) {
        local_parts_ = static_cast<int>(parts_);
        if (local_parts_ > 1 && ranks_.size() > 1) throw arguments.error("parts", "1 with several ranks");
    } else {
        gpu_->prepare(arguments, ranks_);
        local_parts_ = static_cast<int>(gpu_->descriptions().size());
    }
    plan_.parts = local_parts_ * ranks_.size();
    plan_.bt = static_cast<int>(bt_);
    plan_.grid = {static_cast<int>(nx_), static_cast<int>(ny_), scaling_ == "weak" ? nz_ * plan_.parts : nz_};
    if (exchanging() && plan_.parts > 1 && plan_.thinnest() < bt_) {
        throw arguments.error("bt", "at most " + std::to_string(plan_.thinnest()) +
                                        ", the planes of the thinnest of " + std::to_string(plan_.parts) +
                                        " slabs");
    }
    if (plan_.thinnest() < 3) {
        throw arguments.error("nz",
                              "at least 3 planes per slab, " + std::to_string(3 * plan_.parts) + " in all");
    }
    const int maximum = on_host() ? 1 : gpu_->max_temporal_block(problem_);
    if (temporal_block_ > maximum) {
        throw arguments.error("temporal-block",
                              "0 to " + std::to_string(maximum) + " with these points and this back end");
    }
    require_memory(arguments);
    for (const std::string& name : exchanges_) require_exchange(name);
}

void Stencil::parse_exchanges(const tenken::Arguments& arguments) {
    if (exchanges_text_.empty()) exchanges_text_ = "host";
    exchanges_ = tenken::distinct_words(arguments, "exchange", exchanges_text_, exchange_names);
    for (const std::string& name : exchanges_) {
        if (on_host() && name != "host" && name != "mpi" && name != "none")
            throw arguments.error("exchange", "host, mpi or none with --backend host");
    }
    if (exchanges_.size() > 1 && std::count(exchanges_.begin(), exchanges_.end(), "none")) {
        throw arguments.error("exchange",
                              "none by itself, or distinct values of " + tenken::joined(exchange_names));
    }
}

void Stencil::require_exchange(const std::string& name) {
    if (on_host() || name == "none") return;
    if (plan_.parts < 2) {
        throw tenken::Waived(tenken::Waiver::needs_two_gpus,
                             "only 1 GPU is selected or available, nothing is exchanged");
    }
    const bool one_process = ranks_.size() == 1;
    if ((name == "mpi" || name == "nvshmem") && one_process) {
        throw tenken::Waived(tenken::Waiver::needs_more_ranks,
                             name + " requires a rank per GPU; there is one");
    }
    if (name == "managed" && !one_process) {
        throw std::runtime_error(
            "managed memory is shared by the GPUs of one process: start it without ranks");
    }
#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
    if (name == "mpi" && ranks_.rank() == 0) {
        const mpi_p2p::Probe probe = mpi_p2p::probe("messages", "device");
        if (!probe.works) throw tenken::Waived(tenken::Waiver::no_device_buffer_mpi, probe.why_not);
    }
#endif
    gpu_->require(name, 2 * part_bytes());
}

void Stencil::require_memory(const tenken::Arguments& arguments) const {
    const std::uint64_t part = 2 * part_bytes();
    const auto fail = [&](std::uint64_t asked, std::uint64_t left, const std::string& where) {
        throw arguments.error("nz", "one whose slabs fit: requested " + tenken::format_bytes(asked) +
                                        " for two arrays, at most " + tenken::format_bytes(left) + " on " +
                                        where);
    };
    if (on_host()) {
        const auto here = static_cast<std::uint64_t>(local_parts_ > 1 ? local_parts_ : ranks_.local_size());
        const std::uint64_t left = tenken::available_memory_bytes() / 10 * 9;
        if (part * here > left) fail(part * here, left, "the host");
        return;
    }
    for (const tenken::DeviceDescription& device : gpu_->descriptions()) {
        const std::uint64_t left = device.memory_free_bytes / 10 * 9;
        if (part > left) fail(part, left, "gpu" + std::to_string(device.index));
    }
}

}  // namespace stencil
