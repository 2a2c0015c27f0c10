"""The part that all series of a finding share: its name, and the entry that accepts it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from tenken.history import acknowledged, causes, parts, siblings
from tenken.history.acknowledged import Decisions, Entry, Rebase
from tenken.history.causes import Finding
from tenken.history.nights import History
from tenken.model import node_groups
from tests.unit.reports.test_gate import history

NODES, LEAF = 8, 4


def machine() -> History:
    """Eight nodes on two leaves; each has two GPUs, links in both directions between them, and the host."""
    h = history(nodes=1, nights=60)
    one = h.series[0]
    every = []
    for node in range(NODES):
        for gpu in "01":
            for check, metric in (("Stream", "triad"), ("Copy", "h2d"), ("CopySmall", "h2d")):
                program = "stream" if check == "Stream" else "copy"
                every.append(("gpu", gpu, "", f"GPU {gpu}", check, program, metric, node))
            every.append(("pair", gpu, "10"[int(gpu)], f"GPU {gpu} → {'10'[int(gpu)]}", "P2p", "p2p", "both", node))
        every.append(("host", "", "", "host", "Stream", "stream", "host_triad", node))
    series = [
        replace(one, number=n, kind=k, gpu=g, peer=p, place=at, check=c, program=of, metric=m, node=f"n{node}")
        for n, (k, g, p, at, c, of, m, node) in enumerate(every)
    ]
    shape = (len(series), 60)
    groups = {"leaf": {f"n{node}": f"l{node // LEAF}" for node in range(NODES)}}
    return replace(
        h, series=series, values=np.ones(shape), fingerprints=np.zeros(shape, int), invalid=np.zeros(shape, bool),
        groups=groups,
    )  # fmt: skip


BOTH = {"node": "n1", "gpu": "0", "peer": "1"}
CASES = (
    (lambda s: s.node == "n1" and "1" in (s.gpu, s.peer), "gpu", "GPU 1 of node n1", {"node": "n1", "gpu": "1"}),
    (lambda s: s.node == "n1" and s.gpu == "0" and not s.peer, "gpu", "GPU 0 of node n1", {"node": "n1", "gpu": "0"}),
    (lambda s: s.node == "n1" and s.peer, "link", "link GPU 0 - GPU 1 of node n1", BOTH),
    (lambda s: s.node == "n1" and s.peer == "1", "link", "link GPU 0 → 1 of node n1", BOTH),
    (lambda s: s.node == "n1" and s.check == "Stream", "program", "node n1", {"node": "n1"}),
    (lambda s: s.node == "n1", "node", "node n1", {"node": "n1"}),
    (lambda s: "n0" <= s.node <= "n2" and s.metric == "h2d", "leaf", "leaf l0 (3 of 4 nodes)", {"leaf": "leaf l0"}),
    (lambda s: s.node < "n4", "leaf", "leaf l0 (4 of 4 nodes)", {"leaf": "leaf l0"}),
    (lambda s: s.node == "n0" or (s.node == "n4" and s.gpu), "partition", "partition gpu (2 of 8 nodes)", {}),
    (lambda s: s.check == "Copy", "measure", "Copy h2d on partition gpu", {}),
    (lambda s: s.check == "Stream", "check", "Stream on partition gpu", {}),
    (lambda s: s.program == "copy", "program", "program copy on partition gpu", {"program": "copy"}),
    (lambda s: s.program != "p2p", "partition", "partition gpu", {}),
)  # fmt: skip


@pytest.mark.parametrize(("concerns", "label", "what", "keys"), CASES, ids=[case[2] for case in CASES])
def test_the_narrowest_shared_part_is_named_and_its_entry_accepts_it_and_nothing_else(concerns, label, what, keys):
    h = machine()
    rows = [row for row, s in enumerate(h.series) if concerns(s)]
    part = parts.shared(h, rows)
    assert (part.label, part.what, dict(part.keys)) == (label, what, keys)
    finding = Finding("step", label, what, True, 50, 51, -0.05, -0.05, -0.05, 9.0, 1e-4, rows, len(rows))
    fields = dict(line.strip(" -").split(": ") for line in acknowledged.snippet(h, finding).splitlines())
    named = {key: fields[key] for key in acknowledged.PARTS if key in fields}
    assert keys.items() <= named.items()
    entry = Entry("m", "known", "me", h.nights[50], "step", -0.05, **named)
    other = replace(finding, rows=[row for row in range(len(h.series)) if row not in rows])
    acknowledged.apply(Decisions((entry,)), h, [finding, other])
    assert finding.acknowledged and (not other.acknowledged or not named)


DAY = timedelta(days=1)
#: Changes of a finding (on night 40 of 60, 5 % less, of node n1) and of the entry on it, and whether it is covered.
COVERED = (
    ({}, {}, True),
    ({}, {"system": "other"}, False),
    ({}, {"node": "n2"}, False),
    ({"rows": [0, 20]}, {}, False),
    *(({"night": 40 + nights}, {}, abs(nights) <= 3) for nights in (-4, -3, 3, 4)),
)
ACCEPTED = (
    ({}, {"until": 59 * DAY}, True), ({}, {"until": 58 * DAY}, False), ({"night": 59}, {"night": None}, True),
    ({"size": -0.07}, {"size": 0.05}, True), ({"size": 0.0701}, {"size": -0.05}, False), ({}, {"size": None}, True),
    ({"largest": 0.07}, {}, True), ({"largest": -0.0701}, {}, False), ({"size": 0.2, "largest": 0.05}, {}, True),
    ({"kind": "drift"}, {}, True), ({"kind": "outlier"}, {}, False), ({"kind": "outlier"}, {"kind": None}, True),
    ({"kind": "noisy", "night": 40 + causes.LATER}, {"kind": "noisy"}, True),
    ({"kind": "noisy", "night": 41 + causes.LATER}, {"kind": "noisy"}, False),
)  # fmt: skip
REBASED = (({"kind": "drift"}, {}, True), ({"kind": "outlier"}, {}, False), ({"kind": "noisy"}, {}, False))


@pytest.mark.parametrize("named", [Entry, Rebase])
def test_an_entry_covers_the_change_that_it_names_and_no_other(named):
    h = machine()
    for changed, entry, covered in (*COVERED, *(ACCEPTED if named is Entry else REBASED)):
        said = {"system": "m", "reason": "known", "owner": "me", "node": "n1"}
        said |= {"night": 40 * DAY, "kind": "step", "size": -0.05} if named is Entry else {"start": 40 * DAY}
        dates = {k: h.nights[0] + v if isinstance(v, timedelta) else v for k, v in {**said, **entry}.items()}
        rows = [row for row, series in enumerate(h.series) if series.node == "n1"]
        finding = Finding("step", "node", "node n1", True, 40, 41, -0.05, -0.05, -0.05, 9.0, 1e-4, rows, len(rows))
        assert named(**dates).covers(h, replace(finding, **changed)) is covered, (changed, entry)


def test_groups_are_read_or_refused_in_one_line(tmp_path):
    file = tmp_path / "g.csv"
    for text, says in (
        ("", "needs a column"),
        ("node\nn1\n", "needs a column"),
        ("nod,leaf\nn1,l0\n", "needs a column"),
    ):
        file.write_text(text)
        with pytest.raises(node_groups.GroupsError, match=says):
            node_groups.read(file)
    with pytest.raises(node_groups.GroupsError, match="cannot be read: No such file"):
        node_groups.read(tmp_path / "none")
    file.write_text("node,leaf,rack\nn1,l0,r1\nn2,,r1\n")
    assert node_groups.read(file) == {"leaf": {"n1": "l0", "n2": "unknown"}, "rack": {"n1": "r1", "n2": "r1"}}


@pytest.mark.parametrize(
    ("slope", "common", "spike", "told"),
    [(0.001, 0.0, 0.0, True), (0.001, 0.02, 0.0, True), (0.0, 0.02, 0.0, False), (0.0, 0.0, 0.3, False)],
)
def test_a_node_that_falls_behind_by_a_little_every_night_is_told_within_25(slope, common, spike, told):
    """One of forty nodes with noise of 0.6 %, also after a common gain; a single far night is not a finding."""
    h = history(nodes=40, nights=66)
    cost = 0.006 * np.random.default_rng(5).standard_normal((40, 66))
    cost[7, 40:] += slope * np.arange(1, 27)
    cost[7, 60] += spike
    cost[:, 38:] -= common
    found = siblings.drifts(
        replace(h, values=400 * np.exp(-cost), nights=[h.nights[0] + timedelta(n) for n in range(66)])
    )
    assert [e.series for e in found] == [7] * told
    if told:
        assert found[0].kind == "drift" and found[0].found_night < 65 and abs(found[0].change_night - 42) <= 12
        assert found[0].low < -0.02 < found[0].high and found[0].recovered_night is None
