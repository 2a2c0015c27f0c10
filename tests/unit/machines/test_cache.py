"""The cache may save work, never change an answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tenken.machines import hardware, loader
from tenken.machines.errors import SystemFileError
from tenken.model import cache
from tenken.paths import CACHE, ROOT
from tests.unit.machines.conftest import CATALOGUE, GOOD


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "machine.yaml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache that has the data sheets, which take longer to read than a system."""
    hardware.load()
    folder = tmp_path / "cache"
    folder.mkdir()
    shutil.copy(CACHE / "systems" / "hardware.json", folder)
    return folder


def test_a_hit_gives_the_same_system(file: Path, src: Path, folder: Path) -> None:
    first = loader.load_file(file, src=src, cache_folder=folder)
    assert (folder / "system-machine.json").is_file()
    assert loader.load_file(file, src=src, cache_folder=folder) == first
    assert loader.load_file(file, src=src, cache_folder=None) == first


def test_a_changed_file_is_read_again(file: Path, src: Path, folder: Path) -> None:
    loader.load_file(file, src=src, cache_folder=folder)
    file.write_text(GOOD.replace("A machine", "Another"))
    assert loader.load_file(file, src=src, cache_folder=folder).title == "Another"
    file.write_text(GOOD.replace("title:", "titel:"))
    with pytest.raises(SystemFileError):
        loader.load_file(file, src=src, cache_folder=folder)


def test_a_changed_metric_is_noticed(file: Path, src: Path, folder: Path, tmp_path: Path) -> None:
    loader.load_file(file, src=src, cache_folder=folder)
    other = tmp_path / "other" / "stream"
    other.mkdir(parents=True)
    (other / "metrics.yaml").write_text(CATALOGUE.replace("GB/s", "GFLOP/s"))
    (notice,) = loader.load_file(file, src=other.parent, cache_folder=folder).notices
    assert "wrong unit" in notice and notice.endswith("(this reference is disabled)")


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:-20],
        lambda raw: raw.replace(b"A machine", b"B machine"),
        lambda raw: b"\xff" * 100,
        lambda raw: raw.split(b"\n")[0] + b"\n{}",
    ],
    ids=["empty", "truncated", "changed", "binary", "other payload"],
)
def test_a_damaged_cache_is_ignored(damage, file: Path, src: Path, folder: Path) -> None:
    good = loader.load_file(file, src=src, cache_folder=folder)
    entry = folder / "system-machine.json"
    entry.write_bytes(damage(entry.read_bytes()))
    assert loader.load_file(file, src=src, cache_folder=folder) == good


def test_a_folder_that_cannot_be_written(file: Path, src: Path, tmp_path: Path) -> None:
    # A plain file in the way also fails for root, unlike a read-only mode.
    blocked = tmp_path / "plain"
    blocked.write_text("")
    assert loader.load_file(file, src=src, cache_folder=blocked / "cache").name == "machine"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    assert cache.cached(tmp_path, "x", "key", lambda: {"a": 1}) == {"a": 1}
    assert list(tmp_path.iterdir()) == []


def test_many_at_once_read_whole_entries(tmp_path: Path) -> None:
    wrong = []

    def work(number: int) -> None:
        for turn in range(30):
            key = str((number + turn) % 2)
            if cache.cached(tmp_path, "x", key, lambda key=key: [key] * 1000) != [key] * 1000:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [f.name for f in tmp_path.iterdir()] == ["x.json"]


def test_a_hit_imports_neither_yaml_nor_jsonschema(file: Path, src: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    loader.load_file(file, src=src, cache_folder=folder)
    code = (
        "import sys; from pathlib import Path; from tenken.machines import loader, hardware\n"
        f"hardware.load(cache_folder=Path({str(folder)!r}))\n"
        f"loader.load_file(Path({str(file)!r}), src=Path({str(src)!r}), cache_folder=Path({str(folder)!r}))\n"
        "print(sorted({'ruamel', 'jsonschema', 'yaml', 'reframe'} & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_keys_do_not_run_together() -> None:
    assert cache.key_of([b"ab", b"c"]) != cache.key_of([b"a", b"bc"])
