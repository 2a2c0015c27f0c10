"""The kept acceptance of an H200: its report is what its archive gives, and what its first page says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lxml import html

from tenken.archive import packed
from tenken.archive import records as archive
from tenken.commands import accept as command
from tenken.model.catalogue import load_catalogue
from tenken.paths import ROOT
from tenken.report import bundle, contracts, signed
from tenken.report.acceptance import ACCEPTED, EXCEPTIONS, INCONCLUSIVE, REJECTED, accept
from tests.support import kept

FOLDER = ROOT / "tests" / "data" / "h200-acceptance"
NAME = "h200-lot"


@pytest.fixture(scope="module")
def contract(tmp_path_factory):
    file = tmp_path_factory.mktemp("agreed") / f"{NAME}.yaml"
    # its runs are older than seals
    file.write_text((FOLDER / "contract.yaml").read_text() + "allow_unsealed: true\n")
    return contracts.load(str(file), load_catalogue(), ["h200"])


@pytest.fixture(scope="module")
def runs():
    """Root of the kept archive, the sessions, and the files by their names in the bundle."""
    root = packed.folder_of(kept.ACCEPTANCE)
    sessions = tuple(sorted(p.name for p in (root / archive.SESSIONS).iterdir()))
    return root, sessions, command.files_of(root, sessions)


@pytest.fixture(scope="module")
def page():
    return html.document_fromstring((FOLDER / "report.html").read_text())


def test_the_first_lines_name_the_smallest_margin_and_the_conditions(page):
    def said(title):
        return page.xpath(f"//dt[.='{title}']/following-sibling::dd")[0].text_content()

    rows = page.xpath("//table[@class='requirements']/tbody/tr")
    margins = {row[0].text_content(): float(row[9].text_content()[1:-2]) for row in rows}
    closest = min(margins, key=margins.get)
    assert said("Smallest margin").startswith(f"+{margins[closest]} %: {closest}, ")
    assert said("Smallest margin").endswith("node1 GPU 0")
    assert said("Conditions (section 4)") == "driver 580.159.04, CUDA 13.0, SM clock up to 1980 MHz"


def test_the_first_page_names_what_follows_what_does_not_count_and_what_is_open(contract, runs):
    _, sessions, _ = runs

    def said(changed, statement):
        found = replace(accept(changed, [], load_catalogue(), sessions), statement=statement)
        page = html.document_fromstring(signed.render(found, load_catalogue(), "0" * 64, "0" * 64, [], "today"))
        rows = {one.text_content(): one.getnext().text_content() for one in page.xpath("//dt")}
        return page.xpath("//div[@role='status']")[0].text_content().partition("Next: ")[2], rows

    steps = {one: said(contract, one)[0] for one in (ACCEPTED, EXCEPTIONS, REJECTED, INCONCLUSIVE)}
    assert "sign in section 10" in steps[ACCEPTED] and "evidence files" in steps[REJECTED]
    assert len(set(steps.values())) == 4 and all(steps.values())
    rows = said(contract, ACCEPTED)[1]
    assert rows["Not counted (section 7)"] == "0 INVALID, 0 excluded, 0 failed outside all clauses"
    assert rows["Open (sections 8 and 9)"] == "punch list: no open item; no stability period agreed"
    items = (contracts.Item("P1", "a fan", True, "2027-01-31"), contracts.Item("P2", "a label", False))
    rows = said(replace(contract, punch_list=items), EXCEPTIONS)[1]
    assert rows["Open (sections 8 and 9)"] == "punch list: 1 open, first due 2027-01-31; no stability period agreed"


def test_a_report_without_measurements_names_neither(contract, runs):
    _, sessions, _ = runs
    found = accept(contract, [], load_catalogue(), sessions)
    text = signed.render(found, load_catalogue(), "0" * 64, "0" * 64, [], "today")
    assert "INCONCLUSIVE" in text and "Smallest margin" not in text and "Conditions (section" not in text


def test_the_report_is_what_the_archive_gives_today(contract, runs, page):
    _, sessions, files = runs
    found = command.decide(contract, files, sessions, sealed=False)
    digest = bundle.archive_digest({name: bundle.sha256(path) for name, path in files.names.items()})
    written = page.xpath("//dt[.='Report written']/following-sibling::dd")[0].text_content()
    text = bundle.sha256(FOLDER / "contract.yaml")
    assert signed.render(found, load_catalogue(), digest, text, [], written) == (FOLDER / "report.html").read_text()
    assert (found.statement, found.records, len(found.parts)) == ("ACCEPTED", 80, 1)
