"""Components, finished and incomplete homes of toolchains.cuda_home, without network."""

import dataclasses
import hashlib
import io
import itertools
import json
import tarfile
from pathlib import Path

import pytest

from toolchains import cuda_home, debian, wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Target

TOOLKIT = cuda_home.TOOLKITS["13.0"]


def finished(home: Path, components: list[str], version: str = "") -> Path:
    """A home as these components would leave it, of the locked or of another version."""
    home.mkdir()
    names = TOOLKIT.wheels_of(components)
    pins = [pin for pin in wheels.read_lock(TOOLKIT.lock) if pin.name in names]
    marker = {
        "version": "13.0",
        "components": components,
        "pins": sorted(f"{pin.name}=={version or pin.version}" for pin in pins),
    }
    (home / cuda_home.MARKER).write_text(json.dumps(marker))
    return home


def test_base_is_the_smallest_set_that_compiles() -> None:
    assert set(cuda_home.parse_components("base", TOOLKIT)) == {"nvcc", "cudart", "cccl", "nvml"}


def test_a_library_brings_the_compiler() -> None:
    assert {"nvcc", "cudart", "cusparse"} <= set(cuda_home.parse_components("cusparse", TOOLKIT))


def test_all_is_all_but_nvshmem() -> None:
    assert set(TOOLKIT.components) - set(cuda_home.parse_components("all", TOOLKIT)) == {"nvshmem"}


@pytest.mark.parametrize("text", ["cufoo", "", "base,cufoo"])
def test_unknown_components_are_refused(text: str) -> None:
    with pytest.raises(ToolchainError, match="allowed: base, all"):
        cuda_home.parse_components(text, TOOLKIT)


@pytest.mark.parametrize("version", cuda_home.TOOLKITS)
def test_every_component_is_locked(version: str) -> None:
    toolkit = cuda_home.TOOLKITS[version]
    pins = wheels.read_lock(toolkit.lock)
    names = toolkit.wheels_of(list(toolkit.components))
    assert len(wheels.select(pins, names, Target("x86_64", "3.12"))) == len(names) == len(pins)


def test_both_architectures_have_a_debian_package() -> None:
    for arch, version in itertools.product(wheels.ARCHITECTURES, ("11.8", "12.4")):
        pin = debian.read_debian_lock(cuda_home.HERE / "debian.lock", "nvidia-cuda-toolkit", arch, version)
        assert pin.version.startswith(version)


def test_a_finished_home_is_taken_as_it_is(tmp_path: Path) -> None:
    home = finished(tmp_path / "home", list(TOOLKIT.components))
    assert cuda_home.make("13.0", "all", home) == home


def test_a_home_of_other_versions_is_outdated(tmp_path: Path) -> None:
    assert cuda_home.components_of(finished(tmp_path / "home", ["nvcc"], version="13.0.1"), TOOLKIT) == ()


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    with pytest.raises(ToolchainError, match="was not made here"):
        cuda_home.make("13.0", "base", tmp_path / "cuda")


def test_a_failure_leaves_no_home(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ToolchainError, match="holds no wheel of nvidia-cuda-nvcc"):
        cuda_home.make("13.0", "base", tmp_path / "cuda", wheelhouse=tmp_path / "empty")
    assert not (tmp_path / "cuda").exists()


def test_unknown_version() -> None:
    with pytest.raises(ToolchainError, match=r"allowed: 13\.0, 12\.4"):
        cuda_home.make("11.0")


def test_the_mirror_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://mirror.example/debian")
    assert debian.mirror() == "http://mirror.example/debian"


def test_a_source_that_is_not_the_locked_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = debian.read_debian_lock(cuda_home.HERE / "debian.lock", "hdf5", "source")
    asked: list[str] = []

    def apt(command: list[str], what: str, cwd: Path | None = None) -> None:
        asked.extend(command)
        if cwd is not None:
            (cwd / "hdf5_1.10.8.orig.tar.gz").write_bytes(b"another")

    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://mirror.example/debian")
    monkeypatch.setattr(debian, "_apt", apt)
    with pytest.raises(ToolchainError, match=r"has another source of hdf5 .* than locked"):
        debian.fetch_source(pin, tmp_path)
    assert f"hdf5={pin.version}" in asked and "source" in asked
    other = dataclasses.replace(pin, sha256=hashlib.sha256(b"another").hexdigest())
    assert debian.fetch_source(other, tmp_path).name == "hdf5_1.10.8.orig.tar.gz"


def test_a_deb_is_unpacked_without_dpkg(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        entry = tarfile.TarInfo("./usr/bin/tool")
        entry.size, entry.mode = 4, 0o755
        archive.addfile(entry, io.BytesIO(b"tool"))
    members = [(b"debian-binary", b"2.0\n"), (b"control.tar.xz", b"odd"), (b"data.tar.xz", data.getvalue())]
    content = b"!<arch>\n"
    for name, text in members:
        content += b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, b"100644", len(text))
        content += text + b"\n" * (len(text) % 2)
    (tmp_path / "a.deb").write_bytes(content)
    debian.unpack_package(tmp_path / "a.deb", tmp_path / "out")
    assert (tmp_path / "out/usr/bin/tool").read_text() == "tool"
    (tmp_path / "b.deb").write_bytes(b"<html>")
    with pytest.raises(ToolchainError, match="not a Debian package"):
        debian.unpack_package(tmp_path / "b.deb", tmp_path / "out")
