#!/bin/sh
# source.sh: writes tenken.tar next to this file: the committed files, and their commit (REVISION).
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
cd "$folder/../.."
revision=$(git describe --always --dirty)
case $revision in *-dirty) echo "source.sh: what is not committed is left out" >&2 ;; esac
echo "${revision%-dirty}" > "$folder/REVISION"
git archive --format=tar --add-file="$folder/REVISION" -o "$folder/tenken.tar.half" HEAD
rm "$folder/REVISION"
mv "$folder/tenken.tar.half" "$folder/tenken.tar"
echo "$folder/tenken.tar: $revision"
