"""Golden job scripts: the job script of every check for any scheduler, kept as text so that a changed line shows as a
diff.

    python -m tests.reframe.config.golden [SYSTEM ...]      rewrites them (then read the diff)
    python -m tests.reframe.config.golden --show SYSTEM     prints every distinct script in full

For each system, `scripts.txt` contains every distinct script, with {check}, {stage} and {command} where checks differ:
the first one in full, each other one as a diff to the most similar one (`-` a removed line, `+` an added line, and for
additions the line before it, which shows the place). The lines that look for a library, those that every script begins
with, those for digests and those for root are listed once, at the top. `commands.txt` lists which check runs which
command in which script. One system also has `modes.txt`: the commands of the other modes, and `requests.txt`: what each
check requires of its result. A change of `scripts.txt` requires a line in CHANGELOG.md, with the reason
(test_golden.py).
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tenken.machines import loader
from tenken.paths import ROOT
from tenken.reframe.outcome import REQUEST_FILE
from tests.support.reframe import reframe

FOLDER = Path(__file__).with_name("golden")
#: The shipped ones: a system that a site adds has none, unless it is named here.
SYSTEMS = [name for name in loader.names() if (FOLDER / name).is_dir()]

#: A system with several GPUs in a node, whose file `modes.txt` has the commands of the other modes.
OF_MODES, MODES = "alps", ("quick", "acceptance", "published")
#: The mode whose requests are kept, and what of each.
OF_REQUESTS = "acceptance"
_REQUIRED = ("subjects", "metrics", "parameters", "points", "gpus", "cores", "ranks", "nodes")

#: Where a site is assumed to have third-party binaries.
FOREIGN = {
    "TENKEN_XHPCG": "/site/xhpcg",
    "TENKEN_XHPL": "/site/xhpl",
    "TENKEN_XHPL_MXP": "/site/xhpl_mxp",
    "TENKEN_OSU": "/site/osu",
}

_LOOKUP = re.compile(r'^if \[ -z "\$(TENKEN_\w+)" \]; then .*?; fi\n', re.M | re.S)
_COMMAND = re.compile(
    r"^(?P<launch>.*?)"
    r"(?P<command>(?:bin/\w+|\x22\$TENKEN_PYTORCH\x22|tenken_there &&|tenken_foreign|sh -c(?! 'cd )) .*)$\n"
    r"(?=tenken_status=)", re.M,
)  # fmt: skip
#: Lines that every script prints about itself before its command, and those for ranks started by root.
_ONCE = {
    "{begin}": re.compile(
        r'^tenken_token=[^\n]*\n(?:[^\n]*\n){1,5}echo "TENKEN-NODES \$tenken_nodes"\n'
        r'(?:\[ -z "\$SLURM_JOB_NODELIST" \] \|\| scontrol -o show node [^\n]*\n[^\n]*\n)?', re.M,
    ),
    "{bind no rank}": re.compile(r"(?:^export (?:OMPI_MCA|PRTE_MCA|SLURM_CPU_BIND)[^\n]*\n){3,}", re.M),
    "{digest of each file}": re.compile(r'^  case "\$tenken_file" in .*?\ndone\n', re.M | re.S),
    "{allow root}": re.compile(r'^if \[ "\$\(id -u\)" = 0 \]; then\n(?:  [^\n]*\n)+fi\n', re.M),
}  # fmt: skip
#: The lines between the marks that a script prints around its command.
_RUN = re.compile(r'^echo "TENKEN-RUN begin .*\n(?:exec 8>.*\n)?(?P<run>.*)\n(?=tenken_status=)', re.M)


@dataclass(frozen=True)
class Script:
    """A distinct job script: a name, its text, and the lines of commands.txt that use it."""

    title: str
    text: str
    commands: tuple[str, ...]


def variables(name: str) -> dict[str, str]:
    """Values of the variables that a system requires from its user."""
    return {v.name: "gz00" for v in loader.load(name).variables.values() if v.required}


def scripts(name: str, folder: Path, *options: str) -> list[Script]:
    """The distinct scripts of a system, from a dry run with its stage in `folder`."""
    # If jobs run one at a time, the other policy sleeps 0.1 s after each check even though nothing runs.
    outcome = reframe(
        "-c", "tests/cluster/probes", "--dry-run", "--exec-policy=serial", "--system", name, "-T", "flexible",
        *options, folder=folder, TENKEN_TEST_TIME_LIMIT="30m", **variables(name), **FOREIGN,
    )  # fmt: skip
    # ReFrame skips a file that it cannot load, with status 0: its checks would be missing from the golden files
    if outcome.code != 0 or "skipping test file" in outcome.output:
        raise RuntimeError(outcome.output)
    users: dict[str, list[str]] = defaultdict(list)
    for script in sorted((folder / "stage").rglob("rfm_*.sh")):
        partition, environment, check = script.parent.relative_to(folder / "stage" / name).parts
        check = re.sub(r"_[0-9a-f]{8}$", "", check)
        if check == "NothingToBuild":
            continue
        text, command = _generalise(script.read_text(), script, folder, check)
        text = text.replace(f"/.build/{name}-{partition}-{environment}", "/.build/{tree}")
        users[text].append(f"{partition} {environment} {check}: {command}")
    found = (Script(_title(lines), text, tuple(lines)) for text, lines in users.items())
    return sorted(found, key=lambda script: (script.title, script.text))


def modes(name: str, folder: Path) -> str:
    """The commands of each mode that are not those of mode nightly."""
    usual = {line.rpartition("    [")[0] for line in (FOLDER / name / "commands.txt").read_text().splitlines()}
    return "".join(
        f"{mode}: {line}\n"
        for mode in MODES
        for line in sorted(line for one in scripts(name, folder / mode, "--mode", mode) for line in one.commands)
        if line not in usual
    )


def requests(folder: Path) -> str:
    """What each check requires of its result, from a dry run with its stage in `folder`."""
    lines = []
    for file in (folder / "stage").rglob(REQUEST_FILE):
        raw = json.loads(file.read_text())
        told = {key: raw[key] for key in _REQUIRED if raw[key] not in (None, [], {})}
        partition, environment, check = file.parent.parts[-3:]
        lines.append(f"{partition} {environment} {re.sub('_[0-9a-f]{8}$', '', check)}: {json.dumps(told)}\n")
    return "".join(sorted(lines))


def files(found: list[Script]) -> dict[str, str]:
    """The golden files by name."""
    lookups: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        name = next((name for name, text in lookups.items() if text == match[0]), "")
        if not name:
            name = f"{{look for {match[1]}}}" if f"{{look for {match[1]}}}" not in lookups else f"{{{len(lookups)}}}"
            lookups[name] = match[0]
        return f"{name}\n"

    def once(text: str) -> str:
        for name, shape in _ONCE.items():
            part = shape.search(text)
            if part and lookups.setdefault(name, part[0]) == part[0]:
                text = text.replace(part[0], f"{name}\n", 1)
        return text

    whole = {script.title: once(_LOOKUP.sub(named, script.text)).splitlines() for script in found}
    lengths = {script.title: len(script.text.splitlines()) for script in found}
    lines: list[str] = []
    for name, text in lookups.items():
        lines += [f"==== {name}", *text.splitlines()]
    earlier: list[str] = []
    for title, text in whole.items():
        told = min(
            ((beside(whole[other], text), other) for other in earlier), key=lambda one: len(one[0]), default=None
        )
        if told and len(told[0]) < lengths[title] / 2:
            lines += [f"==== {title}: {told[1]} with", *told[0]]
        else:
            lines += [f"==== {title}", *text]
        earlier.append(title)
    commands = sorted(f"{line}    [{script.title}]" for script in found for line in script.commands)
    return {"scripts.txt": "\n".join(lines) + "\n", "commands.txt": "\n".join(commands) + "\n"}


def beside(one: list[str], other: list[str]) -> list[str]:
    """The differences between the lines of `one` and those of `other`."""
    found = []
    for what, begin, end, first, last in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if what == "insert" and begin:
            found.append(f" {one[begin - 1]}")
        if what != "equal":
            found += [*(f"-{line}" for line in one[begin:end]), *(f"+{line}" for line in other[first:last])]
    return found


def _title(lines: list[str]) -> str:
    """A script is named after its partition and a check that uses it: a probe, if there is one, since those stay."""
    partition, environment, check = min(lines, key=lambda line: (" Probe" not in line, line)).split(":")[0].split()
    return f"{partition} {environment} like {check}"


def _generalise(text: str, script: Path, folder: Path, check: str) -> tuple[str, str]:
    """The script without what differs between checks and machines, and its command."""
    text = text.replace(str(script.parent), "{stage}").replace(str(folder / "stage"), "{stages}")
    # a virtual environment may belong to another checkout
    if sys.prefix != sys.base_prefix:
        text = text.replace(str(Path(sys.executable).parent), "{root}/.venv/bin")
    text = text.replace(str(ROOT), "{root}")
    text = re.sub(r"-j \d+", "-j {jobs}", text)
    text = re.sub(r"tenken/[\w-]+/(\w{32}|build)\b", r"tenken/{session}/{token}", text)
    text = re.sub(r'tenken_programs="[^"]*"', 'tenken_programs="{programs}"', text)
    text = re.sub(r"^tenken_token=\w+$", "tenken_token={token}", text, flags=re.M)
    text = re.sub(rf'^(#.*(?:-N |--job-name="))(rfm_{check[:11]}\w*)', r"\1rfm_{check}", text, flags=re.M)
    text = re.sub(r"^(#PBS -N )tk[0-9a-z]{6}_\w+", r"\1{mark}_{check}", text, flags=re.M)
    # the program may run once before, to create what the command uses
    text = re.sub(r"\{stages\}/\S*/bin/", "bin/", text)
    match = _COMMAND.search(text)
    if match:
        return f"{text[: match.start('command')]}{{command}}{text[match.end('command') :]}", match["command"]
    if match := _RUN.search(text):
        return text, _foreign(text, match["run"])
    return text, "(build)"


def _foreign(text: str, run: str) -> str:
    """The command of a third-party binary: a function of the script is shown with its lines."""
    each = re.search(r"^tenken_run\(\) \{ (.*); \}$", text, re.M)
    if each and run.startswith(("tenken_each ", "tenken_xhpcg ")):
        return f"{run}; {'each ' if run.startswith('tenken_each') else ''}by: {each[1]}"
    body = re.search(rf"^{re.escape(run)}\(\) \{{\n(.*?)^\}}$", text, re.M | re.S)
    return "; ".join(line.strip() for line in body[1].splitlines()) if body else run


def write(name: str) -> None:
    """Write the golden files of a system."""
    with tempfile.TemporaryDirectory() as folder:
        found = files(scripts(name, Path(folder).resolve()))
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    for file, text in found.items():
        _write(name, file, text)
    if name == OF_MODES:
        # compared with the commands that were just written
        with tempfile.TemporaryDirectory() as folder:
            _write(name, "modes.txt", modes(name, Path(folder).resolve()))
            _write(name, "requests.txt", requests(Path(folder).resolve() / OF_REQUESTS))


def _write(name: str, file: str, text: str) -> None:
    (FOLDER / name / file).write_text(text, encoding="utf-8")
    print(FOLDER / name / file)


def show(name: str) -> None:
    """Print every distinct script of a system."""
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts(name, Path(folder).resolve()):
            print(f"==== {script.title}", script.text, sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        for one in sys.argv[2:]:
            show(one)
    else:
        for one in sys.argv[1:] or SYSTEMS:
            write(one)
