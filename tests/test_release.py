"""The files of a release: sdist, wheel and SBOM, and their use in an environment that contains nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenken.archive import packed
from tenken.paths import ROOT
from tests.docs import commands
from tests.docs.pages import Text, blocks
from tests.support import kept
from tools import release

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.xdist_group("release")]


def without_the_checkout(**more: str) -> dict[str, str]:
    """An environment in which nothing of this checkout is found, except the tools of the tests."""
    left_out = ("TENKEN_", "RFM_", "PYTHON", "VIRTUAL_ENV")
    given = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {**given, "PATH": f"{Path(sys.executable).parent}:{given['PATH']}", **more}


def done(command: list[str], folder: Path, **env: str) -> str:
    ran = subprocess.run(
        command, cwd=folder, env=without_the_checkout(**env), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{shlex.join(command)}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


def sources() -> list[str]:
    """The files of this checkout that git knows, so that no build leftovers get into a release."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    return [name for name in listed if name and (ROOT / name).is_file()]


@dataclass(frozen=True)
class Dist:
    sdist: Path
    wheel: Path
    sbom: Path


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """The files of `make dist`, in a folder without .git."""
    folder = tmp_path_factory.mktemp("release")
    for name in sources():
        if not name.startswith("tests/data/"):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    done(["sh", "scripts/dist.sh", str(folder / "dist")], folder / "source")
    stem = folder / "dist" / f"tenken-{release.version()}"
    made = Dist(Path(f"{stem}.tar.gz"), Path(f"{stem}-py3-none-any.whl"), Path(f"{stem}.cdx.json"))
    assert made.sdist.is_file() and made.wheel.is_file() and made.sbom.is_file()
    return made


