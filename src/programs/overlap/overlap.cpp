// Computation while a snapshot is written: its cost, by the copies made before the next step
// begins.
#include "catalogue/overlap.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/gds_probe.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/place.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "lib/file_io/workers.h"
#include "programs/overlap/peers.h"
#include "programs/overlap/steps.h"

#ifndef TENKEN_HAVE_MPI
std::unique_ptr<overlap::Peers> overlap::launched_peers() {
    return std::unique_ptr<Peers>(new Peers);
}
#endif

namespace {

using file_io::File;
using file_io::IoConfig;
using file_io::MemorySpace;
using overlap::Peers;
using overlap::Steps;

/// Step numbers of rank r begin at r times this, so that no two ranks have the same state.
constexpr std::uint32_t numbers_of_a_rank = 1000003;

/// none: nothing is written. serial: computation waits for the file. writer: the state is copied to the host,
/// then a thread writes while computation continues. spare: the same, with a free CPU for it. buffer: the
/// state is copied within the GPU, and a thread writes it from there. buffer_cufile: the same by cuFile.
/// Over several ranks each step ends with an exchange of planes, and rank 0 writes the parts of all.
const std::vector<std::string>& modes() {
    static const std::vector<std::string> list = {"none",   "serial",        "writer",       "spare",
                                                  "buffer", "buffer_cufile", "buffer_stream"};
    return list;
}

/// A thread that executes one task at a time.
class Writer {
  public:
    ~Writer() {
        if (thread_.joinable()) thread_.join();
    }
    void begin(std::function<void()> work) {
        thread_ = std::thread([this, work] {
            try {
                work();
            } catch (...) {
                error_ = std::current_exception();
            }
        });
    }
    /// Waits for the started task. @throws its exception
    void finish() {
        if (thread_.joinable()) thread_.join();
        if (!error_) return;
        const std::exception_ptr error = error_;
        error_ = nullptr;
        std::rethrow_exception(error);
    }

  private:
    std::thread thread_;
    std::exception_ptr error_;
};

/// A file that is being written within a stream.
class StreamWrite {
  public:
    StreamWrite(const std::string& path, file_io::IoBackend& io_backend)
        : file_(path, File::Mode::create, io_backend.needs_direct()), io_backend_(io_backend) {
        io_backend_.attach(file_);
    }
    ~StreamWrite() { io_backend_.detach(file_); }
    StreamWrite(const StreamWrite&) = delete;
    StreamWrite& operator=(const StreamWrite&) = delete;
    /// @return the reason of a failure; empty if it was started
    std::string begin(char* memory, std::uint64_t bytes, void* event) {
        return io_backend_.begin_write(file_, {0, bytes, memory}, event);
    }
    void finish(bool synced) {
        io_backend_.end_write(file_);
        if (synced) file_.sync();
    }

  private:
    File file_;
    file_io::IoBackend& io_backend_;
};

class Overlap : public tenken::Program {
  public:
    explicit Overlap(Peers& peers) : peers_(peers), gpus_(file_io::make_gpu_memory_spaces()) {}

