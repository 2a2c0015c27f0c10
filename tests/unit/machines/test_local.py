"""Detection on made-up machines: a laptop, an H200 node, a Jetson, a container, and unusual ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.machines import limits, local
from tenken.machines.model import Environment, Node, System
from tests.unit.machines.conftest import GOOD

Q = "nvidia-smi --query-gpu="
MPICXX = "/usr/bin/mpicxx -show"
# What nvidia-smi of driver 580 printed on a node with two GPUs; UUIDs made up.
H200_ROWS = (
    "0, GPU-00000000-0000-0000-0000-000000000001, NVIDIA H200, 9.0, 143771, 5, 16, Disabled\n"
    "1, GPU-00000000-0000-0000-0000-000000000002, NVIDIA H200, 9.0, 143771, 5, 16, Disabled\n"
)
H200_TOPO = (
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\t0-31\t0\t\tN/A\nGPU1\tNV18\t X \t0-31\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
)


class Machine:
    """Files below a root, programs on PATH, answers of commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.programs: set[str] = {"g++"}
        self.answers: dict[str, str] = {}
        self.env: dict[str, str] = {}
        self.asked: list[str] = []

    def file(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def cpus(self, sockets: int, cores: int, threads: int, model: str = "Some CPU", flags: str = "fpu") -> None:
        """`cores` per socket; hardware threads numbered as on Linux: first threads first."""
        logical = sockets * cores * threads
        for cpu in range(logical):
            socket, core = cpu // cores % sockets, cpu % cores
            base = f"sys/devices/system/cpu/cpu{cpu}"
            self.file(f"{base}/topology/physical_package_id", f"{socket}\n")
            self.file(f"{base}/topology/core_id", f"{core}\n")
            mates = ",".join(str(socket * cores + core + t * sockets * cores) for t in range(threads))
            whole = ",".join(str(c) for c in range(logical) if c // cores % sockets == socket)
            for index, (level, kind, size, shared) in enumerate(
                [
                    ("1", "Data", "48K", mates),
                    ("1", "Instruction", "32K", mates),
                    ("3", "Unified", "30M", whole),
                ]
            ):
                for name, text in zip(
                    ("level", "type", "size", "shared_cpu_list"), (level, kind, size, shared), strict=True
                ):
                    self.file(f"{base}/cache/index{index}/{name}", text + "\n")
        self.file("sys/devices/system/cpu/online", f"0-{logical - 1}\n")
        self.file("proc/cpuinfo", f"processor\t: 0\nmodel name\t: {model}\nflags\t\t: {flags}\n")
        self.file("proc/meminfo", "MemTotal:       65536 kB\nMemFree: 1 kB\n")
        for socket in range(sockets):
            self.file(f"sys/devices/system/node/node{socket}/cpulist", "0\n")

    def run(self, command: Sequence[str]) -> str | None:
        line = " ".join(command)
        self.asked.append(line)
        return next((text for start, text in self.answers.items() if line.startswith(start)), None)

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def describe(self, machine: str = "x86_64") -> System:
        return local.describe(self.root, self.run, self.which, self.env, machine)

    def node(self, machine: str = "x86_64") -> Node:
        return self.describe(machine).partition("node").node


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def h200(machine: Machine) -> Machine:
    machine.cpus(1, 32, 1, "Intel(R) Xeon(R) Processor", "fpu hypervisor")
    machine.file("sys/class/dmi/id/sys_vendor", "QEMU\n")
    machine.file("dev/nvidia0", "")
    machine.file("dev/nvidia1", "")
    machine.file("dev/nvidiactl", "")
    machine.programs |= {"nvidia-smi", "nvcc", "mpicxx", "mpirun"}
    machine.file("usr/lib/openmpi/include/mpi.h", "")
    machine.answers = {Q: H200_ROWS, "nvidia-smi topo -m": H200_TOPO, MPICXX: "g++ -I/usr/lib/openmpi/include -lmpi"}
    return machine


def test_two_sockets_with_threads_and_no_gpu(machine: Machine) -> None:
    machine.cpus(2, 18, 2, "Intel(R) Xeon(R) CPU E5-2695 v4 @ 2.10GHz")
    machine.programs |= {"nvcc", "nvc++"}
    system = machine.describe()
    partition = system.partition("node")
    node = partition.node
    assert (node.sockets, node.cores, node.threads_per_core, node.numa_nodes) == (2, 36, 2, 2)
    assert node.memory_bytes == 65536 * 1024
    assert node.caches == {"L1d": 36 * 48 * 1024, "L3": 2 * 30 * 2**20}
    assert node.last_level_cache_bytes == 60 * 2**20
    assert node.virtual_machine is None and node.gpu_count == 0
    assert node.host is not None and node.host.name == "Xeon-E5-2695v4"
    memory = limits.memory(partition, "host")
    assert isinstance(memory, limits.Limit) and memory.value == pytest.approx(153.6)
    assert partition.features == frozenset() and partition.scheduler == "local" and partition.max_jobs == 1
    assert list(system.environments) == ["host"]
    assert all(line.startswith("g++ ") for line in machine.asked), "no GPU, no nvidia-smi"


def test_two_h200(h200: Machine) -> None:
    system = h200.describe()
    partition = system.partition("node")
    node = partition.node
    assert node.gpu_count == 2 and node.gpu is not None and node.gpu.name == "H200-SXM-141GB"
    assert node.pair_links is not None and node.pair_links.total_gbs == 450
    assert node.host_link is not None and node.host_link.kind == "PCIe Gen5 x16"
    assert node.compute_capability == "9.0" and node.gpu_memory_bytes == 143771 * 2**20
    assert node.virtual_machine == "QEMU" and node.host is None
    assert partition.features == {"cuda", "mpi"} and partition.launcher == "mpirun"
    assert set(system.environments) == {"host", "cuda"}
    assert system.environments["cuda"].features == {"cuda", "openmp", "mpi"}
    assert system.notes == ()


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        ("0", 1),
        ("1,0", 2),
        ("", 0),
        ("-1", 0),
        ("0,-1,1", 1),
        ("GPU-00000000-0000-0000-0000-000000000002", 1),
        ("7", 0),
    ],
)
def test_visible_devices(visible: str, count: int, h200: Machine) -> None:
    h200.env["CUDA_VISIBLE_DEVICES"] = visible
    assert h200.node().gpu_count == count
    assert local.gpu_count(h200.root, h200.env) == count


