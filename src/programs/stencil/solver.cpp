#include "programs/stencil/solver.h"

#include <algorithm>

#include "lib/base/clock.h"

namespace stencil {

std::vector<int> Plan::passes(int steps) const {
    std::vector<int> list(static_cast<std::size_t>(steps % temporal_block), 1);
    list.insert(list.end(), static_cast<std::size_t>(steps / temporal_block), temporal_block);
    return list;
}

Solver::Solver(const Plan& plan, const std::vector<int>& owners, Parts& parts, Exchange* exchange,
               tenken::Ranks& ranks)
    : plan_(plan), parts_(parts), exchange_(exchange), ranks_(ranks) {
    join(owners);
    if (exchange_ != nullptr) exchange_->connect(parts_, links_);
}

void Solver::join(const std::vector<int>& owners) {
    const std::vector<std::string> nodes = ranks_.nodes();
    const long bt = plan_.bt;
    // The fault `halo-short`: the outermost plane of the halo is not exchanged.
    const long missing = plan_.fault == "halo-short" ? 1 : 0;
    for (std::size_t place = 0; place < parts_.size(); ++place) {
        const int number = parts_[place]->number();
        const Slab slab = parts_[place]->layout().slab;
        for (int side = 0; side < 2; ++side) {
            Link link;
            link.part = place;
            link.side = side;
            link.neighbour = number + (side == 0 ? -1 : 1);
            if (link.neighbour < 0 || link.neighbour >= plan_.parts) continue;
            link.process = owners[static_cast<std::size_t>(link.neighbour)];
            link.same_process = link.process == ranks_.rank();
            link.same_node = nodes.empty() || nodes[static_cast<std::size_t>(link.process)] ==
                                                  nodes[static_cast<std::size_t>(ranks_.rank())];
            link.receive = side == 0 ? Range{slab.first - bt + missing, slab.first}
                                     : Range{slab.end(), slab.end() + bt - missing};
            link.send = side == 0 ? Range{slab.first, slab.first + bt - missing}
                                  : Range{slab.end() - bt + missing, slab.end()};
            link.fetched = link.receive;
            const Slab other = plan_.slab(link.neighbour);
            link.neighbour_first = other.first;
            link.destination = link.send.begin;
            if (plan_.fault == "halo-swapped") {
                // The planes for the neighbour on the other side.
                link.send =
                    side == 0 ? Range{slab.end() - bt, slab.end()} : Range{slab.first, slab.first + bt};
                link.fetched =
                    side == 0 ? Range{other.first, other.first + bt} : Range{other.end() - bt, other.end()};
            }
            links_.push_back(link);
        }
    }
}

void Solver::begin() {
    current_ = 0;
    exchanges_ = 0;
    for (const std::unique_ptr<Part>& part : parts_) part->fill();
    ranks_.barrier();
    exchange(links_);
    wait();
}

void Solver::wait_here() {
    for (const std::unique_ptr<Part>& part : parts_) {
        part->wait(Queue::boundary);
        part->wait(Queue::interior);
    }
}

void Solver::wait() {
    wait_here();
    ranks_.barrier();
}

void Solver::end() {
    wait();
    if (exchange_ != nullptr) exchange_->disconnect();
    ranks_.barrier();
}

/// All passes of a block, for the planes at the ends or for those between them. Restores `current_`
/// at the end.
void Solver::compute(int steps, bool boundary) {
    const bool overlaps = plan_.overlaps();
    const long nz = plan_.grid.nz;
    int from = current_;
    int done = 0;
    for (const int pass : plan_.passes(steps)) {
        done += pass;
        const long rest = steps - done;  // planes beyond its own that later steps of the block need
        for (const std::unique_ptr<Part>& part : parts_) {
            const Slab slab = part->layout().slab;
            const bool below = slab.first > 0;
            const bool above = slab.end() < nz;
            const long begin = below ? slab.first - rest : 1;
            const long end = above ? slab.end() + rest : nz - 1;
            const long inner_begin = overlaps && below ? slab.first + plan_.bt + rest : begin;
            const long inner_end = overlaps && above ? slab.end() - plan_.bt - rest : end;
            if (boundary) {
                part->step(Queue::boundary, from, {begin, inner_begin}, {inner_end, end}, pass);
            } else {
                part->step(Queue::interior, from, {inner_begin, inner_end}, {0, 0}, pass);
            }
        }
        from = 1 - from;
    }
}

void Solver::exchange(const Links& links) {
    if (exchange_ == nullptr) return;
    ++exchanges_;
    // The second exchange does not update one plane.
    const bool stale = plan_.fault == "halo-stale" && exchanges_ == 2;
    const std::vector<std::vector<unsigned char>> before =
        stale ? stale_planes() : std::vector<std::vector<unsigned char>>();
    exchange_->start(links, current_);
    exchange_->finish(links, current_);
    for (std::size_t i = 0; i < before.size(); ++i) {
        wait_here();
        Part& part = *parts_[links_[i].part];
        part.write(current_, links_[i].receive.begin, before[i].data());
    }
}

std::vector<std::vector<unsigned char>> Solver::stale_planes() {
    std::vector<std::vector<unsigned char>> planes;
    wait_here();
    for (const Link& link : links_) {
        Part& part = *parts_[link.part];
        planes.emplace_back(part.plane_bytes());
        part.read(current_, {link.receive.begin, link.receive.begin + 1}, planes.back().data());
    }
    return planes;
}

void Solver::block(int steps) {
    const bool overlaps = plan_.overlaps();
    const int passes = static_cast<int>(plan_.passes(steps).size());
    const int newest = (current_ + passes) % 2;
    for (const std::unique_ptr<Part>& part : parts_) part->order(Queue::boundary, Queue::interior);
    if (overlaps) compute(steps, true);
    for (const std::unique_ptr<Part>& part : parts_) part->order(Queue::interior, Queue::boundary);
    if (!overlaps) compute(steps, false);
    if (!overlaps || plan_.fault == "halo-stale") {
        if (overlaps) compute(steps, false);
        for (const std::unique_ptr<Part>& part : parts_) part->order(Queue::boundary, Queue::interior);
        current_ = newest;
        exchange(links_);
        return;
    }
    if (exchange_ != nullptr) exchange_->start(links_, newest);
    compute(steps, false);
    if (exchange_ != nullptr) exchange_->finish(links_, newest);
    current_ = newest;
}

void Solver::advance(long steps) {
    while (steps > 0) {
        const int now = static_cast<int>(std::min<long>(steps, plan_.bt));
        block(now);
        steps -= now;
    }
}

Phases Solver::block_apart(int steps) {
    Phases phases;
    ranks_.barrier();
    double before = tenken::now_seconds();
    const auto lap = [&] {
        const double now = tenken::now_seconds();
        const double seconds = now - before;
        before = now;
        return seconds;
    };
    for (const std::unique_ptr<Part>& part : parts_) part->order(Queue::boundary, Queue::interior);
    if (plan_.overlaps()) compute(steps, true);
    for (const std::unique_ptr<Part>& part : parts_) part->order(Queue::interior, Queue::boundary);
    compute(steps, false);
    current_ = (current_ + static_cast<int>(plan_.passes(steps).size())) % 2;
    wait_here();
    phases.compute = lap();
    ranks_.barrier();
    phases.sync = lap();
    for (const bool in_node : {true, false}) {
        Links some;
        for (const Link& link : links_) {
            if (link.same_node == in_node) some.push_back(link);
        }
        if (exchange_ == nullptr) continue;
        exchange_->packing(true);
        exchange_->start(some, current_);
        exchange_->finish(some, current_);
        wait_here();
        const double packed = exchange_->packing(false);
        phases.pack += packed;
        (in_node ? phases.halo_node : phases.halo_net) = std::max(0.0, lap() - packed);
    }
    ranks_.barrier();
    phases.sync += lap();
    return phases;
}

}  // namespace stencil