    std::string name() const override { return "overlap"; }
    std::string purpose() const override {
        return "A loop of time steps that periodically writes its state: the cost of a snapshot, and how "
               "much of it is hidden by computing, for each method of writing.";
    }
    std::int64_t default_repetitions() const override { return 10; }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("backend", backend_, tenken::backends(gpus_ != nullptr),
                         "host: computed by the CPUs; cuda: by every GPU in turn");
        arguments.text("path", path_, "DIR", "the folder to write in");
        arguments.bytes("bytes", bytes_, 4096, std::uint64_t{1} << 50,
                        "bytes of the state, a multiple of 4096 in each rank");
        arguments.real("step-ms", step_ms_, "ms", 0.1, 60000, "time of a step without writing");
        arguments.integer("steps", steps_, 2, 1000000, "steps of a loop; a repetition is a whole loop");
        arguments.integer("every", every_, 1, 1000000, "write every N steps");
        arguments.text("modes", asked_modes_, "LIST",
                       "all, or some of none, serial, writer, spare (host), buffer, buffer_cufile, "
                       "buffer_stream (cuda); none "
                       "and serial always run");
        arguments.bytes("block-bytes", block_, 4096, std::uint64_t{1} << 30,
                        "block of a write, a multiple of 4096");
        arguments.integer("threads", threads_, 0, 1024, "threads that write; 0: 4 for cuda, 1 for host");
        arguments.flag("synced", synced_, "each snapshot ends with fsync");
        if (!gpus_) return;
        arguments.heading("back end cuda");
        gpus_->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        const std::uint64_t ranks = static_cast<std::uint64_t>(peers_.size());
        if (bytes_ % (4096 * ranks) != 0) {
            throw arguments.error("bytes", "a multiple of 4096 times the number of ranks");
        }
        part_ = bytes_ / ranks;
        if (backend_ != "host" && ranks > 1)
            throw arguments.error("backend", "host if there are several ranks");
        if (block_ % 4096 != 0) throw arguments.error("block-bytes", "a multiple of 4096");
        if (every_ >= steps_)
            throw arguments.error("every", "fewer than --steps: steps must follow a snapshot");
        std::istringstream in(asked_modes_ == "all" ? "" : asked_modes_);
        std::string word;
        while (std::getline(in, word, ',')) {
            if (std::find(modes().begin(), modes().end(), word) == modes().end()) {
                throw arguments.error(
                    "modes", "all, or some of none,serial,writer,spare,buffer,buffer_cufile,buffer_stream");
            }
            chosen_.push_back(word);
        }
        if (asked_modes_ == "all") chosen_ = modes();
        if (threads_ == 0) threads_ = backend_ == "host" ? 1 : std::min<int>(4, cpus());
        place_ = file_io::find_place(arguments, "path", path_);
        file_io::require_space(arguments, "path", place_, 2 * bytes_,
                               "two states of " + tenken::format_bytes(bytes_));
        const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
        const std::uint64_t arrays = backend_ != "host" ? 1 : ranks > 1 ? 5 : 4;
        const std::uint64_t need = arrays * part_ * static_cast<std::uint64_t>(peers_.local_size());
        if (need > available) {
            throw arguments.error("bytes", "what fits into memory: " + tenken::format_bytes(need) +
                                               " needed on the host, free " +
                                               tenken::format_bytes(available));
        }
        if (backend_ == "host") return;
        gpus_->prepare(arguments);
        gpus_->require_fit(arguments, "bytes", 4 * bytes_, "four arrays of " + tenken::format_bytes(bytes_));
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
        tenken::Document& document = run.document;
        document.build.backends = tenken::backends(gpus_ != nullptr);
        document.path("backend", backend_);
        place_.describe(document);
        if (backend_ == "host") {
            measure_on(*file_io::make_host_memory_space(cpus()));
        } else {
            gpus_->each(static_cast<int>(threads_), place_.folder,
                        [&](MemorySpace& space) { measure_on(space); });
        }
        document.placement = tenken::find_placement();
        document.placement.ranks = peers_.size();
        document.placement.nodes = peers_.nodes();
        if (!peers_.library().empty()) document.build.mpi = peers_.library();
        if (!peers_.thread_level().empty()) document.path("mpi_thread_level", peers_.thread_level());
        if (gpus_ && backend_ != "host") gpus_->report(document);
    }

  private:
    static int cpus() { return file_io::usable_threads(); }

    bool has_cufile(MemorySpace& space) {
        for (const std::string& method : space.methods()) {
            const bool direct = method == "gds" || method == "cufile_compat";
            if (direct && !place_.direct_refused) cufile_ = method;
            if (method == "cufile_compat_buffered" && cufile_.empty()) cufile_ = method;
        }
        return !cufile_.empty();
    }

    std::string why_not(MemorySpace& space, const std::string& mode) {
        if (mode == "spare" && !space.is_host()) return "CPUs do not compute here";
        if (mode == "spare" && cpus() < 2) return "there is one CPU";
        if (mode.compare(0, 6, "buffer") == 0 && space.is_host()) return "no GPU to buffer on";
        if ((mode == "writer" || mode == "spare") && !peers_.two_threads_may_call()) {
            return "two threads would call MPI at once, which provides " + peers_.thread_level();
        }
        const bool cufile = mode == "buffer_cufile" || mode == "buffer_stream";
        if (cufile && !has_cufile(space)) return "there is no cuFile";
        return "";
    }

