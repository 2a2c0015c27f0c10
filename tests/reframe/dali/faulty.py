"""DALI reading samples, one with a wrong bit, and one in place of another."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.dali import DataLoadingDaliCpu


class Faulty(DataLoadingDaliCpu):
    kind = parameter(["speech"])
    fault = "none"

    @run_after("setup")
    def expect_command(self):
        super().expect_command()
        self.command += f" --inject-fault {self.fault}"
        self.expected_parameters["command"] = self.command


@rfm.simple_test
class AWrongBit(Faulty):
    program = "dali_wrong_bit"
    fault = "element"


@rfm.simple_test
class ASampleTwice(Faulty):
    program = "dali_sample_twice"
    fault = "sample-twice"
