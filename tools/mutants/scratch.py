"""A copy of the tree for mistakes: the checkout itself is never changed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Downloads in the checkout's .cache, which are only read. Builds are separate.
FETCHED = ("tests-mpi", "cuda-*", ".cuda-*", "hdf5", "kvikio")


@contextmanager
def copy_of(root: Path, folder: Path) -> Iterator[Path]:
    """The tree of `root` as git would add it, in `folder`, where earlier builds are kept.

    Only differences are written, so that only these are compiled. Raises SystemExit while another process works there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"mutants: {folder} is in use by another run") from None
        tree = folder / "tree"
        _update(root, tree)
        yield tree


def _update(root: Path, tree: Path) -> None:
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    files = {name for name in listed.split("\0") if name and (root / name).is_file()}
    for name in files:
        source, target = root / name, tree / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    for target in sorted(tree.rglob("*")):
        name = target.relative_to(tree).as_posix()
        if target.is_file() and name not in files and not name.startswith(".cache/"):
            target.unlink()
    cache = tree / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    for pattern in FETCHED:
        for source in (root / ".cache").glob(pattern):
            link = cache / source.name
            if not link.exists() and source.name != "tests-mpi-build":
                link.unlink(missing_ok=True)
                link.symlink_to(source.resolve())


def environment(tree: Path) -> dict[str, str]:
    """Environment of commands in the copy: its own modules, no persistent byte code, a compiler cache."""
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    if shutil.which("ccache"):
        # with these the compiler cache recognises the same sources in any location
        env |= {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}
        env.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
        env.setdefault("CMAKE_CUDA_COMPILER_LAUNCHER", "ccache")
    return env