    void measure_on(MemorySpace& space) {
        state_ = space.allocate(part_);
        plane_ = peers_.size() > 1 ? plane_of(bytes_, part_) : 0;
        before_.resize(plane_);
        after_.resize(plane_);
        if (peers_.size() > 1 && peers_.rank() == 0) received_ = space.staging(part_);
        std::vector<std::string> list = {"none", "serial"};
        for (const std::string& mode : chosen_) {
            if (std::find(list.begin(), list.end(), mode) != list.end()) continue;
            const std::string why = why_not(space, mode);
            if (why.empty()) {
                list.push_back(mode);
            } else {
                run_->document.path("left_out." + mode, why);
            }
        }
        all_ = space.is_host() ? overlap::make_host_steps(state_.get(), part_, cpus())
                               : overlap::make_gpu_steps(state_.get(), part_);
        peers_.alive("calibration");
        peers_.barrier();
        // the same work in all ranks
        const int passes = std::stoi(peers_.broadcast(std::to_string(all_->calibrate(step_ms_ / 1e3))));
        all_->set_passes(passes);
        run_->document.path("passes_of_a_step." + space.name(), passes);
        if (std::find(list.begin(), list.end(), "spare") != list.end()) {
            fewer_ = overlap::make_host_steps(state_.get(), part_, cpus() - 1);
            fewer_->set_passes(passes);  // the work of all CPUs, by fewer of them
        }
        if (std::find(list.begin(), list.end(), "writer") != list.end() ||
            std::find(list.begin(), list.end(), "spare") != list.end()) {
            copy_on_host_ = space.staging(part_);
        }
        if (std::find_if(list.begin(), list.end(), [](const std::string& mode) {
                return mode.compare(0, 6, "buffer") == 0;
            }) != list.end()) {
            second_ = space.allocate(part_);
        }
        host_ = file_io::make_host_memory_space(static_cast<int>(threads_));
        const IoConfig posix = IoConfig{"posix", block_, static_cast<int>(threads_)};
        const std::unique_ptr<file_io::IoBackend> from_host = host_->io_backend(posix);
        const std::unique_ptr<file_io::IoBackend> from_space = space.io_backend(posix);
        std::unique_ptr<file_io::IoBackend> by_cufile;
        if (!cufile_.empty()) {
            by_cufile = space.io_backend(
                IoConfig{cufile_, std::max<std::uint64_t>(block_, 4 << 20), static_cast<int>(threads_)});
            run_->document.path("cufile_method", cufile_);
        }
        std::unique_ptr<file_io::RunFolder> folder;
        std::unique_ptr<file_io::ScratchFile> scratch;
        if (peers_.rank() == 0) {
            folder.reset(new file_io::RunFolder(place_.folder, "overlap"));
            scratch.reset(new file_io::ScratchFile(folder->file("state")));
            file_ = scratch->path();
        }
        const auto in_stream = std::find(list.begin(), list.end(), "buffer_stream");
        if (in_stream != list.end()) {
            const std::string why = try_stream(*by_cufile);
            if (!why.empty()) {
                run_->document.path("left_out.buffer_stream", why);
                list.erase(in_stream);
            }
        }
        file_io::Rounds rounds;
        rounds.minimum = rounds.maximum = run_->repetitions;
        rounds.keep = 0;
        space.begin_timed();
        const std::vector<std::vector<double>> seconds =
            file_io::run_rounds(list.size(), rounds, [&](std::size_t i, long round) {
                const double one = loop(space, list[i], *from_host, *from_space, by_cufile.get());
                if (round == 0 && list[i] != "none" && peers_.rank() == 0) verify(space, list[i]);
                return one;
            });
        space.end_timed();
        report(space, list, seconds);
        all_.reset();
        fewer_.reset();
        host_.reset();
        state_.reset();
        second_.reset();
        copy_on_host_.reset();
        received_.reset();
    }

