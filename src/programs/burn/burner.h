// The phases on one GPU or the host. The differences between them are in Exec: memory, loops, products.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "programs/burn/inject.h"
#include "programs/burn/memory_check.h"
#include "programs/burn/place.h"
#include "programs/burn/product_check.h"
#include "programs/burn/sums_check.h"

namespace burn {

/// m x n x k of a product.
struct Shape {
    std::uint32_t m;
    std::uint32_t n;
    std::uint32_t k;
    double operations() const { return 2.0 * m * n * k; }
};

/// Rows of A beyond those of a product, in steps of a tile: each product begins at another offset.
constexpr std::uint32_t shift_rows = 128;
constexpr std::uint32_t shifts = 8;
/// Bytes of a unit of memory studies, and of a copy's part.
constexpr std::uint32_t memory_unit = 256;  // x 16 bytes: 4 KiB
constexpr std::uint64_t no_step = ~std::uint64_t{0};

/// Parts of the pool, one after another.
class Area {
  public:
    Area(void* begin, std::size_t bytes) : next_(static_cast<char*>(begin)), end_(next_ + bytes) {}
    /// @throws std::runtime_error if the pool is too small
    template <typename T>
    T* take(std::size_t count) {
        char* const at = next_;
        const std::size_t bytes = (count * sizeof(T) + 255) / 256 * 256;
        if (bytes > static_cast<std::size_t>(end_ - next_))
            throw std::runtime_error("the memory is too small for this phase");
        next_ += bytes;
        return reinterpret_cast<T*>(at);
    }
    std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

  private:
    char* next_;
    char* end_;
};

/// The results of one wrong word when its product is repeated.
struct Again {
    bool same_place = false;   ///< with the same data
    bool other_data = false;   ///< the same place of C, of other rows
    bool other_place = false;  ///< the same data at another place of C
};

inline std::string verdict_of(const Again& again) {
    if (again.same_place && again.other_data && again.other_place) return "sticky, everywhere";
    if (again.other_data) return "sticky, bound to its place (multiprocessor or address)";
    if (again.other_place) return "sticky, bound to its data";
    if (again.same_place) return "sticky, with these data at this place";
    return "transient: correct when computed again";
}

template <typename Exec>
class Burner : public Place {
  public:
    Burner(std::unique_ptr<Exec> exec, std::uint64_t seed) : exec_(std::move(exec)), seed_(seed) {}

    tenken::Subject subject() const override { return exec_->subject(); }
    std::string why_not(const Phase& phase) override { return exec_->why_not(phase); }
    double memory_share() const override { return exec_->memory_share(); }
    tenken::Meter* energy() override { return exec_->energy(); }
    std::string serial() const override { return exec_->serial(); }
    std::string kind() const override { return exec_->kind(); }
    std::string algorithm() const override {
        std::string text = "burn 1";
        for (const Phase& phase : phases()) {
            if (phase.kind != Kind::product) continue;
            const Shape shape = exec_->shape(phase);
            text +=
                " " + std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
        }
        return text;
    }
    tenken::Json gpu() const override { return exec_->index(); }
    void begin() override { exec_->begin(); }
    void end() override { exec_->end(); }
    Sensors sensors() override { return exec_->sensors(); }
    void hang() override {
        exec_->use();
        exec_->hang();
    }

    Visit visit(const Phase& phase, const How& how) override {
        exec_->use();
        switch (phase.kind) {
            case Kind::product:
                return visit_product(phase, how);
            case Kind::memory:
                return visit_memory(phase, how);
            case Kind::copies:
                return visit_copies(how);
            case Kind::peer:
                return visit_peer(how);
            case Kind::all_reduce:
                return visit_all_reduce(how);
            case Kind::chain:
                return visit_chain(phase, how);
            case Kind::steps:
                return visit_steps(phase, how);
        }
        throw std::logic_error(std::string("phase ") + phase.name);
    }

    Study study(const Phase& phase, Fault fault, double wanted,
                const std::function<void(std::uint64_t)>& beat) override {
        exec_->use();
        if (phase.kind == Kind::chain) return study_chain(phase, fault, wanted, beat);
        return phase.kind == Kind::product ? study_product(phase, fault, wanted, beat)
                                           : study_memory(phase, fault, wanted, beat);
    }

