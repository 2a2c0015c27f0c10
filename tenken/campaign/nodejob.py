"""The job of one node: ReFrame runs all checks there with its local scheduler; the results become one file.

All files of the run are on the node's own disk. On the shared file system a job creates one folder (which shows the
first job if the scheduler starts one twice) and writes one file, which gets its final name when it is complete.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from tenken.campaign import inventory
from tenken.campaign.file import Campaign
from tenken.campaign.journal import Unit
from tenken.model.job_exit import NO_STAGE
from tenken.paths import ROOT

#: Exit status of a job that was already started before.
SECOND_START = 75
META = "meta"


def tag(campaign: str, token: str = "") -> str:
    """The name of a job in the queue."""
    return f"tenken-campaign/{campaign}/{token}"


def session(begun: str, campaign: str, unit: Unit) -> str:
    """All nodes of a round are one session."""
    return f"{begun}-{campaign}-{unit.purpose}{unit.number}"


def pattern_of(check: str) -> str:
    """The pattern with which `reframe -n` selects this check alone: its name without spaces, since @ has a meaning
    there."""
    return f"^{re.escape(check.replace(' ', ''))}$".replace("@", ".")


def commands(
    campaign: Campaign, unit: Unit, token: str, spool: Path, built: Path, begun: str, delay: float, python: Path,
    archive_name: str = "archive", only: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Shell lines. `delay`: seconds until this node may begin; `python`: the folder of the interpreter and reframe;
    `only`: checks by their names in records, instead of all of the campaign."""
    q = shlex.quote
    names = [pattern_of(check) for check in only] or campaign.names
    reframe = ["reframe", *(word for path in campaign.paths for word in ("-c", path)), "-r", "--system",
               f"{campaign.system}:{campaign.partition}", *(w for n in names for w in ("-n", n)),
               *(["--mode", campaign.mode] if campaign.mode else []),
               *(w for name, value in campaign.variables.items() for w in ("-S", f"{name}={value}")),
               *(w for e in campaign.environments for w in ("-p", e))]  # fmt: skip
    if not campaign.in_phase:
        reframe += ["--exec-order", "random"]
    return [
        f"spool={q(str(spool))}; token={token}; node={q(unit.node)}",
        # creating the folder would fail as in a second start
        f'cd "$spool" || exit {NO_STAGE}',
        # if a job starts twice, the second one tests nothing
        f'mkdir "$spool/$token.claim" 2>/dev/null || exit {SECOND_START}',
        'here=$(mktemp -d "${TMPDIR:-/tmp}/tenken-$token.XXXXXX") || exit 74',
        "trap 'rm -rf \"$here\"' EXIT",
        "trap 'exit 143' TERM INT HUP",
        *([f"echo 'waits {delay:.0f} s: nodes do not begin at once'; sleep {delay:.3f}"] if delay > 0 else []),
        "begin=$(date +%s.%N)",
        f"export PATH={q(str(python))}:$PATH TENKEN_ROOT={q(str(ROOT))} PYTHONPATH={q(str(ROOT))}",
        f"export TENKEN_ON_NODE=$node TENKEN_BUILT={q(str(built))}",
        # when the job ends, all unfinished records of the node are lost: second attempts stop well before
        f"export TENKEN_UNTIL=$(( ${{begin%.*}} + {campaign.seconds:.0f} ))",
        f"export TENKEN_SESSION={q(session(begun, campaign.name, unit))}",
        f'export TENKEN_ARCHIVE="$here/{archive_name}" RFM_STAGE_DIR="$here/stage" RFM_OUTPUT_DIR="$here/output"',
        'export RFM_CONFIG_PATH=config RFM_COLORIZE=n PYTHONDONTWRITEBYTECODE=1 TENKEN_TERMINAL=brief',
        *(f"export {name}={q(value)}" for name, value in campaign.environment.items()),
        f"cd {q(str(ROOT))} || exit 74",
        # unreadable items are left out; even if nothing was readable, the measurement continues
        f'mkdir -p "$here/{archive_name}"',
        f'python -m tenken.campaign.inventory > "$here/{archive_name}/{inventory.FILE}" 2> /dev/null < /dev/null',
        f'{" ".join(map(q, reframe))} > "$here/reframe.txt" 2>&1 < /dev/null; status=$?',
        f'{{ echo "token=$token"; echo "node=$node"; echo "host=$(uname -n)"; echo "names=${{SLURM_JOB_NODELIST:-}}'
        '$( [ -z "$PBS_NODEFILE" ] || sort -u "$PBS_NODEFILE" | paste -sd, -)"; echo "status=$status";'
        f' echo "begin=$begin"; echo "end=$(date +%s.%N)"; }} > "$here/{META}"',
        f'cd "$here" && tar cf "$spool/.$token.part" {META} reframe.txt {archive_name} && '
        'mv "$spool/.$token.part" "$spool/$token.tar" || exit 74',
        'exit "$status"',
    ]  # fmt: skip
