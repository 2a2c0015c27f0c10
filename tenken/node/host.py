"""What Linux reports on the node around the GPUs. None is what could not be read."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tenken.counters import GUESTS, aer, names, number, ports, text
from tenken.node.probe import Say

ROOT = Path("/")
#: Lines of the kernel log (facility 0, which no program can write) that a check counts: kind, pattern. `device` and
#: `code` are named in the finding.
LOG = {
    # older drivers leave out PCI:; with MIG, the instance follows the GPU; XIDs of NVLink 5 have a severity, which may
    # follow the process; XID 154 has what the driver asks for
    "xid": re.compile(
        r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]+)(?: GPU-[^)]*)?\): (?P<code>\d+)"
        r"(?:, (?:pid=[^,]*, (?:name=[^,]*, )?)?(?:(?P<severity>[\w/]+ +(?:Nonf|F)atal)\b"
        r"|GPU recovery action changed from .* to \w+ \((?P<action>[^)]*)))?"
    ),
    "sxid": re.compile(r"SXid \(PCI:(?P<device>[0-9a-fA-F:.]+)\): (?P<code>\d+), Fatal"),
    "hardware": re.compile(r"(?P<device>)\[Hardware Error\]:\s+event severity: (?P<code>fatal|recoverable)"),
    "memory": re.compile(r"(?P<device>)Memory failure: (?P<code>0x[0-9a-f]+):"),
    # a loop device is a user's image
    "read-only": re.compile(
        r"\((?:device )?(?!loop)(?P<device>[\w-]+)[^)]*\).*: (?:Remounting filesystem |forced )(?P<code>read-?only)"
    ),
    # XFS is never remounted: each access fails
    "shut-down": re.compile(r"XFS \((?!loop)(?P<device>[\w-]+)\): (?!User).*(?P<code>[Ss]hut(?:ting)? down)"),
    # a disc in a drive is no disk; a device that cannot discard or write zeroes refuses them as a target error
    "medium": re.compile(
        r"critical (?P<code>medium|target) error, dev (?!sr|loop)(?P<device>[\w-]+)"
        r"(?!.*\((?:DISCARD|SECURE_ERASE|WRITE_SAME|WRITE_ZEROES)\))"
    ),
    "errors": re.compile(r"EXT4-fs (?P<code>error) \(device (?!loop)(?P<device>[\w-]+)\)"),
    "disabled": re.compile(
        r"nvme (?P<device>nvme\d+): (?P<code>Disabling device after reset|Removing after probe) fail"
    ),
    "adapter": re.compile(r"mlx5_core (?P<device>[0-9a-f:.]+\d)\b.*device's (?P<code>health compromised)"),
    "bus": re.compile(
        r"AER: (?:Multiple )?(?:Uncorrected|Uncorrectable) \((?P<code>Fatal)\) error (?:message )?received(?: from|:) "
        r"(?P<device>\S+)"
    ),
    "evicted": re.compile(r"LustreError: .*This client was (?P<code>evicted) by (?P<device>[\w-]+)"),
    "stuck": re.compile(r"BUG: soft lockup - CPU#(?P<device>\d+) stuck for (?P<code>\d+s)"),
}
#: Maximum number of lines kept of one reading; the finding of a storm has its first lines.
MOST_EVENTS = 200
_STA_UNSYNC = 0x40
#: The control program of NVIDIA's IMEX service, and seconds that it may take.
IMEX, IMEX_S = "usr/bin/nvidia-imex-ctl", 2.0


def read(say: Say | None = None, root: Path = ROOT, log: Path | None = None) -> dict[str, Any]:
    """All of the host except file systems. `log`: the kernel's log, /dev/kmsg of the root."""
    return {
        "boot": text(root / "proc/sys/kernel/random/boot_id"),
        "memory_bytes": _memory(root),
        "cores": _cores(root),
        "mce": _interrupts("MCE", root),
        "edac": _edac(root),
        "shm": space(root / "dev/shm"),
        "clock": _clock() if root == ROOT else None,
        "log": kernel_log(log or root / "dev/kmsg"),
        "ports": {port.name: vars(port) for port in ports(root)},
        "gpus_on_bus": gpus_on_bus(root),
        "slots": slots(root),
        "jobs": jobs(root),
        "imex": imex(root),
    }