    double copy_rate(double seconds) override {
        exec_->use();
        const std::size_t half = exec_->pool_bytes() / 2 / 4096 * 4096;
        char* const pool = static_cast<char*>(exec_->pool());
        exec_->copy(pool, pool + half, half);
        exec_->synchronize();
        double copied = 0;
        const double begin = tenken::now_seconds();
        do {
            exec_->copy(pool, pool + half, half);
            exec_->mark();
            copied += 2.0 * static_cast<double>(half);
        } while (tenken::now_seconds() - begin < seconds);
        exec_->synchronize();
        return copied / (tenken::now_seconds() - begin);
    }

  private:
    /// Everything of one product in memory.
    struct Work {
        Product product;
        void* a;
        void* b;
        std::uint64_t* expected;
        std::uint32_t* weights;
        Log* log;
        void* workspace;
        Area rest;
    };

    std::uint64_t seed_of(const char* phase, std::uint32_t number) const {
        std::uint64_t seed = mixed64(seed_);
        for (const char* c = phase; *c != '\0'; ++c) seed = mixed64(seed ^ static_cast<unsigned char>(*c));
        return mixed64(seed + number);
    }

    /// One product with everything it needs, including copies of C for studies.
    std::size_t bytes_for(const Phase& phase) const {
        const Format& format = *phase.format;
        const Shape shape = exec_->shape(phase);
        const std::size_t m = shape.m, n = shape.n, k = shape.k, rows = m + shifts * shift_rows;
        return (rows + n) * k * bytes_of(format.operand) + m * n * (3 * bytes_of(format.result) + 1) +
               (rows + k) * (n / segment_columns) * 8 + Exec::workspace_bytes + (std::size_t{1} << 20);
    }

    Work set_up(const Phase& phase, std::uint32_t number) {
        const Format& format = *phase.format;
        const Shape shape = exec_->shape(phase);
        // another part of the memory each time
        const std::size_t all = exec_->pool_bytes();
        const std::size_t needed = bytes_for(phase);
        const std::size_t begin = all > needed ? mixed64(number) % 8 * ((all - needed) / 8) / 4096 * 4096 : 0;
        Area area(static_cast<char*>(exec_->pool()) + begin, all - begin);
        const std::uint64_t seed = seed_of(phase.name, number);
        Operands of;
        of.kind = format.operand;
        of.seed_a = static_cast<std::uint32_t>(seed);
        of.seed_b = static_cast<std::uint32_t>(seed >> 32);
        of.bits_a = format.bits[number % 3][0];
        of.bits_b = format.bits[number % 3][1];
        of.k = shape.k;
        const std::uint32_t rows = shape.m + shifts * shift_rows;
        const std::uint32_t tiles = shape.n / segment_columns;
        const std::size_t elements_a = static_cast<std::size_t>(rows) * shape.k;
        const std::size_t elements_b = static_cast<std::size_t>(shape.n) * shape.k;
        void* const a = area.take<char>(elements_a * bytes_of(of.kind));
        void* const b = area.take<char>(elements_b * bytes_of(of.kind));
        void* const c =
            area.take<char>(static_cast<std::size_t>(shape.m) * shape.n * bytes_of(format.result));
        std::uint64_t* const expected = area.take<std::uint64_t>(static_cast<std::size_t>(rows) * tiles);
        std::uint64_t* const sums = area.take<std::uint64_t>(static_cast<std::size_t>(shape.k) * tiles);
        std::uint32_t* const weights = area.take<std::uint32_t>(shape.n);
        Log* const log = area.take<Log>(1);
        void* const workspace = area.take<char>(Exec::workspace_bytes);
        const Product product = {of, format.result, c, shape.m, shape.n, rows, 0, 0};
        exec_->each(shape.n, FillWeights{weights, static_cast<std::uint32_t>(mixed64(seed))});
        exec_->each(elements_a, FillOperand{of, true, a});
        exec_->each(elements_b, FillOperand{of, false, b});
        exec_->each(static_cast<std::size_t>(tiles) * shape.k, SumColumns{of, weights, tiles, sums});
        exec_->each(static_cast<std::size_t>(tiles) * rows / ExpectSegments::together,
                    ExpectSegments{of, sums, tiles, rows, expected});
        exec_->clear(log, sizeof(Log));
        exec_->begin_product(phase, shape, a, b, c, workspace);
        exec_->synchronize();
        return {product, a, b, expected, weights, log, workspace, area};
    }

    /// Enqueues product number `step`.
    void multiply(Work& work, std::uint32_t step) {
        work.product.step = step;
        work.product.first_row = step % (shifts + 1) * shift_rows;
        exec_->product(first_of_a(work), work.b, work.product.c, work.workspace);
    }
    const void* first_of_a(const Work& work) const {
        return static_cast<const char*>(work.a) + static_cast<std::size_t>(work.product.first_row) *
                                                      work.product.of.k * bytes_of(work.product.of.kind);
    }

