"""What other devices of the model reached: a note below a few of them, FAIL below many, each machine held out in
turn."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from tenken.commands import kinds as command
from tenken.errors import TenkenError
from tenken.judge import verdict
from tenken.judge.bounds import LIMITED_BY_OPERATOR
from tenken.machines import facts, kinds
from tenken.machines.errors import SystemFileError
from tenken.model.catalogue import program
from tenken.model.kinds import DEVICES, Known, figure, without_defaults
from tenken.model.record import Record
from tenken.model.verdicts import FAIL, PASS
from tests.support import kept
from tools import sensitivity

STREAM = "stream/1 triad.gpu array_bytes=1073741824 at_once=True"


def run() -> Record:
    return next(one for one in kept._of(kept.TWO_CLEAN) if one.base_check == "StreamCuda")


def judged(factor: float, known: Known | None) -> Any:
    record = run()
    assert record.result is not None and record.request is not None
    result = sensitivity.slowed(record.result, factor)

    def kind(result: Any, metric: Any) -> Known | None:
        return known if metric.name == "triad" else None

    machine = replace(facts.of_result(result), kind=kind)
    return verdict.judge(result, program("stream"), replace(record.request, token=None), machine, None)


def devices(count: int, sites: int, value: float = 4382.0) -> Known:
    values = [value * (1 + 0.004 * ((at % 5) - 2) / 2) for at in range(count)]
    return Known("GB/s", tuple((one,) for one in values), sites)


@pytest.mark.parametrize(
    ("known", "factor", "expected", "says"),
    [
        (devices(7, 1), 0.99, PASS, ""),
        (devices(7, 1), 0.96, PASS, "% below the 7 NVIDIA H200 known, whose median is"),
        (devices(DEVICES, 1), 0.96, PASS, "% below the 20 NVIDIA H200 known"),  # of one site
        (devices(DEVICES - 1, 2), 0.96, PASS, "% below the 19 NVIDIA H200 known"),
        (devices(DEVICES, 2), 0.99, PASS, ""),
        (
            devices(DEVICES, 2),
            0.96,
            FAIL,
            "interval of 20 NVIDIA H200, 20 machines, 2 sites",
        ),
        (None, 0.96, PASS, ""),
    ],
)
def test_few_devices_are_a_note_and_many_of_two_sites_a_criterion(
    known: Known | None, factor: float, expected: str, says: str
) -> None:
    found = judged(factor, known)
    about = [one.message for one in found.findings if one.metric and one.metric.startswith("triad")]
    assert found.verdict == expected and (says in " ".join(about) if says else not about), found.findings
    if known is not None and known.decides:
        assert {one.criterion.kind for name, one in found.judged.items() if name.startswith("triad")} == {"kind"}


def test_a_floor_that_is_higher_than_the_interval_stays_the_criterion() -> None:
    wide = Known("GB/s", tuple((4382.0 * (1 + 0.1 * ((at % 5) - 2)),) for at in range(24)), 2)
    found = judged(1.0, wide)
    assert {one.criterion.kind for name, one in found.judged.items() if name.startswith("triad")} == {"floor"}


def test_the_bound_is_that_of_a_prediction_interval() -> None:
    """For two degrees of freedom t is (2 P - 1) / sqrt(2 P (1 - P)): 223.6 for a chance of 1e-5."""
    t = (1 - 2e-5) / (2 * 1e-5 * (1 - 1e-5)) ** 0.5
    assert Known("x", ((1001.0, 1000.0), (999.0,)), 1).bound == pytest.approx(1000 - t * (4 / 3) ** 0.5, rel=1e-6)
    assert Known("x", ((100.0, 100.0), (100.0,)), 1).bound == 98.0  # never closer than 2 %
    assert Known("x", ((100.0, 100.0),), 1).bound is None and Known("x", ((1.0, 100.0, 50.0),), 1).bound is None


def test_no_healthy_device_of_the_file_is_below_the_others_when_its_machine_is_left_out() -> None:
    held = 0
    for (gpu, name), one in kinds.load().items():
        for at, machine in enumerate(one.machines):
            others = Known(one.unit, one.machines[:at] + one.machines[at + 1 :], one.sites)
            if len(others.values) >= 10 and others.bound is not None:
                held += len(machine)
                assert min(machine) >= others.bound, (gpu, name, machine, others.bound)
    assert held > 500


def test_the_file_has_the_devices_of_the_kept_records() -> None:
    models = {gpu for gpu, _ in kinds.load()}
    assert models == {"NVIDIA H200", "NVIDIA H100 80GB HBM3"}
    record = run()
    assert record.result is not None
    names = {figure(record.result, program("stream"), one) for one in record.result.metrics if one.name == "triad"}
    assert names == {STREAM} and ("NVIDIA H200", STREAM) in kinds.load()
    assert not any(one.decides for one in kinds.load().values()), "all of them are of one site"
    text = kinds.FILE.read_text(encoding="utf-8")
    assert "GPU-0" not in text and "node1" not in text


def test_devices_of_one_model_reach_much_the_same() -> None:
    for (gpu, name), one in kinds.load().items():
        values = [value for machine in one.machines for value in machine]
        assert all(value == pytest.approx(one.middle, rel=0.085) for value in values), (gpu, name, values)


def test_every_known_figure_is_that_of_some_kept_run() -> None:
    """A parameter added by a release would otherwise leave earlier devices compared with nothing."""
    names = {name for _, name in kinds.load()}
    runs = [one.result for one in sensitivity.runs(("h100-two-v2", "h200-two-clean")) if one.result is not None]
    found = {figure(run, program(run.program), metric) for run in runs for metric in run.metrics}
    programs = {name.partition("/")[0] for name in names}
    assert "gemm" in programs
    assert {one for one in programs if any(n.startswith(f"{one}/") for n in names & found)} == programs


def test_a_parameter_that_a_release_adds_changes_no_name() -> None:
    gemm = program("gemm")
    later = replace(gemm, identity={**gemm.identity, "later": "usual"})
    record = next(one for one in kept._of(kept.TWO_CLEAN) if one.base_check == "Gemm")
    assert record.result is not None
    for metric in record.result.metrics:
        name = figure(record.result, gemm, metric)
        assert figure(record.result, later, metric) == name == without_defaults(f"{name} at_once=False", gemm)


def of_another_run(group: list[Record]) -> list[Record]:
    """Its records with a token of their own."""
    token = f"{id(group):x}"
    return [replace(one, result=one.result and replace(one.result, token=token)) for one in group]


def test_only_devices_that_passed_whole_and_as_they_are_counted_now_are_added() -> None:
    """Two devices in each archive; a figure needs three."""
    good = run()
    assert good.result is not None

    def found(*groups: list[Record]) -> bool:
        return STREAM in command.figures(map(of_another_run, groups), []).get("NVIDIA H200", {})

    def of_result(**changes: Any) -> Record:
        assert good.result is not None
        return replace(good, result=replace(good.result, **changes))

    partitioned = of_result(devices=tuple(replace(one, mig_enabled=True) for one in good.result.devices))
    limited = (SimpleNamespace(kind=LIMITED_BY_OPERATOR),)
    assert found([good], [good]) and not found([good])
    for other in (
        replace(good, judgement=replace(good.judgement, verdict=FAIL)),
        replace(good, judgement=replace(good.judgement, findings=limited)),
        replace(good, program_version=good.program_version + 1), replace(good, result=None), partitioned,
    ):  # fmt: skip
        assert not found([good], [other]) and found([good], [other, good])
    assert STREAM not in command.figures([[good], [good]], [])["NVIDIA H200"], "a run in two archives counts once"
    nothing = of_result(metrics=tuple(replace(one, value=0.0) for one in good.result.metrics))
    assert found([good], [good], [nothing]) and not found([good], [nothing]), "without a rate it is not known"


def test_a_card_is_known_by_its_uuid_and_has_the_median_of_its_runs() -> None:
    good = run()
    assert good.result is not None

    def with_values(*values: float, uuid: str = "GPU-{}") -> Record:
        """By GPU; the cards of one node."""
        assert good.result is not None
        metrics = [
            replace(one, value=values[one.subject.gpus[0]]) for one in good.result.metrics if one.name == "triad"
        ]
        devices = [replace(one, uuid=uuid.format(one.index) or None) for one in good.result.devices]
        return replace(good, result=replace(good.result, metrics=tuple(metrics), devices=tuple(devices)))

    far: list[str] = []

    def machines(*groups: list[Record]) -> Any:
        far.clear()
        of = command.figures(map(of_another_run, groups), far).get("NVIDIA H200", {})
        return of.get(STREAM, {}).get("machines")

    three = [with_values(4001.0, 3999.0), with_values(4101.0, 3899.0), with_values(4003.0, 3998.004)]
    assert machines(three) is None, "two devices"
    exchanged = with_values(3000.0, 3000.5, uuid="GPU-new{}")
    assert machines([*three, exchanged]) == [[3000.0, 3000.5, 3998.0, 4003.0]]
    assert machines(three, [exchanged]) == [[3000.0, 3000.5], [3998.0, 4003.0]]
    # without UUIDs the cards of a node are told by their places
    assert machines([with_values(3900.0, 3500.0, uuid=""), with_values(4100.0, 3500.0, uuid="")], three) == [
        [3500.0, 4000.0], [3998.0, 4003.0]
    ]  # fmt: skip
    # a device at less than 0.75 of the others, or at more than 1 / 0.75, is not one of them: the median is 4000
    at = [
        [with_values(x, y, uuid="GPU-" + name + "{}")] for name, x, y in (("a", 4000.0, 4000.0), ("b", 3000.0, 2999.0))
    ]
    assert machines(*at, [with_values(5333.0, 5334.0)], [with_values(4000.0, 4000.0, uuid="GPU-c{}")]) == [
        [3000.0], [4000.0, 4000.0], [4000.0, 4000.0], [5333.0]
    ]  # fmt: skip
    assert far == [f"NVIDIA H200  {STREAM}: {value} GB/s, the median is 4000" for value in (2999, 5334)]


def called(tmp_path: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    arguments = parser.parse_args(["kinds", *words, "--file", str(tmp_path / "kinds.yaml")])
    return int(arguments.func(arguments))


def test_a_site_adds_its_devices_and_replaces_what_it_gave_before(tmp_path: Path, capsys: Any) -> None:
    archives = [str(kept.TWO_CLEAN), str(kept.ONE_USER)]
    for _ in range(2):
        assert called(tmp_path, "add", "--site", "here", "--archive", *archives) == 0
    assert "figures of up to 3 devices; review the difference" in capsys.readouterr().out
    assert called(tmp_path, "add", "--site", "there", "--archive", *archives) == 0
    capsys.readouterr()
    assert called(tmp_path, "list") == 0
    assert "6 devices, 4 machines, 2 sites" in capsys.readouterr().out
    written = YAML(typ="safe").load((tmp_path / "kinds.yaml").read_text())
    newest = max(one.time for path in (kept.TWO_CLEAN, kept.ONE_USER) for one in kept._of(path))
    assert str(written["kinds"]["NVIDIA H200"][0]["date"]) == newest[:7]
    assert [one["site"] for one in written["kinds"]["NVIDIA H200"]] == ["here", "there"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add", "--site", "a/b", "--archive", "x"), "--site 'a/b': allowed: 1 to 60 letters"),
        (("add", "--site", "a", "--archive", "/no/such"), "/no/such: no such archive"),
        (("add", "--site", "a", "--archive", "."), "has a key metric of a GPU"),
    ],
)
def test_what_cannot_be_added_has_one_line(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    words = tuple(str(tmp_path) if word == "." else word for word in words)
    with pytest.raises(TenkenError, match=says.replace("(", "\\(")):
        called(tmp_path, *words)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kinds: 3\n", "kinds is not a map of GPUs"),
        ("kinds: {a: [{site: b}]}\n", "expected a list of {site, date, figures}, each site once"),
        ("kinds: {a: [{site: b, date: c, figures: {d: {unit: e, machines: [[0]]}}}]}\n", "values above 0"),
        ("kinds: {a: [{site: b, date: c, figures: {d: {unit: e, machines: []}}}]}\n", "one list per machine"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "kinds.yaml").write_text(text)
    with pytest.raises(SystemFileError, match=r"kinds\.yaml:1: .*" + says.replace("{", "\\{")):
        kinds.load(tmp_path / "kinds.yaml", None)


@pytest.mark.parametrize(("names", "given"), [(("G", "G"), True), (("G", "H"), False), ((), False)])
def test_gpus_of_several_models_are_of_no_known_one(
    names: tuple[str, ...], given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = devices(7, 1)
    monkeypatch.setattr(kinds, "load", lambda: {("G", "f"): known, ("H", "f"): known})
    monkeypatch.setattr(kinds, "figure", lambda *of: "f")
    monkeypatch.setattr(kinds, "of_device", lambda *of: True)
    one: Any = SimpleNamespace(program="stream", device=lambda gpu: SimpleNamespace(name=names[gpu]) if names else None)
    of: Any = SimpleNamespace(name="triad", kind="gpu", unit="GB/s", subject=SimpleNamespace(gpus=(0, 1)))
    assert (kinds.known(one, of) is known) is given
    of.unit = "TFLOP/s"
    assert kinds.known(one, of) is None
    of.unit, one.program = "GB/s", "another"
    assert kinds.known(one, of) is None
