"""Results: what one run of one benchmark program reports, parsed once and typed from then on.

`result.schema.json` describes them; `load` and `parse` reject everything else with one line that states what and where.
"""

from __future__ import annotations

import json
import math
import operator
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenken.errors import ResultError
from tenken.model import files
from tenken.model.agreement import numpy, packed
from tenken.model.judgement import Limit
from tenken.model.quick import of_keys, quick
from tenken.model.shape import CONVERTED, checked
from tenken.model.subject import NOWHERE, Coordinates, Subject
from tenken.model.values import MetricValue, Series

try:
    import orjson
except ImportError:  # no wheel for this machine: the standard library reads the same in five times the time
    orjson = None  # type: ignore[assignment]

SCHEMA = "tenken-result/1"

#: A larger result is refused unread. The largest kept one has 1.1 MB.
MAX_BYTES = 32 * 2**20
#: More values than this are refused unread: they are what takes time and memory. The largest kept one has 40,000.
MAX_VALUES = 400_000
#: Nesting beyond this is refused before it can exhaust the stack.
MAX_DEPTH = 24

#: Reasons for which a program may report that this machine cannot do it; the detail follows a colon.
#: Each names the capability that such a waiver denies (None: nothing is claimed).
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
}

EXIT_OK, EXIT_FAILED, EXIT_BAD_ARGUMENTS, EXIT_WAIVED = 0, 1, 2, 3


@quick
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


@quick
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


@quick
@dataclass(frozen=True)
class Placement:
    """Where the program ran: threads, logical CPUs, ranks and the nodes that the ranks named."""

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


@quick
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
    memory_clock_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    integrated: bool | None = None
    driver: str | None = None
    cuda_driver: str | None = None
    cuda_runtime: str | None = None
    vbios: str | None = None
    serial: str | None = None
    power_limit_w: float | None = None
    persistence_mode: bool | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    nvlinks_active: int | None = None
    nvlinks_total: int | None = None
    nvlink_gbs_per_link: float | None = None
    numa_node: int | None = None
    managed_memory: bool | None = None
    concurrent_managed_access: bool | None = None
    pageable_memory_access: bool | None = None
    pageable_uses_host_page_tables: bool | None = None


@quick
@dataclass(frozen=True)
class HealthSample:
    """One reading of a GPU's health, or the worst of several. None: not reported by the driver."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
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
    utilization_percent: float | None = None


@quick
@dataclass(frozen=True)
class DeviceHealth:
    """A GPU's health before, after and at its worst during the timed part, read `samples` times."""

    index: int
    before: HealthSample
    after: HealthSample
    worst: HealthSample
    samples: int
    xids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Health:
    """The health of the GPUs, or why it could not be read."""

    available: bool
    reason: str = ""
    devices: tuple[DeviceHealth, ...] = ()


@dataclass(frozen=True)
class Locks:
    """The locks that a run held: `host` and the UUID of each GPU. `shared_with`: the owner of a lock during the whole
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


@quick
@dataclass(frozen=True)
class Check:
    """One verification: what was compared, the error found (None: not finite), the program's own tolerance."""

    what: str
    error: float | None
    tolerance: float
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Verification:
    """The verification of the program's own output."""

    passed: bool
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Link:
    """How two GPUs are connected: active links (None: unknown) and their kind ("NVLink", "NVLink through a switch")."""

    first: int
    second: int
    count: int | None
    kind: str
    text: str


