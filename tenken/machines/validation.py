"""Validates a parsed file: first by JSON Schema, then by rules that a schema cannot express.

Used only when a file changed (see `tenken.model.cache`): importing jsonschema takes a tenth of a second.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from tenken.machines.errors import Problem
from tenken.machines.model import variables_in
from tenken.machines.yamlfile import Document, KeyPath
from tenken.model.catalogue import Metric, Program

#: Back ends of tenken/reframe/schedulers (slurm, pbs, nqsv, gridengine), then those of ReFrame 4.10.
SCHEDULERS = ("slurm", "pbs", "nqsv", "gridengine", "local", "ssh", "torque", "lsf", "oar", "flux")
#: Launchers of tenken/reframe (nqsv-mpirun), then ReFrame's.
LAUNCHERS = (
    "nqsv-mpirun", "openmpi-hosts", "local", "mpirun", "mpiexec", "srun", "srunalloc", "alps", "ibrun", "lrun",
    "lrun-gpu", "upcrun", "upcxx-run", "clush", "pdsh", "ssh",
)  # fmt: skip

#: Container platforms that the suite's programs run in: on this host, with the job's environment.
HOLD_IMAGES = ("Apptainer", "Singularity", "Docker")

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "null",
}
# Maps whose keys are names chosen by the author: the word for their values.
#: Units from which the time for a size follows: a rate of bytes, a rate of messages, or the time itself.
BETWEEN_UNITS = ("GB/s", "messages/s", "us", "ms", "s")

_LISTS = ("partitions", "environments", "variables", "gpus", "hosts", "references", "ratios", "clauses",
          "exclusions", "punch_list")  # fmt: skip
# Lists whose items are identified by a key: the word for an item, and that key.
_ITEMS = {
    "references": ("reference", "metric"),
    "ratios": ("ratio", "metric"),
    "clauses": ("clause", "id"),
    "exclusions": ("exclusion", "id"),
    "punch_list": ("punch list item", "id"),
}
_NAMED = {
    "partitions": "partition",
    "environments": "environment",
    "variables": "variable",
    "gpus": "data sheet",
    "hosts": "data sheet",
}


def place(path: KeyPath, data: Any) -> str:
    """`partition 'gpu', node` for ("partitions", "gpu", "node"); empty at the top."""
    words: list[str] = []
    here: Any = data
    for depth, part in enumerate(path):
        here = _below(here, part)
        before = path[depth - 1] if depth else None
        if depth == 0 and part in _LISTS:
            if len(path) == 1:
                words.append(f"'{part}'")
        elif depth == 1 and before in _NAMED:
            words.append(f"{_NAMED[before]} '{part}'")
        elif depth == 1 and before in _ITEMS:
            word, key = _ITEMS[str(before)]
            named = here.get(key) if isinstance(here, dict) else None
            words.append(f"{word} {int(part) + 1}" + (f" ({named})" if isinstance(named, str) else ""))
        elif isinstance(part, int):
            words.append(f"item {part + 1}")
        else:
            words.append(f"'{part}'")
    return ", ".join(words)


def _below(data: Any, part: str | int) -> Any:
    try:
        return data[part]
    except (KeyError, IndexError, TypeError):
        return None


def shape(document: Document, schema_file: Path) -> list[Problem]:
    """All violations of the schema, ordered by line."""
    from jsonschema import Draft202012Validator

    schema = json.loads(schema_file.read_text(encoding="utf-8"))
    problems: list[Problem] = []
    for error in Draft202012Validator(schema).iter_errors(document.data):
        problems.extend(_tell(document, error))
    return sorted(set(problems), key=lambda problem: (problem.line or 0, problem.what))


def _tell(document: Document, error: Any) -> Iterable[Problem]:
    path: KeyPath = tuple(error.absolute_path)
    where = place(path, document.data)
    inside = f" in {where}" if where else ""
    value = error.instance
    if error.validator == "additionalProperties" and error.validator_value is False:
        allowed = sorted(error.schema["properties"])
        for key in value:
            if key not in error.schema["properties"]:
                yield document.problem((*path, key), f"unknown key '{key}'{inside}; {choices(key, allowed)}")
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in value:
                yield document.problem(path, f"missing key '{key}'{inside}")
    elif error.validator == "dependentRequired":
        yield document.problem(path, f"missing key{inside}: {error.message}")
    elif error.validator == "type":
        kinds = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
        wanted = " or ".join(_TYPES[kind] for kind in kinds)
        hint = ": write it in quotes" if "string" in kinds and not isinstance(value, (dict, list)) else ""
        yield document.problem(path, f"{where or 'the file'} must be {wanted}, not {_shown(value)}{hint}")
    elif error.validator == "enum":
        allowed = [str(item) for item in error.validator_value]
        yield document.problem(path, f"{where} cannot be {_shown(value)}; {choices(str(value), allowed)}")
    elif error.validator in ("pattern", "format") and "description" in error.schema:
        # An invalid name (propertyNames) is reported at its own line.
        own = (*path, value) if document.line((*path, value)) and isinstance(value, str) else path
        yield document.problem(own, f"{_shown(value)}{inside} must be {error.schema['description']}")
    elif error.validator in ("minimum", "exclusiveMinimum", "maximum", "minItems", "maxItems", "minLength"):
        words = {
            "minimum": "at least",
            "exclusiveMinimum": "more than",
            "maximum": "at most",
            "minItems": "at least this long:",
            "maxItems": "at most this long:",
            "minLength": "at least this long:",
        }[error.validator]
        limit = f"{words} {error.validator_value}"
        yield document.problem(path, f"{where} is {_shown(value)}; it must be {limit}")
    else:
        yield document.problem(path, f"{where or 'the file'}: {error.message}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"'{value}'" if isinstance(value, str) else str(value)


def choices(wrong: str, allowed: Collection[str]) -> str:
    """The end of a message: the allowed values, with the most similar one first."""
    close = difflib.get_close_matches(wrong, list(allowed), n=1)
    meant = f"did you mean '{close[0]}'? " if close else ""
    return f"{meant}allowed: {', '.join(allowed) or 'none yet'}"


def meaning(
    document: Document,
    gpus: Collection[str],
    hosts: Collection[str],
    catalogue: Callable[[], Mapping[str, Program]],
    without: Collection[int] = (),
) -> list[Problem]:
    """Rules that a schema cannot express: names defined elsewhere, units of metrics, consistent capabilities.

    `document.data` already conforms to the schema, apart from the references `without`, which are left out. `catalogue`
    is only called if there are references or ratios.
    """
    data = document.data
    problems: list[Problem] = []

    def wrong(path: KeyPath, what: str) -> None:
        problems.append(document.problem(path, what))

    if data["status"] == "retired" and "retired" not in data:
        wrong(("status",), "missing key 'retired': the date on which the machine was retired")
    for pattern_index, pattern in enumerate(data.get("hostnames", ())):
        try:
            re.compile(pattern)
        except re.error as error:
            wrong(("hostnames", pattern_index), f"host name {pattern!r} is not a regular expression: {error}")
    for name, variable in data.get("variables", {}).items():
        if variable.get("required") and "default" in variable:
            wrong(("variables", name), f"variable '{name}' is required but has a default; only one is allowed")
    _declared(data, wrong)
    for name, partition in data["partitions"].items():
        _partition(name, partition, data, gpus, hosts, wrong)
    if data.get("references"):
        programs = catalogue()
        for index, reference in enumerate(data["references"]):
            if index not in without:
                _reference(index, reference, data, programs, wrong)
    for index, ratio in enumerate(data.get("ratios", ())):
        path: KeyPath = ("ratios", index)
        shown = f"ratio {index + 1} ({ratio['metric']})"
        metric = _metric(path, ratio["metric"], shown, catalogue(), wrong)
        if metric is not None:
            _subject(path, ratio["subject"], shown, metric, wrong)
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.what))


#: Fractions by which figures of one data sheet may disagree, since vendors round.
_ROUNDED = 0.02
_RATE_ROUNDED = 0.005
#: Dense rates of tensor cores as multiples of each other: twice for half the bits.
_STEPS = (("tf32", "fp16", (2.0,)), ("fp16", "bf16", (1.0,)), ("fp16", "fp8", (2.0,)), ("fp8", "int8", (1.0,)))


def sheets(document: Document) -> list[Problem]:
    """Data sheets whose own figures contradict each other."""
    found: list[Problem] = []

    def hold(path: KeyPath, right: bool, what: str) -> None:
        if not right:
            found.append(document.problem(path, what))

    for name, gpu in document.data["gpus"].items():
        path: KeyPath = ("gpus", name)
        memory, rates = gpu["memory"], gpu["tflops"]
        hold(
            (*path, "memory"),
            ("bits" in memory) == ("gbit_s" in memory),
            f"'{name}': bits and gbit_s require each other",
        )
        if "bits" in memory and "gbit_s" in memory:
            by_pins = memory["bits"] * memory["gbit_s"] / 8
            hold(
                (*path, "memory"),
                abs(by_pins - memory["gbs"]) <= _RATE_ROUNDED * memory["gbs"],
                f"'{name}': {memory['bits']} bits at {memory['gbit_s']} Gbit/s are {by_pins:.5g} GB/s, "
                f"not {memory['gbs']}",
            )
        for slow, fast, steps in _STEPS:
            if rates.get(slow) and rates.get(fast):
                ratio = rates[fast] / rates[slow]
                hold(
                    (*path, "tflops"),
                    any(abs(ratio - step) <= _ROUNDED * step for step in steps),
                    f"'{name}': {fast} {rates[fast]} is {ratio:.3g} times {slow} {rates[slow]}; "
                    f"allowed: {' or '.join(f'{step:g}' for step in steps)} times",
                )
    for name, host in document.data["hosts"].items():
        kind = re.fullmatch(r"(?:MR)?(?:DIMM|DDR\d)-([1-9]\d{2,5})", host["memory"]["type"])
        if kind:
            channels = host["memory"]["gbs"] / (int(kind[1]) * 8 / 1000)
            hold(
                ("hosts", name, "memory"),
                abs(channels - round(channels)) <= _RATE_ROUNDED * channels,
                f"'{name}': {host['memory']['gbs']} GB/s are {channels:.4g} channels of {host['memory']['type']}; "
                "a whole number is required",
            )
    return found


def _declared(data: Mapping[str, Any], wrong: Callable[[KeyPath, str], None]) -> None:
    """Every ${TENKEN_...} must be declared under `variables`."""
    variables = data.get("variables", {})

    def walk(value: Any, path: KeyPath) -> None:
        if isinstance(value, str):
            for name in variables_in(value):
                if name not in variables:
                    allowed = choices(name, list(variables))
                    wrong(path, f"{value!r} uses a variable that is not declared; {allowed}")
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, (*path, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, (*path, index))

    for section in ("partitions", "environments"):
        walk(data[section], (section,))


def _partition(
    name: str,
    partition: Mapping[str, Any],
    data: Mapping[str, Any],
    gpus: Collection[str],
    hosts: Collection[str],
    wrong: Callable[[KeyPath, str], None],
) -> None:
    path: KeyPath = ("partitions", name)
    shown = f"partition '{name}'"
    if "scheduler_status" not in partition:
        # The name of a back end that does not exist yet is accepted if the file says so.
        for key, known in (("scheduler", SCHEDULERS), ("launcher", LAUNCHERS)):
            if partition[key] not in known:
                wrong(
                    (*path, key),
                    f"unknown {key} '{partition[key]}' in {shown}; {choices(partition[key], known)} "
                    f"(or state in 'scheduler_status' why it cannot be used yet)",
                )
    for index, environment in enumerate(partition["environments"]):
        if environment not in data["environments"]:
            wrong(
                (*path, "environments", index),
                f"unknown environment '{environment}' in {shown}; {choices(environment, list(data['environments']))}",
            )
    for index, option in enumerate(partition.get("launcher_options", ())):
        place_ = (*path, "launcher_options", index)
        _placeholders(option, ("num_tasks", "num_tasks_per_node"), place_, shown, wrong)
    for index, option in enumerate(partition.get("gpu_request", ())):
        _placeholders(option, ("num_gpus_per_node",), (*path, "gpu_request", index), shown, wrong)
    for index, option in enumerate(partition.get("node_request", ())):
        _placeholders(option, ("num_nodes",), (*path, "node_request", index), shown, wrong)
    if "select" in partition:
        allowed = ("num_tasks_per_node", "num_cpus_per_node")
        _placeholders(partition["select"], allowed, (*path, "select"), shown, wrong)
    for key, scheduler in (("select", "pbs"), ("place", "pbs"), ("node_request", "gridengine")):
        if key in partition and partition["scheduler"] != scheduler:
            wrong((*path, key), f"'{key}' of {shown} requires 'scheduler: {scheduler}'")

    for index, container in enumerate(partition.get("containers", ())):
        if "image" in container and container["platform"] not in HOLD_IMAGES:
            wrong(
                (*path, "containers", index),
                f"'image' of {shown} requires {', '.join(HOLD_IMAGES[:-1])} or {HOLD_IMAGES[-1]}: in "
                f"{container['platform']} a program has a different user, host name and environment",
            )
        is_path = container.get("image", "").startswith("/")
        if (
            "image" in container
            and not container["image"].startswith("$")
            and is_path != (container["platform"] != "Docker")
        ):
            form = "a name such as 'localhost/tenken'" if is_path else "the whole path of a file or folder"
            wrong(
                (*path, "containers", index),
                f"'image' of {shown} with 'platform: {container['platform']}' must be {form}",
            )

    node = partition["node"]
    _against_sheets(node, gpus, hosts, (*path, "node"), shown, wrong)
    host = node.get("host")
    if host is not None and host not in hosts:
        wrong((*path, "node", "host"), f"unknown data sheet '{host}' in {shown}; {choices(host, sorted(hosts))}")
    if {"sockets", "cores"} <= node.keys() and node["cores"] % node["sockets"]:
        odd = f"{node['cores']} cores do not divide among {node['sockets']} sockets in {shown}"
        wrong((*path, "node", "cores"), odd)
    gpu = node.get("gpus")
    if gpu is not None:
        _which_gpu(gpu, gpus, (*path, "node", "gpus"), shown, wrong)
        if "counts" in gpu and gpu["count"] != "found":
            wrong((*path, "node", "gpus", "counts"), f"'counts' in {shown} requires 'count: found'")
    features = partition.get("features", ())
    if "cuda" in features and gpu is None:
        wrong((*path, "features"), f"feature 'cuda' of {shown} needs 'gpus' in its node")
    named = [name for name in partition["environments"] if name in data["environments"]]
    built = {name: data["environments"][name]["features"] for name in named}
    for feature in features:
        if built and not any(feature in of for of in built.values()):
            listed = "; ".join(f"'{name}' has {', '.join(of) or 'none'}" for name, of in built.items())
            wrong(
                (*path, "features"),
                f"feature '{feature}' of {shown} requires an environment with this feature: {listed}",
            )
    capabilities = partition.get("capabilities", ())
    if capabilities and gpu is None:
        wrong((*path, "capabilities"), f"capabilities of {shown} need 'gpus' in its node")
    if "peer" in capabilities and gpu is not None and gpu["count"] == 1:
        wrong((*path, "capabilities"), f"capability 'peer' of {shown} needs two GPUs in a node; it has 1")
    if "device_mpi" in capabilities and "mpi" not in features:
        wrong((*path, "capabilities"), f"capability 'device_mpi' of {shown} needs feature 'mpi'")


#: Keys that identify a GPU without data sheet, and other keys that are allowed.
TELLING = ("model", "memory_gib", "compute_capability")
PEAKS = ("memory_gbs", "fp64_tflops", "fp64_tensor_tflops", "power_w", "host_link", "gpu_links")


def _which_gpu(
    gpu: Mapping[str, Any], sheets: Collection[str], path: KeyPath, shown: str, wrong: Callable[[KeyPath, str], None]
) -> None:
    """A GPU has a data sheet or is described by the file itself, never both, so that it is clear which figures
    apply."""
    sheet = gpu.get("sheet")
    if sheet is not None:
        if sheet not in sheets:
            known = choices(sheet, sorted(sheets))
            wrong(
                (*path, "sheet"),
                f"unknown data sheet '{sheet}' in {shown}; {known}; a GPU without one is described by "
                f"{_listed(TELLING)}",
            )
            return
        for key in (*TELLING, *PEAKS, "source"):
            if key in gpu:
                wrong(
                    (*path, key),
                    f"'{key}' in {shown} with 'sheet: {sheet}', which defines it: only one of the two is allowed",
                )
        return
    for key in TELLING:
        if key not in gpu:
            wrong(path, f"missing key '{key}' in {shown}, 'gpus': give 'sheet', or {_listed(TELLING)}")
    peaks = [key for key in PEAKS if key in gpu]
    if peaks and "source" not in gpu:
        wrong(path, f"missing key 'source' in {shown}, 'gpus': the document that states {_listed(peaks)}")
    if gpu.get("pair_links") and not gpu.get("gpu_links"):
        wrong(
            (*path, "pair_links"),
            f"'pair_links' of {shown} requires 'gpu_links': {{kind, count, gbs}} of all links of one GPU",
        )


def _listed(keys: Collection[str]) -> str:
    """`'a', 'b' and 'c'`."""
    *first, last = (f"'{key}'" for key in keys)
    return f"{', '.join(first)} and {last}" if first else last


def has_a_sheet(document: Document, sheets: Mapping[str, Any]) -> list[str]:
    """A notice for each GPU that a file describes although there is a data sheet, whose limits are better."""
    notices = []
    for name, partition in document.data["partitions"].items():
        model = partition["node"].get("gpus", {}).get("model")
        known = next((sheet for sheet in sheets.values() if model and sheet.matches(model)), None)
        if known is not None:
            line = document.line(("partitions", name, "node", "gpus", "model"))
            notices.append(f"{document.file}:{line}: '{model}' has a data sheet: write 'sheet: {known.name}' instead")
    return notices


def _against_sheets(
    node: Mapping[str, Any],
    gpus: Collection[str],
    hosts: Collection[str],
    path: KeyPath,
    shown: str,
    wrong: Callable[[KeyPath, str], None],
) -> None:
    """Compares a node's figures with the data sheets that it names."""
    found = node.get("gpus")
    looked_at = found is not None and found["count"] == "found"
    if "cores" not in node and not looked_at and ("sockets" in node or "host" in node):
        wrong(path, f"missing key 'cores' in {shown}, 'node': physical cores of the whole node")
    host = hosts.get(node.get("host", "")) if isinstance(hosts, Mapping) else None
    if host is not None:
        if node["architecture"] != host.architecture:
            wrong(
                (*path, "architecture"),
                f"'architecture' of {shown} is {node['architecture']}, its host {host.name} is {host.architecture}",
            )
        if {"sockets", "cores"} <= node.keys() and node["cores"] != node["sockets"] * host.cores:
            wrong(
                (*path, "cores"),
                f"{shown} has {node['cores']} cores; {node['sockets']} x {host.name} with {host.cores} each are "
                f"{node['sockets'] * host.cores}",
            )
    if found is None:
        return
    gpu = gpus.get(found.get("sheet")) if isinstance(gpus, Mapping) else None
    if gpu is not None:
        name, link = gpu.name, gpu.host_link.kind if gpu.host_link else None
        most: int | None = gpu.gpu_links.count if gpu.gpu_links else 0
    elif "model" in found:
        told = found.get("host_link", {"kind": "not told"})
        name, link = found["model"], told and told["kind"]
        most = (found.get("gpu_links") or {}).get("count")
    else:
        return
    # GPUs without a link to a host, or with a chip-to-chip link, have NVIDIA's Arm cores as host
    on_arm = link is None or "C2C" in link
    if on_arm and node["architecture"] != "aarch64":
        wrong(
            (*path, "architecture"),
            f"'architecture' of {shown} is {node['architecture']}; with {name} it is aarch64",
        )
    links = found.get("pair_links")
    if links == "all" and most == 0:
        wrong((*path, "gpus"), f"'pair_links' of {shown} is 'all'; {name} has no links to other GPUs")
    if isinstance(links, int) and most is not None and links > most:
        wrong((*path, "gpus"), f"'pair_links' of {shown} is {links}; a {name} has {most} links")


