// What joins two GPUs of a node, by what the driver says of their links, and how fast that can be.
#pragma once

#include <string>
#include <vector>

#include "lib/base/device.h"
#include "lib/base/document.h"
#include "lib/base/nvml.h"

namespace tenken {

/// A GPU as its links see it.
struct LinkedGpu {
    DeviceDescription description;
    std::vector<NvLink> links;  ///< empty where there are none, or where the driver does not report

    /// "3, 17": the links that are not active; empty when all are.
    std::string inactive() const;
};

/// What joins an ordered pair of GPUs.
struct PairLink {
    enum class Kind { nvlink, nvswitch, pcie, unknown };
    Kind kind = Kind::unknown;
    int count = 0;              ///< active NVLinks that lead from one to the other, or to the switch between
    Optional<double> link_gbs;  ///< of one NVLink in one direction, in GB/s

    /// "18 x NVLink through a switch", "2 x NVLink", "PCIe", "not known": for people.
    std::string text() const;
    /// The same without the number: pairs with one text are of one class.
    std::string kind_text() const;
};

/// What joins two GPUs. Links whose end the driver does not report (virtual machines hide it) count as
/// leading to a switch, which is where all links of a GPU lead that has more than its neighbours need.
PairLink pair_link(const LinkedGpu& from, const LinkedGpu& to);

/// The most that can go from one GPU to another in GB/s: active NVLinks x their rate, or the narrower PCIe.
/// @param ways 1, or 2 for both directions together
Limit pair_limit(const LinkedGpu& from, const LinkedGpu& to, int directions = 1);

/// The most that can go through the host's memory from one GPU to another in GB/s: the narrower PCIe.
Limit staged_limit(const DeviceDescription& from, const DeviceDescription& to);

/// The most that one GPU can send to (or receive from) several others at once in GB/s.
Limit fan_limit(const LinkedGpu& one, const std::vector<const LinkedGpu*>& others);

/// GB/s of a PCIe link in one direction by its line rate and line code (generations 1 to 6); 0 for another.
double pcie_gbs(int generation, int width);

/// Whether two PCI addresses name the same device, however they are written (0000:1B:00.0, 00000000:1b:00.0).
bool same_pci_device(const std::string& one, const std::string& other);

}  // namespace tenken