    void check(const Work& work, std::uint8_t* marks) {
        switch (work.product.result) {
            case Result::fp64:
                check_as<double>(work, marks);
                return;
            case Result::fp32:
                check_as<float>(work, marks);
                return;
            case Result::int32:
                check_as<std::int32_t>(work, marks);
        }
    }
    template <typename Element>
    void check_as(const Work& work, std::uint8_t* marks) {
        exec_->each(work.product.segments(),
                    CheckSegments<Element>{work.product, work.expected, work.weights, work.log, marks});
    }
    void locate(const Work& work) {
        exec_->each(std::size_t{max_flagged} * segment_columns, LocateElements{work.product, work.log});
    }

    void check_inputs(const Work& work) {
        const std::size_t k = work.product.of.k;
        exec_->each(work.product.rows * k, CheckOperand{work.product.of, true, work.a, work.log});
        exec_->each(work.product.n * k, CheckOperand{work.product.of, false, work.b, work.log});
    }

    Visit visit_product(const Phase& phase, const How& how) {
        Work work = set_up(phase, how.number);
        Visit visit;
        const Shape shape = exec_->shape(phase);
        multiply(work, 0);
        exec_->synchronize();
        const double before = tenken::now_seconds();
        multiply(work, 0);
        exec_->synchronize();
        const std::uint64_t batch = std::max(1.0, 0.03 / (tenken::now_seconds() - before));
        if (how.number == 0) visit.fingerprint = fingerprint(work);
        std::uint64_t steps = 0;
        double begin = tenken::now_seconds();
        bool more = true;
        while (more) {
            for (std::uint64_t i = 0; i < batch; ++i, ++steps) {
                if (steps == 1 && how.fault == Fault::input_bit) inject(work, how.fault);
                multiply(work, static_cast<std::uint32_t>(steps));
                if (steps == 1 && how.fault != Fault::none && how.fault != Fault::input_bit)
                    inject(work, how.fault);
                if (!how.checked) continue;
                check(work, nullptr);
                locate(work);
            }
            exec_->mark();
            if (how.beat) how.beat(steps);
            more = tenken::now_seconds() - begin < how.seconds || steps < 2;
        }
        exec_->synchronize();
        visit.seconds = tenken::now_seconds() - begin;
        visit.steps = steps;
        visit.operations = shape.operations() * static_cast<double>(steps);
        visit.checked = how.checked ? visit.operations : 0;
        conclude(phase, work, visit);
        return visit;
    }

    /// Compares the inputs, reads the findings, and repeats the first wrong product.
    void conclude(const Phase& phase, Work& work, Visit& visit) {
        check_inputs(work);
        collect(work.log, visit);
        for (const Record& one : visit.records) {
            if (one.kind != Record::output) continue;
            visit.verdict = verdict_of(form_again(work, one));
            const std::string on = exec_->on_every_multiprocessor(
                phase, first_of_a(work), work.b, work.product, static_cast<std::uint32_t>(one.row),
                static_cast<std::uint32_t>(one.column));
            if (!on.empty()) visit.verdict += "; " + on;
            break;
        }
    }

    std::string fingerprint(Work& work) {
        Area area = work.rest;
        std::uint64_t* const sum = area.take<std::uint64_t>(1);
        exec_->clear(sum, sizeof *sum);
        const std::size_t count = static_cast<std::size_t>(work.product.m) * work.product.n;
        exec_->each((count + Fingerprint::each - 1) / Fingerprint::each,
                    Fingerprint{work.product.c, bytes_of(work.product.result), sum, count});
        std::uint64_t value = 0;
        exec_->read(&value, sum, sizeof value);
        char text[17];
        std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
        return text;
    }

    void collect(Log* log, Visit& visit) {
        Log read;
        exec_->read(&read, log, sizeof read);
        visit.wrong += read.wrong;
        const std::uint32_t count = std::min(read.records, max_records);
        visit.records.insert(visit.records.end(), read.record, read.record + count);
    }

