"""stress-ng: the rate of one of its stressors, verified by itself. Debian: apt-get install stress-ng."""

import reframe as rfm

from tenken.reframe.foreign import Figure, ForeignCheck


@rfm.simple_test
class StressMatrix(ForeignCheck):
    """Products of matrices on all cores."""

    descr = "stress-ng: products of matrices on all cores"
    program = "stress_matrix"
    command = "stress-ng --matrix 0 --matrix-method prod --timeout 1 --verify --metrics"
    repetitions = 3
    figures = {
        "rate": Figure("bogus operations", "op/s", "higher", r"\] matrix +(?:[\d.]+ +){4}([\d.]+)"),
    }
    required_lines = [r"\] successful run completed"]
    forbidden_lines = [r"stress-ng: (fail|error):"]
    version_command = "stress-ng --version"
    tags = {"cpu", "quick", "acceptance", "nightly"}
