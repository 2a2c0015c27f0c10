#!/bin/sh
# nightly.sh SYSTEM [REFRAME OPTIONS]: one night on a machine: run, report, gate, post. For cron, scrontab and systemd.
#
#   TENKEN_LIMIT   maximum time of a night (default 6h); then jobs are cancelled, and the page shows what is complete
#   TENKEN_POST    a command that receives the page, log and exit status of the night, then the folder and exit
#                  status of the gate (see post-mail.sh)
#   TENKEN_MODE    default nightly
#   TENKEN_NODES   nodes of each partition that a night measures (default 1); the next night takes others
#
# Two nights never overlap: the second ends with 75 and leaves the first alone. On a full disk a night ends with 74
# before anything is started. Exit status otherwise: the worse of the run's and the report's; if both are 0, the gate's
# (1 something got worse, 3 incomplete).
set -u
system=${1:?"usage: nightly.sh SYSTEM [REFRAME OPTIONS]"}
shift
cd "$(dirname "$0")/../.." || exit
. .venv/bin/activate || exit

# Inside a job (scrontab), Slurm's variables of this job must not reach the jobs that it submits.
for name in $(env | sed -n 's/^\(SLURM_[A-Z0-9_]*\)=.*/\1/p'); do
    [ "$name" = SLURM_CONF ] || unset "$name"
done

mkdir -p output/nightly output/gate
lock=output/nightly/$system.lock
exec 9>>"$lock"
if ! flock -n 9; then
    holder=$(sed -n 's/^process \([0-9]*\) on .*/\1/p' "$lock")
    here=$(hostname)
    if grep -q " on $here since" "$lock" && ! kill -0 "$holder" 2>/dev/null; then
        # if the script was killed, ReFrame continues and holds the lock until it ends
        echo "nightly: process $holder of the last night of $system is gone, but the ReFrame that it started still" \
            "runs; this one is left out (pgrep -af reframe; tenken jobs)" >&2
    else
        echo "nightly: the last night of $system still runs ($(cat "$lock")); this one is left out" >&2
    fi
    exit 75
fi
: >"$lock"
# if the log cannot be written, nobody would see the findings
{ echo "process $$ on $(hostname) since $(date -u +%FT%TZ)" >&9; } 2>/dev/null || {
    free=$(df -Pk output | awk 'END { print $4 }')
    echo "nightly: $PWD/$lock cannot be written: is its disk full ($free KiB are free)? Nothing was started" >&2
    exit 74
}

TENKEN_SESSION=$(date -u +%Y%m%dT%H%M%SZ)-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
TENKEN_LIMIT=${TENKEN_LIMIT:-6h}
# nobody watches: the log has everything, with the table of verdicts that is mailed, and no colours
V=1
RFM_COLORIZE=n
export TENKEN_SESSION TENKEN_LIMIT V RFM_COLORIZE
log=output/nightly/$TENKEN_SESSION.log
# jobs left in the queue by a killed night would disturb this one
tenken jobs --cancel >"$log" 2>&1
# nodes for the checks that could run on any node
TENKEN_TONIGHT=$(tenken systems tonight "$system" --nodes "${TENKEN_NODES:-1}" --kept "output/nightly/$system.nodes" 2>>"$log")
export TENKEN_TONIGHT
sh scripts/run.sh "$system" "${TENKEN_MODE:-nightly}" "$@" >>"$log" 2>&1 &
child=$!
# ReFrame cancels its jobs, what ran is reported, and this script ends with it
trap 'kill -TERM $child 2>/dev/null' TERM INT HUP
wait $child
status=$?
while kill -0 $child 2>/dev/null; do
    wait $child
    status=$?
done
# regressions since the previous nights, also after a failed night: the archive has what was measured
gate=output/gate/$system
tenken gate --system "$system" --output "$gate" >"$gate.log" 2>&1
gated=$?
[ $status = 0 ] || tail -n 40 "$log"
cat "$gate.log" >>"$log"
[ $status$gated = 00 ] || cat "$gate.log"
if [ -n "${TENKEN_POST:-}" ]; then
    timeout -k 1m 10m $TENKEN_POST "output/pages/$TENKEN_SESSION.html" "$log" "$status" "$gate" "$gated" 9>&- || echo "nightly: $TENKEN_POST failed with $? (124: not done within 10 min)" >&2
fi
[ $status = 0 ] || exit $status
exit $gated
