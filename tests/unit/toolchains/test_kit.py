"""The offline kit: its settings, its contents, and that it installs without a network."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from toolchains import kit, wheels
from toolchains.processes import ToolchainError

pytestmark = pytest.mark.xdist_group("kit")  # one worker creates the files that this module shares

#: A borrowed machine without network accepts 64 MiB together with a command; the suite itself needs part of that.
LARGEST_RUN_KIT = 55 * 1024 * 1024  # 30 MB of it are cmake

RUNNING = f"3.{sys.version_info.minor}"


def settings(**variables: str) -> kit.Settings:
    return kit.Settings.of({f"KIT_{name.upper()}": value for name, value in variables.items()})


def size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_without_settings_the_kit_is_for_this_machine() -> None:
    made = kit.Settings.of({})
    assert (made.target.arch, made.target.python, made.cuda) == (platform.machine(), RUNNING, "13")
    assert not (made.reports or made.nvcc or made.nvshmem)


@pytest.mark.parametrize(
    "variables",
    [
        {"python": "2.7"},
        {"arch": "riscv64"},
        {"cuda": "11"},
        {"reports": "yes"},
        {"nvcc": "cufoo"},
        {"nvshmem": "2"},
        {"colour": "red"},
    ],
)
def test_bad_settings_are_refused_with_what_is_allowed(variables: dict[str, str]) -> None:
    with pytest.raises(ToolchainError, match="allowed"):
        settings(**variables)


def test_nvcc_can_name_components() -> None:
    assert settings(nvcc="1").nvcc == "base"
    assert settings(nvcc="cusparse,cublas", cuda="12").toolkit.version == "12.4"


def test_roots_follow_pyproject() -> None:
    assert {"reframe-hpc", "ruamel-yaml", "jsonschema", "jinja2"} <= set(kit.roots(settings()))
    assert "matplotlib" in kit.roots(settings(reports="1"))
    assert {"cmake", "ninja"} <= set(kit.roots(settings(nvcc="1")))


def test_requirements_of_extras_are_left_out(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        head = "Name: a\nRequires-Dist: Be_ta>=1\nRequires-Dist: gamma; extra == 'x'\n\nRequires-Dist: in the text\n"
        archive.writestr("a-1.dist-info/METADATA", head)
    assert kit.requires(wheel) == ["be-ta"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run kit for x86_64 and the Python that runs the tests (needs the package index)."""
    directory = tmp_path_factory.mktemp("checkout") / "kit"
    kit.write_kit(settings(arch="x86_64", python=RUNNING), directory)
    return directory


@pytest.mark.kit
@pytest.mark.slow
def test_the_run_kit_is_small_and_its_manifest_complete(made: Path) -> None:
    assert size(made) < LARGEST_RUN_KIT
    lines = [line.split(" ", 2) for line in (made / "MANIFEST").read_text().splitlines()]
    assert {name for _, _, name in lines} == {str(path.relative_to(made)) for path in kit.files_of(made)}
    assert all((made / name).stat().st_size == int(length) for _, length, name in lines)
    assert (made / "REVISION").read_text().strip()
    with zipfile.ZipFile(made / "ucx.zip") as archive:
        assert any("libuct_cuda" in name for name in archive.namelist())


@pytest.mark.kit
@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kit of this test is for x86_64")
def test_the_kit_installs_offline_and_its_mpi_runs(made: Path) -> None:
    checkout = made.parent
    for name in ("pyproject.toml", "tenken", "systems", "config", "checks", "reports", "toolchains"):
        source = kit.ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, checkout / name)
    (checkout / "README.md").write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    # No index and no proxy: any request to the network fails at once.
    environment |= {
        "PIP_INDEX_URL": "http://127.0.0.1:9",
        "PYTHON": getattr(sys, "_base_executable", sys.executable),
    }
    for _ in range(2):  # a second time changes nothing
        subprocess.run(["sh", str(made / "install.sh")], check=True, env=environment, cwd="/")
    python = checkout / ".venv/bin/python"
    subprocess.run([str(python), "-c", "import tenken, reframe, jsonschema, jinja2, ruamel.yaml"], check=True, cwd="/")
    script = f". {checkout}/.venv/bin/tenken-mpi.env; mpirun -n 2 --oversubscribe sh -c 'echo rank $PMIX_RANK'"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env=environment)
    assert sorted(done.stdout.split("\n"))[-2:] == ["rank 0", "rank 1"]

    (made / "REVISION").write_text("changed\n")
    done = subprocess.run(["sh", str(made / "install.sh")], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "missing or changed: REVISION" in done.stderr


@pytest.mark.kit
@pytest.mark.slow
def test_wheels_for_another_machine_are_that_machines(tmp_path: Path) -> None:
    there = settings(arch="aarch64", python="3.12")
    kit.fetch_closure(kit.roots(there), wheels.read_lock(kit.ROOT / "requirements.lock"), there.target, tmp_path)
    names = [path.name for path in tmp_path.glob("*.whl")]
    compiled = [name for name in names if not name.endswith("-any.whl")]
    # cmake and ninja are programs: they work with any Python
    assert compiled and all("aarch64" in name and ("cp312" in name or "-py3-none-" in name) for name in compiled)
    assert {name.split("-")[0] for name in compiled if "-py3-none-" in name} == {"cmake", "ninja"}
    assert not any(name.startswith("polars") for name in names)
