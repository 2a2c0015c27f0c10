"""Outputs of third-party programs that contain more, less or other text than they should: refused or failed, never
ignored. Those that a check can judge are in tests/unit/judge/test_foreign_outputs.py."""

from __future__ import annotations

from typing import Any

import pytest

from tenken.parsers import hpcg, hpl, osu
from tests.reframe.checks.test_hpcg import REPORT
from tests.reframe.checks.test_xhpl import NETLIB, NVIDIA, OLD

# ---- OSU


def rows(*lines: str) -> str:
    return "# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)        Validation\n" + "".join(
        f"{x}\n" for x in lines
    )


OSU = {
    "not a number": (rows("1 2.5 Pass", "4 nan Pass"), "'nan' is not a number"),
    "infinite": (rows("1 2.5 Pass", "4 inf Pass"), "'inf' is not a number"),
    "another word": (rows("1 2.5 Pass", "4 2.6 PASSED"), "'PASSED' is not a number"),
    "no figure": (rows("1 2.5 Pass", "4 Pass"), "has no column 2"),
    "a size alone": (rows("1 2.5 Pass", "4"), "has no column 2"),
    "a size with a point": (rows("1 2.5 Pass", "4.5 2.6 Pass"), "is not a size in bytes"),
    "a negative size": (rows("1 2.5 Pass", "-4 2.6 Pass"), "is not a size in bytes"),
    "a size of 400 digits": (rows("1 2.5 Pass", "4" * 400 + " 2.6 Pass"), "is not a size in bytes"),
    "no size": (rows("1 2.5 Pass", "nan 2.6 Pass"), "is not a size in bytes"),
    "digits of another script": (rows("1 2.5 Pass", "4 ٢.٦ Pass"), "is not a number"),
    "validation of some": (rows("1 2.5 Pass", "4 2.6", "8 2.7 Pass"), "the size 4 has no Pass or Fail"),
    "a size twice": (rows("1 2.5 Pass", "4 2.6 Pass", "4 2.7 Pass"), "two outputs are mixed"),
    "from the beginning again": (rows("1 2.5 Pass", "4 2.6 Pass") + rows("1 2.5 Pass"), "two outputs in one"),
    "two ranks' lines mixed": (rows("1 2.5 Pass", "4 2.6 Pass", "1 2.5 Pass"), "the size 1 follows 4"),
    "two lines in one": (rows("1 2.5 Pass 4 2.6 Pass"), "is not a number"),
}


@pytest.mark.parametrize("name", OSU)
def test_a_line_of_osu_that_cannot_be_read_refuses_the_output(name: str) -> None:
    text, says = OSU[name]
    with pytest.raises(osu.OsuFormatError) as raised:
        osu.parse("osu_latency", text)
    assert says in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 300


# ---- HPL

ROW = "WR11C2R4       29184   192     2     2              37.85             4.3797e+02"
RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.21445012e-03 ...... PASSED\n"
THREE = "".join(
    f"||Ax-b||_oo / ( eps * {name} * N ) =        0.0{i} ...... PASSED\n"
    for i, name in enumerate(("||A||_1", "||A||_1  * ||x||_1", "||A||_oo * ||x||_oo"), 1)
)
HPL1 = NETLIB.replace("HPLinpack 2.3", "HPLinpack 1.0a").replace(RESIDUAL, THREE)
SECTION = f"Begin of HPL section.\n{NETLIB}End of HPL section.\n"
HPCC = (
    "########################################################################\nThis is the DARPA/DOE HPC Challenge "
    "Benchmark version 1.5.0 October 2012\n{}Begin of Summary section.\nVersionMajor=1\nSuccess=1\n"
)


def of_hpl(text: str) -> dict[str, Any]:
    return hpl.document(hpl.parse(text), "xhpl", ["xhpl"], "nid1", ["nid1"], 4, 29184, 192, 2, 2)


HPL = {
    "negative time": (NETLIB.replace(" 37.85", "-37.85"), "took -37.85 s"),
    "infinite time": (NETLIB.replace("37.85", "  inf"), "took inf s"),
    "a time of a moment": (NETLIB.replace("37.85             4.3797e+02", "0.01             5.0000e+09"), "are "
    "printed"),
    "a residual that cannot be read": (NETLIB.replace("3.21445012e-03", "3.2144501x-03"), "cannot be read"),
    "a verdict that cannot be read": (NETLIB.replace("...... PASSED", "...... "), "cannot be read"),
    "a residual of nothing": (NETLIB.replace(ROW, ""), "belongs to no result line"),
    "a second result without a residual": (NETLIB.replace(ROW, f"{ROW}\n{ROW}"), "no residual after the line"),
    "a second output that is cut": (NETLIB + NETLIB.split("Finished")[0], "no line 'Finished ... tests'"),
    "huge numbers": (NETLIB.replace("29184   192", "2" * 5000 + "   192"), "belongs to no result line"),
    "hpcc without a section": (HPCC.format(""), "no title 'HPLinpack"),
    "hpcc, a section cut short": (HPCC.format(SECTION.replace("End of", "end of")), "no HPL section"),
    "hpcc, the second section cut": (HPCC.format(SECTION + SECTION.split("Finished")[0]), "no HPL section"),
    "hpcc, the second without results": (
        HPCC.format(f"{SECTION}Begin of HPL section.\nEnd of HPL section.\n"), "no problem was solved"),
    "hpcc, end before begin": (
        HPCC.format(f"End of HPL section.\n{NETLIB}Begin of HPL section.\n"), "no HPL section"),
    "hpcc, two runs in one file": (HPCC.format(SECTION + SECTION), "2 results; one problem was requested"),
}  # fmt: skip