def test_a_hung_or_broken_nvidia_smi(h200: Machine) -> None:
    h200.answers = {}
    h200.file("proc/driver/nvidia/gpus/0000:00:06.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n")
    system = h200.describe()
    node = system.partition("node").node
    assert node.gpu_count == 1 and node.gpu is not None and node.gpu.name == "H200-SXM-141GB"
    assert "nvidia-smi does not respond" in system.notes[0]


@pytest.mark.parametrize("text", ["", "garbage", "0, x\n", "No devices were found\n", "Failed to initialize NVML"])
def test_odd_answers_of_nvidia_smi(text: str, h200: Machine) -> None:
    h200.answers = {Q: text}
    assert h200.node().gpu_count == 0


def test_unknown_and_mixed_gpus(h200: Machine) -> None:
    h200.answers[Q] = H200_ROWS.replace("NVIDIA H200", "NVIDIA X1")
    h200.answers["nvidia-smi nvlink -s"] = "GPU 0: NVIDIA X1\n\t Link 0: 26.562 GB/s\n"
    system = h200.describe()
    node = system.partition("node").node
    assert node.gpu is None and node.gpu_names == ("NVIDIA X1", "NVIDIA X1")
    assert node.pair_links is not None and node.pair_links.total_gbs == pytest.approx(18 * 26.562)
    assert "no data sheet of 'NVIDIA X1'" in system.notes[0]
    assert system.title == "This machine: Intel(R) Xeon(R) Processor, 32 cores, 2 x NVIDIA X1"
    h200.answers[Q] = H200_ROWS.replace("NVIDIA H200", "NVIDIA X1", 1)
    assert "several kinds" in h200.describe().notes[0]


