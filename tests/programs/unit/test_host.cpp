#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <new>
#include <stdexcept>
#include <utility>

#include "lib/base/copy_gpu.h"
#include "lib/base/host.h"
#include "lib/base/host_array.h"
#include "lib/base/pcie.h"
#include "lib/base/placement.h"
#include "lib/base/sweep.h"
#include "lib/base/text_file.h"
#include "unit.h"

namespace {

/// A small /proc and /sys for tests; the folder is left with the system's temporary files.
class Tree {
  public:
    Tree() {
        char name[] = "/tmp/tenken-unit-XXXXXX";
        root_ = mkdtemp(name);
    }
    ~Tree() {
        const std::string command = "rm -r '" + root_ + "'";
        if (std::system(command.c_str()) != 0) std::printf("cannot remove %s\n", root_.c_str());
    }
    const std::string& root() const { return root_; }
    void file(const std::string& path, const std::string& content) {
        for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
            mkdir((root_ + path.substr(0, at)).c_str(), 0777);
        }
        std::ofstream(root_ + path) << content << "\n";
    }

  private:
    std::string root_;
};

}  // namespace

TEST(two_sockets_with_smt_and_split_caches) {
    Tree tree;
    const std::string cpus = "/sys/devices/system/cpu/";
    tree.file(cpus + "online", "0-7");
    for (int cpu = 0; cpu < 8; ++cpu) {  // 2 sockets x 2 cores x 2 threads, siblings 4 apart
        const std::string folder = cpus + "cpu" + std::to_string(cpu);
        const int core = cpu % 4;
        tree.file(folder + "/topology/physical_package_id", std::to_string(core / 2));
        tree.file(folder + "/topology/thread_siblings_list",
                  std::to_string(core) + "," + std::to_string(core + 4));
        tree.file(folder + "/cache/index0/level", "1");
        tree.file(folder + "/cache/index0/type", "Data");
        tree.file(folder + "/cache/index0/size", "48K");
        tree.file(folder + "/cache/index3/level", "3");
        tree.file(folder + "/cache/index3/type", "Unified");
        tree.file(folder + "/cache/index3/size", "32768K");
        tree.file(folder + "/cache/index3/shared_cpu_list", core < 2 ? "0-1,4-5" : "2-3,6-7");
    }
    tree.file("/sys/devices/system/node/node0/cpulist", "0-1,4-5");
    tree.file("/sys/devices/system/node/node1/cpulist", "2-3,6-7");
    tree.file("/sys/devices/system/node/node2/cpulist", "");  // memory of a GPU
    tree.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: fpu sse2");
    tree.file("/proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    400 kB");

    const tenken::HostDescription host = tenken::describe_host(tree.root());
    CHECK_EQUAL(host.cpu, "Some CPU @ 2.0GHz");
    CHECK(host.logical_cpus == 8);
    CHECK(host.sockets && *host.sockets == 2);
    CHECK(host.cores && *host.cores == 4);
    CHECK(host.numa_nodes && *host.numa_nodes == 2);
    CHECK(host.last_level_cache_bytes && *host.last_level_cache_bytes == std::uint64_t{64} << 20);
    CHECK(host.memory_bytes == 1024000);
    CHECK(!host.virtual_machine);
    CHECK(*tenken::count_cores({0, 4}, tree.root()) == 1);
}

TEST(what_is_not_told_stays_absent) {
    Tree tree;
    const tenken::HostDescription host = tenken::describe_host(tree.root());
    CHECK(!host.sockets && !host.cores && !host.numa_nodes && !host.last_level_cache_bytes);
    CHECK(host.logical_cpus >= 1);
    CHECK(!tenken::count_cores({0}, tree.root()));
}

TEST(the_smallest_limit_on_memory_counts) {
    Tree tree;
    tree.file("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB");
    CHECK(tenken::available_memory_bytes(tree.root()) == 8000 * 1024);
    tree.file("/proc/self/cgroup", "0::/job/step");
    tree.file("/sys/fs/cgroup/job/memory.max", "1000000");
    tree.file("/sys/fs/cgroup/job/memory.current", "600000");
    tree.file("/sys/fs/cgroup/job/memory.stat", "anon 500000\ninactive_file 100000");
    tree.file("/sys/fs/cgroup/job/step/memory.max", "max");
    tree.file("/sys/fs/cgroup/job/step/memory.current", "5");
    CHECK(tenken::available_memory_bytes(tree.root()) == 500000);
    tree.file("/proc/self/cgroup", "7:cpu,memory:/pbs/1\n0::/");
    tree.file("/sys/fs/cgroup/memory/pbs/1/memory.limit_in_bytes", "300000");
    tree.file("/sys/fs/cgroup/memory/pbs/1/memory.usage_in_bytes", "400000");
    CHECK(tenken::available_memory_bytes(tree.root()) == 0);
}