    /// Bytes of a plane of the state as a cube of doubles; at most half of a part.
    static std::uint64_t plane_of(std::uint64_t bytes, std::uint64_t part) {
        const double side = std::floor(std::cbrt(static_cast<double>(bytes) / sizeof(double)) + 0.5);
        return std::min(
            {static_cast<std::uint64_t>(side * side) * sizeof(double), part / 2, std::uint64_t{1} << 30});
    }

    /// The number of a step as the seed of this rank's state, or of another's.
    static std::uint32_t number(std::int64_t step, int rank) {
        return static_cast<std::uint32_t>(step) + static_cast<std::uint32_t>(rank) * numbers_of_a_rank;
    }

    tenken::Subject subject(MemorySpace& space) const {
        return peers_.size() > 1 ? tenken::Subject::ranks(peers_.size()) : space.subject();
    }

    void exchange(Steps& steps) {
        if (plane_ == 0) return;
        steps.wait();
        const char* const state = state_.get();
        peers_.exchange({state, state + part_ - plane_, before_.data(), after_.data()},
                        static_cast<int>(plane_));
    }

    /// The planes of the neighbours must be those of the last step.
    void verify_planes() const {
        if (plane_ == 0) return;
        const int ranks = peers_.size();
        const file_io::Words previous = {number(steps_, (peers_.rank() + ranks - 1) % ranks),
                                         file_io::Words::floats};
        const file_io::Words next = {number(steps_, (peers_.rank() + 1) % ranks), file_io::Words::floats};
        const std::uint32_t* const before = reinterpret_cast<const std::uint32_t*>(before_.data());
        const std::uint32_t* const after = reinterpret_cast<const std::uint32_t*>(after_.data());
        const std::uint64_t first = (part_ - plane_) / sizeof(std::uint32_t);
        for (std::uint64_t i = 0; i < plane_ / sizeof(std::uint32_t); ++i) {
            if (before[i] != previous(first + i) || after[i] != next(i)) {
                throw std::runtime_error("rank " + std::to_string(peers_.rank()) +
                                         ": a plane of a neighbour is not that of the last step, word " +
                                         std::to_string(i));
            }
        }
    }

    void write(file_io::IoBackend& io_backend, char* memory) {
        if (peers_.rank() > 0) return peers_.send_part(memory, part_);
        File file(file_, File::Mode::create, io_backend.needs_direct());
        io_backend.attach(file);
        io_backend.write(file, {{0, part_, memory}});
        for (int rank = 1; rank < peers_.size(); ++rank) {
            peers_.receive_part(received_.get(), part_, rank);
            io_backend.write(file, {{static_cast<std::uint64_t>(rank) * part_, part_, received_.get()}});
        }
        if (synced_) file.sync();
        io_backend.detach(file);
    }

    /// Whether cuFile can write within a stream here. @return why not
    std::string try_stream(file_io::IoBackend& io_backend) {
        try {
            StreamWrite write(file_, io_backend);
            const std::string why = write.begin(second_.get(), part_, all_->event());
            if (!why.empty()) return why;
            write.finish(false);
            return "";
        } catch (const file_io::FileError& error) {
            return error.what();
        }
    }