    /// Recomputes the product of a wrong element: unchanged, at its place with other data, elsewhere with its
    /// data.
    Again form_again(Work& work, const Record& wrong) {
        Again again;
        const std::uint32_t first = wrong.step % (shifts + 1);
        for (std::uint32_t turn = 0; turn < 3; ++turn) {
            const std::uint32_t shift = turn == 0 ? first : (first + turn) % (shifts + 1);
            exec_->clear(work.log, sizeof(Log));
            multiply(work, shift);
            check(work, nullptr);
            locate(work);
            Visit found;
            collect(work.log, found);
            for (const Record& one : found.records) {
                const bool place = one.row == wrong.row && one.column == wrong.column;
                const bool data = one.row + shift * shift_rows == wrong.row + first * shift_rows &&
                                  one.column == wrong.column;
                if (turn == 0)
                    again.same_place = again.same_place || place;
                else {
                    again.other_data = again.other_data || place;
                    again.other_place = again.other_place || data;
                }
            }
        }
        multiply(work, first);
        exec_->synchronize();
        return again;
    }

    static Units units_of(Fault fault, const Product& product) {
        if (fault == Fault::input_bit) return {1, product.tiles()};
        const bool whole =
            fault == Fault::lost_tile || fault == Fault::stale_tile || fault == Fault::stuck_sm;
        return {whole ? 128U : 32U, 1U};
    }

    /// Injects one fault into the product that was just computed, or into its input.
    void inject(Work& work, Fault fault) {
        Area area = work.rest;
        const Units units = units_of(fault, work.product);
        std::uint8_t* const state = area.take<std::uint8_t>(units.count(work.product) + work.product.rows);
        if (fault == Fault::input_bit) {
            exec_->each(1, FlipInputs{work.product.of, work.a, shift_rows, 1, state, true});
            return;
        }
        void* const other = area.take<char>(static_cast<std::size_t>(work.product.m) * work.product.n *
                                            bytes_of(work.product.result));
        Work before = work;
        before.product.c = other;
        multiply(before, work.product.step + 1);
        // some choices change nothing: a multiprocessor that is healthy, a bit that rounding removes
        const std::uint64_t turns = fault == Fault::stuck_sm || fault == Fault::accumulator_bit ? 8 : 1;
        for (std::uint64_t seed = 1; seed <= turns; ++seed)
            exec_->each(1, InjectIntoProduct{work.product, units, fault, seed, other, state, true});
    }

    Study study_product(const Phase& phase, Fault fault, double wanted,
                        const std::function<void(std::uint64_t)>& beat) {
        Study study;
        Work work = set_up(phase, 0);
        Area area = work.rest;
        const std::size_t bytes =
            static_cast<std::size_t>(work.product.m) * work.product.n * bytes_of(work.product.result);
        Units units = units_of(fault, work.product);
        const bool real = exec_->real_faults(phase, fault, units);
        const std::size_t count = units.count(work.product);
        void* const clean = area.take<char>(bytes);
        void* const other = area.take<char>(bytes);
        std::uint8_t* const state = area.take<std::uint8_t>(count);
        std::uint8_t* const marks = area.take<std::uint8_t>(work.product.segments());
        Tally* const tally = area.take<Tally>(1);
        exec_->clear(tally, sizeof *tally);
        for (std::uint32_t round = 0; study.injected - study.masked < wanted && round < 1000; ++round) {
            Work before = work;
            before.product.c = other;
            multiply(before, round + (fault == Fault::stale_tile ? 2 : 1));
            multiply(work, round);
            exec_->copy(clean, work.product.c, bytes);
            exec_->clear(state, count);
            exec_->clear(marks, work.product.segments());
            const std::uint64_t seed =
                mixed64(seed_of(phase.name, round) + static_cast<std::uint64_t>(fault));
            const FlipInputs flip{work.product.of, work.a, work.product.first_row, seed, state, false};
            if (fault == Fault::input_bit) {
                exec_->each(work.product.m, flip);
                multiply(work, round);
            } else if (real) {
                exec_->product_with(fault, seed, first_of_a(work), work.b, work.product, state);
            } else {
                exec_->each(count, InjectIntoProduct{work.product, units, fault, seed, other, state, false});
            }
            check(work, marks);
            exec_->each(count, TallyProduct{work.product, clean, units, state, marks, tally});
            if (fault == Fault::input_bit) exec_->each(work.product.m, flip);
            read_tally(tally, study);
            if (beat) beat(round);
        }
        return study;
    }

    void read_tally(const Tally* tally, Study& study) {
        Tally read;
        exec_->read(&read, tally, sizeof read);
        study.injected = static_cast<double>(read.injected);
        study.masked = static_cast<double>(read.masked);
        study.found = static_cast<double>(read.found);
        study.false_alarms = static_cast<double>(read.false_alarms);
    }

