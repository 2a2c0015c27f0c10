"""A machine as typed objects, which `tenken.machines.loader` creates from `systems/<name>.yaml`.

Units: GB = 10^9 bytes, GiB = 2^30 bytes, GB/s in one direction, TFLOP/s in FP64 unless stated otherwise. `None` always
means "unknown" (or, for a detected count, "not found on this machine").

Entry points for other packages:

    from tenken.machines import loader, limits
    system = loader.load("miyabi")               # or "local": detected automatically
    for partition in system.partitions.values():
        partition.scheduler, partition.environments, partition.node.gpu_count
    ready = system.expand(os.environ)        # ${TENKEN_...} filled in; UnsetVariableError names unset ones
    shown = system.expand(os.environ, strict=False)   # for listing: what is unset stays as it is written
    loader.references(system, "gpu", "stream", metric="triad", subject="gpu", environ="openacc")
    limits.memory(partition, "gpu")              # Limit(value, unit, basis) or Unknown(reason)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tenken.machines.errors import UnknownSystemError, UnsetVariableError

#: What a check needs to start and an environment can build. A partition has two of them: `cuda` if its nodes have CUDA
#: devices, `mpi` if an MPI starts there.
FEATURES = ("cuda", "openacc", "openmp", "mpi")
#: Features that follow from the rest of a file and are never written in one. For partitions: jobs may have several
#: nodes; nodes have at least this many GPUs.
NODES = "nodes"
GPUS = {2: "gpus2", 4: "gpus4", 8: "gpus8"}
#: There are at least this many nodes.
NODE_COUNTS = {2: NODES, 4: "nodes4", 8: "nodes8", 16: "nodes16", 32: "nodes32", 64: "nodes64"}
#: Required by checks of one mode in all other modes; no partition has it, so they are listed as not selected.
OF_MODE = {
    mode: f"mode_{mode.replace('-', '_')}" for mode in ("quick", "acceptance", "nightly", "published", "burn-in")
}
#: The system file names a folder on the node's own disk.
LOCAL_STORAGE = "local_storage"
#: For environments: checks that need an MPI, or OpenACC, but no particular compiler run in only one environment of each
#: partition, the one with this feature. They would measure the same thing in every environment that can build them.
HOST_MPI = "host_mpi"
ONE_OPENACC = "one_openacc"
#: The same for checks of the host that need only a compiler.
FOR_HOST = "for_host"

_VARIABLE = re.compile(r"\$\{(TENKEN_[A-Z0-9_]+)\}")
_PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")
# Characters allowed in a job script's directive without quotes.
_VALUE = re.compile(r"[A-Za-z0-9_.:@/+,=%-]+")

PCIE_GT_PER_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


def pcie_gbs(generation: int, width: int) -> float:
    """Bandwidth of a PCIe link in GB/s, one direction, from line rate and line code only.

    Generations 1 and 2 carry 8 bits in 10, generations 3 to 5 carry 128 in 130, and generation 6 sends packets of 256
    bytes with 242 of payload (PCI Express Base Specification). Packet headers take about 10 % more, which is why
    measured copies are slower.
    """
    code = 8 / 10 if generation <= 2 else 128 / 130 if generation <= 5 else 242 / 256
    return PCIE_GT_PER_S[generation] * code * width / 8


@dataclass(frozen=True)
class Link:
    """A link, or several parallel ones. `gbs`: GB/s of one link in one direction."""

    kind: str
    count: int
    gbs: float

    @property
    def total_gbs(self) -> float:
        """GB/s of all of them together, one direction."""
        return self.count * self.gbs


@dataclass(frozen=True)
class GpuSheet:
    """Data sheet of a GPU."""

    name: str
    source: str
    device_names: tuple[str, ...]
    """Regular expressions, each matched against the whole name that the driver reports."""
    compute_capability: str
    """As CUDA writes it: `9.0`."""
    memory_type: str
    memory_gib: float
    """Vendors' "80 GB" of a GPU is 80 GiB, minus what driver and ECC reserve."""
    memory_gbs: float | None
    """None: only for a GPU without data sheet (`described`)."""
    fp64_tflops: float | None
    fp64_tensor_tflops: float | None
    """None: no FP64 tensor cores, or unknown."""
    l2_bytes: int | None
    host_link: Link | None
    """None: GPU and CPU share one memory."""
    gpu_links: Link | None
    """All links of one GPU to other GPUs; the number to any one GPU depends on the machine."""
    date: str = ""
    """Of the source."""
    power_w: float | None = None
    """The power limit of the GPU as delivered."""
    tflops: Mapping[str, float] = field(default_factory=dict)
    """Dense rates by precision (fp32, tf32, fp16, bf16, fp8, int8, fp4), fp32 by CUDA cores, others by tensor cores."""
    unsure: Mapping[str, str] = field(default_factory=dict)
    """Uncertain figures by their key in the file, with the reason: none of them is a limit."""
    cuda_names: tuple[str, ...] = ()
    """CUDA names that other boards share, so that they do not identify the board: `Orin`."""
    attained: tuple[float, str] | None = None
    """Minimum share of the memory's peak that healthy ones reach, and its source; None: that of its type."""
    described: bool = False
    """Not a data sheet, but the system file's description of a GPU without one."""

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gib * 2**30)

    @property
    def cuda_architecture(self) -> str:
        """As in CMake: `90`."""
        return self.compute_capability.replace(".", "")

    @property
    def arch(self) -> str:
        """As in nvcc and ReFrame's device information: `sm_90`."""
        return f"sm_{self.cuda_architecture}"

    def matches(self, device_name: str) -> bool:
        """Whether a device of that name is of this model."""
        return any(re.fullmatch(pattern, device_name.strip()) for pattern in self.drivers_names)

    @property
    def drivers_names(self) -> tuple[str, ...]:
        """`device_names` in the form of any driver: those before 470 leave out `NVIDIA`."""
        return (*self.device_names, *(n[7:] for n in self.device_names if n.startswith("NVIDIA ")))


