#include "programs/burn/watch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

#include "lib/base/clock.h"

namespace burn {

namespace {

constexpr useconds_t poll_microseconds = 20000;
/// Even SIGKILL may not end a process that waits for a dead GPU.
constexpr double kill_seconds = 10;

pid_t watched = 0;

extern "C" void pass_on(int number) {
    if (watched > 0) kill(watched, number);
}

std::string what(const Beat& beat) {
    char text[192];
    std::snprintf(text, sizeof text, "%s %s, %llu steps, %llu wrong", beat.subject, beat.phase,
                  static_cast<unsigned long long>(beat.steps.load()),
                  static_cast<unsigned long long>(beat.wrong.load()));
    return std::string(text) + (beat.sensors[0] == '\0' ? "" : ", " + std::string(beat.sensors));
}

}  // namespace

Board* Board::shared() {
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    return new (memory) Board();
}

std::string Board::line() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f s", begin > 0 ? tenken::now_seconds() - begin : 0.0);
    std::string all = text;
    for (int i = 0; i < places; ++i) all += "; " + what(beats[i]);
    return all;
}

Ending watch(pid_t process, const Board& board) {
    watched = process;
    for (int number : {SIGTERM, SIGINT, SIGHUP}) {
        if (signal(number, pass_on) == SIG_IGN) signal(number, SIG_IGN);
    }
    Ending ending;
    double told = tenken::now_seconds();
    double killed = 0;
    while (true) {
        int status = 0;
        const pid_t ended = waitpid(process, &status, WNOHANG);
        const double now = tenken::now_seconds();
        if (ended == process && WIFEXITED(status) && ending.reason.empty()) {
            ending.status = WEXITSTATUS(status);
            return ending;
        }
        if (ended == process) {
            if (ending.reason.empty())
                ending.reason = std::string("ended by signal ") + std::to_string(WTERMSIG(status)) + " (" +
                                strsignal(WTERMSIG(status)) + "): " + board.line();
            return ending;
        }
        if (ended < 0 || (killed > 0 && now - killed > kill_seconds)) return ending;
        for (int i = 0; killed <= 0 && i < board.places; ++i) {
            const Beat& beat = board.beats[i];
            const double last = beat.last;
            if (last <= 0 || now - last <= board.silent_seconds) continue;
            char seconds[32];
            std::snprintf(seconds, sizeof seconds, "%.0f s", now - last);
            ending.reason = std::string("hung: no sign of life for ") + seconds + ": " + what(beat);
            kill(process, SIGKILL);
            killed = now;
        }
        if (board.report_seconds > 0 && now - told >= board.report_seconds) {
            told = now;
            std::printf("burn: %s\n", board.line().c_str());
            std::fflush(stdout);
        }
        usleep(poll_microseconds);
    }
}

}  // namespace burn
