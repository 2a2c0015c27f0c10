"""NVIDIA's dcgmi diag: each failed test of a GPU is a FAIL, with the vendor's error code."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable

from tenken.parsers import dcgm
from tenken.reframe.foreign import Figure, NamedProgram, first_word

#: Levels by mode: Level 1 takes seconds, 2 two minutes, 3 half an hour (`-S dcgm_level=3`).
LEVELS = {"quick": "1", "nightly": "2", "acceptance": "2", "published": "3"}


@rfm.simple_test
class DcgmDiag(NamedProgram):
    """The tests of one level on all GPUs. Skipped tests are counted separately; if all were skipped, the check is
    WAIVED.

    `named_command` or the variable TENKEN_DCGMI names the command or its folder; waived if it is not on the node.
    """

    descr = "dcgmi diag: the vendor's tests of the GPUs"
    program = "dcgm_diag"
    tags = {"gpu", "acceptance"}
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    on_gpus = True
    time_limit = "2h"
    command = usual_command = "dcgmi"
    named_by = "TENKEN_DCGMI"
    # statuses are read one by one, since a configuration may contain the same words in a name
    failure_words = False
    figures = {
        "passed": Figure("results that passed", "1", "higher", sign="zero"),
        "failed": Figure("results that failed", "1", "lower", sign="zero"),
        "warned": Figure("results with a warning", "1", "lower", sign="zero"),
        "skipped": Figure("results that were skipped", "1", "lower", sign="zero"),
    }
    own_verifications = ("no test of dcgmi diag failed",)
    version_command = "dcgmi --version"

    #: Level (-r): a number, or names of tests; empty: by mode.
    dcgm_level = variable(str, value="")

    def options(self):
        # its exit status also differs if a test failed; the JSON states which one did
        return f"diag -r {self.dcgm_level or LEVELS[self.size_mode]} -j || true"

    def parse(self, output):
        found = dcgm.parse(output)
        states = {"passed": "Pass", "failed": "Fail", "warned": "Warn", "skipped": "Skip"}
        return {name: float(len(found.of(state))) for name, state in states.items()}

    def wrong(self, output):
        failed = [test.told() for test in dcgm.parse(output).of("Fail")]
        return {"no test of dcgmi diag failed": "; ".join(failed)}

    def waived_because(self, output):
        tests = dcgm.parse(output).tests
        if all(test.state == "Skip" for test in tests):
            return f"library missing: command {first_word(self.command)} skipped all {len(tests)} tests"
        return ""
