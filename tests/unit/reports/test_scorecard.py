"""The first screen: what each GPU and link reaches, worst first, in words for buyer, vendor and operator."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from lxml import html

from tenken.report import page, scorecard, session
from tenken.report.rows import rows_of
from tests.unit.reports import builder

PEAK = {"value": 4800.0, "unit": "GB/s", "basis": "data sheet: H200"}


def triad(values, verdict="PASS", bounds=None, limit=PEAK, findings=(), **changes):
    """A record of stream with these values of triad, one per GPU."""
    metrics = [builder.metric("triad", {"gpu": g}, [value] * 3) for g, value in enumerate(values)]
    judged = {m["id"]: builder.judgement(m, limit, tolerance=0.02) for m in metrics}
    for gpu, low in (bounds or {}).items():
        judged[f"triad.gpu{gpu}"] = builder.judgement(metrics[gpu], limit, verdict="FAIL")
        findings = [
            *findings,
            builder.finding("FAIL", f"nid001 GPU {gpu}", f"GPU {gpu} is below {low}", f"triad.gpu{gpu}"),
        ]
    doc = builder.document("stream", metrics, len(values), limit)
    return builder.record("StreamCuda", doc, verdict, judged, list(findings), **changes)


def of(tmp_path, records, *testcases):
    loaded = session.load(builder.write_session(tmp_path, records, *testcases), "last")
    rows = {id(case): rows_of(case, builder.CATALOGUE) for case in loaded.cases}
    return loaded, rows, scorecard.scores(loaded, rows)


def test_the_worst_comes_first_and_is_not_hidden_by_the_others(tmp_path):
    loaded, _, found = of(tmp_path, [triad([4400.0, 4401, 4402, 3000, 4404, 4405], "FAIL", {3: 4300})])
    assert [(one.subject, one.verdict) for one in found] == [("GPU 3", "FAIL"), ("5 subjects, least GPU 0", "PASS")]
    assert found[0].share == pytest.approx(3000 / 4800) and found[0].against == "peak 4800"
    assert scorecard.sentence(loaded, found) == "1 of 1 check failed; bounds met by 1 of 2 key figures"


def test_a_healthy_machine_is_told_so_in_words(tmp_path):
    waived = builder.record("Pair", None, "WAIVED", findings=[builder.finding("WAIVED", "nid001", "nid001: one GPU")])
    loaded, rows, found = of(tmp_path, [triad([4400.0, 4401]), waived])
    assert scorecard.sentence(loaded, found) == "No fault found; bounds of an NVIDIA H200 met by 2 of 2 key figures"
    lines = scorecard.in_lines(loaded, rows, [("GPUs", "2 × NVIDIA H200, 141 GiB"), ("Processor", "Xeon, 2 sockets")])
    assert lines[:2] == ["2 × NVIDIA H200 · Xeon", f"OK: {scorecard.sentence(loaded, found)}"]
    assert " ".join(lines[2].split()) == "GPU memory, triad GPU 0 4400 GB/s #########. 92 % of peak 4800 PASS"


def test_a_figure_without_a_criterion_has_not_passed(tmp_path):
    record = triad([4400.0], "RECORDED")
    record["judged"] = {}
    loaded, _, found = of(tmp_path, [record], [builder.testcase("StreamCuda")])
    assert [one.verdict for one in found] == ["RECORDED"]
    assert scorecard.sentence(loaded, found) == "No fault found, but no figure had a criterion"
    assert scorecard.without_criterion(loaded) == "1 check verified, without a criterion: StreamCuda"
    held = {**triad([4400.0]), "check": "Other", "base_check": "Other"}
    loaded, _, _ = of(tmp_path / "two", [record, held], [builder.testcase("StreamCuda"), builder.testcase("Other")])
    assert scorecard.without_criterion(loaded) == "1 check verified, without a criterion: StreamCuda"
    names = [f"Check{n}" for n in range(12)]
    many = [{**record, "check": name, "base_check": name} for name in names]
    loaded, _, _ = of(tmp_path / "many", many, [builder.testcase(name) for name in names])
    assert scorecard.without_criterion(loaded).endswith(" Check6, Check7 and 4 more")


def test_names_of_checks_without_a_criterion_are_not_cut(tmp_path):
    """The line of twelve long names ended with `AccessPatternsHost and `, without the number of the others."""
    names = [f"AccessPatternsHost{n}" for n in range(12)]
    record = {**triad([4400.0], "RECORDED"), "judged": {}}
    many = [{**record, "check": name, "base_check": name} for name in names]
    loaded, _, _ = of(tmp_path, many, [builder.testcase(name) for name in names])
    assert scorecard.without_criterion(loaded).endswith(" AccessPatternsHost1, AccessPatternsHost2 and 9 more")
    assert "AccessPatternsHost2 and 9 more" in page.on_terminal(loaded, builder.CATALOGUE)


def test_bounds_of_other_figures_than_the_key_ones_count(tmp_path):
    doc = builder.document("burn", [builder.metric("clean", {"gpu": 0}, [60.0], unit="s")], 1, PEAK)
    loaded, _, found = of(tmp_path, [builder.record("Burn", doc, "PASS", {}, [])])
    assert not found and scorecard.sentence(loaded, found) == "No fault found; 1 of 1 check met bounds"


def test_a_void_measurement_is_no_figure_that_passed(tmp_path):
    finding = builder.finding("INVALID", "nid001", "nid001: shared with another process")
    loaded, _, found = of(tmp_path, [triad([4400.0], "INVALID", findings=[finding])])
    assert [one.verdict for one in found] == ["INVALID"]
    assert "ran under conditions that void" in scorecard.sentence(loaded, found)


def test_another_check_measured_what_a_void_one_did_not(tmp_path):
    """The figure is that of the valid check; a FAIL is shown unless that value met its bound."""
    finding = builder.finding("INVALID", "nid001", "nid001: shared with another process")
    void = triad([4500.0], "INVALID", findings=[finding])
    other, failed = ({**triad(*given), "check": "Other", "base_check": "Other"} for given in (
        ([4400.0],), ([4400.0], "FAIL", {0: 4450}),
    ))  # fmt: skip
    gone = builder.finding("FAIL", "nid001", "nid001: 2 GPUs found; expected 4")
    beside = triad([4300.0], "FAIL", findings=[gone])
    cases = [builder.testcase("StreamCuda"), builder.testcase("Other")]
    for records, expected in (([void, other], (4400.0, "PASS")), ([beside, other], (4400.0, "PASS")),
                              ([other, void], (4400.0, "PASS")),
                              ([void, failed], (4400.0, "FAIL")), ([void], (4500.0, "INVALID"))):  # fmt: skip
        _, _, found = of(tmp_path / str(len(list(tmp_path.iterdir()))), records, *([cases] if records[1:] else []))
        assert [(one.value, one.verdict) for one in found] == [expected]


def test_a_void_figure_is_none_that_was_judged(tmp_path):
    finding = builder.finding("INVALID", "nid001", "nid001: shared with another process")
    void = {**triad([4500.0] * 3, "INVALID", findings=[finding]), "check": "Other", "base_check": "Other"}
    cases = [builder.testcase("StreamCuda"), builder.testcase("Other")]
    loaded, _, found = of(tmp_path, [triad([4400.0, 3000], "FAIL", {1: 4300}), void], cases)
    assert sorted(one.verdict for one in found) == ["FAIL", "INVALID", "PASS"]
    assert scorecard.sentence(loaded, found) == "1 of 2 checks failed; bounds met by 1 of 2 key figures"


def test_a_value_that_met_its_bound_in_a_failed_check_is_told_so(tmp_path):
    """MPI at 80 % of its limit was shown as FAIL because two of four GPUs were missing."""
    finding = builder.finding("FAIL", "nid001", "nid001: 2 GPUs found; expected 4")
    loaded, rows, found = of(tmp_path, [triad([4400.0], "FAIL", findings=[finding])])
    assert [(one.verdict, one.met) for one in found] == [("FAIL", True)]
    assert scorecard.in_lines(loaded, rows, [])[-1].endswith("bound met, check FAIL")
    assert "bound met, check failed" in page.render(loaded, builder.CATALOGUE)


def test_a_run_whose_time_was_up_is_not_in_order(tmp_path):
    """Otherwise a slow machine that left no time for HPL would end with 0."""
    waived = [builder.finding("WAIVED", "nid001", "nid001: no time left: the 12 minutes are used up")]
    late = [builder.record(f"Late{n}", None, "WAIVED", findings=waived) for n in range(2)]
    loaded, _, found = of(tmp_path, [triad([4400.0]), *late])
    assert (loaded.verdict, loaded.exit_code) == ("INVALID", 3)
    assert "No time was left for 2 checks: Late0, Late1." in loaded.incomplete
    assert scorecard.sentence(loaded, found).endswith("incomplete; no time was left for 2 checks")


def test_nothing_run_is_not_without_fault(tmp_path):
    loaded, _, found = of(tmp_path, [])
    assert not found and scorecard.sentence(loaded, found) == "Nothing was run"


def test_the_terminal_has_twenty_five_lines_whatever_happens(tmp_path):
    finding = builder.finding("FAIL", "nid001", "nid001: wrong result")
    bad = [builder.record(f"P2P{n}", None, "FAIL", findings=[finding], nodes=(f"n{n}",)) for n in range(40)]
    good = [triad([4400.0 + n] * 4, nodes=(f"m{n}",), partition=f"p{n}") for n in range(9)]
    loaded, rows, _ = of(tmp_path, [*bad, *good])
    lines = scorecard.in_lines(loaded, rows, [("GPUs", "x")])
    assert len(lines) <= scorecard.LINES and "... and 34 more on the page" in lines
    assert sum(line.startswith("FAIL: P2P") for line in lines) == 6


def figures(*measured, verdict="PASS", devices=("H200",), **parameters):
    """The scores of one case for each (program, metric, subject), with changes of its row."""
    cases, all_rows = [], {}
    for at, (program, metric, subject, *changes) in enumerate(measured):
        result = SimpleNamespace(program=program, parameters=parameters, devices=devices)
        case = SimpleNamespace(result=result, verdict=verdict, findings=[], check=f"C{at}")
        row = {"value": 50.0, "at": {}, "ends": None, "bounds": (40.0, None), "reference": None, "criterion": "floor",
               "limit": 100.0, "attainable": None, "verdict": "PASS", "spread": 0.01, "count": 2}  # fmt: skip
        row |= changes[0] if changes else {}
        row |= {"name": metric, "subject": subject, "node": "n1", "id": metric, "unit": "GB/s"}
        row["share_of"] = lambda base, value=row["value"]: value / base if base else None
        cases.append(case)
        all_rows[id(case)] = [SimpleNamespace(**row)]
    return scorecard.scores(SimpleNamespace(counted=cases), all_rows)


FP16, FP64 = {"at": {"precision": "fp16"}}, {"at": {"precision": "fp64"}}


@pytest.mark.parametrize(("measured", "title", "of"), [
    (("stream", "triad", "GPU 0"), "GPU memory, triad", {}), (("stream", "triad", "host"), "Host memory, triad", {}),
    (("stream", "triad", "host"), "Host memory, triad", {"devices": ()}),
    (("stream", "copy", "GPU 0"), None, {}), (("stream", "triad", "2 ranks"), None, {}),
    (("p2p", "peer", "GPU 0 → GPU 1", {"ends": (0, 1)}), "Peer copy", {}), (("p2p", "peer", "GPU 0"), None, {}),
    (("nccl", "all_reduce", "4 ranks"), "All-reduce, NCCL", {}),
    (("nccl", "all_reduce", "4 ranks"), None, {"devices": ()}),
    (("mpi_p2p", "bandwidth", "2 ranks"), "MPI, device buffers", {"buffers": "device"}),
    (("mpi_p2p", "bandwidth", "2 ranks"), None, {"buffers": "host"}), (("mpi_p2p", "bandwidth", "2 ranks"), None, {}),
    (("gemm", "gemm", "GPU 0", FP16), "GEMM FP16", {"precision": "fp64"}), (("gemm", "gemm", "GPU 0", FP64), None, {}),
    (("hpl", "hpl", "GPU 0"), "HPL", {}), (("hpl", "hpl", "4 ranks"), "HPL", {}),
    (("hpl", "hpl", "host"), "HPL, host", {}),
    (("hpl", "hpl", "GPU 0", {"value": None}), None, {}), (("hpl", "hpl", "GPU 0"), None, {"verdict": "WAIVED"}),
])  # fmt: skip
def test_what_is_a_key_figure(measured, title, of):
    assert [one.figure for one in figures(measured, **of)] == ([] if title is None else [title])


@pytest.mark.parametrize(("row", "against", "share", "verdict"), [
    ({"reference": 80.0, "criterion": "contract", "attainable": 60.0}, "contract 80.00", 0.625, "PASS"),
    ({"attainable": 60.0}, "peak 100.0", 0.5, "PASS"),
    ({"limit": None, "attainable": 62.5}, "attainable 62.50", 0.8, "PASS"),
    ({"limit": None}, "", None, "PASS"), ({"criterion": None}, "peak 100.0", 0.5, "RECORDED"),
    ({"criterion": None, "verdict": "FAIL"}, "peak 100.0", 0.5, "FAIL"),
    ({"reference": 80.0, "criterion": None}, "reference 80.00", 0.625, "RECORDED"),
])  # fmt: skip
def test_what_a_figure_is_compared_with(row, against, share, verdict):
    (one,) = figures(("hpl", "hpl", "GPU 0", row))
    assert (one.against, one.share, one.verdict, one.spread) == (against, share, verdict, 0.01)
    assert one.margin == 0.25 and one.mark == (None if share is None else pytest.approx(40 * share / 50))
    (one,) = figures(("hpl", "hpl", "GPU 0", {**row, "count": 1, "bounds": (None, None)}))
    assert (one.spread, one.margin, one.mark) == (None, float("inf"), None)


def test_figures_are_in_the_order_of_verdict_margin_and_list():
    def of(subject, verdict, value, bound, metric="triad", **more):
        row = {"verdict": verdict, "value": value, "bounds": (bound, None), **more}
        return ("stream" if metric == "triad" else "hpl", metric, subject, row)

    found = figures(
        of("GPU 0", "PASS", 50.0, 40.0, "hpl"), of("GPU 1", "PASS", 50.0, 40.0), of("GPU 2", "PASS", 44.0, 40.0),
        of("GPU 3", "RECORDED", 9.0, None, criterion=None), of("GPU 4", "INVALID", 1.0, 40.0),
        of("GPU 5", "FAIL", 30.0, 40.0), of("GPU 6", "FAIL", 39.0, 40.0), of("GPU 1", "PASS", 49.0, 40.0),
    )  # fmt: skip
    assert [(one.subject, one.figure) for one in found] == [
        ("GPU 5", "GPU memory, triad"), ("GPU 6", "GPU memory, triad"), ("GPU 4", "GPU memory, triad"),
        ("GPU 0", "HPL"), ("3 subjects, least GPU 3", "GPU memory, triad"),
    ]  # fmt: skip
    links = [("p2p", "peer", f"GPU 0→GPU {n}", {"ends": (0, n), "value": 60.0 - n}) for n in range(1, 6)]
    assert [one.subject for one in figures(*links[1:])] == [f"GPU 0→GPU {n}" for n in (5, 4, 3, 2)]
    assert [one.subject for one in figures(*links)] == ["5 links, least GPU 0→GPU 5"]


@pytest.mark.parametrize(("bad", "many", "lines"), [(0, 22, 22), (0, 23, 21), (6, 17, 17), (7, 17, 15)])
def test_what_has_no_room_on_the_terminal_is_counted(monkeypatch, bad, many, lines):
    """With its machine and its verdict, findings and a last line: 25 lines."""
    about = ("GPU 0", 50.0, "GB/s", None, "PASS", 1.26, "peak 40", 40.0, "C")
    found = [scorecard.Score(f"F{n}", *about) for n in range(many)]
    cases = [SimpleNamespace(verdict="INVALID" if n == 0 else "FAIL", check=f"C{n} %x=1", decisive=[], where="nid1")
             for n in range(bad)]  # fmt: skip
    monkeypatch.setattr(scorecard, "scores", lambda *_: found)
    monkeypatch.setattr(scorecard, "sentence", lambda *_: "said")
    monkeypatch.setattr(scorecard, "without_criterion", lambda *_: "last" if bad == 0 else "")
    run = SimpleNamespace(verdict="FAIL" if bad else "PASS", counted=cases)
    head, verdict, *rest = scorecard.in_lines(run, {}, [("Processor", "none found"), ("GPUs", "2 x H200, 141 GiB")])
    assert (head, verdict) == ("2 x H200", "FAIL: said" if bad else "OK: said")
    told = [f"FAIL: C{n} 1: nid1" for n in range(1, bad)] + ["INVALID: C0 1: nid1"] * bool(bad)
    assert rest[: min(bad, 6)] == told[:6]
    rest = rest[min(bad, 6) :]
    if bad == 7:
        assert rest.pop(0) == "... and 1 more on the page"
    assert [line.split()[0] for line in rest[:lines]] == [f"F{n}" for n in range(lines)]
    assert " ".join(rest[0].split()) == "F0 GPU 0 50.00 GB/s ########## 126 % of peak 40 PASS"
    left = [f"... and {many - lines} more key figures on the page"] if many > lines else []
    assert rest[lines:] == [*left, *(["last"] if bad == 0 else [])]


@pytest.mark.parametrize(
    ("share", "bar"), [(0.0, "." * 10), (0.34, "###......."), (0.36, "####......"), (-1, 10 * ".")]
)
def test_a_bar_has_a_mark_for_each_tenth(share, bar):
    assert scorecard._bar(share) == bar and scorecard._bar(None) == ""


@pytest.mark.parametrize(("changes", "says"), [
    ({"nothing_was_run": True}, "Nothing was run"), ({"load_errors": ["a", "b"]}, "2 check files did not load"),
    ({"damaged": ["x"]}, "The run or its archive is incomplete"), ({"incomplete": ["x"]}, "The run or its archive is"),
    ({"tests": ["WAIVED", "WAIVED"]}, "Every check was waived"),
    ({"tests": ["WAIVED", "PASS"]}, "No fault found; 1 of 2 checks met bounds"),
    ({"tests": ["INVALID", "PASS"]}, "No fault found, but 1 of 2 checks ran under conditions that void a measurement"),
    ({"tests": ["INVALID", "FAIL", "PASS"]}, "1 of 3 checks failed"),
    ({"tests": ["ENDED", "PASS"]}, "No fault found, but 1 of 2 checks ended with the session"),
    ({"tests": ["INVALID", "ENDED"]}, "No fault found, but 2 of 2 checks ran under conditions that void a"),
])  # fmt: skip
def test_the_most_serious_is_told_in_words(changes, says):
    result = SimpleNamespace(devices=[])
    cases = [
        SimpleNamespace(verdict=v.replace("ENDED", "INVALID"), ended=v == "ENDED", result=result, late=False)
        for v in changes.get("tests", ["PASS"])
    ]
    said = {"nothing_was_run": False, "load_errors": [], "damaged": [], "incomplete": []} | changes
    run = SimpleNamespace(**said | {"tests": cases, "counted": cases, "told": cases})
    assert scorecard._outcome(run, []).startswith(says)


def test_the_mailed_page_has_no_records_and_links_to_them(tmp_path):
    loaded = session.load(builder.write_session(tmp_path, *builder.every_kind()), "last")
    main, records = page.pages(loaded, builder.CATALOGUE, "now", "s.records.html")
    first, second = html.document_fromstring(main), html.document_fromstring(records)
    links = [link.split("#")[1] for link in first.xpath("//a/@href") if link.startswith("s.records.html#")]
    ids = set(second.xpath("//@id"))
    assert links and set(links) <= ids and not first.xpath("//section[@class='check']")
    assert len(second.xpath("//section[@class='check']")) >= 10
    assert {"attention", "scorecard", "next", "machine"} <= set(first.xpath("//@id"))


def test_what_plots_need_is_said_once(tmp_path, monkeypatch):
    from tenken.report import plots

    def absent(*_):
        raise ImportError("No module named 'matplotlib'")

    monkeypatch.setattr(plots, "draw", absent)
    loaded = session.load(builder.write_session(tmp_path, *builder.every_kind()), "last")
    assert page.render(loaded, builder.CATALOGUE).count("Plots need matplotlib") == 1
