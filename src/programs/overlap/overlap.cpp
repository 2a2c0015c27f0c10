// Computation while a snapshot is written: its cost, by the copies made before the next step
// begins.
#include "catalogue/overlap.h"

#include <algorithm>
#include <sstream>
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
#include "programs/overlap/steps.h"

namespace {

using file_io::File;
using file_io::IoConfig;
using file_io::MemorySpace;
using overlap::Steps;

/// none: nothing is written. serial: computation waits for the file. writer: the state is copied to the host,
/// then a thread writes while computation continues. spare: the same, with a free CPU for it. buffer: the
/// state is copied within the GPU, and a thread writes it from there. buffer_cufile: the same by cuFile.
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
    Overlap() : gpus_(file_io::make_gpu_memory_spaces()) {}

    std::string name() const override { return "overlap"; }
    std::string purpose() const override {
        return "A loop of time steps that periodically writes its state: the cost of a snapshot, and how "
               "much of it is hidden by computing, for each method of writing.";
    }
    std::int64_t default_repetitions() const override { return 10; }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> backends = {"host"};
        if (gpus_) backends.push_back("cuda");
        arguments.choice("backend", backend_, backends,
                         "host: computed by the CPUs; cuda: by every GPU in turn");
        arguments.text("path", path_, "DIR", "the folder to write in");
        arguments.bytes("bytes", bytes_, 4096, std::uint64_t{1} << 50,
                        "bytes of the state, a multiple of 4096");
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
        if (bytes_ % 4096 != 0) throw arguments.error("bytes", "a multiple of 4096");
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
        const std::uint64_t need = (backend_ == "host" ? 4 : 1) * bytes_;
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
        document.build.backends = {"host"};
        if (gpus_) document.build.backends.push_back("cuda");
        document.path("backend", backend_);
        place_.describe(document);
        if (backend_ == "host") {
            measure_on(*file_io::make_host_memory_space(cpus()));
        } else {
            gpus_->each(static_cast<int>(threads_), place_.folder,
                        [&](MemorySpace& space) { measure_on(space); });
        }
        document.placement = tenken::find_placement();
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
        const bool cufile = mode == "buffer_cufile" || mode == "buffer_stream";
        if (cufile && !has_cufile(space)) return "there is no cuFile";
        return "";
    }

    void measure_on(MemorySpace& space) {
        state_ = space.allocate(bytes_);
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
        all_ = space.is_host() ? overlap::make_host_steps(state_.get(), bytes_, cpus())
                               : overlap::make_gpu_steps(state_.get(), bytes_);
        const int passes = all_->calibrate(step_ms_ / 1e3);
        run_->document.path("passes_of_a_step." + space.name(), passes);
        if (std::find(list.begin(), list.end(), "spare") != list.end()) {
            fewer_ = overlap::make_host_steps(state_.get(), bytes_, cpus() - 1);
            fewer_->set_passes(passes);  // the work of all CPUs, by fewer of them
        }
        if (std::find(list.begin(), list.end(), "writer") != list.end() ||
            std::find(list.begin(), list.end(), "spare") != list.end()) {
            copy_on_host_ = space.staging(bytes_);
        }
        if (std::find_if(list.begin(), list.end(), [](const std::string& mode) {
                return mode.compare(0, 6, "buffer") == 0;
            }) != list.end()) {
            second_ = space.allocate(bytes_);
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
        const file_io::RunFolder folder(place_.folder, "overlap");
        file_ = folder.file("state");
        const file_io::ScratchFile scratch(file_);
        file_ = scratch.path();
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
                if (round == 0 && list[i] != "none") verify(space, list[i]);
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
    }

    void write(file_io::IoBackend& io_backend, char* memory) {
        File file(file_, File::Mode::create, io_backend.needs_direct());
        io_backend.attach(file);
        io_backend.write(file, {{0, bytes_, memory}});
        if (synced_) file.sync();
        io_backend.detach(file);
    }

    /// Whether cuFile can write within a stream here. @return why not
    std::string try_stream(file_io::IoBackend& io_backend) {
        try {
            StreamWrite write(file_, io_backend);
            const std::string why = write.begin(second_.get(), bytes_, all_->event());
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
        const double begin = tenken::now_seconds();
        for (std::int64_t s = 1; s <= steps_; ++s) {
            steps.step(static_cast<std::uint32_t>(s));
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
                    space.to_host(copy_on_host_.get(), state_.get(), bytes_);
                    space.wait();
                }
                writer.begin([&] { write(from_host, copy_on_host_.get()); });
                continue;
            }
            if (mode == "buffer_stream") {
                finish_stream();
                steps.copy_state(second_.get());
                in_stream.reset(new StreamWrite(file_, *by_cufile));
                const std::string why = in_stream->begin(second_.get(), bytes_, steps.event());
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
        return tenken::now_seconds() - begin;
    }

    /// The last snapshot must contain the state of its step, although later steps have changed it.
    void verify(MemorySpace& space, const std::string& mode) {
        const std::uint32_t last = static_cast<std::uint32_t>(steps_ / every_ * every_);
        const file_io::Words expected = {last, file_io::Words::floats};
        File file(file_, File::Mode::modify, false);
        if (run_->fault == tenken::Fault::element) file_io::flip_bit(file, bytes_ / 2);
        const file_io::Mismatch mismatch = file_io::compare_file(file, 0, bytes_ / 4, expected);
        tenken::Check check = file_io::check_of(mismatch, catalogue::snapshot(), file_, 0, mismatch.first);
        check.subject = space.subject();
        check.at = {{"step", tenken::Json(last)}, {"mode", tenken::Json(mode)}};
        run_->document.add(check);
    }

    void report(MemorySpace& space, const std::vector<std::string>& list,
                const std::vector<std::vector<double>>& seconds) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            tenken::Metric loop;
            loop.name = "loop";
            loop.subject = space.subject();
            loop.at = {{"mode", tenken::Json(list[i])}};
            loop.timed(seconds[i]);
            run_->document.add(loop);
        }
    }

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
    std::unique_ptr<MemorySpace> host_;
    std::unique_ptr<Steps> all_;
    std::unique_ptr<Steps> fewer_;
};

}  // namespace

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    Overlap program;
    return tenken::run_program(program, argc, argv);
}
