"""From `systems/<name>.yaml` to `tenken.machines.model.System`.

    names()                      -> ["h200", "jetson-tx2", ...]      files only, without `local`
    load("miyabi")               -> System; load("local") detects the local machine
    load_all() -> {name: System} of all files, without `local` (detection takes time) references(system, partition,
    program, ...) -> the references that apply to a run

Errors are `tenken.machines.errors.SystemFileError` (file, line, what, allowed values) and `UnknownSystemError`. A file
that was read and checked once is taken from `.cache/systems/` until the file, the schema, the data sheets, this package
or a metrics.yaml changes; see `tenken.model.cache`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenken.machines import hardware
from tenken.machines.errors import Problem, SystemFileError, UnknownSystemError
from tenken.machines.hardware import Sheets
from tenken.machines.model import (
    Container,
    Environment,
    Fabric,
    GpuSheet,
    Link,
    Node,
    Partition,
    Patience,
    Ratio,
    Reference,
    System,
    UserVariable,
    duration_seconds,
)
from tenken.model import cache
from tenken.paths import CACHE, KINDS, PROGRAMS, SYSTEMS

SCHEMA = Path(__file__).with_name("schema.json")
LOCAL = "local"
CACHE_FOLDER = CACHE / "systems"
# What the cache depends on apart from the file: the rules for checking it.
_RULES = [Path(__file__).with_name(f"{name}.py") for name in ("loader", "validation", "yamlfile", "model")]


#: The result of a file, with a key made of its content and the data sheets.
Made = tuple[str, Sheets, System]
#: The last result of each file in `load`: each check of a session requests its system.
_made: dict[Path, Made] = {}


#: Data sheets, and what devices of one model reached.
NO_SYSTEMS = (hardware.FILE.name, KINDS.name)


def files(folder: Path = SYSTEMS) -> dict[str, Path]:
    """System files by system name, sorted."""
    return {file.stem: file for file in sorted(folder.glob("*.yaml")) if file.name not in NO_SYSTEMS}


def names(folder: Path = SYSTEMS) -> list[str]:
    """Names of the systems that have a file, sorted; `local` has none."""
    return list(files(folder))


def load(name: str, folder: Path = SYSTEMS, src: Path = PROGRAMS, cache_folder: Path | None = CACHE_FOLDER) -> System:
    """One system. Raises SystemFileError, or UnknownSystemError that lists the systems."""
    if name == LOCAL:
        from tenken.machines import local

        return local.describe()
    known = files(folder)
    if name not in known:
        raise UnknownSystemError(f"unknown system '{name}'; allowed: {', '.join([LOCAL, *known])}")
    system = load_file(known[name], src=src, cache_folder=cache_folder, made=_made)
    if any(partition.node_count_unknown for partition in system.partitions.values()):
        from tenken.machines import cluster

        system = cluster.with_node_counts(system)
    return system


def load_all(
    folder: Path = SYSTEMS, src: Path = PROGRAMS, cache_folder: Path | None = CACHE_FOLDER
) -> dict[str, System]:
    """All systems that have a file, by name. Raises SystemFileError with every problem of every file."""
    systems: dict[str, System] = {}
    problems: list[Problem] = []
    rules = _rules(src)
    for name, file in files(folder).items():
        try:
            systems[name] = load_file(file, src, cache_folder, rules)
        except SystemFileError as error:
            problems.extend(error.problems)
    if problems:
        raise SystemFileError(problems)
    return systems


def load_file(
    file: Path,
    src: Path = PROGRAMS,
    cache_folder: Path | None = CACHE_FOLDER,
    rules: bytes | None = None,
    made: dict[Path, Made] | None = None,
    strict: bool = False,
) -> System:
    """A system from any file, named after the file. Raises SystemFileError.

    A reference with an error is disabled, and a notice of the system states it; `strict` raises it instead. A reference
    of a third-party program applies once its check has declared the metric. `rules`: `_rules(src)`; passed by callers
    that load many files; `made`: passed by callers that load one file repeatedly.
    """
    sheets = hardware.load(cache_folder=cache_folder)
    try:
        content = file.read_bytes()
    except OSError:
        data = _read(file, sheets, src, strict)  # reports why it cannot be read
    else:
        key = cache.key_of([file.name.encode(), content, rules or _rules(src), *([b"strict"] if strict else [])])
        if made and file in made and made[file][:2] == (key, sheets):
            return _found_here(made[file][2])
        data = cache.cached(cache_folder, f"system-{file.stem}", key, lambda: _read(file, sheets, src, strict))
        if made is not None:
            made[file] = (key, sheets, _system(file.stem, data, sheets))
            return _found_here(made[file][2])
    return _found_here(_system(file.stem, data, sheets))


def _found_here(system: System) -> System:
    """With the number of GPUs of this machine if the file leaves it to detection."""
    if any(partition.node.gpu_count_found for partition in system.partitions.values()):
        from tenken.machines import local

        system = local.resolve(system)
    return system


def references(
    system: System,
    partition: str,
    program: str,
    *,
    metric: str | None = None,
    subject: str | None = None,
    environ: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> list[Reference]:
    """References of one program on one partition; each given argument narrows the list.

    `parameters` are those of a run (the result document's): a reference whose selector names another value, or a
    parameter that the run does not have, does not apply to it.
    """
    return [
        reference
        for reference in system.references_of(program, metric)
        if reference.partition == partition
        and (subject is None or reference.subject == subject)
        and (environ is None or not reference.environ or environ in reference.environ)
        and (parameters is None or all(parameters.get(k) == v for k, v in reference.parameters.items()))
    ]


def _rules(src: Path) -> bytes:
    """Hash of everything, apart from the file, that determines whether a file is valid and what it gives."""
    parts = [file.read_bytes() for file in (SCHEMA, hardware.FILE, *_RULES)]
    for file in sorted(src.glob("*/metrics.yaml")):
        parts += [file.parent.name.encode(), file.read_bytes()]
    return cache.key_of(parts).encode()


def _read(file: Path, sheets: Sheets, src: Path, strict: bool) -> Any:
    """Parses and checks. Returns plain data with each reference's direction from the catalogue
    (empty for a program that its check declares) and, under `notices`, what the user should know about the file."""
    from tenken.machines import validation, yamlfile
    from tenken.model import catalogue

    def programs() -> Mapping[str, catalogue.Program]:
        # declarations of this process do not affect the cached data
        return catalogue.load_catalogue(src) if strict else catalogue.of_suite(src)

    shown = f"{file.resolve().parent.name}/{file.name}"
    document = yamlfile.read(file, shown)
    problems = validation.shape(document, SCHEMA)
    misshapen = _of_references(problems)
    if not strict:
        problems = [problem for problem in problems if problem.path[:2] not in misshapen]
    if not problems:
        problems = validation.meaning(document, sheets.gpus, sheets.hosts, programs, {int(at[1]) for at in misshapen})
    references = document.data.get("references", ())
    wrong = _of_references(problems) if not strict else {}
    for at in [*wrong] if references else ():
        program = references[at[1]]["metric"].partition(".")[0]
        if program not in programs():
            # an unknown program may still be right: its check may declare it
            wrong[at] = [one for one in wrong[at] if one.path[2:] != ("metric",)]
    if rest := [problem for problem in problems if problem.path[:2] not in wrong]:
        raise SystemFileError(rest)
    notices = validation.has_a_sheet(document, sheets.gpus)
    disabled = {**misshapen, **{at: found for at, found in wrong.items() if found}}
    notices += [f"{problem} (this reference is disabled)" for found in disabled.values() for problem in found]
    kept = [raw for index, raw in enumerate(references) if ("references", index) not in disabled]
    for reference in kept:
        program, _, metric = reference["metric"].partition(".")
        of = programs().get(program)
        reference["direction"] = of.metrics[metric].direction if of else ""
    known = [one for raw in kept for one in _points(raw)]
    return {**document.data, "references": known, "notices": notices}


def _of_references(problems: Iterable[Problem]) -> dict[tuple[str | int, ...], list[Problem]]:
    """The problems of single references by their index; those of the list itself belong to none of them."""
    found: dict[tuple[str | int, ...], list[Problem]] = {}
    for problem in problems:
        if problem.path[:1] == ("references",) and len(problem.path) > 1:
            found.setdefault(problem.path[:2], []).append(problem)
    return found


def _points(reference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One reference for each of its points; the reference itself if it has none. The coordinates then become
    parameters."""
    shared = {key: value for key, value in reference.items() if key not in ("points", "at")}
    own = {**reference.get("parameters", {}), **reference.get("at", {})}
    if "points" not in reference:
        return [{**shared, **({"parameters": own} if own else {})}]
    return [{**shared, "parameters": {**own, **p["at"]}, "value": p["value"]} for p in reference["points"]]


def _system(name: str, data: Mapping[str, Any], sheets: Sheets) -> System:
    facts = data.get("facts", {})
    return System(
        name=name,
        title=data["title"],
        status=data["status"],
        partitions={key: _partition(key, raw, sheets) for key, raw in data["partitions"].items()},
        environments={key: _environment(key, raw) for key, raw in data["environments"].items()},
        site=data.get("site", ""),
        retired=data.get("retired"),
        facts_date=facts.get("date"),
        facts_source=facts.get("source"),
        hostnames=tuple(data.get("hostnames", ())),
        modules_system=data.get("modules_system", "nomod"),
        variables={key: UserVariable(name=key, **raw) for key, raw in data.get("variables", {}).items()},
        references=tuple(_reference(raw) for raw in data.get("references", ())),
        ratios=tuple(_ratio(raw) for raw in data.get("ratios", ())),
        notices=(*data["notices"], *_undeclared(name, data["references"])),
    )


def _undeclared(name: str, references: Iterable[Mapping[str, Any]]) -> list[str]:
    """Notices about references to programs that are not part of this suite and that no check has declared here."""
    foreign = {raw["metric"].partition(".")[0] for raw in references if not raw["direction"]}
    if not foreign:
        return []
    from tenken.machines.validation import choices
    from tenken.model import catalogue

    known = catalogue.load_catalogue()
    return [
        f"{name}.yaml: no check has declared program '{program}' yet, of which it has references (they apply once one "
        f"has); {choices(program, sorted(known))}"
        for program in sorted(foreign - set(known))
    ]


def _environment(name: str, raw: Mapping[str, Any]) -> Environment:
    return Environment(
        name=name,
        features=frozenset(raw["features"]),
        cc=raw["cc"],
        cxx=raw["cxx"],
        cuda=raw.get("cuda"),
        fortran=raw.get("fortran"),
        modules=tuple(raw.get("modules", ())),
        prepare=tuple(raw.get("prepare", ())),
        env_vars=raw.get("env_vars", {}),
        description=raw.get("description", ""),
    )


def _partition(name: str, raw: Mapping[str, Any], sheets: Sheets) -> Partition:
    return Partition(
        name=name,
        description=raw.get("description", ""),
        scheduler=raw["scheduler"],
        scheduler_status=raw.get("scheduler_status"),
        launcher=raw["launcher"],
        environments=tuple(raw["environments"]),
        node=_node(raw["node"], sheets),
        launcher_options=tuple(raw.get("launcher_options", ())),
        access=tuple(raw.get("access", ())),
        submit_options=tuple(raw.get("submit_options", ())),
        node_request=tuple(raw.get("node_request", ())),
        select=raw.get("select"),
        place=raw.get("place"),
        remote=raw.get("remote"),
        patience=_patience(raw.get("patience", {})),
        gpu_request=tuple(raw.get("gpu_request", ())),
        modules=tuple(raw.get("modules", ())),
        prepare=tuple(raw.get("prepare", ())),
        prerun=tuple(raw.get("prerun", ())),
        env_vars=raw.get("env_vars", {}),
        features=frozenset(raw.get("features", ())),
        capabilities=frozenset(raw.get("capabilities", ())),
        # without a scheduler, nothing else prevents two concurrent jobs
        fabric=Fabric(**raw["fabric"]) if "fabric" in raw else None,
        max_jobs=raw.get("max_jobs", 1 if raw["scheduler"] == "local" else None),
        time_limit=raw.get("time_limit"),
        local_storage=raw.get("local_storage"),
        build=raw.get("build", "login"),
        containers=tuple(
            Container(
                item["platform"], tuple(item.get("modules", ())), item.get("image"), tuple(item.get("options", ()))
            )
            for item in raw.get("containers", ())
        ),
    )


def _patience(raw: Mapping[str, Any]) -> Patience:
    """Converts times as HH:MM:SS to seconds."""
    return Patience(**{key: duration_seconds(value) for key, value in raw.items()})


def _node(raw: Mapping[str, Any], sheets: Sheets) -> Node:
    gpus = raw.get("gpus", {"count": 0})
    if gpus.get("sheet") is not None:
        gpu: GpuSheet | None = sheets.gpu(gpus["sheet"])
    else:
        gpu = hardware.described(gpus) if "model" in gpus else None
    found = gpus["count"] == "found"
    memory_gib = raw.get("memory_gib")
    return Node(
        architecture=raw["architecture"],
        count=raw.get("count"),
        host=sheets.host(raw["host"]) if "host" in raw else None,
        sockets=raw.get("sockets"),
        cores=raw.get("cores"),
        threads_per_core=raw.get("threads_per_core"),
        numa_nodes=raw.get("numa_nodes"),
        memory_bytes=None if memory_gib is None else int(memory_gib * 2**30),
        memory_gbs=raw.get("memory_gbs"),
        memory_gbs_source=raw.get("memory_gbs_source"),
        gpu=gpu,
        gpu_count=None if found else gpus["count"],
        gpu_counts=tuple(gpus.get("counts", ())),
        gpu_count_found=found,
        pair_links=_pair_links(gpu, gpus.get("pair_links")),
    )


def _pair_links(gpu: GpuSheet | None, count: int | str | None) -> Link | None:
    """The links between any two GPUs: that many of the sheet's, or all of them through a switch."""
    if gpu is None or gpu.gpu_links is None or not count:
        return None
    return gpu.gpu_links if count == "all" else replace(gpu.gpu_links, count=int(count))


def _reference(raw: Mapping[str, Any]) -> Reference:
    program, _, metric = raw["metric"].partition(".")
    span = raw.get("range")
    return Reference(
        program=program,
        metric=metric,
        subject=raw["subject"],
        partition=raw["partition"],
        environ=tuple(raw.get("environ", ())),
        parameters=raw.get("parameters", {}),
        unit=raw["unit"],
        direction=raw["direction"],
        statistic=raw["statistic"],
        value=raw.get("value"),
        range=None if span is None else (span[0], span[1]),
        lower=raw.get("lower"),
        upper=raw.get("upper"),
        count=raw.get("count"),
        spread=raw.get("spread"),
        date=raw["date"],
        driver=raw.get("driver"),
        source=raw["source"],
        published=raw.get("published"),
        note=raw.get("note"),
        between=raw.get("between"),
        provisional=raw.get("provisional", False),
    )


def _ratio(raw: Mapping[str, Any]) -> Ratio:
    program, _, metric = raw["metric"].partition(".")
    return Ratio(
        program=program,
        metric=metric,
        subject=raw["subject"],
        at=raw.get("at", {}),
        statistic=raw.get("statistic", "median"),
        over=raw["over"],
        against=raw["against"],
        ratio=(raw["ratio"][0], raw["ratio"][1]),
        date=raw["date"],
        source=raw["source"],
        count=raw.get("count"),
        published=raw.get("published"),
        note=raw.get("note"),
    )
