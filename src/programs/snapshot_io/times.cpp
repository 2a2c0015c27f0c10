#include "programs/snapshot_io/times.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace snapshot_io {

namespace {

constexpr const char* first_line = "# tenken snapshot times 1";
constexpr int words_of_a_key = 5;

}  // namespace

std::string SnapshotTimes::key(const std::string& subject, bool write, const std::string& layout,
                               const std::string& method, unsigned long long particles) {
    return subject + (write ? " write " : " read ") + layout + " " +
           (method == "cufile_compat" ? "gds" : method) + " " + std::to_string(particles);
}

SnapshotTimes SnapshotTimes::read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
    SnapshotTimes times;
    std::string line;
    for (long number = 1; std::getline(file, line); ++number) {
        const auto wrong = [&](const std::string& what) {
            return std::runtime_error(path + ":" + std::to_string(number) + ": " + what);
        };
        if (number == 1 && line != first_line) {
            throw wrong(std::string("such a file begins with '") + first_line + "'");
        }
        if (number == 2) times.about_ = line.substr(std::min<std::size_t>(2, line.size()));
        if (number <= 2) continue;
        std::istringstream in(line);
        std::string key;
        std::string word;
        for (int i = 0; i < words_of_a_key && in >> word; ++i) key += (key.empty() ? "" : " ") + word;
        std::vector<double> seconds;
        double one = 0;
        while (in >> one) {
            if (!std::isfinite(one) || one <= 0) throw wrong("a time is not above 0");
            seconds.push_back(one);
        }
        if (seconds.empty() || !in.eof()) {
            throw wrong("'subject direction layout method particles' and seconds are expected");
        }
        times.add(key, seconds);
    }
    if (times.seconds_.empty()) throw std::runtime_error(path + ": it has no times");
    return times;
}

std::string SnapshotTimes::text(const std::string& about) const {
    std::ostringstream out;
    out.precision(9);
    out << first_line << "\n# " << about << '\n';
    for (const auto& one : seconds_) {
        out << one.first;
        for (double seconds : one.second) out << ' ' << seconds;
        out << '\n';
    }
    return out.str();
}

const std::vector<double>& SnapshotTimes::of(const std::string& key) const {
    const auto found = seconds_.find(key);
    if (found == seconds_.end()) throw std::runtime_error("the other process has no times of " + key);
    return found->second;
}

}  // namespace snapshot_io
