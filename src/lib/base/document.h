// The result document: what one run of one program measured and did, without derived values
// (tenken/model/result.schema.json). Statistics, limits and tolerances are in metrics.yaml.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/device.h"
#include "lib/base/json.h"
#include "lib/base/placement.h"
#include "lib/base/statistics.h"
#include "lib/base/subject.h"
#include "lib/base/unfinished.h"
#include "lib/base/verification.h"

namespace tenken {

/// One measured quantity with all of its samples.
struct Metric {
    std::string name;  ///< as in the program's metrics.yaml, which has its unit
    Subject subject = Subject::host();
    std::vector<double> samples;  ///< in the order measured
    std::string clock = "host";   ///< "host", "device" or "host and device"
    /// What one sample counts, if values are derived from it: bytes, operations, cells, samples, messages;
    /// `calls`: how many it is the mean of.
    std::vector<std::pair<std::string, double>> counts = {};
    /// Whether the samples are seconds; otherwise they are in the unit of metrics.yaml.
    bool seconds = false;

    /// Sets what was measured: seconds, and the bytes or operations per sample; the unit in metrics.yaml
    /// determines the rate.
    void timed(std::vector<double> each, std::vector<std::pair<std::string, double>> counted = {}) {
        samples = std::move(each);
        counts = std::move(counted);
        seconds = true;
    }
    At at = {};  ///< within a sweep

    std::string id() const { return id_of(name, subject, at); }
};

/// How the program was built.
struct Build {
    std::vector<std::string> backends;
    Optional<std::string> cuda_compiler;
    Optional<std::string> cuda_architectures;
    Optional<std::string> mpi;
    std::vector<std::pair<std::string, std::string>> libraries;  ///< name, version
};

enum class Status { ok, failed, waived };

/// The digest of the entries in metrics.yaml with which the program was built, from catalogue/PROGRAM.cpp;
/// empty if no catalogue is linked.
const char* catalogue_digest();

/// Collects the parts and writes them. fail() records every error, so that a failed run
/// also leaves a complete document.
class Document {
  public:
    Document(std::string program, int argc, char** argv);

    /// The token of the request that this run answers; null if the run was not requested.
    Optional<std::string> token;
    Json parameters = Json::object();
    Build build;
    Placement placement;
    std::vector<DeviceDescription> devices;
    std::vector<Json> more_devices;  ///< as described by other processes
    Health health;
    Optional<Json> locks;     ///< the locks held against other measurements on this machine
    Optional<Json> load;      ///< other activity of the host during the run
    std::vector<Json> links;  ///< connections of two GPUs (report_link() in links.h)

    /// Adds a metric. A metric with a sample that is not finite is not written and fails the run; so does one
    /// without samples or with a duplicate id.
    void add(const Metric& metric);
    /// Adds one comparison; the run fails if it did not pass.
    void add(const Check& check);
    /// The path actually taken by the data: path("stores", "streaming").
    void path(const std::string& key, Json value) { path_.set(key, std::move(value)); }
    /// Marks the run as failed; the first reason is reported.
    void fail(const std::string& reason);
    void waive(const std::string& reason);
    /// For --inject-fault sample: the first sample of the next metric becomes NaN.
    void damage_next_metric() { damage_next_ = true; }

    Status status() const { return status_; }
    const std::string& reason() const { return reason_; }
    bool checked() const { return !checks_.empty(); }

    /// The complete document, with the current time as `finished`.
    Json json() const;
    /// For display: one line per metric, and one line per comparison that did not pass.
    std::string table() const;

  private:
    std::string program_;
    std::vector<std::string> command_;
    std::string started_;
    bool damage_next_ = false;
    Status status_ = Status::ok;
    std::string reason_;
    Json series_ = Json::array();
    std::vector<std::string> ids_;
    std::vector<std::string> rows_;
    std::vector<Check> checks_;
    Json path_ = Json::object();
};

/// A document file that appears complete or not at all: written to FILE.tmp, flushed to
/// disk, then renamed. SIGTERM, SIGINT and SIGHUP remove the unfinished file before they end the process.
class DocumentFile {
  public:
    /// Checks in advance that the file can be written, and removes a document of an earlier run, which after
    /// a kill would be mistaken for this run's.
    /// @param option that gave the path, for messages
    /// @throws std::runtime_error with option, path and reason
    explicit DocumentFile(const std::string& path, const std::string& option = "--json");
    ~DocumentFile();
    DocumentFile(const DocumentFile&) = delete;
    DocumentFile& operator=(const DocumentFile&) = delete;

    /// @throws std::runtime_error with path and reason (such as a full disk); then there is no document
    void write(const std::string& text);

  private:
    std::string option_;
    std::string path_;
    std::string temporary_;
    int descriptor_ = -1;
    std::unique_ptr<Unfinished> unfinished_;
};

}  // namespace tenken
