"""The parsers of HPL's outputs, and hpcc for real through the check.

The lines are those that netlib's HPL_pdtest.c and HPL_pdinfo.c print; NVIDIA's add the rate of one GPU in brackets. The
figures are invented.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from tenken.parsers import hpl as xhpl
from tests.support import debian
from tests.support.reframe import Outcome, reframe

NETLIB = """\
================================================================================
HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
================================================================================
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR11C2R4       29184   192     2     2              37.85             4.3797e+02
HPL_pdgesv() start time Sat Nov 21 13:00:00 2026
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.21445012e-03 ...... PASSED
================================================================================

Finished      1 tests with the following results:
              1 tests completed and passed residual checks,
              0 tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
--------------------------------------------------------------------------------
End of Tests.
"""
NVIDIA = NETLIB.replace("HPLinpack 2.3", "HPL-NVIDIA 24.3.0").replace(
    "WR11C2R4       29184   192     2     2              37.85             4.3797e+02",
    "WC0            29184   192     2     2               0.38              4.380e+04 ( 1.095e+04)",
)
OLD = NETLIB.replace("3.21445012e-03", "       0.0083945").replace("4.3797e+02", " 4.380e+02")


HEAD = """\
- The matrix A is randomly generated for each test.
- The following scaled residual check will be computed:
      ||Ax-b||_oo / ( eps * ( || x ||_oo * || A ||_oo + || b ||_oo ) * N )
- The relative machine precision (eps) is taken to be               1.110223e-16
"""


def test_the_head_that_explains_the_residual_is_no_residual() -> None:
    first, rest = NETLIB.split("T/V", 1)
    assert xhpl.parse(f"{first}{HEAD}T/V{rest}") == xhpl.parse(NETLIB)


def test_a_residual_that_is_only_explained_is_missing() -> None:
    line = next(one for one in NETLIB.splitlines() if one.startswith("||Ax-b||"))
    with pytest.raises(xhpl.HplFormatError, match="no residual after the line 'WR11C2R4"):
        xhpl.parse(NETLIB.replace(line, line.split("=")[0]))


def test_nvidia_prints_the_rate_of_a_gpu_besides() -> None:
    output = xhpl.parse(NVIDIA)
    assert output.version == "HPL-NVIDIA 24.3.0" and output.results[0].gflops == 43800


def test_an_older_residual_without_an_exponent() -> None:
    assert xhpl.parse(OLD).results[0].residual == pytest.approx(0.0083945)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("xhpl: command not found", "the output begins 'xhpl: command not found'"),
        (NETLIB.split("WR11")[0], "no result line"),
        (NETLIB.replace("4.3797e+02", "       nan"), "the rate of N=29184 is nan"),
        (NETLIB.replace("4.3797e+02", "0.0000e+00"), "not finite, or not above 0"),
        (NETLIB.replace("WR11C2R4       29184", "WR11C2R4       2918x"), "no result line"),
    ],
)
def test_what_is_not_hpl_is_refused(text: str, says: str) -> None:
    with pytest.raises(xhpl.HplFormatError) as raised:
        xhpl.parse(text)
    assert says in str(raised.value)


# -- through the check ----------------------------------------------------------------------------------------


def run(folder: Path, check: str, **env: str) -> Outcome:
    more = {"OMP_NUM_THREADS": "1", **env}
    return reframe(
        "-r", "--system", "local", "-n", f"^{check}$", "-S", "tenken_mode=quick", folder=folder, checks="checks/hpl.py",
        **more,
    )  # fmt: skip


@pytest.fixture(scope="session")
def hpcc() -> None:
    """Debian's package, installed if it is missing."""
    debian.need(*debian.HPCC)
    assert shutil.which("hpcc"), "the package hpcc brings no program hpcc"


@pytest.mark.build
@pytest.mark.slow
def test_hpcc_for_real(hpcc: None, tmp_path: Path) -> None:
    outcome = run(tmp_path, "HplHpcc")
    assert outcome.code == 0, outcome.output
    (record,) = outcome.records
    assert record.verdict == "RECORDED" and record.result is not None
    assert str(record.result.path["implementation"]).startswith("HPCC 1.5.")
    (rate,) = [m for m in record.result.metrics if m.name == "hpl"]
    assert dict(rate.at) == {"grid": "1x1", "n": 2000, "nb": 192} and rate.value > 0


