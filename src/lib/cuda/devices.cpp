#include "lib/cuda/devices.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "lib/base/arguments.h"
#include "lib/base/gpu_selection.h"
#include "lib/base/machine_locks.h"
#include "lib/base/pcie.h"
#include "lib/base/text_file.h"
#include "lib/cuda/check.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

namespace {

int attribute(cudaDeviceAttr which, int device) {
    int value = 0;
    TENKEN_CUDA(cudaDeviceGetAttribute(&value, which, device));
    return value;
}

/// An attribute that is 0 (or refused) if it does not apply, for example to vGPUs.
Optional<int> told(cudaDeviceAttr which, int device) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
        cudaGetLastError();
        return {};
    }
    if (value <= 0) return {};
    return value;
}

#if CUDART_VERSION >= 10000
Optional<std::string> uuid_text(const cudaDeviceProp& properties) {
    const cudaUUID_t& uuid = properties.uuid;
    unsigned char bytes[16];
    std::memcpy(bytes, &uuid, sizeof bytes);
    if (std::all_of(bytes, bytes + 16, [](unsigned char byte) { return byte == 0; })) return {};
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
        char two[4];
        std::snprintf(two, sizeof two, "%02x", bytes[i]);
        text += (i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(two);
    }
    return text;
}
#else
Optional<std::string> uuid_text(const cudaDeviceProp&) {
    return {};
}
#endif

/// The NUMA node of the GPU, by its PCI address.
Optional<int> numa_node(std::string pci_bus_id) {
    std::transform(pci_bus_id.begin(), pci_bus_id.end(), pci_bus_id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    // A machine with one node reports -1, which is read as absent.
    const Optional<std::string> text = read_text("/sys/bus/pci/devices/" + pci_bus_id + "/numa_node");
    if (!text || text->empty() || !std::isdigit(static_cast<unsigned char>(text->front()))) return {};
    return std::atoi(text->c_str());
}

Optional<std::string> visible_devices_variable() {
    const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
    if (value == nullptr) return {};
    return std::string(value);
}

}  // namespace

int device_count() {
    int driver = 0;
    int count = 0;
    TENKEN_CUDA(cudaDriverGetVersion(&driver));
    if (driver == 0) {
        throw std::runtime_error(
            "no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded); built for CUDA " +
            version_text(CUDART_VERSION));
    }
    const Optional<std::string> visible = visible_devices_variable();
    if (visible) visible_devices(*visible);
    const cudaError_t result = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (result == cudaErrorInsufficientDriver) {
        throw std::runtime_error("the NVIDIA driver is too old: it supports CUDA " + version_text(driver) +
                                 ", this program was built with CUDA " + version_text(CUDART_VERSION) +
                                 "; build with CUDA " + version_text(driver) +
                                 " or older, or update the driver");
    }
    if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0)) {
        throw std::runtime_error("no GPU: the driver (CUDA " + version_text(driver) + ") finds none" +
                                 (visible ? " with CUDA_VISIBLE_DEVICES='" + *visible + "'" : ""));
    }
    if (result != cudaSuccess) fail(result, "cudaGetDeviceCount(&count)", __FILE__, __LINE__);
    check_visible_devices(visible, count);
    return count;
}

DeviceDescription describe(int index, const Nvml* nvml) {
    cudaDeviceProp properties;
    TENKEN_CUDA(cudaGetDeviceProperties(&properties, index));
    MachineLocks* const locks = MachineLocks::of_this_process();
    // before it has a context
    if (locks != nullptr) locks->hold_gpu(uuid_text(properties).value_or(""));
    TENKEN_CUDA(cudaSetDevice(index));
    DeviceDescription description;
    description.index = index;
    description.name = properties.name;
    description.compute_capability =
        std::to_string(properties.major) + "." + std::to_string(properties.minor);
    require_code(description.compute_capability, description.name);
    description.uuid = uuid_text(properties);
    char address[32] = "";
    if (cudaDeviceGetPCIBusId(address, sizeof address, index) == cudaSuccess) {
        description.pci_bus_id = std::string(address);
        description.numa_node = numa_node(address);
        read_pcie_ends(address, description);
    }
    description.multiprocessors = properties.multiProcessorCount;
    description.memory_bytes = properties.totalGlobalMem;
    description.memory_free_bytes = free_memory_bytes();
    description.l2_bytes = static_cast<std::uint64_t>(std::max(0, properties.l2CacheSize));
    description.memory_bus_bits = told(cudaDevAttrGlobalMemoryBusWidth, index);
    // Attributes, not properties: CUDA 13 has removed the clocks from cudaDeviceProp.
    const Optional<int> memory_khz = told(cudaDevAttrMemoryClockRate, index);
    if (memory_khz) description.memory_clock_mhz = *memory_khz / 1000.0;
    const Optional<int> sm_khz = told(cudaDevAttrClockRate, index);
    if (sm_khz) description.sm_clock_max_mhz = *sm_khz / 1000.0;
    description.ecc_enabled = properties.ECCEnabled != 0;
    description.integrated = properties.integrated != 0;
    int driver = 0;
    TENKEN_CUDA(cudaDriverGetVersion(&driver));
    description.cuda_driver = version_text(driver);
    int runtime = 0;
    TENKEN_CUDA(cudaRuntimeGetVersion(&runtime));
    description.cuda_runtime = version_text(runtime);
    description.managed_memory = attribute(cudaDevAttrManagedMemory, index) != 0;
    description.concurrent_managed_access = attribute(cudaDevAttrConcurrentManagedAccess, index) != 0;
    description.pageable_memory_access = attribute(cudaDevAttrPageableMemoryAccess, index) != 0;
    description.pageable_uses_host_page_tables =
        attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables, index) != 0;
    std::string why_not;
    const Nvml::Device device =
        nvml != nullptr && description.pci_bus_id ? nvml->find(*description.pci_bus_id, why_not) : nullptr;
    if (device != nullptr) nvml->describe(device, description);
    return description;
}

std::uint64_t free_memory_bytes() {
    std::size_t left = 0;
    std::size_t total = 0;
    TENKEN_CUDA(cudaMemGetInfo(&left, &total));
    return left;
}

void require_free_memory(std::uint64_t bytes, const std::string& what) {
    const std::uint64_t left = free_memory_bytes();
    if (bytes <= left) return;
    int device = 0;
    TENKEN_CUDA(cudaGetDevice(&device));
    throw std::runtime_error("GPU " + std::to_string(device) + ": not enough free memory for " + what +
                             ": requested " + format_bytes(bytes) + ", free " + format_bytes(left));
}

void describe_build(Build& build) {
    build.cuda_compiler = std::string(TENKEN_CUDA_COMPILER);
    build.cuda_architectures = std::string(TENKEN_CUDA_ARCHITECTURES);
}

}  // namespace cuda
}  // namespace tenken
