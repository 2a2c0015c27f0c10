"""No lie passes: every one is refused for the field that was doctored, and its honest twin is judged as it was."""

from __future__ import annotations

import importlib
import pkgutil
import random
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

import tests.lies as here
from tenken.judge import anew
from tenken.model.job import CardReading, HostReading
from tenken.reframe import joblines
from tenken.reframe.outcome import Outcome
from tests.lies import class_01_job, honest, informational
from tests.lies.lie import Lie
from tests.support import kept
from tools import sweep

#: By number and name of the class: class_03_health, ...
MODULES = {
    m.name: importlib.import_module(f"tests.lies.{m.name}")
    for m in pkgutil.iter_modules(here.__path__)
    if m.name.startswith("class_")
}
CLASSES = {name: list(module.lies()) for name, module in MODULES.items()}
#: One run of each program and adapter, in whose fields a sample of lies is told.
SAMPLED = (
    "access_patterns", "daxpy", "gemm", "himeno", "hpcg_ranks", "hpl", "hpl_mxp", "memcopy", "migration",
    "mpi_p2p_host", "nccl", "overlap", "snapshot_io", "spmv_host", "stencil", "stencil_host", "storage_map", "stream",
    "stream_host", "transpose", *honest.foreign.RUNS,
)  # fmt: skip
#: Of the fields of each.
SHARE = 0.03


def test_there_are_enough_lies_of_every_class() -> None:
    counts = {name: len(lies) for name, lies in CLASSES.items()}
    assert sum(counts.values()) >= 400, counts
    assert all(count >= 20 for count in counts.values()), counts
    for name, lies in CLASSES.items():
        assert len({lie.id for lie in lies}) == len(lies), name


@pytest.mark.parametrize("name", CLASSES)
def test_no_lie_of_a_class_passes(name: str) -> None:
    wrong = [said for lie in CLASSES[name] if (said := _accepted(lie))]
    assert not wrong, "\n".join(wrong)


#: Why a metric may be left out of a run that had it: it has no criterion, and no parameter tells whether it comes.
MAY_BE_LEFT_OUT = {
    ("hpl_mxp", "power"): "a sensor must be readable",
    ("hpl_mxp", "energy"): "a sensor must be readable",
    ("hpl_mxp", "per_watt"): "a sensor must be readable",
    ("spmv", "own_over_vendor"): "the vendor's library must be built in",
    ("stencil", "alone"): "in its place fused, of the same figure",
    ("stencil", "fused"): "in its place alone, of the same figure",
    ("storage_map", "adaptive_over_map"): "only at sizes that the map has",
    ("storage_map", "cached_read"): "memory that the GPU maps must be had",
    ("storage_map", "pinned_read"): "memory that the GPU maps must be had",
    ("transpose", "kernel_growth"): "only where half a size is a size too",
    ("transpose", "transfer_growth_ratio"): "only where half a size is a size too",
}


def test_no_metric_can_be_left_out_without_a_reason() -> None:
    """Its criterion would go with it, and the rest of the run pass."""
    tried, passed = 0, {}
    for record in honest.records():
        result = record.result
        if record.version != "tenken-record/2" or result is None or result.status != "ok":
            continue
        before = anew.of_record(record)
        for name in sorted({metric.name for metric in result.metrics}):
            left = tuple(metric for metric in result.metrics if metric.name != name)
            gone = {metric.id for metric in result.metrics} - {metric.id for metric in left}
            tried += 1
            limits = {key: limit for key, limit in result.limits.items() if key not in gone}
            found = anew.of_record(replace(record, result=replace(result, metrics=left, limits=limits)))
            if found.verdict not in ("FAIL", "INVALID"):
                criteria = [one for one in gone if one in before.judged and before.judged[one].criterion]
                passed.setdefault((record.program, name), []).extend(criteria)
    assert tried > 100
    assert set(passed) <= set(MAY_BE_LEFT_OUT), set(passed) - set(MAY_BE_LEFT_OUT)
    assert not any(passed.values()), passed


def test_what_decides_nothing_is_a_short_list() -> None:
    assert len(informational.FIELDS) <= informational.MOST
    assert all(why.strip() for why in informational.FIELDS.values())


def test_what_is_on_the_list_decides_nothing() -> None:
    """An entry that a rule refuses by now must leave the list."""
    loading = next(r for r in kept.two_quick() if r.program == "data_loading" and r.verdict in ("PASS", "RECORDED"))
    runs = [honest.live(name) for name in ("stream", "stream_host", "gemm", "hpl_mxp", "overlap_host", "himeno")]
    left = set(informational.FIELDS)
    for run in (*runs, honest.attended(honest.of_record(loading, loading.check))):
        raw = run.raw()
        for field, paths in sweep.groups(raw).items():
            if (entry := informational.entry(field)) in left:
                lies = (lie for path in paths[:2] for _, lie in sweep.told(raw, path, ("another", "x1.3", "shorter")))
                if any(sweep.verdict(run, ("path",), lie)[0] == run.verdict for lie in lies):
                    left.discard(entry)
    assert not left


def test_a_field_in_which_every_lie_passes_is_on_the_list() -> None:
    rng = random.Random("13")
    found = {f"{name}: {field}" for name in SAMPLED for field in sweep.undecided(honest.live(name), rng, SHARE)}
    assert not found, "judge these fields, or name them in tests/lies/informational.py"


