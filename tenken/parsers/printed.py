"""What launchers, wrappers and crashes add to the output of any program. All parsers remove it, or report it, with the
functions of this module.

Labels at the beginning of every line: those of Open MPI (`[1,0]<stdout>:`, with a time too), srun (`0: `), jsrun
(`1,0: `) and Intel MPI (`[0] `) by their form, since Intel MPI, MPICH and Open MPI 4 write them before each piece that
a program wrote, even within a line; those of kubectl (`[pod/name/part] `), SkyPilot and Ray (`(head, rank=0, pid=7) `)
and compose (`name  | `), since lines of other nodes between them have other names; also one after the other, where one
launcher starts another. Any other label (pdsh, the time of a log, a quotation) is what precedes a line known to begin
with certain words, and has the same form on all lines. Causes of an early end: lines of HPL, gpu-burn, CUDA, MPI
libraries, the kernel and the schedulers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import islice
from typing import ParamSpec, TypeVar

from tenken.errors import TenkenError

#: The time that Open MPI prints before a label (--timestamp-output).
_DATE = r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})?"
#: Forms of a label. Lines of one output may have labels of several ranks, all of one form.
_LABELS = tuple(
    re.compile(form)
    for form in (
        rf"{_DATE}(?:\[\S{{1,80}}\])?<std(?:out|err|diag)>: ?",
        r" {0,6}\d{1,6}(?:,\d{1,6})?:(?!\d\d:) ?",
        r"\[\d{1,6}\](?: |$)",
        r"\[pod/[\w./-]{1,200}\](?: |$)",
        r"\((?:[^\s(),]{1,63},? )?(?:rank=\d{1,6}, )?pid=\d{1,9}(?:, ip=[\d.]{7,15})?\) ?",
        r"[\w.-]{1,63} {1,20}\|(?: |$)",
    )
)
#: Lines of launchers themselves, without a label between those of the ranks; Open MPI's messages are between rulers.
_LAUNCHERS = re.compile(
    r"(?:srun|slurmstepd|mpirun|mpiexec|prterun): |\[[\w.-]{1,63}:\d{1,9}\] |Warning: Permanently added "
)
_RULER = re.compile(r"-{74}\s*")
#: Beginnings of lines, one of which is in any output: what precedes it on its line is a label.
_BEGINNINGS = re.compile(
    r"# (?:OSU |OMB|MPI [\w -]{1,60} Test|Size\b|nThread|Avg bus|Out of bounds|Collective test)|"
    r"HPLinpack |HPL-(?:NVIDIA|MxP)|T/V  |Final Summary|HPCG-Benchmark|STREAM version|Function  |nvbandwidth Version|"
    r"IOR-|Tested \d|Burning for |\*{3,20} +HPL MxP Result|(?:Send|RDMA|Atomic)[\w ]{1,60} Test$|#bytes |"
    r"Successfully ran|[{]$"
)
#: Labels of one line: a log with times, a launcher, and the launcher that it starts.
_MOST_LABELS = 3
#: Forms that are tried, the shortest first: in JSON, many lines end like its first one.
_MOST_FORMS = 4
#: Length of a label and what is known after it.
_LONGEST = 300
#: What differs in a label from line to line: numbers, with the blanks that align them and the stream after them (gh),
#: streams, levels, and names of days and months.
_VARYING = (r" {0,9}\d{1,20}(?:[OE]\b)?", r"std(?:out|err)", r"[A-Z]{4,8}", r"[A-Z][a-z]{2}\b")
_PARTS = re.compile(f"({'|'.join(_VARYING)})")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[mK]")
_HOLE = "\0\0"
#: This many lines in sequence are not a coincidence.
_LEAST = 4

_NUMERIC = re.compile(r"[-+]?(?:\d[\d.,]*(?:[eE][-+]?\d{0,4})?[KMGT]?i?B?|\.\d+|nan|inf)\b[\d.]*", re.I)
_VERDICT = ("Pass", "Fail", "PASSED", "FAILED", "N/A")

_LOCKED = re.compile(r"locked memory|ulimit -l", re.I)
#: Not where memory cannot be locked: more of it does not help.
_MEMORY = re.compile(
    rf"^(?!.*(?:{_LOCKED.pattern})).*(?:out of memory|memory allocation failed|cannot allocate memory|bad_alloc|"
    r"oom[-_ ]kill|OUT_OF_MEMORY|insufficient (?:device )?memory|failed to allocate)", re.I,
)  # fmt: skip
_EARLY = re.compile(
    r"HPL ERROR|segmentation fault|\bsignal[: ]+\d|exited on signal|core dumped|MPI_ABORT|\bAbort\(\d|BAD TERMINATION|"
    r"bus error|illegal instruction|\bKilled\b|DUE TO TIME LIMIT|exceeded (?:(?:job )?walltime|per-req )|"
    r"CUDA (?:runtime )?error|CUDA failure|NCCL failure|srun: error:|command not found|cannot open shared object|"
    r"process will now exit|Couldn't init |Failure during compute: |No clients are alive", re.I,
)  # fmt: skip
#: What the loader says of a library to preload that does not exist; the program runs.
_IGNORED = re.compile(r"ERROR: ld\.so: object .{1,300}: ignored\.")


def plain(text: str) -> str:
    """The output without carriage returns, terminal colours and launcher labels, if the labels are on every line from
    the first labelled one to the last, except those of the launcher itself; other lines, of the job script, may be
    around them. Open MPI's labels are removed wherever they are.

    Raises TenkenError for several zero bytes in sequence, which a file system leaves in place of lost text; a single
    one is removed.
    """
    if _HOLE in text:
        raise TenkenError(f"{text.count(chr(0))} zero bytes in the output: a part of it was lost; expected: text")
    # a pasted text may have a mark of byte order and blanks that do not break
    text = text.replace("\0", "").replace("\ufeff", "").replace("\u00a0", " ")
    lines = _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    for _ in range(_MOST_LABELS):
        if not _without_label(lines):
            break
    _without_label(lines, _before_beginnings(lines))
    return "\n".join(lines)


def _without_label(lines: list[str], forms: Iterable[re.Pattern[str]] = _LABELS) -> bool:
    """Removes the first label of the lines; returns whether they had one."""
    own = _of_launchers(lines)
    for form in forms:
        labels = {i: found[0] for i, line in enumerate(lines) if (found := form.match(line))}
        if len(labels) < _LEAST:
            continue
        if all(i in labels or i in own or not lines[i].strip() for i in range(min(labels), max(labels) + 1)):
            for i, label in labels.items():
                lines[i] = _joined(label, lines[i][len(label) :])
            return True
    return False


def _before_beginnings(lines: Sequence[str]) -> Iterable[re.Pattern[str]]:
    """The forms of what precedes known beginnings."""
    found = {line[: begin.start()].rstrip(" \t") for line in lines if (begin := _BEGINNINGS.search(line[:_LONGEST]))}
    forms = (
        "".join(
            next((one for one in _VARYING if re.fullmatch(one, part)), re.escape(part)) for part in _PARTS.split(label)
        )
        for label in sorted(found - {""}, key=len)
    )
    for form in islice(dict.fromkeys(forms), _MOST_FORMS):
        # a blank that all lines have is the label's, further ones are the line's own; of a blank line it may be lost
        ends = (re.compile(f"{form}(?:{blank}|$)") for blank in (" ", r"\t", ""))
        yield max(ends, key=lambda one: sum(one.match(line) is not None for line in lines))


def _of_launchers(lines: Sequence[str]) -> set[int]:
    """The lines that a launcher printed itself."""
    found, inside = set(), False
    for i, line in enumerate(lines):
        ruler = _RULER.fullmatch(line) is not None
        if ruler or inside or _LAUNCHERS.match(line):
            found.add(i)
        inside = inside != ruler
    return found


def _joined(label: str, line: str) -> str:
    """A line without its label between its pieces. Labels of other ranks remain: their pieces are not of this line."""
    rank = re.sub(f"^{_DATE}", "", label)
    if rank.rstrip().endswith(">:"):
        return re.sub(_DATE + re.escape(rank), "", line)
    return re.sub(rf"(?<=\S){re.escape(rank)}", "", line) if rank.startswith("[") else line


def without_margin(text: str, begins: str) -> str:
    """The output without the blanks by which a wrapper indented all of it: those before the line that begins with this
    pattern."""
    margin = re.search(rf"^([ \t]{{1,80}}){begins}", text, re.M)
    return text if margin is None else re.sub(f"^{margin[1]}", "", text, flags=re.M)


def half_labelled(text: str) -> str:
    """The label that only some lines of an output have; empty if there is none."""
    lines = [line for line in plain(text).split("\n") if line.strip()]
    for form in (*_LABELS, *_before_beginnings(lines)):
        found = [match[0].strip() for line in lines if (match := form.match(line))]
        if len(found) >= _LEAST and 2 * len(found) > len(lines):
            return found[0]
    return ""


def like_a_row(words: Sequence[str]) -> bool:
    """Whether words are a line of results or a corrupted one: a number, alone or before another number or a verdict.

    Log lines may begin with digits too: a date, an address, a host's name, `1 more process has sent ...`.
    """
    if not words or not _NUMERIC.fullmatch(words[0]):
        return False
    return len(words) == 1 or words[1].lstrip("-+") in _VERDICT or _NUMERIC.fullmatch(words[1]) is not None


def cause(text: str) -> str:
    """Why a program ended early, as a line of its output states; empty if none does."""
    causes = {"out of memory": _MEMORY, "the program ended early": _EARLY, "the limit of locked memory": _LOCKED}
    for what, pattern in causes.items():
        for line in text.splitlines():
            if pattern.search(line) and not _IGNORED.search(line):
                return f"{what}: {' '.join(line.split())[:90]!r}"
    return ""


P = ParamSpec("P")
R = TypeVar("R")


def naming_the_cause(parse: Callable[P, R]) -> Callable[P, R]:
    """Wraps a parser, whose last argument is the text, so that its errors name an early end of the program, or labels
    on only some lines."""

    @wraps(parse)
    def parser(*arguments: P.args, **more: P.kwargs) -> R:
        try:
            return parse(*arguments, **more)
        except TenkenError as error:
            text = str(arguments[-1])
            label = half_labelled(text)
            why = cause(text) or (f"only some lines have the launcher's label {label!r}" if label else "")
            if not why or why in str(error):
                raise
            raise type(error)(f"{error}; {why}") from None

    return parser