@dataclass(frozen=True)
class HostSheet:
    """Data sheet of one CPU socket."""

    name: str
    source: str
    cpu_names: tuple[str, ...]
    """Regular expressions, each matched against the whole model name of /proc/cpuinfo or lscpu."""
    architecture: str
    """As in `uname -m`."""
    cores: int
    memory_type: str
    memory_gbs: float
    """Peak of the socket's memory channels with the fastest supported memory."""
    fp64_tflops: float | None
    last_level_cache_bytes: int | None
    date: str = ""
    """Of the source."""
    memory_above_gib: float = 0.0
    """The sheet applies to a socket with more memory than this."""
    not_with: tuple[str, ...] = ()
    """Regular expressions of GPUs with which another sheet applies."""
    named_by_core: bool = False
    """Its names are those of its core, which other processors share, so the number of cores must match too."""

    def fits(self, cpu: str, memory_gib: float, gpu_names: tuple[str, ...], cores: int | None = None) -> bool:
        """Whether a socket with this CPU, this memory, these GPUs and this number of cores (None: not counted) is of
        this model. AMD's P differ only in that they work alone; Intel writes some names in capitals."""
        cpu = re.sub(r"^(AMD EPYC \w{4})P ", r"\1 ", cpu)
        return (
            any(re.fullmatch(pattern, cpu, re.IGNORECASE) for pattern in self.cpu_names)
            and (cores is None or not self.named_by_core or cores == self.cores)
            and memory_gib > self.memory_above_gib
            and not any(re.fullmatch(pattern, name) for pattern in self.not_with for name in gpu_names)
        )


