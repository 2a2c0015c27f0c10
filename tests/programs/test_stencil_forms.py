"""The stencil in each programming model: each verified, each able to fail, and the length of each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs.conftest import ROOT, Outcome
from tools import formulations

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
SMALL = ("--nx", "37", "--ny", "30", "--nz", "23", "--steps", "3", "--repetitions", "3", "--warmup-seconds", "0")
HOST = ("sequential", "openmp", "shared", "openacc")


@pytest.mark.parametrize("form", HOST)
def test_a_formulation_computes_the_same_cells_as_one_step_at_a_time(run: Run, form: str) -> None:
    outcome = run("stencil_forms", "--form", form, *SMALL)
    assert outcome.code == 0 and outcome.document is not None, outcome.stdout + outcome.stderr
    (cells,) = outcome.document["metrics"]
    parts = outcome.document["parameters"]["parts"]
    assert cells["subject"] == {"ranks": parts} and (parts == 1 or form in ("openmp", "shared"))
    small, large = outcome.document["verification"]["checks"]
    assert small["what"].startswith("9 steps of a small grid") and large["what"].startswith("every cell one step")
    assert small["tolerance"] == large["tolerance"] == small["error"] == large["error"] == 0
    assert outcome.document["path"].get("openacc_device") == ("host" if form == "openacc" else None)


@pytest.mark.parametrize("form", HOST)
def test_a_flipped_bit_fails_every_formulation(run: Run, form: str) -> None:
    outcome = run("stencil_forms", "--form", form, *SMALL, "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert re.match(r"verification: small\.host\.steps=9: .*\(element \d+, value ", outcome.document["reason"])


@pytest.mark.parametrize("parts", ["1", "3", "21"])
def test_any_number_of_processes_shares_the_grid(run: Run, parts: str) -> None:
    outcome = run("stencil_forms", "--form", "shared", "--parts", parts, *SMALL)
    assert outcome.code == 0 and outcome.document is not None, outcome.stdout + outcome.stderr
    assert outcome.document["parameters"]["parts"] == int(parts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--form", "upc"], "--form 'upc' is invalid; allowed: sequential, openmp, shared, openacc"),
        (["--form", "openmp", "--parts", "2"], "--parts '2' is invalid; allowed: 0 with --form openmp"),
        (["--form", "shared", "--parts", "22"], "--parts '22' is invalid; allowed: at most 21, the planes that change"),
        (["--nx", "1000000", "--ny", "1000000"], r"--nz '\d+' is invalid; allowed: one whose grid fits: requested \d"),
    ],
)
def test_a_wrong_argument_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    outcome = run("stencil_forms", *SMALL, *arguments)
    assert (outcome.code, outcome.document) == (2, None)
    assert re.match(f"stencil_forms: {message}", outcome.stderr), outcome.stderr


def cpus_of(process: str) -> str:
    status = Path(f"/proc/{process}/status").read_text()
    return re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.M)[1]  # type: ignore[index]


@pytest.mark.parametrize("binding", ["close", "false"])
def test_processes_have_cpus_each_and_one_that_dies_ends_the_run(build_dir: Path, tmp_path: Path, binding: str) -> None:
    """Started by a bound thread, all would share its CPU; and the others must not wait forever at the barrier."""
    command = [str(build_dir / "bin" / "stencil_forms"), "--form", "shared", "--parts", "3", "--json", "r.json"]
    size = ["--nx", "64", "--ny", "64", "--nz", "64", "--steps", "1000000", "--warmup-seconds", "0"]
    places = {"OMP_PROC_BIND": binding, "OMP_PLACES": "threads", "OMP_NUM_THREADS": "2"}
    process = subprocess.Popen(
        [*command, *size], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=os.environ | places
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    killed = False
    # those of the small grid last only milliseconds
    while not killed and time.monotonic() < deadline:
        first = children.read_text().split()
        time.sleep(0.3)
        again = children.read_text().split()
        if len(first) == 2 and first == again:
            allowed = {cpus_of(child) for child in first}
            os.kill(int(first[1]), signal.SIGKILL)
            killed = True
    out, _ = process.communicate(timeout=60)
    assert killed and process.returncode == 1
    assert out.splitlines()[-1] == "stencil_forms: failed: a process that shares the grid did not start or died"
    cpus = sorted(os.sched_getaffinity(0))
    if binding == "close" and len(cpus) > 1:
        assert len(allowed) == 2 and all(int(cpu) in cpus for cpu in allowed), allowed
    else:
        assert len(allowed) == 1


def test_lines_of_code_are_counted_without_comments_and_blanks() -> None:
    text = "// one\n\nint a;  // two\n/* three\n   four */\nint b; /* five */ int c;\n   \n#include <x>\n"
    assert formulations.lines_of(text) == 3


def test_the_table_of_lines_is_that_of_the_sources() -> None:
    document = (ROOT / "docs" / "stencil.md").read_text(encoding="utf-8")
    for name, lines in formulations.counted().items():
        ratio = lines / formulations.counted()["sequential"]
        assert f"| `{name}` | {lines} | {ratio:.2f} |" in document, f"python -m tools.formulations: {name} has {lines}"
