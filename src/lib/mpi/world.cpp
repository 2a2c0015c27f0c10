#include "lib/mpi/world.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "lib/base/clock.h"
#include "lib/base/placement.h"

namespace tenken {
namespace mpi {

namespace {

std::string node_name() {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0) return "unknown";
    return name;
}

/// How long a failed rank waits for others that know more: for the printing rank to fail as well and write
/// its document, and for the launcher to report which rank a signal ended. A launcher on a host whose cores
/// wait in MPI has needed more than 1.5 s.
constexpr unsigned grace_seconds = 2, launcher_seconds = 6;

}  // namespace

void fail(int code, const char* expression, const char* file, int line) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    int kind = MPI_ERR_UNKNOWN;
    MPI_Error_class(code, &kind);
    // Errors that transports return for a dead peer. They may detect it before the launcher does. But only
    // the launcher knows which rank it was, and it would report only the end of this rank if that came first.
    const bool peer_lost = kind == MPI_ERR_INTERN || kind == MPI_ERR_OTHER || kind == MPI_ERR_UNKNOWN;
    if (peer_lost) sleep(launcher_seconds);
    const std::string path = file;
    const std::size_t root = path.rfind("/src/");
    throw MpiError(std::string(expression) + " failed: " + text +
                   (peer_lost ? "; perhaps another rank has died; " : "; ") +
                   (root == std::string::npos ? path : path.substr(root + 1)) + ":" + std::to_string(line));
}

int launched_rank() {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"}) {
        const char* const value = std::getenv(name);
        if (value != nullptr && *value != '\0') return std::atoi(value);
    }
    return -1;
}

World::World(std::string program, int threads) : program_(std::move(program)), thread_level_(threads) {
    rank_ = std::max(0, launched_rank());
}

World::~World() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        watching_ = false;
    }
    changed_.notify_all();
    if (watcher_.joinable()) watcher_.join();
}

void World::begin() {
    heard_seconds_ = now_seconds();
    process_cpus();  // determined before the monitoring thread starts
    const int result = MPI_Init_thread(nullptr, nullptr, thread_level_, &thread_level_);
    if (result != MPI_SUCCESS) throw MpiError("MPI_Init_thread failed with " + std::to_string(result));
    begun_ = true;
    watching_ = true;
    watcher_ = std::thread([this] { watch(); });
    TENKEN_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TENKEN_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    TENKEN_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size_));
    MPI_Comm node;
    TENKEN_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
    TENKEN_MPI(MPI_Comm_rank(node, &local_rank_));
    TENKEN_MPI(MPI_Comm_size(node, &local_size_));
    TENKEN_MPI(MPI_Comm_free(&node));
    nodes_ = gather(node_name());
    std::string all;
    for (const std::string& name : nodes_) all += name + "\n";
    all = broadcast(all);
    nodes_.clear();
    for (std::size_t begin = 0; begin < all.size();) {
        const std::size_t end = all.find('\n', begin);
        nodes_.push_back(all.substr(begin, end - begin));
        begin = end + 1;
    }
    alive("getting ready");
}

bool World::speaks() const {
    return rank_ == 0;
}

Team::State World::agree(const State& mine) {
    struct {
        int grade;
        int rank;
    } own = {static_cast<int>(mine.grade), rank_}, worst = {0, 0};
    // For equal values MAXLOC returns the lowest rank.
    TENKEN_MPI(MPI_Allreduce(&own, &worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD));
    State state;
    state.grade = static_cast<State::Grade>(worst.grade);
    if (state.grade != State::ready) state.text = broadcast(mine.text, worst.rank);
    return state;
}

void World::set_last_will(std::function<void(const std::string&)> will) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (speaks()) last_will_ = std::move(will);
}

void World::give_up(const std::string& what) {
    std::fprintf(stderr, "%s: rank %d on %s: %s\n", program_.c_str(), rank_, node_name().c_str(),
                 what.c_str());
    std::fflush(stderr);
    if (begun_) MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);  // if MPI could not end it
}

void World::abandon(const std::string& what) {
    if (!speaks()) sleep(grace_seconds);
    give_up(what);
}

void World::end() {
    if (!begun_) return;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        watching_ = false;
        last_will_ = nullptr;
    }
    changed_.notify_all();
    if (watcher_.joinable()) watcher_.join();
    MPI_Finalize();
    begun_ = false;
}

void World::alive(const std::string& doing) {
    const std::lock_guard<std::mutex> lock(mutex_);
    doing_ = doing;
    heard_seconds_ = now_seconds();
}

void World::watch() {
    bind_this_thread(process_cpus());
    std::unique_lock<std::mutex> lock(mutex_);
    while (watching_) {
        const double silent = now_seconds() - heard_seconds_;
        // The printing rank comes first, so that its document states the reason.
        if (silent > patience_seconds_ + (speaks() ? 0.0 : grace_seconds)) {
            char what[256];
            std::snprintf(what, sizeof what, "no progress for %.0f s in: %s; another rank has died or hangs",
                          silent, doing_.c_str());
            const std::function<void(const std::string&)> will = last_will_;
            lock.unlock();
            // The main thread waits in MPI: no other thread accesses the document.
            if (will) will(what);
            std::fprintf(stderr, "%s: rank %d on %s: %s\n", program_.c_str(), rank_, node_name().c_str(),
                         what);
            std::fflush(stderr);
            std::_Exit(1);  // not through MPI, which this thread may not call
        }
        changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return !watching_; });
    }
}

int World::node_count() const {
    return static_cast<int>(std::set<std::string>(nodes_.begin(), nodes_.end()).size());
}

std::string World::library() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
    const std::string all = text;
    return all.substr(0, all.find('\n'));
}

void World::barrier() const {
    TENKEN_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

std::vector<std::string> World::gather(const std::string& mine) const {
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_));
    TENKEN_MPI(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD));
    std::vector<int> places(lengths.size());
    int total = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        places[i] = total;
        total += lengths[i];
    }
    std::vector<char> text(static_cast<std::size_t>(rank_ == 0 ? total : 0) + 1);
    TENKEN_MPI(MPI_Gatherv(mine.data(), length, MPI_CHAR, text.data(), lengths.data(), places.data(),
                           MPI_CHAR, 0, MPI_COMM_WORLD));
    std::vector<std::string> texts;
    if (rank_ != 0) return texts;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        texts.emplace_back(text.data() + places[i], static_cast<std::size_t>(lengths[i]));
    }
    return texts;
}

std::string World::broadcast(const std::string& text, int root) const {
    int length = static_cast<int>(text.size());
    TENKEN_MPI(MPI_Bcast(&length, 1, MPI_INT, root, MPI_COMM_WORLD));
    std::vector<char> all(text.begin(), text.end());
    all.resize(static_cast<std::size_t>(length) + 1);
    TENKEN_MPI(MPI_Bcast(all.data(), length, MPI_CHAR, root, MPI_COMM_WORLD));
    return std::string(all.data(), static_cast<std::size_t>(length));
}

std::vector<double> World::largest(std::vector<double> mine) const {
    TENKEN_MPI(MPI_Allreduce(MPI_IN_PLACE, mine.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX,
                             MPI_COMM_WORLD));
    return mine;
}

double World::broadcast(double value) const {
    TENKEN_MPI(MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    return value;
}

}  // namespace mpi
}  // namespace tenken
