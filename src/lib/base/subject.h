// The subject of a value: the host, a GPU, an ordered pair of GPUs, or ranks.
#pragma once

#include <string>

#include "lib/base/json.h"

namespace tenken {

class Subject {
  public:
    static Subject host() { return {"host", Json::object().set("host", 0)}; }
    static Subject gpu(int index) {
        return {"gpu" + std::to_string(index), Json::object().set("gpu", index)};
    }
    static Subject pair(int from, int to) {
        return {"gpu" + std::to_string(from) + "-gpu" + std::to_string(to),
                Json::object().set("from", from).set("to", to)};
    }
    static Subject ranks(int count) {
        return {"ranks" + std::to_string(count), Json::object().set("ranks", count)};
    }

    /// As in a metric id: host, gpu0, gpu0-gpu1, ranks4.
    const std::string& text() const { return text_; }
    const Json& json() const { return json_; }

  private:
    Subject(std::string text, Json json) : text_(std::move(text)), json_(std::move(json)) {}
    std::string text_;
    Json json_;
};

}  // namespace tenken