def test_pairs_without_nvlink_or_unequal(h200: Machine) -> None:
    h200.answers["nvidia-smi topo -m"] = H200_TOPO.replace("NV18", "SYS")
    assert h200.node().pair_links is None
    h200.answers["nvidia-smi topo -m"] = H200_TOPO.replace("NV18", "NV4", 1)
    assert h200.node().pair_links is None and "differ" in h200.describe().notes[0]


def test_mig(h200: Machine) -> None:
    h200.answers[Q] = H200_ROWS.replace("Disabled", "Enabled")
    system = h200.describe()
    assert system.partition("node").node.gpu is None and "MIG" in system.notes[0]


def test_gpus_without_a_compiler(h200: Machine) -> None:
    h200.programs.discard("nvcc")
    system = h200.describe()
    assert "cuda" not in system.environments and any("nvcc" in note for note in system.notes)


@pytest.mark.parametrize(
    ("named", "failing", "used", "left", "note"),
    [
        ("/opt/g++-9", "never", "/opt/g++-9", {"openmp", "openacc"}, ""),
        # a gcc that was moved: the part that links OpenACC is not found
        ("/opt/g++-9", "/opt.*openacc", "g++", {"openmp", "openacc"}, "builds nothing with openacc, unlike g++: u"),
        ("/opt/g++-9", "-fopenacc", "/opt/g++-9", {"openmp"}, "OpenACC: its checks do not apply"),
        ("/opt/g++-9", "-fopen", "/opt/g++-9", set(), "OpenMP: with one thread the host is INVALID"),
        ("/opt/clang++", "/opt.*openacc", "/opt/clang++", {"openmp"}, "/opt/clang++ builds nothing with OpenACC"),
        # a C++ library that the loader does not find
        ("/opt/g++-9", r"/opt/\S+ \S+/tried.cpp", "g++", {"openmp", "openacc"}, "program that runs here, unlike"),
        # a TMPDIR from which no program may run; no libc, a full TMPDIR: for the build to report
        ("/opt/g++-9", r"^\S+/tried$", "/opt/g++-9", {"openmp", "openacc"}, ""),
        ("", "tried", "g++", {"openmp", "openacc"}, ""),
        ("ccache g++", "never", "g++", {"openmp", "openacc"}, "CXX is 'ccache g++', which cannot be run: using g++"),
    ],
)
def test_a_compiler_has_what_it_builds(h200: Machine, monkeypatch, named, failing, used, left, note) -> None:
    """CXX applies to the host: nvcc takes the g++ on PATH."""
    others = h200.run

    def run(command: Sequence[str]) -> str | None:
        line = " ".join(command)
        return others(command) if "tried" not in line else None if re.search(failing, line) else ""

    monkeypatch.setattr(h200, "run", run)
    h200.programs |= {"/opt/g++-9", "/opt/clang++"}
    h200.env["CXX"] = named
    system = h200.describe()
    host = system.environments["host"]
    assert (host.cxx, host.features - {"mpi"}) == (used, left)
    assert host.cc == {"/opt/g++-9": "/opt/gcc-9", "g++": "gcc", "/opt/clang++": "/opt/clang"}[used]
    assert system.environments["cuda"].cxx == "g++"
    told = [one for one in system.notes if one.startswith("CXX is ") or " builds nothing with " in one]
    assert len(told) == (left < {"openmp"} or bool(note)) + (left == set()), told
    assert note in "".join(told)


@pytest.mark.parametrize(
    ("cxx", "gcc"),
    [("g++", True), ("/opt/g++-13", True), ("x86_64-conda-linux-gnu-c++", True), ("clang++", False), ("nvc++", False),
     ("pgc++", False), ("CC", False)],
)  # fmt: skip
def test_gcc_has_many_names(cxx: str, gcc: bool) -> None:
    assert Environment("e", frozenset(), "cc", cxx).is_gcc is gcc


def test_nvcc_below_cuda_home(h200: Machine) -> None:
    h200.programs.discard("nvcc")
    h200.file("opt/cuda/bin/nvcc", "")
    (h200.root / "opt/cuda/bin/nvcc").chmod(0o755)
    h200.env["CUDA_HOME"] = str(h200.root / "opt/cuda")
    assert h200.describe().environments["cuda"].cuda == str(h200.root / "opt/cuda/bin/nvcc")


