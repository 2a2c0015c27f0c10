#!/bin/sh
# lock.sh: resolve the dependencies of pyproject.toml for Python 3.10 and newer, on any platform, with hashes.
set -e
lock() { uv pip compile -q --no-header --no-annotate --universal --python-version 3.10 --generate-hashes "$@"; }
lock pyproject.toml --extra reports --extra build -o requirements.lock
lock pyproject.toml --all-extras -c requirements.lock -o requirements-dev.lock
lock --group pyproject.toml:release -o requirements-release.lock
sh toolchains/lock.sh
