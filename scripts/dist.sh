#!/bin/sh
# dist.sh FOLDER: the files of a release: sdist, the wheel that is built from it, and the SBOM of what a run installs.
set -e
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
uv build -q --out-dir "$1"
# a separate environment for packages that only this needs: see pyproject.toml
tools=.cache/release
[ -x $tools/bin/python ] || uv venv -q --python "$(command -v python)" $tools
uv pip sync -q --require-hashes --python $tools/bin/python requirements-release.lock
# suppresses its warning that a lock has no dependency graph
$tools/bin/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --mc-type application --spec-version 1.6 --output-reproducible \
    --output-format JSON --output-file "$1/tenken-$version.cdx.json" requirements.lock
ls "$1"/tenken-"$version"*
