"""The mode of a run, as a variable of every test."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable


class HasMode(rfm.RegressionTestPlugin):
    """`--mode NAME` sets it for all tests of a run, the build included."""

    #: quick, acceptance, nightly or published: sizes and repetitions.
    #:
    #: :default: ``'acceptance'``
    tenken_mode = variable(str, value="acceptance")

    def trials_asked(self) -> int:
        """Trials of a published series: ten in mode `published`, as the publications have it, one in the others."""
        return 10 if self.tenken_mode == "published" else 1
