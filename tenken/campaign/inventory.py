"""How a node is configured, read by its job before any load, to find the one in a thousand that differs.

    python -m tenken.campaign.inventory        prints {"host": {item: value}, "GPU 0": {...}, ...} as JSON

What is missing, or needs root, has no item: a node that lacks what others have is reported. Nothing is changed. Runs
with the standard library alone.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

FILE = "configuration.json"
_TIMEOUT_S = 20
#: STA_UNSYNC of adjtimex(2).
_UNSYNCHRONISED = 0x40
#: Fields of nvidia-smi, queried in groups: a driver that does not know one rejects the whole group, which is then
#: queried one by one.
_GPU_FIELDS: Sequence[Mapping[str, str]] = (
    {"driver_version": "driver", "vbios_version": "VBIOS", "inforom.img": "InfoROM", "inforom.ecc": "InfoROM ECC",
     "inforom.pwr": "InfoROM power"},
    {"persistence_mode": "persistence mode", "ecc.mode.current": "ECC", "compute_mode": "compute mode"},
    {"power.limit": "power limit (W)", "power.default_limit": "default power limit (W)"},
    {"clocks.max.sm": "maximum SM clock (MHz)", "clocks.max.memory": "maximum memory clock (MHz)",
     "clocks.applications.graphics": "application clock (MHz)"},
    {"pcie.link.gen.max": "PCIe generation", "pcie.link.width.current": "PCIe width"},
    {"mig.mode.current": "MIG"},
)  # fmt: skip
#: Kernel options that affect measurements; the others differ between nodes or are irrelevant.
_OPTIONS = re.compile(
    r"(intel_iommu|amd_iommu|iommu|pci|pcie_\w+|default_hugepagesz|hugepages|hugepagesz|transparent_hugepage|mitigations|"
    r"isolcpus|nohz\w*|rcu_nocbs|intel_pstate|amd_pstate|intel_idle\.\w+|processor\.\w+|cpuidle\.\w+|idle|numa_balancing|"
    r"nosmt|nvme\.\w+|selinux|audit|init_on_\w+|kpti|nopti|spectre\w*|l1tf|mds|tsx\w*|clocksource|tsc)(=|$)"
)
Ask = Callable[[Sequence[str]], str]


def collect(root: Path = Path("/"), ask: Ask | None = None) -> dict[str, dict[str, str]]:
    """Items by `host` or `GPU N`; `root` is the prefix of /sys, /proc and /etc, `ask` runs a command."""
    ask = ask or run
    host = {
        **_firmware(root), **_kernel(root), **_memory(root), **_processors(root), **_network(root), **_drives(root),
        **_pci(root), **_clock(ask), **_access_control(ask), **_fabric(ask),
    }  # fmt: skip
    return {"host": {k: v for k, v in host.items() if v}, **_gpus(ask)}


def run(words: Sequence[str]) -> str:
    """The output of a command; nothing if it is missing, fails or hangs."""
    if shutil.which(words[0]) is None:
        return ""
    try:
        done = subprocess.run(
            list(words), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, errors="replace",
            stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n\t")
    except OSError:
        return ""


def _listed(values: Iterable[str]) -> str:
    """Equal items once, with their number, so that the order of detection does not matter."""
    counts = Counter(v for v in values if v)
    return ", ".join(f"{n} x {v}" if n > 1 else v for v, n in sorted(counts.items()))


def _firmware(root: Path) -> dict[str, str]:
    dmi = root / "sys/class/dmi/id"
    bmc = (root / "sys/devices/platform").glob("ipmi_bmc.*/firmware_revision")
    return {
        "product": _text(dmi / "product_name"), "board": _text(dmi / "board_name"),
        "BIOS": " ".join(filter(None, (_text(dmi / "bios_version"), _text(dmi / "bios_date")))),
        "BMC": _listed(map(_text, bmc)),
        "microcode": _found(r"^microcode\s*:\s*(\S+)", _text(root / "proc/cpuinfo")),
    }  # fmt: skip


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M)
    return match[1].strip() if match else ""


def _kernel(root: Path) -> dict[str, str]:
    words = _text(root / "proc/cmdline").split()
    kept = [w for w in words if _OPTIONS.match(w)]
    modules = {
        m: _text(root / "sys/module" / m / "version") for m in ("nvidia", "mlx5_core", "gdrdrv", "nvidia_peermem")
    }
    groups = root / "sys/kernel/iommu_groups"
    return {
        "kernel": _text(root / "proc/sys/kernel/osrelease"),
        "operating system": _found(r'^PRETTY_NAME="?([^"\n]+)', _text(root / "etc/os-release")),
        "kernel options": " ".join(sorted(kept)),
        "kernel modules": _listed(f"{name} {version}" for name, version in modules.items() if version),
        "IOMMU": ("on" if any(groups.iterdir()) else "off") if groups.is_dir() else "",
    }  # fmt: skip


def _memory(root: Path) -> dict[str, str]:
    blocks = sum(_text(b / "online") == "1" for b in (root / "sys/devices/system/memory").glob("memory[0-9]*"))
    size = _text(root / "sys/devices/system/memory/block_size_bytes")
    dimms = (root / "sys/devices/system/edac/mc").glob("mc*/dimm*")
    chosen = _found(r"\[(\w+)\]", _text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    pages = (root / "sys/kernel/mm/hugepages").glob("hugepages-*")
    return {
        # in blocks, so that nodes with equal DIMMs are equal: the memory left by the kernel differs by megabytes
        "installed memory": f"{blocks * int(size, 16) / 2**30:g} GiB" if size and blocks else "",
        "DIMMs": _listed(
            f"{_text(d / 'size')} MB {_text(d / 'dimm_mem_type')}".strip()
            for d in dimms if _text(d / "size") not in ("", "0")
        ),
        "transparent huge pages": chosen,
        "huge pages": _listed(
            f"{_text(p / 'nr_hugepages')} of {p.name.removeprefix('hugepages-')}"
            for p in pages if _text(p / "nr_hugepages") not in ("", "0")
        ),
    }  # fmt: skip


def _processors(root: Path) -> dict[str, str]:
    cpu = root / "sys/devices/system/cpu"
    info = _text(root / "proc/cpuinfo")
    nodes = (root / "sys/devices/system/node").glob("node[0-9]*")
    turbo = _text(cpu / "intel_pstate/no_turbo")
    boost = {"0": "on", "1": "off"}.get(turbo) or {"1": "on", "0": "off"}.get(_text(cpu / "cpufreq/boost"), "")
    return {
        # Arm has no model's name, but four numbers
        "CPU": _listed({
            " ".join(re.findall(r"^(?:model name|CPU (?:implementer|variant|part|revision))\s*:\s*(.+)$", one, re.M))
            for one in info.split("\n\n")
        }),
        "CPUs online": _text(cpu / "online"), "SMT": _text(cpu / "smt/control"), "boost": boost,
        "CPU governor": _listed({_text(p) for p in cpu.glob("cpu[0-9]*/cpufreq/scaling_governor")}),
        "NUMA layout": _listed(
            f"{p.name} {_text(p / 'cpulist') or 'no CPUs'}" for p in nodes
        ),
    }  # fmt: skip


def _network(root: Path) -> dict[str, str]:
    adapters = [*(root / "sys/class/infiniband").glob("*")]
    ports = [port for one in adapters for port in (one / "ports").glob("*")]
    return {
        "network adapters": _listed(f"{_text(a / 'hca_type')} {_text(a / 'board_id')}".strip() for a in adapters),
        "network firmware": _listed(_text(a / "fw_ver") for a in adapters),
        "network ports": _listed(
            f"{_text(p / 'link_layer')} {_text(p / 'rate')} {_text(p / 'state').partition(': ')[2]}".strip()
            for p in ports
        ),
    }  # fmt: skip


def _drives(root: Path) -> dict[str, str]:
    drives = [*(root / "sys/class/nvme").glob("nvme*")]
    return {
        "NVMe drives": _listed(f"{_text(d / 'model')} {_text(d / 'firmware_rev')}".strip() for d in drives),
        "NVMe states": _listed(_text(d / "state") for d in drives),
    }


def _pci(root: Path) -> dict[str, str]:
    """Width and maximum speed of the relevant devices; an idle link runs at a lower speed."""
    kinds = {"0x0302": "GPU", "0x0207": "InfiniBand", "0x0108": "NVMe"}
    found: dict[str, list[str]] = {}
    for device in (root / "sys/bus/pci/devices").glob("*"):
        kind = kinds.get(_text(device / "class")[:6])
        width, speed = _text(device / "current_link_width"), _text(device / "max_link_speed")
        if kind and width not in ("", "0"):
            found.setdefault(f"PCIe links of {kind}", []).append(f"x{width}, at most {speed}")
    return {item: _listed(links) for item, links in found.items()}


class _Timex(ctypes.Structure):
    """struct timex of Linux, of which only `status` is read."""

    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_byte * 256),
    ]  # fmt: skip


def _clock(ask: Ask) -> dict[str, str]:
    said = re.search(r"^NTPSynchronized=(\w+)", ask(["timedatectl", "show"]), re.M)
    if said:
        return {"clock": "synchronised" if said[1] == "yes" else "not synchronised"}
    try:
        library = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)
        state = _Timex()
        if library.adjtimex(ctypes.byref(state)) < 0:
            return {}
    except (OSError, AttributeError):
        return {}
    return {"clock": "not synchronised" if state.status & _UNSYNCHRONISED else "synchronised"}


def _access_control(ask: Ask) -> dict[str, str]:
    """ACS of bridges, which routes traffic between GPUs through the CPU; visible to root only."""
    controls = re.findall(r"ACSCtl:\s+(.*)", ask(["lspci", "-vvv"]))
    on = sum("SrcValid+" in c or "ReqRedir+" in c for c in controls)
    return {"PCIe ACS": f"on in {on} of {len(controls)} bridges"} if controls else {}


def _fabric(ask: Ask) -> dict[str, str]:
    switches = re.findall(r"^\s*(?:Firmware|VBIOS) Version\s*:\s*(\S+)", ask(["nvidia-smi", "nvswitch", "-i"]), re.M)
    manager = _found(r"version\D*([\d.]+)", ask(["nv-fabricmanager", "--version"]).lower())
    return {"NVSwitch firmware": _listed(switches), "fabric manager": manager}


def _gpus(ask: Ask) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}

    def told(fields: Mapping[str, str]) -> bool:
        query = ",".join(["index", *fields])
        answer = ask(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"])
        for line in answer.splitlines():
            index, *values = [word.strip() for word in line.split(",")]
            if index.isdigit() and len(values) == len(fields):
                of_gpu = found.setdefault(f"GPU {index}", {})
                of_gpu.update({label: v for label, v in zip(fields.values(), values, strict=True) if _said(v)})
        return bool(answer)

    for fields in _GPU_FIELDS:
        if not told(fields):
            for one, label in fields.items():
                told({one: label})
    index = ""
    for line in ask(["nvidia-smi", "nvlink", "--status"]).splitlines() if found else ():
        head = re.match(r"GPU (\d+):", line)
        index = f"GPU {head[1]}" if head else index
        if re.match(r"\s+Link \d+: [\d.]+ GB/s", line) and index in found:
            found[index]["NVLinks"] = str(int(found[index].get("NVLinks", "0")) + 1)
    return found


def _said(value: str) -> bool:
    """Whether nvidia-smi printed a value, not why there is none: `N/A`, `[Not Supported]`, `[GPU requires reset]`."""
    return bool(value) and not re.fullmatch(r"\[.*\]|N/A|Not Supported|Unknown Error|ERR!", value, re.I)


if __name__ == "__main__":
    print(json.dumps(collect(), sort_keys=True))