TEST(a_guest_on_arm_is_told_by_maker_and_product) {
    Tree tree;
    const std::string dmi = "/sys/class/dmi/id/", microsoft = "Microsoft Corporation";
    const std::vector<std::vector<std::string>> machines = {
        {"Amazon EC2", "c8g.24xlarge", "Amazon EC2"},
        {"Amazon EC2", "g5g.metal", ""},
        {microsoft, "Virtual Machine", microsoft + " Virtual Machine"},
        {microsoft, "Surface Pro X", ""},
        {"QEMU", "QEMU Virtual Machine", "QEMU"},
        {"Supermicro", "ARS-111GL-NHR", ""}};
    for (const auto& one : machines) {
        tree.file("/proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd4f");
        tree.file(dmi + "sys_vendor", one[0]);
        tree.file(dmi + "product_name", one[1]);
        CHECK_EQUAL(tenken::describe_host(tree.root()).virtual_machine.value_or(""), one[2]);
        tree.file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu");
        CHECK(!tenken::describe_host(tree.root()).virtual_machine);
    }
}

TEST(memory_of_a_coherent_gpu_is_not_the_hosts) {
    Tree tree;
    tree.file("/proc/meminfo", "MemTotal: 600000 kB\nMemAvailable: 570000 kB");
    tree.file("/sys/devices/system/node/node0/cpulist", "0-71");
    tree.file("/sys/devices/system/node/node0/meminfo",
              "Node 0 MemTotal: 500000 kB\nNode 0 MemFree: 460000 kB");
    for (const char* node : {"1", "2"})
        tree.file(std::string("/sys/devices/system/node/node") + node + "/cpulist", "");
    tree.file("/sys/devices/system/node/node1/meminfo",
              "Node 1 MemTotal: 100000 kB\nNode 1 MemFree: 96000 kB");
    tree.file("/proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd4f");
    CHECK(tenken::available_memory_bytes(tree.root()) == 474000 * 1024);
    CHECK(tenken::own_memory_bytes(tree.root()) == 500000 * 1024);
    tree.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel");
    CHECK(tenken::available_memory_bytes(tree.root()) == 570000 * 1024);
    CHECK(tenken::own_memory_bytes(tree.root()) == 600000 * 1024);
}

TEST(cpu_lists_are_read) {
    CHECK(tenken::parse_cpu_list("0-2,8") == (std::vector<int>{0, 1, 2, 8}));
    CHECK(tenken::parse_cpu_list("").empty());
    CHECK(tenken::parse_cpu_list("3-1").empty());
    CHECK(tenken::parse_cpu_list("x").empty());
}

TEST(shares_cover_everything_once_in_whole_pages) {
    for (std::size_t elements : {1ul, 511ul, 512ul, 513ul, 100000ul}) {
        for (int threads : {1, 2, 3, 7}) {
            std::size_t next = 0;
            for (int thread = 0; thread < threads; ++thread) {
                const tenken::Share share = tenken::share_of(elements, thread, threads);
                CHECK(share.begin == next && share.end >= share.begin);
                CHECK(share.begin % 512 == 0 || share.begin == elements);
                next = share.end;
            }
            CHECK(next == elements);
        }
    }
}

TEST(shares_of_smaller_numbers_are_whole_pages_too) {
    for (std::size_t elements : {1ul, 1024ul, 5000ul}) {
        std::size_t next = 0;
        for (int thread = 0; thread < 3; ++thread) {
            const tenken::Share share = tenken::share_of(elements, thread, 3, sizeof(std::int32_t));
            CHECK(share.begin == next && (share.begin % 1024 == 0 || share.begin == elements));
            next = share.end;
        }
        CHECK(next == elements);
    }
    CHECK(tenken::share_of(5000, 0, 3, sizeof(std::int32_t)).end != tenken::share_of(5000, 0, 3).end);
}

TEST(host_arrays_hold_any_kind_of_number) {
    tenken::HostArrayOf<std::int32_t> links(3000);
    CHECK(links.size() == 3000 && links.bytes() == 12000);
    CHECK(reinterpret_cast<std::uintptr_t>(links.data()) % (std::size_t{2} << 20) == 0);
    tenken::in_shares<std::int32_t>(links.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) links[i] = static_cast<std::int32_t>(i) - 7;
    });
    for (std::size_t i = 0; i < links.size(); ++i) CHECK(links[i] == static_cast<std::int32_t>(i) - 7);
    const tenken::HostArrayOf<std::int32_t> moved(std::move(links));
    CHECK(moved.size() == 3000 && links.size() == 0 && moved[2999] == 2992);
    bool refused = false;
    try {
        tenken::HostArrayOf<std::int64_t> endless(~std::size_t{0} / 4);
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    CHECK(refused);
}

