"""Outputs as programs, launchers and wrappers print them, one file of each kind in tests/data/outputs.

The files are made up from lines of public outputs and of the programs' sources; the figures are invented. The correct
result of each was worked out by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenken.errors import TenkenError
from tenken.parsers import hpcg, hpl, hpl_mxp, nccl_tests, osu, printed, stream
from tenken.paths import ROOT
from tests.support.nccl_tests import output as nccl_output

OUTPUTS = ROOT / "tests" / "data" / "outputs"


def kept(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text(encoding="utf-8")


def of_hpl(text: str, **asked: int) -> Any:
    (one,) = hpl.parse(text).results
    return one


def of_nccl(text: str) -> Any:
    return nccl_tests.parse("all_reduce_perf", text)


# ---- what is read


def test_the_report_of_the_reference_is_read_as_it_writes_it() -> None:
    report = hpcg.parse(kept("hpcg-reference"))
    assert (report.version, report.number(hpcg.VALID), report.ranks, report.local) == (
        "HPCG 3.1", 12.5231, 4, (104, 104, 104),
    )  # fmt: skip
    assert hpcg.document(report, "n", ["n"], "xhpcg", {})["status"] == "ok"
    # NVIDIA's has the same title; its first lines identify it
    assert hpcg.parse(kept("hpcg-nvidia")).version == "NVIDIA's HPCG 3.1"
    invalid = hpcg.document(hpcg.parse(kept("hpcg-invalid")), "n", ["n"], "xhpcg", {})
    assert invalid["status"] == "failed" and not invalid["verification"]["passed"]


def test_the_height_of_a_rank_follows_from_the_grid_in_nvidias_report() -> None:
    text = kept("hpcg-nvidia")
    report = hpcg.parse(text)
    assert "Local Domain Dimensions::nz" not in report.lines and report.local == (256, 256, 256)
    stated = text.replace("########## Problem", "Local Domain Dimensions::nz=256\n########## Problem")
    assert hpcg.parse(stated).local == (256, 256, 256)
    with pytest.raises(hpcg.HpcgFormatError, match="Global nz=257 is not a multiple of Processor Dimensions::npz=4"):
        _ = hpcg.parse(
            text.replace("Global nz=256", "Global nz=257").replace("npx=4", "npx=1").replace("npz=1", "npz=4")
        ).local
    # the reference always writes it
    cut = kept("hpcg-reference").replace("Local Domain Dimensions::nz=104\n", "")
    with pytest.raises(hpcg.HpcgFormatError, match="has no line 'Local Domain Dimensions::nz='"):
        _ = hpcg.parse(cut).local


@pytest.mark.parametrize(("old", "new", "says"), [
    ("rating of=0.0998869", "rating of=0.0499435", "rating of=0.0499435; GFLOP/s Summary::Total with conv"),
    ("and optimization phase overhead=0.0998869", "and optimization phase overhead=0.0898982", "rating of=0.0998869; "),
    ("Optimized CG iterations per set=50", "Optimized CG iterations per set=100", "of 100 iterations in place of 50"),
    ("Optimized CG iterations per set=50", "Optimized CG iterations per set=5", "of 5 iterations in place of 50"),
])  # fmt: skip
def test_the_rating_follows_from_what_is_printed_before_it(old: str, new: str, says: str) -> None:
    text = kept("hpcg-reference-built")
    assert hpcg.parse(text).number(hpcg.VALID) == 0.0998869 and old in text
    with pytest.raises(hpcg.HpcgFormatError, match=re.escape(says)):
        hpcg.parse(text.replace(old, new))


def test_a_report_without_operations_may_not_claim_the_impossible() -> None:
    text = "".join(line for line in kept("hpcg-reference").splitlines(True) if "Operations" not in line)
    assert hpcg.parse(text).valid
    with pytest.raises(hpcg.HpcgFormatError, match=r"Raw Total: 3\.19465e\+06 GFLOP/s per process is impossible"):
        hpcg.parse(text.replace("Raw Total=12.7786", "Raw Total=12778600"))


def test_the_time_and_the_rate_of_hpl_are_not_interchangeable() -> None:
    text = kept("hpl-netlib")
    assert "61.37         6.9528e+02" in text
    with pytest.raises(hpl.HplFormatError, match=r"the time 6\.9528e\+02 has an exponent, the rate 61\.37 none"):
        hpl.parse(text.replace("61.37         6.9528e+02", "6.9528e+02         61.37"))
    for kind in ("hpl-netlib", "hpl-nvidia"):
        with pytest.raises(hpl.HplFormatError, match="the last column is 'Tflops'; required: Gflops"):
            hpl.parse(re.sub(r"(Time +)Gflops", r"\1Tflops", kept(kind)))
    nvidias = kept("hpl-nvidia")
    assert "50.86       3.311e+04 ( 1.656e+04)" in nvidias
    for wrong in ("50.86       3.311e+04 ( 3.311e+04)", "50.86       3.311e+04 ( 1.656e+03)"):
        with pytest.raises(hpl.HplFormatError, match=r"Gflops of 2 x 1 GPUs and \(.*\) of one are inconsistent"):
            hpl.parse(nvidias.replace("50.86       3.311e+04 ( 1.656e+04)", wrong))


def test_amds_zen_hpl_names_the_swap_before_n() -> None:
    """As the jobs of anuhpc2025/HPC-Xenon-Cluster print it (output/HPL/Ayush)."""
    netlibs = kept("hpl-netlib")
    text = netlibs.replace("HPLinpack 2.3", "AMD Zen HPL 2024_10_08\nDerived from:\nHPLinpack 2.3", 1)
    for old, new in (("T/V       ", "T/V    SWP"), ("WR11C2R4       ", "WRC22C2C4o 002 ")):
        assert old in text
        text = text.replace(old, new)
    assert hpl.parse(text).version == "AMD Zen HPL 2024_10_08"
    (one,), (same,) = hpl.parse(text).results, hpl.parse(netlibs).results
    assert one == replace(same, variant="WRC22C2C4o")
    with pytest.raises(hpl.HplFormatError, match="the last column is 'Tflops'; required: Gflops"):
        hpl.parse(re.sub(r"(Time +)Gflops", r"\1Tflops", text))
    with pytest.raises(hpl.HplFormatError, match="belongs to no result line"):
        hpl.parse(text.replace(" 002 ", " 1.5 "))


@pytest.mark.parametrize("solver", ["HPLMXP", "HPLAI"])
def test_a_solver_in_mixed_precision_is_not_hpl(solver: str) -> None:
    """AMD's HPL-MxP has HPL's title, columns and residual; its rates are those of FP16."""
    with pytest.raises(hpl.HplFormatError, match=f"solved by {solver}_pdgesv, in mixed precision"):
        hpl.parse(kept("hpl-netlib").replace("HPL_pdgesv", f"{solver}_pdgesv").replace("WR11C2R4", "WR1"))


def test_hpl_ai_is_neither_hpl_nor_hpl_mxp() -> None:
    """Lines of NVIDIA's 20.10 to 23.5, whose first rate is that of the LU in FP16; the figures are invented."""
    text = (
        "HPL-AI-NVIDIA 23.5.0  -- High-Performance Mixed Precision benchmark -- NVIDIA\n"
        "         T/V                N    NB     P     Q               Time                 Gflops          Refine\n"
        "HPL_AI   WR01C2R4       95000   128     2     1              13.70              4.170e+04         6.60000\n"
        "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=       1.690000E-03 ...... PASSED\n"
    )
    for printed_before in ("", hpl.dat(95000, 128, 2, 1)):
        with pytest.raises(hpl.HplFormatError, match="solved by HPL_AI, in mixed precision"):
            hpl.parse(printed_before + text)
        with pytest.raises(hpl.HplFormatError, match="solved by HPL_AI, which does not state its format"):
            hpl_mxp.parse(printed_before + text)