@dataclass(frozen=True)
class Node:
    """One node of a partition."""

    architecture: str
    count: int | None = None
    """Number of nodes in the partition."""
    host: HostSheet | None = None
    cpu: str | None = None
    """Model name, if no data sheet fits or it was detected."""
    sockets: int | None = None
    cores: int | None = None
    """Physical cores of the whole node."""
    threads_per_core: int | None = None
    numa_nodes: int | None = None
    memory_bytes: int | None = None
    memory_gbs: float | None = None
    """Peak of the whole node's memory, if it differs from sockets x data sheet (for example with fewer modules)."""
    memory_gbs_source: str | None = None
    caches: Mapping[str, int] = field(default_factory=dict)
    """Bytes of all caches of a level in the node together: {"L1d": ..., "L2": ..., "L3": ...}."""
    virtual_machine: str | None = None
    """The hypervisor, if one was found."""
    gpu: GpuSheet | None = None
    gpu_count: int | None = 0
    """None: to be detected, and this is not that machine."""
    gpu_counts: tuple[int, ...] = ()
    """Plausible counts if the count is detected; empty: any."""
    gpu_count_found: bool = False
    gpu_names: tuple[str, ...] = ()
    """Names reported by the driver, if they were detected."""
    gpu_memory_bytes: int | None = None
    """Of one GPU, as detected."""
    gpu_memory_gbs: float | None = None
    """Of one GPU, from the driver's memory clock and bus width: the peak if there is no data sheet."""
    compute_capability: str | None = None
    """As detected; otherwise see the data sheet."""
    compute_capabilities: tuple[str, ...] = ()
    """All kinds of the node, if it has several."""
    host_link: Link | None = None
    """As detected; otherwise see the data sheet."""
    pair_links: Link | None = None
    """Links between any two GPUs of the node (all of a GPU's if a switch joins them). None: not known."""
    pair_cells: Mapping[str, str] = field(default_factory=dict)
    """As detected: for each ordered pair of GPUs (`0-1`), what the driver shows: NV18, SYS, ..."""

    @property
    def cuda_architectures(self) -> str:
        """Target architectures for CMake: `90`, or `80;89` for two kinds of GPU; empty: unknown."""
        if len(self.compute_capabilities) > 1:
            return ";".join(one.replace(".", "") for one in sorted(self.compute_capabilities))
        return self.gpu.cuda_architecture if self.gpu else (self.compute_capability or "").replace(".", "")

    @property
    def last_level_cache_bytes(self) -> int | None:
        """All last-level caches of the node together."""
        if self.caches:
            return self.caches[max(self.caches)]
        if self.host is None or self.host.last_level_cache_bytes is None or self.sockets is None:
            return None
        return self.host.last_level_cache_bytes * self.sockets


def is_gcc(cxx: str) -> bool:
    """Whether a C++ compiler is GNU's, by name: g++-13, x86_64-conda-linux-gnu-c++; not clang++ or nvc++."""
    return re.search(r"(?<![a-z])[gc]\+\+", cxx) is not None


@dataclass(frozen=True)
class Environment:
    """A set of compilers and the modules that provide them."""

    name: str
    features: frozenset[str]
    """What its compilers can build: cuda, openacc, openmp, mpi."""
    cc: str
    cxx: str
    cuda: str | None = None
    """The CUDA compiler."""
    fortran: str | None = None
    modules: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    """Shell commands before the modules are loaded."""
    env_vars: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    @property
    def is_gcc(self) -> bool:
        """Whether its C++ compiler is GNU's."""
        return is_gcc(self.cxx)


@dataclass(frozen=True)
class Container:
    """A container platform: ReFrame's name and the modules that provide it."""

    platform: str
    modules: tuple[str, ...] = ()
    image: str | None = None
    """The suite's own image (docs/containers.md), from which its programs are copied and in which they run."""
    options: tuple[str, ...] = ()
    """Options for each start of a container."""


@dataclass(frozen=True)
class Patience:
    """Maximum waiting times for a scheduler, in seconds; after that a job fails with this reason."""

    pending: float = 24 * 3600
    """In the queue, for an unknown reason or one that resolves itself."""
    blocked: float = 600
    """In the queue for a reason that someone must resolve: its nodes drained, its partition down, held."""
    silence: float = 900
    """Without any report on a submitted job."""
    output: float = 180
    """Until the whole output of an ended job is visible: 25 to 90 s were observed, with the parts 12 s apart."""
    submission: float = 900
    """Until a busy or unreachable scheduler accepts a job."""
    cancel: float = 120
    """Until the end of a cancelled job is confirmed."""
    overrun: float = 900
    """Beyond its time limit, until the scheduler ends a job: its node may be dead, or its epilogue may hang."""


