"""NVIDIA DALI's CPU reader, real, through the check; faulty reads, and a node without DALI."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tenken.model.verdicts import FAIL, RECORDED, WAIVED
from tenken.paths import ROOT
from tests.support import pytorch
from tests.support.reframe import Outcome, reframe
from toolchains import dali

pytestmark = [pytest.mark.dali, pytest.mark.xdist_group("dali")]  # one worker creates the files that this module shares
KINDS = "^DataLoadingDaliCpu%kind=speech|^AWrongBit|^ASampleTwice"
#: As the checks require them.
READ = r"^verified \d+ samples in \d+ epochs: 0 wrong, 0 not read once, shuffled anew$"
LEARNT = r"^trained \d+ steps: loss \S+ to \S+, falling$"
PROGRAM = ROOT / "src" / "programs" / "data_loading" / "dali" / "dali_loading.py"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = dali.make("13", ROOT / ".cache" / "dali")
    more = ("-c", "tests/reframe/dali", "--system", "local", "-r", "-S", "tenken_mode=quick", "-n", KINDS)
    scratch = tmp_path_factory.mktemp("dali")
    return reframe(*more, folder=scratch, checks="checks/dali.py", TENKEN_DALI=str(folder))


def record(session: Outcome, check: str):
    (found,) = [one for one in session.records if one.base_check == check]
    return found


@pytest.mark.slow
def test_dali_reads_the_samples(session: Outcome) -> None:
    one = record(session, "DataLoadingDaliCpu")
    assert one.verdict == RECORDED, one.judgement.message()
    found = {m.name: m for m in one.result.metrics}
    assert {name: m.unit for name, m in found.items()} == {"samples": "samples/s", "rate": "GB/s", "waits": "%"}
    assert all(m.count == 3 for m in found.values())
    # 128 utterances of 12.3 s on average, 80 bands of 4 bytes per 10 ms
    assert found["rate"].value / found["samples"].value * 1e9 == pytest.approx(80 * 4 * 1230, rel=0.03)
    # the step keeps each batch of 32 for 5 ms: faster consumption is impossible
    assert found["samples"].best <= 32 / 0.005 and 0 <= found["waits"].value < 100
    assert one.result.version == "2.4.0"


@pytest.mark.slow
@pytest.mark.parametrize("check", ["AWrongBit", "ASampleTwice"])
def test_what_it_reads_wrongly_fails(session: Outcome, check: str) -> None:
    one = record(session, check)
    assert one.verdict == FAIL and "verification of a line of the output matches" in one.judgement.message()


@pytest.mark.slow
def test_a_node_without_dali_is_waived(tmp_path: Path) -> None:
    one = record(
        reframe(
            "--system", "local", "-r", "-S", "tenken_mode=quick", "-n", KINDS,
            folder=tmp_path, checks="checks/dali.py", TENKEN_DALI="/nowhere",
        ),
        "DataLoadingDaliCpu",
    )  # fmt: skip
    assert one.verdict == WAIVED and "library missing: nvidia.dali: No module named" in one.result.reason


@pytest.mark.slow
def test_the_folder_contains_what_its_packages_require(session: Outcome) -> None:
    """A python3 without other packages imports it; NVIDIA's decoders and build-time packages are left out."""
    (folder,) = (ROOT / ".cache" / "dali").glob(f"cuda-13-python-3.{sys.version_info.minor}")
    every = [dist.requires or [] for dist in importlib.metadata.distributions(path=[str(folder)])]
    needed = [Requirement(text) for one in every for text in one]
    names = {one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})}
    names = {name for name in names if not name.startswith("nvidia-")} - {"wheel"}
    assert "optree" in names and names <= set(dali.IMPORTED), names - set(dali.IMPORTED)


def trained(python: Path, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    folder = dali.make("13", ROOT / ".cache" / "dali")
    short = ("--train", "--batches", "1", "--epochs", "1", "--threads", "1")
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [python, PROGRAM, *short, *more], cwd=tmp_path, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_a_training_that_loads_learns_from_samples_that_were_read_right(tmp_path: Path) -> None:
    done = trained(pytorch.python(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(re.search(line, done.stdout, re.M) for line in (READ, LEARNT)), done.stdout
    assert re.search(r"^training by PyTorch \S+ on cpu$", done.stdout, re.M)
    wrong = trained(pytorch.python(), tmp_path, "--inject-fault", "element")
    assert not re.search(READ, wrong.stdout, re.M) and re.search(LEARNT, wrong.stdout, re.M)


@pytest.mark.slow
def test_a_training_without_pytorch_is_waived(tmp_path: Path) -> None:
    done = trained(Path(sys.executable), tmp_path)
    assert done.returncode == 3 and "TENKEN-FOREIGN-MISSING torch: No module named 'torch'" in done.stdout


@pytest.mark.parametrize("wrong", [["--batches", "0"], ["--prefetch", "65"], ["--threads", "-1"]])
def test_a_number_out_of_range_is_refused(wrong: list[str], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), *wrong], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and f"{' '.join(wrong)} is invalid; allowed: " in done.stderr
    assert not list(tmp_path.iterdir())
