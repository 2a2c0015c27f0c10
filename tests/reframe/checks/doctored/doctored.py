"""A check whose program writes a document prepared by the test: how a doctored run looks through the real ReFrame."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import fixture, parameter, run_before, sanity_function

from tenken.reframe.base import RESULT_FILE, TenkenCheck


class NothingToBuild(rfm.CompileOnlyRegressionTest):
    build_system = "CustomBuild"
    sourcesdir = None

    @run_before("compile")
    def set_commands(self):
        self.build_system.commands = ["true"]

    @sanity_function
    def fine(self):
        return sn.assert_true(True)


def cases() -> list[str]:
    """Names of the folders in $TENKEN_TEST_CASES: each may have a document.json, and has a file `command`."""
    folder = os.environ.get("TENKEN_TEST_CASES")
    return sorted(path.name for path in Path(folder).iterdir()) if folder else []


class HandsOut(TenkenCheck):
    """Copies a document (if there is one) to the result file and runs a command."""

    program = "daxpy"
    programs = fixture(NothingToBuild, scope="environment")
    cores = 2
    expected_parameters = {"repetitions": 100}
    time_limit = "1m"

    def case_of_test(self) -> tuple[str, str, str]:
        """Path of the document, the command, the time limit."""
        raise NotImplementedError

    def commands_behind(self) -> list[str]:
        """Commands of a site in the job after the check's command."""
        return []

    @run_before("run")
    def set_commands_behind(self):
        self.postrun_cmds = self.commands_behind()

    @run_before("run")
    def set_command(self):
        document, command, self.time_limit = self.case_of_test()
        # as a program repeats the token of its request, unless the document has its own
        insert = '/"token"/!s/{/{"token": "' + self.token + '", /'
        # written here and now, by the node named in the tests' documents
        here = "s/\"nid001\"/\"'$(uname -n)'\"/g; s/2026-11-20T01:02:0[39]Z/'$(date -u +%Y-%m-%dT%H:%M:%SZ)'/g"
        copy = f"sed '1{{{insert}}}; {here}' {shlex.quote(document)} > {RESULT_FILE}; " if document else ""
        self.executable = "sh"
        self.executable_opts = ["-c", shlex.quote(copy + command)]


@rfm.simple_test
class Doctored(HandsOut):
    """$TENKEN_TEST_DOCUMENT (if set), $TENKEN_TEST_COMMAND and $TENKEN_TEST_TIME_LIMIT."""

    def case_of_test(self) -> tuple[str, str, str]:
        document = os.environ.get("TENKEN_TEST_DOCUMENT", "")
        return document, os.environ.get("TENKEN_TEST_COMMAND", "true"), os.environ.get("TENKEN_TEST_TIME_LIMIT", "1m")


@rfm.simple_test
class DoctoredCases(HandsOut):
    """One run for each folder of $TENKEN_TEST_CASES, all in one session."""

    case = parameter(cases())

    def case_of_test(self) -> tuple[str, str, str]:
        folder = Path(os.environ["TENKEN_TEST_CASES"], self.case)
        document = folder / "document.json"
        return str(document) * document.exists(), (folder / "command").read_text(), (folder / "time_limit").read_text()

    def commands_behind(self) -> list[str]:
        behind = Path(os.environ["TENKEN_TEST_CASES"], self.case, "behind")
        return behind.read_text().splitlines() if behind.exists() else []


@rfm.simple_test
class Built(TenkenCheck):
    """A program that the tests have built, $TENKEN_TEST_PROGRAM, run like a check's own."""

    program = "daxpy"
    programs = fixture(NothingToBuild, scope="environment")
    arguments = {"elements": 1000000, "repetitions": 100, "warmup-seconds": 0.01}
    tags = {"quick"}
    cores = 2
    time_limit = "1m"

    @run_before("run")
    def set_command(self):
        super().set_command()
        self.executable = os.environ.get("TENKEN_TEST_PROGRAM", "false")