def imex(root: Path = ROOT) -> str | None:
    """State of the service that shares GPU memory between the nodes of an NVLink domain, `READY` if it works; None
    where it is not installed or does not answer."""
    tool = root / IMEX
    if not tool.is_file():
        return None
    try:
        done = subprocess.run([tool, "-q"], capture_output=True, text=True, timeout=IMEX_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    said = (done.stdout or done.stderr).split()
    return said[-1] if said else None


def _memory(root: Path) -> int | None:
    """Bytes without those of coherent GPUs (GH200): NUMA nodes without CPUs, except on x86. Linux counts them while the
    driver shares them, which a mode of it (CDMM) does not."""
    total = _total(root / "proc/meminfo")
    if total is None or "vendor_id" in (text(root / "proc/cpuinfo") or ""):
        return total
    nodes = [root / "sys/devices/system/node" / name for name in names(root / "sys/devices/system/node")]
    return total - sum(_total(node / "meminfo") or 0 for node in nodes if text(node / "cpulist") == "")


def _total(meminfo: Path) -> int | None:
    found = re.search(r"^(?:Node \d+ )?MemTotal:\s*(\d+) kB", text(meminfo) or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _cores(root: Path) -> int | None:
    """Physical cores that are online."""
    found = set()
    for spec in (text(root / "sys/devices/system/cpu/online") or "").split(","):
        first, _, last = spec.partition("-")
        if not first.isdigit():
            return None
        for cpu in range(int(first), int(last or first) + 1):
            at = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            core = number(at / "core_id")
            # by its threads: the number of a core repeats on each die or cluster
            threads = text(at / "thread_siblings_list")
            found.add(threads or (number(at / "physical_package_id"), cpu if core is None else core))
    return len(found) or None


def _interrupts(name: str, root: Path) -> int | None:
    """The sum over all CPUs of one line of /proc/interrupts."""
    for line in (text(root / "proc/interrupts") or "").splitlines():
        words = line.split()
        if words and words[0] == f"{name}:":
            return sum(int(word) for word in words[1:] if word.isdigit())
    return None


def _edac(root: Path) -> dict[str, dict[str, int | None]]:
    """Corrected and uncorrected errors of each memory controller that the kernel monitors."""
    top = root / "sys/devices/system/edac/mc"
    return {
        name: {"corrected": number(top / name / "ce_count"), "uncorrected": number(top / name / "ue_count")}
        for name in names(top)
        if re.fullmatch(r"mc\d+", name)
    }


def space(path: Path) -> dict[str, int] | None:
    """Size of a file system and bytes free for users."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return {"bytes": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def _clock() -> dict[str, Any] | None:
    """Whether the kernel considers its clock synchronised, and its estimated error (adjtimex(2), read only)."""
    made = ctypes.create_string_buffer(512)
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(made) < 0:
            return None
    except (OSError, AttributeError):
        return None
    numbers = ctypes.cast(made, ctypes.POINTER(ctypes.c_long))
    status = ctypes.cast(ctypes.byref(made, 40), ctypes.POINTER(ctypes.c_int))[0]
    return {"synchronised": not status & _STA_UNSYNC, "error_ms": numbers[4] / 1e3}


def kernel_log(file: Path) -> dict[str, Any] | None:
    """Events that match LOG, with their number in the log; None if it may not be read.

    `first` and `last` are the numbers of the oldest and the newest line: lines before `first` are gone.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    first = last = None
    events: list[list[Any]] = []
    more = 0
    try:
        for line in _lines(opened):
            head, _, message = line.partition(";")
            fields = head.split(",")
            if len(fields) < 3 or not (fields[0].isdigit() and fields[1].isdigit()):
                continue  # a continuation line of the previous record
            last = int(fields[1])
            first = last if first is None else first
            for kind, pattern in LOG.items():
                found = pattern.search(message) if int(fields[0]) >> 3 == 0 else None
                if found and len(events) < MOST_EVENTS:
                    words = found.groupdict()
                    more_of = words.get("severity") or words.get("action") or ""
                    code = ", ".join(filter(None, (words["code"], " ".join(more_of.split()))))
                    events.append([last, kind, words["device"], code])
                elif found:
                    more += 1
    finally:
        os.close(opened)
    return {"first": first, "last": last, "events": events, "more": more}


def _lines(opened: int) -> Any:
    """/dev/kmsg returns one record per read; a plain file, for tests, all of them."""
    rest = b""
    while True:
        try:
            data = os.read(opened, 1 << 16)
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten while it was read
                continue
            return  # EAGAIN: the end
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")


def gpus_on_bus(root: Path = ROOT) -> list[str]:
    """PCI addresses of NVIDIA's display and 3D controllers, with or without a driver; not those of a guest."""
    top = root / "sys/bus/pci/devices"
    return [
        name
        for name in names(top)
        if text(top / name / "vendor") == "0x10de"
        and (text(top / name / "class") or "")[:6] in ("0x0300", "0x0302")
        and not (top / name / "physfn").exists()
        and not os.path.realpath(top / name / "driver").rpartition("/")[2].startswith(GUESTS)
    ]


def slots(root: Path = ROOT) -> dict[str, int]:
    """Lanes of the slot of each GPU, where the bridge above it states them."""
    devices = root / "sys/bus/pci/devices"
    found = {name: number((devices / name).resolve().parent / "max_link_width") for name in gpus_on_bus(root)}
    return {name: lanes for name, lanes in found.items() if lanes}


def bus_errors(addresses: list[str], root: Path = ROOT) -> dict[str, dict[str, int | None]]:
    """AER counters of the devices."""
    return {address: aer(address, root) for address in addresses}


#: Control groups that schedulers create for each job: Slurm with cgroup v2 and v1, PBS with both; and the files in
#: which PBS keeps the jobs of a node.
_JOBS = (
    "sys/fs/cgroup/system.slice/*slurmstepd.scope/job_*",
    "sys/fs/cgroup/*/slurm*/uid_*/job_*",
    # only folders: next to the groups lie the files of their parent; version 2 has `jobs`, or `jobid` as version 1
    "sys/fs/cgroup/*/pbs_jobs.service/jobid/*/",
    "sys/fs/cgroup/pbs_jobs.service/job*/*/",
    "var/spool/pbs/mom_priv/jobs/*.JB",
)
#: Names and titles of the job processes of Slurm and Grid Engine, for nodes without such groups.
_STARTERS = ("slurmstepd", "sge_shepherd")
_TITLE = re.compile(r"slurmstepd: \[(\d+)\.|sge_shepherd-(\d+)")


def jobs(root: Path = ROOT) -> list[str]:
    """Ids of the jobs on this node."""
    names = {Path(p).name for pattern in _JOBS for p in glob.glob(f"{root}/{pattern}")}
    found = {name.removeprefix("job_").removesuffix(".JB") for name in names}
    # PBS's groups of version 2 leave out the server, and write part 3 of array 12[] as 12.3
    found = {re.sub(r"^(\d+)\.(\d+)$", r"\1[\2]", name) for name in found}
    for file in map(Path, glob.glob(str(root / "proc/[0-9]*/comm"))):
        # only of these, since reading the arguments of a hanging process may hang
        if text(file) in _STARTERS and (title := _TITLE.match(text(file.with_name("cmdline")) or "")):
            found.add(title[1] or title[2])
    return sorted(found)


def file_system(wanted: dict[str, Any], root: Path = ROOT) -> dict[str, Any]:
    """State of one expected file system: `path`, `type`, `write`. Calls that may hang come last."""
    path = wanted["path"]
    mounted = mount(path, root)
    result: dict[str, Any] = {"mounted": mounted is not None, **(mounted or {})}
    if mounted is None:
        return result
    at = root / path.lstrip("/")
    found = os.statvfs(at)
    result |= {
        "free": found.f_bavail * found.f_frsize,
        "bytes": found.f_blocks * found.f_frsize,
        "files_free": found.f_favail if found.f_files else None,
    }
    if wanted.get("write"):
        result["write"] = _write(at)
    return result


def mount(path: str, root: Path = ROOT) -> dict[str, Any] | None:
    """Type of the file system mounted at exactly this path, and whether it is read-only; the last mount counts."""
    result = None
    for line in (text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 6 and len(tail) >= 3 and fields[4].replace("\\040", " ") == path:
            options = {*fields[5].split(","), *tail[2].split(",")}
            result = {"type": tail[0], "read_only": "ro" in options}
    return result


def _write(folder: Path) -> str | None:
    """Name of the error, `ok`, or None if this user has no write permission (root_squash)."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tenken-") as made:
            made.write(b"\0" * 4096)
            made.flush()
            os.fsync(made.fileno())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return None
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def load(root: Path = ROOT) -> float | None:
    """Mean number of running threads over the last minute."""
    with contextlib.suppress(ValueError, IndexError):
        return float((text(root / "proc/loadavg") or "").split()[0])
    return None