@dataclass(frozen=True)
class Fabric:
    """The network between nodes. `rails`: ports of a node, each of `gbit_s`; `topology`: the leaf of each node
    (`tenken.machines.topology`); `pairs`: GB/s between two nodes, `within` a leaf and `across` leaves, with nothing
    else running."""

    kind: str
    rails: int | None = None
    gbit_s: float | None = None
    topology: str | None = None
    pairs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Partition:
    """Nodes of one kind with one way of starting jobs."""

    name: str
    description: str
    scheduler: str
    """ReFrame's name, or that of a back end in tenken/reframe/schedulers."""
    scheduler_status: str | None
    """Why it cannot be used yet; None: it can. Checks of such a partition can be listed, not run."""
    launcher: str
    environments: tuple[str, ...]
    node: Node
    launcher_options: tuple[str, ...] = ()
    """May contain {num_tasks}, {num_tasks_per_node} and shell variables."""
    access: tuple[str, ...] = ()
    """Options to the scheduler; `${TENKEN_...}` is filled in by `System.expand`."""
    submit_options: tuple[str, ...] = ()
    """Options on the command line of the submit command, if a site requires them there (Grid Engine's -g)."""
    node_request: tuple[str, ...] = ()
    """Options that request whole nodes, with {num_nodes}, if the scheduler has no standard option (Grid Engine)."""
    select: str | None = None
    """PBS: the text after `-l select=N:`, with {num_tasks_per_node} and {num_cpus_per_node}. None: both of them."""
    place: str | None = None
    """PBS: sharing, appended to `scatter` if a job has several nodes: `excl`. None: jobs always get whole nodes."""
    remote: str | None = None
    """A host on which jobs are run by ssh, from the same path on a shared file system; None: by the scheduler."""
    patience: Patience = field(default_factory=lambda: Patience())
    gpu_request: tuple[str, ...] = ()
    """Options that request GPUs from the scheduler, with {num_gpus_per_node}. Empty: the site requires none."""
    modules: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    """Shell commands at the start of each job, before any module is loaded."""
    prerun: tuple[str, ...] = ()
    """Shell commands after all modules are loaded, just before the program is launched."""
    env_vars: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """What a check cannot start without: `cuda` (the nodes have CUDA devices), `mpi` (an MPI starts)."""
    capabilities: frozenset[str] = frozenset()
    """managed, sam, peer, device_mpi, gds: programs detect them; a waiver of a claimed one is a FAIL."""
    max_jobs: int | None = None
    fabric: Fabric | None = None
    time_limit: str | None = None
    """The longest walltime of the queue, HH:MM:SS."""
    local_storage: str | None = None
    """A folder on the node's own disk, where checks may write."""
    build: str = "login"
    """Where programs are compiled: `login` (where reframe runs) or `job` (on a node)."""
    containers: tuple[Container, ...] = ()

    @property
    def abilities(self) -> frozenset[str]:
        """Features that a check can select on, including those derived from the nodes.

        If GPUs are to be detected and this machine has none, the file's maximum is assumed: a login node must not
        exclude what its compute nodes support.
        """
        node = self.node
        count = node.gpu_count
        if count is None:
            count = max(node.gpu_counts, default=max(GPUS))
        nodes = 1 if self.scheduler == "local" else node.count or 1
        found = {name for least, name in GPUS.items() if "cuda" in self.features and count >= least}
        disk = {LOCAL_STORAGE} if self.local_storage else set()
        return self.features | found | disk | {name for least, name in NODE_COUNTS.items() if nodes >= least}

    @property
    def node_count_unknown(self) -> bool:
        """Whether a job could use several nodes if their number were known."""
        return self.scheduler != "local" and self.node.count is None

    @property
    def image(self) -> Container | None:
        """Whether programs run in the suite's image, which contains them: nothing is compiled."""
        return next((one for one in self.containers if one.image), None)

    @property
    def builds_on_login(self) -> bool:
        """Whether programs are compiled where reframe runs."""
        return self.build == "login" and not self.remote

    @property
    def usable(self) -> bool:
        """Whether jobs can be started with the existing back ends."""
        return self.scheduler_status is None


@dataclass(frozen=True)
class UserVariable:
    """An environment variable for values that differ per user: a project group, a queue."""

    name: str
    meaning: str
    required: bool = False
    default: str | None = None
    """Used if it is unset. An optional variable without a default drops each access option that mentions it."""


