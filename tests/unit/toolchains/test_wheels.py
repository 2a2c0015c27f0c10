"""Lock files and targets of toolchains.wheels, without network."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolchains import mpi, wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Pin, Target

LOCK = """\
# a comment
alpha==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
Be_ta==2.0 ; python_full_version < '3.11' \\
    --hash=sha256:cc
be-ta==3.0 ; python_full_version >= '3.11' and python_full_version < '3.13' \\
    --hash=sha256:dd
"""


def lock(tmp_path: Path, text: str = LOCK) -> Path:
    path = tmp_path / "some.lock"
    path.write_text(text)
    return path


def test_lock_is_read_with_hashes_and_markers(tmp_path: Path) -> None:
    pins = wheels.read_lock(lock(tmp_path))
    assert [(pin.name, pin.version, len(pin.hashes)) for pin in pins] == [
        ("alpha", "1.0", 2),
        ("be-ta", "2.0", 1),
        ("be-ta", "3.0", 1),
    ]
    assert pins[0].requirement() == "alpha==1.0 --hash=sha256:aa --hash=sha256:bb"


@pytest.mark.parametrize(("python", "version"), [("3.10", "2.0"), ("3.11", "3.0"), ("3.12", "3.0")])
def test_markers_are_judged_for_the_target(tmp_path: Path, python: str, version: str) -> None:
    pins = wheels.select(wheels.read_lock(lock(tmp_path)), ["Be.Ta"], Target("x86_64", python))
    assert [pin.version for pin in pins] == [version]


def test_what_is_not_locked_for_a_target_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"be-ta is not in the lock file for Python 3\.13"):
        wheels.select(wheels.read_lock(lock(tmp_path)), ["be-ta"], Target("x86_64", "3.13"))


def test_an_entry_without_hash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"'alpha==1\.0' has no exact version with a hash"):
        wheels.read_lock(lock(tmp_path, "alpha==1.0\n"))


def test_an_unknown_marker_is_refused() -> None:
    with pytest.raises(ToolchainError, match="not understood"):
        Pin("a", "1", "sys_platform == 'win32'", ("x",)).applies_to(Target("x86_64", "3.12"))


@pytest.mark.parametrize(
    ("arch", "python"), [("ppc64le", "3.12"), ("x86_64", "2.7"), ("x86_64", "3.9"), ("x86_64", "3")]
)
def test_targets_that_are_not_served(arch: str, python: str) -> None:
    with pytest.raises(ToolchainError, match="allowed"):
        Target(arch, python)


def test_every_lock_of_the_folder_can_be_read_for_every_python() -> None:
    for path in [*Path(wheels.__file__).parent.glob("*-*.lock"), Path(wheels.__file__).parent / "kit.lock"]:
        pins = wheels.read_lock(path)
        for minor in range(10, 15):
            wheels.select(pins, [pin.name for pin in pins], Target("aarch64", f"3.{minor}"))


def test_unpacking_keeps_the_executable_bit(tmp_path: Path) -> None:
    archive = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as stream:
        for name, mode in (("bin/tool", 0o755), ("doc", 0o644)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            stream.writestr(entry, "x")
    wheels.unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/bin/tool").stat().st_mode & 0o111
    assert not (tmp_path / "out/doc").stat().st_mode & 0o111


@pytest.mark.parametrize(("small", "packed"), [(True, zipfile.ZIP_DEFLATED), (False, zipfile.ZIP_STORED)])
def test_what_is_unpacked_at_once_is_not_packed_again(tmp_path, small, packed):
    with zipfile.ZipFile(tmp_path / "a.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("wanted", "x" * 1000)
        wheel.writestr("left out", "")
    mpi.repack(tmp_path / "a.whl", tmp_path / "a.zip", lambda name: name == "wanted", small)
    with zipfile.ZipFile(tmp_path / "a.zip") as copy:
        assert [(one.filename, one.compress_type) for one in copy.infolist()] == [("wanted", packed)]
        assert copy.read("wanted") == b"x" * 1000


def test_pip_of_the_checkout_is_used_where_the_system_has_none(monkeypatch):
    """Debian's python3 with python3-venv, which `make run` needs, has no pip: `make kit` ended there."""
    ours = str(Path(wheels.__file__).resolve().parents[1] / ".venv/bin/python")
    monkeypatch.setattr(wheels.sys, "executable", "/usr/bin/python3")
    monkeypatch.setattr(wheels.shutil, "which", lambda command: command)
    works = {ours}
    monkeypatch.setattr(
        wheels.processes, "run", lambda command: SimpleNamespace(returncode=0 if command[0] in works else 1)
    )
    assert wheels.find_pip() == [ours, "-m", "pip"]
    works.clear()
    with pytest.raises(wheels.ToolchainError, match="make venv"):
        wheels.find_pip()