def _placeholders(
    text: str, allowed: tuple[str, ...], path: KeyPath, shown: str, wrong: Callable[[KeyPath, str], None]
) -> None:
    for found in re.findall(r"(?<!\$)\{(\w*)\}", text):
        if found not in allowed:
            wrong(path, f"unknown placeholder '{{{found}}}' in {shown}; {choices(found, allowed)}")


def _reference(
    index: int,
    reference: Mapping[str, Any],
    data: Mapping[str, Any],
    programs: Mapping[str, Program],
    wrong: Callable[[KeyPath, str], None],
) -> None:
    path: KeyPath = ("references", index)
    shown = f"reference {index + 1} ({reference['metric']})"
    if sum(key in reference for key in ("value", "range", "points")) != 1:
        wrong(path, f"{shown} must have one of 'value', 'range' and 'points'")
    both = sorted(reference.get("at", {}).keys() & reference.get("parameters", {}).keys())
    if both:
        wrong((*path, "at"), f"'at' of {shown} names '{both[0]}', as its 'parameters' do")
    seen: list[Any] = []
    for number, point in enumerate(reference.get("points", ())):
        for key in ("parameters", "at"):
            twice = sorted(point["at"].keys() & reference.get(key, {}).keys())
            if twice:
                wrong((*path, "points", number), f"point {number + 1} of {shown} names '{twice[0]}', as its '{key}' do")
        if point["at"] in seen:
            wrong((*path, "points", number), f"point {number + 1} of {shown} is listed twice")
        seen.append(point["at"])
    if "between" in reference:
        sizes = [point["at"].get(reference["between"]) for point in reference.get("points", ())]
        if len(sizes) < 2 or not all(isinstance(n, (int, float)) and not isinstance(n, bool) and n > 0 for n in sizes):
            wrong(
                (*path, "between"),
                f"'between' of {shown} must name a coordinate that at least two points have as a number above 0",
            )
        if reference["unit"] not in BETWEEN_UNITS:
            wrong((*path, "between"), f"'between' of {shown} is for {', '.join(BETWEEN_UNITS)}")
    if "range" in reference and reference["range"][0] > reference["range"][1]:
        wrong((*path, "range"), f"'range' of {shown} must be [low, high]")
    if reference.get("lower") is None and reference.get("upper") is None:
        wrong(path, f"{shown} sets no bound: give 'lower' (0 or less), 'upper' (0 or more) or both")
    if reference["partition"] not in data["partitions"]:
        wrong(
            (*path, "partition"),
            f"unknown partition '{reference['partition']}' in {shown}; "
            f"{choices(reference['partition'], list(data['partitions']))}",
        )
    else:
        environments = data["partitions"][reference["partition"]]["environments"]
        for position, environ in enumerate(reference.get("environ", ())):
            if environ not in environments:
                wrong(
                    (*path, "environ", position),
                    f"unknown environment '{environ}' in {shown}; {choices(environ, environments)}",
                )
    metric = _metric(path, reference["metric"], shown, programs, wrong)
    if metric is None:
        return
    if reference["unit"] != metric.unit:
        wrong((*path, "unit"), f"wrong unit '{reference['unit']}' in {shown}; allowed: {metric.unit}")
    _subject(path, reference["subject"], shown, metric, wrong)
    _coordinates(path, reference, shown, programs[reference["metric"].partition(".")[0]], metric, wrong)


