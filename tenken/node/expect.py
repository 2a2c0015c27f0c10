"""What a node should be: one JSON file, made from the system file by `tenken node expect`, edited by the site.

It is JSON, so that a check before a job needs no library to read it. A key that is not there is not expected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenken.node.state import StateError, read

SCHEMA = "tenken-node/1"
FILE = Path("/etc/tenken/node.json")
STATE = Path("/var/lib/tenken/node.json")
#: Where examples/node/install.sh puts the programs.
PROGRAMS = Path("/opt/tenken/programs")

_NUMBER = (int, float)
#: Keys, with the type of their values; for a list, that of its elements.
KEYS: dict[str, Any] = {
    "schema": str,
    "system": str,
    "partition": str,
    "gpus": {
        "count": int,
        "names": [str],
        "nvlinks": int,
        "pcie_generation": int,
        "pcie_width": int,
        "power_limit_w": _NUMBER,
        "driver": str,
        "vbios": str,
        "ecc": bool,
        "mig": bool,
        "persistence": bool,
        "fabric": bool,
    },
    "host": {
        "cores": int,
        "memory_gib": _NUMBER,
        "clock_error_ms": _NUMBER,
        "shm_free_share": _NUMBER,
    },
    "ports": [{"name": str, "gbit_s": _NUMBER}],
    "file_systems": [{"path": str, "type": str, "write": bool, "free_gib": _NUMBER}],
    "programs": str,
    "references": {},
    "state": str,
    "prometheus": str,
    "archive": str,
    "drain": {"scheduler": str, "partition": str, "share": _NUMBER, "commands": str, "conf": str},
}
#: Required keys of an element of a list.
_NEEDED = {"ports": "name", "file_systems": "path"}
SCHEDULERS = ("slurm", "pbs")


def load(path: Path) -> dict[str, Any]:
    """The expectations of a file; none if there is no file. Raises StateError with key and allowed values."""
    found = read(path)
    if found is None:
        return {}
    problem = _problem(found, KEYS, "") or _values(found)
    if problem:
        raise StateError(f"{path}: {problem}")
    return dict(found)


def _problem(found: Any, wanted: Any, at: str) -> str | None:
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return f"{at or 'the file'} is not an object"
        for key, value in found.items():
            here = f"{at}.{key}" if at else key
            if not wanted:  # references: any name, a value with its tolerance
                if problem := _problem(value, {"value": _NUMBER, "lower": _NUMBER}, here):
                    return problem
            elif key not in wanted:
                return f"unknown key {here}; allowed: {', '.join(wanted)}"
            elif problem := _problem(value, wanted[key], here):
                return problem
        return None
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return f"{at} is not a list"
        for number, value in enumerate(found):
            if problem := _problem(value, wanted[0], f"{at}[{number}]"):
                return problem
            if at in _NEEDED and _NEEDED[at] not in value:
                return f"{at}[{number}] has no {_NEEDED[at]}"
        return None
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    if not isinstance(found, kinds) or (isinstance(found, bool) and bool not in kinds):
        return f"{at} is {found!r}; allowed: a {'number' if wanted is _NUMBER else kinds[0].__name__}"
    return None


def _values(found: dict[str, Any]) -> str | None:
    if found.get("schema") != SCHEMA:
        return f"schema is {found.get('schema')!r}; allowed: {SCHEMA}"
    drain = found.get("drain")
    if drain is not None and drain.get("scheduler") not in SCHEDULERS:
        return f"drain.scheduler is {drain.get('scheduler')!r}; allowed: {', '.join(SCHEDULERS)}"
    if drain is not None and not 0 < drain.get("share", 0.05) <= 1:
        return f"drain.share is {drain['share']}; allowed: above 0 to 1"
    for where, key in (("", "state"), ("", "programs"), ("", "prometheus"), ("", "archive"), ("drain", "commands"),
                       ("drain", "conf")):  # fmt: skip
        path = (found.get(where, {}) if where else found).get(key, "/")
        if not path.startswith("/"):
            return f"{f'{where}.' if where else ''}{key} is {path!r}; allowed: an absolute path"
    if "archive" in found and not (found.get("system") and found.get("partition")):
        return "archive: needs system and partition, which name the series"
    for one in found.get("file_systems", []):
        if not one["path"].startswith("/"):
            return f"file_systems path is {one['path']!r}; allowed: an absolute path"
    for name, one in found.get("references", {}).items():
        if not (one.get("value", 0) > 0 and -1 < one.get("lower", -0.05) < 0):
            return f"references.{name}: needs a value above 0 and a lower between -1 and 0"
    return None


def of_system(name: str, partition: str) -> dict[str, Any]:
    """The expectations that a system file states for the nodes of a partition. Raises what loading the file raises."""
    from tenken.machines import loader  # YAML and its schema: never loaded by a check

    system = loader.load(name)
    if partition not in system.partitions:
        raise StateError(f"{name} has no partition {partition}; allowed: {', '.join(system.partitions)}")
    part = system.partitions[partition]
    node = part.node
    gpus: dict[str, Any] = {}
    if node.gpu_count:
        gpus["count"] = node.gpu_count
        if node.gpu:
            gpus["names"] = list(node.gpu.device_names)
    host: dict[str, Any] = {}
    if node.cores:
        host["cores"] = node.cores
    if node.memory_bytes:
        host["memory_gib"] = round(node.memory_bytes / 2**30, 2)
    result: dict[str, Any] = {"schema": SCHEMA, "system": name, "partition": partition, "gpus": gpus, "host": host}
    found = {
        f"{one.program}.{one.metric}.{one.subject}": {"value": one.value, "lower": one.lower}
        for one in system.references
        if one.partition == partition
        and one.value is not None
        and one.lower is not None
        and not one.parameters
        and one.published is None  # a published value of another machine does not apply to this node
    }
    return result | ({"references": found} if found else {}) | {"programs": str(PROGRAMS)}
