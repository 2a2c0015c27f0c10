"""Pages in a real browser: printing, the effect of a script, and that nothing leaves the page."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import axe_core_python
import pytest

from tenken.archive import packed
from tenken.archive import records as kept_records
from tenken.commands import accept as command
from tenken.model.catalogue import load_catalogue
from tenken.paths import ROOT
from tenken.report import contracts, page, session, signed
from tests.support import debian, kept
from tests.unit.reports import builder

pytestmark = pytest.mark.xdist_group("browser")  # one worker creates the files that this module shares


@pytest.fixture(scope="module")
def browser() -> str:
    debian.need(*debian.BROWSER)
    found = signed.browser()
    assert found
    return found


#: Fields of a GPU that older programs did not report, with values that occur nowhere else on a page.
ADDED = {"power_limit_w": 687.5, "persistence_mode": True}


def _as_programs_write_today(archive: Path, to: Path) -> Path:
    """A copy of an archive whose GPUs have a serial number, a power limit and a persistence mode."""
    shutil.copytree(archive, to)
    for file in to.rglob("*.json"):
        raw = json.loads(file.read_text())
        for device in (raw.get("document") or {}).get("devices", []) if isinstance(raw, dict) else []:
            device |= {**ADDED, "serial": _serial(device["uuid"])}
            file.write_text(json.dumps(raw))
    return to


def _serial(uuid: str) -> str:
    return f"16538230{int(uuid[-4:], 16):05d}"


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
    root = _as_programs_write_today(kept.archive(), folder / "perflogs")
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


def absent(pdf: Path, fields: dict[str, str]) -> list[str]:
    """Fields whose value is not in the text of a PDF, which breaks lines anywhere and drops a hyphen there."""
    text = subprocess.run(["pdftotext", pdf, "-"], capture_output=True, text=True, check=True).stdout

    def bare(one: str) -> str:
        return re.sub(r"[\s-]+", "", one)

    return [name for name, value in fields.items() if bare(value) not in bare(text)]


def required(archive: Path, page: str, contract: Path, parts: int) -> dict[str, str]:
    """Required statements of a report about GPUs, software, data and parties, straight from the records and the
    files."""
    found = {"contract digest": hashlib.sha256(contract.read_bytes()).hexdigest()}
    found["archive digest"] = re.search(r"Archive SHA-256 <code>([0-9a-f]{64})", page)[1]  # type: ignore[index]
    stated = set(re.findall(r"GPU-[0-9a-f-]{36}", page))
    uuids = set()
    for record in kept_records.records(archive):
        for device in record.result.devices if record.result is not None else ():
            if device.uuid in stated:
                uuids.add(device.uuid)
                of = f"{device.uuid}"
                found |= {f"UUID of {of}": device.uuid, f"slot of {of}": device.pci_bus_id or ""}
                found |= {f"serial number of {of}": device.serial or "not recorded"}
            clocks = (device.sm_clock_max_mhz, device.memory_clock_max_mhz, device.power_limit_w)
            found |= {f"clock or limit {one:g}": f"{one:g}" for one in clocks if one is not None}
            software = (device.name, device.driver, device.cuda_runtime, device.vbios)
            found |= {f"software {one}": one for one in software if one}
            found |= {"compiler": record.result.build.compiler, "kernel": record.result.host.kernel or ""}
    assert len(uuids) == parts and len(found) >= 12
    return found


def test_every_required_field_is_text_of_the_pdf(report: Path) -> None:
    """UUID, serial number, slot, power limit, clocks, driver, firmware, compiler and digests."""
    page = (report / "report.html").read_text()
    fields = required(
        report.parent / "perflogs", page, report.parent / "deal.yaml", page.count('<td class="wrap"><code>GPU-')
    )
    assert any(value.startswith("16538230") for value in fields.values()) and "687.5" in fields.values()
    assert absent(report / "report.pdf", fields) == []
    assert absent(report / "report.pdf", {"invented": "GPU-12345678-0000"}) == ["invented"]


def test_the_kept_pdf_states_what_its_archive_has(browser: str) -> None:
    folder = ROOT / "tests" / "data" / "h200-acceptance"
    page = (folder / "report.html").read_text()
    fields = required(packed.folder_of(kept.ACCEPTANCE), page, folder / "contract.yaml", 1)
    assert absent(folder / "report.pdf", fields) == []


#: Runs next to a page in a frame 390 px wide and stores its observations as JSON.
DRIVER = """
<!DOCTYPE html><meta charset="utf-8">
<iframe id="f" style="width:390px;height:844px;border:0"></iframe><pre id="seen"></pre><script>
const page = PAGE, frame = document.getElementById("f"), seen = {};
frame.onload = () => {
  const doc = frame.contentDocument, form = doc.querySelector("form.filter");
  for (const fold of doc.querySelectorAll("details")) fold.open = true;
  seen.wide = doc.documentElement.scrollWidth;
  const rows = () => [...doc.querySelectorAll("table.verdicts tbody tr")].filter(row => !row.hidden).length;
  seen.all = rows();
  form.elements.text.value = "p2p 1 \u2192 3";
  form.dispatchEvent(new Event("input"));
  seen.searched = rows();
  seen.said = form.querySelector("output").textContent;
  form.elements.text.value = "";
  form.elements.verdict.value = "INVALID";
  form.dispatchEvent(new Event("input"));
  seen.invalid = rows();
  form.elements.verdict.value = "";
  form.elements.text.value = "no such row";
  form.dispatchEvent(new Event("input"));
  seen.none = rows();
  const links = [...doc.querySelectorAll(".attention a")].map(a => doc.getElementById(a.hash.slice(1)));
  seen.links = links.map(to => to && to.tagName);
  const long = table => table.tBodies[0].rows.length;
  const longest = [...doc.querySelectorAll("table.metrics")].sort((a, b) => long(b) - long(a))[0];
  const column = at => [...longest.tBodies[0].rows].map(row => row.cells[at].textContent);
  const click = at => longest.tHead.rows[0].cells[at].querySelector("button").click();
  seen.sorted = [2, 12].map(at => { click(at); return column(at); });
  seen.requests = frame.contentWindow.performance.getEntriesByType("resource").length;
  document.getElementById("seen").textContent = JSON.stringify(seen);
};
frame.srcdoc = page;
</script>
"""


def test_filter_links_and_a_phone(browser: str, tmp_path: Path) -> None:
    loaded = session.load(builder.write_session(tmp_path / "perflogs", *builder.every_kind()), "last")
    text = page.render(loaded, builder.CATALOGUE)
    (tmp_path / "drive.html").write_text(DRIVER.replace("PAGE", json.dumps(text).replace("</", "<\\/")))
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000", (tmp_path / "drive.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout)
    assert found and found[1], done.stderr[-2000:]
    seen = json.loads(found[1])
    assert seen["wide"] <= 390
    assert seen["searched"] == 1 and seen["said"] == f"1 of {seen['all']} rows"
    assert 1 <= seen["invalid"] < seen["all"] and seen["none"] == 0
    assert "TR" in seen["links"] and None not in seen["links"]
    assert seen["requests"] == 0
    for column in seen["sorted"]:  # by the printed text: thin spaces, a minus sign and percent belong to numbers
        figures = [float(re.sub(r"[\s%]", "", text).replace("\u2212", "-")) for text in column if text not in ("", "–")]
        assert len(set(figures)) > 2 and figures == sorted(figures)


#: Pages in frames, each with axe inside; its findings are stored as JSON.
AXE = """
<!DOCTYPE html><meta charset="utf-8"><pre id="seen"></pre><script>
const pages = PAGES, axe = AXE, only = ONLY, seen = {};
(async () => {
  for (const [name, page] of Object.entries(pages)) {
    const frame = document.createElement("iframe");
    frame.style = "width:390px;height:844px;border:0";
    const loaded = new Promise(done => { frame.onload = done; });
    frame.srcdoc = page;
    document.body.append(frame);
    await loaded;
    const inside = frame.contentDocument, script = inside.createElement("script");
    for (const fold of inside.querySelectorAll("details")) fold.open = true;
    script.textContent = axe;
    inside.head.append(script);
    const found = await frame.contentWindow.axe.run(inside, 
      {resultTypes: ["violations"], ...(name in only ? {runOnly: only[name]} : {})});
    seen[name] = {wide: inside.documentElement.scrollWidth, rules: found.passes.length,
                  wrong: found.violations.map(v => `${v.id}: ${v.nodes[0].target}`)};
    frame.remove();
  }
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>
"""


def test_axe_finds_nothing_with_everything_unfolded(browser: str, report: Path, tmp_path: Path) -> None:
    """On a phone, in light and dark; a page with a skipped heading and a nameless picture is detected."""
    loaded = session.load(builder.write_session(tmp_path / "perflogs", *builder.every_kind()), "last")
    technical = page.render(loaded, builder.CATALOGUE)
    pages = {
        "page": technical,
        "dark": technical.replace("@media screen and (prefers-color-scheme: dark)", "@media screen"),
        "report": (report / "report.html").read_text(),
        "broken": technical.replace("<h2 ", "<h5 ").replace("<title>", "<metadata>").replace("</title>", "</metadata>"),
    }
    assert pages["dark"] != technical
    # the policy blocks every script but the page's own, axe included
    bare = {name: re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text) for name, text in pages.items()}
    assert all(bare[name] != text for name, text in pages.items())
    rules = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
    only = {"dark": ["color-contrast"], "broken": ["heading-order", "svg-img-alt"]}
    parts = {
        "ONLY": json.dumps(only),
        "PAGES": json.dumps(bare).replace("</", "<\\/"),
        "AXE": json.dumps(rules).replace("</", "<\\/"),
    }
    (tmp_path / "axe.html").write_text(re.sub(r"\b(PAGES|AXE|ONLY)\b", lambda name: parts[name[0]], AXE))
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=120000", (tmp_path / "axe.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout)
    assert found and found[1], done.stderr[-2000:]
    seen = json.loads(found[1])
    for name in ("page", "dark", "report"):
        assert seen[name]["wrong"] == [] and seen[name]["rules"] >= (1 if name in only else 15), (name, seen[name])
        assert seen[name]["wide"] <= 390, name
    wrong = " ".join(seen["broken"]["wrong"])
    assert "heading-order" in wrong and "svg-img-alt" in wrong
