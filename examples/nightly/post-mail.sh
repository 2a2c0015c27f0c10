#!/bin/sh
# post-mail.sh PAGE LOG STATUS GATE_FOLDER GATE_STATUS: mails the gate's report of the night and the table of verdicts
# to $TENKEN_MAILTO, with the existing pages attached. Sends nothing if both succeeded.
set -eu
page=$1 log=$2 status=$3 gate=$4 gated=$5
if [ -z "${TENKEN_MAILTO:-}" ]; then
    echo "post-mail: TENKEN_MAILTO is not set: no mail is sent; set it to the address of whoever reads the nights" >&2
    exit 2
fi
command -v mail >/dev/null || {
    echo "post-mail: no command 'mail' on PATH: install a mailx (s-nail), or name another command in TENKEN_POST" >&2
    exit 2
}
[ "$status" = 0 ] && [ "$gated" = 0 ] && exit 0
case $gated in
0) said="nothing got worse" ;;
1) said="something got worse" ;;
*) said="the gate could not judge all (status $gated)" ;;
esac
[ -r "$log" ] || log=/dev/null
# the option that attaches a file: in GNU's mail -a is a header, and BSD's attaches none
case $(mail -V </dev/null 2>&1 || :) in
*Mailutils*) attach=-A ;;
*"-a header"*) attach= ;;
*) attach=-a ;;
esac
set --
for file in "$page" "$gate/nightly.html"; do
    [ ! -f "$file" ] || [ -z "$attach" ] || set -- "$@" "$attach" "$file"
done
# the last table of verdicts, with what is missing; for a night that ended earlier, the end of its log
table=$(awk '/^Verdict +Check /{ text = ""; on = 1 } on { text = text $0 "\n" } /^Page:/{ on = 0 } END { printf "%s", text }' "$log")
{
    if [ -f "$gate/summary.md" ]; then cat "$gate/summary.md"; elif [ -f "$gate.log" ]; then cat "$gate.log"; fi
    echo
    if [ -n "$table" ]; then printf '%s\n' "$table"; else tail -n 60 "$log"; fi
} | mail -s "Tenken: $said; the night ended with $status" "$@" "$TENKEN_MAILTO"