    Visit visit_memory(const Phase& phase, const How& how) {
        Visit visit;
        // the log is at the end, behind the tested memory
        const std::size_t kept = std::size_t{1} << 20;
        Words* const memory = static_cast<Words*>(exec_->pool());
        const std::size_t bytes = (exec_->pool_bytes() - kept) / 4096 * 4096;
        Area area(static_cast<char*>(exec_->pool()) + bytes, exec_->pool_bytes() - bytes);
        Log* const log = area.take<Log>(1);
        std::uint8_t* const state = area.take<std::uint8_t>(1);
        exec_->clear(log, sizeof(Log));
        const std::size_t count = bytes / sizeof(Words);
        const auto seed = static_cast<std::uint32_t>(seed_of(phase.name, how.number));
        MemoryPass pass{memory, count, phase.pattern, seed, 0, false, true, log, nullptr, memory_unit};
        exec_->each(count, pass);
        exec_->synchronize();
        const double begin = tenken::now_seconds();
        pass.reads = true;
        do {
            if (visit.steps == 3 && how.fault != Fault::none)
                exec_->each(1, InjectIntoMemory{memory, memory_unit, phase.pattern, seed, pass.pass,
                                                how.fault, 1, state, true});
            ++pass.pass;
            exec_->each(count, pass);
            exec_->mark();
            ++visit.steps;
            if (how.beat) how.beat(visit.steps);
        } while (tenken::now_seconds() - begin < how.seconds || visit.steps < 4);
        exec_->synchronize();
        visit.seconds = tenken::now_seconds() - begin;
        visit.operations = 2.0 * static_cast<double>(bytes) * static_cast<double>(visit.steps);
        visit.checked = visit.operations;
        // the data written by the last pass
        ++pass.pass;
        pass.writes = false;
        exec_->each(count, pass);
        collect(log, visit);
        if (!visit.records.empty())
            visit.verdict = read_again(memory, visit.records.front(), phase, seed, pass.pass - 1);
        return visit;
    }

    /// Whether an address that was wrong stores what is now written to it.
    std::string read_again(Words* memory, const Record& wrong, const Phase& phase, std::uint32_t seed,
                           std::uint32_t pass) {
        Words* const at = memory + wrong.row;
        const Words written = pattern_at(phase.pattern, seed, pass, wrong.row);
        exec_->write(at, &written, sizeof written);
        Words read;
        exec_->read(&read, at, sizeof read);
        return std::memcmp(&read, &written, sizeof read) == 0 ? "transient: correct when written again"
                                                              : "sticky, bound to its address";
    }

    Study study_memory(const Phase& phase, Fault fault, double wanted,
                       const std::function<void(std::uint64_t)>& beat) {
        Study study;
        const std::size_t units = Exec::study_units;
        Area area(exec_->pool(), exec_->pool_bytes());
        Words* const memory = area.take<Words>(units * memory_unit);
        std::uint8_t* const state = area.take<std::uint8_t>(units);
        std::uint8_t* const marks = area.take<std::uint8_t>(units);
        Tally* const tally = area.take<Tally>(1);
        Log* const log = area.take<Log>(1);
        exec_->clear(tally, sizeof *tally);
        exec_->clear(log, sizeof(Log));
        const Pattern pattern = phase.kind == Kind::memory ? phase.pattern : Pattern::random;
        const std::size_t count = units * memory_unit;
        for (std::uint32_t round = 0; study.injected - study.masked < wanted && round < 1000; ++round) {
            const auto seed = static_cast<std::uint32_t>(seed_of(phase.name, round));
            const std::uint32_t at = 4 + round;
            MemoryPass pass{memory, count, pattern, seed, at, false, true, log, marks, memory_unit};
            exec_->each(count, pass);
            exec_->clear(state, units);
            exec_->clear(marks, units);
            exec_->each(units,
                        InjectIntoMemory{memory, memory_unit, pattern, seed, at, fault,
                                         mixed64(seed + static_cast<std::uint64_t>(fault)), state, false});
            pass.pass = at + 1;
            pass.reads = true;
            pass.writes = false;
            exec_->each(count, pass);
            exec_->each(units, TallyMemory{memory, memory_unit, pattern, seed, at, state, marks, tally});
            read_tally(tally, study);
            if (beat) beat(round);
        }
        return study;
    }

