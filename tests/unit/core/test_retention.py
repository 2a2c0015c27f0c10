"""Retention: what is removed from old records and what is kept, and what leaves the site."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from tenken.archive import packed, retention
from tenken.archive import records as archive
from tenken.commands import archive as command
from tenken.errors import TenkenError
from tenken.model.result import typed
from tests.support import kept
from tools.campaign import standin


def main(*words):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers(required=True))
    given = parser.parse_args(["archive", *map(str, words)])
    return given.func(given)


@pytest.fixture
def root(tmp_path):
    """Two old records and one of tomorrow, which can never be too old."""
    found = tmp_path / "perflogs"
    world = standin.StandIn(("gpu-x17.hall.example.org",), gpus=2)
    for session, time in (("old", "2020-01-01T00:00:00.000000Z"), ("signed", "2020-01-01T01:00:00.000000Z"),
                          ("new", "2999-01-01T00:00:00.000000Z")):  # fmt: skip
        record = world._record(session, world.nodes[0], 0)
        document = json.loads(record.result.text)
        for gpu in document["devices"]:
            gpu["uuid"] = f"GPU-12345678-1234-1234-1234-12345678901{gpu['index']}"
        document.update(started=time, finished=time)
        record = replace(record, result=typed(document))
        archive.write(replace(record, time=time), found)
    return found


def samples(root):
    return {r.session: sum(len(m.samples) for m in r.result.metrics) for r in archive.records(root) if r.result}


def figures(root):
    return [
        (r.session, r.verdict, m.id, m.value, m.p5, m.best, m.count)
        for r in archive.records(root)
        if r.result
        for m in r.result.metrics
    ]


def test_old_samples_go_and_every_figure_stays(root, capsys):
    before, all_of_them = figures(root), samples(root)
    assert main("prune", "--days", 30, "--keep", "signed", "--dry-run", "--archive", root) == 0
    assert samples(root) == all_of_them and "1 records older than 30 days would lose" in capsys.readouterr().out
    assert main("prune", "--days", 30, "--keep", "signed", "--archive", root) == 0
    assert samples(root) == {**all_of_them, "old": 0} and figures(root) == before
    pruned = next(r for r in archive.records(root, "old"))
    assert not any(m.samples for m in pruned.result.metrics)
    assert json.loads(pruned.path.read_text())["pruned"]
    assert main("prune", "--days", 30, "--archive", root) == 0
    assert "1 records" in capsys.readouterr().out.splitlines()[-1], "what was pruned is not pruned again"


@pytest.mark.parametrize(
    ("time", "days", "old"),
    [
        ("2026-10-31T11:59:59.999999Z", 30, True), ("2026-10-31T12:00:00.000000Z", 30, False),
        ("2026-10-31T12:00:01.000000Z", 30, False), ("2026-11-01T00:00:00.000000Z", 30, False),
        ("2026-10-30T23:59:59.000000Z", 30, True), ("2026-10-31T11:00:00.000000Z", 30, True),
        ("2026-11-29T11:59:59.000000Z", 1, True), ("2026-11-29T12:00:01.000000Z", 1, False),
        ("2026-12-15T00:00:00.000000Z", 30, False),
    ],
)  # fmt: skip
def test_what_is_older_than_the_days_is_pruned(tmp_path, time, days, old):
    world = standin.StandIn(("n1",), gpus=1)
    path = archive.write(replace(world._record("s", "n1", 0), time=time), tmp_path)
    damaged = []
    now = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
    found = list(retention.prunable(tmp_path, days, now, (), damaged))
    assert ([one.path for one in found], damaged) == ([path] * old, [])
    assert all(one.saved == len(path.read_bytes()) - len(one.text) > 0 for one in found)


def test_records_of_version_1_lose_their_samples_too(tmp_path):
    old = shutil.copytree(kept.archive(), tmp_path / "perflogs")
    found = list(archive.records(old))
    assert {json.loads(one.path.read_text())["record"] for one in found} == {"tenken-record/1"}
    before = figures(old)
    assert main("prune", "--days", 1, "--archive", old) == 0
    assert figures(old) == before and not any(samples(old).values())


def test_a_run_without_a_result_is_exported_and_never_pruned(tmp_path):
    world = standin.StandIn(("gpu-x17",), gpus=1)
    failed = replace(world._record("s", "gpu-x17", 0), result=None, time="2020-01-01T00:00:00.000000Z")
    archive.write(failed, tmp_path / "perflogs")
    assert main("prune", "--days", 30, "--archive", tmp_path / "perflogs") == 0
    assert main("export", tmp_path / "x.tar.xz", "--sessions", "s", "--archive", tmp_path / "perflogs") == 0
    (found,) = archive.records(packed.folder_of(tmp_path / "x.tar.xz", tmp_path / "cache"))
    assert (found.nodes, found.result, found.verdict) == (("node1",), None, failed.verdict)


def test_an_export_onto_a_full_disk_leaves_no_file(root, tmp_path):
    file, limits = tmp_path / "x.tar.xz", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(TenkenError, match="cannot be written: File too large"):
            main("export", file, "--sessions", "last", "--archive", root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not file.exists()


def test_what_is_exported_is_numbered_in_the_order_of_names():
    """The same records give the same file."""
    world = standin.StandIn(("n-c", "n-a", "n-b"), gpus=1)
    chosen = [world._record(session, node, 0) for session in ("z", "y", "x") for node in world.nodes]
    texts = retention.export(chosen, (), (), False)
    nodes = {"n-a": "node1", "n-b": "node2", "n-c": "node3"}
    assert [(json.loads(text)["session"], json.loads(text)["nodes"]) for text in texts.values()] == [
        (f"session{number}", [nodes[node]]) for number in (3, 2, 1) for node in world.nodes
    ]
    assert [place.rpartition("/")[2] for place in texts][:4] == [
        f"{number:06d}-session{session}.json" for number, session in ((1, 3), (2, 3), (3, 3), (4, 2))
    ]


@pytest.mark.parametrize("session", ["host", "result", "cuda"])
def test_a_session_named_as_a_word_of_the_record_is_renamed_alone(session):
    """A field `host`, an environment `cuda`; but a folder of that name is of the session."""
    record = standin.StandIn(("n-a",), gpus=1)._record(session, "n-a", 0)
    told = typed({**json.loads(record.result.text), "reason": f"no file /x/{session}/y of {session}, {session}3"})
    (text,) = retention.export([replace(record, result=told)], (), (), False).values()
    raw = json.loads(text)
    assert raw["session"] == "session1" and raw["environ"] == record.environ and "host" in raw["result"]
    assert raw["result"]["reason"] == f"no file <path>/y of session1, {session}3"


@pytest.mark.parametrize(
    ("host", "word", "said"),
    [
        ("n017", "an017b", "by an017b"), ("n0171", "an0171b", None), ("n0171", "AN0171B", None),
        ("n017", "n017", "by node1"), ("n0171", "N0171", "by node1"), ("n017", "n0171", "by n0171"),
        # another name, of which it is a part
        ("n017", "x-n017", "by x-n017"), ("n0171", "x-n0171", None),
    ],
)  # fmt: skip
def test_a_name_of_five_letters_stays_not_even_within_a_word(host, word, said):
    record = standin.StandIn(("zq1",), gpus=1)._record("night", "zq1", 0)
    record = replace(record, result=typed({**json.loads(record.result.text), "reason": f"by {word}"}))
    if said is None:
        with pytest.raises(TenkenError, match="would remain in the export"):
            retention.export([record], [host], (), False)
    else:
        (text,) = retention.export([record], [host], (), False).values()
        assert json.loads(text)["result"]["reason"] == said


def test_a_damaged_record_is_left_and_told(root, capsys):
    path = next(p for p in archive.paths(root) if "-old-" in p.name)
    path.write_text(path.read_text()[:-40])
    assert main("prune", "--days", 30, "--archive", root) == 1
    assert f"left unchanged: {path}" in capsys.readouterr().out and not path.read_text().endswith("}")


@pytest.mark.parametrize("days", ["0.9", "36500.1", "-3", "x", "nan"])
def test_an_age_that_is_none_is_refused(root, days, capsys):
    assert (command._days("1"), command._days("36500")) == (1, 36500)
    with pytest.raises(SystemExit):
        main("prune", "--days", days, "--archive", root)
    assert "allowed: 1 to 36500 days" in capsys.readouterr().err


def test_what_pruning_saves_is_told_and_what_is_damaged_is_the_status(root, capsys):
    before = sum(path.stat().st_size for path in archive.paths(root))
    assert main("prune", "--days", 365, "--dry-run", "--archive", root) == 0
    promised = capsys.readouterr().out
    assert promised.startswith("2 records older than 365 days would lose their samples (")
    assert main("prune", "--archive", root) == 0
    said = capsys.readouterr().out
    saved = before - sum(path.stat().st_size for path in archive.paths(root))
    megabytes = f"({saved / 1e6:.1f} MB); every figure is retained"
    assert said == f"2 records older than 365 days lost their samples {megabytes}\n"
    assert promised == said.replace("lost", "would lose")


def test_a_session_is_exported_once_with_what_can_be_read(root, tmp_path, capsys):
    path = next(p for p in archive.paths(root) if "-old-" in p.name)
    path.with_name(f"{path.name[:-13]}00000000.json").write_text("{")
    for session in ("old", "signed"):
        os.utime(archive.session_folder(root, session), (0, 0))
    words = ["--sessions", "old", "last", "old", "new", "--archive", root]
    assert main("export", tmp_path / "x.tar.xz", *words) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.startswith("left out: ") for line in out] == [True, False]
    assert out[1] == f"2 records without names of the site: {tmp_path}/x.tar.xz"
    texts = [p.read_text() for p in packed.folder_of(tmp_path / "x.tar.xz", tmp_path / "cache").rglob("*.json")]
    assert len(texts) == 2 and not any("GPU-12345678" in text for text in texts)
    # a vendor finds what it delivered by its devices
    assert main("export", tmp_path / "y.tar.xz", "--sessions", "new", "--devices", "--archive", root) == 0
    (text,) = (p.read_text() for p in packed.folder_of(tmp_path / "y.tar.xz", tmp_path / "cache").rglob("*.json"))
    assert "GPU-12345678" in text and "gpu-x17" not in text
    (tmp_path / "file").write_text("")
    with pytest.raises(TenkenError, match=r"file/x.tar.xz: cannot be written: File exists"):
        main("export", tmp_path / "file" / "x.tar.xz", "--sessions", "new", "--archive", root)


def test_what_is_exported_names_neither_node_nor_session_and_has_the_same_figures(root, tmp_path):
    target = tmp_path / "out" / "vendor.tar.xz"
    assert main("export", target, "--sessions", "old", "new", "--archive", root) == 0
    folder = packed.folder_of(target, tmp_path / "cache")
    texts = [p.read_text() for p in folder.rglob("*.json")]
    assert len(texts) == 2 and not any(word in t for t in texts for word in ("gpu-x17", "hall", '"old"', '"new"'))
    assert not any("GPU-12345678" in t for t in texts)
    assert [f[2:] for f in figures(folder)] == [f[2:] for f in figures(root) if f[0] != "signed"]
    with pytest.raises(TenkenError, match=r"vendor.tar.xz .*already"):
        main("export", target, "--sessions", "old", "--archive", root)


#: Where a record names hosts: the path of its key, and a value with a name that is nowhere else.
NAMED = {
    "nodes": ["vega-1.site"], "result/host/name": "vega-1.site", "result/placement/nodes": ["vega-1"],
    "job/facts/hosts": ["vega-1"], "job/facts/nodes": "vega-[01-04]", "job/facts/exec_host": "vega-1/0*4",
    "job/facts/exec_vnode": "(vega-1:ncpus=4)", "job/facts/comment": "run on (vega-1:ncpus=4)",
    "job/facts/reason": "(vega-1 is down)", "job/facts/not_in_order": "vega-1 is down (fan)",
    "findings": [{"kind": "below", "verdict": "FAIL", "message": "vega-1: too slow", "node": "vega-1.site"}],
}  # fmt: skip


@pytest.mark.parametrize("place", NAMED)
def test_no_place_of_a_record_keeps_the_name_of_a_host(root, tmp_path, place):
    path = next(p for p in archive.paths(root) if "-old-" in p.name)
    raw = json.loads(path.read_text())
    *inner, last = place.split("/")
    at = raw
    for key in inner:
        at = at[key]
    at[last] = NAMED[place]
    if not place.startswith("job/facts/") or last == "hosts":
        raw["result"]["reason"] = "vega-1 is slow"  # elsewhere by its short name
    path.write_text(json.dumps(raw))
    assert main("export", tmp_path / "x.tar.xz", "--sessions", "old", "--archive", root) == 0
    (text,) = (p.read_text() for p in packed.folder_of(tmp_path / "x.tar.xz", tmp_path / "cache").rglob("*.json"))
    assert "vega" not in text


def test_a_waiver_of_set_up_names_the_system_which_is_no_host(root, tmp_path):
    """Its name may be part of any word: of localhost, if the system is `local`."""
    path = next(p for p in archive.paths(root) if "-old-" in p.name)
    raw = json.loads(path.read_text())
    raw["findings"] = [{"kind": "state", "verdict": "WAIVED", "message": "no time left", "node": raw["system"]}]
    raw["result"]["reason"] = f"by user@{raw['system']}host"
    path.write_text(json.dumps(raw))
    assert main("export", tmp_path / "x.tar.xz", "--sessions", "old", "--archive", root) == 0


def test_a_name_that_redaction_does_not_see_stays_here(root, tmp_path):
    path = next(p for p in archive.paths(root) if "-old-" in p.name)
    path.write_text(path.read_text().replace("580.0", "580-gpu-x17-7"))
    with pytest.raises(TenkenError, match="'gpu-x17' would remain"):
        main("export", tmp_path / "x.tar.xz", "--sessions", "old", "--archive", root)


def test_a_host_that_is_called_like_a_word_of_the_records_is_refused(root, tmp_path):
    for hosts, says in (
        (["copy", "metrics"], "cannot be redacted"),
        (["Check00"], "would change a value: a host name"),
    ):
        with pytest.raises(TenkenError, match=says):
            main("export", tmp_path / "x.tar.xz", "--sessions", "old", "--hosts", *hosts, "--archive", root)
    assert not (tmp_path / "x.tar.xz").exists()
    with pytest.raises(TenkenError, match="no record of session 'other'"):
        main("export", tmp_path / "x.tar.xz", "--sessions", "other", "--archive", root)
    with pytest.raises(TenkenError, match=r"must end with \.tar\.xz"):
        main("export", tmp_path / "x.zip", "--sessions", "old", "--archive", root)
