"""Public histories for the benchmark: converts the results that a project publishes in a Git repository to one file.

    git clone --bare https://github.com/pv/numpy-bench numpy-bench.git
    python -m tools.histories asv numpy-bench.git --ref master --machine i7 --output numpy-i7.npz \\
        --source https://github.com/pv/numpy-bench
    python -m tools.bench.real numpy-i7.npz

FORMAT is `asv` (result files of airspeed velocity), `lines` (one JSON object per line and one file per case, like
mujoco_warp's), `tsv` (one folder per night with a result.tsv, like PHP's), `action` (the data.js of
github-action-benchmark, in all of its commits), `google` (one JSON file of google-benchmark per run, like Kokkos's),
`orun` (one file of JSON lines per run, like those of OCaml's sandmark), `dated` (one file per benchmark with a line
per night, like Ruby's), `scores` (one JSON file per run, like Enso's), `solves` (lists of runs with their phases, like
FEniCS's), `metrics` (one line per commit, like rust-analyzer's), `nightlies` (CSV files by version, like Scala's) or
`labelled` (one file per benchmark with a list of times, like Boa's). An entry of a history is one commit or night
that was measured; it represents a night. The file notes source, commit, SHA-256 of the values and the command. No data
of others is part of this project: the files remain where you write them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

#: Minimum number of entries of a series: 30 nights of learning, ten before a step and ten after it.
REQUIRED_ENTRIES = 60

#: One value: (when it was measured or committed in seconds, series, value).
Value = tuple[float, str, float]


class HistoriesError(Exception):
    """The repository cannot be read or contains no such results; one line with the error and its location."""


@dataclass(frozen=True)
class Public:
    """One public history: `values` (series, entries), NaN if a series has none; `higher` (series,)."""

    values: np.ndarray
    higher: np.ndarray
    names: list[str]
    entries: np.ndarray  # seconds since 1970
    provenance: dict[str, str]


def _git(repository: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True)
    if done.returncode:
        raise HistoriesError(f"{repository}: git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def files(repository: Path, commit: str, chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each chosen file of a commit. Raises HistoriesError."""
    names = [n for n in _git(repository, "ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0") if n]
    names = [n for n in names if chosen(n)]
    if not names:
        raise HistoriesError(f"{repository}: commit {commit[:12]} has no result files of this format")
    wanted = "".join(f"{commit}:{name}\n" for name in names)
    done = subprocess.run(
        ["git", "-C", str(repository), "cat-file", "--batch"], input=wanted.encode(), capture_output=True
    )
    at = 0
    for name in names:
        end = done.stdout.index(b"\n", at)
        size = int(done.stdout[at:end].split()[-1])
        yield name, done.stdout[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def asv(repository: Path, commit: str, machine: str) -> Iterator[Value]:
    """Times in airspeed velocity's result files of one machine; other tracked values have no direction."""

    def chosen(name: str) -> bool:
        folder, _, file = name.rpartition("/")
        return folder == f"results/{machine}" and file.endswith(".json") and file != "machine.json"

    for _, content in files(repository, commit, chosen):
        one = json.loads(content)
        columns = one.get("result_columns") or ["result", "params"]
        for name, found in one.get("results", {}).items():
            if ".time_" not in name and not name.rpartition(".")[2].startswith("time_"):
                continue
            if isinstance(found, dict):
                values, parameters = found.get("result"), found.get("params")
            elif isinstance(found, list):
                named = dict(zip(columns, found, strict=False))
                values, parameters = named.get("result"), named.get("params")
            else:
                values, parameters = found, []
            many = values if isinstance(values, list) else [values]
            labels = _products(parameters or [], len(many))
            for label, value in zip(labels, many, strict=True):
                if isinstance(value, (int, float)) and math.isfinite(value) and value > 0:
                    yield one["date"] / 1000, f"{name}{label}", float(value)


def _products(parameters: list[list[str]], count: int) -> list[str]:
    labels = [""]
    for values in parameters:
        labels = [f"{label} {value}" for label in labels for value in values]
    return labels if len(labels) == count else [f" {n}" for n in range(count)]


#: Values of mujoco_warp other than times and rates: counts that are not performance.
_COUNTS = ("converged_worlds", "ncon", "nefc", "solver_niter", "commit", "timestamp")


def lines(repository: Path, commit: str, _: str) -> Iterator[Value]:
    """JSON objects, one per line, one file per case: times and memory, and rates that end in `_per_second`."""
    for path, content in files(repository, commit, lambda name: name.endswith(".jsonl")):
        case = Path(path).stem
        for line in content.decode().splitlines():
            one: dict[str, Any] = json.loads(line)
            when = datetime.fromisoformat(one["timestamp"]).timestamp()
            for name, value in one.items():
                if not name.startswith(_COUNTS) and isinstance(value, (int, float)) and value > 0:
                    yield when, f"{case}.{name}", float(value)


def tsv(repository: Path, commit: str, machine: str) -> Iterator[Value]:
    """One folder per night, named by its time and machine, with a table of tests by version: their medians."""
    for path, content in files(repository, commit, lambda n: n.endswith("/result.tsv") and machine in n):
        stamp = Path(path).parent.name
        when = datetime.strptime(stamp[:19], "%Y_%m_%d_%H_%M_%S").timestamp()
        for row in csv.DictReader(content.decode().splitlines(), delimiter="\t"):
            version = row["PHP"].partition("@")[0]
            try:
                value = float(row["Median"])
            except (TypeError, ValueError):
                continue
            test = " ".join(w for w in row["Test name"].split() if not w[:1].isdigit())
            if value > 0 and "previous" not in version:
                yield when, f"{test}, {version}", value


def action(repository: Path, commit: str, file: str) -> Iterator[Value]:
    """Entries of a data.js. Each commit contains the newest ones, so every 20th commit and the last one are read."""
    commits = _git(repository, "log", "--format=%H", commit, "--", file).decode().split()
    for one in [*commits[:1], *commits[1::20]]:
        done = subprocess.run(["git", "-C", str(repository), "show", f"{one}:{file}"], capture_output=True)
        if done.returncode:
            continue  # a version that this clone lacks
        document = json.loads(done.stdout.decode().partition("=")[2].strip().rstrip(";"), strict=False)
        for suite, entries in document["entries"].items():
            for entry in entries:
                higher = entry.get("tool") in ("customBiggerIsBetter", "benchmarkjs", "pytest")
                for bench in entry["benches"]:
                    value = bench.get("value")
                    if isinstance(value, (int, float)) and math.isfinite(value) and value > 0:
                        yield entry["date"] / 1000, f"{suite} {bench['name']}{'_per_second' * higher}", float(value)


_STAMP = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T_]+(\d\d)-?(\d\d)-?(\d\d)")


