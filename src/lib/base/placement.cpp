#include "lib/base/placement.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "lib/base/host.h"
#include "lib/base/text_file.h"

namespace tenken {

namespace {

std::vector<int> allowed_cpus() {
    // The mask must be as large as the kernel's, which no call reports: tries until it fits.
    for (int size = 1024; size <= 1 << 20; size *= 2) {
        cpu_set_t* const mask = CPU_ALLOC(size);
        if (mask == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(size);
        const bool fits = sched_getaffinity(0, bytes, mask) == 0;
        std::vector<int> cpus;
        for (int cpu = 0; fits && cpu < size; ++cpu) {
            if (CPU_ISSET_S(cpu, bytes, mask)) cpus.push_back(cpu);
        }
        CPU_FREE(mask);
        if (fits) return cpus;
    }
    return {};
}

#ifdef _OPENMP
std::string binding_name() {
    // By number, as OpenMP defines it: 5.1 renamed "master", and either name causes a warning with some
    // compiler.
    static const char* const names[] = {"false", "true", "master", "close", "spread"};
    const int kind = static_cast<int>(omp_get_proc_bind());
    return kind >= 0 && kind < 5 ? names[kind] : "none";
}
#endif

}  // namespace

Placement find_placement() {
    Placement placement;
    placement.allowed_cpus = allowed_cpus();
#ifdef _OPENMP
    std::vector<int>& cpus = placement.thread_cpus;
#pragma omp parallel
    {
#pragma omp single
        cpus.assign(static_cast<std::size_t>(omp_get_num_threads()), -1);
        cpus[static_cast<std::size_t>(omp_get_thread_num())] = sched_getcpu();
    }
    placement.threads = static_cast<int>(cpus.size());
    placement.binding = binding_name();
    const char* const places = std::getenv("OMP_PLACES");
    placement.places = std::string(places == nullptr ? "not set" : places) + " (" +
                       std::to_string(omp_get_num_places()) + " places)";
#else
    placement.thread_cpus = {sched_getcpu()};
    placement.places = "built without OpenMP";
#endif
    // The main thread's mask shrinks when OpenMP binds it; the union over all places is the allowed set.
#ifdef _OPENMP
    std::set<int> all(placement.allowed_cpus.begin(), placement.allowed_cpus.end());
    for (int place = 0; place < omp_get_num_places(); ++place) {
        std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
        if (!ids.empty()) omp_get_place_proc_ids(place, ids.data());
        all.insert(ids.begin(), ids.end());
    }
    placement.allowed_cpus.assign(all.begin(), all.end());
#endif
    placement.allowed_cores = count_cores(placement.allowed_cpus);
    return placement;
}

const std::vector<int>& process_cpus() {
    static const std::vector<int> cpus = find_placement().allowed_cpus;
    return cpus;
}

void bind_this_thread(const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    const int size = *std::max_element(cpus.begin(), cpus.end()) + 1;
    cpu_set_t* const mask = CPU_ALLOC(size);
    if (mask == nullptr) return;
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, mask);
    for (int cpu : cpus) CPU_SET_S(cpu, bytes, mask);
    sched_setaffinity(0, bytes, mask);
    CPU_FREE(mask);
}

UnboundThread::UnboundThread() {
    const std::vector<int>& all = process_cpus();  // starts OpenMP, which binds this thread
    before_ = allowed_cpus();
    bind_this_thread(all);
}

UnboundThread::~UnboundThread() {
    bind_this_thread(before_);
}

std::vector<int> nodes_of_pages(const void* data, std::size_t bytes) {
    if (bytes == 0) return {};
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(data) / page;
    const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(data) + bytes - 1) / page;
    const std::uintptr_t count = last - first + 1;
    const std::uintptr_t asked = std::min<std::uintptr_t>(count, 4096);
    std::vector<void*> pages;
    for (std::uintptr_t i = 0; i < asked; ++i) {
        pages.push_back(reinterpret_cast<void*>((first + i * count / asked) * page));
    }
    std::vector<int> status(pages.size(), -1);
    // Without target nodes move_pages only reports the location of the pages.
    if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, status.data(), 0) != 0) return {};
    for (int& node : status) node = std::max(node, -1);
    return status;
}

std::set<int> nodes_with_cpus() {
    std::set<int> nodes;
    const std::string folder = "/sys/devices/system/node";
    for (int node : numbered_entries(folder, "node")) {
        const auto cpus = read_text(folder + "/node" + std::to_string(node) + "/cpulist");
        if (cpus && !cpus->empty()) nodes.insert(node);
    }
    return nodes;
}

std::set<int> numa_nodes_of(const void* data, std::size_t bytes) {
    const std::vector<int> pages = nodes_of_pages(data, bytes);
    std::set<int> nodes(pages.begin(), pages.end());
    nodes.erase(-1);
    return nodes;
}

Json Placement::json() const {
    Json json = Json::object();
    json.set("threads", threads).set("allowed_cpus", allowed_cpus).set("allowed_cores", allowed_cores);
    json.set("thread_cpus", thread_cpus).set("binding", binding).set("places", places);
    const std::vector<int> numa(numa_nodes_of_memory.begin(), numa_nodes_of_memory.end());
    json.set("numa_nodes_of_memory", numa).set("ranks", ranks);
    if (!nodes.empty()) json.set("nodes", nodes);
    return json;
}

}  // namespace tenken
