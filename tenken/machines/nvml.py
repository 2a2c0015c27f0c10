"""Attributes of GPUs that nvidia-smi does not print, from NVIDIA's management library (NVML), loaded at run time."""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass

#: nvmlClockType_t
_MEMORY_CLOCK = 2


@dataclass(frozen=True)
class Bus:
    """The interface between a GPU and its memory."""

    clock_mhz: int
    """Maximum."""
    bits: int

    @property
    def gbs(self) -> float:
        """Peak in GB/s: two transfers per clock over the whole width (NVML has no other value for it)."""
        return 2 * self.clock_mhz * self.bits / 8 / 1e3


def memory_buses(library: str = "libnvidia-ml.so.1") -> list[Bus]:
    """One entry for each GPU that reports both numbers, in NVML's order; empty without a driver."""
    try:
        nvml = ctypes.CDLL(library)
        if nvml.nvmlInit_v2() != 0:
            return []
    except (OSError, AttributeError):
        return []
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return []
        found = (_bus(nvml, index) for index in range(count.value))
        return [bus for bus in found if bus is not None]
    except AttributeError:  # an old library without one of the calls
        return []
    finally:
        with contextlib.suppress(AttributeError):
            nvml.nvmlShutdown()


def _bus(nvml: ctypes.CDLL, index: int) -> Bus | None:
    device, clock, bits = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) != 0:
        return None
    if nvml.nvmlDeviceGetMaxClockInfo(device, _MEMORY_CLOCK, ctypes.byref(clock)) != 0:
        return None
    if nvml.nvmlDeviceGetMemoryBusWidth(device, ctypes.byref(bits)) != 0:
        return None
    return Bus(clock.value, bits.value) if clock.value and bits.value else None
