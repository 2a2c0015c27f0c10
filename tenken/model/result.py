"""Results: what one run of one benchmark program reports, decoded once into types.

`parse` reads results of both versions and checks their types; others are rejected with one line that states what and
where. Version 2 states what was measured and done; version 1 also states derived values, which tenken.model.engine
recomputes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from tenken.errors import ResultError
from tenken.model import files
from tenken.model.job import short
from tenken.model.job_exit import NO_TIME
from tenken.model.judgement import Limit
from tenken.model.subject import Coordinates, Subject
from tenken.model.values import MetricValue, Series
from tenken.model.verification import Check, Verification

FIRST, SCHEMA = "tenken-result/1", "tenken-result/2"

#: A larger result is refused unread. The largest kept one has 1.1 MB.
MAX_BYTES = 32 * 2**20

#: Reasons for which a program may report that the machine lacks a capability; the detail follows a colon. Each names
#: the capability that such a waiver denies (None: nothing is claimed).
WAIVER_REASONS: Mapping[str, str | None] = {
    "no peer access": "peer",
    "no managed memory": "managed",
    "no pageable memory access": "sam",
    "no device-buffer MPI": "device_mpi",
    "no GPUDirect Storage": "gds",
    "needs two GPUs": "two_gpus",
    "needs more ranks": None,
    "library missing": None,
    "not supported by the device": None,
    "not supported by the file system": None,
    NO_TIME: None,
}

#: What a program reports that it did, which contradicts a waiver for that reason.
EVIDENCE: Mapping[str, tuple[tuple[str, Any], ...]] = {
    "no peer access": (("peer_access", True),),
    "no GPUDirect Storage": (("cufile", "GPUDirect Storage"),),
    "not supported by the file system": (("o_direct", "accepted"),),
}


@dataclass(frozen=True)
class Host:
    """The node that wrote the result. Sizes are in bytes; None: not known."""

    name: str
    os: str = ""
    kernel: str = ""
    architecture: str = ""
    cpu: str = ""
    sockets: int | None = None
    cores: int | None = None
    logical_cpus: int | None = None
    numa_nodes: int | None = None
    memory_bytes: int | None = None
    last_level_cache_bytes: int | None = None
    virtual_machine: str | None = None
    firmware: str | None = None


@dataclass(frozen=True)
class Build:
    """How the program was compiled."""

    compiler: str = ""
    flags: str = ""
    type: str = ""
    backends: tuple[str, ...] = ()
    cuda_compiler: str | None = None
    cuda_architectures: str | None = None
    mpi: str | None = None
    libraries: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Placement:
    """Where the program ran: threads, logical CPUs, ranks and the nodes that the ranks reported."""

    threads: int = 1
    allowed_cpus: tuple[int, ...] = ()
    allowed_cores: int | None = None
    thread_cpus: tuple[int, ...] = ()
    binding: str = ""
    places: str = ""
    numa_nodes_of_memory: tuple[int, ...] = ()
    ranks: int = 1
    nodes: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """Physical cores available to it; logical CPUs if cores are unknown."""
        return self.allowed_cores or len(self.allowed_cpus)


@dataclass(frozen=True)
class Device:
    """A GPU as seen by the program. Clocks in MHz, sizes in bytes; None: not reported by the driver."""

    index: int
    uuid: str | None
    name: str
    compute_capability: str
    memory_bytes: int
    pci_bus_id: str | None = None
    multiprocessors: int | None = None
    memory_free_bytes: int | None = None
    l2_bytes: int | None = None
    memory_bus_bits: int | None = None
    memory_clock_mhz: int | float | None = None
    memory_clock_max_mhz: int | float | None = None
    sm_clock_max_mhz: int | float | None = None
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    integrated: bool | None = None
    driver: str | None = None
    cuda_driver: str | None = None
    cuda_runtime: str | None = None
    vbios: str | None = None
    serial: str | None = None
    power_limit_w: int | float | None = None
    persistence_mode: bool | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    pcie_generation_gpu: int | None = None
    pcie_width_gpu: int | None = None
    pcie_bridge: str | None = None
    pcie_generation_bridge: int | None = None
    pcie_width_bridge: int | None = None
    nvlinks_active: int | None = None
    nvlinks_total: int | None = None
    nvlink_gbs_per_link: int | float | None = None
    numa_node: int | None = None
    managed_memory: bool | None = None
    concurrent_managed_access: bool | None = None
    pageable_memory_access: bool | None = None
    pageable_uses_host_page_tables: bool | None = None

    @property
    def chip(self) -> str:
        """Its row of `operations_per_cycle`: the compute capability, with " GeForce" for boards of that name, whose
        tensor cores add to FP32 at half the rate."""
        return f"{self.compute_capability} GeForce" if "GeForce" in self.name else self.compute_capability


@dataclass(frozen=True)
class HealthSample:
    """One reading of a GPU's health, or the worst of several. None: not reported by the driver."""

    sm_clock_mhz: int | float | None = None
    memory_clock_mhz: int | float | None = None
    power_w: int | float | None = None
    temperature_c: int | float | None = None
    memory_temperature_c: int | float | None = None
    reasons: tuple[str, ...] | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_rows_correctable: int | None = None
    remapped_rows_uncorrectable: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlinks_active: int | None = None
    other_processes: int | None = None
    memory_used_bytes: int | None = None
    utilization_percent: int | float | None = None


