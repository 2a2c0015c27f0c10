"""Locks and load for third-party programs: shell lines of a job script, and the parsing of their output.

Programs of this suite hold their locks themselves (src/lib/base/machine_locks.cpp). The script uses the same protocol
with flock(1): a file for the host and one for each GPU, in a folder that all users may write to. The owner writes `PID
PROGRAM TOKEN` into it; processes with the same token share it, all others wait, then give up. The script prints

    TENKEN-LOCK held=NAME waited=S      one line per lock: host, or the UUID of a GPU
    TENKEN-LOCK shared NAME: PID PROGRAM TOKEN     another measurement held it during the whole waiting time
    TENKEN-LOCK none WHY                no lock is possible here

and records the host's activity before and after the command in its stage folder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.reframe import joblines

#: In the stage folder: the shell functions, and the host's load before and after.
FUNCTIONS_FILE = "tenken-locks.sh"
LOAD_FILES = ("tenken-load.begin", "tenken-load.end")
#: At most this many processes of others are named, and only those with at least this CPU time in seconds.
_MOST_NAMED, _LEAST = 3, 0.01

FUNCTIONS = r"""# numbers with a decimal point, messages in English, whatever the site's default is
LC_ALL=C
export LC_ALL
# tenken_hold NAME FD: hold the lock of NAME by descriptor FD until this shell and all it starts ended
tenken_lock_folder() {
  for tenken_locks in ${TENKEN_LOCKS:-/dev/shm/tenken-locks /tmp/tenken-locks}; do
    mkdir "$tenken_locks" 2> /dev/null && chmod 1777 "$tenken_locks"
    [ -d "$tenken_locks" ] && [ -w "$tenken_locks" ] && [ -x "$tenken_locks" ] && return
  done
  return 1
}
tenken_holder() { tr '\n' ' ' < "$tenken_file" | sed 's/ *$//'; }
tenken_is_mine() {
  tenken_by=$(tenken_holder)
  tenken_rest=${tenken_by#* }
  [ "${tenken_rest#* }" = "$tenken_token" ]
}
tenken_hold() {
  if ! command -v flock > /dev/null; then echo "TENKEN-LOCK none flock is not installed"; return; fi
  if ! tenken_lock_folder; then echo "TENKEN-LOCK none no folder can be written: $tenken_locks"; return; fi
  tenken_name=$1
  [ "$1" != host ] || { read -r tenken_boot < /proc/sys/kernel/random/boot_id; tenken_name=host-${tenken_boot:-this}; }
  tenken_file=$tenken_locks/$tenken_name
  [ -e "$tenken_file" ] || (umask 0; set -C; : > "$tenken_file") 2> /dev/null
  [ -r "$tenken_file" ] || { echo "TENKEN-LOCK none $tenken_file cannot be read"; return; }
  eval "exec $2< \"\$tenken_file\""
  tenken_begin=$(date +%s)
  while :; do
    if flock -x -n "$2"; then
      # without O_CREAT: in a sticky folder the kernel refuses that for files of other users
      printf '%s %s %s' "$$" "$tenken_program" "$tenken_token" | dd "of=$tenken_file" conv=nocreat 2> /dev/null ||
        { echo "TENKEN-LOCK none $tenken_file cannot be written"; return; }
    elif [ $? -gt 1 ]; then echo "TENKEN-LOCK none $tenken_file: its file system has no locks"; return
    fi
    if tenken_is_mine && flock -s -n "$2"; then
      ! tenken_is_mine || break
      flock -u "$2"
    fi
    tenken_waited=$(($(date +%s) - tenken_begin))
    if [ "$tenken_waited" -gt "${TENKEN_LOCK_SECONDS:-60}" ]; then
      echo "TENKEN-LOCK shared $1: $(tenken_holder)"
      return 1
    fi
    sleep 0.1
  done
  echo "TENKEN-LOCK held=$1 waited=$(($(date +%s) - tenken_begin))"
}
tenken_hold_gpus() {
  tenken_fd=20
  for tenken_uuid in $(nvidia-smi -L 2> /dev/null | sed -n 's/.*(UUID: \([A-Za-z0-9-]*\)).*/\1/p'); do
    tenken_hold "$tenken_uuid" "$tenken_fd" || return
    tenken_fd=$((tenken_fd + 1))
  done
  nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader 2> /dev/null |
    sed -n 's/^\(GPU-[^,]*\), *\([0-9]*\)$/TENKEN-LOCK shared \1: \2 process/p'
}
tenken_hold_machine() {
  if ! tenken_hold host 9 || { [ "$1" = gpus ] && ! tenken_hold_gpus; }; then
    tenken_status=1
    {end}
  fi
  tenken_load tenken-load.begin
  trap 'tenken_load tenken-load.end' EXIT
}
tenken_hold_rank() {
  tenken_hold host 9 > /dev/null || { echo "TENKEN-LOCK shared host: $(tenken_holder)"; exit 1; }
}
# tenken_each KIND FOLDER BINARY...: find each binary below FOLDER, announce it and pass it to tenken_run, once for each
# part of tenken_parts_BINARY (separated by |, in tenken_part)
tenken_each() {
  tenken_kind=$1 tenken_folder=$2
  shift 2
  for tenken_binary; do
    tenken_path=$(find "$tenken_folder" -name "$tenken_binary" -type f 2> /dev/null | head -n 1)
    [ -n "$tenken_path" ] || { echo "TENKEN-$tenken_kind-MISSING $tenken_binary"; return 3; }
    echo "TENKEN-$tenken_kind $tenken_binary"
    eval "tenken_rest=\"\${tenken_parts_$tenken_binary-}|\""
    while [ -n "$tenken_rest" ]; do
      tenken_part=${tenken_rest%%|*} tenken_rest=${tenken_rest#*|}
      tenken_run "$tenken_path"
      case $? in
        0) [ -z "$tenken_rest" ] || echo "TENKEN-$tenken_kind-PART";;
        124) echo "TENKEN-$tenken_kind-LATE $tenken_binary"; return 1;;
        *) return 1;;
      esac
    done
  done
}
# tenken_foreign PROGRAM VERSION RUNS COMMAND...: run a command so often, and keep what it and the words VERSION print
tenken_foreign() {
  command -v "$1" > /dev/null || { echo "TENKEN-FOREIGN-MISSING $1"; return 3; }
  eval "$tenken_needs" > /dev/null 2>&1 || { echo "TENKEN-FOREIGN-MISSING $tenken_needs"; return 3; }
  echo "TENKEN-FOREIGN-VERSION $(eval "$2" 2>&1 | head -n 1)"
  tenken_runs=$3
  shift 3
  : > tenken-foreign.out
  for tenken_run in $(seq "$tenken_runs"); do
    "$@" >> tenken-foreign.out 2>&1 || { tenken_runs=$?; cat tenken-foreign.out; return "$tenken_runs"; }
  done
  cat tenken-foreign.out
}
# tenken_xhpcg COMMAND SIZES SECONDS: write the input of HPCG, pass on to tenken_run, print its report
tenken_xhpcg() {
  [ -n "$1" ] || { echo TENKEN-XHPCG-MISSING; return 3; }
  printf 'HPCG benchmark input file\nwritten by tenken\n%s\n%s\n' "$2" "$3" > hpcg.dat
  tenken_run
  tenken_xhpcg_status=$?
  # 3.1 writes a text, 3.0 and Intel's a YAML of any name, Intel's 3.1 n104-8p-1t_V3.1_DATE.txt; NVIDIA's prints it
  for tenken_report in *HPCG*.txt n[0-9]*_V[0-9]*.txt *.yaml; do
    [ ! -f "$tenken_report" ] || { echo TENKEN-XHPCG-REPORT; cat "$tenken_report"; }
  done
  return $tenken_xhpcg_status
}
tenken_load() {
  { echo "tenken $$ $(getconf CLK_TCK) $(date +%s.%N) $(cat /proc/loadavg)"; head -n 1 /proc/stat; cat /proc/[0-9]*/stat
  } > "$1" 2> /dev/null
}
"""


# -- output of a script --


def functions(program: str, token: str) -> str:
    """The content of FUNCTIONS_FILE, which every rank reads, wherever it runs."""
    ended = FUNCTIONS.replace("{end}", "; ".join(joblines.end()))
    return f"tenken_program={shlex.quote(program)} tenken_token={shlex.quote(token)}\n{ended}"


def hold(gpus: bool) -> list[str]:
    """Shell lines that lock the host and the GPUs of the first node, or end the job. The load is recorded then, and
    again when the script ends.
    """
    return [f". ./{FUNCTIONS_FILE}; tenken_hold_machine {'gpus' if gpus else 'host'}"]


def each_binary(kind: str, folder: str, variable: str, binaries: Sequence[str]) -> str:
    """The command that runs each of a site's binaries through the shell function `tenken_run`, announced as
    `TENKEN-KIND NAME`.

    Without a given folder, the job uses the one named by the variable, which the system file or a module sets.
    """
    named = shlex.quote(folder) if folder else f'"${{{variable}:-none}}"'
    return f"tenken_each {kind} {named} {' '.join(binaries)}"


def around_rank() -> str:
    """Shell words of a rank that lock the host for it: ranks of one token share the lock."""
    return f". ./{FUNCTIONS_FILE}; tenken_hold_rank; "


# -- reading the output --

_HELD = re.compile(r"^TENKEN-LOCK held=(\S+) waited=(\d+)$", re.M)
_SHARED = re.compile(r"^TENKEN-LOCK shared (\S+): (\d*) ?(\S*).*$", re.M)
_NONE = re.compile(r"^TENKEN-LOCK none (.+)$", re.M)


def told(output: str) -> dict[str, Any] | None:
    """The `locks` of a result document from a job's output; None if it contains none."""
    held, shared, none = _HELD.findall(output), _SHARED.search(output), _NONE.search(output)
    if not (held or shared or none):
        return None
    with_whom = None
    if shared:
        what = "host" if shared[1] == "host" else f"GPU {shared[1]}"
        by = f"pid {shared[2] or 'unknown'}" + (f" ({shared[3]})" if shared[3] else "")
        with_whom = f"{what} shared with {by}"
    return {
        "held": list(dict.fromkeys(name for name, _ in held)),
        "waited_seconds": float(max((int(seconds) for _, seconds in held), default=0)),
        "shared_with": with_whom,
        "none_because": none[1][:300] if none else None,
    }


