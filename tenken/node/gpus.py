"""What NVML reports on every GPU, as plain values: None is what could not be read, and is never a fault.

NVML is loaded at run time (`libnvidia-ml.so.1`); constants and layouts are those of NVIDIA's nvml.h, release 580. That
includes a call that an older library lacks, a field that a GPU does not have, and any status other than success: None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

#: Status codes of NVML that mean a fault of the machine, not a missing feature.
GPU_IS_LOST, RESET_REQUIRED, LIB_RM_VERSION_MISMATCH = 15, 16, 18
LOST = (GPU_IS_LOST, RESET_REQUIRED)
#: nvmlDeviceGetFieldValues: Since NVLink 5, NVLink errors are reported only for all links together (scope 0xFFFFFFFF).
ALL_LINKS = 0xFFFFFFFF
NVLINK_FIELDS = {
    206: "malformed_packets",
    207: "buffer_overruns",
    208: "receive_errors",
    211: "link_integrity",
    214: "recovery_failed",
    215: "recovery",
    219: "effective_errors",
}
#: nvmlNvLinkErrorCounter_t, per link, up to NVLink 4.
NVLINK_ERRORS = {0: "replay", 1: "recovery", 2: "crc_flit", 3: "crc_data"}
PCIE_FIELDS = {169: "l0_to_recovery", 173: "correctable", 179: "nonfatal", 180: "fatal"}
MEMORY_TEMPERATURE, RECOVERY_ACTION = 82, 230
#: NVML_NVLINK_MAX_LINKS
MAX_LINKS = 18
#: nvmlClocksEventReasons for clocks held down by something other than the load.
SLOWDOWNS = {0x08: "hw_slowdown", 0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake"}
#: nvmlGpuFabricState_t
FABRIC = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
#: Parts of nvmlGpuFabricInfo's healthMask: lowest bit; of two bits, 1 is yes, 2 no and 0 not reported.
FABRIC_HEALTH = {
    "bandwidth degraded": 0, "route recovery in progress": 2, "route unhealthy": 4,
    "recovery of an access timeout in progress": 6,
}  # fmt: skip
#: Four bits from bit 8: what is wrong with the rack's configuration; 0 not reported, 1 nothing.
FABRIC_CONFIGURATION = {
    2: "wrong system GUID", 3: "wrong chassis serial number", 4: "no partition", 5: "too few NVLinks",
}  # fmt: skip
#: nvmlGpuFabricInfo_v3: healthSummary.
FABRIC_SUMMARY = {1: "healthy", 2: "unhealthy", 3: "limited capacity"}
#: nvmlDeviceGpuRecoveryAction_t
ACTIONS = {0: "none", 1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset"}

Gpu = dict[str, Any]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("id", ctypes.c_uint),
        ("subsystem", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


class _Memory(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    ]


class _Value(ctypes.Union):
    _fields_ = [("d", ctypes.c_double), ("u", ctypes.c_uint), ("ull", ctypes.c_ulonglong), ("ll", ctypes.c_longlong)]


class _Field(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", _Value),
    ]


class _Fabric(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
        ("health", ctypes.c_uint),
    ]


class _Fabric3(ctypes.Structure):
    _fields_ = [*_Fabric._fields_, ("summary", ctypes.c_ubyte)]


#: nvmlValueType_t: how to read the eight bytes of a field.
_TYPES = {0: "d", 1: "u", 2: "ull", 3: "ull", 4: "ll"}


class Nvml:
    """The library, opened. `why` states why it could not be loaded; then no other call is allowed."""

    def __init__(self, library: Any = LIBRARY) -> None:
        self.why = ""
        self.code = 0
        try:
            self._lib = ctypes.CDLL(library) if isinstance(library, str) else library
        except OSError as error:
            self.why = str(error)
            return
        status = self._call("nvmlInit_v2")
        if status != 0:
            self.code = status or 0
            self.why = "nvmlInit_v2 is missing" if status is None else f"nvmlInit answers {status}"

    def _call(self, name: str, *arguments: Any) -> int | None:
        """The status of a call; None if the library does not have it."""
        function = getattr(self._lib, name, None)
        return None if function is None else int(function(*arguments))

    def system(self) -> dict[str, Any]:
        """Driver's version and the number of GPUs."""
        driver = ctypes.create_string_buffer(80)
        count = ctypes.c_uint()
        known = self._call("nvmlSystemGetDriverVersion", driver, ctypes.c_uint(80)) == 0
        counted = self._call("nvmlDeviceGetCount_v2", ctypes.byref(count)) == 0
        return {"driver": driver.value.decode() if known else None, "count": count.value if counted else None}

    def gpu(self, index: int) -> Gpu:
        """All readings of one GPU. `lost`: NVML's status for a GPU that no longer answers."""
        handle = ctypes.c_void_p()
        status = self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        gpu: Gpu = {"index": index, "lost": status in LOST or None}
        if status != 0:
            return gpu
        one = _Device(self, handle)
        gpu |= {
            "uuid": one.string("nvmlDeviceGetUUID", 96),
            "name": one.string("nvmlDeviceGetName", 96),
            "vbios": one.string("nvmlDeviceGetVbiosVersion", 32),
            "bus": one.bus(),
            "ecc": one.first("nvmlDeviceGetEccMode", 2),
            "mig": one.first("nvmlDeviceGetMigMode", 2),
            "persistence": one.number("nvmlDeviceGetPersistenceMode"),
            # memory errors: 0 corrected, 1 uncorrected; 0 since the driver was loaded, 1 over the GPU's lifetime
            "ecc_corrected": one.ecc(0, 0),
            "ecc_uncorrected": one.ecc(1, 0),
            "ecc_uncorrected_life": one.ecc(1, 1),
            "remapped": one.remapped(),
            "retired_pending": one.number("nvmlDeviceGetRetiredPagesPendingStatus"),
            "pcie_generation": one.number("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": one.number("nvmlDeviceGetCurrPcieLinkWidth"),
            "pcie_generation_max": one.number("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_width_max": one.number("nvmlDeviceGetMaxPcieLinkWidth"),
            "pcie_replay": one.number("nvmlDeviceGetPcieReplayCounter"),
            "pcie_errors": one.fields(PCIE_FIELDS),
            "pstate": one.number("nvmlDeviceGetPerformanceState"),
            "clock_mhz": one.number("nvmlDeviceGetClockInfo", ctypes.c_uint(1)),
            "clock_max_mhz": one.number("nvmlDeviceGetMaxClockInfo", ctypes.c_uint(1)),
            "memory_clock_mhz": one.number("nvmlDeviceGetClockInfo", ctypes.c_uint(2)),
            "clock_set_mhz": one.number("nvmlDeviceGetApplicationsClock", ctypes.c_uint(1)),
            "clock_default_mhz": one.number("nvmlDeviceGetDefaultApplicationsClock", ctypes.c_uint(1)),
            "slowdowns": one.slowdowns(),
            "power_limit_w": one.watts("nvmlDeviceGetEnforcedPowerLimit"),
            "power_default_w": one.watts("nvmlDeviceGetPowerManagementDefaultLimit"),
            "temperature_c": one.number("nvmlDeviceGetTemperature", ctypes.c_uint(0)),
            "slowdown_c": one.number("nvmlDeviceGetTemperatureThreshold", ctypes.c_uint(1)),
            "memory_temperature_c": one.fields({MEMORY_TEMPERATURE: "t"})["t"],
            "recovery_action": one.fields({RECOVERY_ACTION: "a"})["a"],
            "fabric": one.fabric(),
            "nvlinks": one.links(),
            "processes": one.processes(),
        }
        gpu |= one.memory()
        gpu["nvlink_errors"] = one.link_errors(gpu["nvlinks"] or [])
        gpu["lost"] = one.lost or None
        return gpu


class _Device:
    """The calls on one GPU. `lost` is set if one of them reports that the GPU is gone, or must be reset."""

    def __init__(self, nvml: Nvml, handle: ctypes.c_void_p) -> None:
        self._nvml, self._handle, self.lost = nvml, handle, False

    def _ok(self, name: str, *arguments: Any) -> bool:
        status = self._nvml._call(name, self._handle, *arguments)
        self.lost |= status in LOST
        return status == 0

    def _out(self, name: str, made: Any, *before: Any, read: Callable[[Any], Any]) -> Any:
        return read(made) if self._ok(name, *before, ctypes.byref(made)) else None

    def number(self, name: str, *before: Any) -> int | None:
        return self._out(name, ctypes.c_uint(), *before, read=lambda made: made.value)

    def watts(self, name: str) -> float | None:
        milli = self.number(name)
        return None if milli is None else milli / 1e3

    def first(self, name: str, count: int) -> int | None:
        """The first of several numbers that a call returns: the current mode. The second is the mode after a reset."""
        made = [ctypes.c_uint() for _ in range(count)]
        return made[0].value if self._ok(name, *map(ctypes.byref, made)) else None

    def string(self, name: str, size: int) -> str | None:
        made = ctypes.create_string_buffer(size)
        return made.value.decode("utf-8", "replace") if self._ok(name, made, ctypes.c_uint(size)) else None

    def bus(self) -> str | None:
        """As in sysfs: four digits of domain, lower case."""
        made = _Pci()
        if not self._ok("nvmlDeviceGetPciInfo_v3", ctypes.byref(made)):
            return None
        return f"{made.domain:04x}:{made.bus:02x}:{made.device:02x}.0"

    def ecc(self, uncorrected: int, life: int) -> int | None:
        before = (ctypes.c_uint(uncorrected), ctypes.c_uint(life))
        return self._out(
            "nvmlDeviceGetTotalEccErrors", ctypes.c_ulonglong(), *before, read=lambda made: int(made.value)
        )

    def remapped(self) -> dict[str, int] | None:
        made = [ctypes.c_uint() for _ in range(4)]
        if not self._ok("nvmlDeviceGetRemappedRows", *map(ctypes.byref, made)):
            return None
        return dict(zip(("correctable", "uncorrectable", "pending", "failed"), (m.value for m in made), strict=True))

    def fields(self, wanted: dict[int, str], scope: int = 0) -> dict[str, int | None]:
        array = (_Field * len(wanted))()
        for made, number in zip(array, wanted, strict=True):
            made.id, made.scope = number, scope
        read = self._ok("nvmlDeviceGetFieldValues", ctypes.c_int(len(wanted)), array)
        result: dict[str, int | None] = dict.fromkeys(wanted.values())
        for made in array if read else ():
            if made.status == 0 and made.type in _TYPES:
                result[wanted[made.id]] = int(getattr(made.value, _TYPES[made.type]))
        return result

    def slowdowns(self) -> list[str] | None:
        made = ctypes.c_ulonglong()
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            if self._ok(name, ctypes.byref(made)):
                return [said for bit, said in SLOWDOWNS.items() if made.value & bit]
        return None

    def fabric(self) -> dict[str, Any] | None:
        """State of the registration with the fabric of NVSwitches; None on GPUs without one. Version 3 of the call has
        a summary; older drivers have version 2. A cluster UUID of zeros: the NVLinks stay within the node."""
        for kind, version in ((_Fabric3, 3), (_Fabric, 2)):
            made = kind(version=ctypes.sizeof(kind) | version << 24)
            if self._ok("nvmlDeviceGetGpuFabricInfoV", ctypes.byref(made)):
                break
        else:
            return None
        if made.state == 0:
            return None
        configuration = made.health >> 8 & 15
        return {
            "state": FABRIC.get(made.state, str(made.state)),
            "status": made.status,
            "clique": made.clique,
            "cluster": bytes(made.cluster).hex(),
            # two bits: 1 yes, 2 no, 0 not reported
            "degraded": {1: True, 2: False}.get(made.health & 3),
            "health": [
                *(said for said, bit in FABRIC_HEALTH.items() if made.health >> bit & 3 == 1),
                *([FABRIC_CONFIGURATION.get(configuration, f"configuration {configuration}")] * (configuration > 1)),
            ],
            "summary": FABRIC_SUMMARY.get(getattr(made, "summary", 0)),
        }

    def links(self) -> list[bool | None] | None:
        """Whether each NVLink is up; None if that cannot be read."""
        states: list[bool | None] = []
        for link in range(MAX_LINKS):
            active = self.number("nvmlDeviceGetNvLinkState", ctypes.c_uint(link))
            states.append(None if active is None else active == 1)
        while states and states[-1] is None:
            states.pop()
        return states or None

    def link_errors(self, links: list[bool | None]) -> dict[str, int | None]:
        """Sums over all links that answer, for each kind of error; unknown if none does."""
        result: dict[str, int | None] = dict(self.fields(NVLINK_FIELDS, ALL_LINKS))
        for code, said in NVLINK_ERRORS.items():
            for link, up in enumerate(links):
                made = ctypes.c_ulonglong()
                arguments = (ctypes.c_uint(link), ctypes.c_uint(code), ctypes.byref(made))
                known = up and self._ok("nvmlDeviceGetNvLinkErrorCounter", *arguments)
                result[f"{said}.{link}"] = int(made.value) if known else None
        return result

    def memory(self) -> dict[str, int | None]:
        made = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        read = self._ok("nvmlDeviceGetMemoryInfo_v2", ctypes.byref(made))
        return {"memory_bytes": made.total if read else None, "memory_used_bytes": made.used if read else None}

    def processes(self) -> list[int] | None:
        """Ids of compute and graphics processes on the GPU; None if the driver does not list them."""
        result: set[int] = set()
        known = False
        for kind in ("Compute", "Graphics"):
            array = (_Process * 128)()
            count = ctypes.c_uint(len(array))
            if self._ok(f"nvmlDeviceGet{kind}RunningProcesses_v3", ctypes.byref(count), array):
                known = True
                result |= {array[i].pid for i in range(count.value)}
        return sorted(result) if known else None
