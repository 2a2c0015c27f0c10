"""Checks in a container that a real engine starts: Debian's podman, by ReFrame's container platform Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.paths import ROOT
from tests.support import debian

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("containers")]

SYSTEM = """\
title: A node whose program is in an image
status: test
environments:
  host: {{features: [openmp], cc: no-compiler-here, cxx: no-compiler-here}}
partitions:
  node:
    scheduler: local
    launcher: local
    environments: [host]
    containers: [{{platform: Docker, image: {image}, options: [{options}]}}]
    node: {{architecture: {architecture}}}
"""
#: A third-party program in the same image, which prints where it runs.
FOREIGN = """\
import reframe as rfm

from tenken.reframe.foreign import Figure, ForeignCheck


@rfm.simple_test
class CountPlaces(ForeignCheck):
    program = "count_places"
    image = "localhost/tenken-test"
    command = "for one in /*; do n=$((n + 1)); done; echo places: $n; echo option $SEEN_INSIDE"
    figures = {"places": Figure("folders of the root", "1", "lower", r"places: (\\d+)")}
    required_lines = ["^option yes$"]
    tags = {"quick"}
"""
#: Spinning threads would take the cores of concurrent tests, and arrays for a large cache their time.
SMALL = "/opt/small"
OPTIONS = (
    '"--ulimit=host", "--env=SEEN_INSIDE=yes", "--env=OMP_WAIT_POLICY=passive", '
    f'"--env=LD_PRELOAD={SMALL}/small_cache.so", "--env=TENKEN_TEST_CACHE={SMALL}/size"'
)
#: What the image reports as its system.
OS = "An image of a test"
#: System files of every image, for the job's own lines in it.
TOOLS = ("/bin/sh", "/bin/cp")


@dataclass(frozen=True)
class Engine:
    """`docker` on PATH is podman with its own store; `environment` is what it needs."""

    folder: Path
    environment: dict[str, str]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "bin" / "docker"), *words], env={**os.environ, **self.environment}, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip


def needed(program: str) -> set[str]:
    """A program and the libraries that it loads."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {program, *re.findall(r"(/\S+) \(0x", said)}


@pytest.fixture(scope="module")
def engine(build_dir: Path, small_cache: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """With an image of a program as build.sh leaves it, and only its libraries from this machine."""
    debian.need(*debian.ENGINE)
    folder = tmp_path_factory.mktemp("engine")
    # podman refuses names of more than 50 characters, which pytest's workers exceed
    state = Path(tempfile.mkdtemp(prefix="tenken-"))
    (folder / "bin").mkdir()
    (folder / "bin" / "docker").write_text(
        f"#!/bin/sh\nexec podman --root {folder}/store --runroot {state} --storage-driver vfs "
        f'--cgroup-manager cgroupfs --runtime runc --events-backend none "$@"\n'
    )
    (folder / "bin" / "docker").chmod(0o755)
    # a limit that this machine does not allow to raise is left unchanged
    (folder / "containers.conf").write_text("[containers]\ndefault_ulimits = []\n")
    made = Engine(folder, {"CONTAINERS_CONF": str(folder / "containers.conf")})
    program = str(build_dir / "bin" / "daxpy")
    small = [small_cache[name] for name in ("LD_PRELOAD", "TENKEN_TEST_CACHE")]
    with tarfile.open(folder / "root.tar", "w", dereference=True) as tar:
        for file in sorted(set().union(*map(needed, [program, small[0], *TOOLS])) - {small[0]}):
            inside = f"opt/tenken/built/bin/{Path(file).name}" if file == program else file.lstrip("/")
            tar.add(file, inside)
        for file in small:
            tar.add(file, f"{SMALL.lstrip('/')}/{Path(file).name}")
        tar.add(build_dir / "generated" / "tenken_revision.h", "opt/tenken/built/tenken_revision.h")
        release = folder / "os-release"
        release.write_text(f'PRETTY_NAME="{OS}"\n')
        tar.add(release, "etc/os-release")
    imported = made("import", str(folder / "root.tar"), "localhost/tenken-test")
    assert imported.returncode == 0, imported.stderr
    yield made
    made("rmi", "--all", "--force")
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="module")
def session(engine: Engine) -> tuple[dict[str, archive.Record], Path, str]:
    return run(engine, engine.folder / "site", "localhost/tenken-test", "^(Daxpy|CountPlaces)$")


def run(engine: Engine, site: Path, image: str, checks: str) -> tuple[dict[str, archive.Record], Path, str]:
    """Records by check, the stage folder and the output of a session on a system with that image."""
    (site / "systems").mkdir(parents=True)
    (site / "ours").mkdir()
    for name in ("config", "checks", "src", "scripts"):
        (site / name).symlink_to(ROOT / name)
    (site / "systems" / "hardware.yaml").symlink_to(ROOT / "systems" / "hardware.yaml")
    (site / "systems" / "inside.yaml").write_text(
        SYSTEM.format(image=image, options=OPTIONS, architecture=os.uname().machine)
    )
    (site / "ours" / "places.py").write_text(FOREIGN)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_")) or k == "TENKEN_LOCKS"}
    done = subprocess.run(
        ["reframe", "-c", "checks", "-c", "ours", "-r", "--system", "inside", "--mode", "quick", "-n", checks,
         "--keep-stage-files"],
        cwd=site, capture_output=True, text=True, check=False, timeout=300,
        env={**kept, **engine.environment, "PATH": f"{engine.folder / 'bin'}:{kept['PATH']}",
             "RFM_CONFIG_PATH": "config", "RFM_COLORIZE": "n", "TENKEN_ROOT": str(site),
             "TENKEN_SESSION": "20260101T000000Z-inside"},
    )  # fmt: skip
    records = {one.check: one for one in archive.records(site / "perflogs")}
    return records, site / "stage", done.stdout + done.stderr


def test_checks_run_in_a_container_and_are_judged(session) -> None:
    records, stage, said = session
    one = records["Daxpy"]
    # with other users on the machine a measurement may be INVALID; it came from the container either way
    assert one.verdict in ("PASS", "RECORDED", "INVALID"), said
    assert one.result and one.result.status == "ok"
    assert one.result.parameters["elements"] == 1 << 24, "not the small caches of tests"
    (script,) = stage.glob("*/inside/node/host/Daxpy/rfm_job.sh")
    assert "docker run --rm " in script.read_text()
    (errors,) = stage.glob("*/inside/node/host/Daxpy/rfm_job.err")
    assert "No such file" not in errors.read_text()
    assert not list(stage.parent.glob(".build/**/CMakeCache.txt")), "nothing is compiled"


def test_a_program_is_in_the_image_yet_on_this_host(session) -> None:
    """Its system is the image's; locks, load and the job's environment are those of the host."""
    records, _, said = session
    found = records["Daxpy"].result
    assert found and found.host.os == OS, said
    assert found.host.name == os.uname().nodename and found.placement.binding == "close"
    assert found.locks and found.locks.held == ("host",)
    assert found.load and found.load.seconds > 0


def test_a_foreign_program_runs_in_its_image(session) -> None:
    records, _, said = session
    one = records["CountPlaces"]
    assert one.verdict == "RECORDED", one.judgement.message() + said
    assert one.result and one.result.metrics[0].value < len(list(Path("/").iterdir()))


def test_an_image_that_the_engine_lacks_is_a_failure(engine: Engine, tmp_path: Path) -> None:
    records, _, said = run(engine, tmp_path / "site", "localhost/no-such-image", "^(Daxpy|StreamHost)$")
    assert {records[name].verdict for name in ("Daxpy", "StreamHost")} == {"FAIL"}
    assert re.search(r"Reason: .*the build failed with exit status 125: .*no-such-image", said), said