def _coordinates(
    path: KeyPath, reference: Mapping[str, Any], shown: str, program: Program, metric: Metric,
    wrong: Callable[[KeyPath, str], None],
) -> None:  # fmt: skip
    """Names under `at` at which the metric is never reported: the reference would match no run and have no effect."""
    places = [points.at for points in program.contract.points if metric.name in points.metrics]
    if not places and not program.contract.verifications:
        return  # a first draft may not state the points of its metrics yet
    conditions = {*program.identity, *program.contract.defaults, *program.contract.defaults_if_stated, "ranks"}
    known = sorted({name for at in places for name in at} | conditions)
    said: list[tuple[KeyPath, Mapping[str, Any]]] = [(("at",), reference.get("at", {}))]
    said += [(("points", number, "at"), point["at"]) for number, point in enumerate(reference.get("points", ()))]
    for below, at in said:
        for name in at:
            if program.current_name(name) not in known and name not in known:
                wrong((*path, *below), f"{shown} is at '{name}'; {choices(name, known)}")


def _metric(
    path: KeyPath,
    full_name: str,
    shown: str,
    programs: Mapping[str, Program],
    wrong: Callable[[KeyPath, str], None],
) -> Metric | None:
    """The metric PROGRAM.METRIC, or None after reporting what is unknown."""
    program, _, name = full_name.partition(".")
    if program not in programs:
        known = choices(program, sorted(programs))
        wrong((*path, "metric"), f"unknown program '{program}' in {shown}; {known}")
        return None
    metrics = programs[program].metrics
    if name not in metrics:
        known = choices(name, sorted(metrics))
        wrong((*path, "metric"), f"unknown metric '{name}' of program '{program}'; {known}")
        return None
    return metrics[name]


def _subject(path: KeyPath, subject: str, shown: str, metric: Metric, wrong: Callable[[KeyPath, str], None]) -> None:
    if subject not in metric.per:
        wrong((*path, "subject"), f"wrong subject '{subject}' in {shown}; {choices(subject, metric.per)}")