#: hpcc instead of xhpl: its HPL.dat has a few more lines, and it writes a file.
XHPL_BY_HPCC = """\
#!/bin/sh
{ cat HPL.dat; printf 'separator\\n0 sizes\\n1200 N\\n0 blocks\\n40 NB\\n'; } > hpccinf.txt
hpcc && cat hpccoutf.txt
"""


@pytest.mark.build
@pytest.mark.slow
def test_the_hpl_of_hpcc_in_the_place_of_xhpl(hpcc: None, tmp_path: Path) -> None:
    """A real program through HplOther: with its own HPL.dat, parsed from its standard output."""
    script = tmp_path / "xhpl"
    script.write_text(XHPL_BY_HPCC)
    script.chmod(0o755)
    # as after `make run` has put an MPI into the virtual environment, which hpcc does not use
    venv = str(tmp_path / "venv")
    ours = {"VIRTUAL_ENV": venv, "OPAL_PREFIX": f"{venv}/mpi", "OMPI_MCA_pml": "ucx"}
    outcome = run(tmp_path, "HplOther", TENKEN_XHPL=str(script), **ours)
    assert outcome.code == 0, outcome.output
    (record,) = outcome.records
    assert record.verdict == "RECORDED" and record.result is not None
    assert str(record.result.path["implementation"]).startswith("HPCC 1.5.")
    (rate,) = [m for m in record.result.metrics if m.name == "hpl"]
    assert dict(rate.at) == {"grid": "1x1", "n": 2000, "nb": 192} and rate.value > 0


def stand_in(folder: Path, text: str) -> str:
    """A program that prints `text` for any HPL.dat."""
    folder.mkdir(exist_ok=True)
    (folder / "printed").write_text(text)
    script = folder / "xhpl"
    script.write_text(f"#!/bin/sh\ncat {folder / 'printed'}\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.sessions
@pytest.mark.build
@pytest.mark.slow
@pytest.mark.parametrize("case", ["good", "rounded", "failed", "cut", "other", "missing"])
def test_a_sites_xhpl_through_the_check(tmp_path: Path, case: str) -> None:
    line = "WR11C2R4        2000   192     1     1               0.85             6.2797e+00"
    good = NETLIB.replace(next(one for one in NETLIB.splitlines() if one.startswith("WR11")), line)
    texts = {
        "good": good,
        "rounded": "[WARNING] Change Input N 2000 to 1920\n"
        + good.replace("2000   192", "1920   192").replace("6.2797e+00", "5.5578e+00"),
        "failed": good.replace("PASSED", "FAILED"),
        "cut": good.split("||Ax-b||")[0],
        "other": good.replace("2000   192", "2048   192").replace("6.2797e+00", "6.7446e+00"),
        "missing": "",
    }
    command = "/nowhere/xhpl" if case == "missing" else stand_in(tmp_path / "bin", texts[case])
    outcome = run(tmp_path, "HplOther", TENKEN_XHPL=command)
    (record,) = outcome.records
    text = " ".join(f.message for f in record.findings)
    expected = {"good": "RECORDED", "rounded": "RECORDED", "missing": "WAIVED"}.get(case, "FAIL")
    assert record.verdict == expected, text
    says = {
        "failed": "scaled residual as HPLinpack 2.3 says failed",
        "cut": "no residual after the line 'WR11C2R4",
        "other": "another problem was solved: N 2048 (requested: 2000)",
        "missing": "library missing: no /nowhere/xhpl (TENKEN_XHPL may name one)",
    }
    assert says.get(case, "") in text
    assert (outcome.code == 0) == (case in ("good", "rounded", "missing"))
    printed = record.path.with_suffix(".tenken-output.txt").read_bytes()
    assert texts[case].encode() in printed
    assert record.job.facts["sha256"] == {"tenken-output.txt": hashlib.sha256(printed).hexdigest()}
