#!/bin/sh
# site.sh FOLDER: build the documentation as a site. A page that no navigation reaches, a broken link and a docstring that
# cannot be read are errors. Needs no network, and neither does the site.
set -e
python -m sphinx -q -W --keep-going -E -b html -d "$1/.doctrees" -c docs . "$1"
rm -rf "$1/.doctrees"
echo "$1/index.html"
