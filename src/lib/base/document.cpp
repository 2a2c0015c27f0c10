#include "lib/base/document.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/version.h"

namespace tenken {

namespace {

const char* name_of(Status status) {
    switch (status) {
        case Status::ok:
            return "ok";
        case Status::failed:
            return "failed";
        case Status::waived:
            return "waived";
    }
    return "failed";
}

std::string column(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

/// One line for display: the median, of seconds as the rate of what was counted. `tenken show` prints all
/// derived values.
std::string row_of(const std::string& id, const Metric& metric) {
    const double middle = tenken::median(metric.samples);
    std::string text = column("%.6g", middle) + (metric.seconds ? " s" : "");
    for (const auto& count : metric.counts) {
        if (metric.seconds && middle > 0 && count.first != "calls")
            text += ", " + column("%.6g", count.second / middle / 1e9) + " G" + count.first + "/s";
    }
    char row[320];
    std::snprintf(row, sizeof row, "%-48s %7zu  %s", id.c_str(), metric.samples.size(), text.c_str());
    return row;
}

std::runtime_error file_error(const std::string& option, const std::string& path, const std::string& what) {
    return std::runtime_error(option + " '" + path + "': " + what + ": " + std::strerror(errno));
}

}  // namespace

// a program's own entry replaces it
__attribute__((weak)) const char* catalogue_digest() {
    return "";
}

Document::Document(std::string program, int argc, char** argv)
    : program_(std::move(program)), command_(argv, argv + argc), started_(utc_now()) {}

void Document::add(const Metric& measured) {
    Metric metric = measured;
    if (damage_next_ && !metric.samples.empty()) metric.samples[0] = std::nan("");
    damage_next_ = false;
    const std::string id = metric.id();
    if (metric.samples.empty()) return fail("metric " + id + " has no samples");
    if (std::find(ids_.begin(), ids_.end(), id) != ids_.end())
        return fail("metric " + id + " is reported twice");
    for (std::size_t i = 0; i < metric.samples.size(); ++i) {
        if (!std::isfinite(metric.samples[i])) {
            return fail("metric " + id + " is not finite in sample " + std::to_string(i));
        }
    }
    Json json = Json::object();
    json.set("metric", metric.name).set("subject", metric.subject.json());
    if (!metric.at.empty()) {
        Json at = Json::object();
        for (const auto& coordinate : metric.at) at.set(coordinate.first, coordinate.second);
        json.set("at", at);
    }
    json.set("clock", metric.clock);
    if (!metric.counts.empty()) {
        Json counts = Json::object();
        for (const auto& count : metric.counts) counts.set(count.first, count.second);
        json.set("counts", counts);
    }
    json.set(metric.seconds ? "seconds" : "values", metric.samples);
    series_.push(json);
    ids_.push_back(id);

    rows_.push_back(row_of(id, metric));
}

void Document::add(const Check& check) {
    checks_.push_back(check);
    if (check.passed()) return;
    std::string reason = "verification: " + check.id() + ": error " + column("%.3g", check.error) +
                         " above the tolerance " + column("%.3g", check.of.tolerance);
    if (!check.first_wrong.is_null()) reason += " (" + check.first_wrong.listed() + ")";
    fail(reason);
}

void Document::fail(const std::string& reason) {
    if (status_ == Status::failed) return;
    status_ = Status::failed;
    reason_ = reason;
}

void Document::waive(const std::string& reason) {
    if (status_ != Status::ok) return;
    status_ = Status::waived;
    reason_ = reason;
}

Json Document::json() const {
    Json build_json = Json::object();
    build_json.set("compiler", compiler()).set("flags", compiler_flags()).set("type", build_type());
    build_json.set("backends", build.backends).set("cuda_compiler", build.cuda_compiler);
    build_json.set("cuda_architectures", build.cuda_architectures).set("mpi", build.mpi);
    Json libraries = Json::object();
    for (const auto& library : build.libraries) libraries.set(library.first, library.second);
    build_json.set("libraries", libraries);

    Json devices_json = Json::array();
    for (const DeviceDescription& device : devices) devices_json.push(device.json());
    for (const Json& device : more_devices) devices_json.push(device);

    Json checks = Json::array();
    for (const Check& check : checks_) {
        checks.push(check.json());
    }

    Json json = Json::object();
    json.set("schema", "tenken-result/2").set("program", program_).set("version", version());
    json.set("catalogue", catalogue_digest());
    json.set("token", token).set("command", command_).set("started", started_).set("finished", utc_now());
    json.set("host", describe_host().json()).set("build", build_json);
    json.set("status", name_of(status_)).set("reason", reason_);
    json.set("parameters", parameters).set("placement", placement.json()).set("devices", devices_json);
    json.set("series", series_).set("verification", checks);
    json.set("provenance", path_).set("health", health.json());
    if (!links.empty()) json.set("links", links);
    if (locks) json.set("locks", *locks);
    if (load) json.set("load", *load);
    return json;
}

std::string Document::table() const {
    std::string out;
    if (!rows_.empty()) {
        char head[320];
        std::snprintf(head, sizeof head, "%-48s %7s  %s\n", "metric", "samples", "median");
        out += head;
    }
    for (const std::string& row : rows_) out += row + "\n";
    for (const Check& check : checks_) {
        if (!check.passed())
            out += "wrong: " + check.id() +
                   (check.first_wrong.is_null() ? "" : ": " + check.first_wrong.listed()) + "\n";
    }
    return out + program_ + ": " + name_of(status_) + (reason_.empty() ? "" : ": " + reason_) + "\n";
}

DocumentFile::DocumentFile(const std::string& path, const std::string& option)
    : option_(option), path_(path), temporary_(path + ".tmp") {
    struct stat found;
    if (stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
        errno = S_ISDIR(found.st_mode) ? EISDIR : EINVAL;
        throw file_error(option_, path_, "needs the name of an ordinary file");
    }
    if (temporary_.size() > Unfinished::max_bytes) {
        errno = ENAMETOOLONG;
        throw file_error(option_, path_, "cannot write");
    }
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw file_error(option_, path_, "cannot write " + temporary_);
    // each of several single processes believes to be the first rank; a file system without locks does not
    // tell
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(descriptor_);
        throw std::runtime_error(option_ + " '" + path_ +
                                 "': another process writes it: the launcher does not match the MPI");
    }
    if (ftruncate(descriptor_, 0) != 0) {
        close(descriptor_);
        throw file_error(option_, path_, "cannot write " + temporary_);
    }
    unfinished_.reset(new Unfinished(temporary_));
    if (unlink(path_.c_str()) != 0 && errno != ENOENT) {
        const std::runtime_error error = file_error(option_, path_, "cannot remove the earlier document");
        close(descriptor_);
        unlink(temporary_.c_str());
        throw error;
    }
}

DocumentFile::~DocumentFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(temporary_.c_str());
}

void DocumentFile::write(const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw file_error(option_, path_, "cannot write");
        done += static_cast<std::size_t>(count);
    }
    if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS)
        throw file_error(option_, path_, "cannot flush");
    const int closing = descriptor_;
    descriptor_ = -1;
    const bool closed = close(closing) == 0;  // some file systems report a full disk only here
    if (!closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const std::runtime_error error =
            file_error(option_, path_, closed ? "cannot rename" : "cannot close");
        unlink(temporary_.c_str());
        throw error;
    }
    unfinished_.reset();
}

}  // namespace tenken
