#!/bin/sh
# install.sh: Debian's Chromium, in which the tests look at the pages. Does nothing where there is one already.
command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "the browser test needs root once, for: apt-get install --no-install-recommends chromium fonts-dejavu-core" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
install="apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core"
$install >/dev/null 2>&1 || {
    apt-get update -q >/dev/null && $install
}
