"""Checks in the suite's own image, and the recipes that make it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tenken.archive import records
from tenken.paths import ROOT
from tests.support.builds import checked

pytestmark = pytest.mark.xdist_group("containers")

RECIPES = ROOT / "toolchains" / "container"

#: The stand-in for Apptainer: an image is a folder, whose /opt/tenken is run.
APPTAINER = """#!/bin/bash
echo "$*" >> {log}
[ "$1" = exec ] || exit 64
shift
bound=
while :; do
    case $1 in
    -B*) bound="$bound ${1#-B}"; shift ;;
    --nv) shift ;;
    --pwd) case $bound in *" $2:$2"*) cd "$2" ;; *) exit 65 ;; esac; shift 2 ;;
    *) break ;;
    esac
done
image=$1
shift
[ -d "$image" ] || { echo "FATAL:   could not open image $image" >&2; exit 255; }
exec "${@//\\/opt\\/tenken/$image}"
"""

SYSTEM = """\
title: A node whose programs are in an image
status: test
environments:
  host: {{features: [openmp], cc: no-compiler-here, cxx: no-compiler-here}}
partitions:
  node:
    scheduler: local
    launcher: local
    environments: [host]
    containers: [{{platform: Apptainer, image: {image}}}]
    node: {{architecture: x86_64}}
"""


@pytest.fixture(scope="module")
def image(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What build.sh leaves at /opt/tenken: one program and its revision."""
    folder = tmp_path_factory.mktemp("image") / "tenken.sif"
    (folder / "built" / "bin").mkdir(parents=True)
    shutil.copy2(build_dir / "bin" / "daxpy", folder / "built" / "bin")
    shutil.copy2(build_dir / "generated" / "tenken_revision.h", folder / "built")
    return folder


