"""What every test has, the build included: the mode of a run, and logging that costs little."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable
from reframe.core.meta import RegressionTestMeta


class HasMode(rfm.RegressionTestPlugin):
    """`--mode NAME` sets it for all tests of a run, the build included."""

    #: quick, acceptance, nightly or published: sizes and repetitions.
    #:
    #: :default: ``'acceptance'``
    tenken_mode = variable(str, value="acceptance")

    @classmethod
    def loggable_attrs(cls) -> list[tuple[str, str | None]]:
        """Attributes that ReFrame reads for every line that it logs, as (name, name in the log).

        Without `variables`: ReFrame deprecates it, and looks through the whole stack of calls whenever it is read,
        which costs tens of milliseconds a logged line and a second or more a check. `env_vars` has the same.
        """
        return [(name, other) for name, other in RegressionTestMeta.loggable_attrs(cls) if name != "variables"]

    def trials_asked(self) -> int:
        """Trials of a published series: ten in mode `published`, as the publications have it, one in the others."""
        return 10 if self.tenken_mode == "published" else 1
