"""Third-party programs with different faults, and one without."""

import reframe as rfm

from tenken.reframe.foreign import Figure, ForeignCheck

PRINTS = "printf 'tool version 1.2\\nrate: 2048 MiB/s\\nrate: 3 GB/s\\nall is well\\n'"


class Tool(ForeignCheck):
    program = "tool"
    command = PRINTS
    figures = {"rate": Figure("rate", "GB/s", "higher", r"^rate: (?P<value>\S+) (?P<unit>\S+)")}
    required_lines = [r"^all is well$"]
    forbidden_lines = [r"^error"]


@rfm.simple_test
class Good(Tool):
    pass


@rfm.simple_test
class ExitsWith2(Tool):
    command = PRINTS + "; exit 2"


@rfm.simple_test
class LacksALine(Tool):
    required_lines = [r"^all is very well$"]


@rfm.simple_test
class HasAForbiddenLine(Tool):
    command = PRINTS + "; echo error: of a kind"


@rfm.simple_test
class GivesNoFigure(Tool):
    command = PRINTS + " | grep -v rate"


@rfm.simple_test
class GivesAnotherUnit(Tool):
    command = PRINTS + " | sed s,MiB/s,MiB,"


@rfm.simple_test
class IsNotThere(Tool):
    command = "tool-that-nobody-has --fast"


@rfm.simple_test
class LacksAPart(Tool):
    program, needs = "parts", "test -e /a/part"


@rfm.simple_test
class ParsesItself(Tool):
    """A parser function in place of a pattern."""

    program = "tool_parsed"
    figures = {"share": Figure("share of the second", "%", "higher")}

    def parse(self, output):
        first, second = (float(line.split()[1]) for line in output.splitlines() if line.startswith("rate"))
        return {"share": [100 * first / second]}


@rfm.simple_test
class RunsThreeTimes(Tool):
    program = "tool_repeated"
    repetitions = 3
    figures = {"rate": Figure("rate", "MB/s", "higher", r"^rate: (\S+) GB/s", printed="GB/s", statistic="mean")}
