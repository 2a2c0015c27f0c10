#!/bin/sh
# debian.sh PACKAGE...: installs Debian packages that some tests need, if root may. Does nothing if all are installed;
# otherwise exits with 1 and prints the command for root.
missing=""
for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "needs root once, for: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
# two tests may install at once; other installations are not disturbed either
exec 9>"${TMPDIR:-/tmp}/tenken-debian.lock"
flock -n 9 || {
    echo "debian.sh: another installation of packages runs; waiting up to 10 min" >&2
    flock -w 600 9 || exit 1
}
# no service may start: the tests run separate daemons, and an existing policy is kept
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f $policy' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
install() { apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 $missing; }
install >/dev/null 2>&1 || { apt-get update -q >/dev/null && install; }
