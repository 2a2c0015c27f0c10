"""`tenken new benchmark`: what it writes builds, measures, is judged and detects its fault without changes."""

from __future__ import annotations

import inspect
import os
import runpy
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tenken.commands import new
from tenken.judge import verdict
from tenken.model import engine, headers
from tenken.model import result as results
from tenken.model.catalogue import declare, load_program
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.verdicts import INVALID, RECORDED
from tenken.paths import ROOT
from tests.programs.conftest import runner
from tests.support.builds import checked, tool
from tests.support.oracles import Clocked, spans
from tools.mutants import mutant as mutants


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new")
    new.write("two_words", folder)
    return folder


def test_it_is_all_that_a_benchmark_has(skeleton):
    found = {str(path.relative_to(skeleton)) for path in skeleton.rglob("*") if path.is_file()}
    assert found == {
        "src/programs/two_words/CMakeLists.txt", "src/programs/two_words/two_words.cpp",
        "src/programs/two_words/metrics.yaml", "checks/two_words.py", "docs/two_words.md",
        "tests/programs/test_two_words.py", "tools/mutants/list/two_words.yaml",
    }  # fmt: skip
    text = "".join((skeleton / path).read_text() for path in found)
    assert "{{" not in text.replace("{{0", "") and "class TwoWords(TenkenCheck)" in text


def test_it_passes_the_linters(skeleton):
    checked([tool("clang-format"), "--dry-run", "--Werror", f"--style=file:{ROOT / '.clang-format'}",
             str(skeleton / "src/programs/two_words/two_words.cpp")])  # fmt: skip
    checked([tool("ruff"), "check", "--config", str(ROOT / "pyproject.toml"), str(skeleton)])
    checked([tool("ruff"), "format", "--check", "--config", str(ROOT / "pyproject.toml"), str(skeleton)])


def test_the_mistakes_that_its_test_must_notice_fit_it(skeleton):
    listed = mutants.load(skeleton / "tools" / "mutants" / "list")
    assert len(listed) == 2 and mutants.check(listed, skeleton) == []
    assert {one.group for one in listed} == {"two_words"}, "as tests/unit/test_mutants.py asks of every program"


@pytest.fixture(scope="module")
def binary(skeleton: Path, build_dir: Path) -> Path:
    source, made = skeleton / "src/programs/two_words/two_words.cpp", skeleton / "bin" / "two_words"
    made.parent.mkdir()
    library = build_dir / "lib" / "base" / "libtenken_common.a"
    headers.write(skeleton / "src/programs", skeleton / "generated" / "catalogue")
    places = [f"-I{ROOT / 'src'}", f"-I{skeleton / 'generated'}"]
    options = ["-std=c++14", "-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp", *places]
    sources = [str(source), str(skeleton / "generated/catalogue/two_words.cpp")]
    checked([os.environ.get("CXX", "g++"), *options, *sources, str(library), "-ldl", "-lpthread", "-o", str(made)])
    return made


def test_it_measures_is_judged_and_notices_its_fault(skeleton, binary, tmp_path):
    document = tmp_path / "document.json"
    words = [str(binary), "--elements", "100000", "--warmup-seconds", "0", "--json", str(document)]
    checked(words)
    program = load_program(skeleton / "src/programs/two_words/metrics.yaml")
    result = engine.completed(results.load(document), program)
    request = Request(token=None, program="two_words", subjects=("host",))
    judged = verdict.judge(result, program, request, Machine(), 0)
    assert judged.verdict in (RECORDED, INVALID), judged.message()  # times on a busy machine scatter
    assert result.metrics[0].count == 100
    assert subprocess.run([*words, "--inject-fault", "element"], capture_output=True, check=False).returncode == 1


def test_the_test_that_it_writes_passes_and_has_an_oracle(skeleton, binary, clock_log, tmp_path):
    """Each test function, with the fixtures that it names."""
    declare(YAML(typ="safe").load(skeleton / "src/programs/two_words/metrics.yaml"), "two_words")
    own = runpy.run_path(str(skeleton / "tests/programs/test_two_words.py"))
    fixtures = {
        "run": runner(binary.parent, tmp_path), "clocked": Clocked(binary.parent, clock_log, tmp_path),
    }  # fmt: skip
    tests = {name: test for name, test in own.items() if name.startswith("test_")}
    for test in tests.values():
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
    assert len(tests) == 3
    # the oracle fails if the program counts twice as much
    (counting,) = [test for test in tests.values() if "clocked" in inspect.signature(test).parameters]
    counting.__globals__["spans"] = lambda metric, amount: [2 * span for span in spans(metric, amount)]
    with pytest.raises(AssertionError):
        counting(fixtures["clocked"])


@pytest.mark.parametrize("name", ["Stream", "2fast", "a-b", "", "class", "x" * 41, "../x"])
def test_what_is_no_name_is_refused(name, tmp_path):
    with pytest.raises(new.NewError, match="is not a benchmark name; allowed: lower case letters"):
        new.write(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "stream.py").write_text("mine\n")
    with pytest.raises(new.NewError, match=r"checks/stream.py already exists; nothing was written"):
        new.write("stream", tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["stream.py"]