    /// Device to host and back concurrently, verified on the host and on the device.
    Visit visit_copies(const How& how) {
        Visit visit;
        const std::size_t bytes = exec_->copy_bytes();
        const std::size_t count = bytes / sizeof(Words);
        Area area(exec_->pool(), exec_->pool_bytes());
        Words* const from = area.take<Words>(count);
        Words* const to = area.take<Words>(count);
        Log* const log = area.take<Log>(1);
        std::uint8_t* const state = area.take<std::uint8_t>(count / memory_unit);
        exec_->clear(log, sizeof(Log));
        const auto seed = static_cast<std::uint32_t>(seed_of("copies", how.number));
        Log on_host;
        std::memset(&on_host, 0, sizeof on_host);
        const double begin = tenken::now_seconds();
        std::uint32_t step = 0;
        do {
            // buffer step % 2 receives this step's data while that of the previous step goes back
            exec_->each(count, MemoryPass{from, count, Pattern::random, seed, step, false, true, log, nullptr,
                                          memory_unit});
            exec_->synchronize();
            exec_->to_host(exec_->host_buffer(step % 2), from, bytes);
            if (step > 0) exec_->to_device(to, exec_->host_buffer((step + 1) % 2), bytes);
            exec_->synchronize();
            if (step == 2 && how.fault != Fault::none)
                exec_->each(1, InjectIntoMemory{to, memory_unit, Pattern::random, seed, step - 1, how.fault,
                                                1, state, true});
            if (step > 0)
                exec_->each(count, MemoryPass{to, count, Pattern::random, seed, step, true, false, log,
                                              nullptr, memory_unit});
            exec_->each_on_host(
                count, MemoryPass{static_cast<Words*>(exec_->host_buffer(step % 2)), count, Pattern::random,
                                  seed, step + 1, true, false, &on_host, nullptr, memory_unit});
            ++step;
            if (how.beat) how.beat(step);
        } while (tenken::now_seconds() - begin < how.seconds || step < 4);
        exec_->synchronize();
        visit.seconds = tenken::now_seconds() - begin;
        visit.steps = step;
        visit.operations = static_cast<double>(bytes) * (2.0 * step - 1);
        visit.checked = visit.operations;
        collect(log, visit);
        visit.wrong += on_host.wrong;
        const std::uint32_t records = std::min(on_host.records, max_records);
        visit.records.insert(visit.records.end(), on_host.record, on_host.record + records);
        for (Record& one : visit.records) one.kind = Record::copy;
        return visit;
    }

    /// From the memory of the next GPU, all at the same time: with two GPUs both directions of their link.
    Visit visit_peer(const How& how) {
        Visit visit;
        const std::size_t bytes = exec_->copy_bytes();
        const std::size_t count = bytes / sizeof(Words);
        Area area(exec_->pool(), exec_->pool_bytes());
        Words* const from = area.take<Words>(count);
        Words* const to = area.take<Words>(count);
        Log* const log = area.take<Log>(1);
        std::uint8_t* const state = area.take<std::uint8_t>(count / memory_unit);
        exec_->clear(log, sizeof(Log));
        const auto all = static_cast<std::uint32_t>(seed_of("peer", how.number));
        const std::uint32_t sent = all + exec_->rank();
        const std::uint32_t received = all + (exec_->rank() + 1) % exec_->ranks();
        const double begin = tenken::now_seconds();
        double copying = 0;
        std::uint32_t step = 0;
        while (how.meeting->go_on(tenken::now_seconds() - begin < how.seconds || step < 4)) {
            exec_->each(count, MemoryPass{from, count, Pattern::random, sent, step, false, true, log, nullptr,
                                          memory_unit});
            exec_->synchronize();
            how.meeting->wait();
            const double before = tenken::now_seconds();
            exec_->pull(to, bytes);
            exec_->synchronize();
            copying += tenken::now_seconds() - before;
            if (step == 2 && how.fault != Fault::none)
                exec_->each(1, InjectIntoMemory{to, memory_unit, Pattern::random, received, step, how.fault,
                                                1, state, true});
            // at both ends: the received and the sent data
            exec_->each(count, MemoryPass{to, count, Pattern::random, received, step + 1, true, false, log,
                                          nullptr, memory_unit});
            exec_->each(count, MemoryPass{from, count, Pattern::random, sent, step + 1, true, false, log,
                                          nullptr, memory_unit});
            exec_->synchronize();
            ++step;
            if (how.beat) how.beat(step);
        }
        visit.seconds = copying;
        visit.steps = step;
        visit.operations = static_cast<double>(bytes) * step;
        visit.checked = visit.operations;
        collect(log, visit);
        for (Record& one : visit.records) one.kind = Record::copy;
        return visit;
    }