JETSONS = {
    "NVIDIA Jetson AGX Xavier Developer Kit\0": "Jetson-AGX-Xavier",
    "quill\0": "Jetson-TX2",
    "NVIDIA Jetson Nano\0": None,
}


@pytest.mark.parametrize(("model", "sheet"), JETSONS.items())
def test_jetsons(model: str, sheet: str | None, machine: Machine) -> None:
    machine.cpus(1, 8, 1)
    machine.file("proc/device-tree/model", model)
    node = machine.node("aarch64")
    assert node.gpu_count == 1 and node.architecture == "aarch64"
    assert (node.gpu.name if node.gpu else None) == sheet
    assert local.gpu_count(machine.root, {}) == 1


@pytest.mark.parametrize(("cores", "sheet"), [(72, "Grace-72"), (96, None)])
def test_grace_is_named_by_its_part_number_and_its_cores(machine: Machine, cores: int, sheet: str | None) -> None:
    """The part number is that of the core: Graviton4 has 96 of them."""
    machine.cpus(1, cores, 1)
    machine.file("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\nCPU part\t: 0xd4f\n")
    machine.file("sys/devices/system/node/node1/cpulist", "\n")
    node = machine.node("aarch64")
    assert (node.host.name if node.host else None) == sheet
    assert node.numa_nodes == 1, "a node without CPUs is GPU memory"


@pytest.mark.parametrize(
    ("files", "cores", "gib", "notes"),
    [
        ({"cpu.max": "250000 100000", "memory.max": 2**32}, 2, 4, ["2.5 of 16 cores", "4.0 of 16.0 GiB memory"]),
        ({"cpu/cpu.cfs_quota_us": 250000, "cpu/cpu.cfs_period_us": 100000, "memory/memory.limit_in_bytes": 2**32},
         2, 4, ["2.5 of 16 cores", "4.0 of 16.0 GiB memory"]),
        ({"cpu.max": "50000 100000", "memory.max": 2**34 - 2**30}, 1, 15,
         ["0.5 of 16 cores", "15.0 of 16.0 GiB memory"]),
        ({"cpu.max": "1600000 100000", "memory.max": 2**34}, 16, 16, []),
        ({"cpu.max": "1700000 100000", "memory.max": 2**35}, 16, 16, []),
        ({"cpu.max": "max 100000", "memory.max": "max"}, 16, 16, []),
        ({"cpu/cpu.cfs_quota_us": -1, "cpu/cpu.cfs_period_us": 100000}, 16, 16, []),
    ],
)  # fmt: skip
def test_a_container_with_a_share_of_the_machine(
    files: dict[str, object], cores: int, gib: int, notes: list[str], machine: Machine
) -> None:
    machine.cpus(1, 16, 1)
    machine.file("proc/meminfo", f"MemTotal: {2**24} kB\n")
    for name, value in files.items():
        machine.file(f"sys/fs/cgroup/{name}", f"{value}\n")
    system = machine.describe()
    node = system.partition("node").node
    assert (node.cores, node.memory_bytes) == (cores, gib * 2**30)
    assert list(system.notes) == [f"the control group allows {note}" for note in notes]