@pytest.mark.parametrize("name", HPL)
def test_an_output_of_hpl_that_does_not_fit_is_refused(name: str) -> None:
    text, says = HPL[name]
    with pytest.raises(hpl.HplFormatError) as raised:
        of_hpl(text)
    assert says in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 300


BAD = {
    "the second residual failed": HPL1.replace("0.02 ...... PASSED", "20.2 ...... FAILED"),
    "the third residual is said to have failed": HPL1.replace("0.03 ...... PASSED", "0.03 ...... FAILED"),
    "the second residual is above the threshold": HPL1.replace("0.02 ......", "16.5 ......"),
    "the last residual is not a number": HPL1.replace("0.03 ......", "nan ......"),
    "a second residual behind the first": NETLIB.replace(RESIDUAL, RESIDUAL + RESIDUAL.replace("PASSED", "FAILED")),
    "a negative residual": NETLIB.replace("  3.21445012e-03", " -3.21445012e-03"),
    "the second section of hpcc": HPCC.format(SECTION + SECTION.replace("3.21445012e-03", "3.21445012e+03")),
}


@pytest.mark.parametrize("name", BAD)
def test_every_residual_of_every_section_counts(name: str) -> None:
    found = hpl.parse(BAD[name]).results
    assert not all(one.passed and one.residual <= hpl.THRESHOLD for one in found)


def test_honest_outputs_of_hpl_are_read() -> None:
    for text in (NETLIB, NVIDIA, OLD, HPL1, HPCC.format(SECTION), HPCC.format(f"Begin of PTRANS section.\n{SECTION}")):
        (one,) = hpl.parse(text).results
        assert one.passed and of_hpl(text)["verification"]["passed"]
    assert [one.residual for one in hpl.parse(HPL1).results] == [0.03]
    failed = (
        NETLIB.replace("3.21445012e-03 ...... PASSED", "2.2e+01 ...... FAILED")
        .replace("1 tests completed and passed", "0 tests completed and passed")
        .replace("0 tests completed and failed", "1 tests completed and failed")
    )
    parts = failed.replace("\n====\n\nFinished", "\n||Ax-b||_oo  . . . . . . . . . . . . . . . . . =  0.02\n\nFinished")
    assert of_hpl(parts)["verification"]["passed"] is False


# ---- HPCG


def of_hpcg(text: str) -> dict[str, Any]:
    return hpcg.document(hpcg.parse(text), "nid1", ["nid1"], "xhpcg", {"implementation": "xhpcg"})


OTHER = REPORT.replace("HPCG-Benchmark\nversion=3.1", "VENDOR-HPCG\nversion=24.3.0")
HPCG = {
    "two reports, the second better": (REPORT + REPORT.replace("=230", "=460").replace("=210", "=420"), "two reports"),
    "of two implementations": (REPORT + OTHER, "two reports in one text"),
    "VALID and INVALID": (REPORT + "Final Summary::HPCG result is=INVALID.\n", "both VALID and INVALID"),
    "another title": (REPORT.replace("HPCG-Benchmark", "STREAM-Benchmark"), "unknown implementation"),
    "no version": (REPORT.replace("version=3.1", "version="), "unknown implementation"),
    "ranks beyond counting": (REPORT.replace("Processes=2", "Processes=1e300"), "whole numbers, 1 or above"),
    "half a point": (REPORT.replace("nx=256", "nx=255.5"), "whole numbers, 1 or above"),
    "no threads": (REPORT.replace("per processes=8", "per processes=0"), "whole numbers, 1 or above"),
}  # fmt: skip


@pytest.mark.parametrize("name", HPCG)
def test_a_report_that_is_not_one_is_refused(name: str) -> None:
    text, says = HPCG[name]
    with pytest.raises(hpcg.HpcgFormatError) as raised:
        of_hpcg(text)
    assert says in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 300


def test_another_implementation_is_read_by_its_form_and_named() -> None:
    made = of_hpcg(OTHER)
    assert (made["version"], made["path"]["implementation"]) == ("VENDOR-HPCG 24.3.0", "VENDOR-HPCG 24.3.0")
    assert of_hpcg(REPORT)["version"] == "HPCG 3.1"
    assert [m["value"] for m in made["metrics"]] == [m["value"] for m in of_hpcg(REPORT)["metrics"]]
    levels = "".join(f"Multigrid Information::Coarse Grids::Grid Level={i}\n" for i in (1, 2, 3))
    assert of_hpcg(REPORT.replace("Setup Information", levels + "Setup Information", 1))["status"] == "ok"