@quick
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
    metrics: tuple[MetricValue, ...] = field(metadata=CONVERTED)
    limits: Mapping[str, Limit] = field(metadata=CONVERTED)
    verification: Verification
    path: Mapping[str, Any]
    health: Health
    token: str | None
    text: str
    locks: Locks | None = None
    """None: a result of before there were locks."""
    load: Load | None = None
    series: tuple[Series, ...] = ()
    """What was measured, of results of version 2; those of version 1 state values."""
    absent: tuple[str, ...] = ()
    """Optional fields that every program of this suite writes, and this result does not hold."""

    @property
    def node(self) -> str:
        """Name of the host that wrote the result."""
        return self.host.name

    def device(self, index: int) -> Device | None:
        return next((d for d in self.devices if d.index == index), None)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links between GPUs that are named in the path."""
        found = []
        for key, claim in self.path.items():
            ends = _LINK.fullmatch(key)
            if ends:
                found.append(_link(int(ends[1]), int(ends[2]), str(claim), self.path))
        return tuple(found)


_LINK = re.compile(r"link\.gpu(\d+)-gpu(\d+)")
_COUNTED = re.compile(r"(\d+) x (.+)")


def _link(first: int, second: int, text: str, path: Mapping[str, Any]) -> Link:
    """Results without `link_count` contain the number within the text: read only here."""
    pair = f"gpu{first}-gpu{second}"
    if f"link_count.{pair}" in path:
        count = path[f"link_count.{pair}"]
        # null: the driver does not report; what is no number counts as none
        number = count if count is None or type(count) is int else 0
        return Link(first, second, number, str(path.get(f"link_kind.{pair}", text)), text)
    counted = _COUNTED.fullmatch(text)
    kind = counted[2] if counted else text
    unknown = text == "not known"
    return Link(first, second, int(counted[1]) if counted else None if unknown else 0, kind, text)


# ---- the border ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _validator() -> Any:
    import jsonschema

    schema = json.loads(Path(__file__).with_name("result.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _refuse_constant(name: str) -> float:
    raise ResultError(f"contains {name}, which is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ResultError(f"contains {text[:40]}, which is not finite")
    return number


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ResultError(f"contains an integer of {len(text)} digits; at most 20 are allowed")
    return int(text)


#: Only such digits can be an integer beyond 20 digits or a number beyond a double: without them the numbers are left to
#: the parser of the standard library, in a quarter of the time.
_HUGE = re.compile(r"[eE]\+?\d{3}|\d{21}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ResultError(f"contains the key {twice[:60]!r} twice in one object")
    return found


def decode(text: str, most: int = MAX_BYTES) -> Any:
    """Strictly parsed JSON: no duplicate key, no NaN, no number beyond a double, bounded nesting, `most` characters.
    Raises ResultError with the reason.
    """
    if len(text) > most:
        raise ResultError(f"has {len(text)} characters; at most {most} are accepted")
    # each value but the first of its container follows a comma
    values = text.count(",") + text.count("[") + text.count("{") if len(text) > MAX_VALUES else 0
    if values > MAX_VALUES:
        raise ResultError(f"contains {values} values; at most {MAX_VALUES} are accepted")
    found = _quickly(text)
    if found is _UNDECIDED:
        found = _strictly(text)
    return found


#: In place of the value of a text that only the standard library can judge
_UNDECIDED = object()
#: Under these keys a record has its result: of this version and of the first.
_OF_RECORDS = ("result", "document")
#: Digits become 0, the decimal point remains, all else becomes a comma.
_DIGITS = bytes(48 if 48 <= i < 58 else 46 if i == 46 else 44 for i in range(256))
_LONG = 19 * b"0"
#: The indentation, in orjson's text, of what lies in MAX_DEPTH containers.
_DEEP = MAX_DEPTH * b"  "
#: Of so many bytes one is examined first: the run of blanks is as much shorter, and found in a tenth of the time.
_STRIDE = 16


def _quickly(text: str) -> Any:
    """The value of a text that orjson reads exactly as required; _UNDECIDED for any other.

    orjson is less strict in three points: of equal keys it keeps the last, it rounds long integers, and it reads any
    nesting. Written again, the value has fewer colons than the text if a key was lost, and indented as it is deep.
    """
    if orjson is None:
        return _UNDECIDED
    try:
        content = text.encode()
        found = orjson.loads(content)
        again = orjson.dumps(_without_figures(found), option=orjson.OPT_INDENT_2)
    except (ValueError, orjson.JSONEncodeError):
        return _UNDECIDED
    if any(_count(content, each) != _count(again, each) for each in b":["):
        return _UNDECIDED
    if _DEEP[::_STRIDE] in again[::_STRIDE] and _DEEP in again:
        return _UNDECIDED
    # a colon or a bracket by its number is one in the text that is written again alone
    if b"\\" in content and (b"\\u003" in content or b"\\u005" in content):
        return _UNDECIDED
    return _UNDECIDED if _has_long_integer(content) else found


def _count(content: bytes, character: int) -> int:
    np = numpy()
    if np is None:
        return content.count(character)
    return int(np.count_nonzero(np.frombuffer(content, np.uint8) == character))


def _without_figures(found: Any) -> Any:
    """The same with an empty list in place of the samples of each metric, which are most of a text: to write them again
    takes as long as to read them. If they contain more than figures, the text has brackets that the rest has not.
    """
    if type(found) is not dict:
        return found
    for key in _OF_RECORDS:
        if type(found.get(key)) is dict:
            return {**found, key: _without_figures(found[key])}
    if type(found.get("metrics")) is not list:
        return found
    metrics = [
        {**one, "samples": []} if type(one) is dict and type(one.get("samples")) is list else one
        for one in found["metrics"]
    ]
    return {**found, "metrics": metrics}


def _has_long_integer(content: bytes) -> bool:
    """Whether there may be an integer of 19 or more digits: those beyond 64 bits orjson rounds to a double."""
    np = numpy()
    if np is not None:
        run = (np.frombuffer(content, np.uint8) - 48) < 10
        for further in (1, 2, 4, 8, 3):  # 1 + 1 + 2 + 4 + 8 + 3 = 19 digits in succession
            run = run[:-further] & run[further:]
        if not run.any():
            return False
    digits = b"," + content.translate(_DIGITS) + b","
    # the end is found in half the time of the beginning, and only small numbers with many decimals have it too
    return _LONG + b"," in digits and b"," + _LONG in digits


def _strictly(text: str) -> Any:
    """By the standard library, which names what is wrong."""
    huge = _HUGE.search(text) is not None
    try:
        found = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite if huge else None,
            parse_int=_integer if huge else None,
            object_pairs_hook=_once,
        )
    except ResultError:
        raise
    except RecursionError:
        raise ResultError(f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        if getattr(error, "msg", "") == "Extra data":
            raise ResultError(f"contains more than one document: {str(error).partition(': ')[2]}") from None
        raise ResultError("is empty" if not text.strip() else f"is truncated or not JSON ({error})") from None
    _bounded(found)
    return found


_CONTAINERS = frozenset({dict, list})


def _bounded(value: Any) -> None:
    """Raises ResultError for nesting beyond MAX_DEPTH."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        inner: list[Any] = []
        for one in level:
            values = one.values() if type(one) is dict else one
            inner += [each for each in values if type(each) in _CONTAINERS]
        level = inner
    raise ResultError(f"is nested deeper than {MAX_DEPTH} levels")


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


