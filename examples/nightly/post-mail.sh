#!/bin/sh
# post-mail.sh PAGE LOG STATUS: mail the table of verdicts to $TENKEN_MAILTO, with the page attached. Quiet on success.
set -eu
[ "$3" = 0 ] && exit 0
sed -n '/^Tenken/,$p;/Page:/q' "$2" | tail -n 60 | mail -s "Tenken: the night ended with $3" -a "$1" "$TENKEN_MAILTO"