@pytest.mark.parametrize(("name", "version"), [("hpl-netlib", "HPLinpack 2.3"), ("hpl-nvidia", "HPL-NVIDIA 24.3.0")])
def test_an_input_file_that_the_job_printed_is_no_title(name: str, version: str) -> None:
    assert hpl.parse(hpl.dat(40000, 256, 2, 4) + kept(name)).version == version
    with pytest.raises(hpl.HplFormatError, match="no title 'HPLinpack <version>'"):
        hpl.parse(hpl.dat(40000, 256, 2, 4))


def as_yaml(title: str, text: str) -> str:
    """A report as HPCG 3.0 writes it: the same keys, indented."""
    lines = [title]
    for line in text.splitlines()[2:]:
        key, _, value = line.partition("=")
        parts = key.split("::")
        name = "__________ Final Summary __________" if parts[-1] == "Final Summary" else parts[-1]
        lines.append(f"{'  ' * (len(parts) - 1)}{name}: {value}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("title", "version"), [
    ("HPCG-Benchmark version: 3.0", "HPCG 3.0"),
    ("n104-4p-4t version: V3.0", "Intel's HPCG 3.0"),
])  # fmt: skip
def test_a_report_in_yaml_has_the_same_keys(title: str, version: str) -> None:
    text = as_yaml(title, kept("hpcg-reference"))
    assert "  Result: PASSED" in text
    for shown in (
        text,
        "HPCG result is VALID with a GFLOP/s rating of 12.523100\n" + text + "Call [0] Residual [1e-9]\n",
    ):
        report = hpcg.parse(shown)
        assert (report.version, report.number(hpcg.VALID), report.valid) == (version, 12.5231, True)
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    assert hpcg.parse(indented).lines == hpcg.parse(text).lines
    with pytest.raises(hpcg.HpcgFormatError, match="two reports in one text"):
        hpcg.parse(text + text)


def of_intels_31(name: str) -> str:
    """A report as Intel's 3.1 writes it: the run as its title, a V before the version, blanks in the last section."""
    return (
        kept(name)
        .replace("HPCG-Benchmark\nversion=3.1", "n104-4p-4t\nversion=V3.1")
        .replace("Final Summary", " Final Summary ")
        .replace("HPCG 2.4 rating for historical reasons", "    HPCG 2.4 Rating (for historical value)")
    )


def test_intels_report_of_3_1_has_blanks_around_its_last_section() -> None:
    report = hpcg.parse("HPCG result is VALID with a GFLOP/s rating of 12.523100\n" + of_intels_31("hpcg-reference"))
    assert (report.version, report.number(hpcg.VALID), report.valid) == ("Intel's HPCG 3.1", 12.5231, True)
    assert hpcg.document(report, "n", ["n"], "xhpcg", {})["status"] == "ok"
    invalid = hpcg.document(hpcg.parse(of_intels_31("hpcg-invalid")), "n", ["n"], "xhpcg", {})
    assert invalid["status"] == "failed" and not invalid["verification"]["passed"]
    with pytest.raises(hpcg.HpcgFormatError, match="two reports in one text"):
        hpcg.parse(of_intels_31("hpcg-reference") * 2)


