"""The local machine, detected automatically: no file, no privileges, no assumptions.

    describe()               -> System `local` with one partition `node`
    gpu_count()              -> NVIDIA GPUs in this node, from device files alone (well below a millisecond)
    resolve(system)          -> the system with `count: found` filled in, if this machine has GPUs

Detection never raises: unreadable values are None, and anything unusual becomes a line of `System.notes`. Everything is
read below `root` and run by `run`, so that tests can pass an invented machine.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from tenken.counters import GUESTS
from tenken.machines import hardware, nvml
from tenken.machines.model import (
    PCIE_GT_PER_S,
    Environment,
    GpuSheet,
    HostSheet,
    Link,
    Node,
    Partition,
    System,
    is_gcc,
    pcie_gbs,
)
from tenken.paths import CACHE

#: A program that a compiler must build, and that must run, for a feature, with its flags: some accept the flag and lack
#: the header, a library, or a part that the linker runs. Whether OpenACC offloads is left to the build.
_TRIED = {
    "openmp": ("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n", "-fopenmp"),
    "openacc": (
        "#include <openacc.h>\nint main() {\n  int last = 0;\n#pragma acc parallel copyout(last)\n  last = 7;\n"
        "  return last != 7 || acc_get_num_devices(acc_device_host) < 1;\n}\n",
        "-fopenacc", "-foffload=disable",
    ),
}  # fmt: skip
#: Needs the compiler's own C++ library, where that is newer than the one that the loader finds.
_ANY = "#include <iostream>\nint main() { return !std::cout; }\n"
_LACKING = {
    "openmp": "OpenMP: with one thread the host is INVALID (Debian's package libomp-dev is for clang)",
    "openacc": "OpenACC: its checks do not apply (a complete g++ has it: install it, or name it by CXX)",
}
#: Runs a command and returns its stdout; None if it is missing, hangs, or fails and prints nothing.
Runner = Callable[[Sequence[str]], "str | None"]
#: Full path of a program on PATH, or None.
Which = Callable[[str], "str | None"]

PARTITION = "node"
#: The prefix of /proc, /sys and /dev.
ROOT = Path("/")
_HYPERVISORS = {
    "qemu": "QEMU",
    "kvm": "KVM",
    "vmware": "VMware",
    "microsoft": "Hyper-V",
    "xen": "Xen",
    "innotek": "VirtualBox",
    "amazon": "Amazon EC2",
    "google": "Google Compute Engine",
    "openstack": "OpenStack",
}
_CLOUDS = ("Amazon EC2", "Google Compute Engine")
#: Fields required for a GPU, and those that older drivers may lack, newest first.
_NEEDED = ("index", "uuid", "name")
_OPTIONAL = ("compute_cap", "mig.mode.current", "memory.total", "pcie.link.gen.max", "pcie.link.width.max")
_FIELDS = (*_NEEDED, "compute_cap", "memory.total", "pcie.link.gen.max", "pcie.link.width.max", "mig.mode.current")
#: What nvidia-smi prints where a GPU has no such value, or this user may not read it.
_NO_VALUE = ("[N/A]", "[Not Supported]", "[Not Found]", "[Insufficient Permissions]", "[Requested functionality")
#: In any of its fields for a GPU that no program can use (NVML_ERROR_RESET_REQUIRED, NVML_ERROR_GPU_IS_LOST).
_UNUSABLE = ("[GPU requires reset]", "[GPU is lost]")
#: A line that nvidia-smi prints in place of a GPU.
_NO_HANDLE = re.compile(r"device handle for(?:.*?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])| (GPU ?\d+):)")
#: Total seconds for further queries once nvidia-smi has not answered the first one.
_SMI_SECONDS = 20.0


def run_command(command: Sequence[str]) -> str | None:
    """stdout of a command that ends within 10 s, otherwise None. The output of one that fails is used: nvidia-smi ends
    with 14 because of one GPU's infoROM, and still lists all GPUs (nvidia-smi(1), return value). Newer ones list them,
    end with 0, and name a GPU without a handle only on stderr. In English: lscpu translates its labels.
    """
    english = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, errors="replace", check=False, env=english
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lost = "".join(line for line in done.stderr.splitlines(keepends=True) if _NO_HANDLE.search(line))
    said = done.stdout + lost
    return said if done.returncode == 0 or said.strip() else None


@dataclass
class Cpus:
    """The CPUs according to /proc and /sys; None: not reported."""

    model: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads_per_core: int | None = None
    caches: dict[str, int] = field(default_factory=dict)


@dataclass
class Gpus:
    """The GPUs as reported by the driver."""

    names: list[str] = field(default_factory=list)
    sheet: GpuSheet | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None
    host_link: Link | None = None
    pair_links: Link | None = None
    memory_gbs: float | None = None
    compute_capabilities: tuple[str, ...] = ()
    pair_cells: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    """GPUs on the bus that the driver does not show."""


#: Queries the driver for memory clocks and bus widths.
Buses = Callable[[], "list[nvml.Bus]"]
_NVIDIA, _AMD = "0x10de", "0x1002"
#: Display controllers, 3D controllers and processing accelerators, by the first digits of the PCI class.
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")


class Looker:
    """Reads one machine. `notes` collects anomalies."""

    def __init__(
        self, root: Path, run: Runner, which: Which, env: Mapping[str, str], buses: Buses | None = None
    ) -> None:
        self.root = root
        self.run = run
        self.which = which
        self.env = env
        self.live = root == ROOT
        self.buses = buses or (nvml.memory_buses if self.live else list)
        self.notes: list[str] = []
        self._features: dict[str, set[str]] = {}

    # -- files ----------------------------------------------------------------------------------------------

    def bytes(self, path: str) -> bytes:
        """Content of a file; empty if it cannot be read."""
        with contextlib.suppress(OSError):
            return (self.root / path).read_bytes()
        return b""

    def text(self, path: str) -> str | None:
        """Content of a small file below the root; None if it cannot be read."""
        try:
            return (self.root / path).read_bytes().decode("utf-8", "replace").strip("\0 \n\t")
        except OSError:
            return None

    def listing(self, path: str, pattern: str) -> list[str]:
        """Names in a folder below the root that match completely, in numeric order if they end in a number."""
        try:
            found = [name for name in os.listdir(self.root / path) if re.fullmatch(pattern, name)]
        except OSError:
            return []
        return sorted(found, key=lambda name: (int(re.sub(r"\D", "", name) or 0), name))

    # -- CPUs and memory ------------------------------------------------------------------------------------

    def cpus(self) -> Cpus:
        """Sockets, cores, threads and caches of the CPUs that this process may use."""
        result = Cpus(model=self._cpu_model())
        allowed = self._allowed_cpus()
        numbers = [int(name[3:]) for name in self.listing("sys/devices/system/cpu", r"cpu\d+")]
        online = self._online(numbers)
        usable = [cpu for cpu in online if allowed is None or cpu in allowed]
        if len(usable) < len(online):
            self.notes.append(f"this process may use {len(usable)} of {len(online)} logical CPUs")
        topology = {cpu: self._core_of(cpu) for cpu in usable}
        known = {cpu: core for cpu, core in topology.items() if core is not None}
        if known:
            cores = Counter(known.values())
            result.sockets = 1 if self._board() else len({package for package, _ in cores})
            result.cores = len(cores)
            result.threads_per_core = max(cores.values())
        elif usable:
            result.cores = len(usable)
            self.notes.append("cores and hardware threads cannot be distinguished: each logical CPU counts as one core")
        elif self.live and os.cpu_count():
            result.cores = os.cpu_count()
        result.caches = self._caches(online)
        self._quota(result)
        return result

    def _board(self) -> bool:
        """Whether this is an Arm board with a device tree: it has one socket, and kernels before 5.19 show each cluster
        of its cores as a package (lscpu says "Socket(s): -")."""
        return self._arm() and self.text("proc/device-tree/model") is not None

    def _arm(self) -> bool:
        return re.search(r"^CPU implementer\s*:", self.text("proc/cpuinfo") or "", re.MULTILINE) is not None

    def _cpu_model(self) -> str | None:
        text = self.text("proc/cpuinfo") or ""
        match = re.search(r"^(?:model name|Model(?: Name)?|cpu|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
        if match:
            return match.group(1).strip()
        # Arm servers print only part numbers; lscpu has a table of their names
        part = re.search(r"^CPU part\s*:\s*(0x[0-9a-f]+)", text, re.MULTILINE)
        usual = {"0xd4f": "Neoverse-V2", "0xd40": "Neoverse-V1", "0xd0c": "Neoverse-N1"}
        if part is None or part[1] in usual:
            return usual[part[1]] if part else None
        named = re.findall(r"^\s*Model name:\s*(\S.*)$", self.run(["lscpu"]) or "", re.MULTILINE)
        return ", ".join(dict.fromkeys(name.strip() for name in named if name.strip() != "-")) or None

    def _allowed_cpus(self) -> set[int] | None:
        if self.live and hasattr(os, "sched_getaffinity"):
            with contextlib.suppress(OSError):
                return set(os.sched_getaffinity(0))
        return None

    def _online(self, numbers: list[int]) -> list[int]:
        listed = _cpu_list(self.text("sys/devices/system/cpu/online"))
        return [cpu for cpu in numbers if cpu in listed] if listed else numbers

    def _core_of(self, cpu: int) -> tuple[int, str] | None:
        """(socket, core) of a logical CPU; the core is identified by its threads, since its number repeats on each die
        or cluster."""
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        package, core = self.text(f"{folder}/physical_package_id"), self.text(f"{folder}/core_id")
        try:
            # Some virtual machines and Arm boards report -1 for "not available": one socket then.
            socket, number = max(0, int(package or "")), int(core or "")
        except ValueError:
            return None
        threads = _cpu_list(self.text(f"{folder}/thread_siblings_list"))
        if cpu in threads:
            return socket, f"of CPU {min(threads)}"
        return socket, f"{self.text(f'{folder}/die_id')} {self.text(f'{folder}/cluster_id')} {number}"

    def _caches(self, online: list[int]) -> dict[str, int]:
        """Bytes by level of all data caches; shared ones are counted once."""
        total: Counter[str] = Counter()
        seen: dict[str, set[int]] = {}
        for cpu in online:
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache"
            for index in self._cache_indices(folder):
                covered = seen.setdefault(index, set())
                if cpu in covered:
                    continue
                level, kind = self.text(f"{folder}/{index}/level"), self.text(f"{folder}/{index}/type")
                size = _size(self.text(f"{folder}/{index}/size"))
                covered |= _cpu_list(self.text(f"{folder}/{index}/shared_cpu_list")) or {cpu}
                if size and kind != "Instruction":
                    total[f"L{level}d" if kind == "Data" else f"L{level}"] += size
        if not total:
            match = re.search(r"^cache size\s*:\s*(\d+ KB)", self.text("proc/cpuinfo") or "", re.MULTILINE)
            size = _size(match.group(1).replace(" ", "").rstrip("B")) if match else None
            if size:
                total["L3"] = size
        return dict(sorted(total.items()))

    def _cache_indices(self, folder: str) -> list[str]:
        # Cached: they are the same on every CPU of a machine, and listing a folder for each of 500 takes time.
        if not hasattr(self, "_indices"):
            self._indices = self.listing(folder, r"index\d+")
        return self._indices

    def _quota(self, cpus: Cpus) -> None:
        """A control group's share of CPU time: additional threads would only wait."""
        shares = []
        for folder in self._groups("cpu"):
            quota, _, period = (self.text(f"{folder}/cpu.max") or "").partition(" ")
            if not quota:  # version 1, whose -1 is no limit
                quota, period = (self.text(f"{folder}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
            if quota.isdigit() and period.isdigit() and int(period):
                shares.append(int(quota) / int(period))
        if shares and cpus.cores is not None and (cores := max(1, int(min(shares)))) < cpus.cores:
            self.notes.append(f"the control group allows {min(shares):.3g} of {cpus.cores} cores")
            cpus.cores = cores

    def _groups(self, controller: str) -> list[str]:
        """Folders of the control groups whose limits hold for this process, in both versions: its own and those above,
        since a scheduler limits the job and not its steps. Of a container, only the top may be there.
        """
        own = {"": {""}, f"/{controller}": {""}}  # version 2 names no controller
        groups = re.findall(r"^\d+:([\w,=]*):(/[^\0\n]*)$", self.text("proc/self/cgroup") or "", re.MULTILINE)
        for controllers, path in groups:
            key = f"/{controller}" if controller in controllers.split(",") else controllers
            if key in own and ".." not in path:
                own[key] |= {str(one).rstrip("/") for one in (PurePosixPath(path), *PurePosixPath(path).parents)}
        return [f"sys/fs/cgroup{key}{path}" for key, paths in own.items() for path in sorted(paths)]

    def memory_bytes_of_machine(self) -> int | None:
        """Memory of the NUMA nodes with CPUs: the kernel also counts that of a coherent GPU (GH200, GB200, POWER9). On
        x86 there are no such GPUs: nodes without CPUs are HBM of the CPU, or memory behind CXL.
        """
        total = _mem_total(self.text("proc/meminfo"))
        if re.search(r"^vendor_id\s*:", self.text("proc/cpuinfo") or "", re.MULTILINE):
            return total
        nodes = [f"sys/devices/system/node/{name}" for name in self._numa_nodes(with_cpus=False)]
        return None if total is None else total - sum(_mem_total(self.text(f"{n}/meminfo")) or 0 for n in nodes)

    def modules(self) -> tuple[int, str, int | None] | None:
        """Installed memory modules, or channels with any, and their transfer rate in MT/s (None: unknown): from the
        firmware's table, which root may read, or from the memory controllers' drivers. None: unknown, or they do not
        account for all of the memory.
        """
        fitted, what = _of_smbios(self.bytes("sys/firmware/dmi/tables/DMI")), "memory modules"
        count, size = len(fitted), sum(mib for mib, _ in fitted)
        if not fitted:
            channels, size = self._channels()
            count, what = len(channels), "channels with memory"
        if not count or size * 2**20 < (self.memory_bytes_of_machine() or 0):
            return None  # a controller without a driver, whose modules are not visible
        return count, what, min((rate for _, rate in fitted if rate), default=None)

    def _channels(self) -> tuple[set[str], int]:
        """Channels with memory, and its MiB. Drivers of AMD's controllers list each rank of a module, not the module;
        one that states no channel (firmware) lists modules."""
        channels, total = set(), 0
        for controller in self.listing("sys/devices/system/edac/mc", r"mc\d+"):
            for one in self.listing(f"sys/devices/system/edac/mc/{controller}", r"(?:dimm|rank)\d+"):
                folder = f"sys/devices/system/edac/mc/{controller}/{one}"
                size = self.text(f"{folder}/size") or ""
                if size.isdigit() and int(size) and self.text(f"{folder}/dimm_mem_type") != "Non-volatile-RAM":
                    channel = re.search(r"channel \d+", self.text(f"{folder}/dimm_location") or "")
                    channels.add(f"{controller} {channel[0] if channel else one}")
                    total += int(size)
        return channels, total

    def memory_bytes(self) -> int | None:
        """Memory that this process may use."""
        total, all_of_it = self.memory_bytes_of_machine(), _mem_total(self.text("proc/meminfo"))
        if total is not None and all_of_it is not None and total < all_of_it:
            more = (all_of_it - total) / 2**30
            self.notes.append(
                f"{more:.1f} GiB of NUMA nodes without CPUs (of GPUs, for example) are not counted as host memory"
            )
        files = (f"{at}/{name}" for at in self._groups("memory") for name in ("memory.max", "memory.limit_in_bytes"))
        limit = min((int(said) for said in map(self.text, files) if said and said.isdigit()), default=None)
        if limit is not None and total is not None and limit < total:
            self.notes.append(f"the control group allows {limit / 2**30:.1f} of {total / 2**30:.1f} GiB memory")
            return limit
        return total

    def numa_nodes(self) -> int | None:
        """NUMA nodes with CPUs (a GH200's GPU memory is a node without CPUs)."""
        return len(self._numa_nodes(with_cpus=True)) or None

    def _numa_nodes(self, with_cpus: bool) -> list[str]:
        nodes = self.listing("sys/devices/system/node", r"node\d+")
        return [node for node in nodes if self._has_cpus(f"sys/devices/system/node/{node}") is with_cpus]

    def _has_cpus(self, node: str) -> bool | None:
        listed, mask = (self.text(f"{node}/{name}") for name in ("cpulist", "cpumap"))
        if listed is None and mask is not None:
            listed = mask.strip("0,")  # of `00000000,000000ff`: copies by hwloc or lscpu have no list
        return None if listed is None else bool(listed)

    def virtual_machine(self) -> str | None:
        """The hypervisor; None without a sign of one."""
        vendor = " ".join(
            self.text(f"sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name", "bios_vendor")
        )
        named = next((name for key, name in _HYPERVISORS.items() if key in vendor.lower()), None)
        if re.search(r"^flags\s*:.*\bhypervisor\b", self.text("proc/cpuinfo") or "", re.MULTILINE):
            # if the firmware reports none, the CPU does: lscpu queries it
            told = re.search(r"^Hypervisor[^:\n]*:\s*(\S.*)$", self.run(["lscpu"]) or "", re.MULTILINE)
            return named or self.text("sys/hypervisor/type") or (told and told[1]) or "hypervisor not named"
        # Without the flag (on other architectures) the product's name must show it, since vendors sell bare metal too:
        # clouds of Arm state only that (c7g.metal; systemd/systemd 18929 and 20628)
        cloud = named in _CLOUDS and self._arm() and "metal" not in vendor
        return named if cloud or re.search(r"\b(virtual|kvm|vmware|qemu|standard pc)\b", vendor.lower()) else None

    # -- GPUs -----------------------------------------------------------------------------------------------

    def gpu_count(self) -> int:
        """NVIDIA GPUs visible to a program started here, from device files."""
        devices = self.listing("dev", r"nvidia\d+") or self.listing("proc/driver/nvidia/gpus", r".*:.*")
        count = len(devices) or (1 if self._jetson() else 0)
        visible = self._visible()
        if visible is None:
            return count
        if _names_instance(visible):
            return min(count, 1)
        # CUDA stops at the first entry that is not a device.
        there = itertools.takewhile(lambda entry: not entry.isdigit() or int(entry) < count, visible)
        return min(count, len(list(there)))

    def _visible(self) -> list[str] | None:
        """Entries of CUDA_VISIBLE_DEVICES up to the first invalid one, as interpreted by CUDA. None: not set."""
        text = self.env.get("CUDA_VISIBLE_DEVICES")
        if text is None:
            return None
        entries: list[str] = []
        for entry in (part.strip() for part in text.split(",")):
            if not re.fullmatch(r"\d+|(GPU|MIG)-[0-9A-Za-z/-]+", entry):
                break
            entries.append(entry)
        return entries

    def hidden_gpus(self) -> str:
        """States that this node has GPUs that this process cannot use, and why; empty otherwise."""
        files = len(self.listing("dev", r"nvidia\d+")) or len(self.listing("proc/driver/nvidia/gpus", r".*:.*"))
        there = max(files, len(self._bus(_NVIDIA)), 1 if self._jetson() else 0)
        if not there:
            return ""
        asked = self.env.get("CUDA_VISIBLE_DEVICES")
        if asked is not None and not self.gpu_count():
            why = f"CUDA_VISIBLE_DEVICES is {asked.strip() or 'empty'}"
        elif not files or "SLURM_JOB_ID" in self.env or "PBS_JOBID" in self.env or self._in_container():
            why = "the job or the container was not given any, or the driver is not loaded"
        else:
            why = "the driver shows none"
        return f"this machine has {there} NVIDIA GPUs, and this process sees none of them: {why}"

    def _blocked(self) -> bool:
        """Whether a job was not given the GPUs that the driver lists, so that their device files cannot be opened."""
        files = [self.root / "dev" / name for name in self.listing("dev", r"nvidia\d+")]
        return bool(files) and not any(_may_open(file) for file in files)

    def _jetson(self) -> str | None:
        model = self.text("proc/device-tree/model") or ""
        return model if re.search(r"jetson|quill|tegra", model, re.IGNORECASE) else None

    def gpus(self) -> Gpus:
        """All GPUs of the node that a program started here can use, and those that it should be able to use but
        cannot."""
        amd = len(self._bus(_AMD))
        if amd:
            self.notes.append(f"{amd} AMD GPUs are not supported: they are not measured")
        rows = self._chosen(self._smi_rows())
        if rows:
            found = self._from_smi(rows)
            found.missing = self._missing(len(rows) + len(self._dead)) + len(self._dead)
            return found
        jetson = self._jetson()
        if jetson and self._visible() != []:
            sheet = self._one_sheet([jetson])
            return Gpus(names=[jetson], sheet=sheet, compute_capability=sheet.compute_capability if sheet else None)
        names = []
        for bus in self.listing("proc/driver/nvidia/gpus", r".*:.*"):
            match = re.search(r"^Model:\s*(.+)$", self.text(f"proc/driver/nvidia/gpus/{bus}/information") or "", re.M)
            names.append(match.group(1).strip() if match else "NVIDIA GPU")
        names = [] if self._blocked() else names[: self.gpu_count()]
        if names:
            self.notes.append("nvidia-smi does not respond: only the names of the GPUs are known")
        if names and _names_instance(self._visible() or []):
            self._note_mig()
            return Gpus(names=names)
        return Gpus(names=names, sheet=self._one_sheet(names))

    def _bus(self, vendor: str) -> list[str]:
        """By GPU of a vendor on the PCI bus, its driver or none; those of guests and virtual functions are left out."""
        drivers = []
        for name in self.listing("sys/bus/pci/devices", r"[0-9a-fA-F:.]+"):
            folder = f"sys/bus/pci/devices/{name}"
            link = self.root / folder / "driver"
            driver = link.resolve().name if link.is_symlink() else ""
            given = driver.startswith(GUESTS) or (self.root / folder / "physfn").exists()
            ours = self.text(f"{folder}/vendor") == vendor and not given
            if ours and (self.text(f"{folder}/class") or "").startswith(_GPU_CLASSES):
                drivers.append(driver)
        return drivers

    def _missing(self, shown: int) -> int:
        """GPUs on the bus that the driver lost. None are lost in a container or a job with a subset of them, since the
        bus shows a driver for all; a GPU that no driver claims shows none.
        """
        drivers = self._bus(_NVIDIA)
        there, untaken = len(drivers), drivers.count("")
        if there <= shown or self._visible() is not None:
            return 0
        if untaken + shown > there:
            untaken = 0  # those shown have no link either: the links say nothing
        given = self.listing("dev", r"nvidia\d+") if any(drivers) else []
        if not untaken and (len(given) == shown or "SLURM_JOB_ID" in self.env or self._in_container()):
            self.notes.append(f"{shown} of {there} NVIDIA GPUs on the PCI bus are visible to this container or job")
            return 0
        lost = untaken or there - shown
        self.notes.append(f"{there} NVIDIA GPUs on the PCI bus, {shown} visible to the driver: {lost} lost")
        return lost

    def _in_container(self) -> bool:
        named = any(name in self.env for name in ("container", "SINGULARITY_NAME", "APPTAINER_NAME"))
        return named or any((self.root / name).exists() for name in (".dockerenv", "run/.containerenv"))

    def _smi_rows(self) -> list[dict[str, str]]:
        """Rows of the GPUs in CUDA's PCI order. Fields that the driver does not know or does not answer, and GPUs
        without a handle (`_dead`), are named in `notes` and left out.
        """
        self._dead: list[str] = []
        self._without_handle: list[str] = []
        if self.which("nvidia-smi") is None:
            return []
        until = time.monotonic() + _SMI_SECONDS
        rows = self._query(_FIELDS)
        named = self._without_handle if rows else []
        cards = self.listing("proc/driver/nvidia/gpus", r".*:.*") if not rows else []
        if len(cards) > 1:
            for bus in itertools.takewhile(lambda _: time.monotonic() < until, cards):
                found = self._query(_FIELDS, "-i", bus)
                rows += found
                self._dead += [] if found else [bus]
            if rows:
                self.notes.append(f"nvidia-smi does not answer for {', '.join(self._dead)}: {len(self._dead)} lost")
            else:
                self._dead = []
        for bus in named:
            self._dead.append(bus)
            self.notes.append(f"nvidia-smi does not answer for {bus}: 1 lost")
        for count in range(1, len(_OPTIONAL) + 1):
            for omitted in itertools.combinations(_OPTIONAL, count):
                if not rows and time.monotonic() < until:
                    rows = self._query(tuple(name for name in _FIELDS if name not in omitted))
                    if rows:
                        self.notes.append(f"nvidia-smi of this driver has no {', '.join(omitted)}")
        lost = [row for row in rows if _lost(row)]
        for row in lost:
            self._dead.append(row["index"])
            self.notes.append(f"nvidia-smi reports of GPU {row['index']}: {_lost(row)}: 1 lost")
        return [row for row in rows if row not in lost]

    def _query(self, names: Sequence[str], *which: str) -> list[dict[str, str]]:
        """Rows by field, without invalid lines; the cell of an omitted field is empty."""
        asked = ["nvidia-smi", *which, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
        text = self.run(asked) or ""
        self._without_handle = [bus or index for bus, index in _NO_HANDLE.findall(text)]
        lines = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
        return [
            {**dict.fromkeys(_FIELDS, ""), **dict(zip(names, cells, strict=True))}
            for cells in lines
            if len(cells) == len(names)
        ]

    def _chosen(self, rows: list[dict[str, str]]) -> list[dict[str, str]]:
        """Those of CUDA_VISIBLE_DEVICES. If there are MIG instances, CUDA opens the first one; its GPU represents
        it."""
        visible = self._visible()
        if visible is None:
            return rows
        if _names_instance(visible):
            parts = [row for row in rows if row["mig.mode.current"] == "Enabled"] or rows
            named = [row for row in parts if visible[0].startswith(f"MIG-{row['uuid']}/")]
            return [{**row, "mig.mode.current": "Enabled"} for row in (named or parts)[:1]]
        chosen = []
        for entry in visible:
            match = [row for row in rows if row["index"] == entry or row["uuid"].startswith(entry)]
            if not match:
                break
            chosen.append(match[0])
        return chosen

    def _from_smi(self, rows: list[dict[str, str]]) -> Gpus:
        first = next((row for row in rows if not any(map(_is_error, row.values()))), rows[0])
        # the board distinguishes modules for which the driver has one name: Orin (nvgpu)
        board = self._jetson()
        result = Gpus(names=[board] if board and len(rows) == 1 else [row["name"] for row in rows])
        result.sheet = self._one_sheet(result.names)
        memory = [int(row["memory.total"]) * 2**20 for row in rows if row["memory.total"].strip("0").isdigit()]
        result.memory_bytes = min(memory) if memory else None
        able = [row["compute_cap"] for row in rows if re.fullmatch(r"\d+\.\d+", row["compute_cap"])]
        result.compute_capability, result.compute_capabilities = next(iter(able), None), tuple(sorted(set(able)))
        if result.sheet is None and len(set(result.names)) == 1:
            result.memory_gbs = min((bus.gbs for bus in self.buses()), default=None)
        if any(row["mig.mode.current"] == "Enabled" for row in rows):
            self._note_mig()
            result.sheet = result.memory_gbs = result.memory_bytes = None
        generation, width = first["pcie.link.gen.max"], first["pcie.link.width.max"]
        chip_to_chip = result.sheet is not None and (
            result.sheet.host_link is None or "C2C" in result.sheet.host_link.kind
        )
        # For a GPU that shares the CPU's memory, the driver reports a link that does not exist; no CUDA GPU is limited
        # to generation 1.
        placeholder = generation == "1" or first["memory.total"].startswith("[N")
        known = generation.isdigit() and int(generation) in PCIE_GT_PER_S and width.isdigit() and int(width) > 0
        if known and not chip_to_chip and not placeholder:
            speed = pcie_gbs(int(generation), int(width))
            result.host_link = Link(f"PCIe Gen{generation} x{width}", 1, speed)
        if len(rows) > 1:
            result.pair_links = self._pair_links([row["index"] for row in rows], result)
        return result

    def _note_mig(self) -> None:
        self.notes.append("MIG is enabled: there is no data sheet for a GPU instance")

    def _one_sheet(self, names: list[str]) -> GpuSheet | None:
        if not names:
            return None
        if len(set(names)) > 1:
            self.notes.append(f"GPUs of several kinds: {', '.join(sorted(set(names)))}")
            return None
        sheet = hardware.for_device(names[0])
        if sheet is None:
            self.notes.append(f"no data sheet of '{names[0]}'; known: {', '.join(hardware.load().gpus)}")
        return sheet

    def _pair_links(self, indices: list[str], gpus: Gpus) -> Link | None:
        """NVLinks between any two GPUs, from `nvidia-smi topo -m`; None if pairs differ or have none. GPUs without any,
        while all others are joined alike, have lost their switch (vllm-project/vllm 16336): more than two are joined
        alike only by one. The driver's text for each pair is stored in `gpus.pair_cells`.
        """
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.run(["nvidia-smi", "topo", "-m"]) or "")
        rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if re.match(r"\s*GPU\d+\s", line)}
        header = next((line.split() for line in text.splitlines() if re.match(r"\s+GPU\d+\b", line)), [])
        cells = {}
        for one, other in itertools.permutations(indices, 2):
            row, column = rows.get(f"GPU{one}", []), f"GPU{other}"
            if column in header and header.index(column) < len(row):
                cells[f"{one}-{other}"] = row[header.index(column)]
        gpus.pair_cells, found, sheet = cells, set(cells.values()), gpus.sheet
        counts = {int(cell[2:]) for cell in found if re.fullmatch(r"NV\d+", cell)}
        if len(found) != 1:
            joined = {one for pair, cell in cells.items() if cell.startswith("NV") for one in pair.split("-")}
            among = {cells.get(f"{one}-{other}") for one, other in itertools.permutations(joined, 2)}
            off = [one for one in indices if one not in joined]
            lost = len(joined) > 2 and len(among) == 1 and len(set(gpus.names)) == 1
            if counts:
                which = f": GPU {', '.join(off)} has lost its links" if lost else ""
                self.notes.append(f"links between the GPUs differ: {', '.join(sorted(found))}{which}")
            if not lost:
                return None
        if not counts:
            return None
        kind = sheet.gpu_links if sheet else None
        if kind is not None:
            return replace(kind, count=counts.pop())
        speed = re.search(r"Link \d+:\s*([\d.]+) GB/s", self.run(["nvidia-smi", "nvlink", "-s"]) or "")
        return Link("NVLink", counts.pop(), float(speed.group(1))) if speed else None

    # -- compilers and MPI ----------------------------------------------------------------------------------

    def nvcc(self) -> str | None:
        """The CUDA compiler: on PATH, below CUDA_HOME or CUDA_PATH, in the default location, or the suite's own."""
        if self.which("nvcc"):
            return "nvcc"
        homes = [self.env.get("CUDA_HOME"), self.env.get("CUDA_PATH"), str(self.root / "usr/local/cuda")]
        candidates = [Path(home) / "bin" / "nvcc" for home in homes if home]
        if self.live:  # installed by scripts/nvcc.sh or a kit; its marker is written last
            candidates += [m.parent / "bin" / "nvcc" for m in sorted(CACHE.glob("cuda-*/.tenken-cuda-home.json"))]
        return next((str(path) for path in candidates if os.access(path, os.X_OK)), None)

    def environments(self, with_gpu: bool, mpi: bool) -> dict[str, Environment]:
        """Available compilers: `host` always (without a compiler the build reports it), others if found."""
        found: dict[str, Environment] = {}
        shared = frozenset({"mpi"} if mpi else ())
        usual = self.usual_cxx()
        cxx, has = self.named_cxx(usual) or (usual, self.features(usual))
        self.notes += [f"{cxx} builds nothing with {_LACKING[name]}" for name in sorted({*_TRIED} - has)]
        found["host"] = Environment(
            "host",
            shared | has,
            _c_of(cxx),
            cxx,
            fortran="gfortran" if self.which("gfortran") else None,
            description="CPU only",
        )
        nvcc = self.nvcc() if with_gpu else None
        if nvcc:
            # nvcc takes the g++ on PATH, whatever CXX names
            found["cuda"] = Environment(
                "cuda",
                shared | self.features(usual) - {"openacc"} | {"cuda"},
                _c_of(usual),
                usual,
                cuda=nvcc,
                prepare=self.device_mpi() if mpi else (),
                description="host compiler and nvcc",
            )
        elif with_gpu:
            self.notes.append(
                "GPUs but no nvcc on PATH, in CUDA_HOME or /usr/local/cuda: GPU programs are not built "
                "(Debian's package nvidia-cuda-toolkit, or python -m toolchains.cuda_home 13.0)"
            )
        if with_gpu and self.which("nvc++"):
            found["nvhpc"] = Environment(
                "nvhpc",
                shared | {"openacc", "openmp"},
                "nvc",
                "nvc++",
                fortran="nvfortran",
                description="NVIDIA HPC SDK",
            )
        return found

    def usual_cxx(self) -> str:
        """g++, or clang++ where that is missing."""
        if self.which("g++"):
            return "g++"
        found = self.which("clang++") is not None
        self.notes.append(f"g++ is not on PATH: {'using clang++' if found else 'install g++'}")
        return "clang++" if found else "g++"

    def named_cxx(self, usual: str) -> tuple[str, set[str]] | None:
        """The compiler that CXX names, with its features; None to use the usual one, as a note tells if CXX is set."""
        named = self.env.get("CXX")
        if not named or named == usual:
            return None
        if not self.which(named):
            lacks = "which cannot be run"
        elif not self.runs(named, _ANY) and self.runs(usual, _ANY):
            lacks = f"which builds no program that runs here, unlike {usual}"
        else:
            has = self.features(named)
            others = self.features(usual) - has if is_gcc(named) and is_gcc(usual) else set()
            if not others:
                return named, has
            lacks = f"which builds nothing with {' and '.join(sorted(others))}, unlike {usual}"
        self.notes.append(f"CXX is '{named}', {lacks}: using {usual}")
        return None

    def features(self, cxx: str) -> set[str]:
        """Those of OpenMP and OpenACC that a compiler has. One that builds nothing at all keeps both: the build reports
        why."""
        if cxx not in self._features:
            has = {name for name, (text, *flags) in _TRIED.items() if self.runs(cxx, text, *flags)}
            self._features[cxx] = has if has or self.runs(cxx, _ANY) else {*_TRIED}
        return self._features[cxx]

    def runs(self, cxx: str, text: str, *flags: str) -> bool:
        """Whether a compiler builds a program, and that runs."""
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory() as folder:
            source, program = f"{folder}/tried.cpp", f"{folder}/tried"
            Path(source).write_text(text)
            return self.run([cxx, *flags, source, "-o", program]) is not None and self.run([program]) is not None
        return False

    def mpi(self) -> bool:
        """Whether MPI programs can be built and started.

        Debian's openmpi-bin (a dependency of other packages) contains mpicxx without mpi.h; the wrapper reports the
        include path, where mpi.h is looked for.
        """
        compiler, launcher = self.which("mpicxx"), self.which("mpirun")
        headers = bool(compiler) and self._has_mpi_header(str(compiler))
        if any((compiler, launcher, headers)) and not all((compiler, launcher, headers)):
            self.notes.append("MPI is incomplete: mpicxx, mpi.h and mpirun are needed (libopenmpi-dev, openmpi-bin)")
        if not (compiler and launcher and headers):
            return False
        built, started = (
            _mpi_family(self.run([str(compiler), "-show"])),
            _mpi_family(self.run([str(launcher), "--version"])),
        )
        if built and started and built != started:
            # each rank would run alone
            self.notes.append(
                f"mpicxx belongs to {built}, mpirun to {started}: MPI is not used until both belong to the same MPI "
                "(update-alternatives --config mpirun, or PATH)"
            )
            return False
        return True

    def device_mpi(self) -> tuple[str, ...]:
        """Shell lines that select the suite's own Open MPI if the one on PATH cannot pass device pointers. The
        environment `host` keeps the machine's MPI, with host buffers.
        """
        if "mpi_built_with_cuda_support:value:false" not in (self.run(["ompi_info", "--parsable", "--all"]) or ""):
            return ()
        file = Path(self.env.get("VIRTUAL_ENV") or self.root / "nonexistent") / "bin" / "tenken-mpi.env"
        if not file.is_file():
            self.notes.append(
                "the Open MPI on PATH is built without CUDA, so device buffers are not measured; "
                "`python -m toolchains.mpi .venv` brings one that takes them (docs/toolchains.md)"
            )
            return ()
        self.notes.append(
            f"the Open MPI on PATH is built without CUDA: GPU programs use the suite's own, {file.parent.parent}/mpi"
        )
        return (f". {shlex.quote(str(file))}",)

    def _has_mpi_header(self, compiler: str) -> bool:
        words = (self.run([compiler, "-show"]) or "").split()
        folders = [word[2:] for word in words if word.startswith("-I")] or ["/usr/include"]
        return any((self.root / folder.lstrip("/") / "mpi.h").is_file() for folder in folders)


def describe(
    root: Path = ROOT,
    run: Runner = run_command,
    which: Which = shutil.which,
    env: Mapping[str, str] | None = None,
    machine: str | None = None,
    buses: Buses | None = None,
) -> System:
    """This machine as the system `local`. Never raises, whatever it finds.

    `machine`: output of `uname -m`. `buses`: None: those of the local driver.
    """
    look = Looker(root, run, which, os.environ if env is None else env, buses)
    node = _node(look, look.gpus(), machine or platform.machine() or "x86_64")
    with_gpu = bool(node.gpu_count)
    hidden = "" if with_gpu else look.hidden_gpus()
    mpi = look.mpi()
    environments = look.environments(with_gpu, mpi)
    partition = Partition(
        name=PARTITION,
        description="this machine",
        scheduler="local",
        scheduler_status=None,
        launcher="mpirun" if mpi else "local",
        environments=tuple(environments),
        node=node,
        features=frozenset((["mpi"] if mpi else []) + (["cuda"] if with_gpu else [])),
        max_jobs=1,
        build="login",
    )
    return System(
        name="local",
        title=f"This machine: {_title(node)}",
        status="active",
        partitions={PARTITION: partition},
        environments=environments,
        notes=tuple(look.notes),
        hidden_gpus=hidden,
    )


def compilers(
    run: Runner, which: Which, env: Mapping[str, str], with_gpu: bool, mpi: bool, root: Path = ROOT
) -> dict[str, Environment]:
    """Environments of the available compilers, for nodes with or without GPUs."""
    return Looker(root, run, which, env).environments(with_gpu, mpi)


def gpu_count(root: Path = ROOT, env: Mapping[str, str] | None = None) -> int:
    """NVIDIA GPUs of this node visible to a program started here, from device files only."""
    return Looker(root, lambda command: None, lambda name: None, os.environ if env is None else env).gpu_count()


def resolve(system: System, root: Path = ROOT, env: Mapping[str, str] | None = None) -> System:
    """Fills in what a file leaves to detection (`count: found`) if this machine has GPUs; otherwise unchanged."""
    look = Looker(root, lambda command: None, lambda name: None, os.environ if env is None else env)
    count = look.gpu_count()
    if count == 0:
        found = any(partition.node.gpu_count_found for partition in system.partitions.values())
        return replace(system, hidden_gpus=look.hidden_gpus()) if found else system
    cpus, partitions = look.cpus(), dict(system.partitions)
    for name, partition in system.partitions.items():
        node = partition.node
        if not node.gpu_count_found:
            continue
        if node.gpu_counts and count not in node.gpu_counts:
            allowed = ", ".join(map(str, node.gpu_counts))
            look.notes.append(f"partition '{name}': {count} GPUs found; the file lists {allowed}")
        node = replace(
            node,
            gpu_count=count,
            cpu=node.cpu or cpus.model,
            sockets=node.sockets or cpus.sockets,
            cores=node.cores or cpus.cores,
            threads_per_core=node.threads_per_core or cpus.threads_per_core,
            caches=node.caches or cpus.caches,
            numa_nodes=node.numa_nodes or look.numa_nodes(),
            memory_bytes=node.memory_bytes or look.memory_bytes(),
            virtual_machine=look.virtual_machine(),
        )
        # A single GPU has no peer: claims about two do not apply to it.
        capabilities = partition.capabilities - {"peer"} if count == 1 else partition.capabilities
        partitions[name] = replace(partition, node=node, capabilities=capabilities)
    return replace(system, partitions=partitions, notes=(*system.notes, *look.notes))


def _node(look: Looker, gpus: Gpus, machine: str) -> Node:
    cpus, virtual = look.cpus(), look.virtual_machine()
    sheet = None if virtual else _host_sheet(cpus, look.memory_bytes_of_machine(), gpus.names)
    fitted = None if sheet is None else look.modules()
    less = _of_modules(sheet, cpus.sockets, fitted)
    return Node(
        architecture={"arm64": "aarch64", "amd64": "x86_64"}.get(machine.lower(), machine),
        count=1,
        host=sheet,
        memory_gbs=less and less[0],
        memory_gbs_source=less and less[1],
        cpu=cpus.model,
        sockets=cpus.sockets,
        cores=cpus.cores,
        threads_per_core=cpus.threads_per_core,
        numa_nodes=look.numa_nodes(),
        memory_bytes=look.memory_bytes(),
        caches=cpus.caches,
        virtual_machine=virtual,
        gpu=gpus.sheet,
        gpu_count=len(gpus.names) + gpus.missing,
        gpu_count_found=True,
        gpu_names=tuple(gpus.names),
        gpu_memory_bytes=gpus.memory_bytes,
        compute_capability=gpus.compute_capability,
        compute_capabilities=gpus.compute_capabilities,
        gpu_memory_gbs=gpus.memory_gbs,
        host_link=gpus.host_link,
        pair_links=gpus.pair_links,
        pair_cells=gpus.pair_cells,
    )


def _of_modules(
    sheet: HostSheet | None, sockets: int | None, fitted: tuple[int, str, int | None] | None
) -> tuple[float, str] | None:
    """Peak of a node's memory in GB/s, and its source, if it has fewer modules than channels, or modules slower than in
    the data sheet; None if neither is the case, or if this is not known."""
    if sheet is None or sockets is None or fitted is None or not (rate := re.search(r"-(\d+)$", sheet.memory_type)):
        return None
    count, what, transfers = fitted
    channels = round(sheet.memory_gbs * sockets * 1000 / 8 / int(rate[1]))
    slower = transfers is not None and transfers < int(rate[1])
    peak = min(count, channels) * (transfers if slower and transfers else int(rate[1])) * 8 / 1000
    source = f"{sheet.name} with {count} {what}{f' at {transfers} MT/s' if slower else ''}"
    return (peak, source) if peak < 0.99 * sheet.memory_gbs * sockets else None


#: Types of memory devices that are ROM, flash or logical non-volatile devices, and technologies that keep their content
#: (NVDIMM-F, NVDIMM-P, Optane): firmware lists its own chip (lpereira/hardinfo 536), and Optane beside DDR4.
_NO_DRAM, _PERSISTENT = frozenset({*range(0x08, 0x0D), 0x1F}), frozenset({0x05, 0x06, 0x07})


def _of_smbios(table: bytes) -> list[tuple[int, int | None]]:
    """(MiB, MT/s or None) of the installed modules, from structures of type 17 of the firmware's table (DMTF DSP0134,
    7.18: size at 0Ch, type at 12h, extended size at 1Ch, configured speed at 20h, technology at 28h, extended speed at
    58h); empty if it cannot be read. Left out: the ROM of the firmware, and persistent memory.
    """
    found: list[tuple[int, int | None]] = []
    at = 0
    while at + 4 <= len(table) and table[at + 1] >= 4:
        kind, length = table[at], table[at + 1]
        field = table[at : at + length]
        end = table.find(b"\0\0", at + length)

        def word(offset: int, size: int, field: bytes = field) -> int:
            return int.from_bytes(field[offset : offset + size], "little") if len(field) >= offset + size else 0

        if kind == 17:
            size = word(0x0C, 2)  # above 0x7FFF: unknown, or in KiB as no module of today
            mib = word(0x1C, 4) if size == 0x7FFF else size
            rate = word(0x20, 2)
            other = word(0x12, 1) in _NO_DRAM or word(0x28, 1) in _PERSISTENT
            if mib > 0 and size <= 0x7FFF and not other:
                found.append((mib, (word(0x58, 4) if rate == 0xFFFF else rate) or None))
        if end < 0 or kind == 127:
            break
        at = end + 2
    return found


def _host_sheet(cpus: Cpus, memory_bytes: int | None, gpu_names: Sequence[str]) -> HostSheet | None:
    """Among matching sheets, the one with the largest memory: one CPU is sold with several sizes."""
    if cpus.model is None:
        return None
    gib = (memory_bytes or 0) / 2**30 / (cpus.sockets or 1)
    cores = None if cpus.cores is None else cpus.cores // (cpus.sockets or 1)
    sheets, names = hardware.load().hosts.values(), tuple(gpu_names)
    fitting = [sheet for sheet in sheets if sheet.fits(cpus.model, max(gib, 1), names, cores)]
    return max(fitting, key=lambda sheet: sheet.memory_above_gib, default=None)


def _c_of(cxx: str) -> str:
    """The C compiler that belongs to a C++ compiler."""
    folder, between, name = cxx.rpartition("/")
    return folder + between + name.replace("clang++", "clang").replace("g++", "gcc").replace("c++", "cc")


def _title(node: Node) -> str:
    gpus = ", ".join(f"{count} x {name}" for name, count in Counter(node.gpu_names).items()) or "no GPU"
    return f"{node.cpu or node.architecture}, {node.cores or '?'} cores, {gpus}"


def _mpi_family(said: str | None) -> str | None:
    """The MPI that a compiler wrapper or a launcher belongs to; None if it does not report it."""
    text = (said or "").lower()
    if re.search(r"open ?mpi|open rte|prte", text):
        return "Open MPI"
    return "MPICH" if re.search(r"mpich|hydra|mvapich", text) else None


def _is_error(cell: str) -> bool:
    """Whether nvidia-smi could not read values that every GPU has: `[Unknown Error]`, `[GPU is lost]`, `ERR!`."""
    return cell.startswith(("[", "ERR!")) and not cell.startswith(_NO_VALUE)


def _lost(row: Mapping[str, str]) -> str:
    """What nvidia-smi prints for a GPU that cannot be used; empty for others."""
    wrong = (cell for name, cell in row.items() if cell in _UNUSABLE or (name in _NEEDED and _is_error(cell)))
    return next(wrong, "")


def _may_open(file: Path) -> bool:
    """False if a job's control group, or file permissions, keep a device from this process."""
    try:
        os.close(os.open(file, os.O_RDWR))
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES)
    return True


def _names_instance(visible: Sequence[str]) -> bool:
    """Whether CUDA_VISIBLE_DEVICES begins with a MIG instance: CUDA then opens only this one."""
    return bool(visible) and visible[0].startswith("MIG-")


def _mem_total(meminfo: str | None) -> int | None:
    """Bytes of /proc/meminfo, or of a NUMA node's."""
    match = re.search(r"^(?:Node \d+ )?MemTotal:\s*(\d+) kB", meminfo or "", re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _cpu_list(text: str | None) -> set[int]:
    """`0-3,8` -> {0, 1, 2, 3, 8}; empty for other text."""
    result: set[int] = set()
    for part in (text or "").split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match:
            first = int(match.group(1))
            result.update(range(first, int(match.group(2) or first) + 1))
    return result


def _size(text: str | None) -> int | None:
    """`48K` -> 49152."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text or "")
    if not match:
        return None
    return int(match.group(1)) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match.group(2)]
