#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>

#include "lib/base/load.h"
#include "lib/base/machine_locks.h"
#include "unit.h"

namespace {

/// Our own folder for locks, during a test.
class LockFolder {
  public:
    LockFolder() {
        char name[] = "/tmp/tenken-unit-XXXXXX";
        root_ = mkdtemp(name);
        const char* const before = std::getenv("TENKEN_LOCKS");
        before_ = before == nullptr ? "" : before;
        setenv("TENKEN_LOCKS", (root_ + "/locks").c_str(), 1);
    }
    ~LockFolder() {
        before_.empty() ? unsetenv("TENKEN_LOCKS") : setenv("TENKEN_LOCKS", before_.c_str(), 1);
        const std::string command = "rm -r '" + root_ + "'";
        if (std::system(command.c_str()) != 0) std::printf("cannot remove %s\n", root_.c_str());
    }
    std::string folder() const { return root_ + "/locks"; }

  private:
    std::string root_;
    std::string before_;
};

/// What another process with that token gets when it requests the same locks.
std::string of_another_process(const std::string& token, double patience_seconds) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
        std::string text = "held";
        try {
            tenken::MachineLocks locks(token, "second", patience_seconds);
            locks.hold_host();
            locks.hold_gpu("GPU-1");
        } catch (const tenken::Shared& other) {
            text = other.what();
        }
        (void)!write(ends[1], text.data(), text.size());
        _exit(0);
    }
    close(ends[1]);
    char text[256] = {};
    const ssize_t count = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return std::string(text, static_cast<std::size_t>(count > 0 ? count : 0));
}

}  // namespace

TEST(a_second_measurement_is_told_with_whom_it_would_share) {
    const LockFolder folder;
    tenken::MachineLocks first("a token", "first", 0);
    first.hold_host();
    const std::string by = "pid " + std::to_string(getpid()) + " (first): waited 0 s for it";
    CHECK_EQUAL(of_another_process("another", 0.1), "host shared with " + by);
    CHECK_EQUAL(of_another_process("", 0.1), "host shared with " + by);
    CHECK(first.json().dump().find("\"host\"") != std::string::npos);
}

TEST(processes_of_one_token_share_their_locks) {
    const LockFolder folder;
    tenken::MachineLocks first("a token", "first", 0);
    first.hold_host();
    first.hold_gpu("GPU-1");
    CHECK_EQUAL(of_another_process("a token", 5), "held");
    CHECK(of_another_process("a toke", 0.1).find("shared with") != std::string::npos);
}

TEST(a_gpu_is_held_by_its_uuid_beside_the_host) {
    const LockFolder folder;
    tenken::MachineLocks first("a token", "first", 0);
    first.hold_gpu("GPU-1");
    CHECK(of_another_process("another", 0.1).find("GPU GPU-1 shared with pid") == 0);
}

TEST(locks_end_with_their_process) {
    const LockFolder folder;
    {
        tenken::MachineLocks("a token", "first", 0).hold_host();
    }
    CHECK_EQUAL(of_another_process("another", 5), "held");
}

TEST(the_folder_of_locks_is_for_all_users) {
    const LockFolder folder;
    tenken::MachineLocks locks("a token", "first", 0);
    locks.hold_gpu("GPU-1");
    struct stat found;
    CHECK(stat(folder.folder().c_str(), &found) == 0 && (found.st_mode & 07777) == 01777);
    CHECK(stat((folder.folder() + "/GPU-1").c_str(), &found) == 0 && (found.st_mode & 0777) == 0666);
}

TEST(without_a_folder_the_document_says_why_nothing_is_held) {
    const LockFolder folder;
    setenv("TENKEN_LOCKS", "/proc/no/such/folder", 1);
    tenken::MachineLocks locks("a token", "first", 0);
    locks.hold_host();
    CHECK(locks.json().dump().find("/proc/no/such/folder: ") != std::string::npos);
}