TEST(a_sweep_ends_with_its_last_size) {
    using Sizes = std::vector<std::uint64_t>;
    CHECK(tenken::sweep(4, 64, 4) == (Sizes{4, 16, 64}));
    CHECK(tenken::sweep(4, 65, 4) == (Sizes{4, 16, 64, 65}));
    CHECK(tenken::sweep(5, 5, 2) == (Sizes{5}));
    const std::uint64_t last = ~std::uint64_t{0};
    CHECK(tenken::sweep(1, last, 2).size() == 65 && tenken::sweep(1, last, 2).back() == last);
    for (const auto& wrong : {Sizes{0, 4, 2}, Sizes{8, 4, 2}, Sizes{1, 4, 1}}) {
        bool refused = false;
        try {
            tenken::sweep(wrong[0], wrong[1], wrong[2]);
        } catch (const std::invalid_argument&) {
            refused = true;
        }
        CHECK(refused);
    }
    CHECK(tenken::words_of("a,b,,c") == (std::vector<std::string>{"a", "b", "", "c"}));
    CHECK(tenken::words_of("").empty());
}

TEST(placement_tells_what_this_process_may_use) {
    const tenken::Placement placement = tenken::find_placement();
    CHECK(!placement.allowed_cpus.empty());
    CHECK(placement.thread_cpus.size() == static_cast<std::size_t>(placement.threads));
}

TEST(both_ends_of_a_pcie_link_are_read) {
    Tree tree;
    const std::string bridge = "/sys/devices/pci0000:16/0000:16:01.0";
    tree.file(bridge + "/max_link_speed", "16.0 GT/s PCIe");
    tree.file(bridge + "/max_link_width", "16");
    tree.file(bridge + "/0000:1a:00.0/max_link_speed", "32.0 GT/s PCIe");
    tree.file(bridge + "/0000:1a:00.0/max_link_width", "8");
    tree.file("/sys/devices/pci0000:40/0000:41:00.0/max_link_speed", "Unknown");
    tree.file("/sys/devices/pci0000:40/0000:41:00.0/max_link_width", "63");
    tree.file("/sys/bus/pci/devices/none", "");
    const std::string links = tree.root() + "/sys/bus/pci/devices/";
    CHECK(symlink((tree.root() + bridge + "/0000:1a:00.0").c_str(), (links + "0000:1a:00.0").c_str()) == 0);
    CHECK(symlink((tree.root() + "/sys/devices/pci0000:40/0000:41:00.0").c_str(),
                  (links + "0000:41:00.0").c_str()) == 0);

    tenken::DeviceDescription gpu;
    tenken::read_pcie_ends("0000:1A:00.0", gpu, tree.root());
    CHECK(*gpu.pcie_generation_gpu == 5 && *gpu.pcie_width_gpu == 8);
    CHECK(*gpu.pcie_bridge == "0000:16:01.0" && *gpu.pcie_generation_bridge == 4);
    CHECK(*gpu.pcie_width_bridge == 16);

    tenken::DeviceDescription alone;  // on the root bus, and its registers cannot be read
    tenken::read_pcie_ends("0000:41:00.0", alone, tree.root());
    tenken::read_pcie_ends("0000:99:00.0", alone, tree.root());
    CHECK(!alone.pcie_bridge && !alone.pcie_generation_gpu && !alone.pcie_width_gpu);
    CHECK(*tenken::pcie_generation("2.5 GT/s") == 1 && *tenken::pcie_generation("64.0 GT/s PCIe") == 6);
    CHECK(!tenken::pcie_generation("7 GT/s"));
}

TEST(pages_lie_on_the_host_where_their_node_has_cpus) {
    CHECK_EQUAL(tenken::Residence::of_pages({0, 0, 1, -1}, {0}).text(), "host 50 %, device 50 %");
    CHECK_EQUAL(tenken::Residence::of_pages({0, 1}, {0, 1}).text(), "host 100 %, device 0 %");
    CHECK_EQUAL(tenken::Residence::of_pages({1, 1}, {0}).text(), "host 0 %, device 100 %");
    // a container may show no nodes
    CHECK_EQUAL(tenken::Residence::of_pages({0, -1}, {}).text(), "host 50 %, device 50 %");
    CHECK_EQUAL(tenken::Residence::of_pages({}, {0}).text(), "unknown");
}
