"""`tenken kinds`: what devices of one model reached, and how a site adds its own devices to systems/kinds.yaml."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tenken.archive import packed, records
from tenken.errors import TenkenError
from tenken.judge.bounds import LIMITED_BY_OPERATOR
from tenken.machines import kinds
from tenken.model.catalogue import load_catalogue
from tenken.model.kinds import FEWEST, figure, of_device
from tenken.model.record import Record
from tenken.model.verdicts import PASS, RECORDED
from tenken.paths import archive_root

#: Digits of a value: devices differ in the third.
DIGITS = 5
#: A device further than this from the median of its figure is not known as healthy, and would hide others like it.
#: Healthy kept ones differ by 0.92 to 1.06.
APART = 0.75
_SITE = re.compile(r"[\w .,()-]{1,60}")


class KindsError(TenkenError):
    """Nothing can be added."""


def register(subparsers: Any) -> None:
    """Adds the subcommand `kinds` to the `tenken` command."""
    parser = subparsers.add_parser("kinds", help="what devices of one model reached; add those of an archive")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("list", help="models, sites, figures and devices that are known")
    shown.add_argument("--file", type=Path, default=kinds.FILE, help="default: systems/kinds.yaml")
    shown.set_defaults(func=listed)
    add = actions.add_parser(
        "add",
        help="add the devices of an archive, without their names",
        description="Takes the key metrics of GPUs from records that are PASS or RECORDED (for each device, the median "
        "of its runs) and writes them into the file, replacing what the site added before. Review the difference.",
    )
    add.add_argument("--site", required=True, help="name of the site, as shown to others: letters, digits, . , ( ) -")
    add.add_argument(
        "--archive",
        type=Path,
        nargs="+",
        help="folders or .tar.xz of archives; nodes of different archives count as different, a run in several of them "
        "once",
    )
    add.add_argument("--file", type=Path, default=kinds.FILE, help="default: systems/kinds.yaml")
    add.set_defaults(func=add_site)


def listed(arguments: argparse.Namespace) -> int:
    """Prints one line per figure."""
    for (gpu, name), one in sorted(kinds.load(arguments.file, None).items()):
        bound = one.bound
        said = f"{len(one.values)} devices, {len(one.machines)} machines, {one.sites} sites"
        print(f"{gpu}  {name}: {one.middle:.5g} {one.unit}, {said}" + (f", at least {bound:.5g}" if bound else ""))
    return 0


def add_site(arguments: argparse.Namespace) -> int:
    """Writes the file. Raises KindsError if the archives have nothing to add."""
    if not _SITE.fullmatch(arguments.site):
        raise KindsError(f"--site {arguments.site!r}: allowed: 1 to 60 letters, digits, blanks and . , ( ) -")
    groups = [_records(path) for path in arguments.archive or [archive_root()]]
    far: list[str] = []
    found = figures(groups, far)
    for one in far:
        print(f"left out: {one}")
    if not found:
        raise KindsError("no record of these archives is PASS or RECORDED and has a key metric of a GPU")
    date = max(record.time[:7] for group in groups for record in group)
    arguments.file.write_text(kinds.with_site(arguments.file, arguments.site, date, found), encoding="utf-8")
    for gpu, of in sorted(found.items()):
        devices = max(sum(map(len, one["machines"])) for one in of.values())
        print(f"{gpu}: {len(of)} figures of up to {devices} devices; review the difference of {arguments.file}")
    return 0


def _records(path: Path) -> list[Record]:
    if not path.exists():
        raise KindsError(f"{path}: no such archive")
    return list(records.records(packed.folder_of(path), figures_only=True))


def figures(groups: Iterable[Sequence[Record]], far: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """By GPU and figure: the unit and, by machine, one value per device. The nodes of each group are separate
    machines; an attempt that is in several groups counts in the first. What is left out for its distance from the
    median is appended to `far`.
    """
    catalogue = load_catalogue()
    units: dict[tuple[str, str], str] = {}
    runs: dict[tuple[str, str], dict[tuple[int, str], dict[tuple[str, ...], list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    first: dict[str, int] = {}
    for group, of in enumerate(groups):
        for record in of:
            result, program = record.result, catalogue.get(record.program)
            limited = any(finding.kind == LIMITED_BY_OPERATOR for finding in record.findings)
            if result is None or program is None or limited or record.verdict not in (PASS, RECORDED):
                continue
            if record.program_version != program.version or (
                result.token and first.setdefault(result.token, group) != group
            ):
                continue
            for metric in result.metrics:
                devices = [device for gpu in metric.subject.gpus if (device := result.device(gpu)) is not None]
                names = {device.name for device in devices if not device.mig_enabled}
                if len(names) != 1 or not of_device(program, metric):
                    continue
                key = (names.pop(), figure(result, program, metric))
                units[key] = metric.unit
                which = tuple(str(one.uuid or one.index) for one in devices)
                runs[key][group, result.node][which].append(metric.value)
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for (gpu, name), machines in sorted(runs.items()):
        values = [sorted(_rounded(median(one)) for one in devices.values()) for devices in machines.values()]
        middle = median(value for one in values for value in one)
        near = [[value for value in one if middle * APART <= value <= middle / APART] for one in values]
        far += [
            f"{gpu}  {name}: {value:.5g} {units[gpu, name]}, the median is {middle:.5g}"
            for one, kept in zip(values, near, strict=True)
            for value in one
            if value not in kept
        ]
        if sum(map(len, near)) >= FEWEST and middle > 0:
            found[gpu][name] = {"unit": units[gpu, name], "machines": sorted(one for one in near if one)}
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
