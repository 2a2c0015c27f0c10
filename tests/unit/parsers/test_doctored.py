"""Twenty ways in which an output can be wrong, for every program: none passes, and none raises anything but a refusal.

One generator doctors the honest output of each program. The rest is judged as its check would: by the parser's refusal,
the verification of the document, or the requested parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from textwrap import indent
from typing import Any

import pytest

from tenken.errors import TenkenError
from tenken.parsers import dcgm, gpu_burn, hpcg, hpl, hpl_mxp, ior, nccl_tests, nvbandwidth, osu, perftest, stream
from tests.unit.parsers.test_outputs import BANDWIDTH, kept, of_intels_31
from tests.unit.parsers.test_programs import GPU_BURN, NVBANDWIDTH, PERFTEST, STREAM, as_json, of_dcgm3, of_dcgm4


def verified(made: dict[str, Any]) -> bool:
    return made["status"] == "ok" and bool(made["verification"]["passed"])


def of_hpl(text: str) -> bool:
    return verified(hpl.document(hpl.parse(text), "xhpl", ["x"], "n", ["n"], 8, 40000, 256, 2, 4))


def of_nvidias_hpl(text: str) -> bool:
    return verified(hpl.document(hpl.parse(text), "xhpl", ["x"], "n", ["n"], 2, 136192, 1024, 2, 1))


def of_hpcg(text: str, ranks: int = 4, points: int = 104) -> bool:
    made = hpcg.document(hpcg.parse(text), "n", ["n"], "x", {})
    return verified(made) and [made["parameters"][key] for key in ("ranks", "nx", "ny", "nz")] == [ranks, *[points] * 3]


def of_nvidias_hpcg(text: str) -> bool:
    return of_hpcg(text, 8, 256)


def of_mxp(text: str) -> bool:
    return verified(hpl_mxp.document(hpl_mxp.parse(text), ["x"], "n", ["n"], 4, 131072, 2048, 2, 2, "fp16"))


def of_nccl(text: str) -> bool:
    output = nccl_tests.parse("all_reduce_perf", text)
    return verified(nccl_tests.document([output], "n", ["n"], 2)) and dict(output.asked)["max_bytes"] == 1048576


def of_osu(text: str) -> bool:
    output = osu.parse("osu_latency", text)
    osu.hold_sizes([output], 4194304)
    return verified(osu.document([output], "n", 2, ["n"], "host"))


def of_osu_bandwidth(text: str) -> bool:
    made = osu.document([osu.parse("osu_bibw", text)], "n", 2, ["n"], "managed")
    return verified(made) and made["parameters"]["max_bytes"] == 4194304


def of_nvbandwidth(text: str) -> bool:
    return {"host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy"} <= set(
        nvbandwidth.parse(text).tests
    )


def of_gpu_burn(text: str) -> bool:
    found = gpu_burn.parse(text)
    return set(found.states) == {"OK"} and not any(found.errors) and len(found.states) == 2


def of_dcgm(text: str) -> bool:
    found = dcgm.parse(text)
    return len(found.of("Pass")) == 3 and not found.of("Fail")


def of_perftest(text: str) -> bool:
    return [point.bytes for point in perftest.parse("RDMA_Write BW", text)] == [2, 65536, 8388608]


def of_ior(text: str) -> bool:
    found = ior.parse(text)
    return (found.nodes, found.tasks, found.bytes, len(found.write), found.wrong) == (1, 4, 64 << 20, 3, "")


def of_stream(text: str) -> bool:
    return len(stream.parse(text).rates) == 4


#: Program -> its honest output, whether a check would pass it, a number in it, and a word of its verdict.
PROGRAMS: dict[str, tuple[str, Callable[[str], bool], str, tuple[str, str]]] = {
    "hpl": (kept("hpl-netlib"), of_hpl, "6.9528e+02", ("PASSED", "FAILED")),
    "hpcg": (kept("hpcg-reference"), of_hpcg, "=12.5231", ("Result=PASSED", "Result=FAILED")),
    "hpl of NVIDIA": (kept("hpl-nvidia"), of_nvidias_hpl, "3.311e+04", ("PASSED", "FAILED")),
    "hpcg of NVIDIA": (kept("hpcg-nvidia"), of_nvidias_hpcg, "=12.4013", ("Result=PASSED", "Result=FAILED")),
    "hpcg of Intel": (of_intels_31("hpcg-reference"), of_hpcg, "=12.5231", ("Result=PASSED", "Result=FAILED")),
    "osu bandwidth": (BANDWIDTH, of_osu_bandwidth, "44000.00", ("Pass", "Fail")),
    "mxp": (kept("mxp-format-by-name"), of_mxp, "6.4000e+05", ("PASSED", "FAILED")),
    "nccl": (kept("nccl-from-8-bytes"), of_nccl, "1180.08", ("values : 0 OK", "values : 9 FAILED")),
    "osu": (kept("osu-latency"), of_osu, "469.03", ("Pass", "Fail")),
    "nvbandwidth": (NVBANDWIDTH, of_nvbandwidth, "54.98", ("Waived: ", "Error: bad")),
    "nvbandwidth -j": (as_json(NVBANDWIDTH), of_nvbandwidth, "54.98", ('"Passed"', '"Error"')),
    "gpu_burn": (GPU_BURN, of_gpu_burn, "49900", (": OK", ": FAULTY")),
    "dcgmi of 3": (of_dcgm3(), of_dcgm, '"Pass"', ('"Pass"', '"Fail"')),
    "dcgmi of 4": (of_dcgm4(), of_dcgm, '"Pass"', ('"Pass"', '"Fail"')),
    "perftest": (PERFTEST, of_perftest, "46498.11", (" local address", " Failed to modify QP\n local address")),
    "ior": (kept("ior-two-tests"), of_ior, "1143.04", ("Results:", "WARNING: Incorrect data on read (2 errors).")),
    "stream": (STREAM, of_stream, "271500.0", ("Solution Validates", "Failed Validation")),
}  # fmt: skip


def doctored(program: str) -> Iterator[tuple[str, str]]:
    """The twenty, by name."""
    text, _, number, (good, bad) = PROGRAMS[program]
    lines = text.splitlines(keepends=True)
    filled = [i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(("-", "=", "#"))]
    other = next(name for name in PROGRAMS if name.split()[0] != program.split()[0])
    for share in (0, 25, 50, 75, 90):
        yield f"cut at {share} %", text[: len(text) * share // 100]
    yield "its last number missing", text[: text.rindex(number)]
    yield "another's", PROGRAMS[other][0]
    yield "two runs in one", text + text
    yield "a second run, cut", text + text[: len(text) * 7 // 10]
    yield "a cut run, then a whole one", text[: len(text) * 7 // 10] + text
    yield "failed", text.replace(good, bad)
    yield "failed once", text[: text.rindex(good)] + bad + text[text.rindex(good) + len(good) :]
    for word in ("nan", "-inf", "1e999", "-" + number.strip('"='), "0", "12x4"):
        quoted = word if not number.startswith(("=", '"')) else number[0] + word + ('"' if number[0] == '"' else "")
        yield f"a number is {word}", text.replace(number, quoted)
    yield "every line reversed", "".join(line.rstrip("\n")[::-1] + "\n" for line in lines)
    yield "nothing but its title and a signal", "".join(lines[: filled[0] + 1]) + "Signal: Segmentation fault (11)\n"


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_doctored_output_passes_and_none_raises(program: str) -> None:
    text, passes, _, _ = PROGRAMS[program]
    assert passes(text), "the honest one passes"
    found = dict(doctored(program))
    assert len(found) == 20 and all(one != text for one in found.values())
    for name, one in found.items():
        try:
            passed = passes(one)
        except TenkenError as error:
            assert "\n" not in str(error) and len(str(error)) < 500, name
        else:
            assert not passed, f"{program}: {name}"


@pytest.mark.parametrize("margin", ["    ", "\t"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_output_that_a_wrapper_indented_is_read(program: str, margin: str) -> None:
    text, passes, _, _ = PROGRAMS[program]
    indented = indent(text, margin)
    assert passes(indented)
    assert passes(f"TENKEN-RUN begin node=n time=1\n{indented}TENKEN-RUN end node=n time=2\n")


#: What launchers and logs write before every line.
LABELS = (
    "[1,0]<stdout>:", "[prterun-node1-12345@1,0]<stdout>: ", "[[12345,1],0][node1:777]<stdout>: ",
    "Thu Nov  5 22:00:01 2026<stdout>:", "Thu Nov  5 22:00:01 2026[1,0]<stdout>: ", "0: ", "1,0: ", "[0] ",
    "[0@node1] ", "[0]node1>", "node1: ", "nid000001 0: ", "[rank0]: ", "[default0]:", "[pod/launcher-x7x/launcher] ",
    "launcher-1  | ", "(pid=1234) ", "2026-11-05T22:00:01.1234567Z ", "2026-11-05T22:00:01.123456Z 01O ",
    "2026-11-05 22:00:01 ", "2026-11-05 22:00:01,123 INFO ", "[2026-11-05 22:00:01] ", "Nov  5 22:00:01 ",
    "Nov  5 22:00:01 node1 run.sh[123]: ", "> ", "2026-11-05T22:00:01Z 0: ",
)  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_what_is_before_every_line_is_removed(label: str) -> None:
    for program, (text, passes, number, _) in PROGRAMS.items():
        labelled = "".join(f"{label}{line}\n" for line in text.replace("\r", "\n").rstrip("\n").split("\n"))
        assert passes(labelled), program
        # a label with a value of its own is no excuse for a wrong one
        with pytest.raises(TenkenError):
            assert not passes(labelled.replace(number, "12x4"))
            raise TenkenError


def test_a_text_that_was_pasted_is_read() -> None:
    for program, (text, passes, _, _) in PROGRAMS.items():
        assert passes("\ufeff" + text.replace("  ", "\u00a0 ")), program


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_output_with_a_hole_is_refused(program: str) -> None:
    """A file system that lost blocks leaves zero bytes; a single one is a printed string terminator."""
    text, passes, number, _ = PROGRAMS[program]
    for lost in (text[: len(text) // 2] + "\0" * 4096 + text[len(text) // 2 :], "\0" * 64 + text, text + "\0" * 2):
        with pytest.raises(TenkenError, match="zero bytes in the output: a part of it was lost"):
            passes(lost)
    assert passes(text.replace(number, number + "\0", 1))


@pytest.mark.parametrize("program", PROGRAMS)
def test_bytes_of_any_kind_are_refused(program: str) -> None:
    text, passes, _, _ = PROGRAMS[program]
    for junk in ("\x00\x01\ufffd" * 50, "0" * 4000, "{" * 3000, "[1,0]<stdout>:" * 300, re.sub(r"\d", "9", text)):
        try:
            assert not passes(junk) or "9.9" in junk  # a version of nines
        except TenkenError as error:
            assert len(str(error)) < 500


#: Output, what is replaced, and by what: consistent with the rest of its line, but no device does it.
IMPOSSIBLE = (
    ("hpl", "40000   256     2     4              61.37         6.9528e+02",
     "400000   256     2     4               0.10         4.2667e+08"),
    ("hpl of NVIDIA", "50.86       3.311e+04 ( 1.656e+04)", "0.05       3.368e+07 ( 1.684e+07)"),
    ("osu", "469.03", "0.40"),
    ("osu", "3.00 ", "0.01 "),
    ("osu bandwidth", "44000.00", "44000000.00"),
    ("perftest", "46920.10           46918.55               0.005865", "46920100.0        46918550.0        5.865"),
    ("nvbandwidth", "1310.00   1302.50", "1310000.00   1302500.00"),
    ("mxp", "GFLOPS = 6.4000e+05, per GPU =  160000.00", "GFLOPS = 6.4000e+09, per GPU =  1600000000.00"),
    ("nccl", "1180.08    0.89    0.89", "0.01    104858    104858"),
    ("stream", "271500.0", "271500000000.0"),
    ("gpu_burn", "(49900 Gflop/s)", "(49900000000 Gflop/s)"),
)  # fmt: skip


@pytest.mark.parametrize(("program", "old", "new"), IMPOSSIBLE)
def test_a_rate_that_no_device_reaches_is_refused(program: str, old: str, new: str) -> None:
    text, passes, _, _ = PROGRAMS[program]
    assert old in text
    with pytest.raises(TenkenError, match="impossible"):
        passes(text.replace(old, new))