@pytest.mark.parametrize(
    ("own", "limits", "cores", "gib"),
    [
        # as a job with --mem=4G has it: the limit is the job's, and the step's own is none
        ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0",
         {"system.slice/slurmstepd.scope/job_7/memory.max": 2**32,
          "system.slice/slurmstepd.scope/job_7/step_0/user/task_0/memory.max": "max",
          "system.slice/slurmstepd.scope/job_8/memory.max": 2**30}, 16, 4),
        ("12:memory:/slurm/uid_5/job_7/step_batch\n3:cpu,cpuacct:/slurm/uid_5\n0::/system.slice/slurmd.service",
         {"memory/memory.limit_in_bytes": 2**63 - 4096, "memory/slurm/uid_5/job_7/memory.limit_in_bytes": 2**32,
          "memory/slurm/uid_5/job_7/step_batch/memory.limit_in_bytes": 2**33,
          "cpu/slurm/uid_5/cpu.cfs_quota_us": 450000, "cpu/slurm/uid_5/cpu.cfs_period_us": 100000}, 4, 4),
        ("0::/pbs_jobs.service/jobs/7",
         {"pbs_jobs.service/jobs/7/memory.max": 2**32, "pbs_jobs.service/jobs/7/cpu.max": "max 100000",
          "pbs_jobs.service/cpu.max": "800000 100000", "cpu.max": "900000 100000"}, 8, 4),
        # a container: the group of the host is named, and its files are at the top
        ("9:memory:/docker/1f", {"memory/memory.limit_in_bytes": 2**32}, 16, 4),
        ("0::/../../x", {"memory.max": 2**32}, 16, 4), ("0::x", {"memory.max": 2**32}, 16, 4),
        ("", {"memory.max": 2**32}, 16, 4),
    ],
)  # fmt: skip
def test_a_job_has_the_limits_of_its_groups(
    machine: Machine, own: str, limits: dict[str, object], cores: int, gib: int
) -> None:
    machine.cpus(1, 16, 1)
    machine.file("proc/meminfo", f"MemTotal: {2**24} kB\n")
    machine.file("proc/self/cgroup", f"{own}\n")
    for name, value in limits.items():
        machine.file(f"sys/fs/cgroup/{name}", f"{value}\n")
    system = machine.describe()
    node = system.partition("node").node
    assert (node.cores, node.memory_bytes) == (cores, gib * 2**30)
    assert len(system.notes) == (2 if cores < 16 else 1)


def test_a_virtual_machine_without_topology(machine: Machine) -> None:
    machine.file("proc/cpuinfo", "model name : X\ncache size\t: 4096 KB\nflags : hypervisor\n")
    machine.file("sys/devices/system/cpu/cpu0/x", "")
    machine.file("sys/devices/system/cpu/cpu1/x", "")
    node = machine.node()
    assert node.cores == 2 and node.sockets is None and node.caches == {"L3": 4096 * 1024}
    assert node.virtual_machine == "hypervisor not named"


@pytest.mark.parametrize("said", ["Hypervisor vendor:                       KVM", "Hypervisor-Anbieter:  KVM"])
def test_a_hypervisor_that_firmware_does_not_name_is_asked_of_the_cpu(machine: Machine, said: str) -> None:
    machine.answers["lscpu"] = f"Flags:  hypervisor fpu\nVirtualization type:  full\n{said}\n"
    machine.file("proc/cpuinfo", "model name : X\nflags : hypervisor\n")
    assert machine.node().virtual_machine == "KVM"
    machine.file("proc/cpuinfo", "model name : X\nflags : fpu\n")
    assert machine.node().virtual_machine is None, "lscpu tells of bare metal's own abilities too"


def test_an_empty_machine_raises_nothing(machine: Machine) -> None:
    machine.programs = set()
    system = machine.describe("riscv64")
    node = system.partition("node").node
    assert (node.cores, node.sockets, node.memory_bytes, node.gpu_count) == (None, None, None, 0)
    assert node.numa_nodes is None and system.title == "This machine: riscv64, ? cores, no GPU"
    assert "install g++" in system.notes[-1]


def test_garbage_everywhere_raises_nothing(machine: Machine) -> None:
    for path in ("proc/cpuinfo", "proc/meminfo", "sys/fs/cgroup/cpu.max", "sys/devices/system/cpu/online"):
        (machine.root / path).parent.mkdir(parents=True, exist_ok=True)
        (machine.root / path).write_bytes(b"\xff\0 max -1 \n")
    machine.file("sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")
    machine.file("sys/devices/system/cpu/cpu0/topology/core_id", "x")
    machine.file("sys/devices/system/cpu/cpu0/cache/index0/size", "big")
    machine.file("proc/device-tree/model", "\0\0")
    assert machine.node().gpu_count == 0


