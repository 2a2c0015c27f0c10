#include "lib/base/machine_locks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/rank.h"
#include "lib/base/text_file.h"

namespace tenken {

namespace {

MachineLocks* current = nullptr;

constexpr std::size_t max_bytes = 512;

/// The first folder in which all users of this machine can create files; empty, with the reason, if there is
/// none.
std::string find_folder(std::string& why_none) {
    const char* const chosen = std::getenv("TENKEN_LOCKS");
    std::vector<std::string> folders = {"/dev/shm/tenken-locks", "/tmp/tenken-locks"};
    if (chosen != nullptr && *chosen != '\0') folders = {chosen};
    for (const std::string& folder : folders) {
        // sticky: users can create locks there, but not remove those of others
        if (mkdir(folder.c_str(), 0777) == 0 && chmod(folder.c_str(), 01777) != 0) continue;
        if (access(folder.c_str(), W_OK | X_OK) == 0) return folder;
        why_none += (why_none.empty() ? "" : "; ") + folder + ": " + std::strerror(errno);
    }
    return "";
}

/// A lock file, created if missing. An existing one is opened without O_CREAT: in a sticky folder the kernel
/// (fs.protected_regular) refuses that flag for files of other users.
int open_lock(const std::string& path) {
    for (int attempt = 0; attempt < 10; ++attempt) {
        const int found = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (found >= 0 || errno != ENOENT) return found;
        const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (made >= 0) {
            (void)!fchmod(made, 0666);  // independent of the umask
            return made;
        }
        if (errno != EEXIST) return made;
    }
    return -1;
}

double patience_of_environment() {
    const char* const text = std::getenv("TENKEN_LOCK_SECONDS");
    char* end = nullptr;
    const long seconds = text == nullptr ? -1 : std::strtol(text, &end, 10);
    return seconds < 0 || end == text || *end != '\0' ? 60 : static_cast<double>(seconds);
}

/// The common property of the ranks of one launcher: their parent on this node.
std::string token_of_launcher() {
    const bool launched = !launcher_rank().empty() || std::getenv("SLURM_PROCID") != nullptr;
    const pid_t pid = launched ? getppid() : getpid();
    return (launched ? "launched by " : "process ") + std::to_string(pid);
}

}  // namespace

MachineLocks::MachineLocks(const std::string& token, const std::string& program, double patience_seconds)
    : token_(token.empty() ? token_of_launcher() : token),
      program_(program),
      patience_seconds_(patience_seconds),
      folder_(find_folder(why_none_)) {
    current = this;
}

MachineLocks::MachineLocks(const std::string& token, const std::string& program)
    : MachineLocks(token, program, patience_of_environment()) {}

MachineLocks::~MachineLocks() {
    current = nullptr;
    for (int descriptor : descriptors_) close(descriptor);
}

MachineLocks* MachineLocks::of_this_process() {
    return current;
}

void MachineLocks::hold_host() {
    // by machine, not by host name, which a container may change
    hold("host-" + read_text("/proc/sys/kernel/random/boot_id").value_or("this"), "host");
}

void MachineLocks::hold_gpu(const std::string& uuid) {
    if (!uuid.empty()) hold(uuid, uuid);
}

void MachineLocks::is_shared(const std::string& text) {
    if (shared_with_.empty()) shared_with_ = text;
}

std::string MachineLocks::holder(int descriptor) const {
    char text[max_bytes + 1] = {};
    const ssize_t count = pread(descriptor, text, max_bytes, 0);
    return count <= 0 ? "" : trimmed(std::string(text, static_cast<std::size_t>(count)));
}

void MachineLocks::hold(const std::string& name, const std::string& what) {
    if (folder_.empty()) return;
    const std::string path = folder_ + "/" + name;
    const int descriptor = open_lock(path);
    if (descriptor < 0) {
        why_none_ = path + ": " + std::strerror(errno);
        return;
    }
    descriptors_.push_back(descriptor);
    // PID PROGRAM TOKEN: only the token may contain blanks
    const std::string mine = std::to_string(getpid()) + " " + program_ + " " + token_;
    const std::string same = " " + token_;
    const auto is_of_this_job = [&same](const std::string& text) {
        const std::size_t second = text.find(' ', text.find(' ') + 1);
        return second != std::string::npos && text.substr(second) == same;
    };
    const double begin = now_seconds();
    bool told = false;
    for (;;) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
            // exclusive: write the owner, then admit processes with the same token. The kernel may give the
            // lock to another process in between; then this one waits again.
            if (ftruncate(descriptor, 0) != 0 ||
                pwrite(descriptor, mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size())) {
                why_none_ = path + ": " + std::strerror(errno);
                return;
            }
        } else if (errno != EWOULDBLOCK && errno != EINTR) {  // a file system without locks
            why_none_ = path + ": " + std::strerror(errno);
            return;
        }
        if (is_of_this_job(holder(descriptor)) && flock(descriptor, LOCK_SH | LOCK_NB) == 0) {
            if (is_of_this_job(holder(descriptor))) break;
            flock(descriptor, LOCK_UN);
        }
        const double waited = now_seconds() - begin;
        const std::string by = holder(descriptor);
        const std::string pid = by.substr(0, by.find(' '));
        const std::size_t after = by.find(' ');
        const std::string other =
            after == std::string::npos ? "" : by.substr(after + 1, by.find(' ', after + 1) - after - 1);
        if (waited > patience_seconds_) {
            waited_seconds_ += waited;
            close(descriptor);
            descriptors_.pop_back();
            char seconds[32];
            std::snprintf(seconds, sizeof seconds, "%.0f", waited);
            shared_with_ = (what == "host" ? "host" : "GPU " + what) + " shared with pid " +
                           (pid.empty() ? "unknown" : pid) + (other.empty() ? "" : " (" + other + ")") +
                           ": waited " + seconds + " s for it";
            throw Shared(shared_with_);
        }
        if (!told && waited > 1) {
            std::fprintf(stderr, "%s: waits for pid %s (%s), which is measuring on this %s\n",
                         program_.c_str(), pid.c_str(), other.c_str(), what == "host" ? "host" : "GPU");
            told = true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    waited_seconds_ += now_seconds() - begin;
    held_.push_back(what);
}

Json MachineLocks::json() const {
    Json json = Json::object();
    json.set("held", held_).set("waited_seconds", waited_seconds_);
    json.set("shared_with", shared_with_.empty() ? Json() : Json(shared_with_));
    return json.set("none_because", why_none_.empty() || !held_.empty() ? Json() : Json(why_none_));
}

}  // namespace tenken
