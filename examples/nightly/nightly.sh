#!/bin/sh
# nightly.sh SYSTEM [REFRAME OPTIONS]: one night on a machine: run, report, post. For cron, scrontab and systemd.
#
#   TENKEN_LIMIT   the hard limit of a night (default 6h); then jobs are cancelled, and the page shows what there is
#   TENKEN_POST    a command that is given the page, the log and the exit status (see post-mail.sh)
#   TENKEN_MODE    default nightly
#
# Two nights never overlap: the second ends with 75 and leaves the first alone. Exit status otherwise: the run's, or
# the report's where that is worse.
set -u
system=${1:?"usage: nightly.sh SYSTEM [REFRAME OPTIONS]"}
shift
cd "$(dirname "$0")/../.." || exit
. .venv/bin/activate || exit

# Inside a job (scrontab) what Slurm told this job must not reach the ones that it submits.
for name in $(env | sed -n 's/^\(SLURM_[A-Z0-9_]*\)=.*/\1/p'); do
    [ "$name" = SLURM_CONF ] || unset "$name"
done

mkdir -p output/nightly
lock=output/nightly/$system.lock
exec 9>>"$lock"
if ! flock -n 9; then
    echo "nightly: the last night of $system still runs ($(cat "$lock")); this one is left out" >&2
    exit 75
fi
: >"$lock"
echo "process $$ on $(hostname) since $(date -u +%FT%TZ)" >&9

TENKEN_SESSION=$(date -u +%Y%m%dT%H%M%SZ)-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
TENKEN_LIMIT=${TENKEN_LIMIT:-6h}
export TENKEN_SESSION TENKEN_LIMIT
log=output/nightly/$TENKEN_SESSION.log
sh scripts/run.sh "$system" "${TENKEN_MODE:-nightly}" "$@" >"$log" 2>&1
status=$?
[ $status = 0 ] || tail -n 40 "$log"
if [ -n "${TENKEN_POST:-}" ]; then
    $TENKEN_POST "output/pages/$TENKEN_SESSION.html" "$log" "$status" || echo "nightly: $TENKEN_POST failed with $?" >&2
fi
exit $status