@dataclass(frozen=True)
class _Process:
    parent: int
    name: str
    own: float
    children: float


@dataclass(frozen=True)
class _Reading:
    pid: int
    time: float
    average: float | None
    busy: float
    steal: float
    processes: Mapping[int, _Process] = field(default_factory=dict)


def load(folder: Path) -> dict[str, Any] | None:
    """The `load` of a result document from what the script recorded; None if it cannot be read."""
    try:
        begin, end = (_reading((folder / name).read_text(encoding="utf-8", errors="replace")) for name in LOAD_FILES)
    except (OSError, ValueError, IndexError):
        return None
    above = set(_ancestors(end, end.pid)) - {end.pid}
    own, others = 0.0, []
    for pid, process in end.processes.items():
        before = begin.processes.get(pid)
        if before is not None and before.name != process.name:
            before = None
        used = max(0.0, process.own - (before.own if before else 0.0))
        if end.pid in _ancestors(end, pid):
            own += used + max(0.0, process.children - (before.children if before else 0.0))
        elif pid not in above and used >= _LEAST:
            others.append({"pid": pid, "name": process.name, "cpu_seconds": used})
    others.sort(key=lambda one: -float(str(one["cpu_seconds"])))
    return {
        "seconds": max(0.0, end.time - begin.time),
        "load_average_before": begin.average,
        "load_average_after": end.average,
        "own_cpu_seconds": own,
        "others_cpu_seconds": max(0.0, end.busy - begin.busy - own),
        "steal_cpu_seconds": max(0.0, end.steal - begin.steal),
        "others": others[:_MOST_NAMED],
    }


