"""The four commands of docs/acceptance.md, run in their order on a stand-in for two H200: ends ACCEPTED.

The first one, `make run`, is a kept session; the sessions of the last one repeat its records at later times.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tenken import cli
from tenken.archive import records as archive
from tenken.archive import seal
from tenken.commands import acceptance, contract
from tenken.machines import loader
from tenken.model import result
from tenken.paths import ROOT
from tenken.report import contracts
from tenken.report.contracts import Machine, Offered
from tests.support import kept

#: What is measured: memory, host links, peer links; or on a host of which nothing is known.
CARDS, HOST = ("StreamCuda", "Transfer", "P2P"), ("StreamHost", "GemmHost")


def commands():
    """The lines of the first example, without comments."""
    page = (ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"## In four commands.*?```sh\n(.*?)```", page, re.S)
    return [line.split("#")[0].strip() for line in example.splitlines()]


class TwoCards:
    """An archive that begins with the kept records, and sessions of them some hours later, each with its seal."""

    def __init__(self, root, checks):
        self.root, self.hours = root, 0
        every = kept.two_clean()
        first = min(one.session for one in every)
        self.kept = [one for one in every if one.session == first and one.base_check in checks and one.result]
        self.write(self.kept, first)

    def write(self, records, session):
        archive.begin_session(self.root, session, [])
        for one in records:
            day = f"2026-11-{24 + self.hours // 24}T{self.hours % 24:02d}"
            text = re.sub(r'("(?:started|finished)": ?")[\d-]+T\d\d', rf"\g<1>{day}", one.result.text)
            facts = {**one.job.facts, "sha256": {"result.json": seal.sha256(text.encode())}}
            again = replace(one, session=session, time=f"{day}{one.time[13:]}", job=replace(one.job, facts=facts),
                            result=result.parse(text, "kept"))  # fmt: skip
            archive.write(again, self.root)

    def session(self, system, mode, checks, batch, name):
        self.hours += 1
        self.write([one for one in self.kept if one.check in batch.names], name)


@pytest.mark.parametrize("checks", [CARDS, HOST])
def test_the_example_of_the_page_ends_accepted(monkeypatch, tmp_path, capsys, checks):
    first, *others = commands()
    assert first == "make run MODE=acceptance" and len(others) == 3
    monkeypatch.setenv("TENKEN_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setattr(contracts, "FOLDER", tmp_path)
    for function in (contracts.file_of, contracts.load, contracts.names):
        defaults = tuple(tmp_path if value == ROOT / "reports" / "contracts" else value
                         for value in function.__defaults__)  # fmt: skip
        monkeypatch.setattr(function, "__defaults__", defaults)
    monkeypatch.setattr(acceptance.paths, "ROOT", tmp_path)
    site = TwoCards(tmp_path / "archive", checks)
    offered = tuple(Offered(one.check, one.base_check, one.program) for one in site.kept)
    machine = Machine(loader.load("local").expand({}, strict=False), offered)
    monkeypatch.setattr(contract, "checked", lambda *_, **__: machine)
    monkeypatch.setattr(acceptance, "session", site.session)
    for line in others:
        words = line.split()
        assert words.pop(0) == "tenken"
        more = {"contract": ["--folder", str(tmp_path)], "acceptance": ["--no-pdf"]}[words[0]]
        status = cli.main([*words, *(more if words[1] != "validate" else [])])
        said = capsys.readouterr().out
        assert status == 0, said
    assert "ACCEPTED: lot1" in said and "6 sessions" in said
    assert (tmp_path / "output" / "acceptance" / "lot1" / "lot1.tar").is_file()
    page = (tmp_path / "output" / "acceptance" / "lot1" / "report.html").read_text()
    assert "ACCEPTED" in page and ("NVIDIA H200" in page) is (checks == CARDS)
    with pytest.raises(SystemExit):
        cli.main(["accept", "--verify"])
    assert cli.main(["accept", "--verify", str(tmp_path / "output/acceptance/lot1/lot1.tar")]) == 0
