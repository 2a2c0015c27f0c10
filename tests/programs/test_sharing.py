"""A program of this suite locks the machine while it measures, shares the lock within a request, and finally gives
up."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

SMALL = ("--elements", "1000", "--repetitions", "3", "--warmup-seconds", "0")
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The host, locked by process 7 for the token `theirs`."""
    folder = tmp_path / "locks"
    folder.mkdir()
    monkeypatch.setenv("TENKEN_LOCKS", str(folder))
    monkeypatch.setenv("TENKEN_LOCK_SECONDS", "0")
    with (folder / f"host-{BOOT}").open("w") as lock:
        lock.write("7 gemm theirs")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield folder


def request(folder: Path, token: str) -> str:
    file = folder / "request.json"
    file.write_text(json.dumps({"schema": "tenken-request/1", "token": token}))
    return str(file)


def test_a_program_gives_up_where_another_measures(run, held, tmp_path):
    done = run("daxpy", *SMALL)
    assert done.code == 1 and done.document["status"] == "failed" and not done.document["metrics"]
    assert done.document["locks"]["shared_with"].startswith("host shared with pid 7 (gemm)")
    assert run("daxpy", *SMALL, "--request", request(tmp_path, "mine")).code == 1


def test_a_program_shares_the_locks_of_its_own_request(run, held, tmp_path):
    done = run("daxpy", *SMALL, "--request", request(tmp_path, "theirs"))
    assert done.code == 0 and done.document["locks"]["held"] == ["host"]


def test_a_program_measures_where_the_file_system_has_no_locks(run, held, build_dir):
    preloaded = {"LD_PRELOAD": str(build_dir / "unit" / "libtenken_bad_disk.so"), "BAD_DISK_NO_LOCKS": "1"}
    done = run("daxpy", *SMALL, env={**os.environ, **preloaded})
    locks = done.document["locks"]
    assert done.code == 0 and not locks["held"] and locks["none_because"].endswith("No locks available")


def test_a_run_tells_its_locks_and_the_load(run):
    done = run("daxpy", *SMALL)
    assert done.code == 0
    assert done.document["locks"] == {**done.document["locks"], "held": ["host"], "shared_with": None}
    load = done.document["load"]
    assert load["seconds"] > 0 and load["load_average_after"] is not None and len(load["others"]) <= 3