def _ancestors(reading: _Reading, pid: int) -> list[int]:
    found: list[int] = []
    while pid > 0 and pid not in found:
        found.append(pid)
        pid = reading.processes[pid].parent if pid in reading.processes else 0
    return found


def _reading(text: str) -> _Reading:
    """Raises ValueError or IndexError if the file is not of this form."""
    first, stat, *lines = text.splitlines()
    word, pid, ticks, time, *averages = first.split()
    numbers = [float(number) / float(ticks) for number in stat.split()[1:9]]
    if word != "tenken":
        raise ValueError(f"begins with {word!r}")
    processes = {}
    for line in lines:
        parsed = re.fullmatch(r"(\d+) \((.*)\) \S (\d+) (?:\S+ ){9}(\d+) (\d+) (-?\d+) (-?\d+) .*", line)
        if parsed:
            user, system, children_user, children_system = (int(parsed[at]) / float(ticks) for at in (4, 5, 6, 7))
            processes[int(parsed[1])] = _Process(
                int(parsed[3]), parsed[2], user + system, max(0.0, children_user + children_system)
            )
    busy = sum(value for at, value in enumerate(numbers) if at not in (3, 4, 7))
    average = float(averages[0]) if averages else None
    return _Reading(int(pid), float(time), average, busy, numbers[7] if len(numbers) > 7 else 0.0, processes)