def parse(text: str, where: str) -> Result:
    """A result from its JSON text. Raises ResultError; its message begins with `where`."""
    try:
        raw = decode(text)
    except ResultError as error:
        raise ResultError(f"{where}: {error}") from None
    return validate(raw, where, text)


def _without_samples(raw: Any) -> Any:
    """The same with one sample instead of many numbers: the schema takes ten times as long for each of them."""
    if not isinstance(raw, dict) or not isinstance(raw.get("metrics"), list):
        return raw
    return {**raw, "metrics": [{**m, "samples": [0.0]} if _plain(m) else m for m in raw["metrics"]]}


def _plain(metric: Any) -> bool:
    samples = metric.get("samples") if isinstance(metric, dict) else None
    return isinstance(samples, list) and bool(samples) and {float, int}.issuperset(map(type, samples))


#: Halves of a character, which no file can hold; control characters; such as cannot be seen or turn the text round.
_UNSEEN = re.compile(
    "[\ud800-\udfff\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
)
#: Texts of several lines.
_OF_LINES = ("what", "detail", "reason")


def _spoilt(value: Any, where: str = "", name: str = "") -> Iterator[str]:
    """Texts and keys with characters that are not printed, or with spaces around them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _spoilt(key, f"{where}/{key}".lstrip("/"), "key")
            if key != "samples" and not isinstance(inner, (int, float)):
                yield from _spoilt(inner, f"{where}/{key}".lstrip("/"), key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, (str, dict, list)):
                yield from _spoilt(inner, f"{where}/{number}", name)
    elif isinstance(value, str):
        found = _UNSEEN.search(value.replace("\n", "") if name in _OF_LINES else value)
        if found is not None:
            yield f"{where[:120]!r} contains the character U+{ord(found[0]):04X}, which is not printed"
        elif value != value.strip():
            yield f"{where[:120]!r} is {value[:60]!r}: spaces at its beginning or end"


def validate(raw: Any, where: str, text: str | None = None) -> Result:
    """A result from a JSON value. Raises ResultError with the first violation of the schema."""
    import jsonschema

    error = jsonschema.exceptions.best_match(_validator().iter_errors(_without_samples(raw)))
    if error is not None:
        place = "/".join(str(p) for p in error.absolute_path) or "top level"
        raise ResultError(f"{where}: not a {SCHEMA} document: {place}: {error.message[:300]}")
    spoilt = next(_spoilt(raw), None)
    if spoilt is not None:
        raise ResultError(f"{where}: {spoilt}")
    seen: set[str] = set()
    for metric in raw["metrics"]:
        if metric["id"] in seen:
            raise ResultError(f"{where}: metric {metric['id']} appears twice")
        seen.add(metric["id"])
        if metric["id"] not in raw["limits"]:
            raise ResultError(f"{where}: metric {metric['id']} has no entry in limits")
    try:
        return typed(raw, text)
    except (KeyError, TypeError, ValueError, OverflowError) as wrong:
        raise ResultError(f"{where}: {wrong}") from None


def typed(raw: Mapping[str, Any], text: str | None = None) -> Result:
    """A result from an object that was validated before (an archived one), with its text, or else one made of the
    object. Otherwise KeyError, TypeError or ValueError.
    """
    verification, health = raw["verification"], raw["health"]
    return Result(
        program=raw["program"],
        version=raw["version"],
        command=tuple(raw["command"]),
        started=raw["started"],
        finished=raw["finished"],
        host=of_keys(Host)(raw["host"]),
        build=_build(raw["build"]),
        status=raw["status"],
        reason=raw["reason"],
        parameters=raw["parameters"],
        placement=_placement(raw["placement"]),
        devices=tuple(map(of_keys(Device), raw["devices"])),
        metrics=tuple(map(_metric, raw["metrics"], _samples([one["samples"] for one in raw["metrics"]]))),
        limits={name: Limit.of(limit) for name, limit in raw["limits"].items()},
        verification=Verification(verification["passed"], tuple(map(of_keys(Check), verification["checks"]))),
        path=raw["path"],
        health=Health(
            health["available"], health.get("reason") or "", tuple(_device_health(d) for d in health["devices"])
        ),
        token=raw.get("token"),
        locks=_locks(raw["locks"]) if "locks" in raw else None,
        load=_load(raw["load"]) if "load" in raw else None,
        absent=tuple(_absent(raw)),
        text=json.dumps(raw, separators=(",", ":")) if text is None else text,
    )


#: Optional fields that not every program writes: only ranks have nodes; kept results of before lack the others, and
#: those that a later version adds belong here.
_MAY_BE_ABSENT = {"nodes", "remapping_failed", "persistence_mode", "power_limit_w", "serial"}


@lru_cache(maxsize=16)
def _always_there(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind)) - _MAY_BE_ABSENT


@lru_cache(maxsize=4096)
def _lacking(where: str, kind: type, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{where}/{name}" for name in sorted(_always_there(kind).difference(given)))


def _absent(raw: Mapping[str, Any]) -> Iterator[str]:
    parts: list[tuple[str, type, Mapping[str, Any]]] = [
        ("host", Host, raw["host"]), ("build", Build, raw["build"]), ("placement", Placement, raw["placement"]),
        *((f"devices/{i}", Device, device) for i, device in enumerate(raw["devices"])),
    ]  # fmt: skip
    for i, entry in enumerate(raw["health"]["devices"]):
        parts += [(f"health/devices/{i}/{when}", HealthSample, entry[when]) for when in ("before", "worst", "after")]
        if "xids" not in entry:
            yield f"health/devices/{i}/xids"
    for where, kind, given in parts:
        yield from _lacking(where, kind, tuple(given))
    yield from [f"metrics/{metric['id']}/clock" for metric in raw["metrics"] if "clock" not in metric]


def _build(raw: Mapping[str, Any]) -> Build:
    return Build(**{**raw, "backends": tuple(raw["backends"])})


def _placement(raw: Mapping[str, Any]) -> Placement:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    return Placement(**fields)


def _locks(raw: Mapping[str, Any]) -> Locks:
    return Locks(tuple(raw["held"]), float(raw["waited_seconds"]), raw["shared_with"], raw["none_because"])


def _load(raw: Mapping[str, Any]) -> Load:
    others = tuple((one["pid"], one["name"], float(one["cpu_seconds"])) for one in raw["others"])
    return Load(**{**raw, "others": others})


def _device_health(raw: Mapping[str, Any]) -> DeviceHealth:
    return DeviceHealth(
        raw["index"], _sample(raw["before"]), _sample(raw["after"]), _sample(raw["worst"]), raw["samples"],
        tuple(raw.get("xids") or ()),
    )  # fmt: skip


def _sample(raw: Mapping[str, Any]) -> HealthSample:
    reasons = raw.get("reasons")
    return of_keys(HealthSample)({**raw, "reasons": None if reasons is None else tuple(reasons)})


def _samples(lists: list[list[Any]]) -> Iterable[tuple[float, ...]]:
    """Of each metric as doubles; all at once where numpy is loaded and none is whole, as truth values and integers are.
    Raises TypeError for anything else.
    """
    np = numpy()
    if np is not None:
        try:
            flat = np.frombuffer(b"".join([packed(len(one))(*one) for one in lists]))
        except (struct.error, OverflowError, TypeError):
            return map(_numbers, lists)
        if not (flat == np.floor(flat)).any():
            return map(tuple, lists)
    return map(_numbers, lists)


def _metric(raw: Mapping[str, Any], samples: tuple[float, ...]) -> MetricValue:
    made = MetricValue(
        raw["id"], raw["name"], Subject.of(raw["subject"]), Coordinates.of(raw.get("at") or {}), raw["unit"],
        raw["direction"], raw["statistic"], float(raw["value"]), float(raw["best"]), float(raw["median"]),
        float(raw["p5"]), float(raw["p95"]), raw["count"], samples, raw.get("clock") or "",
    )  # fmt: skip
    # what `checked` tests of it, in a third of the time
    texts = (made.id, made.name, made.unit, made.direction, made.statistic, made.clock)
    if type(made.count) is int and made.at is NOWHERE and operator.countOf(map(type, texts), str) == len(texts):
        return made
    return checked(made)


def _numbers(raw: list[Any]) -> tuple[float, ...]:
    """As doubles. Raises TypeError for anything else, texts and truth values included."""
    if operator.countOf(map(type, raw), float) == len(raw):
        return tuple(raw)
    kinds = set(map(type, raw))
    if not kinds <= {float, int}:
        raise TypeError(f"samples contain {', '.join(sorted(kind.__name__ for kind in kinds - {float, int}))}")
    return tuple(map(float, raw))