TEST(times_of_a_process_whose_name_holds_anything) {
    const std::string stat = "42 (a) (b c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 25 75 20 0 1 0 100 1 1";
    const tenken::Optional<tenken::ProcessTimes> found = tenken::process_times(stat, 100);
    CHECK(found && found->pid == 42 && found->parent == 7);
    CHECK_EQUAL(found->name, "a) (b c");
    CHECK(found->cpu_seconds == 2 && found->children_seconds == 1);
    CHECK(!tenken::process_times("42 (a", 100) && !tenken::process_times("42 (a) S 1", 100));
}

namespace {

/// Writes the times of a process into a tree like /proc.
void write_process(const std::string& root, int pid, const std::string& name, int ticks, int start) {
    const std::string folder = root + "/proc/" + std::to_string(pid);
    mkdir((root + "/proc").c_str(), 0700);
    mkdir(folder.c_str(), 0700);
    std::ofstream(folder + "/stat") << pid << " (" << name << ") S 1 1 1 0 -1 0 1 2 3 4 " << ticks
                                    << " 0 0 0 20 0 1 0 " << start << " 1 1\n";
}

/// /proc/stat of a whole machine in seconds: user, idle (half of it waits for a disk), steal; the others are
/// 0.
void write_stat(const std::string& root, long user, long idle, long steal) {
    const long ticks = sysconf(_SC_CLK_TCK);
    std::ofstream(root + "/proc/stat") << "cpu " << user * ticks << " 0 0 " << idle / 2 * ticks << " "
                                       << (idle - idle / 2) * ticks << " 0 0 " << steal * ticks << "\n";
}

}  // namespace

TEST(a_process_that_changes_its_name_is_one_and_a_pid_used_again_is_another) {
    char name[] = "/tmp/tenken-unit-XXXXXX";
    const std::string root = mkdtemp(name);
    const auto ticks = static_cast<int>(sysconf(_SC_CLK_TCK));
    write_process(root, 5, "kworker/0:2-events", 100 * ticks, 7);
    write_process(root, 6, "ended", 100 * ticks, 8);
    const tenken::LoadWatch watch(root, 1000, false);
    write_process(root, 5, "kworker/0:2-mm_percpu_wq", 101 * ticks, 7);
    write_process(root, 6, "ended", 3 * ticks, 9);
    std::string found = watch.json().dump();
    found.erase(
        std::remove_if(found.begin(), found.end(), [](unsigned char one) { return std::isspace(one); }),
        found.end());
    CHECK(found.find("mm_percpu_wq\",\"cpu_seconds\":1}") != std::string::npos);
    CHECK(found.find("\"ended\",\"cpu_seconds\":3}") != std::string::npos);
    CHECK(found.find("\"ended\"") < found.find("mm_percpu_wq"));  // the busiest first
    const std::string command = "rm -r '" + root + "'";
    CHECK(std::system(command.c_str()) == 0);
}

TEST(time_of_others_and_of_the_hypervisor_is_that_since_the_program_began) {
    char folder[] = "/tmp/tenken-load-XXXXXX";
    const std::string root = mkdtemp(folder);
    const auto ticks = static_cast<int>(sysconf(_SC_CLK_TCK));
    CHECK(mkdir((root + "/proc").c_str(), 0700) == 0);
    write_stat(root, 100, 50, 7);
    write_process(root, 1000, "self", 10 * ticks, 3);
    const tenken::LoadWatch watch(root, 1000, false);
    write_stat(root, 120, 90, 9);
    write_process(root, 1000, "self", 15 * ticks, 3);
    std::string found = watch.json().dump();
    found.erase(
        std::remove_if(found.begin(), found.end(), [](unsigned char one) { return std::isspace(one); }),
        found.end());
    // of 20 s that were not idle 5 are its own; 2 s more went to other machines
    CHECK(found.find("\"own_cpu_seconds\":5,") != std::string::npos);
    CHECK(found.find("\"others_cpu_seconds\":15,") != std::string::npos);
    CHECK(found.find("\"steal_cpu_seconds\":2,") != std::string::npos);
    const std::string command = "rm -r '" + root + "'";
    CHECK(std::system(command.c_str()) == 0);
}