def test_parts_of_the_processes_along_z_repeat_their_points() -> None:
    text = kept("hpcg-reference")
    part = "Local Domain Dimensions::Lower ipz=1\nLocal Domain Dimensions::Upper ipz=1\nLocal Domain Dimensions::nz="
    two = text.replace("########## Problem", f"{part}104\n########## Problem")
    assert hpcg.parse(two).local == (104, 104, 104)
    with pytest.raises(hpcg.HpcgFormatError, match="104 and 56: parts of different heights"):
        hpcg.parse(two.replace(f"{part}104", f"{part}56"))


@pytest.mark.parametrize(("name", "read", "expected"), [
    ("hpl-netlib", of_hpl, ("gflops", 695.28)),
    ("hpl-nvidia", of_hpl, ("residual", 0.000342665054)),
    ("hpl-amd", of_hpl, ("residual", 2.15e-05)),
    ("hpl-indented", of_hpl, ("residual", 0.0024119)),
    ("hpl-labelled", of_hpl, ("residual", 0.0024119)),
    ("mxp-format-by-name", hpl_mxp.parse, ("low", "fp16")),
    ("mxp-amd", hpl_mxp.parse, ("gflops", 226300.0)),
    ("nccl-log-lines", lambda text: of_nccl(text).points[-1], ("busbw", 0.89)),
    ("nccl-labelled", lambda text: of_nccl(text).points[-1], ("busbw", 0.89)),
    ("nccl-error-column", lambda text: of_nccl(text).points[-1], ("busbw", 45.46)),
    ("nccl-reduced", lambda text: of_nccl(text).points[-1], ("bytes", 4294967296)),
    ("osu-latency", lambda text: osu.parse("osu_latency", text).points[-1], ("value", 469.03)),
    ("osu-log-lines", lambda text: osu.parse("osu_latency", text).points[-1], ("value", 469.03)),
])  # fmt: skip
def test_a_kept_output_is_read(name: str, read: Callable[[str], Any], expected: tuple[str, Any]) -> None:
    assert getattr(read(kept(name)), expected[0]) == expected[1]


def test_a_rate_that_rounds_to_zero_follows_from_its_time() -> None:
    output = of_nccl(kept("nccl-from-8-bytes"))
    assert len(output.points) == 36
    first = output.points[0]
    assert (first.bytes, first.busbw) == (8, pytest.approx(8 / 15.01 / 1e3))  # two ranks: the factor is 1
    # ... and only there
    for old, new in (
        ("1180.53    0.89    0.89", "1180.53    0.00    0.00"),
        ("0.89    0.89       0\n", "0.89    0.00       0\n"),
    ):
        with pytest.raises(nccl_tests.NcclTestsFormatError, match="gives"):
            of_nccl(kept("nccl-from-8-bytes").replace(old, new, 1))


def test_amds_fork_is_named() -> None:
    """As oracle-quickstart/oci-hpc-oke shows it of MI300X."""
    text = kept("nccl-from-8-bytes").partition("\n")[2]
    text = text.replace("# Using devices", "rccl-tests: Version develop:a52452e\n# Using devices")
    assert of_nccl(text).version == "rccl-tests develop:a52452e"


@pytest.mark.parametrize(("old", "new", "wrong"), [
    ("values : 0 OK", "values : 3 FAILED", 3),
    ("2e-07", "0e+00", 0),
    ("2e-07", "    0", 0),
])  # fmt: skip
def test_the_error_column_of_old_versions_is_no_count(old: str, new: str, wrong: int) -> None:
    output = of_nccl(kept("nccl-error-column").replace(old, new))
    made = nccl_tests.document([output], "n", ["n"], 8)
    assert [check["error"] for check in made["verification"]["checks"]] == [wrong]
    assert made["verification"]["passed"] == (wrong == 0)


def test_an_announced_reduction_of_sizes_is_the_last_size() -> None:
    text = kept("nccl-reduced")
    assert dict(of_nccl(text).asked)["max_bytes"] == 17179869184
    with pytest.raises(nccl_tests.NcclTestsFormatError, match="announces"):
        of_nccl(text.replace("# Reducing maxBytes to 15534478677", "# Reducing maxBytes to 17179869184"))
    with pytest.raises(nccl_tests.NcclTestsFormatError, match="announces 11 sizes"):
        of_nccl(text.replace("# Reducing maxBytes to 15534478677", "# Reducing maxBytes to 2147483648"))


@pytest.mark.parametrize("word", ["FP16", "fp16", "2"])
def test_a_format_has_a_number_or_a_name(word: str) -> None:
    assert hpl_mxp.parse(kept("mxp-format-by-name").replace("= FP16", f"= {word}")).low == "fp16"


@pytest.mark.parametrize("word", ["FP4", "3", "FP64"])
def test_another_format_is_named(word: str) -> None:
    with pytest.raises(hpl.HplFormatError, match=f"SLOPPY-TYPE = {word}: allowed: 1 "):
        hpl_mxp.parse(kept("mxp-format-by-name").replace("= FP16", f"= {word}"))


def test_nvidias_hpl_announces_that_it_rounds_n_down() -> None:
    """As HPL-NVIDIA 25.4.0 with N = 136608 on two H100 (KempnerInstitute/nvidia-hpc-benchmarks, p1_nvidia_hpl/runs)."""
    line = "[WARNING] Change Input N 136608 to 136192\n"
    text = kept("hpl-nvidia").replace("T/V                N ", f"{line}T/V                N ", 1)

    def made(n: int, text: str = text) -> dict[str, Any]:
        return hpl.document(hpl.parse(text), "xhpl", ["xhpl"], "n", ["n"], 2, n, 1024, 2, 1)

    raw = made(136608)
    assert raw["verification"]["passed"] and raw["parameters"]["n"] == 136608
    assert raw["metrics"][0]["id"] == "hpl.ranks2.grid=2x1.n=136192.nb=1024"
    assert raw["verification"]["checks"][0]["detail"] == "PASSED; it changed N 136608 to 136192"
    for n, other in (
        (136608, kept("hpl-nvidia")), (136500, text), (136608, text.replace("to 136192", "to 135168")),
        (140000, text.replace("N 136608", "N 140000")),
    ):  # fmt: skip
        with pytest.raises(hpl.HplFormatError, match=rf"another problem was solved: N 136192 \(requested: {n}\)"):
            made(n, other)