@pytest.mark.parametrize(("built", "brought", "prepared"), [
    ("false", True, True), ("false", False, False), ("true", True, False), ("", True, False),
])  # fmt: skip
def test_gpu_programs_use_the_mpi_that_takes_device_pointers(
    h200: Machine, tmp_path: Path, built: str, brought: bool, prepared: bool
) -> None:
    """Ubuntu's Open MPI is built without CUDA, and comes first on PATH."""
    h200.answers["ompi_info --parsable --all"] = f"mca:mpi:base:param:mpi_built_with_cuda_support:value:{built}\n"
    if brought:
        (tmp_path / "venv" / "bin").mkdir(parents=True)
        (tmp_path / "venv" / "bin" / "tenken-mpi.env").write_text("export PATH\n")
    h200.env = {**h200.env, "VIRTUAL_ENV": str(tmp_path / "venv")}
    system = h200.describe()
    wanted = (f". {tmp_path}/venv/bin/tenken-mpi.env",) if prepared else ()
    assert system.environments["cuda"].prepare == wanted and system.environments["host"].prepare == ()
    assert any("built without CUDA" in note for note in system.notes) == (built == "false")


@pytest.mark.parametrize("built", ["openmpi", "mpich", "mvapich2"])
@pytest.mark.parametrize(("launcher", "starts"), [
    ("mpirun (Open MPI) 5.0.8", "o"), ("mpirun (Open RTE) 4.1", "o"), ("prte 3.0.2", "o"), ("HYDRA build details", "m"),
    ("mpirun (MPICH) 4", "m"), ("MVAPICH 3", "m"), ("", "om"),
])  # fmt: skip
def test_an_mpi_whose_launcher_is_anothers_is_not_used(h200: Machine, built: str, launcher: str, starts: str) -> None:
    h200.file(f"opt/{built}/mpi.h", "")
    h200.answers |= {MPICXX: f"g++ -I/opt/{built} -lmpi", "/usr/bin/mpirun --version": launcher}
    used = "mpi" in h200.describe().partition("node").features
    assert used is (built[0] in starts)


@pytest.mark.parametrize("programs", [{"mpirun"}, {"mpicxx"}, {"mpirun", "mpicxx"}])
def test_half_an_mpi(programs: set[str], machine: Machine) -> None:
    machine.programs |= programs  # the last one lacks mpi.h
    system = machine.describe()
    assert "mpi" not in system.partition("node").features and "mpi.h" in system.notes[0]


def test_this_machine() -> None:
    system = local.describe()
    node = system.partition("node").node
    assert node.cores and node.cores >= 1 and node.memory_bytes
    assert set(system.partition("node").environments) == set(system.environments)


FOUND = GOOD.replace("count: 4", "count: found, counts: [1, 2]").replace(
    "      host: Xeon-8468\n      sockets: 2\n      cores: 96\n", ""
)


def test_found_counts(load: Callable[[str], System], h200: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "resolve", lambda system: system)
    system = load(FOUND)
    monkeypatch.undo()
    node = system.partition("gpu").node
    assert node.gpu_count is None and node.cores is None
    here = local.resolve(system, h200.root, {})
    assert here.partition("gpu").node.gpu_count == 2 and here.partition("gpu").node.cores == 32
    assert "peer" in here.partition("gpu").capabilities and here.notes == ()
    env: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "0"}
    one = local.resolve(system, h200.root, env).partition("gpu")
    assert one.node.gpu_count == 1 and "peer" not in one.capabilities
    h200.file("dev/nvidia2", "")
    assert "3 GPUs found; the file lists 1, 2" in local.resolve(system, h200.root, {}).notes[0]
    assert local.resolve(system, h200.root / "nowhere", {}) == system
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    assert "has 3 NVIDIA GPUs" in local.resolve(system, h200.root, hidden).hidden_gpus
    assert local.resolve(load(GOOD), h200.root, hidden).hidden_gpus == ""


