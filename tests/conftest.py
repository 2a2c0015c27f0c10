"""Settings for all tests."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.support import parts, skips

# A shell that runs the tests in the background, or nohup, makes them and their children ignore these signals.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)

# Tests run concurrently and would wait for each other's measurements: each worker has its own locks.
os.environ["TENKEN_LOCKS"] = tempfile.mkdtemp(prefix="tenken-locks-")
atexit.register(shutil.rmtree, os.environ["TENKEN_LOCKS"], ignore_errors=True)

# On a machine with GPUs, systems that take the count found here (systems/h200.yaml) would be other ones in each test.
if any(Path("/dev").glob("nvidia[0-9]*")):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

# There are more threads than cores: a spinning thread would take the core that it waits for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Checks used only by tests import each other as tests.*: only tenken itself is installed.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Code that runs in this process must leave the environment unchanged. `tenken node` empties it."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "part: of a part of `make test-all`; tests/support/parts.py")
    for name, part in parts.PARTS.items():
        config.addinivalue_line("markers", f"{name}: a part of `make test-all`; installs {part.installs}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, None, None]:
    """Without garbage collection, which takes half of the time: what is made here lasts as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    mark_the_parts(items)
    if getattr(config.option, "loadgroup", False):
        in_order(items, waiting=not config.option.loadscopereorder)
    yield
    keep_groups_together(config, items)


def in_order(items: list[pytest.Item], waiting: bool) -> None:
    """Groups of tests are handed out in this order: a long one at the end would run on one core. `waiting`: those of
    programs last, while the host build may still run, and larger groups before smaller ones."""
    if not waiting:
        items.sort(key=lambda item: not item.get_closest_marker("slow"))  # xdist sorts the groups
        return
    groups = [str(mark.args[0]) if (mark := item.get_closest_marker("xdist_group")) else item.nodeid for item in items]
    build = {one for one, item in zip(groups, items, strict=True) if "build_dir" in getattr(item, "fixturenames", ())}
    number = Counter(groups)
    places = sorted(range(len(items)), key=lambda at: (groups[at] in build, -number[groups[at]], groups[at]))
    items[:] = [items[at] for at in places]


def mark_the_parts(items: list[pytest.Item]) -> None:
    """`-m part` and `-m "not part"` are all tests; no test of a part is in a file that `make test-all` leaves out."""
    imported = set(parts.files())
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if named := parts.of((), given):
            raise pytest.UsageError(f"{item.nodeid}: an argument has the name of a fixture of {', '.join(named)}")
        found = parts.of((mark.name for mark in item.iter_markers()), getattr(item, "fixturenames", ()))
        for name in sorted(found):
            item.add_marker(name)
        if found:
            item.add_marker("part")
            if item.path.is_relative_to(ROOT / "tests") and item.path not in imported:
                raise pytest.UsageError(f"{item.nodeid} is of {', '.join(found)}, which its file does not name")
        elif not item.get_closest_marker("xdist_group"):
            # tests of a part mostly wait, so all workers share them; these share the fixtures of their module
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def keep_groups_together(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of one xdist_group must run in one worker: pytest 9.2 renames no item, and pytest-xdist 3.8 then spreads
    them over all workers, each of which builds, dry-runs and starts Slurm separately."""
    if getattr(config.option, "loadgroup", False):
        spread = [i.nodeid for i in items if i.get_closest_marker("xdist_group") and "@" not in i.nodeid]
        if spread:
            raise pytest.UsageError(f"this pytest-xdist does not keep groups of tests together: {spread[0]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, a skip that tests/support/skips.py does not list is a failure."""
    report = yield
    if report.skipped and skips.in_ci():
        # an expected failure has no file and line
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        why = skips.refused(item.nodeid.split("@")[0], said.removeprefix("Skipped: "))
        if why:
            report.outcome, report.longrepr = "failed", why
    return report
