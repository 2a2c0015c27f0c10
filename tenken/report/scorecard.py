"""The first screen of a page, and the last of `make run`: what each GPU and link of a machine reaches, worst first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, VERDICTS, WAIVED
from tenken.report import formatting as words
from tenken.report.rows import Row
from tenken.report.session import Case, Session, came_too_late


@dataclass(frozen=True)
class Figure:
    """A key figure: a metric of a program for these kinds of subject, `at` these coordinates or parameters of its run;
    if there are several points, the best one.
    """

    title: str
    program: str
    metric: str
    kinds: tuple[str, ...]
    at: Mapping[str, Any]


def _figure(title: str, program: str, metric: str, kinds: str, **at: Any) -> Figure:
    return Figure(title, program, metric, tuple(kinds.split()), at)


#: What a buyer looks for, in the order in which figures of equal rank are listed.
FIGURES = (
    _figure("GPU memory, triad", "stream", "triad", "gpu"),
    _figure("Host to GPU", "transfer", "htod_pinned", "gpu"),
    _figure("GPU to host", "transfer", "dtoh_pinned", "gpu"),
    _figure("Peer copy", "p2p", "peer", "pair"),
    _figure("All-reduce, NCCL", "nccl", "all_reduce", "rank"),
    _figure("All-reduce, nccl-tests", "nccl_tests", "all_reduce", "rank"),
    _figure("MPI, device buffers", "mpi_p2p", "bandwidth", "rank", buffers="device"),
    _figure("GEMM FP64", "gemm", "gemm", "gpu", precision="fp64_tensor"),
    _figure("GEMM FP16", "gemm", "gemm", "gpu", precision="fp16"),
    _figure("GEMM FP8", "gemm", "gemm", "gpu", precision="fp8_e4m3"),
    _figure("HPL", "hpl", "hpl", "gpu rank"),
    _figure("HPL-MxP", "hpl_mxp", "hpl_mxp", "gpu rank"),
    _figure("HPCG", "hpcg", "rating", "gpu rank"),
    _figure("SpMV", "spmv", "best", "gpu", precision="double"),
    _figure("Host memory, triad", "stream", "triad", "host"),
    _figure("HPL, host", "hpl", "hpl", "host"),
)
#: Maximum subjects of a figure with separate rows; beyond it, the worst one represents those that pass.
MAX_SUBJECTS = 4


@dataclass(frozen=True)
class Score:
    """One line: a figure of a subject. `share` is relative to the limit that `against` names."""

    figure: str
    subject: str
    value: float
    unit: str
    spread: float | None
    verdict: str
    share: float | None
    against: str
    bound: float | None
    check: str
    case: Case | None = None
    #: The value met its bound, and the check failed for another reason.
    met: bool = False

    @property
    def mark(self) -> float | None:
        """Position of the bound on the bar, as a fraction of it."""
        return self.bound * self.share / self.value if self.bound and self.share and self.value else None

    @property
    def margin(self) -> float:
        """Distance from the bound as a fraction of it; infinite without one."""
        return self.value / self.bound - 1 if self.bound else math.inf


def scores(session: Session, rows: Mapping[int, list[Row]]) -> list[Score]:
    """Every key figure that the session measured, worst first; those without a criterion last."""
    found: list[Score] = []
    for figure in FIGURES:
        best: dict[tuple[str, str], Score] = {}
        for case in session.counted:
            program = case.result.program if case.result is not None else ""
            if program != figure.program or case.verdict == WAIVED:
                continue
            for row in rows[id(case)]:
                if row.value is None or not _is(figure, row, case):
                    continue
                made, key = _score(figure, row, case), (row.node, row.subject)
                if key not in best or _better(made, best[key]):
                    best[key] = made
        found += _folded(list(best.values()))
    order = {figure.title: at for at, figure in enumerate(FIGURES)}
    return sorted(found, key=lambda one: (_order(one.verdict), one.margin, order[one.figure]))


def _order(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in (FAIL, INVALID) else 10 + (verdict != PASS)


def _is(figure: Figure, row: Row, case: Case) -> bool:
    if row.name != figure.metric or case.result is None:
        return False
    kind = "pair" if row.ends else re.sub(r"\W.*|(?<=rank)s", "", row.subject.lower().lstrip("0123456789 "))
    # ranks on the host alone do not show what the GPUs reach
    there = kind in figure.kinds and (kind != "rank" or bool(case.result.devices))
    return there and all(row.at.get(k, case.result.parameters.get(k)) == v for k, v in figure.at.items())


def _better(one: Score, other: Score) -> bool:
    """Among the points of a sweep, and of several checks, the highest counts, unless one of them is below its bound.
    What is INVALID shows nothing about a figure that another check measured."""
    rank, before = (
        1 if score.verdict == FAIL and not score.met else -(score.verdict == INVALID) for score in (one, other)
    )
    return rank > before or (rank == before and one.value > other.value)


def _score(figure: Figure, row: Row, case: Case) -> Score:
    low = row.bounds[0]
    if row.reference is not None:
        against, base = f"{row.criterion or 'reference'} {words.number(row.reference)}", row.reference
    elif row.limit:
        against, base = f"peak {words.number(row.limit)}", row.limit
    elif row.attainable:
        against, base = f"attainable {words.number(row.attainable)}", row.attainable
    else:
        against, base = "", None
    own = verdict = row.verdict if row.criterion or row.verdict in (FAIL, INVALID) else RECORDED
    if case.verdict in (FAIL, INVALID) and own in (PASS, RECORDED) and not _of_another_subject(row, case):
        verdict = case.verdict
    return Score(
        figure.title, row.subject, row.value or 0.0, row.unit, row.spread if row.count and row.count > 1 else None,
        verdict, row.share_of(base), against, low, case.check, case, own == PASS and verdict == FAIL,
    )  # fmt: skip


def _of_another_subject(row: Row, case: Case) -> bool:
    """Whether the case's findings concern other parts than this row's."""
    places = {finding.subject.place for finding in case.findings if finding.subject is not None}
    named = {finding.metric for finding in case.findings if finding.metric}
    return bool(places) and row.subject not in places and row.id not in named


def _folded(of_figure: list[Score]) -> Iterator[Score]:
    """One line for each subject; if there are many, one for all that are not FAIL or INVALID."""
    if len(of_figure) <= MAX_SUBJECTS:
        yield from of_figure
        return
    good = [one for one in of_figure if _order(one.verdict) >= 10]
    yield from (one for one in of_figure if _order(one.verdict) < 10)
    if good:
        least = min(good, key=lambda one: one.value)
        pairs = "→" in least.subject
        yield replace(least, subject=f"{len(good)} {'links' if pairs else 'subjects'}, least {least.subject}")


def sentence(session: Session, found: Iterable[Score]) -> str:
    """The verdict in words, and how many checks came too late to run."""
    late = sum(map(came_too_late, session.counted))
    return _outcome(session, found) + (f"; no time was left for {_many(late, 'check')}" if late else "")


def _outcome(session: Session, found: Iterable[Score]) -> str:
    tests, listed = session.tests, list(found)
    failed, void = (sum(case.verdict == verdict for case in session.counted) for verdict in (FAIL, INVALID))
    if session.nothing_was_run:
        return "Nothing was run"
    if session.load_errors:
        return f"{_many(len(session.load_errors), 'check file')} did not load"
    judged = [one for one in listed if one.verdict in (PASS, FAIL)]
    met = sum(one.verdict == PASS for one in judged)
    if failed:
        reach = f"; bounds met by {met} of {_many(len(judged), 'key figure')}" if judged else ""
        return f"{failed} of {_many(len(session.told), 'check')} failed{reach}"
    if void:
        ended = sum(case.ended for case in session.told)
        how = [word for word, applies in (
            ("ran under conditions that void a measurement", void > ended), ("ended with the session", ended),
        ) if applies]  # fmt: skip
        return f"No fault found, but {void} of {_many(len(session.told), 'check')} {' or '.join(how)}"
    if session.incomplete or session.damaged:
        return "The run or its archive is incomplete"
    if all(case.verdict == WAIVED for case in tests):
        return "Every check was waived"
    if not judged:
        passed = sum(case.verdict == PASS for case in tests)
        met_by = (
            f"; {passed} of {_many(len(tests), 'check')} met bounds" if passed else ", but no figure had a criterion"
        )
        return f"No fault found{met_by}"
    device = _device(session)
    bounds = f"bounds of {device}" if device else "bounds"
    return f"No fault found; {bounds} met by {met} of {_many(len(judged), 'key figure')}"


def _device(session: Session) -> str:
    names = Counter(d.name for case in session.tests if case.result is not None for d in case.result.devices)
    return f"an {next(iter(names))}" if len(names) == 1 else ""


def _many(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def without_criterion(session: Session) -> str:
    """One line on the checks that measured but had nothing to be compared with."""
    names = list(dict.fromkeys(case.base_check for case in session.tests if case.verdict == RECORDED))
    count = sum(case.verdict == RECORDED for case in session.tests)
    if not names:
        return ""
    said = f"{_many(count, 'check')} verified, without a criterion: "
    fit = max((n for n in range(1, NAMES + 1) if len(said + ", ".join(names[:n])) <= LONGEST_LINE), default=1)
    return said + ", ".join(names[:fit]) + (f" and {len(names) - fit} more" if len(names) > fit else "")


#: Maximum number of names of checks without a criterion in a line, and of characters before "and N more": page.py cuts
#: a terminal's line at MAX_WIDTH.
NAMES, LONGEST_LINE = 8, 120
_PARAMETER = re.compile(r" %\w+=")
#: Lines of the terminal's scorecard, with the machine and the next steps.
LINES = 25


def in_lines(session: Session, rows: Mapping[int, list[Row]], machine: Iterable[tuple[str, str]]) -> list[str]:
    """The scorecard for a terminal: at most 25 lines of text, with FAIL and INVALID before the figures."""
    found = scores(session, rows)
    facts = dict(machine)
    short = [
        re.sub(r", .*", "", facts[key])
        for key in ("GPUs", "Processor")
        if not facts.get(key, "none").startswith("none")
    ]
    head = [" · ".join(short)] if short else []
    head.append(f"{session.verdict if session.verdict in (FAIL, INVALID) else 'OK'}: {sentence(session, found)}")
    bad = [
        f"{verdict}: {_PARAMETER.sub(' ', case.check)}: {next((f.message for f in case.decisive), case.where)}"
        for verdict in (FAIL, INVALID)
        for case in session.counted
        if case.verdict == verdict
    ]
    more = [f"... and {len(bad) - 6} more on the page"] if len(bad) > 6 else []
    rest = [without_criterion(session)] if without_criterion(session) else []
    room = LINES - len(head) - len(rest) - len(bad[:6]) - len(more)
    left = [f"... and {len(found) - room + 1} more key figures on the page"] if len(found) > room else []
    table = [
        (one.figure, one.subject, f"{_plain(one.value)} {one.unit}", _bar(one.share), _share(one),
         "bound met, check FAIL" if one.met else one.verdict if one.verdict != RECORDED else "no criterion")
        for one in found[: room - len(left)]
    ]  # fmt: skip
    widths = [max((len(line[i]) for line in table), default=0) for i in range(5)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, (*widths, 0), strict=True)) for line in table]
    return [line.rstrip() for line in (*head, *bad[:6], *more, *shown, *left, *rest)]


def _plain(value: float) -> str:
    return words.number(value).replace("\u202f", "")


def _bar(share: float | None) -> str:
    return "" if share is None else ("#" * round(10 * min(1.0, max(0.0, share)))).ljust(10, ".")


def _share(one: Score) -> str:
    return "" if one.share is None else f"{100 * one.share:.0f} % of {one.against}".replace("\u202f", "")
