#include "lib/nccl/report.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "lib/base/sweep.h"

namespace nccl {

namespace {

/// Numbers of adapters with their names: a line names those of one kind of network, "NET/IB : Using [0]...".
void take_adapters(const std::string& line, std::map<std::string, std::string>& names) {
    const std::size_t net = line.find("NET/");
    const std::size_t said = line.find(" : Using [");
    if (net == std::string::npos || said == std::string::npos || said < net) return;
    const std::string kind = line.substr(net + 4, said - net - 4);
    for (std::size_t at = line.find('[', said); at != std::string::npos; at = line.find('[', at + 1)) {
        const std::size_t end = line.find(']', at);
        if (end == std::string::npos || end == at + 1 || std::isdigit(line[at + 1]) == 0) continue;
        // mlx5_0:1/IB: adapter, port and link layer; eth0:10.1.0.1<0>: interface and address
        std::string name = line.substr(end + 1, line.find_first_of(" ;", end) - end - 1);
        name = name.substr(0, name.find(name.find('<') != std::string::npos ? ':' : '/'));
        names[kind + "/" + line.substr(at + 1, end - at - 1)] = name;
    }
}

std::vector<std::string> parts_of(const std::string& text) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, '/');) parts.push_back(part);
    return parts;
}

}  // namespace

Connections connections(const std::string& log) {
    std::set<std::string> transports;
    std::set<std::string> adapters;
    std::map<std::string, std::string> names;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        take_adapters(line, names);
        const std::size_t via = line.find("] via ");
        if (line.find("Channel ") == std::string::npos || via == std::string::npos) continue;
        const std::vector<std::string> parts = parts_of(line.substr(via + 6));
        if (parts.empty()) continue;
        std::string transport = parts[0];
        if (parts[0] == "NET" && parts.size() > 2) {
            transport += "/" + parts[1];
            if (line.find("GDRDMA", via) != std::string::npos) transport += "/GDRDMA";
            const auto known = names.find(parts[1] + "/" + parts[2]);
            adapters.insert(known == names.end() ? parts[1] + " " + parts[2] : known->second);
        } else if (parts[0] == "P2P" && parts.size() > 1) {
            transport += "/" + parts[1];
        }
        transports.insert(transport);
    }
    return {{transports.begin(), transports.end()}, {adapters.begin(), adapters.end()}};
}

Report::Report() {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"}) {
        if (std::getenv(name) != nullptr) return;
    }
    const char* const folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/tenken-nccl-XXXXXX";
    const int file = mkstemp(&name[0]);
    if (file < 0) return;
    close(file);
    file_ = name;
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM", 1);
    setenv("NCCL_DEBUG_FILE", file_.c_str(), 1);
}

Report::~Report() {
    if (!file_.empty()) unlink(file_.c_str());
}

void Report::write(tenken::Document& document, tenken::Ranks& ranks) const {
    std::ifstream in(file_);
    std::ostringstream text;
    if (!file_.empty()) text << in.rdbuf();
    const Connections mine = connections(text.str());
    std::set<std::string> transports;
    std::set<std::string> adapters;
    for (const std::string& one : ranks.gather(tenken::joined(mine.transports))) {
        for (const std::string& word : tenken::words_of(one)) transports.insert(word);
    }
    for (const std::string& one : ranks.gather(tenken::joined(mine.adapters))) {
        for (const std::string& word : tenken::words_of(one)) adapters.insert(word);
    }
    if (!transports.empty())
        document.path("transports", tenken::joined({transports.begin(), transports.end()}));
    if (!adapters.empty()) document.path("adapters", tenken::joined({adapters.begin(), adapters.end()}));
}

}  // namespace nccl
