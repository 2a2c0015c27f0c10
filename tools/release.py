"""Checks that all statements of a release agree: `python -m tools.release 0.3.0`, before tagging.

pyproject.toml contains the version; CITATION.cff and CHANGELOG.md repeat it with the date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tenken.paths import ROOT

KINDS = ("Added", "Changed", "Fixed", "Removed", "Deprecated", "Security")


def version(root: Path = ROOT) -> str:
    """The current or next release of these sources."""
    found = re.findall(r'^version = "([^"]+)"$', (root / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    return str(found[0])


def problems(root: Path = ROOT, asked: str | None = None) -> list[str]:
    """Contradictions, one line each; with `asked` also what prevents tagging that release."""
    here = version(root)
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = []
    if asked is not None and asked != here:
        found.append(f"pyproject.toml: version is {here}, requested: {asked}")
    if not re.fullmatch(r"\d+\.\d+\.\d+", here):
        found.append(f"pyproject.toml: version {here!r} is not MAJOR.MINOR.PATCH")
    cited = re.findall(r"^version: (\S+)$", citation, re.M)
    if cited != [here]:
        found.append(f"CITATION.cff: version is {', '.join(cited) or 'missing'}, pyproject.toml has {here}")
    heads = re.findall(r"^## (.+)$", changes, re.M)
    if heads[:1] != ["Unreleased"]:
        found.append(f"CHANGELOG.md: the first section is {heads[0] if heads else 'missing'!r}, not 'Unreleased'")
    sections = {}
    for head in heads[1:]:
        match = re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", head)
        if not match:
            found.append(f"CHANGELOG.md: {head!r} is not of the form '0.2.0 - 2026-11-22'")
        else:
            sections[match[1]] = match[2]
    order = [tuple(map(int, name.split("."))) for name in sections]
    if order != sorted(order, reverse=True):
        found.append("CHANGELOG.md: releases are not newest first")
    if here not in sections:
        found.append(f"CHANGELOG.md: no section '{here} - DATE'")
    else:
        released = re.findall(r'^date-released: "?(\d{4}-\d\d-\d\d)"?$', citation, re.M)
        if released != [sections[here]]:
            found.append(f"CITATION.cff: date-released is {', '.join(released) or 'missing'}, "
                         f"CHANGELOG.md has {sections[here]}")  # fmt: skip
    for section in re.split(r"^## ", changes, flags=re.M)[2:]:
        name = section.splitlines()[0]
        kinds = re.findall(r"^### (.+)$", section, re.M)
        if not kinds or set(kinds) - set(KINDS) or len(set(kinds)) != len(kinds):
            found.append(
                f"CHANGELOG.md: {name} has {', '.join(kinds) or 'no kinds'}; allowed, each once: {', '.join(KINDS)}"
            )
    unreleased = re.split(r"^## ", changes, flags=re.M)[1:2]
    if asked is not None and unreleased and "\n- " in unreleased[0]:
        found.append("CHANGELOG.md: Unreleased is not empty: move its lines to the release")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.splitlines()[0])
    parser.add_argument("version", help="the release that is to be tagged, as 0.3.0")
    found = problems(asked=parser.parse_args(argv).version)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