@dataclass(frozen=True)
class DeviceHealth:
    """A GPU's health before the timed part, after it, and at its worst during it, read `samples` times in `seconds` of
    wall time (None: not stated). `others_percent`: its utilisation once the run's own work had left it, only where
    other processes are on it. `node`: if it is not that of the result."""

    index: int
    before: HealthSample
    after: HealthSample
    worst: HealthSample
    samples: int
    xids: tuple[int, ...] = ()
    seconds: float | None = None
    others_percent: float | None = None
    node: str = ""


@dataclass(frozen=True)
class Health:
    """The health of the GPUs, or why it could not be read; `elsewhere`: of those of the other nodes of a run."""

    available: bool
    reason: str = ""
    devices: tuple[DeviceHealth, ...] = ()
    elsewhere: tuple[DeviceHealth, ...] = ()


@dataclass(frozen=True)
class Locks:
    """The locks that a run held: `host` and the UUID of each GPU. `shared_with`: who held a lock during the whole
    waiting time; `none_because`: why no lock was possible.
    """

    held: tuple[str, ...] = ()
    waited_seconds: float = 0.0
    shared_with: str | None = None
    none_because: str | None = None


@dataclass(frozen=True)
class Load:
    """Other activity on the host during a run: CPU seconds on all CPUs, and the largest consumers as (pid, name, CPU
    seconds).
    """

    seconds: float
    load_average_before: float | None
    load_average_after: float | None
    own_cpu_seconds: float
    others_cpu_seconds: float
    steal_cpu_seconds: float = 0.0
    others: tuple[tuple[int, str, float], ...] = ()

    def text(self) -> str:
        """One clause of a message."""
        busy = self.others_cpu_seconds / self.seconds if self.seconds > 0 else 0.0
        said = f"other processes used {busy:.2f} CPUs for {self.seconds:.1f} s"
        if self.others:
            said += " (" + ", ".join(f"pid {pid} {name} {used:.1f} s" for pid, name, used in self.others) + ")"
        if self.steal_cpu_seconds >= 0.01 * self.seconds > 0:
            said += f"; the hypervisor gave {self.steal_cpu_seconds:.1f} CPU seconds to other guests"
        if self.load_average_after is not None:
            said += f"; load average {self.load_average_after:g}"
        return said


@dataclass(frozen=True)
class Link:
    """How two GPUs are connected: active links (None: unknown) and their kind ("NVLink", "NVLink through a switch")."""

    first: int
    second: int
    count: int | None
    kind: str
    text: str


