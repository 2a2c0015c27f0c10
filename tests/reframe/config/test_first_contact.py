"""What ReFrame does with a configuration before anything runs: refusals in one line, dry runs, no `--system`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tenken.reframe.configuration import chosen_system, runs
from tests.support import forked
from tests.support.options import refused

#: one worker creates the files that this module shares
pytestmark = [pytest.mark.sessions, pytest.mark.xdist_group("first contact")]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A checkout of a site: its own folder of systems, everything else as here."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("config", "checks", "src", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "systems", folder / "systems")
    text = (ROOT / "systems" / "minislurm.yaml").read_text()
    assert "build: login" in text
    (folder / "systems" / "jobbuild.yaml").write_text(text.replace("build: login", "build: job"))
    return folder


def reframe(site: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_"))}
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    more = {"RFM_CONFIG_PATH": "config", "RFM_COLORIZE": "n", "TENKEN_ROOT": str(site)}
    return forked.run(["reframe", "-c", "checks", *arguments], cwd=site, timeout=300, env={**kept, **more, **env})


@pytest.mark.parametrize(
    ("arguments", "env", "line"),
    [
        (["-r", "--system", "miyabi"], {}, "tenken: system 'miyabi': TENKEN_GROUP (project group"),
        (["--dry-run", "--system", "miyabi"], {}, "tenken: system 'miyabi': TENKEN_GROUP (project group"),
        (["-r", "--system=miyabi:gpu"], {}, "tenken: system 'miyabi': TENKEN_GROUP (project group"),
        (["-vr"], {"RFM_SYSTEM": "miyabi"}, "tenken: system 'miyabi': TENKEN_GROUP (project group"),
        (["-l", "--system", "local"], {"TENKEN_PATIENCE": "soon"}, "tenken: TENKEN_PATIENCE: 'soon'; allowed: "),
    ],
)
def test_what_a_user_must_mend_is_one_line_before_anything_starts(site, arguments, env, line):
    done = reframe(site, *arguments, **env)
    assert done.returncode != 0
    (said,) = (done.stdout + done.stderr).splitlines()
    assert said.startswith(line), said


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        *((f"tenken_minutes={value}", "a number of minutes, 0 or above") for value in ("abc", "nan", "-3")),
        ("Burn.burn_seconds=soon", "a whole number"),
    ],
)
def test_a_variable_refuses_a_value_in_one_line(site, given, allowed):
    """ReFrame printed a traceback of 40 lines; with nan the archive could not be read."""
    done = reframe(site, "-l", "-S", given)
    name, value = given.rpartition(".")[2].split("=")
    assert done.returncode != 0 and done.stderr == f"tenken: -S {name}={value}: allowed: {allowed}\n"


def test_a_file_that_is_wrong_is_told_where_it_is_asked_for(site):
    wrong = site / "systems" / "wrong.yaml"
    wrong.write_text("title: x\n")
    try:
        done = reframe(site, "-l", "--system", "wrong")
    finally:
        wrong.unlink()
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert done.stderr.startswith("tenken: systems/wrong.yaml")


def test_a_system_whose_variables_are_set_is_not_refused(site):
    done = reframe(site, "-r", "--system", "miyabi", "-n", "NoSuchCheck", TENKEN_GROUP="gz00")
    assert "is not set" not in done.stdout + done.stderr and "Ran 0/0" in done.stdout


def test_without_a_system_it_is_this_machine(site):
    listed = reframe(site, "-l")
    assert listed.returncode == 0 and "StreamHost" in listed.stdout


def test_one_line_a_check_leaves_reframe_its_warnings_alone(site):
    done = reframe(site, "-r", "--system", "minislurm", "-n", "NoSuchCheck", TENKEN_TERMINAL="brief")
    assert done.stdout.splitlines() == ["0 of 0 checks in 0 s: none ended"]


def test_what_describes_checks_is_printed_whole(site):
    described = reframe(site, "--describe", "--system", "minislurm", "-n", "Daxpy", TENKEN_TERMINAL="brief")
    assert [one["display_name"] for one in json.loads(described.stdout)][-1] == "Daxpy"


@pytest.mark.parametrize("system", ["jobbuild", "minislurm"])
def test_a_dry_run_builds_where_the_file_says_and_is_no_session(site, system):
    before = sorted((site / "perflogs").rglob("*"))
    done = reframe(site, "--dry-run", "--system", system, "-n", "StreamHost|Daxpy", "--mode", "quick")
    assert done.returncode == 0, done.stdout
    builds = list((site / "stage").glob(f"*/{system}/*/*/Build*/rfm_build.sh"))
    assert builds
    assert all(("#SBATCH --partition=" in script.read_text()) is (system == "jobbuild") for script in builds)
    assert sorted((site / "perflogs").rglob("*")) == before


#: A cluster in one file: 18 nodes on Slurm, GPUs without a data sheet, and a partition of CPUs.
EIGHTEEN = """\
title: Eighteen nodes
status: test
environments:
  cuda: {features: [cuda, openmp, mpi], cc: gcc, cxx: g++, cuda: nvcc}
  host: {features: [openmp], cc: gcc, cxx: g++}
