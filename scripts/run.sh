#!/bin/sh
# run.sh SYSTEM MODE [REFRAME OPTIONS]: what `make run` does, inside the activated virtual environment. The run is
# ReFrame's own command; the report fails if nothing was run. V=1 prints all output of ReFrame, which otherwise goes
# only to output/reframe.log, with one line per check here.
system=$1
mode=$2
shift 2
TENKEN_SESSION=${TENKEN_SESSION:-$(date -u +%Y%m%dT%H%M%SZ)-$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')}
export TENKEN_SESSION
if [ -z "$V" ] || [ "$V" = 0 ]; then
    export TENKEN_TERMINAL=brief
fi

# `make: *** Error 3` explains nothing: the meaning of the status is printed before it
leave() {
    case $1 in
    0) ;;
    1) echo "tenken: exit status 1: at least one check is FAIL" >&2 ;;
    2) echo "tenken: exit status 2: the run could not begin" >&2 ;;
    3) echo "tenken: exit status 3: no check is FAIL, but something is INVALID (run it again) or missing, or nothing ran" >&2 ;;
    *) echo "tenken: exit status $1, that of the last command" >&2 ;;
    esac
    exit "$1"
}

. scripts/tmpdir.sh
if [ "$system" = local ]; then
    home=$(sh scripts/nvcc.sh) || leave 2
    [ -z "$home" ] || export CUDA_HOME="$home"
fi
case $system in local | h200) . scripts/mpi.sh ;; esac
[ -n "$TENKEN_TERMINAL" ] || tenken systems describe "$system" || leave 2
# description of the machine, checks that do not apply, and check files that do not import: the page shows all three
tenken checks --system "$system" --mode "$mode" --save || leave 2
echo "+ reframe -c checks -r --system $system --mode $mode $*"
# after TENKEN_LIMIT reframe is ended: it cancels its jobs, and what ran is reported
${TENKEN_LIMIT:+timeout -k 5m "$TENKEN_LIMIT"} reframe -c checks -r --system "$system" --mode "$mode" "$@" &
child=$!
stopped=
trap 'stopped=1; kill -TERM $child 2>/dev/null' TERM INT HUP
wait $child
ran=$?
while kill -0 $child 2>/dev/null; do
    wait $child
    ran=$?
done
[ -z "$stopped" ] || echo "tenken: stopped; the page has what there is" >&2
tenken report --session "$TENKEN_SESSION" || leave $?
leave $ran
