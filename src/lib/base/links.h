// The connection between two GPUs of a node, as reported by the driver.
#pragma once

#include <string>
#include <vector>

#include "lib/base/device.h"
#include "lib/base/document.h"
#include "lib/base/nvml.h"

namespace tenken {

/// A GPU with its links.
struct LinkedGpu {
    DeviceDescription description;
    std::vector<NvLink> links;  ///< empty if there are none, or if the driver does not report them

    /// "3, 17": the inactive links; empty if all are active.
    std::string inactive() const;
};

/// The connection of an ordered pair of GPUs.
struct PairLink {
    enum class Kind { nvlink, nvswitch, pcie, unknown };
    Kind kind = Kind::unknown;
    int count = 0;  ///< active NVLinks from one to the other, or to the switch between them

    /// "18 x NVLink through a switch", "2 x NVLink", "PCIe", "not known": for display.
    std::string text() const;
    /// The same without the number: pairs with the same text form a class.
    std::string kind_text() const;
};

/// The connection of two GPUs. Links whose remote end is not reported (virtual machines hide it) are assumed
/// to lead to a switch. So are all links of a GPU that has more of them than its neighbours require.
PairLink pair_link(const LinkedGpu& from, const LinkedGpu& to);

/// Reports a connection: the number of active links (null: not known) and their kind.
void report_link(Document& document, int from, int to, const PairLink& link);

/// Whether two PCI addresses denote the same device in any notation (0000:1B:00.0, 00000000:1b:00.0).
bool same_pci_device(const std::string& one, const std::string& other);

}  // namespace tenken