def _stamp(path: str) -> float:
    found = _STAMP.search(path)
    return datetime(*(int(part) for part in found.groups())).timestamp() if found else 0.0  # type: ignore[arg-type]


def google(repository: Path, commit: str, folder: str) -> Iterator[Value]:
    """Times in the JSON files of google-benchmark in a folder; the date and the suite are in their names."""
    for path, content in files(repository, commit, lambda n: n.startswith(folder) and n.endswith(".json")):
        suite = _STAMP.split(Path(path).name)[0]
        try:
            document = json.loads(content)
        except ValueError:
            continue  # a run that was killed
        found: dict[str, list[float]] = {}
        for one in document["benchmarks"]:
            if isinstance(one.get("real_time"), (int, float)) and one.get("run_type", "iteration") == "iteration":
                found.setdefault(one["name"], []).append(one["real_time"])
        for name, values in found.items():
            if np.median(values) > 0:
                yield _stamp(path), f"{suite} {name}", float(np.median(values))


def orun(repository: Path, commit: str, chosen: str) -> Iterator[Value]:
    """Times in the .bench files of sandmark; `chosen` is FOLDER:NAME, its folder and a part of the file's name."""
    folder, _, part = chosen.partition(":")
    for path, content in files(
        repository, commit, lambda n: n.startswith(folder) and n.endswith(".bench") and part in n
    ):
        for line in content.decode(errors="replace").splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue  # a line of another program
            if isinstance(one, dict) and isinstance(one.get("time_secs"), (int, float)) and one["time_secs"] > 0:
                yield _stamp(path), one["name"], float(one["time_secs"])


def dated(repository: Path, commit: str, folder: str) -> Iterator[Value]:
    """Lines `YYYYMMDD: [TIME, ...]` of the files of a folder, one column per interpreter."""
    for path, content in files(repository, commit, lambda n: n.startswith(f"{folder}/") and n.endswith(".yml")):
        for line in content.decode().splitlines():
            day, _, columns = line.partition(":")
            if day.isdigit() and columns.strip().startswith("["):
                when = datetime.strptime(day, "%Y%m%d").timestamp()
                for column, value in enumerate(json.loads(columns)):
                    if isinstance(value, (int, float)) and value > 0:
                        yield when, f"{Path(path).stem} {column}", float(value)


def scores(repository: Path, commit: str, folder: str) -> Iterator[Value]:
    """Times by label in one JSON file per run, each with the commit that was measured."""
    for _, content in files(repository, commit, lambda n: n.startswith(folder) and n.endswith(".json")):
        one = json.loads(content)
        if "bench_run" in one:
            when = datetime.fromisoformat(one["bench_run"]["head_commit"]["timestamp"]).timestamp()
            for name, value in one["label_score_dict"].items():
                if value > 0:
                    yield when, name, float(value)


def solves(repository: Path, commit: str, folder: str) -> Iterator[Value]:
    """Times of the phases of each problem and number of nodes in lists of runs."""
    for _, content in files(repository, commit, lambda n: n.startswith(folder) and n.endswith(".json")):
        for run in json.loads(content):
            when = datetime.fromisoformat(run["time"]).timestamp()
            for case in run["data"]:
                label = f"{case['problem']} {case['nodes']}"
                for phase, value in case.items():
                    if phase not in ("problem", "nodes") and isinstance(value, (int, float)) and value > 0:
                        yield when, f"{label} {phase}", float(value)


