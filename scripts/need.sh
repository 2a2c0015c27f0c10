#!/bin/sh
# need.sh PYTHON venv|build: checks for what a newcomer's machine must provide. Names the missing package.
python=$1
missing=""
need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing
  $1: install the package $2"
}
need git git
case $2 in
venv)
    if ! command -v "$python" >/dev/null 2>&1; then
        need "$python" "python3 (3.10 or newer)"
    elif ! "$python" -E -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        missing="$missing
  $python is $("$python" -V 2>&1); 3.10 or newer is needed: install one and say make PYTHON=python3.11"
    elif ! "$python" -E -c 'import ensurepip, venv' 2>/dev/null; then
        missing="$missing
  $python has no venv: install the package python3-venv"
    fi ;;
build)
    # as tenken/machines/local.py chooses
    command -v "${CXX:-g++}" >/dev/null 2>&1 || command -v clang++ >/dev/null 2>&1 || need g++ g++
    need flock util-linux
    # the virtual environment's tools will do
    [ -x .venv/bin/cmake ] || need cmake cmake
    [ -x .venv/bin/ninja ] || need make make ;;
esac
if [ -z "$missing" ]; then
    # a path that ReFrame cannot run from is refused before anything is created
    ! command -v "$python" >/dev/null 2>&1 || exec "$python" -I tenken/paths.py
    exit 0
fi
printf 'tenken: this machine lacks%s\n(on Debian and Ubuntu: apt-get install PACKAGE)\n' "$missing" >&2
exit 2
