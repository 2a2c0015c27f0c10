"""A third-party program is judged as the suite's own: nights, references, contract, the page and its plot."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenken.model import catalogue
from tenken.report import page, session
from tests.unit.machines.test_references import MBW
from tests.unit.reports import builder
from tests.unit.reports.test_gate import proposed, run
from tools import synthetic


def nights(slow: bool) -> list[dict[str, Any]]:
    """45 nights of mbw on four nodes; `slow`: one loses 10 % on the last four."""
    rng = random.Random(2)
    records = []
    for number in range(180):
        night, node = divmod(number, 4)
        value = 11.5 * rng.gauss(1, 0.004) * (0.9 if slow and node == 2 and night >= 41 else 1)
        when = synthetic.FIRST + timedelta(days=night, minutes=node)
        metrics = [synthetic.metric("memcpy", {"host": 0}, [value])]
        request = {"declared": MBW}
        name = synthetic.node_name(node)
        records.append(synthetic.record("local", name, when, "Mbw", "mbw", metrics, [], request=request))
    return records


@pytest.mark.parametrize("slow", [False, True])
def test_nights_are_judged_and_propose_references(slow: bool, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(catalogue, "_declared", {})
    for number, record in enumerate(nights(slow)):
        synthetic.write(tmp_path / "a", record, number)
    code, found = run(tmp_path / "a")
    said = capsys.readouterr().out
    assert code == found["exit_code"] == slow
    assert ("FAIL: node n02: Mbw memcpy 9.9\u202f% less" in said) is slow, said
    assert (tmp_path / "out" / "nightly.html").read_text().count("<svg") >= slow
    proposed(tmp_path / "a", "local")
    out, err = capsys.readouterr()
    assert "- metric: mbw.memcpy\n    subject: host\n" in out and "unit: GB/s" in out, out + err
    assert ("mbw.memcpy (host): 1 outlying or regressed series left out" in err) is slow, err


def test_the_page_of_a_session_has_its_figure_and_plot(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(catalogue, "_declared", {})
    root = builder.write_session(tmp_path / "a", nights(slow=False)[-4:])
    text = page.render(session.load(root, "last"), catalogue.load_catalogue())
    assert text.count("<title>memcpy: value by metric and subject") == 4
    assert text.count("<th scope=row>memcpy<td>host<td>11.") == 4
