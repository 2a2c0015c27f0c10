"""The verdicts of the links, from documents that two H200 wrote and that are doctored here."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import completeness
from tenken.machines import loader
from tenken.machines.facts import facts
from tenken.model import result as document
from tenken.model import verdicts as verdict
from tenken.model.catalogue import load_catalogue
from tenken.model.judgement import Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tests.reframe.checks.test_h200_verdicts import captured
from tests.reframe.checks.test_h200_verdicts import judge as judge_plainly
from tests.support.documents import spoiled
from tests.support.judging import related

PAIRS = [(0, 1), (1, 0)]


def scaled(raw: dict[str, Any], factor: float, *names: str, pair: tuple[int, int] | None = None) -> None:
    """Multiplies metrics, of one pair or of all, with all their statistics and samples."""
    for metric in raw["metrics"]:
        ends = (metric["subject"].get("from"), metric["subject"].get("to"))
        if metric["name"] in names and (pair is None or pair == ends):
            for key in ("value", "best", "median", "p5", "p95"):
                metric[key] *= factor
            metric["samples"] = [sample * factor for sample in metric["samples"]]


def four_gpus() -> dict[str, Any]:
    """The captured document as a node with four GPUs would write it: each pair equal to the first."""
    raw = captured("p2p-two-gpus")
    first = [m for m in raw["metrics"] if m["subject"] == {"from": 0, "to": 1} and not m.get("at")]
    raw["metrics"], limits = [], raw["limits"]
    raw["limits"] = {}
    raw["path"] = {}
    for start in range(4):
        for end in range(4):
            if start == end:
                continue
            raw["path"][f"link.gpu{start}-gpu{end}"] = "18 x NVLink through a switch"
            raw["path"][f"peer_access.gpu{start}-gpu{end}"] = True
            for metric in copy.deepcopy(first):
                ident = metric["id"]
                metric["id"] = ident.replace("gpu0-gpu1", f"gpu{start}-gpu{end}")
                metric["subject"] = {"from": start, "to": end}
                for key in ("value", "best", "median", "p5", "p95"):  # no two pairs have the same samples
                    metric[key] *= 1 + 1e-6 * (4 * start + end)
                metric["samples"] = [sample * (1 + 1e-6 * (4 * start + end)) for sample in metric["samples"]]
                raw["metrics"].append(metric)
                raw["limits"][metric["id"]] = limits[ident]
    raw["devices"] = [
        {
            **copy.deepcopy(raw["devices"][0]),
            "index": i,
            "uuid": f"GPU-00000000-0000-0000-0000-{i:012d}",
            "pci_bus_id": f"00000000:{i + 1:02x}:00.0",
        }
        for i in range(4)
    ]
    health = raw["health"]["devices"][0]
    raw["health"]["devices"] = [{**copy.deepcopy(health), "index": i} for i in range(4)]
    return raw


def h200(claimed: bool = True) -> Machine:
    """The system h200, and the same without any claim."""
    system = loader.load("h200")
    known = facts(system, system.partition("gpu"), system.environments["cuda"])
    assert known.links_per_pair == 18
    return known if claimed else replace(known, capabilities=frozenset())


def judge(raw: dict[str, Any], gpus: int = 2, claimed: bool = True) -> Judgement:
    return judge_plainly(raw, gpus, ("pair",), machine=h200(claimed))


def messages(judged: Judgement) -> str:
    return " | ".join(finding.message for finding in judged.findings)


def test_what_two_cards_wrote_passes() -> None:
    judged = judge(captured("p2p-two-gpus"))
    assert (judged.verdict, judged.findings) == (verdict.PASS, ())
    assert judged.judged["peer.gpu0-gpu1"].value > 385
    assert judged.judged["both_ways.gpu0-gpu1"].value > 720


def test_an_asymmetric_pair_names_the_slower_direction() -> None:
    judged = judge(spoiled(captured("p2p-two-gpus"), lambda d: scaled(d, 0.92, "peer", "memcpy_peer", pair=(1, 0))))
    assert judged.verdict == verdict.FAIL
    assert {f.metric for f in judged.findings} == {"peer.gpu1-gpu0", "memcpy_peer.gpu1-gpu0"}
    assert "8.0 % behind the other direction (median 395" in messages(judged) and "at most 4.2 %" in messages(judged)


def test_a_staged_path_where_peer_is_claimed_fails() -> None:
    def staged(raw: dict[str, Any]) -> None:
        scaled(raw, 37.8 / 395.5, "peer", "memcpy_peer")

    judged = judge(spoiled(captured("p2p-two-gpus"), staged))
    assert judged.verdict == verdict.FAIL
    assert "no more than the driver's staging through the host, although the system file claims" in messages(judged)
    assert "below" in messages(judged), "and below the floor of its links"


def test_sixteen_of_eighteen_links_are_named() -> None:
    def down(raw: dict[str, Any]) -> None:
        for start, end in PAIRS:
            raw["path"][f"link.gpu{start}-gpu{end}"] = "16 x NVLink through a switch"
        raw["path"]["inactive_links.gpu1"] = "4, 11"

    judged = judge(spoiled(captured("p2p-two-gpus"), down))
    assert judged.verdict == verdict.FAIL
    assert "16 x NVLink through a switch, the system file has 18 links; inactive: link 4, 11 of GPU 1" in messages(
        judged
    )


def test_no_peer_access_fails_where_it_is_claimed() -> None:
    def refused(raw: dict[str, Any]) -> None:
        raw.update(status="waived", reason="no peer access: cudaDeviceCanAccessPeer is 0 for gpu0-gpu1")

    raw = spoiled(captured("p2p-two-gpus"), refused)
    assert judge(raw).verdict == verdict.FAIL
    one = spoiled(captured("p2p-two-gpus"), lambda d: d["path"].update({"peer_access.gpu0-gpu1": False}))
    assert "path peer_access.gpu0-gpu1 is 'False'; allowed: True; the system file claims 'peer'" in messages(judge(one))
    assert "the system file claims" not in messages(judge(one, claimed=False))


def test_device_buffers_that_go_through_the_host_are_named_where_they_are_claimed() -> None:
    """The best of all sizes counts: small messages are far below the rate of a copy."""
    good = captured("mpi_p2p-two-gpus")
    staged = spoiled(good, lambda d: scaled(d, 0.1, "bandwidth"))
    for raw, count in ((good, 0), (staged, 1)):
        found, held = related(document.validate(raw, "result.json"), "", "device_mpi")
        assert [f.verdict for f in found] == [verdict.FAIL] * count and len(held) == 1
        assert count == 0 or "of a peer copy in the same job" in found[0].message
    assert related(document.validate(staged, "result.json")) == ([], {})


def test_a_rank_on_the_far_side_is_invalid_unless_asked_for() -> None:
    far = spoiled(
        captured("mpi_p2p-two-gpus"),
        lambda d: d["path"].update({"far.rank1": "GPU 1 is on NUMA node 1, the rank's CPUs are on 0"}),
    )
    program, machine = load_catalogue()["mpi_p2p"], h200()
    for arguments, count in (((), 1), (("--stay",), 0)):
        request = Request(None, "mpi_p2p", arguments=arguments)
        found = [*completeness.choices(document.validate(far, "result.json"), program, request, machine)]
        assert [f.verdict for f in found] == [verdict.INVALID] * count
        assert not found or 'path far.rank1 is "GPU 1 is on NUMA node 1' in found[0].message


def drawn(judged: Judgement, raw: dict[str, Any], group: str) -> str:
    """The plot of a group of metrics, as on the page."""
    pytest.importorskip("matplotlib")
    from tenken.report import plots
    from tenken.report.rows import rows_of

    record = SimpleNamespace(judgement=judged)
    case = SimpleNamespace(result=document.validate(raw, "result.json"), record=record, nodes=("node1",))
    rows = [row for row in rows_of(case, load_catalogue()) if row.group == group]  # type: ignore[arg-type]
    return " ".join(plots.draw(rows, "plot"))


def test_the_page_shows_the_pairs_as_a_heat_map() -> None:
    raw = four_gpus()
    plot = drawn(judge(raw, gpus=4), raw, "links")
    assert "<svg" in plot and "from row to column" in plot
    for word in ("Peer copy", "Read by a kernel", "Bidirectional"):
        assert word in plot


def test_the_page_overlays_all_paths_over_size() -> None:
    raw = captured("p2p-two-gpus")
    plot = drawn(judge(raw), raw, "by size")
    assert "<svg" in plot and "against size" in plot
    for word in ("Peer copy", "Read by a kernel", "Write by a kernel", "Staged by the driver", "Staged by the program"):
        assert word in plot
    assert "GB/s" in plot and "us" in plot
