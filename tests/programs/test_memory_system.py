"""transfer, access_patterns, migration, transpose and himeno without a GPU, and with a simulated one."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs.conftest import Outcome
from tests.support.judging import incomplete

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
#: A short run of each on the host, and what its document must contain.
HOST: dict[str, tuple[list[str], list[str]]] = {
    "transfer": (["--repetitions", "3", "--sweep-max-bytes", "64Ki"],
        [f"host_sweep.host.bytes={1024 * 4**i}" for i in range(4)]),
    "access_patterns": (["--repetitions", "5", "--bytes", "1M"], ["host_by_cpu.host.pattern=1"]),
    "migration": (["--repetitions", "5", "--bytes", "1M"], ["cpu_first.host", "cpu.host", "cpu_last.host"]),
    "transpose": (["--repetitions", "3", "--sizes", "1,31,33,64x100"],
        [f"host_bandwidth.host.kernel={k}.n={n}" for n in ("1", "31", "33", "64x100") for k in ("naive", "tile")]),
    "himeno": (["--repetitions", "4", "--size", "XS"], ["iteration.host.memory=host", "total.host.memory=host"]),
}  # fmt: skip
SAM = ("--backend", "cuda", "--placement", "sam", "--bytes", "80k", "--warmup-seconds", "0")


def ids(document: dict[str, Any] | None) -> list[str]:
    assert document is not None
    return [metric["id"] for metric in document["metrics"]]


@pytest.mark.parametrize("program", HOST)
def test_a_run_on_the_host_is_whole(run: Run, program: str) -> None:
    arguments, wanted = HOST[program]
    outcome = run(program, *arguments, "--warmup-seconds", "0")
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert ids(outcome.document) == wanted
    assert outcome.document is not None and outcome.document["status"] == "ok"


@pytest.mark.parametrize("program", HOST)
def test_a_wrong_element_fails_the_run(run: Run, program: str) -> None:
    """For himeno it is one wrong coefficient, for transpose one wrong element of the result."""
    outcome = run(program, *HOST[program][0], "--warmup-seconds", "0", "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: ")
    assert "element" in outcome.document["reason"]


@pytest.mark.parametrize(("program", "arguments", "message"), [
    ("transpose", ["--sizes", "0"],
        "--sizes '0' is invalid; allowed: sides of squares or ROWSxCOLUMNS, each from 1 to"),
        ("transpose", ["--sizes", "12x"], "--sizes '12x' is invalid; allowed: "),
        ("transpose", ["--sizes", ""], "--sizes '' is invalid; allowed: "),
        ("transpose", ["--kernels", "padded"], "--kernels 'padded' is invalid; allowed: distinct values of naive,tile"),
        ("transpose", ["--sizes", "262144"], "--sizes '262144' is invalid; allowed: at most "),
        ("himeno", ["--size", "XXXL"], "--size 'XXXL' is invalid; allowed: XS, S, M, L, XL, XXL"),
        ("himeno", ["--size", "XXL"], "--size 'XXL' is invalid; allowed: one whose arrays fit: requested "),
    ("access_patterns", ["--patterns", "1,8"], "--patterns '1,8' is invalid; allowed: all, or distinct values of 1 "),
        ("access_patterns", ["--patterns", "1,1"], "--patterns '1,1' is invalid; allowed: "),
    ("access_patterns", ["--placement", "explicit"],
        "--placement 'explicit' is invalid; allowed: sam with --backend host"),
        ("access_patterns", ["--bytes", "7"], "--bytes '7' is invalid; allowed: "),
        ("migration", ["--bytes", "8T"], "--bytes '8T' is invalid; allowed: at most "),
        ("transfer", ["--kinds", "pinned"], "--kinds 'pinned' is invalid; allowed: all, or distinct values of sweep"),
        ("transfer", ["--bytes", "8T"], "--bytes '8T' is invalid; allowed: at most "),
])  # fmt: skip
def test_a_wrong_argument_is_one_line(run: Run, program: str, arguments: list[str], message: str) -> None:
    outcome = run(program, *arguments)
    assert (outcome.code, outcome.document) == (2, None)
    assert outcome.stderr.startswith(f"{program}: {message}")
    assert outcome.stderr.count("\n") == 1
    if "at most" in message:
        assert re.search(r"requested [\d.]+ \w+.*, free [\d.]+ \w+ on the host$", outcome.stderr.strip())


def test_himenos_classic_timing_chooses_the_iterations(run: Run) -> None:
    arguments = ("--size", "XS", "--timing", "classic", "--target-seconds", "0.2", "--data", "official")
    document = run("himeno", *arguments).document
    assert document is not None and document["status"] == "ok"
    assert document["path"]["iterations.host"] >= 3


def test_a_trial_that_is_interrupted_leaves_no_document(build_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    command = [str(build_dir / "bin" / "access_patterns"), "--repetitions", "100000", "--bytes", "32M"]
    process = subprocess.Popen([*command, "--json", str(file)], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not Path(f"{file}.tmp").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (-signal.SIGTERM, "")
    assert list(tmp_path.iterdir()) == []


def test_the_double_runs_all_patterns_in_malloc_memory(run: Run) -> None:
    document = run("access_patterns_double", *SAM, "--repetitions", "200").document
    assert document is not None and document["status"] == "ok", document and document["reason"]
    by_id = {metric["id"]: metric for metric in document["metrics"]}
    patterns = sorted(int(m["at"]["pattern"]) for m in by_id.values() if m["name"].endswith(("_cpu", "_gpu")))
    assert patterns == list(range(1, 9))
    assert by_id["ramp.gpu0.pattern=5"]["value"] == 50  # 0.95 x 3000 = 2850 is 400 + 50 i at i = 49
    assert by_id["plateau.gpu0.pattern=6"]["value"] == pytest.approx(3000)
    assert by_id["ramp.gpu0.pattern=8"]["value"] == 1
    assert by_id["relative.gpu0.pattern=8"]["value"] == pytest.approx(1)
    assert document["devices"][0]["pageable_memory_access"] is True
    pages = document["path"]["pages.gpu0.pattern=6.trial=1.destination"]
    assert pages == "host 0 %, device 100 % -> host 0 %, device 100 %"


def test_the_double_migrates_once(run: Run) -> None:
    document = run("migration_double", *SAM, "--repetitions", "100", "--trials", "3").document
    assert document is not None and document["status"] == "ok"
    by_id = {metric["id"]: metric for metric in document["metrics"]}
    assert by_id["ramp.gpu0.phase=first"]["samples"] == [50.0] * 3
    assert by_id["new_ramp.gpu0"]["value"] == 0
    assert [i for i in by_id if i.startswith("gpu_last")] == [f"gpu_last.gpu0.trial={i}" for i in (1, 2, 3)]


@pytest.mark.parametrize(("program", "arguments", "metric"), [
        ("access_patterns", ["--bytes", "1M"], "host_by_cpu.host.pattern=1"),
        ("access_patterns_double", SAM, "remote_by_gpu.gpu0.pattern=6"),
        ("migration", ["--bytes", "1M"], "cpu_last.host"),
        ("migration_double", SAM, "gpu_first.gpu0"),
])  # fmt: skip
def test_a_series_of_trials_is_complete_or_refused(run: Run, program: str, arguments: list[str], metric: str) -> None:
    document = run(program, *arguments, "--repetitions", "3", "--warmup-seconds", "0", "--trials", "2").document
    assert document is not None and document["status"] == "ok", document and document["reason"]
    assert incomplete(document) == []
    last = next(m for m in document["metrics"] if m["id"] == f"{metric}.trial=2")
    without = {**document, "metrics": [m for m in document["metrics"] if m is not last]}
    assert any("trial" in text and "missing" in text for text in incomplete(without))
    third = {**last, "id": f"{metric}.trial=3", "at": {**last["at"], "trial": 3}}
    assert any(
        "trial 3 is not requested" in text
        for text in incomplete(
            {
                **document,
                "metrics": [*document["metrics"], third],
                "limits": {**document["limits"], third["id"]: document["limits"][last["id"]]},
            }
        )
    )
    single = {**document, "parameters": {**document["parameters"], "trials": 1}}
    assert any("has the coordinates" in text and "trial" in text for text in incomplete(single))


@pytest.mark.parametrize(("how", "program", "code", "reason"), [
    ("tail", "access_patterns", 1, r"copied\.gpu0\.pattern=5.*element 9999, value 0\.79.*, expected 1\.79"),
    ("misplaced", "access_patterns", 1, r"the pages of the destination should lie on the device, but they are: host"),
        ("no_sam", "access_patterns", 3, r"^no pageable memory access: cudaDevAttrPageableMemoryAccess is 0 \(gpu0"),
        ("misplaced", "migration", 1, r"trial=1: the pages of the destination should lie on the device"),
        ("no_sam", "migration", 3, r"^no pageable memory access: "),
])  # fmt: skip
def test_what_the_double_does_wrong_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, how: str, program: str, code: int, reason: str
) -> None:
    monkeypatch.setenv("TENKEN_DOUBLE", how)
    outcome = run(f"{program}_double", *SAM, "--repetitions", "20")
    assert outcome.code == code, outcome.stdout
    assert outcome.document is not None
    assert re.search(reason, outcome.document["reason"]), outcome.document["reason"]
    assert outcome.document["devices"], "the attribute that says so stands in the document"


def test_managed_memory_is_refused_beyond_half_of_what_is_free(run: Run) -> None:
    outcome = run("access_patterns_double", "--backend", "cuda", "--placement", "managed_touch", "--bytes", "30Gi")
    assert outcome.code == 2
    assert "requested 60 GiB for two arrays, free 95 GiB on gpu0" in outcome.stderr