@dataclass(frozen=True)
class Result:
    """A schema-valid result. `text` is the JSON as the program wrote it, which the archive keeps; empty if only figures
    were read.
    """

    program: str
    version: str
    command: tuple[str, ...]
    started: str
    finished: str
    host: Host
    build: Build
    status: str
    reason: str
    parameters: Mapping[str, Any]
    placement: Placement
    devices: tuple[Device, ...]
    metrics: tuple[MetricValue, ...]
    limits: Mapping[str, Limit]
    verification: Verification
    path: Mapping[str, Any]
    health: Health
    token: str | None
    text: str
    locks: Locks | None = None
    """None: a result from before there were locks."""
    load: Load | None = None
    series: tuple[Series, ...] = ()
    """What was measured, in results of version 2; those of version 1 state values."""
    catalogue: str = ""
    """The digest of the metrics.yaml with which the program was built; empty: of version 1, or not stated."""
    schema: str = SCHEMA
    connections: tuple[Link, ...] | None = None
    """How GPUs are connected; None: results of version 1 have it in their path."""

    @property
    def node(self) -> str:
        """The node that wrote the result."""
        return short(self.host.name)

    @property
    def moments(self) -> tuple[float | None, float | None]:
        """When it began and ended, in seconds since 1970; None for one that is not a valid time."""
        return _moment(self.started), _moment(self.finished)

    @property
    def by_others(self) -> bool:
        """Whether a third-party program wrote it, through a parser."""
        return "implementation" in self.parameters

    @property
    def file_system(self) -> str:
        """The file system, or at least the folder, that it measured; empty: none."""
        return str(self.path.get("file_system") or self.path.get("folder") or "")

    def without_access(self) -> frozenset[tuple[int, int]]:
        """Pairs of GPUs without access to each other's memory, on boards whose links join only some pairs."""
        keys = [key for key, said in self.path.items() if key.startswith(_ACCESS) and said is False]
        pairs = (Subject.in_id(key.removeprefix(_ACCESS)) for key in keys)
        return frozenset((pair.first, pair.second or 0) for pair in pairs if pair is not None)

    def inactive_links(self, gpu: int) -> str:
        """The NVLinks of a GPU that are down, as the program names them; empty: none, or not reported."""
        return str(self.path.get(f"inactive_links.gpu{gpu}") or "")

    def device(self, index: int) -> Device | None:
        return next((d for d in self.devices if d.index == index), None)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links between GPUs."""
        if self.connections is not None:
            return self.connections
        found = []
        for key, claim in self.path.items():
            ends = _LINK.fullmatch(key)
            if ends:
                found.append(_link(int(ends[1]), int(ends[2]), str(claim), self.path))
        return tuple(found)


def _moment(text: str) -> float | None:
    whole, _, fraction = text.rstrip("Z").partition(".")
    try:
        seconds = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp()
        return seconds + (float(f"0.{fraction}") if fraction else 0.0)
    except ValueError:
        return None


_ACCESS = "peer_access."
_LINK = re.compile(r"link\.gpu(\d+)-gpu(\d+)")
_COUNTED = re.compile(r"(\d+) x (.+)")


def _link(first: int, second: int, text: str, path: Mapping[str, Any]) -> Link:
    """Results without `link_count` have the number only in the text, which is read here."""
    pair = f"gpu{first}-gpu{second}"
    if f"link_count.{pair}" in path:
        count = path[f"link_count.{pair}"]
        # null means that the driver does not report it; anything that is not a number is treated the same
        number = count if count is None or type(count) is int else 0
        return Link(first, second, number, str(path.get(f"link_kind.{pair}", text)), text)
    counted = _COUNTED.fullmatch(text)
    kind = counted[2] if counted else text
    unknown = text == "not known"
    return Link(first, second, int(counted[1]) if counted else None if unknown else 0, kind, text)


def fields_of(part: Any) -> dict[str, Any]:
    """The fields of a part of a result by name, including defaults, which `vars` lacks after decoding."""
    return {one.name: getattr(part, one.name) for one in fields(part)}


# ---- the border ------------------------------------------------------------------------------------------

_Scalar = str | int | float | bool | None
_At = dict[str, _Scalar]


class _Other(msgspec.Struct):
    pid: int
    name: str
    cpu_seconds: float


class _Load(msgspec.Struct):
    seconds: float
    load_average_before: float | None
    load_average_after: float | None
    own_cpu_seconds: float
    others_cpu_seconds: float
    steal_cpu_seconds: float = 0.0
    others: tuple[_Other, ...] = ()

    def typed(self) -> Load:
        return Load(
            self.seconds, self.load_average_before, self.load_average_after, self.own_cpu_seconds,
            self.others_cpu_seconds, self.steal_cpu_seconds,
            tuple((one.pid, one.name, one.cpu_seconds) for one in self.others),
        )  # fmt: skip


class _Common(msgspec.Struct, kw_only=True):
    """What results of both versions contain."""

    schema: str
    program: str
    version: str
    command: tuple[str, ...]
    started: str
    finished: str
    host: Host
    build: Build
    status: str
    reason: str
    parameters: dict[str, Any]
    placement: Placement
    devices: tuple[Device, ...]
    health: Health
    token: str | None = None
    locks: Locks | None = None
    load: _Load | None = None

    def result(self, text: str, **more: Any) -> Result:
        if self.status not in ("ok", "failed", "waived"):
            raise ResultError(f"status is {self.status[:40]!r}; allowed: ok, failed, waived")
        placement = replace(self.placement, nodes=tuple(map(short, self.placement.nodes)))
        return Result(
            self.program, self.version, self.command, self.started, self.finished, self.host, self.build, self.status,
            self.reason, self.parameters, placement, self.devices, token=self.token, text=text, locks=self.locks,
            load=None if self.load is None else self.load.typed(), health=self.health, schema=self.schema, **more,
        )  # fmt: skip


class _Metric(msgspec.Struct):
    id: str
    name: str
    subject: dict[str, int]
    unit: str
    direction: str
    statistic: str
    value: float
    best: float
    median: float
    p5: float
    p95: float
    count: int
    samples: tuple[float, ...]
    at: _At | None = None
    clock: str | None = None

    def typed(self) -> MetricValue:
        return MetricValue(
            self.id, self.name, Subject.of(self.subject), Coordinates.of(self.at or {}), self.unit, self.direction,
            self.statistic, self.value, self.best, self.median, self.p5, self.p95, self.count, self.samples,
            self.clock or "",
        )  # fmt: skip


class _StatedLimit(msgspec.Struct):
    value: float | None = None
    unit: str = ""
    basis: str = ""
    said_by: str | None = None
    unknown: str | None = None


class _StatedCheck(msgspec.Struct):
    what: str
    error: float | None
    tolerance: float
    passed: bool
    detail: str = ""


class _StatedVerification(msgspec.Struct):
    passed: bool
    checks: tuple[_StatedCheck, ...] = ()

    def typed(self) -> Verification:
        checks = (Check(one.what, one.error, one.tolerance, one.passed, one.detail) for one in self.checks)
        return Verification(self.passed, tuple(checks))


class _First(_Common, kw_only=True):
    """A result of version 1: it states values, limits, tolerances."""

    metrics: tuple[_Metric, ...]
    limits: dict[str, _StatedLimit]
    verification: _StatedVerification
    path: dict[str, Any]

    def typed(self, text: str) -> Result:
        ids: set[str] = set()
        for metric in self.metrics:
            if metric.id in ids:
                raise ResultError(f"metric {metric.id} appears twice")
            ids.add(metric.id)
        return self.result(
            text,
            metrics=tuple(metric.typed() for metric in self.metrics),
            limits={
                name: Limit.of({k: v for k, v in msgspec.structs.asdict(one).items() if v is not None})
                for name, one in self.limits.items()
            },
            verification=self.verification.typed(),
            path=self.path,
        )


class _Series(msgspec.Struct, omit_defaults=True):
    """Samples of a metric: `seconds`, with what one of them counts, or `values` in the unit of the catalogue."""

    metric: str
    subject: dict[str, int]
    at: _At = {}
    clock: str = ""
    counts: dict[str, float] = {}
    seconds: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def typed(self) -> Series:
        if self.seconds and self.values:
            raise ResultError(f"series of {self.metric} has both seconds and values")
        samples = self.seconds or self.values
        where = Subject.of(self.subject), Coordinates.of(self.at)
        return Series(self.metric, *where, samples, self.clock, bool(self.seconds), self.counts)


class _Verified(msgspec.Struct, omit_defaults=True):
    """`first_wrong`: the index of the first wrong element, its value, the expected one. The first results of version 2
    had a text as name and as first wrong element, and no subject."""

    name: str
    error: float | None
    subject: dict[str, int] | None = None
    at: _At = {}
    first_wrong: str | dict[str, _Scalar] = ""

    def typed(self) -> Check:
        if self.subject is None:
            return Check(self.name, self.error, math.nan, False, str(self.first_wrong))
        wrong = self.first_wrong.items() if isinstance(self.first_wrong, dict) else ()
        detail = ", ".join(f"{key} {value}" for key, value in wrong)
        return Check(
            self.name, self.error, math.nan, False, detail, self.name, Subject.of(self.subject), Coordinates.of(self.at)
        )


class _Link(msgspec.Struct):
    first: int
    second: int
    count: int | None
    kind: str


class _Second(_Common, kw_only=True):
    """A result of version 2: what was measured and done, without derived values."""

    series: tuple[_Series, ...]
    verification: tuple[_Verified, ...]
    provenance: dict[str, Any]
    links: tuple[_Link, ...] = ()
    catalogue: str = ""

    def typed(self, text: str) -> Result:
        series = tuple(one.typed() for one in self.series)
        seen: set[str] = set()
        for one in series:
            if one.id in seen:
                raise ResultError(f"series {one.id} appears twice")
            seen.add(one.id)
        return self.result(
            text,
            metrics=(),
            limits={},
            verification=Verification(False, tuple(one.typed() for one in self.verification)),
            path=self.provenance,
            series=series,
            catalogue=self.catalogue,
            connections=tuple(Link(one.first, one.second, one.count, one.kind, one.kind) for one in self.links),
        )


class _Version(msgspec.Struct):
    schema: str = ""


_KINDS: Mapping[str, type[_First] | type[_Second]] = {FIRST: _First, SCHEMA: _Second}
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in _KINDS.items()}
_VERSION = msgspec.json.Decoder(_Version)
_ANY = msgspec.json.Decoder()


def schema() -> dict[str, Any]:
    """The JSON schema of version 2, from the types."""
    found = msgspec.json.schema(_Second)
    for one in found["$defs"].values():
        # Python 3.13 takes the indentation out of docstrings
        if "description" in one:
            one["description"] = " ".join(one["description"].split())
    return found


SCHEMA_FILE = Path(__file__).with_name("result.schema.json")


def write_schema() -> None:
    """Writes that schema next to this file, for other tools."""
    SCHEMA_FILE.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")


def decode(text: str, most: int = MAX_BYTES) -> Any:
    """A JSON value of at most `most` characters. Raises ResultError with the reason."""
    return decoded(_ANY, text, most)


def decoded(decoder: msgspec.json.Decoder[Any], text: str, most: int = MAX_BYTES) -> Any:
    """Decodes a text of at most `most` characters. Raises ResultError with the reason."""
    if len(text) > most:
        raise ResultError(f"has {len(text)} characters; at most {most} are accepted")
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise ResultError(_misshapen(str(error))) from None
    except msgspec.DecodeError as error:
        raise ResultError("is empty" if not text.strip() else f"is truncated or not JSON ({error})") from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise ResultError(f"cannot be read: {str(error)[:100]}") from None


def _misshapen(text: str) -> str:
    what, _, where = text.partition(" - at ")
    return f"{where.strip('`').removeprefix('$').lstrip('.') or 'top level'}: {what}"


def with_values(result: Result, metrics: tuple[MetricValue, ...], limits: Mapping[str, Limit]) -> Result:
    """The same with everything computed for it."""
    return replace(result, metrics=metrics, limits=limits)


def read_text(path: Path) -> str:
    """The text of a regular file of at most MAX_BYTES, never through a symbolic link. Raises ResultError."""
    try:
        return files.read_text(path, MAX_BYTES)
    except files.NoFile:
        raise ResultError(f"{path.name}: the program wrote no result") from None
    except files.FileError as error:
        raise ResultError(f"{path.name}: {error}") from None


def load(path: Path) -> Result:
    """Read a result from a file. Raises ResultError, also for a missing file."""
    return parse(read_text(path), path.name)


def parse(text: str, where: str, figures_only: bool = False) -> Result:
    """A result from its JSON text, of either version; `figures_only`: without that text. Raises ResultError; its
    message begins with `where`."""
    try:
        said = decoded(_VERSION, text).schema
        if said not in _DECODERS:
            raise ResultError(f"not a {SCHEMA} document: schema is {said[:40]!r}; allowed: {', '.join(_DECODERS)}")
        return _typed(decoded(_DECODERS[said], text), "" if figures_only else text)
    except ResultError as error:
        raise ResultError(f"{where}: {error}") from None


def validate(raw: Any, where: str) -> Result:
    """A result from a JSON value. Raises ResultError; its message begins with `where`."""
    try:
        return typed(raw)
    except ResultError as error:
        raise ResultError(f"{where}: {error}") from None


def typed(raw: Any, text: str | None = None) -> Result:
    """A result from a JSON value, with its text, or a text generated from the value. Raises ResultError."""
    said = str(raw.get("schema") if isinstance(raw, dict) else type(raw).__name__)
    if said not in _KINDS:
        raise ResultError(f"not a {SCHEMA} document: schema is {said[:40]!r}; allowed: {', '.join(_KINDS)}")
    try:
        found = msgspec.convert(raw, _KINDS[said])
    except msgspec.ValidationError as error:
        raise ResultError(_misshapen(str(error))) from None
    return _typed(found, json.dumps(raw, separators=(",", ":")) if text is None else text)


def _typed(found: _First | _Second, text: str) -> Result:
    try:
        return found.typed(text)
    except (ValueError, TypeError, OverflowError) as error:
        raise ResultError(str(error)) from None
    except KeyError as error:
        raise ResultError(f"a limit lacks {error}") from None
