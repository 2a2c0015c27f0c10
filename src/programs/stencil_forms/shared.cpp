// A partitioned global address space on the host: processes that share one grid, each of which computes its
// own planes and reads its neighbours' by their addresses. Nothing is sent; a barrier ends each step.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/placement.h"
#include "programs/stencil_forms/row.h"

namespace stencil_forms {

namespace {

/// The shared data of all processes, before the grid.
struct Common {
    std::atomic<int> arrived;
    std::atomic<int> round;
    std::atomic<bool> broken;
};

class Shared : public Form {
  public:
    Shared(const Grid& grid, int processes) : grid_(grid), processes_(processes) {
        // A process inherits the place of the thread that starts it, so if OpenMP binds threads, all
        // processes would share one core.
        const tenken::Placement placement = tenken::find_placement();
        const bool bound = placement.binding != "none" && placement.binding != "false";
        if (bound) cpus_ = placement.thread_cpus;
        void* const memory =
            mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        common_ = new (memory) Common{};
        now_ = reinterpret_cast<double*>(static_cast<char*>(memory) + 4096);
        next_ = now_ + cells_of(grid);
    }
    ~Shared() override { munmap(common_, bytes()); }

    void load(const double* cells) override {
        std::copy(cells, cells + cells_of(grid_), now_);
        std::copy(cells, cells + cells_of(grid_), next_);
    }

    void advance(long steps) override {
        std::vector<pid_t> others;
        for (int rank = 1; rank < processes_; ++rank) {
            const pid_t process = fork();
            if (process == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                bind(rank);
                compute(rank, steps, [] { return false; });
                _exit(0);
            }
            if (process < 0) common_->broken = true;
            if (process > 0) others.push_back(process);
        }
        compute(0, steps, [&] { return ended_early(others); });
        for (pid_t process : others) waitpid(process, nullptr, 0);
        if (common_->broken) throw std::runtime_error("a process that shares the grid did not start or died");
        if (steps % 2 != 0) std::swap(now_, next_);
    }

    void store(double* cells) override { std::copy(now_, now_ + cells_of(grid_), cells); }

  private:
    /// To the CPU of the OpenMP thread of this number; not bound unless OpenMP binds its threads.
    void bind(int rank) const {
        if (cpus_.empty()) return;
        const int cpu = cpus_[static_cast<std::size_t>(rank) % cpus_.size()];
        if (cpu >= 0) tenken::bind_this_thread({cpu});
    }

    std::size_t bytes() const { return 4096 + 2 * cells_of(grid_) * sizeof(double); }

    /// One of the others has died; those that ended after their last step do not count.
    static bool ended_early(const std::vector<pid_t>& others) {
        for (pid_t process : others) {
            siginfo_t info = {};
            waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT);
            if (info.si_pid == process && (info.si_code != CLD_EXITED || info.si_status != 0)) return true;
        }
        return false;
    }

    template <typename Died>
    void barrier(const Died& died) {
        const int round = common_->round;
        if (++common_->arrived == processes_) {
            common_->arrived = 0;
            ++common_->round;
        }
        for (long looks = 1; common_->round == round && !common_->broken; ++looks) {
            if (looks % 1024 == 0 && died()) common_->broken = true;
            std::this_thread::yield();
        }
    }

    template <typename Died>
    void compute(int rank, long steps, const Died& died) {
        const Coefficients<double> c = stencil::coefficients<double>(27);
        const stencil::Slab mine = stencil::slab_of(grid_.nz - 2, rank, processes_);
        const long row = grid_.nx;
        const long plane = row * grid_.ny;
        double* now = now_;
        double* next = next_;
        for (; steps > 0 && !common_->broken; --steps) {
            for (long z = 1 + mine.first; z < 1 + mine.end(); ++z) {
                for (long y = 1; y < grid_.ny - 1; ++y) {
                    const long first = z * plane + y * row;
                    step_row(c, now + first, next + first, row, plane);
                }
            }
            barrier(died);
            std::swap(now, next);
        }
    }

    Grid grid_;
    int processes_;
    std::vector<int> cpus_;
    Common* common_ = nullptr;
    double* now_ = nullptr;
    double* next_ = nullptr;
};

}  // namespace

std::unique_ptr<Form> make_shared(const Grid& grid, int processes) {
    return std::unique_ptr<Form>(new Shared(grid, processes));
}

}  // namespace stencil_forms
