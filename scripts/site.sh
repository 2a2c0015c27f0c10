#!/bin/sh
# site.sh FOLDER: build the documentation as a site. A page outside the navigation, a broken link or an unreadable
# docstring is an error. Needs no network, and neither does the site.
set -e
python -m sphinx -q -W --keep-going -E -b html -d "$1/.doctrees" -c docs . "$1"
rm -rf "$1/.doctrees"
echo "$1/index.html"
