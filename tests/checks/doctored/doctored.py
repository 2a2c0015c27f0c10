"""A check whose program hands out a document made by the test: how a spoiled run looks through the real ReFrame."""

from __future__ import annotations

import os
import shlex

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import fixture, run_before, sanity_function

from checks.base import RESULT_FILE, TenkenCheck


class NothingToBuild(rfm.CompileOnlyRegressionTest):
    build_system = "CustomBuild"
    sourcesdir = None

    @run_before("compile")
    def set_commands(self):
        self.build_system.commands = ["true"]

    @sanity_function
    def fine(self):
        return sn.assert_true(True)


@rfm.simple_test
class Doctored(TenkenCheck):
    """Copies $TENKEN_TEST_DOCUMENT (if set) to the result file and runs $TENKEN_TEST_COMMAND."""

    program = "daxpy"
    programs = fixture(NothingToBuild, scope="environment")
    cores = 2
    asked = {"repetitions": 100}
    time_limit = "1m"

    @run_before("run")
    def set_command(self):
        document = os.environ.get("TENKEN_TEST_DOCUMENT")
        copy = f"cp {shlex.quote(document)} {RESULT_FILE}; " if document else ""
        self.executable = "sh"
        self.executable_opts = ["-c", shlex.quote(copy + os.environ.get("TENKEN_TEST_COMMAND", "true"))]

    @run_before("run")
    def shorten(self):
        self.time_limit = os.environ.get("TENKEN_TEST_TIME_LIMIT", "1m")
