"""Checks of third-party programs: fio, IOR, an application (docs/foreign-programs.md).

A check names the command and declares the values in its output; nothing is compiled, and one file in a site's own
folder is sufficient: `reframe -c checks -c ~/our-checks -r --system NAME`.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.containers import ContainerPlatform
from reframe.core.exceptions import ReframeError

from tenken.errors import CatalogueError, printable
from tenken.model import catalogue, units
from tenken.parsers.foreign import ForeignOutputError, document, metric
from tenken.reframe.base import JudgedCheck

_OUTPUT = "tenken-foreign.out"
_MISSING = re.compile(r"^TENKEN-FOREIGN-MISSING (.+)$", re.M)
_VERSION = re.compile(r"^TENKEN-FOREIGN-VERSION (.*)$", re.M)
#: A comma groups three digits; any other comma is the decimal separator of a program that ignored LC_ALL=C.
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])\d+,(?:\d{1,2}|\d{4,})(?![\d,])|(?<![\d.,])0,\d{3}(?![\d,])")
#: What a program prints if it failed its own verification, whatever it printed before; not `failed: 0`, `0 failed`.
_FAILURE = re.compile(r"(?<!\b0 )(?<!\bno )\b(?:failed|invalid|faulty)\b(?!\s*[:=]?\s*\(?0\b)", re.I)


@dataclass(frozen=True)
class Figure:
    """One metric of a program: its description, unit, direction and place in the output.

    `pattern` is a regular expression of one line. Its group 1, or `(?P<value>...)`, is the number; `(?P<unit>...)` is
    the unit printed with it, which is converted to `unit`; without that group the number is in `printed`, or in `unit`.
    Each matching line is a sample. Without a pattern the check's `parse` returns the samples. `statistic` reduces them
    to one value. There is no floor: the value is compared with a reference in the system file, or with a contract.
    """

    what: str
    unit: str
    direction: str
    pattern: str = ""
    printed: str = ""
    statistic: str = "median"
    sign: str = "positive"
    min_count: int = 1
    max_spread: float | None = None
    #: Whether it may be missing: some machines do not have it.
    optional: bool = False

    def mistakes(self, name: str) -> Iterator[str]:
        """Errors of its declaration, before anything runs."""
        where = f"metric {name}"
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            yield f"{where}: the name must be lower case letters, digits and _, starting with a letter"
        if self.pattern:
            yield from _wrong_pattern(f"{where}: pattern", self.pattern)
            try:
                groups = re.compile(self.pattern).groups
            except re.error:
                groups = 1
            if not groups:
                yield f"{where}: pattern {self.pattern!r} has no group; put the number in parentheses"
        if self.printed and units.known(self.unit):
            try:
                units.factor(self.printed, self.unit)
            except ValueError as error:
                yield f"{where}: printed: {error}"

    def samples(self, name: str, output: str) -> list[float]:
        """All samples in `output`, in `unit`. Raises ForeignOutputError if there is none, or one is not a number."""
        lines = [match for line in output.splitlines() if (match := re.search(self.pattern, line))]
        found = [self._number(name, match) for match in lines]
        comma = next((match for match in lines if "," in self._text(match)), None)
        if comma is not None and (other := _DECIMAL_COMMA.search(output)):
            raise ForeignOutputError(
                f"metric {name}: {self._text(comma)!r} in an output with the decimal comma of {other[0]!r}; allowed: "
                "numbers as under LC_ALL=C"
            )
        if not found:
            raise ForeignOutputError(f"metric {name}: no line of the output matches {self.pattern!r}")
        return found

    def _text(self, match: re.Match[str]) -> str:
        groups = match.groupdict()
        return ((groups["value"] if "value" in groups else match[1]) or "").strip()

    def _number(self, name: str, match: re.Match[str]) -> float:
        groups, text = match.groupdict(), self._text(match)
        if not _NUMBER.fullmatch(text):
            comma = "; a comma may only group three digits" if "," in text else ""
            raise ForeignOutputError(f"metric {name}: {text!r} in {match[0]!r} is not a number{comma}")
        try:
            scale = units.factor(groups.get("unit") or self.printed or self.unit, self.unit)
        except ValueError as error:
            raise ForeignOutputError(f"metric {name}: in {match[0]!r}: {error}") from None
        return float(text.replace(",", "")) * scale


class ForeignCheck(JudgedCheck):
    """Runs `command` and compares the values in its output with what is known about the machine.

    `program` is its name in the archive: lower case letters, digits and _; not that of a program of this suite.
    Verified by its exit status, by every line in `required_lines`, and by the absence of those in `forbidden_lines`.
    """

    #: The shell command. With `uses_mpi` it is the command of each rank.
    command = variable(str)

    #: A shell command that fails where a part of it is not installed: the check is WAIVED there.
    needs = variable(str, value="")

    #: The figures in its output by name.
    figures: Mapping[str, Figure] = {}

    #: Regular expressions: each must match a line of the output.
    required_lines = variable(typ.List[str], value=[])

    #: Regular expressions: none may match a line of the output.
    forbidden_lines = variable(typ.List[str], value=[])

    #: Whether a line with `failed`, `invalid` or `faulty`, except for `failed: 0`, is a FAIL despite exit status 0.
    failure_words = variable(bool, value=True)

    #: Further verifications by name; `wrong` states which failed.
    own_verifications: Sequence[str] = ()

    #: The command that prints its version, of which the first line is kept; empty: the output's first match of
    #: `version_pattern`.
    version_command = variable(str, value="")
    version_pattern = variable(str, value=r"[Vv]ersion:?\s+(\S+)")

    #: An image: the command is run in it by the partition's container platform (`containers:` of the system file).
    image = variable(str, value="")

    #: Number of runs of the command; every run contributes its samples.
    repetitions = variable(int, value=1)

    #: Increased when the meaning of the values changes.
    figures_version = 1

    ours = False
    captured, captures = _OUTPUT, False
    valid_prog_environs = ["+for_host"]
    subjects = ["host"]
    cores = 0

    @run_after("init")
    def declare_figures(self):
        if self.subjects not in (["host"], ["ranks"]):
            raise ReframeError(f"{self.name}: subjects is {self.subjects}; allowed: ['host'] or ['ranks']")
        for mistake in self.mistakes():
            raise ReframeError(f"{self.name}: {mistake}")
        try:
            catalogue.declare(self.declared(), f"check {self.name}")
            catalogue.remember(self.declared())
        except CatalogueError as error:
            raise ReframeError(str(error)) from None
        self.metrics = [name for name, figure in self.figures.items() if not figure.optional]

    def mistakes(self) -> Iterator[str]:
        """Errors of the class, before anything runs."""
        if not self.command.strip():
            yield "command is empty; allowed: a shell command"
        if not self.figures:
            yield "figures is empty; allowed: at least one Figure by name"
        for name, figure in self.figures.items():
            yield from figure.mistakes(name)
        for key in ("required_lines", "forbidden_lines"):
            for pattern in getattr(self, key):
                yield from _wrong_pattern(key, pattern)
        yield from _wrong_pattern("version_pattern", self.version_pattern)
        # a misspelt required_lines would verify nothing
        for name in self.own_names():
            meant = [] if hasattr(ForeignCheck, name) else difflib.get_close_matches(name, _ATTRIBUTES, 1, 0.85)
            if meant:
                yield f"unknown attribute '{name}'; did you mean '{meant[0]}'?"

    def own_names(self) -> list[str]:
        """The attributes that a site's classes set."""
        classes = type(self).__mro__
        return [name for one in classes[: classes.index(ForeignCheck)] for name in vars(one)]

    def declared(self) -> dict[str, Any]:
        """The equivalent of the program's metrics.yaml."""
        figures = {
            name: {
                "title": one.what, "unit": one.unit, "direction": one.direction, "statistic": one.statistic,
                "per": list(self.subjects), "limit": _NO_LIMIT, "plot": "bars", "sign": one.sign,
                "min_count": one.min_count, "max_spread": one.max_spread, "optional": one.optional,
            }
            for name, one in self.figures.items()
        }  # fmt: skip
        verified = [{"what": what, "of": list(figures), "tolerance": 0} for what in self.verifications()]
        return {
            "program": self.program, "title": self.descr or self.program, "section": "docs/foreign-programs.md",
            "version": self.figures_version, "identity": ["command"], "key": list(figures)[: catalogue.MOST_KEY],
            "metrics": figures, "verifications": verified,
            "libraries": [
                f"command {first_word(self.command)}",
                *filter(None, [self.needs, "containers" if self.image else ""]),
            ],
        }  # fmt: skip

    def verifications(self) -> list[str]:
        """The verifications, by name."""
        return [
            "exit status",
            *(f"a line of the output matches {pattern}" for pattern in self.required_lines),
            *(f"no line of the output matches {pattern}" for pattern in self.forbidden_lines),
            *(["no line of the output states failed, invalid or faulty"] if self.failure_words else []),
            *self.own_verifications,
        ]

    @run_after("setup")
    def expect_command(self):
        if self.repetitions < 1:
            raise ReframeError(f"{self.name}: repetitions is {self.repetitions}; allowed: 1 or above")
        if (named := self.command_named()) != self.command:
            self.command = named
            catalogue.declare(self.declared(), f"check {self.name}")
        self.gpus = 0  # its figures belong to the host or to ranks; `on_gpus` requests GPUs from the scheduler
        self.expected_parameters = {"command": without_folder(self.command), "repetitions": self.repetitions}
        self.platform = self.container() if self.image else None

    def container(self) -> ContainerPlatform:
        offered = self.machine.partition.containers
        if not offered:
            self.waive(
                f"library missing: partition {self.current_partition.name} has no `containers:` for {self.image}"
            )
        platform = ContainerPlatform.create(offered[0].platform)
        platform.image, platform.command = self.image, f"sh -c {shlex.quote(self.command)}"
        if self.on_gpus and hasattr(platform, "with_cuda"):
            platform.with_cuda = True
        platform.options = list(offered[0].options)
        self.modules = [*self.modules, *offered[0].modules]
        return platform

    @run_before("run")
    def place_on_whole_node(self):
        if self.machine.cores:
            self.num_cpus_per_task = max(1, self.machine.cores // (self.num_tasks_per_node or 1))
        if self.on_gpus and self.machine.gpu_resource:
            self.num_gpus_per_node = self.machine.gpus

    @run_before("run")
    def set_foreign_command(self):
        # a separate shell: its exports and its `exit` do not affect the script
        command = f"sh -c {shlex.quote(self.command)}"
        first, version = first_word(self.command), self.version_command or "true"
        if self.platform is not None:
            command = self.platform.launch_command(self.stagedir)
            first = first_word(command)
            self.platform.command = f"sh -c {shlex.quote(version)}"
            version = self.platform.launch_command(self.stagedir) if self.version_command else "true"
            prepare = self.platform.emit_prepare_commands(self.stagedir)
            if self.platform.name == "Docker":  # an image that is only on this node may be in no registry
                there = f"docker image inspect {shlex.quote(self.image)} > /dev/null 2>&1"
                prepare = [f"{there} || {pull}" for pull in prepare]
            self.prerun_cmds = [*self.prerun_cmds, *prepare]
        launch = self.ranks_by_function()
        how = f"{first} {shlex.quote(version)} {self.repetitions} {f'{launch} ' if self.uses_mpi else ''}{command}"
        if self.needs:
            self.prerun_cmds = [*self.prerun_cmds, f"tenken_needs={shlex.quote(self.needs)}"]
        self.executable, self.executable_opts = f"tenken_foreign {how}", []

    def parse(self, output: str) -> Mapping[str, Sequence[float] | float]:
        """Samples that no pattern can find, by name, each in its unit. A check may override this."""
        return {}

    def wrong(self, output: str) -> Mapping[str, str]:
        """Those of `own_verifications` that failed, each with a detail. A check may override this."""
        return {}

    def waived_because(self, output: str) -> str:
        """Why the machine cannot run it, derived from the output of a finished command; empty if it can. A check may
        override this with one of the reasons for a waiver (docs/verdicts.md).
        """
        return ""

    def command_named(self) -> str:
        """The command, once the machine is known. A check may override this."""
        return self.command

    def request(self):
        return replace(super().request(), declared=self.declared())

    def judgement(self):
        """From the output of the program."""
        status, _ = self.exit_status()
        missing = _MISSING.search(self.output_text())
        if missing is not None and status == 3:
            self.write_result(lambda _: self.waived_document(missing[1]))
        elif status == 0:
            self.write_result(lambda _: self.finished_document())
        return super().judgement()

    def finished_document(self) -> dict[str, Any]:
        why = self.waived_because(self.output())
        return {**self.document_of([], []), "status": "waived", "reason": why} if why else self.made()

    def output(self) -> str:
        """The output of the command, of all repetitions."""
        path = Path(self.stagedir, _OUTPUT)
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def made(self) -> dict[str, Any]:
        """The document of the output. Raises ForeignOutputError."""
        output = self.output()
        lines = output.splitlines()
        parsed = self.parse(output)
        unknown = sorted(set(parsed) - set(self.figures))
        if unknown:
            raise ForeignOutputError(f"parse returns {unknown[0]!r}; declared: {', '.join(self.figures)}")
        kind = {"host": 0} if self.subjects == ["host"] else {"ranks": self.num_tasks}
        metrics = []
        for name, figure in self.figures.items():
            if name in parsed:
                given = parsed[name]
                samples = [float(v) for v in (given if isinstance(given, Sequence) else [given])]
            elif figure.pattern and not (figure.optional and not re.search(figure.pattern, output, re.M)):
                samples = figure.samples(name, output)
            else:
                samples = []
            if not samples and figure.optional:
                continue
            if not samples:
                raise ForeignOutputError(f"metric {name}: no pattern is declared, and parse returns no value")
            metrics.append(metric(name, kind, figure.unit, figure.direction, samples, figure.statistic))
        held = [
            True,
            *(any(re.search(pattern, line) for line in lines) for pattern in self.required_lines),
            *(not any(re.search(pattern, line) for line in lines) for pattern in self.forbidden_lines),
        ]
        said = next((line.strip() for line in lines if _FAILURE.search(line)), "") if self.failure_words else ""
        held += [not said] if self.failure_words else []
        wrong = self.wrong(output)
        held += [not wrong.get(name) for name in self.own_verifications]
        checks = [
            {"what": what, "error": 0.0 if passed else 1.0, "tolerance": 0.0, "passed": passed}
            for what, passed in zip(self.verifications(), held, strict=True)
        ]
        for what, detail in {"no line of the output states failed, invalid or faulty": said, **wrong}.items():
            for check in checks:
                if check["what"] == what and detail:
                    check["detail"] = printable(detail[:200])
        return self.document_of(metrics, checks)

    def waived_document(self, first: str) -> dict[str, Any]:
        made = self.document_of([], [])
        what = f"{first} fails" if first == self.needs else f"no command {first}"
        return {**made, "status": "waived", "reason": f"library missing: {what} on the node"}

    def document_of(self, metrics: list[dict[str, Any]], checks: list[dict[str, Any]]) -> dict[str, Any]:
        nodes = self.nodes() or ["unknown"]
        node = self.told().commands[0].node if self.told().commands else nodes[0]
        made = document(
            self.program, self.program, self.version(), [self.command], node, nodes, self.num_tasks,
            self.expected_parameters, metrics, checks, _NO_LIMIT,
        )  # fmt: skip
        if self.image:
            made["path"]["image"] = self.image
        return made

    def version(self) -> str:
        """The version that the program reports."""
        if self.version_command:
            said = _VERSION.search(self.output_text())
        else:
            said = re.search(self.version_pattern, self.output())
        # tabs and other blanks that are not allowed in a document's version
        given = [group for group in said.groups() if group] if said and said.re.groups else [said[0]] if said else []
        words = printable(given[0] if given else "")
        return " ".join(words.split())[:200] or "unknown"


class NamedProgram(ForeignCheck):
    """A program of the field that a site has as a module, a folder or a container command.

    `usual_command` is its name on PATH. `-S named_command=...`, or the variable `named_by` of the environment or of
    the system file, names another: a path, a folder that contains it, or a command such as `apptainer exec --nv
    hpc-benchmarks.sif nvbandwidth`.
    """

    #: The command, or its folder; empty: that of the variable, else the usual one.
    named_command = variable(str, value="")

    usual_command = ""
    named_by = ""

    def program_named(self) -> str:
        of_system = self.machine.system.values(os.environ).get(self.named_by)
        named = self.named_command or of_system or os.environ.get(self.named_by, "") or self.usual_command
        folder = named.endswith(os.sep) or (os.sep in named and Path(named).is_dir())
        return str(Path(named, self.usual_command)) if folder else named

    def command_named(self) -> str:
        return f"{self.program_named()} {self.options()}".strip()

    def options(self) -> str:
        """What follows the command. A check may override this."""
        return ""


#: What a check declares about its program.
_ATTRIBUTES = (
    "program", "command", "needs", "figures", "required_lines", "forbidden_lines", "failure_words", "version_command",
    "version_pattern", "image", "repetitions", "figures_version", "subjects", "on_gpus",
    "uses_mpi", "modules", "env_vars", "time_limit", "tags", "num_tasks", "num_tasks_per_node",
)  # fmt: skip


def _wrong_pattern(what: str, pattern: str) -> Iterator[str]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield f"{what} {pattern!r} is not a regular expression: {error}"


_NO_LIMIT = "none: the program is not of this suite"


def first_word(command: str) -> str:
    """The program of the command, after assignments of variables; `sh` if only a shell can split it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = ["sh"]
    first = next((word for word in words if not re.match(r"\w+=", word)), "true")
    return shlex.quote(first if os.sep in first or re.fullmatch(r"[\w.+-]+", first) else "sh")


def without_folder(command: str) -> str:
    """The command in the form that identifies the series: a new release in another folder continues the series."""
    first = first_word(command)
    return command.replace(first, first.rpartition(os.sep)[2]) if os.sep in first else command