def test_amds_hpl_mxp_prints_hpls_report_and_rounds_n_up() -> None:
    """The lines are those of rocHPL-MxP's source (ROCm/rocHPL-MxP 5b6a169); it has no public output."""
    text = kept("mxp-amd")

    def made(n: int, text: str = text) -> dict[str, Any]:
        return hpl_mxp.document(hpl_mxp.parse(text), ["rochplmxp"], "n", ["n"], 2, n, 2560, 2, 1, "fp16")

    assert made(179200)["verification"]["passed"]
    assert not made(179200, text.replace("0.0081000 ...... PASSED", "31000.5 ...... FAILED").replace(
        "1 tests completed and passed", "0 tests completed and passed"
    ).replace("0 tests completed and failed", "1 tests completed and failed"))["verification"]["passed"]  # fmt: skip
    with pytest.raises(hpl.HplFormatError, match=r"N 179200 \(requested: 178000\); N was rounded up to a multiple"):
        made(178000)
    # FP16 is faster than any FP64 could be
    fast = text.replace("16.95              2.263e+05", " 0.85              4.514e+06")
    assert hpl_mxp.parse(fast).gflops == 4.514e6
    with pytest.raises(hpl.HplFormatError, match="no line 'Finished"):
        hpl_mxp.parse(text.partition("\nFinished")[0])
    with pytest.raises(hpl.HplFormatError, match="0 lines 'HPL MxP Result'"):
        hpl_mxp.parse(kept("hpl-amd"))
    with pytest.raises(hpl.HplFormatError, match="solved by HPLMXP_pdgesv, in mixed precision"):
        hpl.parse(text)


def test_outputs_of_programs_built_for_it_are_read() -> None:
    """HPCG 3.1, OSU 7.4 and STREAM 5.10, from their public sources, on a host with two busy cores."""
    report = hpcg.parse(kept("hpcg-reference-built"))
    assert (report.version, report.ranks, report.local, report.valid) == ("HPCG 3.1", 2, (16, 16, 16), True)
    assert hpcg.document(report, "n", ["n"], "xhpcg", {})["status"] == "ok"
    outputs = osu.parse_all(kept("osu-built-in-parts"))
    assert [(one.benchmark, len(one.points)) for one in outputs] == [
        ("osu_latency", 23), ("osu_bw", 23), ("osu_bibw", 23),
    ]  # fmt: skip
    assert all(point.valid for one in outputs for point in one.points)
    assert stream.parse(kept("stream-built")).rates["triad"] == 3.7112


def test_stream_in_fortran_prints_the_same_rates_in_columns_of_its_own() -> None:
    text = kept("stream-fortran")
    found = stream.parse(text)
    assert (found.version, found.rates["copy"], found.rates["triad"]) == ("5.6", 40.0, pytest.approx(42.667, rel=1e-4))
    for old, new, says in (
        ("Solution Validates!", "Failed Validation on array c[]", "its arrays are wrong"),
        ("40000.0000", "**********", "not numbers"),
        ("40000.0000", "80000.0000", "Copy: 80000 MB/s"),
        (" Solution Validates!", "", "not checked"),
    ):
        with pytest.raises(stream.StreamFormatError, match=re.escape(says)):
            stream.parse(text.replace(old, new))
    with pytest.raises(stream.StreamFormatError, match="1 is required; the output begins 'BabelStream"):
        stream.parse("BabelStream\nVersion: 5.0\nImplementation: CUDA\n")


# ---- columns that options of a program add, and modes that did not run


def of_osu(text: str, benchmark: str = "osu_latency") -> osu.Output:
    return osu.parse(benchmark, text)


LATENCY = kept("osu-latency")
PERCENTILES = LATENCY.replace("Validation", "Validation   P50 Tail Lat(us)   P90 Tail Lat(us)").replace(
    "Pass", "Pass              3.10              9.80"
)
BANDWIDTH = """
# OSU MPI-CUDA Bi-Directional Bandwidth Test v7.5
# Send Buffer on MANAGED (MD) and Receive Buffer on MANAGED (MH)
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)        Validation    P99 Tail BW(MB/s)     Transmit Size
1                       0.19              Pass                 0.11                 1
4194304             44000.00              Pass             43000.00           4194304
"""
REDUCTION = """
# OSU MPI Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations        Validation   P99 Tail Lat(us)
4                      10.05              9.90             10.40        1000              Pass             12.10
"""


def test_osu_has_its_verdict_before_percentiles_and_sizes() -> None:
    assert of_osu(PERCENTILES) == of_osu(LATENCY)
    assert [(one.value, one.valid) for one in of_osu(BANDWIDTH, "osu_bibw").points] == [(0.00019, True), (44.0, True)]
    assert of_osu(REDUCTION, "osu_allreduce").points == (osu.Point(4, 10.05, True),)
    wrong = osu.document([of_osu(PERCENTILES.replace("Pass", "Fail", 3))], "n", 2, ["n"], "host")
    assert not wrong["verification"]["passed"] and wrong["verification"]["checks"][0]["detail"] == "1 B: Fail"


