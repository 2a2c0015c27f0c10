"""What every job script prints about itself: the nodes it runs on, its GPUs, and, at its very end, its exit status.

A scheduler may report exit code 0 for a job that it killed and name one node of two; only these lines are believed.
"""

from __future__ import annotations

import re

_NODES = re.compile(r"^TENKEN-NODES (\S+)$", re.M)
_END = re.compile(r"^TENKEN-END status=(\d+) nodes=\S*$", re.M)

# The pipe keeps each scheduler's own list: a host file names a node once for each of its slots.
_FIND_NODES = """tenken_nodes=$( { if [ -n "$SLURM_JOB_NODELIST" ]; then scontrol show hostnames "$SLURM_JOB_NODELIST";
  elif [ -n "$PBS_NODEFILE" ]; then cat "$PBS_NODEFILE"; elif [ -n "$PE_HOSTFILE" ]; then cut -d' ' -f1 "$PE_HOSTFILE";
  else hostname; fi; } | sort -u | paste -sd, -)"""
_FIND_GPUS = "command -v nvidia-smi >/dev/null && nvidia-smi -L | sed 's/^/TENKEN-GPU /' || true"


def begin(gpus: bool) -> list[str]:
    """Shell lines that tell on which nodes, and on which GPUs of the first one, the job runs."""
    return [*_FIND_NODES.splitlines(), 'echo "TENKEN-NODES $tenken_nodes"', *([_FIND_GPUS] if gpus else [])]


def end() -> list[str]:
    """Shell lines that tell the exit status in `tenken_status` and leave with it."""
    return ['echo "TENKEN-END status=$tenken_status nodes=$tenken_nodes"', "exit $tenken_status"]


def need_modules(modules: list[str]) -> list[str]:
    """Shell lines that end the job, by name of the module, where one was not loaded: `module load` of some versions
    returns 0 even then, and a job with another compiler would be measured."""
    if not modules:
        return []
    return [
        f"for tenken_module in {' '.join(modules)}; do",
        '  case ":$LOADEDMODULES:" in *":$tenken_module:"*|*":$tenken_module/"*) continue;; esac',
        '  echo "tenken: module $tenken_module is not loaded here; is it there: module avail $tenken_module" >&2',
        "  tenken_status=1",
        "done",
        f'if [ -n "$tenken_status" ]; then {"; ".join(end())}; fi',
    ]


def nodes(text: str) -> list[str]:
    """The nodes that a job's output names; empty when it does not."""
    found = _NODES.search(text)
    return found[1].split(",") if found else []


def end_status(text: str) -> int | None:
    """The exit status that a job printed at its end; None: it did not come to its end."""
    found = _END.search(text)
    return int(found[1]) if found else None
