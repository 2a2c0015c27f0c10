#!/bin/sh
# run.sh SYSTEM MODE [REFRAME OPTIONS]: what `make run` does, inside the activated virtual environment.
# The run is ReFrame's own command; the report beside it fails when nothing was run.
system=$1
mode=$2
shift 2
TENKEN_SESSION=${TENKEN_SESSION:-$(date -u +%Y%m%dT%H%M%SZ)-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')}
export TENKEN_SESSION
if [ "$system" = local ]; then
    home=$(sh scripts/nvcc.sh) || exit
    [ -z "$home" ] || export CUDA_HOME="$home"
fi
case $system in local | h200) . scripts/mpi.sh ;; esac
tenken systems describe "$system" || exit
# what does not apply here, and check files that do not import: the page lists both
tenken checks --system "$system" --mode "$mode" --save || exit
echo "+ reframe -c checks -r --system $system --mode $mode $*"
# past TENKEN_LIMIT reframe is ended: it cancels its jobs, and what ran is reported
${TENKEN_LIMIT:+timeout -k 5m "$TENKEN_LIMIT"} reframe -c checks -r --system "$system" --mode "$mode" "$@" &
child=$!
trap 'kill -TERM $child 2>/dev/null' TERM INT HUP
wait $child
ran=$?
while kill -0 $child 2>/dev/null; do
    wait $child
    ran=$?
done
tenken report --session "$TENKEN_SESSION" || exit
exit $ran
