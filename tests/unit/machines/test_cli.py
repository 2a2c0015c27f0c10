"""`tenken systems`: words and exit codes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tenken.machines import cli, cluster, loader
from tenken.machines.model import System
from tests.unit.machines.conftest import GOOD


@pytest.fixture
def tenken() -> Callable[..., int]:
    parser = argparse.ArgumentParser(prog="tenken")
    cli.register(parser.add_subparsers())

    def call(*words: str) -> int:
        arguments = parser.parse_args(["systems", *words])
        return int(arguments.func(arguments))

    return call


def test_describe_this_machine(tenken: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert tenken("describe") == 0
    out = capsys.readouterr().out
    assert "\nlocal: " in f"\n{out}" and "partition node" in out and "cores" in out


def test_describe_names_unset_variables(
    tenken: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENKEN_GROUP", raising=False)
    assert tenken("describe", "miyabi") == 0
    out = capsys.readouterr().out
    assert "TENKEN_GROUP NOT SET, needed to run" in out and "GH200-96GB" in out
    assert "limit of GPU memory: 4000 GB/s (data sheet: GH200-96GB" in out


def test_describe_as_json(tenken: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert tenken("describe", "h200", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["partitions"]["gpu"]["node"]["gpu"]["name"] == "H200-SXM-141GB"


def test_unknown_system(tenken: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert tenken("describe", "nosuch") == 2
    assert "unknown system 'nosuch'; allowed: local, " in capsys.readouterr().err


def test_list(
    tenken: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    load: Callable[[str], System],
) -> None:
    machine = load(GOOD)
    monkeypatch.setattr(loader, "load_all", lambda: {"machine": machine})
    assert tenken("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "local", "machine"]
    assert "4 x H100-SXM-80GB" in lines[2]


def test_validate(tenken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(GOOD.split("references:")[0])
    bad = tmp_path / "bad.yaml"
    bad.write_text(GOOD.replace("cores: 96", "corse: 96").split("references:")[0])
    assert tenken("validate", str(good)) == 0
    assert "good.yaml: ok" in capsys.readouterr().out
    assert tenken("validate", str(bad), str(good)) == 1
    captured = capsys.readouterr()
    assert "bad.yaml:25: unknown key 'corse' in partition 'gpu', 'node'; did you mean 'cores'?" in captured.err
    assert "good.yaml: ok" in captured.out
    assert tenken("validate", str(tmp_path / "none.yaml")) == 2


@pytest.mark.parametrize("scheduler", cli.TEMPLATES)
def test_new_writes_a_file_that_is_valid(
    scheduler: str, tenken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tenken("new", "my-cluster", "--scheduler", scheduler, "--folder", str(tmp_path)) == 0
    file = tmp_path / "my-cluster.yaml"
    assert tenken("validate", str(file)) == 0
    assert loader.load_file(file, cache_folder=None).partition("gpu").scheduler == scheduler
    assert loader.load_file(file, cache_folder=None).title == "my-cluster"
    capsys.readouterr()
    assert tenken("new", "my-cluster", "--folder", str(tmp_path)) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "scheduler", "options", "from_template"),
    [
        (True, "slurm", (), 0),
        (False, "slurm", (), 1),
        (True, "slurm", ("--template",), 1),
        (False, "slurm", ("--from-here",), 0),
        (False, "local", (), 0),
    ],
)
def test_new_looks_where_the_scheduler_answers_or_is_told_to(
    told: bool, scheduler: str, options: tuple[str, ...], from_template: int, tenken: Callable[..., int],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(cluster, "answers", lambda scheduler: told)
    looked = []
    monkeypatch.setattr(cli, "_from_here", lambda *words: looked.append(words) or 0)
    assert tenken("new", "my-cluster", "--scheduler", scheduler, *options, "--folder", str(tmp_path)) == 0
    assert (len(looked), len(list(tmp_path.iterdir()))) == (1 - from_template, from_template)


def test_new_has_no_template_of_what_is_described_by_looking(tenken: Callable[..., int], tmp_path: Path) -> None:
    assert tenken("new", "x", "--scheduler", "local", "--template", "--folder", str(tmp_path)) == 2
    assert tenken("new", "x", "--from-here", "--template", "--folder", str(tmp_path)) == 2


@pytest.mark.parametrize("name", ["local", "hardware", "../x", "My Cluster", ""])
def test_new_refuses_names(name: str, tenken: Callable[..., int], tmp_path: Path) -> None:
    assert tenken("new", name, "--folder", str(tmp_path)) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheduler", cli.TEMPLATES)
def test_template_with_everything_in_is_valid_too(scheduler: str, src: Path, tmp_path: Path) -> None:
    """The optional lines of the template, without comment signs."""
    lines = []
    for line in cli.TEMPLATES[scheduler].read_text().splitlines():
        bare = line.lstrip()
        # An optional line is a comment whose first word is a key, a list item, or a deeper part of one.
        if bare.startswith("# ") and (":" in bare.split("#")[1].split('"')[0]) and not bare.startswith("# Units"):
            text = bare[2:]
            if text.split(":")[0].strip(" -").isidentifier():
                line = line[: len(line) - len(bare)] + text
        lines.append(line)
    file = tmp_path / "machine.yaml"
    file.write_text("\n".join(lines) + "\n")
    system = loader.load_file(file, src=src, cache_folder=None)
    assert len(system.references) == 1 and system.partition("gpu").time_limit == "24:00:00"
