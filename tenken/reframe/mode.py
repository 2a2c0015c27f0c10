"""Settings common to every test, the build included: the mode of a run, and inexpensive logging."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import variable
from reframe.core.meta import RegressionTestMeta

from tenken.reframe.variables import Minutes


class HasMode(rfm.RegressionTestPlugin):
    """`--mode NAME` sets it for all tests of a run, the build included."""

    #: quick, acceptance, nightly, published or burn-in: sizes and repetitions.
    #:
    #: :default: ``'acceptance'``
    tenken_mode = variable(str, value="acceptance")

    #: Minutes that all checks of a run may take together, the build included; 0: those of the mode.
    #:
    #: :default: ``0``
    tenken_minutes = variable(Minutes, value=Minutes(0))

    @classmethod
    def loggable_attrs(cls) -> list[tuple[str, str | None]]:
        """Attributes that ReFrame reads for every line that it logs, as (name, name in the log).

        Without `variables`: ReFrame deprecates it and inspects the whole call stack whenever it is read. That costs
        tens of milliseconds per logged line and a second or more per check. `env_vars` has the same content.
        """
        return [(name, other) for name, other in RegressionTestMeta.loggable_attrs(cls) if name != "variables"]

    def trials_asked(self) -> int:
        """Trials of a published series: ten in mode `published`, as in the publications, otherwise one."""
        return 10 if self.tenken_mode == "published" else 1