def test_host_and_cards_are_read_from_the_job_lines() -> None:
    told = joblines.report(
        class_01_job.output(honest.run("stream")).replace(
            "TENKEN-RUN begin",
            "TENKEN-HOST machine=x86_64 kernel=6.1 online=0-3,8 memory_kib=1024 cpu=AMD_EPYC\n"
            "TENKEN-DEVICE GPU-0a, 580.159.04, 00000000:01:00.0, 96.00.A5.00.1A, Disabled, Enabled\n"
            "TENKEN-DEVICE GPU-0b, 580.159.04, 00000000:02:00.0, [N/A], [N/A], Enabled, [N/A], [N/A]\n"
            "TENKEN-DEVICE GPU-0d, 580.159.04, 00000000:03:00.0, 96.00, Disabled, Enabled, 1654922012345, Enabled\n"
            "TENKEN-DEVICE GPU-0e, 580.159.04, 00000000:03:00.0, 96.00, Disabled, Enabled, 1654922012345\n"
            "TENKEN-DEVICE GPU-0c, a, message, of, five\n"
            "TENKEN-DEVICE Failed to initialize NVML, 1, 2, 3, 4, 5\n"
            "TENKEN-RUN begin",
        ),
        honest.TOKEN,
    )
    assert told.host == HostReading("x86_64", "6.1", "AMD_EPYC", 5, 2**20)
    assert told.cards == (
        CardReading("GPU-0a", "580.159.04", "00000000:01:00.0", "96.00.A5.00.1A", False, True),
        CardReading("GPU-0b", "580.159.04", "00000000:02:00.0", "", None, True),
        CardReading("GPU-0d", "580.159.04", "00000000:03:00.0", "96.00", False, True, "1654922012345", True),
    )
    assert joblines.account(told).cards == told.cards


def test_a_job_output_of_gigabytes_is_refused_in_bounded_time_and_memory(tmp_path: Path) -> None:
    run = honest.run("stream")
    text = class_01_job.output(run)
    with (tmp_path / "job.out").open("w") as file:
        file.write(text[: text.index("TENKEN-RUN end")])
        file.seek(2 * 2**30)
        file.write("\n" + text[text.index("TENKEN-RUN end") :])
    (tmp_path / "result.json").write_text(run.text)
    known = Outcome(tmp_path, "job.out", "job.err", honest.TOKEN, False, "COMPLETED", 0)
    tracemalloc.start()
    begin = time.process_time()
    judgement = known.judgement(run.request, run.machine)[0]
    took, most = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert judgement.verdict == "FAIL" and "bytes; at most 67108864 are read" in judgement.message()
    assert took < 5 and most < 200 * 2**20
    (tmp_path / "job.out").write_text(text)
    honest_twin = Outcome(tmp_path, "job.out", "job.err", honest.TOKEN, False, "COMPLETED", 0)
    assert honest_twin.judgement(run.request, run.machine)[0].verdict == run.verdict


def test_a_field_that_nobody_judges_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep sees a field that no rule notices: here those on the list, without the list."""
    monkeypatch.setattr(informational, "FIELDS", {})
    run = honest.live("daxpy")
    assert {"host.os", "load.load_average_before"} <= set(sweep.undecided(run, random.Random("1")))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--runs", "WRONG"], "argument --runs: no run 'WRONG'; allowed: access_patterns, "),
        (["--runs", "stream,"], "argument --runs: no run ''; allowed: "),
        (["--each", "0"], "argument --each: '0'; allowed: whole numbers from 1 on"),
        (["--seed", "x"], "argument --seed: 'x'; allowed: whole numbers from 0 on"),
        (["--workers", "-1"], "argument --workers: '-1'; allowed: whole numbers from 1 on"),
    ],
)
def test_a_wrong_option_of_the_sweep_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        sweep.main(words)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert says in last


def _accepted(lie: Lie) -> str:
    try:
        return lie.accepted()
    except Exception as error:  # an exception is a lie that was not refused
        return f"{lie.id}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("name", [*honest.CHOSEN, *honest.foreign.RUNS])
def test_an_honest_twin_is_judged_as_it_was(name: str) -> None:
    run = honest.run(name)
    assert run.verdict in ("PASS", "RECORDED"), run.judged(run.raw()).message()


@pytest.mark.parametrize("name", honest.WAIVED)
def test_an_honest_waiver_stays_one(name: str) -> None:
    assert honest.run(name).verdict == "WAIVED"


@pytest.mark.parametrize("name", [name for name, module in MODULES.items() if hasattr(module, "twins")])
def test_other_circumstances_are_no_lies(name: str) -> None:
    """Honest runs under other circumstances have the verdict that they have without them."""
    twins = list(MODULES[name].twins())
    wrong = [f"{what}: {verdict}; it is {honest}" for what, verdict, honest in twins if verdict != honest]
    assert twins and not wrong, "\n".join(wrong)


def test_a_reference_that_fits_nothing_is_said_and_decides_nothing() -> None:
    """STREAM of two GPUs at once, where the machine has references of one after the other."""
    both, one = honest.run("stream_two"), honest.run("stream")
    found = [f for f in both.judged(both.raw()).findings if f.kind == "reference"]
    assert [f.verdict for f in found] == ["RECORDED"]
    assert "no reference of copy (gpu), scale (gpu)" in found[0].message
    assert "the nearest is for at_once False (this run: True)" in found[0].message
    assert not [f for f in one.judged(one.raw()).findings if f.kind == "reference"]
    unknown = replace(both.machine, unmatched=lambda result, metric: "")
    assert both.judged(both.raw(), machine=unknown).verdict == both.verdict
