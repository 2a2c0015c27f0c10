"""Back ends for the schedulers of real sites; importing this registers them with ReFrame.

`NAMES` maps `scheduler:` of a system file to the name of the back end in ReFrame, since some of ReFrame's own end a
whole session on one unexpected answer.
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
