#include "lib/mpi/probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/base/clock.h"
#include "lib/mpi/buffer.h"
#include "lib/mpi/rank_gpus.h"

extern char** environ;

namespace mpi_p2p {

namespace {

constexpr const char* flag = "--probe-child";
constexpr double patience_seconds = 30;
enum Exit { good = 0, wrong_data = 10, no_gpu = 11 };

/// Variables that a launcher sets for its ranks; with them the child would consider itself one of the ranks.
/// Settings of the MPI (OMPI_MCA_pml, UCX_...) remain.
bool set_by_launcher(const char* entry) {
    static const char* const prefixes[] = {"OMPI_COMM_WORLD",
                                           "OMPI_UNIVERSE",
                                           "OMPI_APP_CTX",
                                           "OMPI_FIRST_RANKS",
                                           "OMPI_MCA_ess",
                                           "OMPI_MCA_orte",
                                           "OMPI_MCA_pmix",
                                           "OMPI_NUM_APP",
                                           "PMIX_",
                                           "PMI_",
                                           "PMI2_",
                                           "PRTE_",
                                           "HYDI_",
                                           "MPI_LOCALRANKID",
                                           "MPI_LOCALNRANKS",
                                           "MV2_COMM_WORLD",
                                           "SLURM_",
                                           "OMPI_FILE_LOCATION",
                                           "OMPI_ARGV",
                                           "OMPI_COMMAND",
                                           "MPIR_CVAR_CH4_ROOT",
                                           "PALS_"};
    for (const char* prefix : prefixes) {
        if (std::strncmp(entry, prefix, std::strlen(prefix)) == 0) return true;
    }
    return false;
}

std::unique_ptr<Buffer> make(const std::string& kind, std::size_t bytes) {
    if (kind == "host") return make_host_buffer(bytes);
    static const std::unique_ptr<RankGpus> gpu = make_rank_gpus();
    if (!gpu) std::_Exit(no_gpu);
    static const bool ready = [] {
        tenken::Arguments arguments("probe", "");
        gpu->options(arguments);
        gpu->prepare(arguments, 0);
        return true;
    }();
    (void)ready;
    return gpu->buffer(kind == "managed" ? Kind::managed : Kind::device, bytes);
}

int try_messages(const std::string& kind, std::size_t bytes) {
    const std::unique_ptr<Buffer> from = make(kind, bytes);
    const std::unique_ptr<Buffer> to = make(kind, bytes);
    from->fill(0, bytes, {1, 1});
    to->clear(0, bytes);
    MPI_Request requests[2];
    const int count = static_cast<int>(bytes);
    MPI_Irecv(to->at(0), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(from->at(0), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    return to->compare(0, bytes, {1, 1}).passed() ? good : wrong_data;
}

int try_collectives(const std::string& kind, std::size_t bytes) {
    const std::unique_ptr<Buffer> from = make(kind, bytes);
    const std::unique_ptr<Buffer> to = make(kind, bytes);
    from->fill(0, bytes, {1, 1});
    to->clear(0, bytes);
    const int count = static_cast<int>(bytes / sizeof(double));
    MPI_Allreduce(from->at(0), to->at(0), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!to->compare(0, bytes, {1, 1}).passed()) return wrong_data;
    to->clear(0, bytes);
    MPI_Alltoall(from->at(0), count, MPI_DOUBLE, to->at(0), count, MPI_DOUBLE, MPI_COMM_WORLD);
    if (!to->compare(0, bytes, {1, 1}).passed()) return wrong_data;
    // With one rank nothing is added; what is tested is the local reduction, which must run where the numbers
    // are.
    from->fill(0, bytes, {2, 2});
    MPI_Reduce_local(from->at(0), to->at(0), count, MPI_DOUBLE, MPI_SUM);
    return to->compare(0, bytes, {3, 3}).passed() ? good : wrong_data;
}

int child(const std::string& what, const std::string& kind) {
    MPI_Init(nullptr, nullptr);
    int result = good;
    for (std::size_t bytes : {std::size_t{64}, std::size_t{1} << 20}) {
        if (result == good)
            result = what == "messages" ? try_messages(kind, bytes) : try_collectives(kind, bytes);
    }
    // Errors while MPI is finalised are unrelated to messages.
    std::_Exit(result);
}

std::string meaning_of(int status) {
    if (WIFSIGNALED(status)) {
        return "ended with signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
               ")";
    }
    switch (WEXITSTATUS(status)) {
        case wrong_data:
            return "received wrong data";
        case no_gpu:
            return "has no CUDA";
        default:
            return "ended with exit code " + std::to_string(WEXITSTATUS(status));
    }
}

}  // namespace

bool is_probe(int argc, char** argv, int& code) {
    if (argc != 4 || std::strcmp(argv[1], flag) != 0) return false;
    try {
        code = child(argv[2], argv[3]);
    } catch (const std::exception&) {
        code = no_gpu;
    }
    return true;
}

Probe probe(const std::string& what, const std::string& kind) {
    const std::string trial =
        "a process that tried " + what + " from and to " + kind + " memory with itself ";
    Probe result;
    std::vector<char*> kept;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (!set_by_launcher(*entry)) kept.push_back(*entry);
    }
    kept.push_back(nullptr);
    std::string words[] = {"/proc/self/exe", flag, what, kind};
    char* arguments[] = {&words[0][0], &words[1][0], &words[2][0], &words[3][0], nullptr};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    const int failed = posix_spawn(&pid, words[0].c_str(), &quiet, nullptr, arguments, kept.data());
    posix_spawn_file_actions_destroy(&quiet);
    if (failed != 0) {
        result.why_not = trial + "could not be started: " + std::strerror(failed);
        return result;
    }
    const double begin = tenken::now_seconds();
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
        if (tenken::now_seconds() - begin > patience_seconds) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            result.why_not = trial + "had not ended after 30 s";
            return result;
        }
        usleep(10000);
    }
    result.works = ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == good;
    if (!result.works) result.why_not = trial + (ended == pid ? meaning_of(status) : "was lost");
    return result;
}

std::string cuda_support() {
    typedef int (*Query)();
    Query query = nullptr;
    *reinterpret_cast<void**>(&query) = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    if (query == nullptr) return "not reported";
    return query() != 0 ? "yes" : "no";
}

}  // namespace mpi_p2p
