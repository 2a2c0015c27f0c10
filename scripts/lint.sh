#!/bin/sh
# lint.sh: ruff, mypy, codespell and clang-format over the whole tree.
set -e
ruff check .
ruff format --check .
# pyproject.toml names Python 3.10; the types of the numpy that is locked from 3.12 on are written for that Python
mypy $(python -c 'import sys; v = sys.version_info; print(f"--python-version=3.{v.minor}" if v >= (3, 12) else "")')
codespell
find src tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | xargs -r clang-format --dry-run --Werror