    double loop(MemorySpace& space, const std::string& mode, file_io::IoBackend& from_host,
                file_io::IoBackend& from_space, file_io::IoBackend* by_cufile) {
        Steps& steps = mode == "spare" ? *fewer_ : *all_;
        Writer writer;
        std::unique_ptr<StreamWrite> in_stream;
        const auto finish_stream = [&] {
            if (in_stream) in_stream->finish(synced_);
            in_stream.reset();
        };
        peers_.alive("a loop");
        peers_.barrier();
        const double begin = tenken::now_seconds();
        for (std::int64_t s = 1; s <= steps_; ++s) {
            steps.step(number(s, peers_.rank()));
            exchange(steps);
            if (s % every_ != 0 || mode == "none") continue;
            if (mode == "serial") {
                steps.wait();
                write(from_space, state_.get());
                continue;
            }
            writer.finish();  // its source is in use
            if (mode == "writer" || mode == "spare") {
                steps.wait();
                if (space.is_host()) {
                    steps.copy_state(copy_on_host_.get());
                } else {
                    space.to_host(copy_on_host_.get(), state_.get(), part_);
                    space.wait();
                }
                writer.begin([&] { write(from_host, copy_on_host_.get()); });
                continue;
            }
            if (mode == "buffer_stream") {
                finish_stream();
                steps.copy_state(second_.get());
                in_stream.reset(new StreamWrite(file_, *by_cufile));
                const std::string why = in_stream->begin(second_.get(), part_, steps.event());
                if (!why.empty()) throw file_io::FileError("cuFile cannot write within a stream: " + why);
                continue;
            }
            steps.copy_state(second_.get());
            const std::function<void()> copied = steps.marker();
            file_io::IoBackend& io_backend = mode == "buffer" ? from_space : *by_cufile;
            writer.begin([this, &space, &io_backend, copied] {
                space.enter_thread();
                copied();
                write(io_backend, second_.get());
            });
        }
        steps.wait();
        writer.finish();
        finish_stream();
        const double seconds = tenken::now_seconds() - begin;
        verify_planes();
        return peers_.largest({seconds}).front();  // of the slowest rank
    }

    /// The last snapshot must contain the state of its step, although later steps have changed it.
    void verify(MemorySpace& space, const std::string& mode) {
        const std::int64_t last = steps_ / every_ * every_;
        File file(file_, File::Mode::modify, false);
        // in the part of a rank that is neither the first nor the last of several
        if (run_->fault == tenken::Fault::element) file_io::flip_bit(file, bytes_ / 2);
        tenken::Check worst;
        worst.error = -1;
        for (int rank = 0; rank < peers_.size(); ++rank) {
            const std::uint64_t offset = static_cast<std::uint64_t>(rank) * part_;
            const file_io::Words expected = {number(last, rank), file_io::Words::floats};
            const file_io::Mismatch mismatch = file_io::compare_file(file, offset, part_ / 4, expected);
            const tenken::Check check =
                file_io::check_of(mismatch, catalogue::snapshot(), file_, offset, mismatch.first);
            if (check.error > worst.error) worst = check;
        }
        worst.subject = subject(space);
        worst.at = {{"step", tenken::Json(last)}, {"mode", tenken::Json(mode)}};
        run_->document.add(worst);
    }

    void report(MemorySpace& space, const std::vector<std::string>& list,
                const std::vector<std::vector<double>>& seconds) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            tenken::Metric loop;
            loop.name = "loop";
            loop.subject = subject(space);
            loop.at = {{"mode", tenken::Json(list[i])}};
            loop.timed(seconds[i]);
            run_->document.add(loop);
        }
    }

    Peers& peers_;
    std::unique_ptr<file_io::GpuMemorySpaces> gpus_;
    std::string backend_ = "host";
    std::string path_ = ".";
    std::uint64_t bytes_ = std::uint64_t{64} << 20;
    double step_ms_ = 20;
    std::int64_t steps_ = 42;
    std::int64_t every_ = 10;
    std::string asked_modes_ = "all";
    std::uint64_t block_ = 2 << 20;
    std::int64_t threads_ = 0;
    bool synced_ = false;

    std::vector<std::string> chosen_;
    file_io::Place place_;
    tenken::Run* run_ = nullptr;
    std::string cufile_;
    std::string file_;
    file_io::Memory state_;
    file_io::Memory second_;
    file_io::Memory copy_on_host_;
    std::uint64_t part_ = 0;   ///< bytes of the state in each rank
    std::uint64_t plane_ = 0;  ///< bytes that neighbours exchange; 0 in a single process
    std::vector<char> before_;
    std::vector<char> after_;
    file_io::Memory received_;  ///< the part of another rank, on its way to the file
    std::unique_ptr<MemorySpace> host_;
    std::unique_ptr<Steps> all_;
    std::unique_ptr<Steps> fewer_;
};

}  // namespace

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    const std::unique_ptr<Peers> peers = overlap::launched_peers();
    Overlap program(*peers);
    return tenken::run_program(program, argc, argv, *peers);
}
