"""A simulated node of eight H200: NVML in Python behind ctypes' calls, and /proc, /sys and /dev as files."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

from tenken.node import check as checks
from tenken.node.check import Machine
from tenken.node.gpus import MAX_LINKS, NVLINK_FIELDS
from tenken.node.probe import Answer
from tenken.node.verdict import Finding, Seen, findings

NOT_SUPPORTED = 3
#: GPU of the fake: what an H200 (driver 580) answers, by the keys of tenken.node.gpus.
HEALTHY: dict[str, Any] = {
    "name": "NVIDIA H200", "vbios": "96.00.A5.00.1A", "ecc": 1, "mig": 0, "persistence": 1,
    "ecc_corrected": 3, "ecc_uncorrected": 0, "ecc_uncorrected_life": 2, "remapped": [1, 0, 0, 0], "retired": None,
    "generation": 5, "width": 16, "generation_max": 5, "width_max": 16, "replay": 4, "pstate": 0,
    "clock": 1980, "clock_max": 1980, "memory_clock": 3201, "clock_set": 1980, "clock_default": 1980,
    "reasons": 1, "power_limit": 700_000, "power_default": 700_000, "temperature": 31, "slowdown": 92,
    "fields": {82: 38, 169: 0, 173: 2, 179: 0, 180: 0, 230: 0},
    "links": [1] * 18, "link_errors": {(link, code): 0 for link in range(18) for code in range(4)},
    "fabric": {"state": 3, "status": 0, "clique": 1, "cluster": bytes(range(16)), "health": 2},
    "used": 0, "compute": [], "graphics": [], "status": 0, "fault": 0,
}  # fmt: skip


def bus(index: int) -> str:
    return f"0000:{0x10 + index:02x}:00.0"


def gpu(index: int) -> dict[str, Any]:
    return copy.deepcopy(HEALTHY) | {"uuid": f"GPU-{index:08x}-0000-0000-0000-000000000000", "bus": 0x10 + index}


class Fake:
    """libnvidia-ml.so.1 as ctypes sees it. None is a value that the GPU does not have."""

    def __init__(self, count: int = 8) -> None:
        self.gpus = [gpu(index) for index in range(count)]
        self.driver = "580.159.04"
        self.init = 0
        self.lacks: set[str] = set()
        """Calls of newer libraries."""
        self.hang: str | None = None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.lacks:
            raise AttributeError(name)
        if name == self.hang:
            return lambda *_: time.sleep(60)
        if f"_{name}" in _NUMBERS:
            return lambda handle, *rest: self._coded(name, handle, *rest)
        return object.__getattribute__(self, f"_{name}")

    def _of(self, handle: Any) -> dict[str, Any]:
        return self.gpus[handle.value - 1]

    def _number(self, handle: Any, key: str, out: Any) -> int:
        value = self._of(handle)[key]
        if fault := self._of(handle)["fault"]:
            return int(fault)
        return NOT_SUPPORTED if value is None else _set(out, value)

    def _coded(self, name: str, handle: Any, *rest: Any) -> int:
        """A call that returns one number; one with another code asks for another sensor, clock or threshold."""
        assert tuple(code.value for code in rest[:-1]) == _CODES.get(name, ()), name
        return self._number(handle, _NUMBERS[f"_{name}"], rest[-1])

    def _nvmlInit_v2(self) -> int:
        return self.init

    def _nvmlSystemGetDriverVersion(self, buffer: Any, _: Any) -> int:
        buffer.value = self.driver.encode()
        return 0

    def _nvmlDeviceGetCount_v2(self, out: Any) -> int:
        return _set(out, len(self.gpus))

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> int:
        status = int(self.gpus[index.value]["status"])
        return status or _set(out, index.value + 1)

    def _string(self, handle: Any, key: str, buffer: Any) -> int:
        value = self._of(handle)[key]
        if value is None:
            return NOT_SUPPORTED
        buffer.value = value.encode()
        return 0

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, _: Any) -> int:
        return self._string(handle, "uuid", buffer)

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, _: Any) -> int:
        return self._string(handle, "name", buffer)

    def _nvmlDeviceGetVbiosVersion(self, handle: Any, buffer: Any, _: Any) -> int:
        return self._string(handle, "vbios", buffer)

    def _nvmlDeviceGetPciInfo_v3(self, handle: Any, out: Any) -> int:
        out._obj.bus = self._of(handle)["bus"]
        return 0

    def _nvmlDeviceGetEccMode(self, handle: Any, now: Any, _: Any) -> int:
        return self._number(handle, "ecc", now)

    def _nvmlDeviceGetMigMode(self, handle: Any, now: Any, _: Any) -> int:
        return self._number(handle, "mig", now)

    def _nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, life: Any, out: Any) -> int:
        keys = {(0, 0): "ecc_corrected", (1, 0): "ecc_uncorrected", (1, 1): "ecc_uncorrected_life"}
        return self._number(handle, keys[kind.value, life.value], out)

    def _nvmlDeviceGetRemappedRows(self, handle: Any, *outs: Any) -> int:
        rows = self._of(handle)["remapped"]
        if rows is None:
            return NOT_SUPPORTED
        for out, value in zip(outs, rows, strict=True):
            _set(out, value)
        return 0

    def _nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, out: Any) -> int:
        return self._number(handle, {1: "clock", 2: "memory_clock"}[kind.value], out)

    def _nvmlDeviceGetGpuFabricInfoV(self, handle: Any, out: Any) -> int:
        fabric = self._of(handle)["fabric"]
        # drivers before 570 only have version 2
        known = [36 | 2 << 24, *([40 | 3 << 24] if fabric is not None and "summary" in fabric else [])]
        if fabric is None or out._obj.version not in known:
            return NOT_SUPPORTED
        if out._obj.version == 40 | 3 << 24:
            out._obj.summary = fabric["summary"]
        out._obj.state, out._obj.status, out._obj.clique = fabric["state"], fabric["status"], fabric["clique"]
        out._obj.health = fabric["health"]
        out._obj.cluster[:] = list(fabric["cluster"])
        return 0

    def _nvmlDeviceGetNvLinkState(self, handle: Any, link: Any, out: Any) -> int:
        links = self._of(handle)["links"]
        assert link.value < MAX_LINKS
        return NOT_SUPPORTED if link.value >= len(links) else _set(out, links[link.value])

    def _nvmlDeviceGetNvLinkErrorCounter(self, handle: Any, link: Any, code: Any, out: Any) -> int:
        return _set(out, self._of(handle)["link_errors"].get((link.value, code.value), 0))

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, array: Any) -> int:
        known = self._of(handle)["fields"]
        assert count.value == len(array)
        for field in array:
            assert (field.scope == 0xFFFFFFFF) == (field.id in NVLINK_FIELDS)
            field.status = NOT_SUPPORTED if known.get(field.id) is None else 0
            field.type, field.value.ull = 3, known.get(field.id) or 0
        return 0

    def _nvmlDeviceGetMemoryInfo_v2(self, handle: Any, out: Any) -> int:
        used = self._of(handle)["used"]
        if out._obj.version != 40 | 2 << 24 or used is None:
            return NOT_SUPPORTED
        out._obj.total, out._obj.reserved, out._obj.used = 150109880320, 600 << 20, used
        return 0

    def _listed(self, handle: Any, key: str, count: Any, array: Any) -> int:
        pids = self._of(handle)[key]
        if pids is None:
            return NOT_SUPPORTED
        for entry, pid in zip(array, pids, strict=False):
            entry.pid = pid
        return _set(count, len(pids))

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, array: Any) -> int:
        return self._listed(handle, "compute", count, array)

    def _nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Any, count: Any, array: Any) -> int:
        return self._listed(handle, "graphics", count, array)


#: Codes of these calls in nvml.h: NVML_CLOCK_SM, NVML_TEMPERATURE_GPU, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN.
_CODES = {
    "nvmlDeviceGetMaxClockInfo": (1,),
    "nvmlDeviceGetApplicationsClock": (1,),
    "nvmlDeviceGetDefaultApplicationsClock": (1,),
    "nvmlDeviceGetTemperature": (0,),
    "nvmlDeviceGetTemperatureThreshold": (1,),
}
#: Calls that return one number.
_NUMBERS = {
    "_nvmlDeviceGetPersistenceMode": "persistence",
    "_nvmlDeviceGetRetiredPagesPendingStatus": "retired",
    "_nvmlDeviceGetCurrPcieLinkGeneration": "generation",
    "_nvmlDeviceGetCurrPcieLinkWidth": "width",
    "_nvmlDeviceGetMaxPcieLinkGeneration": "generation_max",
    "_nvmlDeviceGetMaxPcieLinkWidth": "width_max",
    "_nvmlDeviceGetPcieReplayCounter": "replay",
    "_nvmlDeviceGetPerformanceState": "pstate",
    "_nvmlDeviceGetMaxClockInfo": "clock_max",
    "_nvmlDeviceGetApplicationsClock": "clock_set",
    "_nvmlDeviceGetDefaultApplicationsClock": "clock_default",
    "_nvmlDeviceGetCurrentClocksEventReasons": "reasons",
    "_nvmlDeviceGetCurrentClocksThrottleReasons": "reasons",
    "_nvmlDeviceGetEnforcedPowerLimit": "power_limit",
    "_nvmlDeviceGetPowerManagementDefaultLimit": "power_default",
    "_nvmlDeviceGetTemperature": "temperature",
    "_nvmlDeviceGetTemperatureThreshold": "slowdown",
}


def _set(out: Any, value: Any) -> int:
    out._obj.value = value
    return 0


AER = {
    "correctable": "RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 0\n",
    "nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 0\n",
    "fatal": "Undefined 0\nTOTAL_ERR_FATAL 0\n",
}
IB = "sys/class/infiniband/mlx5_0/ports/1"
CORES = 4


def files() -> dict[str, str]:
    """Files of a healthy node below its root."""
    found = {
        "proc/meminfo": "MemTotal:       2113000000 kB\nMemFree: 1 kB\n",
        "proc/sys/kernel/random/boot_id": "b0071d00-0000-0000-0000-000000000001\n",
        "proc/interrupts": "      CPU0 CPU1\n MCE:  0 0  Machine check exceptions\n MCP:  7 7  Machine check polls\n",
        "proc/self/mountinfo": (
            "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n"
            "40 22 0:35 / /scratch rw,nosuid shared:9 - lustre 10.0.0.1@o2ib:/scratch rw,flock\n"
        ),
        "sys/devices/system/cpu/online": f"0-{CORES - 1}\n",
        "sys/devices/system/edac/mc/mc0/ce_count": "5\n",
        "sys/devices/system/edac/mc/mc0/ue_count": "0\n",
        "dev/kmsg": "6,100,1000,-;Linux version 6.8\n SUBSYSTEM=x\n6,101,2000,-;NVRM: loading\n",
        f"{IB}/state": "4: ACTIVE\n",
        f"{IB}/rate": "400 Gb/sec (4X NDR)\n",
        f"{IB}/link_layer": "InfiniBand\n",
        f"{IB}/counters/symbol_error": "0\n",
        f"{IB}/counters/link_downed": "1\n",
        f"{IB}/counters/link_error_recovery": "0\n",
        f"{IB}/counters/port_rcv_errors": "0\n",
        f"{IB}/counters/port_xmit_discards": "9\n",
        f"{IB}/hw_counters/local_ack_timeout_err": "0\n",
        "sys/class/net/eth0/type": "1\n",
        "sys/class/net/eth0/operstate": "up\n",
        "sys/class/net/eth0/speed": "25000\n",
        "sys/class/net/eth0/carrier_down_count": "1\n",
        "sys/class/net/eth0/statistics/rx_crc_errors": "0\n",
        "sys/class/net/eth0/device/vendor": "0x15b3\n",
        "sys/class/cxi/cxi0/device/port/link": "up\n",
        "sys/class/cxi/cxi0/device/port/speed": "BS_200G\n",
        "sys/class/cxi/cxi0/device/telemetry/hni_pcs_uncorrected_cw": "0@1700000000.000000001\n",
        "scratch/.here": "",
        "dev/shm/.here": "",
    }
    for cpu in range(CORES):
        found[f"sys/devices/system/cpu/cpu{cpu}/topology/core_id"] = f"{cpu}\n"
        found[f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"] = "0\n"
    for index in range(8):
        at = f"sys/bus/pci/devices/{bus(index)}"
        found |= {f"{at}/vendor": "0x10de\n", f"{at}/class": "0x030200\n"}
        found |= {f"{at}/aer_dev_{kind}": content for kind, content in AER.items()}
    return found


class Node:
    """A healthy node one hour after its last good state; `heal` reverts what a test planted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._written: dict[str, str | None] = {}
        for name, content in files().items():
            self._put(name, content)
        self.heal()

    def heal(self) -> None:
        for name, content in self._written.items():
            self._put(name, content)
        self._written = {}
        self.nvml = Fake()
        self.expect: dict[str, Any] = {
            "schema": "tenken-node/1",
            "gpus": {"count": 8, "names": ["NVIDIA H200"], "nvlinks": 18, "ecc": True, "mig": False, "fabric": True},
            "host": {"cores": CORES, "memory_gib": 2015, "shm_free_share": 0.0},
            "ports": [{"name": "mlx5_0/1", "gbit_s": 400}],
            "file_systems": [{"path": "/scratch", "type": "lustre", "write": True}],
        }
        self.mine: frozenset[int] | None = frozenset(range(8))
        self.root_user = True
        self.waited = 5.0
        self.answers: dict[str, Answer] = {}
        """Answers that replace what is read."""
        if not hasattr(self, "_healthy"):
            self._healthy = checks.readings(self.read(), time.time() - 3600, None)
        self.last: dict[str, Any] | None = copy.deepcopy(self._healthy)

    def _put(self, name: str, content: str | None) -> None:
        file = self.root / name
        if content is None:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def put(self, name: str, content: str | None) -> None:
        """A file with other content; None: removed. Until `heal`."""
        file = self.root / name
        self._written.setdefault(name, file.read_text() if file.exists() else None)
        self._put(name, content)

    def log(self, *messages: str, facility: int = 0) -> None:
        """Lines that the kernel has written since."""
        lines = [f"{facility << 3 | 3},{102 + i},{3000 + i},-;{text}" for i, text in enumerate(messages)]
        self.put("dev/kmsg", files()["dev/kmsg"] + "\n".join(lines) + "\n")

    @property
    def machine(self) -> Machine:
        return Machine(self.root, self.nvml, name="n1", privileged=self.root_user, sleep=lambda _: None)

    def read(self) -> dict[str, Answer]:
        """As the children do, in this process."""
        answers = {}
        for name, probe in checks.probes(self.machine, self.expect).items():
            answer = answers[name] = Answer(ended=True)

            def say(at: str, part: Any = None, answer: Answer = answer) -> None:
                if part is None:
                    answer.at = at
                else:
                    answer.parts[at] = part

            try:
                answer.value = probe(say)
            except OSError as error:
                answer.error = f"{type(error).__name__}: {error}"
        return answers | self.answers

    @property
    def last_time(self) -> float:
        """When the last good state was."""
        return float((self.last or {"time": 0})["time"])

    def findings(self) -> list[Finding]:
        seen = Seen(self.expect, self.last, self.read(), time.time(), self.mine, self.waited, self.root_user)
        return findings(seen)