@pytest.mark.parametrize("stated", [False, True])
def test_what_the_file_states_of_a_node_is_kept_and_the_rest_is_found(
    stated: bool, load: Callable[[str], System], h200: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "resolve", lambda system: system)
    system = load(FOUND)
    monkeypatch.undo()
    partition = system.partition("gpu")
    own: dict[str, Any] = {"cpu": "C", "sockets": 2, "cores": 96, "threads_per_core": 2, "caches": {"L3": 1},
                           "numa_nodes": 8, "memory_bytes": 5}  # fmt: skip
    if stated:
        partition = replace(partition, node=replace(partition.node, **own))
    found = local.resolve(replace(system, partitions={"gpu": partition}), h200.root, {}).partition("gpu").node
    h200_host = {"cpu": "Intel(R) Xeon(R) Processor", "sockets": 1, "cores": 32, "threads_per_core": 1,
                 "caches": {"L1d": 32 * 48 * 2**10, "L3": 30 * 2**20}, "numa_nodes": 1,
                 "memory_bytes": 64 * 2**20}  # fmt: skip
    assert {key: getattr(found, key) for key in own} == (own if stated else h200_host)


@pytest.mark.parametrize(("sockets", "gib", "found"), [
    (1, 301, "Grace-72-480GB"), (1, 299, "Grace-72"), (2, 602, "Grace-72-480GB"), (2, 598, "Grace-72"),
])  # fmt: skip
def test_one_cpu_of_several_sizes_is_told_by_the_memory_of_a_socket(sockets: int, gib: int, found: str) -> None:
    cpus: Any = SimpleNamespace(model="Neoverse-V2", sockets=sockets, cores=72 * sockets)
    sheet = local._host_sheet(cpus, gib * 2**30, [])
    assert sheet is not None and sheet.name == found
    assert local._host_sheet(SimpleNamespace(model=None), gib * 2**30, []) is None  # type: ignore[arg-type]