def metrics(repository: Path, commit: str, file: str) -> Iterator[Value]:
    """Times in milliseconds of a file with one JSON object per line and commit."""
    for line in _git(repository, "show", f"{commit}:{file}").decode().splitlines():
        one = json.loads(line)
        for name, (value, unit) in one["metrics"].items():
            if unit == "ms" and value > 0:
                yield float(one["timestamp"]), name, float(value)


def nightlies(repository: Path, commit: str, part: str) -> Iterator[Value]:
    """Mean times of CSV files by compiler version, whose nightly builds have a date in their names."""
    for path, content in files(repository, commit, lambda n: part in n and "Nightly/" in n and n.endswith(".csv")):
        for row in csv.DictReader(content.decode().splitlines()):
            found = re.search(r"bin-(\d{8})", row["version"])
            if found and float(row["avg"]) > 0:
                when = datetime.strptime(found[1], "%Y%m%d").timestamp()
                yield when, "/".join(Path(path).parts[-2:]), float(row["avg"])


def labelled(repository: Path, commit: str, folder: str) -> Iterator[Value]:
    """Scores of several programs in one file per benchmark, with a list of times: one entry per day."""
    for path, content in files(repository, commit, lambda n: n.startswith(folder) and n.endswith(".json")):
        one = json.loads(content)
        for program, values in one["results"].items():
            for when, value in zip(one["labels"], values, strict=True):
                if isinstance(value, (int, float)) and value > 0:
                    yield when // 86_400_000 * 86_400.0, f"{Path(path).stem} {program}_per_second", float(value)


FORMATS: dict[str, Callable[[Path, str, str], Iterator[Value]]] = {
    "asv": asv, "lines": lines, "tsv": tsv, "action": action, "google": google, "orun": orun, "dated": dated,
    "labelled": labelled, "metrics": metrics, "nightlies": nightlies, "scores": scores, "solves": solves,
}  # fmt: skip


def read(form: str, repository: Path, ref: str, machine: str, source: str, command: str) -> Public:
    """One public history from a repository. Raises HistoriesError."""
    commit = _git(repository, "rev-parse", "--verify", f"{ref}^{{commit}}").decode().strip()
    found: dict[str, dict[float, float]] = {}
    for when, name, value in FORMATS[form](repository, commit, machine):
        found.setdefault(name, {})[when] = value
    kept = sorted(name for name, values in found.items() if len(values) >= REQUIRED_ENTRIES)
    if not kept:
        raise HistoriesError(f"{repository}: no series of {REQUIRED_ENTRIES} entries at {commit[:12]}")
    entries = np.array(sorted({when for name in kept for when in found[name]}))
    column = {when: index for index, when in enumerate(entries.tolist())}
    values = np.full((len(kept), len(entries)), np.nan)
    for row, name in enumerate(kept):
        for when, value in found[name].items():
            values[row, column[when]] = value
    higher = np.array([name.endswith("_per_second") for name in kept])
    provenance = {
        "source": source, "commit": commit, "format": form, "machine": machine, "command": command,
        "sha256": hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(),
    }  # fmt: skip
    return Public(values, higher, kept, entries, provenance)


def save(public: Public, path: Path) -> None:
    """Write the history with its provenance. Raises OSError."""
    np.savez_compressed(
        path, values=public.values, higher=public.higher, names=np.array(public.names), entries=public.entries,
        provenance=json.dumps(public.provenance),
    )  # fmt: skip


def load(path: Path) -> Public:
    """Reads the file of `save`. Raises HistoriesError if it cannot, or if the values do not match their checksum."""
    try:
        with np.load(path) as one:
            public = Public(
                one["values"], one["higher"], one["names"].tolist(), one["entries"], json.loads(str(one["provenance"]))
            )
    except OSError as error:
        raise HistoriesError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile):
        raise HistoriesError(f"{path}: is not a file of `python -m tools.histories`") from None
    digest = hashlib.sha256(np.ascontiguousarray(public.values).tobytes()).hexdigest()
    if digest != public.provenance["sha256"]:
        raise HistoriesError(f"{path}: the values have SHA-256 {digest}, the note says {public.provenance['sha256']}")
    return public


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=sorted(FORMATS))
    parser.add_argument("repository", type=Path, help="a clone, bare or not")
    parser.add_argument("--ref", default="HEAD", help="branch or commit (default: HEAD)")
    parser.add_argument(
        "--machine", default="", help="whose results: machine (asv, tsv), file (action, metrics), or folder"
    )
    parser.add_argument("--source", required=True, help="where the repository came from, for the note")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the .npz to write")
    given = parser.parse_args(arguments)
    command = "python -m tools.histories " + " ".join(sys.argv[1:] if arguments is None else arguments)
    try:
        public = read(given.format, given.repository, given.ref, given.machine, given.source, command)
        save(public, given.output)
    except HistoriesError as error:
        print(f"tools.histories: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"tools.histories: {given.output}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{given.output}: {len(public.values)} series, {len(public.entries)} entries")
    print(json.dumps(public.provenance, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