@pytest.mark.parametrize(("benchmark", "text", "says"), [
    ("osu_bw", BANDWIDTH, "is that of another benchmark"),
    ("osu_bw", LATENCY, "its columns are in us; required: MB/s"),
    ("osu_reduce", REDUCTION, "is that of another benchmark"),
    ("osu_allreduce", REDUCTION.replace("Allreduce", "Non-blocking Allreduce"), "is that of another benchmark"),
    ("osu_allreduce", REDUCTION + REDUCTION[REDUCTION.index("# Datatype") :].replace("INT", "FLOAT"), "2 types"),
    ("osu_mbw_mr", "# OSU MPI Multiple Bandwidth / Message Rate Test v7.5\n# Size   MB/s\n1   4.24\n", "Messages/s"),
    ("osu_latency", PERCENTILES.replace("9.80", "Pass"), "'Pass' is not a number"),
    ("osu_bibw", BANDWIDTH.rstrip().removesuffix("4194304").rstrip(), "has 4 columns, those before it 5"),
])  # fmt: skip
def test_osu_of_another_benchmark_or_type_is_refused(benchmark: str, text: str, says: str) -> None:
    with pytest.raises(osu.OsuFormatError, match=re.escape(says)):
        of_osu(text, benchmark)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("16                      3.00              Pass\n", "", "the size 32 follows 8: lines between them are lost"),
    ("1024                    3.11", "*****                   3.11", "the size 2048 follows 512: lines between them"),
    ("4194304               469.03              Pass\n", "", "sizes from 1 to 2097152 B; requested: from one"),
    (LATENCY[LATENCY.index("1     ") : LATENCY.index("32   ")], "", "sizes from 32 to 4194304 B; requested: from one"),
])  # fmt: skip
def test_lines_of_osu_that_are_lost_are_missed(old: str, new: str, says: str) -> None:
    assert old in LATENCY
    osu.hold_sizes([of_osu(LATENCY)], 4194304)
    with pytest.raises(osu.OsuFormatError, match=says):
        osu.hold_sizes([of_osu(LATENCY), of_osu(LATENCY.replace(old, new, 1))], 4194304)
    # a reduction of numbers begins with one of them
    osu.hold_sizes([of_osu(REDUCTION, "osu_allreduce")], 4)


def test_osu_that_stopped_at_wrong_data_says_so() -> None:
    """As open-mpi/ompi#12717 shows it of 7.4; the second part starts at the next size."""
    rows = re.findall(r"^\d.*\n", LATENCY, re.M)
    failed = LATENCY.replace("".join(rows[5:]), "").replace(rows[4], rows[4].replace("Pass", "Fail"))
    failed += "DATA VALIDATION ERROR: osu_latency exited with status 1 on message size 16.\n"
    second = LATENCY.replace("".join(rows[:14]), "")
    for parts, says in ((failed, r"sizes from 1 to 16 B; .*; 16 B: Fail"),
                        (f"{failed}TENKEN-OSU-PART\n{second}", r"16384 follows 16: .*; 16 B: Fail")):  # fmt: skip
        with pytest.raises(osu.OsuFormatError, match=says):
            osu.hold_sizes(osu.parse_all(f"TENKEN-OSU osu_latency\n{parts}"), 4194304)
    # later sizes follow: its verification tells
    osu.hold_sizes([of_osu(LATENCY.replace(rows[4], rows[4].replace("Pass", "Fail")))], 4194304)


FROM_8 = kept("nccl-from-8-bytes")


def test_the_iterations_in_the_last_column_of_later_releases_are_no_mode() -> None:
    rows = re.compile(r"^( +\d+ +\d+ +float .*)$", re.M)
    counted = rows.sub(r"\1      20", FROM_8)
    counted = re.sub(r"(#wrong[^\n]*#wrong)[ \t]*$", r"\1  #iters", counted, flags=re.M)
    assert counted.count("#iters") == 1 and of_nccl(counted).points == of_nccl(FROM_8).points
    with pytest.raises(nccl_tests.NcclTestsFormatError, match="has 14 columns"):
        of_nccl(rows.sub(r"\1      20", FROM_8))  # without its title
    with pytest.raises(nccl_tests.NcclTestsFormatError, match="'-1' is not a number"):
        of_nccl(counted.replace("      20\n", "\n", 1))


OF_NCCL = r"^( +\d+ +\d+ +\S+ +\S+ +\S+)( +\S+ +\S+ +\S+ +\S+)( +\S+ +\S+ +\S+ +\S+)$"


def with_mean(text: str) -> str:
    """The text with the mean bus bandwidth of its lines."""
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d+ +\d+ +\w+ ", line)]
    width = 8 if "i_min" in text else 4
    rates = [float(row[-column + 2]) for row in rows for column in range(width, len(row) - 4, width)]
    return re.sub(r"(# Avg bus bandwidth +: )\S+", rf"\g<1>{sum(rates) / len(rates):g}", text)


def test_nccl_has_columns_of_iterations_and_modes_that_did_not_run() -> None:
    whole = of_nccl(FROM_8)
    each = "   14.90   16.20   16.10    2.10"
    found = of_nccl(re.sub(OF_NCCL, rf"\1\2{each}\3{each}", FROM_8.replace("busbw", "busbw i_min", 1), flags=re.M))
    assert found.points == whole.points
    # in-place only: a blank where the other mode would be, or titles of this one only
    blank = with_mean(re.sub(OF_NCCL, rf"\1{' ' * 32}\3", FROM_8, flags=re.M))
    bare = with_mean(re.sub(OF_NCCL, r"\1\3", FROM_8.replace("out-of-place", "            "), flags=re.M))
    for text in (blank, bare):
        assert of_nccl(text).points == tuple(point for point in whole.points if point.place == "in")
    # a line that is cut before its second mode is none of these
    with pytest.raises(nccl_tests.NcclTestsFormatError, match=r"9 columns; allowed: 11 to 13"):
        of_nccl(re.sub(OF_NCCL, r"\1\2", FROM_8, flags=re.M))