@dataclass(frozen=True)
class Reference:
    """A known value of this machine. Bounds are fractions of the value (of the ends of a range) or None."""

    program: str
    metric: str
    """Name within the program: `triad`."""
    subject: str
    """host, gpu, pair or ranks."""
    partition: str
    environ: tuple[str, ...]
    """Environments it applies to; empty: all."""
    parameters: Mapping[str, str | int | float | bool]
    """Parameters of the result document that a run must have for the reference to apply."""
    unit: str
    direction: str
    statistic: str
    value: float | None
    """Exactly one of `value` and `range` is set."""
    range: tuple[float, float] | None
    lower: float | None
    upper: float | None
    count: int | None
    spread: float | None
    """Relative: coefficient of variation, if `count` runs are known."""
    date: str
    driver: str | None
    source: str
    published: str | None
    """Row of the publications, `R1`."""
    note: str | None = None
    between: str | None = None
    """The coordinate, a size, over which its points form a curve: see `tenken.machines.interpolation`."""
    provisional: bool = False
    """From the runs of one day, to be replaced by one from several nights."""

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Minimum and maximum of the values that agree with it, in `unit`."""
        if self.range is not None:
            low, high = self.range
        else:
            assert self.value is not None
            low = high = self.value
        return (
            None if self.lower is None else low * (1 + self.lower),
            None if self.upper is None else high * (1 + self.upper),
        )


@dataclass(frozen=True)
class Ratio:
    """The ratio of a metric's time to that on another machine: from `ratio[0]` at small values of the coordinate
    `against` to `ratio[1]` at large ones. `tenken ratio` plots it with measured ratios.
    """

    program: str
    metric: str
    subject: str
    at: Mapping[str, str | float]
    """Coordinates of the metric."""
    statistic: str
    over: str
    """The other machine or GPU."""
    against: str
    ratio: tuple[float, float]
    date: str
    source: str
    count: int | None = None
    published: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class System:
    """A machine."""

    name: str
    title: str
    status: str
    """active, retired (its references stay) or test."""
    partitions: Mapping[str, Partition]
    environments: Mapping[str, Environment]
    site: str = ""
    retired: str | None = None
    """When it was switched off."""
    facts_date: str | None = None
    facts_source: str | None = None
    hostnames: tuple[str, ...] = ()
    """Regular expressions of its login nodes' names; empty: chosen by --system alone."""
    modules_system: str = "nomod"
    """ReFrame's name."""
    variables: Mapping[str, UserVariable] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    notes: tuple[str, ...] = ()
    """Anything unusual that detection found."""
    hidden_gpus: str = ""
    """GPUs of this node that this process cannot use, in one sentence: a run without them is incomplete."""
    notices: tuple[str, ...] = ()
    """What should be changed in its file."""

    def references_of(self, program: str, metric: str | None = None) -> tuple[Reference, ...]:
        """Index of references by program and metric: a run makes a thousand queries."""
        if metric is not None:
            return self._by_metric.get((program, metric), ())
        return tuple(r for r in self.references if r.program == program)

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str], tuple[Reference, ...]]:
        found: dict[tuple[str, str], list[Reference]] = {}
        for reference in self.references:
            found.setdefault((reference.program, reference.metric), []).append(reference)
        return {name: tuple(references) for name, references in found.items()}

    def partition(self, name: str) -> Partition:
        """Raises UnknownSystemError with the existing partitions."""
        if name not in self.partitions:
            raise UnknownSystemError(
                f"system '{self.name}' has no partition '{name}'; allowed: {', '.join(self.partitions)}"
            )
        return self.partitions[name]

    def abilities(self, environment: str) -> frozenset[str]:
        """Features of an environment, including FOR_HOST, HOST_MPI and ONE_OPENACC if it was chosen for them."""
        chosen = {name for name, one in self._chosen.items() if environment in one}
        return self.environments[environment].features | chosen

    @cached_property
    def _chosen(self) -> dict[str, frozenset[str]]:
        """Names of environments by the purpose they were chosen for; one per partition, and the same one if
        possible."""

        def choose(feature: str | None, rank: Callable[[Environment], Any]) -> frozenset[str]:
            able = [
                [
                    name
                    for name in partition.environments
                    if feature is None or feature in self.environments[name].features
                ]
                for partition in self.partitions.values()
            ]
            chosen: set[str] = set()
            for names in sorted(able, key=len):
                if names and not chosen.intersection(names):
                    chosen.add(min(names, key=lambda name: rank(self.environments[name])))
            return frozenset(chosen)

        return {
            # preferably one without CUDA: its programs need no driver
            FOR_HOST: choose(None, lambda environment: (environment.name != "host", "cuda" in environment.features)),
            HOST_MPI: choose("mpi", lambda environment: environment.name != "host"),
            # gcc runs OpenACC on the host
            ONE_OPENACC: choose("openacc", lambda environment: environment.is_gcc),
        }

    def values(self, env: Mapping[str, str]) -> dict[str, str]:
        """Value of each user variable that has one, from `env` or its default. An empty value counts as unset."""
        found = {name: env.get(name) or variable.default for name, variable in self.variables.items()}
        return {name: value for name, value in found.items() if value}

    def missing(self, env: Mapping[str, str]) -> tuple[UserVariable, ...]:
        """Required variables that are unset."""
        values = self.values(env)
        return tuple(v for v in self.variables.values() if v.required and v.name not in values)

    def expand(self, env: Mapping[str, str], strict: bool = True) -> System:
        """The same system with user variables filled in wherever a file may name them.

        Raises UnsetVariableError, naming all required variables that are unset and all values that are not allowed in a
        job script. With `strict=False` (listing) neither is an error and the text is unchanged.
        """
        values = self.values(env)
        if strict:
            self._refuse(env, values)
        values = {name: value for name, value in values.items() if _VALUE.fullmatch(value)}
        dropped = {name for name, v in self.variables.items() if not v.required and name not in values}

        def put(text: str) -> str:
            return _VARIABLE.sub(lambda match: values.get(match.group(1), match.group(0)), text)

        def fill_all(texts: tuple[str, ...]) -> tuple[str, ...]:
            kept = (text for text in texts if not dropped.intersection(_VARIABLE.findall(text)))
            return tuple(put(text) for text in kept)

        def fill_map(texts: Mapping[str, str]) -> dict[str, str]:
            return {name: put(text) for name, text in texts.items()}

        partitions = {
            name: replace(
                p,
                access=fill_all(p.access),
                remote="".join(fill_all((p.remote,))) or None if p.remote else None,
                submit_options=fill_all(p.submit_options),
                node_request=fill_all(p.node_request),
                gpu_request=fill_all(p.gpu_request),
                launcher_options=fill_all(p.launcher_options),
                modules=fill_all(p.modules),
                prepare=fill_all(p.prepare),
                prerun=fill_all(p.prerun),
                env_vars=fill_map(p.env_vars),
                containers=tuple(
                    replace(c, image=(*fill_all((c.image,) if c.image else ()), None)[0], options=fill_all(c.options))
                    for c in p.containers
                ),
            )
            for name, p in self.partitions.items()
        }
        environments = {
            name: replace(e, modules=fill_all(e.modules), prepare=fill_all(e.prepare), env_vars=fill_map(e.env_vars))
            for name, e in self.environments.items()
        }
        return replace(self, partitions=partitions, environments=environments)

    def _refuse(self, env: Mapping[str, str], values: Mapping[str, str]) -> None:
        faults = [f"{v.name} ({v.meaning}) is not set" for v in self.missing(env)]
        faults += [
            f"{name} is {value!r}; allowed: letters, digits and _ . : @ / + , = % -"
            for name, value in values.items()
            if not _VALUE.fullmatch(value)
        ]
        if faults:
            raise UnsetVariableError(f"system '{self.name}': " + "; ".join(faults))


def duration_seconds(text: str) -> int:
    """Seconds of HH:MM:SS."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return (hours * 60 + minutes) * 60 + seconds


def fill(text: str, values: Mapping[str, object]) -> str:
    """A text of a system file with its {placeholders} filled in; shell variables (`${NAME}`) are unchanged."""
    return _PLACEHOLDER.sub(lambda match: str(values.get(match.group(1), match.group(0))), text)


def variables_in(text: str) -> list[str]:
    """Names of the user variables that a text mentions."""
    return _VARIABLE.findall(text)
