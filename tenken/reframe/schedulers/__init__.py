"""Back ends for the schedulers of real sites; importing this registers them with ReFrame.

`NAMES` maps what a system file says in `scheduler:` to the name of the back end in ReFrame, where some names are
taken by back ends that end a whole session over one odd answer.
"""

from __future__ import annotations

from tenken.reframe.schedulers import gridengine, nqsv, pbs, remote, slurm, unavailable

NAMES = {
    "slurm": slurm.NAME,
    "pbs": pbs.NAME,
    "nqsv": nqsv.NAME,
    "gridengine": gridengine.NAME,
}
UNAVAILABLE = unavailable.NAME
REMOTE = remote.NAME