def run(folder: Path, image: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """`reframe -r` of Daxpy on a system with that image, and the calls of the container platform."""
    site, log = folder / "site", folder / "log"
    site.mkdir()
    for name in ("config", "checks", "src", "scripts"):
        (site / name).symlink_to(ROOT / name)
    (site / "systems").mkdir()
    (site / "systems" / "hardware.yaml").symlink_to(ROOT / "systems" / "hardware.yaml")
    (site / "systems" / "inside.yaml").write_text(SYSTEM.format(image=image))
    (folder / "tools").mkdir()
    (folder / "tools" / "apptainer").write_text(APPTAINER.replace("{log}", str(log)))
    (folder / "tools" / "apptainer").chmod(0o755)
    tests = ("TENKEN_LOCKS", "TENKEN_TEST_CACHE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_")) or k in tests}
    done = subprocess.run(
        ["reframe", "-c", "checks/daxpy.py", "-r", "--system", "inside", "--mode", "quick"], cwd=site,
        env={**kept, "PATH": f"{folder / 'tools'}:{kept['PATH']}", "RFM_CONFIG_PATH": "config", "RFM_COLORIZE": "n",
             "TENKEN_ROOT": str(site), "TENKEN_SESSION": "20260101T000000Z-inside"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done, log.read_text() if log.is_file() else ""


def verdicts(folder: Path) -> list[str]:
    return [record.judgement.verdict for record in records.records(folder / "site" / "perflogs")]


@pytest.mark.containers
def test_a_check_runs_in_the_image_and_nothing_is_compiled(image: Path, tmp_path: Path) -> None:
    done, asked = run(tmp_path, image)
    # with other users on the machine a measurement may be INVALID; it came from the image either way
    assert verdicts(tmp_path) and set(verdicts(tmp_path)) <= {"PASS", "RECORDED", "INVALID"}, done.stdout + done.stderr
    (one,) = records.records(tmp_path / "site" / "perflogs")
    assert one.result.parameters["elements"] == 1 << 24, "not the small caches of tests"
    taken, ran = asked.splitlines()
    assert taken.endswith(f"{image} cp -R /opt/tenken/built/. .")
    assert re.search(rf"--pwd (\S+) {re.escape(str(image))} \S+/bin/daxpy .*--json result.json$", ran), ran
    assert not list((tmp_path / "site" / ".build").rglob("CMakeCache.txt"))


@pytest.mark.containers
def test_an_image_that_is_not_there_is_a_failure_of_the_build(tmp_path: Path) -> None:
    done, _ = run(tmp_path, tmp_path / "no.sif")
    assert done.returncode != 0
    assert "could not open image" in done.stdout + done.stderr
    assert "PASS" not in verdicts(tmp_path) and "RECORDED" not in verdicts(tmp_path)


def test_both_recipes_do_the_same() -> None:
    docker, apptainer = ((RECIPES / name).read_text() for name in ("Dockerfile", "tenken.def"))
    base = re.search(r"^FROM (debian:\d+)$", docker, re.M)
    assert base and f"\nBootstrap: docker\nFrom: {base[1]}\n" in apptainer
    assert "ADD tenken.tar /opt/tenken/\n" in docker and "tar -xf /opt/tenken.tar -C /opt/tenken\n" in apptainer
    script = "sh /opt/tenken/toolchains/container/build.sh"
    assert f'RUN {script} "$CUDA" "$NATIVE"\n' in docker
    assert f'    {script} "{{{{ CUDA }}}}" "{{{{ NATIVE }}}}"\n' in apptainer
    for default in ("CUDA=13.0", "NATIVE=OFF"):
        assert f"ARG {default}\n" in docker and f"    {default}\n" in apptainer
    assert "PATH=/opt/tenken/.venv/bin:$PATH" in docker and "PATH=/opt/tenken/.venv/bin:$PATH" in apptainer


#: The stand-ins for apt-get, make and python in a trial of build.sh: each prints its arguments.
SAYS = '#!/bin/sh\necho "$(basename "$0") $*" >> {log}\n'


@pytest.mark.parametrize(
    ("cuda", "options", "not_there"),
    [("none", ["-DTENKEN_MPI=ON", "-DTENKEN_NATIVE=OFF"], ["CUDA"]),
     ("13.0", ["-DTENKEN_CUDA=ON", "-DCMAKE_CUDA_COMPILER=/cuda/bin/nvcc", "90"], []),
     ("12.4", ["-DTENKEN_CUDA=ON", "60;70;75"], ["120"])],
)  # fmt: skip
def test_the_steps_of_an_image_are_these(tmp_path: Path, cuda, options, not_there) -> None:
    """build.sh itself with stand-ins for its commands: packages, virtual environment, toolkit, build, a program."""
    home, tools, log = tmp_path / "opt", tmp_path / "tools", tmp_path / "log"
    (home / "toolchains" / "container").mkdir(parents=True)
    shutil.copy2(RECIPES / "build.sh", home / "toolchains" / "container")
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "activate").touch()
    (home / "built" / "bin").mkdir(parents=True)
    tools.mkdir()
    for folder, name in [(tools, n) for n in ("apt-get", "make", "python", "cmake", "cp", "rm")] + [
        (home / "built" / "bin", "daxpy")
    ]:
        (folder / name).write_text(SAYS.format(log=log) + ("echo /cuda\n" if name == "python" else ""))
        (folder / name).chmod(0o755)
    done = subprocess.run(
        ["sh", str(home / "toolchains/container/build.sh"), cuda, "OFF"],
        env={"PATH": f"{tools}:/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = log.read_text().splitlines()
    order = ["apt-get update", "apt-get install", "make venv", "cmake -G", "cmake --build", "cmake --install", "daxpy"]
    places = [next(i for i, step in enumerate(steps) if step.startswith(word)) for word in order]
    assert places == sorted(places)
    (install,) = [step for step in steps if step.startswith("apt-get install")]
    # what scripts/need.sh requires of a newcomer's machine, and an MPI
    assert {"g++", "git", "make", "python3-venv", "util-linux", "libopenmpi-dev"} <= set(install.split())
    (configured,) = [step for step in steps if step.startswith("cmake -G")]
    assert all(option in configured for option in options)
    assert not [word for word in not_there if word in configured]
    assert any("toolchains.cuda_home" in step for step in steps) == (cuda != "none")


@pytest.mark.parametrize("words", [["11.8", "OFF"], ["13.0", "yes"]])
def test_what_no_image_can_be_made_of_is_refused_at_once(tmp_path: Path, words) -> None:
    done = subprocess.run(
        ["/bin/sh", str(RECIPES / "build.sh"), *words], capture_output=True, text=True, check=False,
        env={"PATH": "/nowhere"},
    )  # fmt: skip
    assert done.returncode == 2 and "allowed: " in done.stderr


def test_the_archive_is_what_is_committed_and_says_which_commit(tmp_path: Path) -> None:
    checked(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(tmp_path / "clone")])
    (tmp_path / "clone" / "src" / "left-over").write_text("not committed\n")
    (tmp_path / "clone" / "README.md").write_text("not committed\n")
    here = tmp_path / "clone" / "toolchains" / "container"
    # the recipe in its present state, even before it is committed
    here.mkdir(exist_ok=True)
    shutil.copy2(RECIPES / "source.sh", here)
    said = subprocess.run(["sh", str(here / "source.sh")], capture_output=True, text=True, check=True)
    assert "what is not committed is left out" in said.stderr
    names = checked(["tar", "-tf", str(here / "tenken.tar")]).splitlines()
    assert {"REVISION", "Makefile", "src/CMakeLists.txt", "tenken/paths.py"} <= set(names)
    assert "src/left-over" not in names
    assert checked(["tar", "-xOf", str(here / "tenken.tar"), "README.md"]).startswith("# Tenken")
    head = checked(["git", "-C", str(tmp_path / "clone"), "rev-parse", "HEAD"]).strip()
    revision = checked(["tar", "-xOf", str(here / "tenken.tar"), "REVISION"]).strip()
    assert head.startswith(revision) and len(revision) >= 7