@pytest.fixture(scope="module")
def installed(dist: Dist, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment into which only the wheel was installed from its file."""
    venv = tmp_path_factory.mktemp("empty") / "venv"
    python = venv / "bin" / "python"
    done(["uv", "venv", "-q", "--python", sys.executable, str(venv)], venv.parent)
    package = f"tenken[reports] @ {dist.wheel.as_uri()}"
    pins = str(ROOT / "requirements.lock")
    done(["uv", "pip", "install", "-q", "--python", str(python), package, "-c", pins], venv.parent)
    return python.parent


# -- the files --


def test_the_wheel_holds_tenken_alone_with_its_data(dist: Dist) -> None:
    names = zipfile.ZipFile(dist.wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tenken"}
    for file in (ROOT / "tenken").rglob("*"):
        if file.is_file() and file.suffix not in (".pyc", ""):
            assert str(file.relative_to(ROOT)) in names
    for file in (ROOT / "src" / "programs").glob("*/metrics.yaml"):
        assert f"tenken/data/{file.relative_to(ROOT)}" in names
    assert "tenken/data/systems/hardware.yaml" in names


def test_the_sdist_holds_the_sources_but_for_kept_archives(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    left_out = {name for name in sources() if name not in names}
    assert not {name for name in left_out if not name.startswith(("tests/data/", ".ci/", ".github/", ".pre-commit"))}
    assert not {name for name in names if name.endswith((".pyc", ".so", ".o")) or name.startswith(("output", ".venv"))}


def test_the_sbom_lists_the_lock(dist: Dist) -> None:
    bom = json.loads(dist.sbom.read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    about = bom["metadata"]["component"]
    assert (about["name"], about["version"]) == ("tenken", release.version())
    lock = (ROOT / "requirements.lock").read_text()
    pinned = {(name, version.split(" ")[0]) for name, version in re.findall(r"^([\w.-]+)==(\S+)", lock, re.M)}
    listed = {(c["name"], c["version"]) for c in bom["components"]}
    assert listed == pinned and len(pinned) > 30
    hashes = {h["content"] for c in bom["components"] for e in c["externalReferences"] for h in e.get("hashes", ())}
    assert hashes == set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))
    assert all(c["purl"].startswith(f"pkg:pypi/{c['name'].lower()}@") for c in bom["components"])


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "requirements-release.lock"])
def test_every_pin_of_a_lock_has_its_hashes(name: str) -> None:
    pins = re.split(r"^(?=[\w.-]+==)", (ROOT / name).read_text(), flags=re.M)
    assert len(pins) > 30
    for pin in filter(str.strip, pins):
        assert re.match(r"[\w.-]+==", pin) and "--hash=sha256:" in pin, pin[:80]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_nothing_makes_each_start_of_reframe_slow(name: str) -> None:
    """jsonschema imports it if it exists, which takes 1.3 s of CPU time: three times the start of ReFrame."""
    assert not re.findall(r"^rfc3987-syntax==.*", (ROOT / name).read_text(), re.M)
    assert re.findall(r"^rfc3987-syntax==.*", (ROOT / "requirements-release.lock").read_text(), re.M)


# -- installed from the file into an empty environment --


#: Neither the checkout nor the tests' packages are available; catalogue and data sheets are in the wheel.
ALONE = """
import importlib.util, sys, tenken
from tenken.cli import main
from tenken.machines import hardware
from tenken.model.catalogue import load_catalogue
print(tenken.__file__, *(importlib.util.find_spec(name) for name in ("pytest", "checks")))
print(len(load_catalogue()), len(hardware.load().gpus))
main(["--version"])
"""


def test_the_command_is_there_and_needs_no_checkout(installed: Path, tmp_path: Path) -> None:
    assert "judge" in done([str(installed / "tenken"), "--help"], tmp_path)
    alone, counts, version = done([str(installed / "python"), "-c", ALONE], tmp_path).splitlines()
    place, *others = alone.split()
    assert Path(place).is_relative_to(installed.parent) and others == ["None", "None"]
    programs, sheets = map(int, counts.split())
    assert programs == len(list((ROOT / "src" / "programs").glob("*/metrics.yaml"))) and sheets > 10
    assert version == f"tenken {release.version()}"


def test_it_judges_a_record(installed: Path, tmp_path: Path) -> None:
    honest = next(r for r in kept.user_run() if r.verdict == "PASS")
    record = json.loads(honest.path.read_text())
    # the result of another attempt
    record["result"]["token"] = "0" * 32
    lying = tmp_path / "lying.json"
    lying.write_text(json.dumps(record))
    judge = [str(installed / "tenken"), "judge", str(honest.path), str(lying)]
    ran = subprocess.run(judge, cwd=tmp_path, env=without_the_checkout(), capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"PASS {honest.path}" in ran.stdout and f"FAIL {lying}" in ran.stdout


#: Commands of the documentation that are run here, unchanged, in this order, each with its exit status: the archive
#: contains FAILs (1), and two sessions are too few nights for the gate (3).
RUN = {
    "tenken systems new my-cluster": 0,
    "tenken systems describe my-cluster": 0,
    "tenken contract validate lot1": 0,
    "tenken ingest": 0,
    "tenken ingest --export history.parquet": 0,
    "tenken gate": 3,
    "tenken report": 1,
    "tenken jobs": 0,
}
#: Runs commands and Python of the documentation in one interpreter, and prints each exit status.
DRIVER = """
import json, sys
from tenken.cli import main
for words in json.load(open("commands.json")):
    sys.stderr.write(f"{words}\\n")
    print("STATUS", main(words[1:]))
exec(compile(open("example.py").read(), "docs/history.md", "exec"))
print("SAMPLES", len(samples(frame.iloc[0], "perflogs")), len(frame))
"""


def test_commands_of_the_documentation_run(installed: Path, tmp_path: Path) -> None:
    """In a site's folder, with its systems, contracts and archive, and without a checkout."""
    documented = {shlex.join(c.words): c for c in commands.documented()[0]}
    assert not sorted(set(RUN) - set(documented)), "no longer in the documentation"
    for name in ("systems", "reports"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "reports" / "contracts" / "h200.yaml", tmp_path / "reports" / "contracts" / "lot1.yaml")
    shutil.copytree(packed.folder_of(kept.FIRST_RUNS), tmp_path / "perflogs")
    (example,) = (b.text for b in blocks(ROOT / "docs" / "history.md") if b.language == "python")
    (tmp_path / "example.py").write_text(example.replace('metric="triad"', 'metric="gemm"'))
    (tmp_path / "commands.json").write_text(json.dumps([list(documented[c].words) for c in RUN]))
    said = done([str(installed / "python"), "-c", DRIVER], tmp_path)
    assert [int(status) for status in re.findall(r"^STATUS (\d+)$", said, re.M)] == list(RUN.values()), said
    assert int(re.findall(r"^SAMPLES (\d+) \d+$", said, re.M)[0]) > 0
    (page,) = (one for one in (tmp_path / "output" / "pages").glob("*.html") if ".records" not in one.name)
    assert "FAIL" in page.read_text() and (tmp_path / "history.parquet").stat().st_size > 0


def test_a_command_that_is_not_in_the_documentation_is_found() -> None:
    """The comparison above is of whole commands."""
    place = Text(ROOT / "README.md", 1, "tenken  ingest  # a comment", "sh")
    assert [shlex.join(c.words) for c in commands.simple_commands(place)] == ["tenken ingest"]
