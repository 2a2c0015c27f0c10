"""Pages in a real browser: what is printed, what a script does, and that nothing leaves the page."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tenken.commands import accept as command
from tenken.model.catalogue import load_catalogue
from tenken.report import contracts, signed
from tests.support import debian, kept

pytestmark = pytest.mark.xdist_group("browser")  # one worker makes what its module shares


@pytest.fixture(scope="module")
def browser() -> str:
    debian.need(*debian.BROWSER)
    found = signed.browser()
    assert found
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, browser: str) -> Path:
    """The report of kept H200 sessions against a contract drafted for them, with a PDF."""
    folder = tmp_path_factory.mktemp("accept")
    text = (
        'title: "Cards of a node"\nsystem: h200\nparties: {customer: Site, supplier: Vendor}\nrepetitions: 2\n'
        "clauses:\n"
        "  - {id: C1, metric: stream.triad, subject: gpu, target: 3840, unit: GB/s, source: data sheet}\n"
        "  - {id: C2, metric: spmv.dot, subject: gpu, target: 3840, unit: GB/s, source: data sheet}\n"
        "  - {id: C3, metric: hpl.hpl, subject: gpu, target: 40, unit: TFLOP/s, source: offer, repetitions: 2}\n"
    )
    (folder / "deal.yaml").write_text(text)
    contract = contracts.load(str(folder / "deal.yaml"), load_catalogue(), ["h200"])
    root = kept.archive()
    sessions = tuple(sorted(p.name for p in (root / ".sessions").iterdir()))
    _, _, why = command.write(contract, root, sessions, folder / "out", "2026-11-22 12:00 UTC", True)
    assert why is None, why
    return folder / "out"


def test_two_to_six_pages_each_with_its_title_block(report: Path) -> None:
    pages = subprocess.run(
        ["pdftotext", "-layout", report / "report.pdf", "-"], capture_output=True, text=True, check=True
    ).stdout.split("\f")[:-1]  # fmt: skip
    said = json.loads((report / "acceptance.json").read_text())
    digest = re.search(r"Archive SHA-256 <code>([0-9a-f]{64})", (report / "report.html").read_text())
    assert digest and 2 <= len(pages) <= 6
    for number, text in enumerate(pages, 1):
        for words in (f"Page {number} of {len(pages)}", "Cards of a node (deal)", f"h200: {said['statement']}",
                      said["sessions"][0], said["sessions"][-1], digest[1]):  # fmt: skip
            assert words in text, (number, words)
    whole = re.sub(r"\s+", " ", " ".join(pages))
    for words in ("Requirements", "Scope", "Conditions", "Procedure", "Correctness", "Runs that do not count",
                  "Stability", "Punch list", "Signatures", "For the supplier: Vendor", "580.159.04",
                  "96.00.A5.00.1A"):  # fmt: skip
        assert words in whole, words
    medians = [f"{r['parts'][0]['median']:.0f}" for r in said["requirements"] if r["parts"]]
    assert medians and all(m in whole for m in medians if len(m) == 4)