partitions:
  gpu:
    scheduler: slurm
    launcher: srun
    access: ["--partition=gpu"]
    gpu_request: ["--gpus-per-node={num_gpus_per_node}"]
    environments: [cuda, host]
    features: [cuda, mpi]
    node:
      architecture: x86_64
      count: 16
      sockets: 2
      cores: 96
      gpus: {model: "NVIDIA Z9", memory_gib: 96, compute_capability: "9.0", count: 4}
  cpu:
    scheduler: slurm
    launcher: srun
    access: ["--partition=cpu"]
    environments: [host]
    node: {architecture: x86_64, count: 2, sockets: 2, cores: 64}
"""


def test_gpus_that_no_data_sheet_is_known_of_are_built_for_and_asked_for(site):
    (site / "systems" / "eighteen.yaml").write_text(EIGHTEEN)
    checks = "StreamCuda|StreamHost|MpiDevice"
    done = reframe(site, "--dry-run", "--system", "eighteen", "-n", checks, "--mode", "quick")
    assert done.returncode == 0, done.stdout + done.stderr
    here = site / "stage"
    scripts = list(here.glob("*/eighteen/gpu/cuda/StreamCuda*/rfm_job.sh"))
    assert scripts and all("#SBATCH --gpus-per-node=4" in script.read_text() for script in scripts)
    assert {json.loads((script.parent / "request.json").read_text())["gpus"] for script in scripts} == {4}
    # a pair of ranks lists a pair of GPUs
    (pair,) = set(here.glob("*/eighteen/gpu/cuda/MpiDevice*/request.json"))
    assert json.loads(pair.read_text())["gpus"] == 2
    builds = [path.read_text() for path in here.glob("*/eighteen/gpu/cuda/Build*/rfm_build.sh")]
    assert builds and all("-DCMAKE_CUDA_ARCHITECTURES=90" in text for text in builds)
    hosts = [path.parents[2].name for path in here.glob("*/eighteen/*/host/StreamHost*/rfm_job.sh")]
    assert sorted(hosts) == ["cpu", "gpu"]


@pytest.mark.parametrize(("cores", "ranks"), [(1, 0), (2, 2), (16, 4)])
def test_ranks_are_asked_for_as_a_node_has_cpus_for(site, cores, ranks):
    """Slurm refuses a job for four ranks on a node of two cores."""
    name = f"cores{cores}"
    text = (ROOT / "systems" / "minislurm.yaml").read_text().replace("count: 4", f"count: 4\n      cores: {cores}")
    (site / "systems" / f"{name}.yaml").write_text(text)
    done = reframe(
        site, "--dry-run", "--system", name, "-n", "^MpiHost$|HpcgHostRanks|StencilHostRanks", "--mode", "acceptance"
    )
    assert done.returncode == 0, done.stdout
    scripts = list((site / "stage").glob(f"*/{name}/*/*/*/rfm_job.sh"))
    assert len(scripts) == (3 if ranks else 0)
    assert done.stdout.count("WAIVED: needs more ranks: a node of this partition has 1 CPU") == (0 if ranks else 3)
    for script in scripts:
        assert f"#SBATCH --ntasks={ranks}\n#SBATCH --ntasks-per-node={ranks}\n" in script.read_text()
        asked = json.loads((script.parent / "request.json").read_text())
        assert asked["ranks"] == ranks and asked["parameters"].get("ranks", ranks) == ranks


def test_twelve_minutes_of_acceptance_measure_the_problems_of_mode_quick(site):
    """On two GPUs 32 of 86 checks had no time left with larger ones, however few samples were taken."""
    done = reframe(site, "--dry-run", "--system", "h200", "--mode", "acceptance", "-S", "tenken_minutes=12")
    assert done.returncode == 0, done.stdout
    asked = {}
    for path in (site / "stage").glob("*/h200/gpu/*/*/request.json"):
        request = json.loads(path.read_text())
        asked[request["check"]] = request["mode"], request["parameters"]
        given = [(name.replace("_", "-"), str(value)) for name, value in request["parameters"].items()]
        assert not refused(request["program"], given), request["check"]
    shutil.rmtree(site / "stage")
    assert len(asked) > 60 and {mode for mode, _ in asked.values()} == {"acceptance"}
    expected = {
        ("Gemm %gpus_at=at_once", "cases"): "fp16,fp64_tensor,fp8_e4m3", ("HpcgCuda", "nx"): 128,
        ("HplMxp %low=fp16", "n"): 65536, ("Stencil %points=7 %precision=double", "nx"): 512,
        ("SnapshotCuda", "max_particles"): 1048576, ("TrainingStep %precision=bf16", "seconds"): 2,
    }  # fmt: skip
    assert {(name, key): asked[name][1][key] for name, key in expected} == expected


def test_the_first_finding_is_built_and_measured_before_the_rest(site):
    """The build of all others waits for the file that the first check's job writes after its command. One that has its
    own folder configures before it waits, and the first check is not measured at the same time."""
    done = reframe(site, "--dry-run", "--system", "h200", "-n", "StreamHost|Daxpy|^StreamCuda", "--mode", "quick")
    assert done.returncode == 0, done.stdout
    (folder,) = (site / "stage").glob("*/h200/gpu/host")
    scripts = {path.parent.name.split("_")[0]: path.read_text() for path in folder.glob("*/rfm_*.sh")}
    (beside,) = (path.read_text() for path in (site / "stage").glob("*/h200/gpu/cuda/BuildPrograms*/rfm_build.sh"))
    assert set(scripts) == {"BuildFirst", "BuildPrograms", "StreamHost", "Daxpy"}
    assert 'tenken_programs="stream"' in scripts["BuildFirst"]
    assert 'tenken_programs="daxpy"' in scripts["BuildPrograms"]
    (awaited,) = re.findall(r"do \[ ! -e (\S+) \]", scripts["BuildPrograms"])
    assert f": > {awaited}\n" in scripts["StreamHost"].partition("TENKEN-RUN end")[2]
    assert awaited in scripts["BuildFirst"]  # also signalled if the build fails
    assert awaited not in scripts["Daxpy"]
    assert all("--warmup-seconds 0.3 " in scripts[name] for name in ("StreamHost", "Daxpy"))
    (told,) = set(re.findall(r": > (\S+/\.configured-[^\s;]+)", beside))
    order = [beside.index(one) for one in ("cmake -G", f": > {told}", f"[ ! -e {awaited} ]", "cmake --build")]
    assert order == sorted(order)
    first = scripts["BuildFirst"]
    assert first.index("cmake --build") < first.index(f"[ ! -e {told} ]") and told not in scripts["BuildPrograms"]
    assert beside.rindex(f": > {told}") > beside.index("tenken_build && "), "where configuring fails, it is told too"


def test_the_command_line_tells_the_system_and_whether_anything_runs():
    assert chosen_system(["-r", "--system", "miyabi:gpu"], {}) == "miyabi"
    assert chosen_system(["--system=h200", "-l"], {"RFM_SYSTEM": "v100"}) == "h200"
    assert chosen_system(["-r"], {"RFM_SYSTEM": "v100"}) == "v100"
    assert chosen_system(["-r", "--system"], {}) is None
    assert runs(["-c", "checks", "-r"]) and runs(["--run"]) and runs(["-vvr"])
    assert not runs(["-l"]) and not runs(["--dry-run"]) and not runs(["-c", "checks", "--restore-session"])