def smbios(*modules: tuple[int, int], kind: int = 0x1A, technology: int = 3) -> bytes:
    """A table with modules of this many MiB and MT/s; 0 MiB: an empty slot. DDR4 unless told otherwise."""
    table = bytes([0, 26]) + bytes(24) + b"Vendor\0\0"
    for mib, rate in modules:
        body = bytearray(0x5C)
        body[0], body[1] = 17, len(body)
        size = 0x7FFF if mib >= 0x7FFF else mib
        body[0x0C:0x0E], body[0x1C:0x20] = (
            size.to_bytes(2, "little"),
            (mib if mib >= 0x7FFF else 0).to_bytes(4, "little"),
        )
        body[0x20:0x22], body[0x12], body[0x28] = rate.to_bytes(2, "little"), kind, technology
        table += bytes(body) + b"DIMM\0CPU 0\0\0"
    return table + bytes([127, 4, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("modules", "by_driver", "expected"),
    [
        ([(65536, 4800)] * 16, False, 614.4),  # 8 channels per socket, two sockets
        ([(65536, 4800)] * 32, False, 614.4),  # two a channel
        ([(65536, 4800)] * 8 + [(0, 0)] * 8, False, 307.2),  # every second channel
        ([(65536, 4400)] * 16, False, 563.2),  # slower than the CPU supports
        ([(65536, 4400)] * 32, False, 563.2),  # as two a channel are
        ([(65536, 4400)] * 15 + [(65536, 0)], False, 563.2),  # one does not state its speed
        ([(16384, 4800)] * 16, True, 614.4),
        ([(32768, 0)] * 8, True, 307.2),
        ([(32768, 0)] * 4, True, 614.4),  # a controller without a driver: the memory is larger than that
    ],
)
def test_a_node_with_fewer_memory_modules_than_channels_has_less_bandwidth(
    modules: list[tuple[int, int]], by_driver: bool, expected: float, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    machine.cpus(2, 48, 1, "Intel(R) Xeon(R) Platinum 8468")
    total = (256 if by_driver else 512) * 2**20
    machine.file("proc/meminfo", f"MemTotal: {total - 4 * 2**20} kB\n")
    if by_driver:
        for at, (mib, _) in enumerate(modules):
            machine.file(f"sys/devices/system/edac/mc/mc{at // 4}/dimm{at % 4}/size", f"{mib}\n")
    else:
        machine.file("sys/firmware/dmi/tables/DMI", "")
        (tmp_path / "sys/firmware/dmi/tables/DMI").write_bytes(smbios(*modules))
    node = next(iter(machine.describe().partitions.values())).node
    limit = node.memory_gbs or (node.host.memory_gbs * 2 if node.host else None)
    assert limit == pytest.approx(expected)
    if expected < 614.4:
        slower = modules[0][1] and modules[0][1] < 4800
        what = "channels with memory" if by_driver else "memory modules"
        assert node.memory_gbs_source == f"Xeon-8468 with {sum(mib > 0 for mib, _ in modules)} {what}" + (
            f" at {modules[0][1]} MT/s" if slower else ""
        )


@pytest.mark.parametrize("table", [b"", b"\x11", b"\x11\x04\0\0", bytes(64), b"\xff" * 64, smbios((65536, 4800))[:100]])
def test_a_table_of_the_firmware_that_is_cut_off_or_wrong_has_no_modules_that_it_does_not_state(table: bytes) -> None:
    assert len(local._of_smbios(table)) <= 1


def test_the_firmwares_chip_and_persistent_memory_are_no_modules() -> None:
    """As dmidecode shows them: lpereira/hardinfo 536, and DDR4 with Optane in every second slot of a Xeon 5317."""
    rest = smbios((16, 0), kind=0x09) + smbios((262144, 2933), kind=0x1F, technology=7)
    assert local._of_smbios(smbios((65536, 2933), (65536, 2933))[:-6] + rest) == [(65536, 2933)] * 2
    size = (0x7FFF).to_bytes(2, "little")
    for unknown in (0xFFFF, 0x8000 + 512):  # or in KiB, as no module of today
        assert local._of_smbios(smbios((65536, 2933)).replace(size, unknown.to_bytes(2, "little"))) == []


@pytest.mark.parametrize(("channels", "expected"), [(8, 204.8), (4, 102.4)])
def test_channels_of_a_controller_whose_driver_lists_ranks(channels: int, expected: float, tmp_path: Path) -> None:
    """AMD's: two ranks a module (netdata/netdata 23206); a module that keeps its content is none."""
    machine = Machine(tmp_path)
    machine.cpus(1, 64, 1, "AMD EPYC 7713P 64-Core Processor")
    machine.file("proc/meminfo", f"MemTotal: {2 * channels * 16 * 2**20 - 2**20} kB\n")
    for rank in range(2 * channels + 1):
        one = f"sys/devices/system/edac/mc/mc0/rank{rank}"
        machine.file(f"{one}/size", "16384\n")
        machine.file(f"{one}/dimm_location", f"csrow {rank // channels} channel {rank % channels} \n")
        machine.file(f"{one}/dimm_mem_type", "Non-volatile-RAM\n" if rank == 2 * channels else "Registered-DDR4\n")
    node = next(iter(machine.describe().partitions.values())).node
    assert (node.memory_gbs or (node.host and node.host.memory_gbs)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("board", "cores", "limit"), [("AGX Orin", 12, 204.8), ("Orin NX Engineering Reference", 8, None)]
)
def test_clusters_of_a_board_are_no_sockets_and_its_chip_is_told_by_its_cores(
    board: str, cores: int, limit: float | None, machine: Machine
) -> None:
    machine.cpus(cores // 4, 4, 1, "ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0x41")
    machine.file("proc/device-tree/model", f"NVIDIA Jetson {board} Developer Kit\0")
    node = machine.node("aarch64")
    assert (node.sockets, node.cores, node.host and node.host.memory_gbs) == (1, cores, limit)


@pytest.mark.parametrize(
    ("vendor", "product", "named"),
    [
        ("Amazon EC2", "c8g.24xlarge", "Amazon EC2"), ("Amazon EC2", "c8g.metal-24xl", None),
        ("Google", "Google Compute Engine", "Google Compute Engine"), ("GIGABYTE", "XH23-VG0-000", None),
    ],
)  # fmt: skip
def test_a_guest_of_an_arm_cloud_is_told_by_its_product(
    vendor: str, product: str, named: str | None, machine: Machine
) -> None:
    """72 cores of Axion have the name of Grace, and another memory."""
    machine.cpus(1, 72, 1)
    machine.file("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    machine.file("sys/class/dmi/id/sys_vendor", f"{vendor}\n")
    machine.file("sys/class/dmi/id/product_name", f"{product}\n")
    node = machine.node("aarch64")
    assert node.virtual_machine == named and (node.host is None) == (named is not None)
