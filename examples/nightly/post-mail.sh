#!/bin/sh
# post-mail.sh PAGE LOG STATUS GATE_FOLDER GATE_STATUS: mail what the gate says of the night and the table of verdicts to
# $TENKEN_MAILTO, with both pages attached. Quiet when both went well.
set -eu
[ "$3" = 0 ] && [ "$5" = 0 ] && exit 0
case $5 in
0) said="nothing got worse" ;;
1) said="something got worse" ;;
*) said="the gate could not judge all (status $5)" ;;
esac
{
    [ -f "$4/summary.md" ] && cat "$4/summary.md"
    [ "$3" = 0 ] || sed -n '/^Tenken/,$p;/Page:/q' "$2" | tail -n 60
} | mail -s "Tenken: $said; the night ended with $3" -a "$1" -a "$4/nightly.html" "$TENKEN_MAILTO"