@pytest.mark.parametrize(("printed", "version"), [
    ("2.17.1 nccl-headers=22703 nccl-library=22703", "nccl-tests 2.17.1, NCCL 22703"),
    ("2.20.0 (b4d5bee) nccl-headers=23102 nccl-library=23007", "nccl-tests 2.20.0, NCCL 23007"),
    ("2.20.0 (b4d5bee)", "nccl-tests 2.20.0"),
])  # fmt: skip
def test_nccl_names_the_library_that_it_used(printed: str, version: str) -> None:
    text = FROM_8.replace("2.17.1 nccl-headers=22703 nccl-library=22703", printed)
    assert of_nccl(text).version == version


def test_nccl_of_another_collective_is_refused() -> None:
    assert FROM_8.count(": all_reduce_perf") == 2
    for name in ("all_reduce_perf_mpi", "build/all_reduce_perf"):
        assert of_nccl(FROM_8.replace(": all_reduce_perf", f": {name}")).points == of_nccl(FROM_8).points
    for name in ("all_gather_perf", "all_reduce_perfx", "alltoall_perf"):
        with pytest.raises(nccl_tests.NcclTestsFormatError, match=f"all_reduce_perf: its output is that of {name}"):
            of_nccl(FROM_8.replace("concluded: all_reduce_perf", f"concluded: {name}"))
    # older ones do not name it: their bandwidths are those of another factor
    unnamed = re.sub("# Collective test .*\n", "", FROM_8)
    assert of_nccl(unnamed).points == of_nccl(FROM_8).points
    with pytest.raises(nccl_tests.NcclTestsFormatError, match=r"algbw x 0\.5 for 2 ranks gives"):
        nccl_tests.parse("all_gather_perf", unnamed)


def test_groups_of_ranks_at_once_are_no_collective_of_all_ranks() -> None:
    """Numbers of ranks are those of the job; the factor of a broadcast or an exchange depends on none of them."""
    text = nccl_output("sendrecv_perf")
    assert nccl_tests.parse("sendrecv_perf", text).ranks == 4
    split = re.sub(r"(#  Rank +\d*([13]) Group  )0", r"\g<1>1", text)
    assert split.count("Group  1") == 2
    with pytest.raises(nccl_tests.NcclTestsFormatError, match=r"2 groups of ranks at once \(NCCL_TESTS_SPLIT\)"):
        nccl_tests.parse("sendrecv_perf", split)


def test_every_operation_of_nccl_has_all_sizes() -> None:
    sweep = "".join(re.findall(r"^ +\d.*\n", FROM_8, re.M))
    both = FROM_8.replace(sweep, sweep + sweep.replace("   sum ", "  prod "))
    output = of_nccl(both)
    assert len(output.points) == 2 * len(of_nccl(FROM_8).points)
    assert {point.kind for point in output.points} == {("float", "sum", "-1"), ("float", "prod", "-1")}
    with pytest.raises(nccl_tests.NcclTestsFormatError, match=r"2 types or operations .float sum -1, float prod -1"):
        nccl_tests.document([output], "n", ["n"], 2)
    with pytest.raises(nccl_tests.NcclTestsFormatError, match="announces 18 sizes"):
        of_nccl(with_mean(re.sub(r"^ +8 +2 +float +prod .*\n", "", both, flags=re.M)))
    with pytest.raises(nccl_tests.NcclTestsFormatError, match="times of the CPU"):
        of_nccl(FROM_8.replace("   time", "cputime"))


def test_a_run_of_hpcg_without_its_reference_is_refused() -> None:
    mode = " | Benchmark Mode !!!! CPU reference code is not performed \n"
    with pytest.raises(hpcg.HpcgFormatError, match="benchmark mode"):
        hpcg.parse("Start of application (GPU-Only) ...\n" + mode + kept("hpcg-reference"))


def test_colours_of_a_terminal_are_removed() -> None:
    whole = kept("hpl-nvidia")
    assert hpl.parse(re.sub(r"^(.+)$", "\x1b[1;32m\\1\x1b[0m", whole, flags=re.M)) == hpl.parse(whole)


# ---- labels of launchers


LABELS = {
    "Open MPI": "[1,0]<stdout>:", "Open MPI 5": "[prterun-node1-77@1,0]<stdout>: ",
    "with times": "Mon Mar  2 10:00:00 2026[1,0]<stdout>:", "srun": "0: ", "srun of 16": " 0: ", "Intel": "[0] ",
    "pdsh": "node1: ", "mpi-operator": "bench-launcher-x7k2p: ", "a log's time": "2026-03-02T10:00:00.123456789Z ",
    "SkyPilot": "(head, rank=0, pid=77) ", "Ray": "(task pid=77, ip=192.0.2.7) ",
    "srun and Open MPI": "0: [1,0]<stdout>:", "containerd": "2026-03-02T10:00:00.123456789Z stdout F ",
    "journal": "2026-03-02T10:00:00+00:00 n1 xhpl[77]: ", "gh": "bench (8)\tRun it\t2026-03-02T10:00:00.1234567Z ",
    "Jenkins": "[2026-03-02T10:00:00.123Z] ", "Jenkins, of the day": "10:00:00  ", "ts -s": "00:00:05 ",
    "ts of a form": "2026/03/02 10:00:00 ", "logging": "2026-03-02 10:00:00,123 - INFO - ",
    "a named logger": "2026-03-02 10:00:00,123 - bench.run - INFO - ", "torch": "[Rank 0] ",
    "CloudWatch": "2026-03-02T10:00:00.123000+00:00 bench/default/0a1b2c ",
    "SkyPilot and Open MPI": "(worker1, rank=1, pid=77, ip=192.0.2.7) [1,0]<stdout>:",
    "kubectl, Open MPI and srun": "2026-03-02T10:00:00.123456789Z [1,0]<stdout>:0: ",
    "aws-k8s-tester": "        [1,0]<stdout>:", "stern": "bench-x7k2p launcher ",
    "Airflow": "[2026-03-02, 10:00:00 UTC] {subprocess.py:93} INFO - ",
    "RFC 5424": "<14>1 2026-03-02T10:00:00.123Z n1 xhpl 77 - - ", "MPICH": "(0) ", "mpirun of a shell": "0> ",
    "a node and a rank": "n001/0: ", "seconds since 1970": "1772445600.123456 ", "dmesg": "[   12.345678] ",
}  # fmt: skip
BARE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "hpl": ("hpl-netlib", hpl.parse),
    "hpcg": ("hpcg-reference", hpcg.parse),
    "mxp": ("mxp-format-by-name", hpl_mxp.parse),
    "nccl": ("nccl-from-8-bytes", of_nccl),
    "osu": ("osu-latency", lambda text: osu.parse("osu_latency", text)),
}