    /// Full and idle in waves of 1 ms to 10 s, as many of each as fit; GPUs begin one after another within a
    /// period.
    Visit visit_steps(const Phase& phase, const How& how) {
        Work work = set_up(phase, how.number);
        Visit visit;
        multiply(work, 0);
        exec_->synchronize();
        const double begin = tenken::now_seconds();
        std::uint32_t step = 0;
        for (const double period : {0.001, 0.01, 0.1, 1.0, 10.0}) {
            // five kinds of waves share the visit; the shortest kind runs in any case
            const double share = std::max(how.seconds / 5, 2 * 0.001);
            if (2 * period > share && step > 0) break;
            const double first = tenken::now_seconds();
            double next = first + (how.in_phase ? 0 : period * exec_->rank() / exec_->ranks());
            while (tenken::now_seconds() - first < share) {
                sleep_until(next);
                do {
                    multiply(work, step);
                    if (step == 1 && how.fault != Fault::none) inject(work, how.fault);
                    check(work, nullptr);
                    locate(work);
                    exec_->synchronize();
                    ++step;
                } while (tenken::now_seconds() < next + period / 2 || step < 2);
                next = std::max(next + period, tenken::now_seconds());
                if (how.beat) how.beat(step);
            }
        }
        visit.seconds = tenken::now_seconds() - begin;
        visit.steps = step;
        visit.operations = exec_->shape(phase).operations() * step;
        visit.checked = visit.operations;
        conclude(phase, work, visit);
        return visit;
    }
    static void sleep_until(double moment) {
        const double left = moment - tenken::now_seconds();
        if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
    }

    /// Sums over all GPUs by NCCL.
    Visit visit_all_reduce(const How& how) {
        Visit visit;
        const std::size_t count = exec_->copy_bytes() / sizeof(double);
        Area area(exec_->pool(), exec_->pool_bytes());
        double* const from = area.template take<double>(count);
        double* const to = area.template take<double>(count);
        Log* const log = area.template take<Log>(1);
        std::uint8_t* const state = area.template take<std::uint8_t>(1);
        exec_->clear(log, sizeof(Log));
        const auto all = static_cast<std::uint32_t>(seed_of("all_reduce", how.number));
        const double begin = tenken::now_seconds();
        double summing = 0;
        std::uint32_t step = 0;
        while (how.meeting->go_on(tenken::now_seconds() - begin < how.seconds || step < 4)) {
            const std::uint32_t seed = mixed(all + step);
            exec_->each(count, FillAddends{from, seed, exec_->rank()});
            exec_->synchronize();
            how.meeting->wait();
            const double before = tenken::now_seconds();
            exec_->all_reduce(from, to, count);
            exec_->synchronize();
            summing += tenken::now_seconds() - before;
            if (step == 2 && how.fault != Fault::none)
                exec_->each(1, InjectIntoMemory{reinterpret_cast<Words*>(to), memory_unit, Pattern::random,
                                                seed, step, how.fault, 1, state, true});
            exec_->each(count, CheckSums{to, seed, exec_->ranks(), step, log});
            exec_->synchronize();
            ++step;
            if (how.beat) how.beat(step);
        }
        visit.seconds = summing;
        visit.steps = step;
        visit.operations = static_cast<double>(count * sizeof(double)) * step;
        visit.checked = visit.operations;
        collect(log, visit);
        return visit;
    }

    /// The words of a chain, and its matrix, in memory.
    struct Links {
        std::uint64_t* words[2];
        Matrix matrix;
        Log* log;
        std::uint8_t* state;
        std::uint64_t seed;
        std::uint32_t bits;
        std::size_t count() const { return std::size_t{1} << bits; }
    };

    Links set_up_chain(const Phase& phase, std::uint32_t number, std::uint32_t bits, Area& area) {
        Links links;
        links.bits = bits;
        links.seed = seed_of(phase.name, number);
        for (auto& words : links.words) words = area.template take<std::uint64_t>(links.count());
        const std::size_t entries = phase.chain == Chain::sparse ? row_entries * links.count() : 1;
        links.matrix = {area.template take<std::uint64_t>(entries),
                        area.template take<std::uint32_t>(entries)};
        links.log = area.template take<Log>(1);
        links.state = area.template take<std::uint8_t>(1);
        exec_->clear(links.log, sizeof(Log));
        if (phase.chain == Chain::sparse) exec_->each(entries, FillMatrix{links.matrix, bits, links.seed});
        exec_->synchronize();
        return links;
    }

