"""The output of NVIDIA's HPL-MxP, parsed and checked for consistency, and a program that prints it, through the
check."""

from __future__ import annotations

import pytest

from tenken.model import result as documents
from tenken.model import verdicts
from tenken.model.catalogue import program
from tenken.parsers import hpl_mxp as xhpl_mxp
from tenken.parsers.hpl import HplFormatError
from tests.support.judging import Expectation, judge

#: The lines are the program's, the figures invented: |A| |x| + |b| is 3, so 1.5e-13 over 2e-16 x 3 x 131072.
PRINTED = """\
HPL-MxP-NVIDIA 25.9.0  --  accelerated
 ****** HPL MxP Result    ******

   EPS           . . . . . . . . . . . . . . . . .          =    2.000000E-16
   Threshold     . . . . . . . . . . . . . . . . .          =    1.600000E+01
 ||Ax-b||_oo     . . . . . . . . . . . . . . . . .          =    1.500000E-13
 ||A   ||_oo     . . . . . . . . . . . . . . . . .          =    2.000000E+05
 ||x   ||_oo     . . . . . . . . . . . . . . . . .          =    1.000000E-05
 ||b   ||_oo     . . . . . . . . . . . . . . . . .          =    1.000000E+00
 ||Ax-b||_oo / (EPS * (||A||_oo * ||x||_oo + ||b||_oo) * N) =    1.907349E-03 ...... PASSED

   N = 131072, NB = 2048, NPROW = 1, NPCOL = 2, SLOPPY-TYPE = 2
      GFLOPS = 9.6000e+05, per GPU =  480000.00 ------ The HPL-MxP performance to report
   LU GFLOPS = 1.1000e+06, per GPU =  550000.00 ------ The performance excluding the iterative solver part

****** HPL MxP Result    ******
"""


def changed(old: str, new: str) -> str:
    assert old in PRINTED
    return PRINTED.replace(old, new)


def made(text: str = PRINTED, low: str = "fp16", n: int = 131072) -> dict:
    return xhpl_mxp.document(xhpl_mxp.parse(text), ["hpl-mxp.sh"], "nid001", ["nid001"], 2, n, 2048, 1, 2, low)


def verdict(raw: dict) -> tuple[str, str]:
    name = "lu_fp8" if raw["parameters"]["low"] == "fp8" else "hpl_mxp"
    expect = Expectation(subjects=("ranks",), metrics=(name, "residual"))
    found = judge(documents.validate(raw, "result.json"), program("hpl_mxp"), expect, exit_status=0)
    return found.verdict, found.message()


def test_one_block() -> None:
    found = xhpl_mxp.parse("srun: starting\r\n" + PRINTED)
    assert found.version == "HPL-MxP-NVIDIA 25.9.0"
    assert (found.n, found.nb, found.p, found.q, found.low) == (131072, 2048, 1, 2, "fp16")
    assert (found.gflops, found.lu_gflops, found.passed) == (960000, 1100000, True)
    # the rules' eps is 2^-53 = 1.1102e-16, the program's 2e-16: 1.907349e-3 x 2 / 1.11022302, by hand
    assert found.residual == pytest.approx(3.4360e-3, rel=1e-4)


def test_it_becomes_a_document_of_hpl_mxp() -> None:
    raw = made()
    rate, residual = raw["metrics"]
    assert (rate["id"], rate["value"]) == ("hpl_mxp.ranks2.grid=1x2.low=fp16.matrix=own.n=131072.nb=2048", 960.0)
    assert residual["name"] == "residual"
    assert verdict(raw) == (verdicts.RECORDED, "")


def test_eight_bits_are_never_called_hpl_mxp() -> None:
    raw = made(changed("SLOPPY-TYPE = 2", "SLOPPY-TYPE = 1"), "fp8")
    assert raw["metrics"][0]["name"] == "lu_fp8"
    with pytest.raises(HplFormatError, match=r"another problem was solved: format fp8 \(requested: fp16\)"):
        made(changed("SLOPPY-TYPE = 2", "SLOPPY-TYPE = 1"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hpl-mxp.sh: not found", "0 lines 'HPL MxP Result', 2 are required"),
        (PRINTED.rpartition("****** HPL")[0], "1 lines 'HPL MxP Result'"),
        (PRINTED + PRINTED, "4 lines"),
        (changed("   Threshold", "   Bound"), "Threshold: 0 lines of it, 1 is required"),
        (changed("SLOPPY-TYPE = 2", "SLOPPY-TYPE = 3"), "allowed: 1 (fp8), 2 (fp16)"),
        (changed("NPROW = 1", "NPROW = 0"), "none of them may be 0"),
        (changed("480000.00", "240000.00"), "GFLOPS = 960000 of 2 GPUs and 240000 per GPU are inconsistent"),
        (changed("9.6000e+05, per GPU =  480000.00", "inf, per GPU = inf"), "not finite"),
        (changed("1.1000e+06, per GPU =  550000.00", "9.0000e+05, per GPU = 450000.00"), "is above LU GFLOPS"),
        (changed("   LU GFLOPS", "   XX GFLOPS"), "a line LU GFLOPS"),
        # the printed figure agrees with the printed norms
        (changed("1.907349E-03", "1.807349E-03"), "does not follow from its norms: 0.00190735"),
        (changed("1.500000E-13", "2.500000E-13"), "does not follow"),
        (changed("...... PASSED", "......"), "the scaled residual: 0 lines"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(text: str, says: str) -> None:
    with pytest.raises(HplFormatError) as raised:
        xhpl_mxp.parse(text)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        (PRINTED, True),
        (changed("PASSED", "FAILED"), False),
        # 10 by the program's eps and PASSED; 18 by that of the rules
        (changed("1.500000E-13", "7.864320E-10").replace("1.907349E-03", "1.000000E+01"), False),
        (changed("1.500000E-13", "nan").replace("1.907349E-03", "nan"), False),
    ],
)
def test_a_residual_above_sixteen_fails_whatever_the_program_says(text: str, passed: bool) -> None:
    raw = made(text)
    found, says = verdict(raw)
    assert (found == verdicts.RECORDED) is passed, says
    assert passed or (found == verdicts.FAIL and "scaled residual as HPL-MxP-NVIDIA 25.9.0 says" in says)


@pytest.mark.parametrize(
    ("n", "says"), [(131072, None), (65536, r"another problem was solved: N 131072 \(requested: 65536\)")]
)
def test_the_problem_is_the_one_that_was_asked(n: int, says: str | None) -> None:
    if says is None:
        made(n=n)
        return
    with pytest.raises(HplFormatError, match=says):
        made(n=n)


def test_options_of_its_script() -> None:
    assert xhpl_mxp.options("hpl-mxp.sh", 131072, 2048, 2, 2, "fp16") == (
        "--n 131072 --nb 2048 --nprow 2 --npcol 2 --nporder row --sloppy-type 2 --gpu-affinity 0:1:2:3"
    )
    assert xhpl_mxp.options("/opt/rochplmxp", 179200, 2560, 2, 1, "fp16") == "-P 2 -Q 1 -N 179200 -NB 2560"
    assert xhpl_mxp.options("run_rochplmxp", 179200, 2560, 2, 1, "fp16").endswith(" --NB 2560")
    assert "--sloppy-type 1" in xhpl_mxp.options("hpl-mxp.sh", 1, 1, 1, 1, "fp8")
