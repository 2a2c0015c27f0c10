#include "lib/file_io/gds_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cuda/check.h"
#include "lib/cuda/memory.h"
#include "lib/file_io/cuda/cufile.h"
#include "lib/file_io/file.h"

extern char** environ;

namespace file_io {

namespace {

constexpr const char* flag = "--gds-probe-child";
constexpr double patience_seconds = 30;
constexpr std::size_t bytes = std::size_t{1} << 20;

/// Executed by the child; the reason of a failure is written to its standard output.
std::string try_it(const std::string& path, int gpu) {
    TENKEN_CUDA(cudaSetDevice(gpu));
    std::string why_not;
    // Never closed: see is_gds_probe().
    static const std::shared_ptr<const CuFile> cufile = CuFile::open(why_not);
    if (!cufile) return why_not;
    tenken::cuda::DeviceArray<char> there(bytes);
    tenken::cuda::DeviceArray<char> back(bytes);
    TENKEN_CUDA(cudaMemset(there.data(), 0x5A, bytes));
    TENKEN_CUDA(cudaMemset(back.data(), 0, bytes));
    TENKEN_CUDA(cudaDeviceSynchronize());
    File file(path, File::Mode::create, true);
    void* const handle = cufile->add(file.direct_descriptor(), path);
    cufile->write(handle, there.data(), bytes, 0, 0, file);
    cufile->read(handle, back.data(), bytes, 0, 0, file);
    std::vector<char> host(bytes);
    TENKEN_CUDA(cudaMemcpy(host.data(), back.data(), bytes, cudaMemcpyDeviceToHost));
    cufile->remove(handle);
    for (char one : host) {
        if (one != 0x5A) return "the data read back differ from the data written";
    }
    return "";
}

}  // namespace

GdsProbe probe_gds(const std::string& path, int gpu, const Settings& settings) {
    GdsProbe probe;
    int ends[2];
    if (pipe(ends) != 0) {
        probe.why_not = std::string("no pipe: ") + std::strerror(errno);
        return probe;
    }
    std::vector<std::string> set;
    for (const Setting& one : settings) set.push_back(one.first + "=" + one.second);
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string variable = std::string(*entry).substr(0, std::strcspn(*entry, "="));
        const bool given = std::any_of(settings.begin(), settings.end(),
                                       [&](const Setting& one) { return one.first == variable; });
        if (!given) environment.push_back(*entry);
    }
    for (std::string& one : set) environment.push_back(&one[0]);
    environment.push_back(nullptr);
    std::string words[] = {"gds-probe", flag, path, std::to_string(gpu)};
    char* arguments[] = {&words[0][0], &words[1][0], &words[2][0], &words[3][0], nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child = 0;
    const int failed =
        posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed != 0) {
        close(ends[0]);
        probe.why_not = std::string("the probe cannot be started: ") + std::strerror(failed);
        return probe;
    }
    const double end = tenken::now_seconds() + patience_seconds;
    bool over = false;
    while (!over && tenken::now_seconds() < end) {
        pollfd waiting = {ends[0], POLLIN, 0};
        if (poll(&waiting, 1, 200) <= 0) continue;
        char text[512];
        const ssize_t count = read(ends[0], text, sizeof text);
        if (count > 0) probe.why_not.append(text, static_cast<std::size_t>(count));
        over = count <= 0;
    }
    close(ends[0]);
    if (!over) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    unlink(path.c_str());
    probe.works = over && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (probe.works) {
        probe.why_not.clear();
    } else if (!over) {
        probe.why_not = "the probe did not end within 30 s";
    } else if (probe.why_not.empty()) {
        probe.why_not = WIFSIGNALED(status) ? "the probe died of signal " + std::to_string(WTERMSIG(status))
                                            : "the probe ended with " + std::to_string(WEXITSTATUS(status));
    }
    return probe;
}

bool is_gds_probe(int argc, char** argv, int& code) {
    if (argc != 4 || std::strcmp(argv[1], flag) != 0) return false;
    std::string why_not;
    try {
        why_not = try_it(argv[2], std::atoi(argv[3]));
    } catch (const std::exception& error) {
        why_not = error.what();
    }
    std::fputs(why_not.c_str(), stdout);
    std::fflush(stdout);
    code = why_not.empty() ? 0 : 1;
    std::_Exit(code);  // a cuFile that has failed may break the normal end of a process
}

}  // namespace file_io
