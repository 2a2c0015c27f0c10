"""What the driver reports about a GPU, by NVML, loaded at run time: description, health during a run, energy.

As src/lib/base/nvml.cpp and health.cpp do it for the compiled programs. TENKEN_NVML names another library, for tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Any

REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting",
)  # fmt: skip
#: Which of several readings is the worst.
LOWEST = ("sm_clock_mhz", "memory_clock_mhz", "nvlinks_active", "utilization_percent")
#: Seconds between two readings.
INTERVAL = 0.25
_SM, _MEMORY = 1, 2
_MOST_LINKS, _MOST_PROCESSES = 18, 64


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]  # fmt: skip


class Gpu:
    """One GPU by its UUID (`GPU-...`). Raises OSError with the reason if NVML or the GPU is missing."""

    def __init__(self, uuid: str) -> None:
        self._nvml = ctypes.CDLL(os.environ.get("TENKEN_NVML") or "libnvidia-ml.so.1")
        self._handle = ctypes.c_void_p()
        try:
            if self._nvml.nvmlInit_v2() != 0:
                raise OSError("nvmlInit_v2 failed")
            if self._nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._handle)) != 0:
                raise OSError(f"NVML does not list the GPU {uuid}")
        except AttributeError as error:
            raise OSError(f"not NVML: {error}") from None

    def _call(self, name: str, *arguments: Any) -> bool:
        function = getattr(self._nvml, name, None)
        return function is not None and function(*arguments) == 0

    def _number(self, name: str, *arguments: Any, kind: Any = ctypes.c_uint) -> int | None:
        found = kind()
        return int(found.value) if self._call(name, self._handle, *arguments, ctypes.byref(found)) else None

    def _text(self, name: str) -> str | None:
        found = ctypes.create_string_buffer(96)
        return found.value.decode(errors="replace") or None if self._call(name, self._handle, found, 96) else None

    def _links(self) -> tuple[int, int]:
        states = [self._number("nvmlDeviceGetNvLinkState", ctypes.c_uint(link)) for link in range(_MOST_LINKS)]
        known = [one for one in states if one is not None]
        return sum(map(bool, known)), len(known)

    def joules(self) -> float | None:
        """Energy since the driver was loaded."""
        found = self._number("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong)
        return None if found is None else found / 1e3

    def describe(self) -> dict[str, Any]:
        """Attributes of a result's device that the run time does not report."""
        driver = ctypes.create_string_buffer(96)
        mode, other = ctypes.c_uint(), ctypes.c_uint()
        found: dict[str, Any] = {
            "driver": driver.value.decode() if self._call("nvmlSystemGetDriverVersion", driver, 96) else None,
            "vbios": self._text("nvmlDeviceGetVbiosVersion"),
            "serial": self._text("nvmlDeviceGetSerial"),
            "memory_clock_max_mhz": self._number("nvmlDeviceGetMaxClockInfo", _MEMORY),
            "sm_clock_max_mhz": self._number("nvmlDeviceGetMaxClockInfo", _SM),
            "memory_bus_bits": self._number("nvmlDeviceGetMemoryBusWidth"),
            "pcie_generation_max": self._number("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_width_max": self._number("nvmlDeviceGetMaxPcieLinkWidth"),
        }
        found["memory_clock_mhz"] = found["memory_clock_max_mhz"]
        power = self._number("nvmlDeviceGetEnforcedPowerLimit")
        found["power_limit_w"] = None if power is None else power / 1e3
        persistence = self._number("nvmlDeviceGetPersistenceMode")
        found["persistence_mode"] = None if persistence is None else bool(persistence)
        for key, name in (("ecc_enabled", "nvmlDeviceGetEccMode"), ("mig_enabled", "nvmlDeviceGetMigMode")):
            there = self._call(name, self._handle, ctypes.byref(mode), ctypes.byref(other))
            found[key] = bool(mode.value) if there else None
        active, total = self._links()
        if total:
            found["nvlinks_active"], found["nvlinks_total"] = active, total
        return {key: value for key, value in found.items() if value is not None}

    def read(self, own: set[int]) -> dict[str, Any]:
        """One reading of its health; `own`: processes of this run."""
        mask = self._number("nvmlDeviceGetCurrentClocksEventReasons", kind=ctypes.c_ulonglong)
        if mask is None:
            mask = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        reasons = None
        if mask is not None:
            names = [*REASONS, *(f"bit_{bit}" for bit in range(len(REASONS), 64))]
            reasons = [name for bit, name in enumerate(names) if mask >> bit & 1]
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        found: dict[str, Any] = {
            "sm_clock_mhz": self._number("nvmlDeviceGetClockInfo", _SM),
            "memory_clock_mhz": self._number("nvmlDeviceGetClockInfo", _MEMORY),
            "power_w": None if milliwatts is None else milliwatts / 1e3,
            "temperature_c": self._number("nvmlDeviceGetTemperature", 0),
            "reasons": reasons,
            "pcie_generation": self._number("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self._number("nvmlDeviceGetCurrPcieLinkWidth"),
            "other_processes": self._others(own),
        }
        for key, which in (("ecc_corrected", 0), ("ecc_uncorrected", 1)):
            found[key] = self._number("nvmlDeviceGetTotalEccErrors", which, 0, kind=ctypes.c_ulonglong)
        rows = [ctypes.c_uint() for _ in range(4)]
        if self._call("nvmlDeviceGetRemappedRows", self._handle, *map(ctypes.byref, rows)):
            found["remapped_rows_correctable"], found["remapped_rows_uncorrectable"] = rows[0].value, rows[1].value
            found["remapping_pending"], found["remapping_failed"] = bool(rows[2].value), bool(rows[3].value)
        memory, busy = _Memory(), _Utilization()
        if self._call("nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(memory)):
            found["memory_used_bytes"] = memory.used
        if self._call("nvmlDeviceGetUtilizationRates", self._handle, ctypes.byref(busy)):
            found["utilization_percent"] = busy.gpu
        active, total = self._links()
        if total:
            found["nvlinks_active"] = active
        return found

    def _others(self, own: set[int]) -> int | None:
        """In a container the processes of this run have other IDs: then this number of them is not counted."""
        count, found = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            if self._call(name, self._handle, ctypes.byref(count), found):
                seen = {int(one.pid) for one in found[: count.value]}
                return len(seen - own) if seen & own else max(0, count.value - 1)
        return None


def folded(worst: dict[str, Any] | None, reading: dict[str, Any]) -> dict[str, Any]:
    """The worst of several readings."""
    if worst is None:
        return dict(reading)
    found = dict(worst)
    for key, value in reading.items():
        before = found.get(key)
        if value is None or before is None:
            found[key] = value if before is None else before
        elif key == "reasons":
            found[key] = [*before, *(one for one in value if one not in before)]
        else:
            found[key] = min(before, value) if key in LOWEST else max(before, value)
    return found


class Watch:
    """Health of one GPU before, after and at its worst while `watching`, and the energy drawn meanwhile."""

    def __init__(self, uuid: str) -> None:
        self.why = ""
        self._own, self.samples, self._worst = {os.getpid(), os.getppid()}, 0, None
        self._gpu: Gpu | None = None
        try:
            self._gpu = Gpu(uuid)
            self._before = self._gpu.read(self._own)
        except OSError as error:
            self.why = str(error)

    def describe(self) -> dict[str, Any]:
        return self._gpu.describe() if self._gpu else {}

    def joules(self) -> float | None:
        return self._gpu.joules() if self._gpu else None

    @contextlib.contextmanager
    def watching(self) -> Any:
        """Read every INTERVAL seconds, at least once."""
        if self._gpu is None:
            yield
            return
        gpu, ended = self._gpu, threading.Event()

        def read() -> None:
            # the work has begun by the time of the first reading
            while not ended.wait(INTERVAL):
                self._worst, self.samples = folded(self._worst, gpu.read(self._own)), self.samples + 1

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield
            if self.samples == 0:
                self._worst, self.samples = gpu.read(self._own), 1
        finally:
            ended.set()
            thread.join()

    def health(self, index: int) -> dict[str, Any] | None:
        """The entry of a result's health; None: nothing could be read."""
        if self._gpu is None:
            return None
        after = self._gpu.read(self._own)
        entry = {
            "index": index, "before": self._before, "after": after, "worst": self._worst or after,
            "samples": self.samples,
        }  # fmt: skip
        if after.get("other_processes"):
            # once the driver's utilisation, of the last second at most, no longer contains this run's work
            time.sleep(1.0)
            busy = []
            for _ in range(3):
                busy.append(self._gpu.read(self._own).get("utilization_percent"))
                time.sleep(0.1)
            entry["others_percent"] = max((one for one in busy if one is not None), default=None)
        return entry
