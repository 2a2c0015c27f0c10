"""A drill with a real program through the real ReFrame: the fault is detected, and the archive shows it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.commands import drill
from tenken.paths import ROOT

HERE = ("--system", "local", "--checks", str(ROOT / "tests" / "reframe" / "checks" / "doctored"), "-n", "^Built$")


def main(words) -> int:
    parser = argparse.ArgumentParser()
    drill.register(parser.add_subparsers())
    arguments = parser.parse_args(words)
    return arguments.func(arguments)


@pytest.fixture
def site(tmp_path, monkeypatch, build_dir) -> Path:
    """A user's shell: its own archive, ReFrame of this environment."""
    monkeypatch.setenv("TENKEN_ARCHIVE", str(tmp_path / "perflogs"))
    monkeypatch.setenv("TENKEN_TEST_PROGRAM", str(build_dir / "bin" / "daxpy"))
    monkeypatch.setenv("RFM_STAGE_DIR", str(tmp_path / "stage"))
    monkeypatch.setenv("RFM_OUTPUT_DIR", str(tmp_path / "output"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return tmp_path / "perflogs"


def test_a_flipped_bit_is_noticed_on_this_machine(site, capsys):
    code = main(["drill", *HERE])
    said = capsys.readouterr().out
    assert code == 0, said
    (record,) = archive.records(site)
    assert record.verdict == "FAIL" and record.request.parameters["inject_fault"] == "element"
    assert "element 999999, value" in said and "1 faults detected, 0 not" in said
    assert record.session in said and archive.last_session(site) is None


def test_a_program_that_makes_no_fault_is_told(site, capsys, monkeypatch, tmp_path, build_dir):
    """The honest twin: an installation whose verification detects nothing must not look drilled."""
    blind = tmp_path / "blind"
    blind.write_text(f'#!/bin/sh\nexec {build_dir}/bin/daxpy $(echo "$@" | sed s/--inject-fault.element//)\n')
    blind.chmod(0o755)
    monkeypatch.setenv("TENKEN_TEST_PROGRAM", str(blind))
    code = main(["drill", *HERE])
    assert code == 1 and "NOT NOTICED" in capsys.readouterr().out


def test_a_drill_is_not_silent(tmp_path, monkeypatch, capsys):
    """It printed nothing for as long as all checks of a machine take."""
    script = tmp_path / "reframe"
    lines = "[ \\033[32m      OK\\033[0m ] ( 2/18) A\\n[     FAIL ] ( 3/18) B\\n"
    script.write_text(f"#!/bin/sh\nprintf '{lines}'\nsleep 2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(drill, "SILENCE_S", 0.5)
    drill.rehearse("local", "quick", (), tmp_path, "s", tmp_path / "log")
    assert "running the checks" in (said := capsys.readouterr().out) and ", 3 of 18 ended" in said
    assert drill.ended(tmp_path / "none") == ""
