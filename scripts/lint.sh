#!/bin/sh
# lint.sh: ruff, mypy, codespell and clang-format over the whole tree.
set -e
ruff check .
ruff format --check .
mypy
codespell
find src tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | xargs -r clang-format --dry-run --Werror
