"""`systems/kinds.yaml`: what devices of one model reached, by site and machine, without names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenken.machines import yamlfile
from tenken.machines.errors import SystemFileError
from tenken.model import cache, catalogue
from tenken.model.kinds import Known, figure, of_device, without_defaults
from tenken.model.numbers import is_number
from tenken.model.result import MetricValue, Result
from tenken.paths import CACHE, KINDS

FILE = KINDS
HEAD = """\
# What devices of one model reached, by site: for each figure its unit, and for each machine the values of its devices,
# each the median of its runs. `tenken kinds add` writes it from an archive; it names no device and no machine. A
# further device is compared with it (docs/criteria.md).
kinds:
"""


@lru_cache(maxsize=4)
def load(file: Path = FILE, cache_folder: Path | None = CACHE / "systems") -> Mapping[tuple[str, str], Known]:
    """Known figures by GPU, as its driver names it, and by figure; empty without a file. Raises SystemFileError."""
    if not file.exists():
        return {}
    key = cache.key_of([file.read_bytes(), Path(__file__).read_bytes()])
    found: dict[tuple[str, str], Known] = {}
    for gpu, sites in cache.cached(cache_folder, "kinds", key, lambda: sites_of(file)).items():
        for site in sites:
            for written, one in site["figures"].items():
                of = written.partition("/")[0]
                name = without_defaults(written, catalogue.program(of)) if catalogue.has(of) else written
                before = found.get((gpu, name), Known(one["unit"], (), 0))
                if before.unit == one["unit"]:
                    machines = (*before.machines, *map(tuple, one["machines"]))
                    found[gpu, name] = Known(before.unit, machines, before.sites + 1)
    return found


def sites_of(file: Path) -> dict[str, list[dict[str, Any]]]:
    """The file as it is, checked. Raises SystemFileError with file and line."""
    document = yamlfile.read(file, file.name)
    kinds = document.data.get("kinds")
    path: tuple[str | int, ...] = ("kinds",)
    if not isinstance(kinds, dict):
        raise SystemFileError(document.problem(path, "kinds is not a map of GPUs"))
    for gpu, sites in kinds.items():
        seen: set[str] = set()
        for at, site in enumerate(sites if isinstance(sites, list) else [None]):
            path = ("kinds", gpu, at)
            if not isinstance(site, dict) or set(site) != {"site", "date", "figures"} or site["site"] in seen:
                what = "expected a list of {site, date, figures}, each site once"
                raise SystemFileError(document.problem(path, what))
            seen.add(site["site"])
            for name, one in site["figures"].items():
                if problem := _problem(one):
                    raise SystemFileError(document.problem((*path, "figures", name), f"{name}: {problem}"))
    return dict(kinds)


def _problem(one: Any) -> str:
    if not isinstance(one, dict) or set(one) != {"unit", "machines"}:
        return "expected {unit, machines}"
    machines = one["machines"]
    lists = isinstance(machines, list) and all(isinstance(values, list) and values for values in machines)
    if not lists or not machines or not all(is_number(v) and v > 0 for values in machines for v in values):
        return "machines is a list of lists of values above 0, one list per machine"
    return ""


def known(result: Result, metric: MetricValue) -> Known | None:
    """What devices of the same model as the value's GPUs reached; None: unknown, or the GPUs are of several models."""
    names = {device.name for gpu in metric.subject.gpus if (device := result.device(gpu)) is not None}
    if len(names) != 1 or not catalogue.has(result.program):
        return None
    program = catalogue.program(result.program)
    found = load().get((names.pop(), figure(result, program, metric))) if of_device(program, metric) else None
    return found if found is not None and found.unit == metric.unit else None


def text(kinds: Mapping[str, list[dict[str, Any]]]) -> str:
    """The file's text, with one line per figure, so that a changed figure is one line in a diff."""
    lines = [HEAD]
    for gpu, sites in sorted(kinds.items()):
        lines.append(f"  {json.dumps(gpu)}:\n")
        for site in sites:
            lines.append(f"    - site: {json.dumps(site['site'])}\n      date: {json.dumps(site['date'])}\n")
            lines.append("      figures:\n")
            lines += [f"        {json.dumps(n)}: {json.dumps(one)}\n" for n, one in sorted(site["figures"].items())]
    return "".join(lines)


def with_site(file: Path, site: str, date: str, figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the file with a site's values by GPU, replacing its former ones. Raises SystemFileError."""
    kinds = sites_of(file) if file.exists() else {}
    for gpu, found in figures.items():
        others = [one for one in kinds.get(gpu, []) if one["site"] != site]
        kinds[gpu] = [*others, {"site": site, "date": date, "figures": dict(found)}]
    return text(kinds)
