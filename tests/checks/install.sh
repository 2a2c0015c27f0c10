#!/bin/sh
# install.sh: Debian's package hpcc, which a test runs for real. Does nothing where it is there already.
command -v hpcc >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "the test on hpcc needs root once, for: apt-get install --no-install-recommends hpcc" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends hpcc >/dev/null 2>&1 || {
    apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends hpcc
}
