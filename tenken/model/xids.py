"""What the XIDs of NVIDIA's driver mean for a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: XIDs caused by the hardware, its memory, its links or its bus, whose remedy is a reset or a repair, whatever else the
#: event contains: NVIDIA, "Xid Catalog" (docs.nvidia.com/deploy/xid-errors, resolution buckets RESET_GPU and
#: RESTART_BM) and "Xid Checks" (docs.nvidia.com/health-validation), 2026-11.
HARDWARE_XIDS: Mapping[int, str] = {
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halt",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP does not answer",
    120: "GSP error",
    110: "security fault",
    136: "NVLink training failed",
    140: "unrecovered ECC error",
    143: "GPU initialization error",
    149: "NVLink NETIR error",
    157: "no resources left for a repair of memory",
    158: "GPU fatal timeout",
    167: "PCIe fatal timeout",
    169: "internal micro-controller halt",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
}
#: XIDs whose severity depends on a code that is only in the kernel log, not in the driver's library (the same
#: catalogue, decoding of NVLink 5). If one of them is fatal, XID 48 follows, which is a hardware one.
UNDECIDED_XIDS: Mapping[int, str] = {
    144: "NVLink SAW error", 145: "NVLink RLW error", 146: "NVLink TLW error", 147: "NVLink TREX error",
    148: "NVLink NVLPW_CTRL error", 150: "NVLink MSE error", 154: "GPU recovery action changed",
}  # fmt: skip
#: What the driver asks for after another event, or no longer, in words that only the kernel log has.
ACTION_XID = 154
#: XIDs caused by a program: an illegal address or instruction, a failed kernel, an abort.
PROGRAM_XIDS: Mapping[int, str] = {
    13: "graphics engine exception", 31: "memory page fault", 43: "GPU stopped processing for this program",
    45: "preemptive cleanup of a program that ended", 68: "video processor exception",
    69: "graphics engine class error",
    137: "NVLink privilege error",
}  # fmt: skip

#: What the driver reports for every program that another event ends; it belongs to that event.
CONSEQUENCE = 45


def events(xids: Sequence[int]) -> tuple[int, ...]:
    """XIDs in the order reported, without consequences of an earlier one of another kind."""
    first = next((at for at, xid in enumerate(xids) if xid != CONSEQUENCE), len(xids))
    return tuple(xid for at, xid in enumerate(xids) if xid != CONSEQUENCE or at < first)
