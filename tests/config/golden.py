"""Golden job scripts: what every check is to any scheduler, kept as text so that a changed line shows as a diff.

    python -m tests.config.golden [SYSTEM ...]      writes them anew (then read the diff)

For each system, `scripts.txt` holds every distinct script once, with {check}, {stage} and {command} where checks
differ, and `commands.txt` says which check runs which command in which script. A change of `scripts.txt` goes
together with a line of CHANGELOG.md that says why (test_golden.py).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from systems import loader
from tenken.paths import ROOT
from tests.support.reframe import reframe

FOLDER = Path(__file__).with_name("golden")
SYSTEMS = loader.names()


def variables(name: str) -> dict[str, str]:
    """Values for what a system requires of its user."""
    return {v.name: "gz00" for v in loader.load(name).variables.values() if v.required}


def render(name: str, folder: Path) -> dict[str, str]:
    """The golden files of a system by name, from a dry run with its stage in `folder`."""
    outcome = reframe(
        "-c", "tests/schedulers/probes", "--dry-run", "--system", name, "-T", "flexible",
        folder=folder, TENKEN_TEST_TIME_LIMIT="30m", **variables(name),
    )  # fmt: skip
    if outcome.code != 0:
        raise RuntimeError(outcome.output)
    users: dict[str, list[str]] = defaultdict(list)
    for script in sorted((folder / "stage").rglob("rfm_*.sh")):
        partition, environment, check = script.parent.relative_to(folder / "stage" / name).parts
        check = re.sub(r"_[0-9a-f]{8}$", "", check)
        if check == "NothingToBuild":
            continue
        text, command = _generalise(script.read_text(), script, folder, check)
        users[text].append(f"{partition} {environment} {check}: {command}")
    scripts, commands = [], []
    for title, text, lines in sorted((_title(lines), text, lines) for text, lines in users.items()):
        scripts.append(f"==== {title}\n{text}")
        commands += [f"{line}    [{title}]" for line in lines]
    return {"scripts.txt": "\n".join(scripts), "commands.txt": "\n".join(sorted(commands)) + "\n"}


def _title(lines: list[str]) -> str:
    """A script is called after its place and a check that uses it: a probe, if one does, for those stay."""
    partition, environment, check = min(lines, key=lambda line: (" Probe" not in line, line)).split(":")[0].split()
    return f"{partition} {environment} like {check}"


def _generalise(text: str, script: Path, folder: Path, check: str) -> tuple[str, str]:
    """The script with what differs from check to check and from machine to machine taken out, and its command."""
    text = text.replace(str(script.parent), "{stage}").replace(str(folder / "stage"), "{stages}")
    text = text.replace(str(ROOT), "{root}")
    text = re.sub(r"-j \d+", "-j {jobs}", text)
    text = re.sub(rf'^(#.*(?:-N |--job-name="))(rfm_{check[:11]}\w*)', r"\1rfm_{check}", text, flags=re.M)
    match = re.search(r"^(?P<launch>.*?)(?P<command>\S+/bin/\w+ .*|sh -c .*)$\n(?=tenken_status=)", text, re.M)
    if not match:
        return text, "(build)"
    command = re.sub(r"\{stages\}/\S*/bin/", "bin/", match["command"])
    script = f"{text[: match.start('command')]}{{command}}{text[match.end('command') :]}"
    # the program may run once before, to make what the command uses
    return re.sub(r"\{stages\}/\S*/bin/", "bin/", script), command


def write(name: str) -> None:
    """Write the golden files of a system."""
    with tempfile.TemporaryDirectory() as folder:
        files = render(name, Path(folder).resolve())
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (FOLDER / name / file).write_text(text, encoding="utf-8")
        print(FOLDER / name / file)


if __name__ == "__main__":
    for one in sys.argv[1:] or SYSTEMS:
        write(one)