    /// Steps in both directions, and the comparison. @param fault after step `at` of all; stuck_operand: in
    /// each step
    void run_chain(const Phase& phase, const Links& links, std::uint32_t cycle, Fault fault,
                   std::uint64_t random, std::uint8_t* marks) {
        const std::uint64_t seeds[] = {mixed64(links.seed + 2 * cycle), mixed64(links.seed + 2 * cycle + 1)};
        const std::size_t count = links.count();
        for (int i = 0; i < 2; ++i) exec_->each(count, FillChain{links.words[i], seeds[i]});
        const std::uint32_t at = static_cast<std::uint32_t>(random >> 40) % (2 * chain_steps);
        int now = 1;
        for (std::uint32_t step = 0; step < 2 * chain_steps; ++step) {
            // each multiprocessor starts with another block of rows
            const ChainStep one{phase.chain,
                                links.bits,
                                links.words[now],
                                links.words[1 - now],
                                links.matrix,
                                mixed(step + cycle) % 1024 * 256,
                                step < chain_steps ? 0 : turned_constant(phase.chain)};
            exec_->each(count, one);
            if (fault == Fault::stuck_operand)
                exec_->each(count, StickInChain{one.now, one.before, random, links.state});
            else if (fault != Fault::none && step == at)
                exec_->each(1, InjectIntoChain{one, fault, random});
            now = 1 - now;
            if (step + 1 != chain_steps) continue;
            for (std::uint64_t* const words : links.words) exec_->each(count, TurnChain{words});
            now = 1 - now;  // the reverse step: from the last two states, exchanged
        }
        // what was u(0) and u(1)
        exec_->each(count, CheckChain{links.words[now], seeds[0], cycle, links.log, marks, links.count()});
        exec_->each(count,
                    CheckChain{links.words[1 - now], seeds[1], cycle, links.log, marks, links.count()});
    }

    Visit visit_chain(const Phase& phase, const How& how) {
        Visit visit;
        Area area(exec_->pool(), exec_->pool_bytes());
        const Links links = set_up_chain(phase, how.number, exec_->chain_bits(), area);
        const double begin = tenken::now_seconds();
        std::uint32_t cycle = 0;
        do {
            const bool faulty = cycle == 1 && how.fault != Fault::none;
            run_chain(phase, links, cycle, faulty ? how.fault : Fault::none, mixed64(how.number), nullptr);
            exec_->mark();
            ++cycle;
            if (how.beat) how.beat(cycle);
        } while (tenken::now_seconds() - begin < how.seconds || cycle < 2);
        exec_->synchronize();
        visit.seconds = tenken::now_seconds() - begin;
        visit.steps = cycle;
        visit.operations = 2.0 * chain_steps * static_cast<double>(links.count()) * cycle;
        visit.checked = visit.operations;
        if (phase.chain == Chain::sparse)
            exec_->each(row_entries * links.count(),
                        CheckMatrix{links.matrix, links.bits, links.seed, links.log});
        collect(links.log, visit);
        return visit;
    }

    /// One fault per chain, because it spreads: many short chains.
    Study study_chain(const Phase& phase, Fault fault, double wanted,
                      const std::function<void(std::uint64_t)>& beat) {
        Study study;
        constexpr std::uint32_t bits = 12;
        const auto chains = static_cast<std::uint32_t>(wanted + 2);
        Area area(exec_->pool(), exec_->pool_bytes());
        Links links = set_up_chain(phase, 0, bits, area);
        std::uint8_t* const marks = area.template take<std::uint8_t>(chains);
        std::uint8_t* const states = area.template take<std::uint8_t>(chains);
        exec_->clear(marks, chains);
        exec_->clear(states, chains);
        std::vector<std::uint8_t> marked(chains);
        std::vector<std::uint8_t> changed(chains, touched);
        for (std::uint32_t chain = 0; chain < chains; ++chain) {
            links.state = states + chain;
            // the last two have no fault, and must raise no alarm
            const Fault now = chain + 2 < chains ? fault : Fault::none;
            run_chain(phase, links, chain, now,
                      mixed64(seed_of(phase.name, chain) + static_cast<std::uint64_t>(fault)), marks + chain);
            if (chain % 256 == 0) {
                exec_->mark();
                if (beat) beat(chain);
            }
        }
        exec_->read(marked.data(), marks, chains);
        if (fault == Fault::stuck_operand) exec_->read(changed.data(), states, chains);
        for (std::uint32_t chain = 0; chain < chains; ++chain) {
            const bool injected = chain + 2 < chains;
            if (injected) ++study.injected;
            if (injected && changed[chain] != touched) ++study.masked;
            if (injected && changed[chain] == touched && marked[chain] != 0) ++study.found;
            if ((!injected || changed[chain] != touched) && marked[chain] != 0) ++study.false_alarms;
        }
        return study;
    }

    std::unique_ptr<Exec> exec_;
    std::uint64_t seed_;
};

}  // namespace burn
