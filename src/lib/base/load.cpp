#include "lib/base/load.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "lib/base/clock.h"
#include "lib/base/rank.h"
#include "lib/base/text_file.h"

namespace tenken {

namespace {

/// Maximum number of other processes that are named.
constexpr std::size_t max_named = 3;
/// Less CPU time than this does not count as load.
constexpr double min_seconds = 0.01;

double ticks_per_second() {
    return static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

Optional<ProcessTimes> process_times(const std::string& stat, double ticks) {
    // PID (NAME) STATE PPID ...: a name may contain blanks and parentheses
    const std::size_t open = stat.find('(');
    const std::size_t close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return {};
    ProcessTimes found;
    found.pid = static_cast<pid_t>(std::atol(stat.c_str()));
    found.name = stat.substr(open + 1, close - open - 1);
    std::istringstream rest(stat.substr(close + 1));
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    if (words.size() < 15) return {};
    found.parent = static_cast<pid_t>(std::atol(words[1].c_str()));
    if (words.size() > 19) found.start = words[19];
    for (std::size_t at : {11, 12}) found.cpu_seconds += std::atof(words[at].c_str()) / ticks;
    for (std::size_t at : {13, 14}) found.children_seconds += std::atof(words[at].c_str()) / ticks;
    return found;
}

LoadWatch::LoadWatch(const std::string& root, pid_t self, bool launched)
    : root_(root), self_(self), launched_(launched), begin_seconds_(now_seconds()), begin_(read()) {}

LoadWatch::LoadWatch()
    : LoadWatch("", getpid(), !launcher_rank().empty() || std::getenv("SLURM_PROCID") != nullptr) {}

LoadWatch::Reading LoadWatch::read() const {
    Reading reading;
    const double ticks = ticks_per_second();
    const Optional<std::string> average = read_text(root_ + "/proc/loadavg");
    if (average && !average->empty()) reading.load_average = std::atof(average->c_str());
    std::istringstream cpu(read_text(root_ + "/proc/stat").value_or(""));
    std::string word;
    cpu >> word;  // cpu  user nice system idle iowait irq softirq steal
    double value = 0;
    for (int at = 0; at < 8 && (cpu >> value); ++at) {
        if (at == 7) reading.steal_seconds = value / ticks;
        if (at != 3 && at != 4 && at != 7) reading.busy_seconds += value / ticks;
    }
    for (int pid : numbered_entries(root_ + "/proc", "")) {
        const Optional<std::string> stat = read_text(root_ + "/proc/" + std::to_string(pid) + "/stat");
        const Optional<ProcessTimes> process = stat ? process_times(*stat, ticks) : Optional<ProcessTimes>();
        if (process) reading.processes[pid] = *process;
    }
    return reading;
}

Json LoadWatch::json() const {
    const Reading end = read();
    const double seconds = now_seconds() - begin_seconds_;
    const auto parent = [&end](pid_t pid) {
        const auto found = end.processes.find(pid);
        return found == end.processes.end() ? 0 : found->second.parent;
    };
    const pid_t launcher = launched_ ? parent(self_) : 0;
    // processes that only wait for this one: shells and the launcher
    std::set<pid_t> above;
    for (pid_t pid = parent(self_); pid > 0 && above.insert(pid).second;) pid = parent(pid);
    const auto of_this_job = [&](pid_t pid) {
        std::set<pid_t> seen;
        for (; pid > 0 && seen.insert(pid).second; pid = parent(pid)) {
            if (pid == self_ || (launcher > 1 && pid == launcher)) return true;
        }
        return false;
    };
    double own = 0;
    std::vector<ProcessTimes> others;
    for (const auto& one : end.processes) {
        ProcessTimes used = one.second;
        const auto before = begin_.processes.find(one.first);
        // not by its name: a kernel thread is named after its current work, a shell after the program it
        // executes
        if (before != begin_.processes.end() && before->second.start == used.start) {
            used.cpu_seconds = std::max(0.0, used.cpu_seconds - before->second.cpu_seconds);
            used.children_seconds = std::max(0.0, used.children_seconds - before->second.children_seconds);
        }
        if (of_this_job(one.first)) {
            own += used.cpu_seconds + used.children_seconds;
        } else if (above.count(one.first) == 0 && used.cpu_seconds >= min_seconds) {
            others.push_back(used);
        }
    }
    std::sort(others.begin(), others.end(),
              [](const ProcessTimes& a, const ProcessTimes& b) { return a.cpu_seconds > b.cpu_seconds; });
    if (others.size() > max_named) others.resize(max_named);
    Json named = Json::array();
    for (const ProcessTimes& other : others) {
        named.push(Json::object()
                       .set("pid", static_cast<int>(other.pid))
                       .set("name", other.name)
                       .set("cpu_seconds", other.cpu_seconds));
    }
    const double all = std::max(0.0, end.busy_seconds - begin_.busy_seconds);
    Json json = Json::object();
    json.set("seconds", seconds);
    json.set("load_average_before", begin_.load_average).set("load_average_after", end.load_average);
    json.set("own_cpu_seconds", own).set("others_cpu_seconds", std::max(0.0, all - own));
    json.set("steal_cpu_seconds", std::max(0.0, end.steal_seconds - begin_.steal_seconds));
    return json.set("others", named);
}

}  // namespace tenken