@pytest.mark.parametrize("program", BARE)
def test_a_label_on_every_line_is_removed(program: str) -> None:
    name, read = BARE[program]
    whole = kept(name)
    for label in LABELS.values():
        text = "".join(f"{label}{line}\n" for line in whole.splitlines())
        assert read(text) == read(whole), label
        assert read(text.replace("\n", "\r\n")) == read(whole), label
        # unlabelled lines of the job script precede and follow them
        assert read(f"TENKEN-RUN begin node=n time=1\n{text}TENKEN-RUN end node=n time=2\n") == read(whole), label


@pytest.mark.parametrize("labels", [
    ["n001/0: ", "n002/17: "], ["[    9.998001] ", "[   10.002345] "], ["Nov 30 23:59:59 ", "Dec  1 00:00:00 "],
    ["2026-03-02T09:59:59.9Z stdout F ", "2026-03-02T10:00:00.123Z stderr F "],
    ["2026-03-02 09:59:59,999 - INFO - ", "2026-03-02 10:00:00,000 - WARNING - "],
])  # fmt: skip
@pytest.mark.parametrize("program", BARE)
def test_numbers_times_streams_and_levels_of_a_label_differ(program: str, labels: list[str]) -> None:
    name, read = BARE[program]
    lines = kept(name).splitlines()
    assert read("".join(f"{labels[i % 2]}{line}\n" for i, line in enumerate(lines))) == read(kept(name))


@pytest.mark.parametrize(("label", "other"), [
    ("(head, rank=0, pid=3808) [1,0]<stdout>:", "(worker1, rank=1, pid=2769, ip=192.0.2.7) Worker nodes"),
    ("[pod/bench-launcher-x7k2p/launcher] ", "[pod/bench-worker-0/worker] Server listening on 0.0.0.0 port 22."),
    ("launcher-1  | ", "worker-12   | Server listening on 0.0.0.0 port 22."),
])  # fmt: skip
def test_lines_of_other_nodes_have_labels_of_their_own(label: str, other: str) -> None:
    """As in SkyPilot's example of nccl-tests on two nodes."""
    lines = [f"{label}{line}" for line in FROM_8.splitlines()]
    begins = f"{label.partition('[1')[0]}All nodes: 192.0.2.6:8 192.0.2.7:8"
    assert of_nccl("\n".join([begins, other, *lines])) == of_nccl(FROM_8)


def test_ranks_with_labels_of_their_own_are_one_output() -> None:
    lines = kept("nccl-labelled").splitlines()
    lines[5:5] = ["[1,1]<stdout>:n1:77:77 [1] NCCL INFO Connected all rings"]
    assert len(of_nccl("\n".join(lines)).points) == 12


@pytest.mark.parametrize("lines", [
    ["srun: warning: can't run 1 processes on 2 nodes"],
    ["Warning: Permanently added 'nccl-worker-0' (ED25519) to the list of known hosts."],
    ["[node1:1234] 7 more processes have sent help message help-mpi-btl-openib.txt / error in device init"],
    ["-" * 74, "WARNING: There was an error initializing an OpenFabrics device.", "", "  Local host: node1", "-" * 74],
])  # fmt: skip
def test_lines_of_the_launcher_itself_have_no_label(lines: list[str]) -> None:
    """As logs of mpi-operator and Slurm show them between those of the ranks."""
    for label in ("[1,0]<stdout>:", " 0: "):
        labelled = [f"{label}{line}" for line in FROM_8.splitlines()]
        assert of_nccl("\n".join([*labelled[:20], *lines, *labelled[20:]])) == of_nccl(FROM_8)


@pytest.mark.parametrize("label", ["[0] ", "[1,0]<stdout>:", "Sun Jan 28 03:16:43 2018[1,0]<stdout>:"])
def test_a_label_between_the_pieces_of_a_line_is_removed(label: str) -> None:
    """Before each piece that the program wrote, as Intel MPI and Open MPI 4 write it."""
    rows = re.compile(OF_NCCL, re.M)
    pieces = rows.sub(rf"\1{label}\2{label}\3", FROM_8)
    assert pieces.count(label) == 36
    labelled = "".join(f"{label}{line}\n" for line in pieces.splitlines())
    assert of_nccl(labelled) == of_nccl(FROM_8)
    # that of another rank, or a line of a host without a rank
    for piece in (label.replace("0]", "1]"), f"{label}n9:77:77 [0] NCCL INFO 8 Bytes -> Algo 1\n{label}"):
        with pytest.raises(nccl_tests.NcclTestsFormatError, match=r"columns|announces"):
            of_nccl(labelled.replace(f"-1{label}", f"-1{piece}", 1))


