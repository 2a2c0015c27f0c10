#!/bin/sh
# test.sh [PYTEST OPTIONS]: linters first (they are quick), then all tests.
set -e
sh scripts/lint.sh
exec pytest -n 2 --dist loadgroup "$@"
