"""The suite in other environments: languages, homes, folders, Python versions, MPIs, missing tools."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tenken import venv
from tenken.machines import local
from tenken.paths import ROOT
from tenken.reframe import configuration

SOURCES = sorted(
    file
    for top in ("tenken", "checks", "config", "toolchains", "scripts")
    for file in (ROOT / top).rglob("*.py")
    if "data" not in file.parts
)


def tenken(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command `tenken`, in this Python, with a separate environment."""
    kept = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), **env}
    return subprocess.run(
        [sys.executable, "-m", "tenken.cli", *arguments], cwd=ROOT, env={"PYTHONPATH": str(ROOT), **kept},
        capture_output=True, text=True, check=False, timeout=120, errors="replace",
    )  # fmt: skip


# -- Python --


def test_every_module_is_python_3_10():
    assert len(SOURCES) > 100
    for file in SOURCES:
        ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 10))


def test_a_newer_word_would_be_noticed():
    with pytest.raises(SyntaxError):
        ast.parse("try:\n    pass\nexcept* OSError:\n    pass\n", feature_version=(3, 10))


COMPILE = (
    "import sys\nfor name in sys.stdin.read().split():\n    compile(open(name, encoding='utf-8').read(), name, 'exec')"
)


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_module_compiles_in_each_python_that_is_here(version):
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    pythons = [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python{version}"))]
    pythons += filter(None, [shutil.which(f"python{version}")])
    # a shim of pyenv may lead nowhere
    pythons = [one for one in pythons if not subprocess.run([one, "-c", ""], capture_output=True).returncode]
    if not pythons:
        pytest.skip(f"no Python {version} here")
    done = subprocess.run(
        [pythons[0], "-I", "-W", "error", "-c", COMPILE], input="\n".join(map(str, SOURCES)), capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]


def test_an_older_python_is_refused_with_what_to_do(tmp_path):
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; -V) echo "Python 3.9.18";; esac\n')
    old.chmod(0o755)
    done = subprocess.run(
        ["sh", "scripts/need.sh", str(old), "venv"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "is Python 3.9.18; 3.10 or newer is needed: install one and say make PYTHON=" in done.stderr


def test_a_broken_pythonhome_does_not_make_a_python_old(tmp_path):
    done = subprocess.run(
        ["sh", "scripts/need.sh", sys.executable, "venv"], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=60, env={**os.environ, "PYTHONHOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("named", ["{site}", "{site}/", ":{site}:", "site", "/nowhere:{site}/../site"])
def test_packages_of_a_sites_modules_do_not_replace_those_of_the_environment(tmp_path, named):
    """An environment and a module's folder with the same package; another file of the environment imports as it starts,
    as that of an editable installation does."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "site").mkdir()
    for module in ("msgspec", "wave", "typing", "of_the_site"):
        (tmp_path / "site" / f"{module}.py").write_text("number = 1\n")
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "msgspec.py").write_text("number = 2\n")
    (packages / "__editable__.pth").write_text("import typing; typing.Any\n")
    venv.install(packages)
    code = "import sys; sys.path.pop(0); import msgspec, of_the_site, wave; print(msgspec.number, of_the_site.number)"
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-c", f"{code}; wave.open"], cwd=tmp_path, capture_output=True,
        text=True, check=False, timeout=60, env={"PYTHONPATH": named.format(site=tmp_path / "site")},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("2 1\n", "")


# -- languages, homes, temporary folders --


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LANG": "de_DE.UTF-8"},
        {"LANG": "de_DE", "PYTHONIOENCODING": "latin-1"},
    ],
)
def test_any_language_is_borne(env):
    done = tenken("systems", "describe", "no-such-system-\N{MULTIPLICATION SIGN}", **env)
    assert done.returncode == 2 and "unknown system" in done.stderr, done.stderr[-500:]
    # the output contains a character that an ASCII terminal lacks
    said = "import sys; from tenken import cli; cli.build_parser = lambda *a: exit(print('4 \\N{DEGREE SIGN} H200'))"
    done = subprocess.run(
        [sys.executable, "-c", f"{said}; cli.main([])"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **env}, timeout=60, errors="replace",
    )  # fmt: skip
    assert done.returncode == 0 and "H200" in done.stdout, done.stderr[-500:]


@pytest.mark.parametrize("closed", ["<&-", ">&-", ">&- 2>&-"])
def test_a_command_bears_closed_streams(closed):
    done = subprocess.run(
        ["sh", "-c", f"exec '{sys.executable}' -m tenken.cli systems list {closed}"], cwd=ROOT, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("home", ["/proc/nowhere"])
def test_a_home_that_cannot_be_written_is_not_needed(home, tmp_path):
    done = subprocess.run(
        ["reframe", "-c", "checks/daxpy.py", "--dry-run", "--system", "minislurm"], cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=120,
        env={
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]), "HOME": home,
            "PYTHONPATH": str(ROOT), "RFM_CONFIG_PATH": "config", "TENKEN_ARCHIVE": str(tmp_path / "perflogs"),
            "RFM_STAGE_DIR": str(tmp_path / "stage"), "RFM_OUTPUT_DIR": str(tmp_path / "output"),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-800:] + done.stderr[-800:]


@pytest.mark.parametrize(
    ("free", "folder", "moved"),
    [("1024", "{here}", True), ("262143", "{here}", True), ("262144", "{here}", False), ("9999999", "/nowhere", True)],
)
def test_a_small_folder_of_temporary_files_is_left_alone(tmp_path, free, folder, moved):
    stand_in(tmp_path, "df", f"printf 'Filesystem blocks used available\\nx 1 1 {free} 1%% /tmp\\n'")
    named = folder.format(here=tmp_path)
    done = subprocess.run(
        ["sh", "-c", f'. {ROOT}/scripts/tmpdir.sh; echo "$TMPDIR"'], cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=60, env={"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": named},
    )  # fmt: skip
    assert done.stdout.strip() == (f"{tmp_path}/.cache/tmp" if moved else named)
    assert (tmp_path / ".cache" / "tmp").is_dir() is moved
    assert ("temporary files go to .cache/tmp" in done.stderr) is moved


def test_an_archive_may_have_a_percent_sign_in_its_name(monkeypatch, tmp_path):
    """ReFrame formats the whole path of its performance logs."""
    monkeypatch.setenv("TENKEN_ARCHIVE", str(tmp_path / "50%s"))
    (log,) = configuration._logging()["handlers_perflog"]
    written = os.path.join(log["basedir"], log["prefix"]) % {"check_system": "local", "check_partition": "node"}
    assert written == str(tmp_path / "50%s" / "local" / "node")


def test_a_log_that_cannot_be_written_is_left_out(monkeypatch, tmp_path):
    """A checkout on a read-only file system, or another user's, which has been used before."""
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    assert [one["name"] for one in configuration._logging()["handlers"]] == [str(tmp_path / "output" / "reframe.log")]
    (tmp_path / "output" / "reframe.log").unlink()
    (tmp_path / "output" / "reframe.log").mkdir()
    assert configuration._logging()["handlers"] == []


# -- MPIs: the output of their compiler wrappers, the place of their headers --

DEBIAN = "/usr/lib/x86_64-linux-gnu/openmpi/include"
MPIS = {
    "Open MPI 4.1": (
        f"g++ -I{DEBIAN} -I{DEBIAN}/openmpi -L/usr/lib/x86_64-linux-gnu/openmpi/lib -lmpi_cxx -lmpi", f"{DEBIAN}/mpi.h",
        True,
    ),
    "Open MPI 5.0": ("g++ -I/opt/openmpi/5/include -L/opt/openmpi/5/lib -lmpi", "/opt/openmpi/5/include/mpi.h", True),
    "MPICH": (
        "g++ -Wl,-z,relro -I/usr/include/x86_64-linux-gnu/mpich -L/usr/lib/x86_64-linux-gnu -lmpichcxx -lmpich",
        "/usr/include/x86_64-linux-gnu/mpich/mpi.h", True,
    ),
    "in /usr/include": ("g++ -lmpi", "/usr/include/mpi.h", True),
    "without headers": (f"g++ -I{DEBIAN} -lmpi", None, False),
    "without a wrapper's answer": (None, "/opt/openmpi/include/mpi.h", False),
}  # fmt: skip


@pytest.mark.parametrize("name", MPIS)
def test_an_mpi_counts_where_it_builds_and_starts(name, tmp_path):
    printed, header, able = MPIS[name]
    if header:
        (tmp_path / header.lstrip("/")).parent.mkdir(parents=True)
        (tmp_path / header.lstrip("/")).touch()

    def described(*there: str):
        return local.describe(
            tmp_path, lambda command: printed if command[-1] == "-show" else None,
            lambda tool: f"/usr/bin/{tool}" if tool in there else None, {}, "x86_64",
        )  # fmt: skip

    system = described("g++", "mpicxx", "mpirun")
    assert ("mpi" in system.partition("node").features) is able
    assert ("libopenmpi-dev" in " ".join(system.notes)) is not able
    for part in (("g++",), ("g++", "mpirun"), ("g++", "mpicxx")):
        assert "mpi" not in described(*part).partition("node").features


@pytest.mark.parametrize(
    ("wrapper", "launcher", "able"),
    [
        ("Open MPI 4.1", "mpirun (Open MPI) 4.1.4", True),
        ("Open MPI 5.0", "mpirun (Open MPI) 5.0.11", True),
        ("MPICH", "HYDRA build details:\n    Version: 4.0.2", True),
        ("in /usr/include", "HYDRA build details:\n    Version: 4.0.2", True),
        ("MPICH", "mpirun (Open MPI) 4.1.4", False),
        ("Open MPI 4.1", "HYDRA build details:\n    Version: 4.0.2", False),
    ],
)
def test_a_launcher_of_another_mpi_would_leave_each_rank_alone(wrapper, launcher, able, tmp_path):
    printed, header, _ = MPIS[wrapper]
    (tmp_path / header.lstrip("/")).parent.mkdir(parents=True)
    (tmp_path / header.lstrip("/")).touch()
    answers = {"-show": printed, "--version": launcher}
    system = local.describe(
        tmp_path, lambda command: answers.get(command[-1]), lambda tool: f"/usr/bin/{tool}", {}, "x86_64"
    )
    assert ("mpi" in system.partition("node").features) is able
    assert ("MPI is not used until both belong to the same MPI" in " ".join(system.notes)) is not able


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("headers", "brought"), [(True, False), (False, True)])
def test_an_mpi_that_cannot_build_is_passed_over_for_one_that_can(tmp_path, headers, brought):
    """The vendor does not matter: `mpicxx -E` either finds mpi.h or not."""
    stand_in(tmp_path, "mpirun", "exit 0")
    stand_in(tmp_path, "mpicxx", f"exit {int(not headers)}")
    stand_in(tmp_path, "python", 'echo "$@" > asked')
    done = subprocess.run(
        ["sh", "-c", f". {ROOT}/scripts/mpi.sh; :"], cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=60, env={"PATH": f"{tmp_path}:/usr/bin:/bin", "VIRTUAL_ENV": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "asked").exists() is False or brought
    assert ("bringing Open MPI and UCX" in done.stderr) is brought


def test_a_machine_without_a_network_goes_on_without_mpi(tmp_path):
    stand_in(tmp_path, "python", "exit 1")
    stand_in(tmp_path, "mpicxx", "exit 1")
    done = subprocess.run(
        ["sh", "-c", f". {ROOT}/scripts/mpi.sh; echo went on"], cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=60, env={"PATH": f"{tmp_path}:/usr/bin:/bin", "VIRTUAL_ENV": str(tmp_path)},
    )  # fmt: skip
    assert "went on" in done.stdout
    assert "MPI could not be brought: checks that need it do not apply" in done.stderr


# -- HDF5: a library of the system, that of h5py, none --


@pytest.mark.parametrize(
    ("python", "named", "found"),
    [
        ("echo {here}/libhdf5-h5py.so", "", "{here}/libhdf5-h5py.so"),
        ("echo {here}/libhdf5-h5py.so", "/opt/libhdf5.so", "/opt/libhdf5.so"),
        ("exit 1", "", "none"),  # no h5py: the program searches the library path, and names the package that has it
        ("echo {here}/gone.so", "", "none"),
    ],
)
def test_the_hdf5_that_h5py_brought_is_found(tmp_path, python, named, found):
    (tmp_path / "libhdf5-h5py.so").touch()
    stand_in(tmp_path, "python3", python.format(here=tmp_path))
    text = (ROOT / "checks" / "file_io.py").read_text(encoding="utf-8")
    lines = text.partition('_FIND_HDF5 = """')[2].partition('"""')[0]
    assert "h5py" in lines
    env = {"PATH": str(tmp_path), **({"TENKEN_HDF5": named} if named else {})}
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", f'{lines}\nprintf %s "${{TENKEN_HDF5-none}}"'], capture_output=True,
        text=True, check=False, timeout=60, env=env,
    )  # fmt: skip
    assert done.stdout == found.format(here=tmp_path), done.stderr


# -- PyTorch --


@pytest.mark.parametrize(("suffix", "found"), [(EXTENSION_SUFFIXES[0], "venv"), (".cpython-36m-none.so", "module")])
def test_the_pytorch_of_another_python_is_passed_over(tmp_path, suffix, found):
    """The environment's Python comes first on PATH, and a module's PYTHONPATH shows PyTorch to it."""
    for name, line in (("venv", f'exec {sys.executable} "$@"'), ("module", "exit 0")):
        (tmp_path / name).mkdir()
        stand_in(tmp_path / name, "python3", line)
    (tmp_path / "site" / "torch" / "_C").mkdir(parents=True)  # its stubs
    (tmp_path / "site" / "torch" / "__init__.py").touch()
    (tmp_path / "site" / "torch" / f"_C{suffix}").touch()
    text = (ROOT / "checks" / "training.py").read_text(encoding="utf-8")
    lines = text.partition('_FIND_PYTHON = """')[2].partition('"""')[0]
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", f'{lines}\nprintf %s "$TENKEN_PYTORCH"'], capture_output=True, text=True,
        check=False, timeout=60,
        env={"PATH": f"{tmp_path}/venv:{tmp_path}/module", "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert done.stdout == str(tmp_path / found / "python3"), done.stderr


# -- a GPU without its compiler --


@pytest.mark.parametrize("nvcc", [True, False])
def test_a_gpu_without_nvcc_is_described_and_what_has_it_is_named(tmp_path, nvcc):
    """scripts/nvcc.sh installs one or ends the run; a user who describes such a machine sees why nothing is built for
    it."""
    there = {"g++", "nvidia-smi", *(["nvcc"] if nvcc else [])}
    row = "0, GPU-0, NVIDIA H100 80GB HBM3, 9.0, 81559, 5, 16, Disabled\n"
    system = local.describe(
        tmp_path, lambda command: row if command[0] == "nvidia-smi" and "topo" not in command else None,
        lambda tool: f"/usr/bin/{tool}" if tool in there else None, {}, "x86_64",
    )  # fmt: skip
    assert ("cuda" in system.environments) is nvcc
    assert system.partition("node").node.gpu_count == 1
    assert ("package nvidia-cuda-toolkit" in " ".join(system.notes)) is not nvcc


# -- tools that are missing --


@pytest.mark.parametrize(("lacking", "package"), [("cmake", "cmake"), ("make", "make"), ("g++", "g++"), ("git", "git")])
def test_a_missing_tool_is_named_with_its_package(tmp_path, lacking, package):
    """In a checkout whose virtual environment has neither cmake nor ninja."""
    (tmp_path / "tenken").mkdir()
    shutil.copy(ROOT / "tenken" / "paths.py", tmp_path / "tenken")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in {"g++", "git", "flock", "cmake", "make"} - {lacking}:
        stand_in(tools, tool, "exit 0")
    for tool in ("sh", "printf"):
        (tools / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")

    def need() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tools / "sh"), "scripts/need.sh", "python3", "build"], cwd=tmp_path, env={"PATH": str(tools)},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    done = need()
    assert done.returncode == 2 and f"{lacking}: install the package {package}" in done.stderr
    stand_in(tools, lacking, "exit 0")
    assert need().returncode == 0