@pytest.mark.parametrize("host", ["node1", "0fee19abc8ba"])
@pytest.mark.parametrize("line", [
    "{}:77:77 [1] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL", "{}:77:81 [0] net.cc:52 NCCL WARN slow",
    "[2026-03-02 10:00:00] {}:77:81 [0] transport/nvls.cc:379 (nvlsAllocateMem) NCCL WARN Failed to bind memory",
])  # fmt: skip
def test_a_result_between_lines_of_the_library_is_read(host: str, line: str) -> None:
    """As Timez-zx/nccl-tests (nccl.log) prints it: the library writes between the pieces of each result."""
    said = f"{line.format(host)}\n"
    whole = FROM_8.replace(" node1 ", f" {host} ")
    assert host in of_nccl(whole).hosts
    pieces = re.sub(OF_NCCL, rf"\g<1>{said * 2}\g<2>{said}\g<3>{said}", whole, flags=re.M)
    assert pieces.count(f"-1{said}{said} ") == 18 and of_nccl(pieces) == of_nccl(whole)
    for parts in (rf"\g<1>{said}\g<3>{said}", rf"\g<1>{said}\g<2>{said}\g<2>{said}\g<3>{said}"):
        with pytest.raises(nccl_tests.NcclTestsFormatError, match=r"columns; allowed: 11 to 13"):
            of_nccl(re.sub(OF_NCCL, parts, whole, count=1, flags=re.M))


@pytest.mark.parametrize("program", BARE)
def test_a_label_on_some_lines_is_named(program: str) -> None:
    name, read = BARE[program]
    lines = kept(name).splitlines()
    text = "\n".join(line if i % 5 == 4 else f"[1,0]<stdout>:{line}" for i, line in enumerate(lines))
    with pytest.raises(TenkenError, match=re.escape("only some lines have the launcher's label '[1,0]<stdout>:'")):
        read(text)


# ---- other lines among the rows


LOGS = (
    "0fee19abc8ba:5281:5281 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.2<0>", "10.0.0.12: connection accepted",
    "2026/03/02 10:00:00 health: ok", "10:00:00.123 worker up", "1 more process has sent help message help-mpi.txt",
    "16 slots were requested", "[1679390000.123456] [n1:77:0] ucp_context.c:1 UCX WARN transport", "3com: link up",
    "nanosleep: interrupted", "7.5.0 loaded",
)  # fmt: skip


@pytest.mark.parametrize("line", LOGS)
def test_a_log_line_is_no_row(line: str) -> None:
    assert not printed.like_a_row(line.split()) or line == "7.5.0 loaded"
    for name, read in (BARE["osu"], BARE["nccl"], BARE["hpl"]):
        lines = kept(name).splitlines()
        for at in (-8, -5):
            assert read("\n".join([*lines[:at], line, *lines[at:]])) == read(kept(name)), name


@pytest.mark.parametrize(
    "line", ["4", "4 Pass", "4 nan", "-4 2.5", "4K 2.5", "nan 2.5 Pass", "4 2,5", "4 1e999", ".5 2"]
)
def test_a_corrupted_row_is_one(line: str) -> None:
    assert printed.like_a_row(line.split())


# ---- why there is no result


@pytest.mark.parametrize(("name", "read", "says"), [
    ("hpl-ended-early", hpl.parse, "the program ended early: 'HPL ERROR: CUBLAS initialization failed'"),
    ("hpl-out-of-memory", hpl.parse, "1 tests skipped, none was solved; out of memory: '>>> [7,0] Memory allocation"),
    ("hpl-not-checked", hpl.parse, "not checked: the threshold of its HPL.dat is 0 or less"),
    ("osu-ended-early", lambda text: osu.parse("osu_bw", text), "the program ended early: '[node-39:08750] Signal: "),
])  # fmt: skip
def test_the_cause_is_told_apart_from_an_output_that_is_cut_short(
    name: str, read: Callable[[str], Any], says: str
) -> None:
    with pytest.raises(TenkenError) as raised:
        read(kept(name))
    assert says in str(raised.value) and "cut short" not in str(raised.value)


@pytest.mark.parametrize(("line", "says"), [
    ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0.", "out of memory"),
    ("CUDA error: out of memory at hpl.cu:7", "out of memory"),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "out of memory"),
    ("UCX ERROR ibv_reg_mr() failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited'",
     "the limit of locked memory"),
    ("srun: error: node7: task 3: Killed", "ended early"),
    ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "ended early"),
    ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO TIME LIMIT ***", "ended early"),
    (" CHECK_CUBLAS_ERR (0->n1): cublasLtMatmulAlgoInit() = 7 at (matrix.cpp:9), process will now exit", "ended early"),
    ("Couldn't init a GPU test: Error in \"init\": CUBLAS_STATUS_NOT_INITIALIZED", "ended early"),
    ("%NQSV(INFO): Batch job received signal SIGKILL. (Exceeded per-req elapse time limit)", "ended early"),
])  # fmt: skip
@pytest.mark.parametrize("program", BARE)
def test_an_output_that_stops_names_the_line_that_says_why(program: str, line: str, says: str) -> None:
    name, read = BARE[program]
    # with only its title left, nothing is missing in the text of a sweep itself
    lines = kept(name).splitlines()[: 3 if program == "osu" else 12]
    with pytest.raises(TenkenError, match=f"{says}: ['\"]"):
        read("\n".join([*lines, line]))
