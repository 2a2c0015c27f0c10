#!/bin/sh
# bare-root.sh ROOT [CUDA]: runs the recipes in a bare Debian below ROOT made by mmdebstrap, as root and without a
# container engine: the base of FROM, the archive, build.sh, and a program. For tests of the recipes.
set -eu
root=$1
cuda=${2:-none}
folder=$(cd "$(dirname "$0")" && pwd)
command -v mmdebstrap >/dev/null || { echo "bare-root.sh: mmdebstrap: install the package mmdebstrap" >&2; exit 2; }
[ -f "$folder/tenken.tar" ] || { echo "bare-root.sh: no $folder/tenken.tar: make image-source" >&2; exit 2; }
[ ! -e "$root" ] || { echo "bare-root.sh: $root is there already" >&2; exit 2; }
release=$(sed -n 's/^FROM debian:\([0-9]*\)$/\1/p' "$folder/Dockerfile")
case $release in 12) release=bookworm ;; 13) release=trixie ;; *) echo "bare-root.sh: FROM debian:$release" >&2; exit 2 ;; esac
mmdebstrap --variant=minbase "$release" "$root"
mkdir -p "$root/opt/tenken"
tar -xf "$folder/tenken.tar" -C "$root/opt/tenken"
# a network that needs this machine's settings (proxy, DNS)
for file in /etc/resolv.conf /etc/pip.conf; do
    [ ! -e $file ] || cp -L $file "$root$file"
done
ca=
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    ca=/etc/bare-root-ca.crt
    cp -L /etc/ssl/certs/ca-certificates.crt "$root$ca"
fi
for place in proc dev sys; do
    mount --rbind "/$place" "$root/$place"
    mount --make-rslave "$root/$place"   # unmounting there does not affect this machine
done
trap 'for place in sys dev proc; do umount -l "$root/$place"; done' EXIT
# the environment of a container engine, without this machine's variables
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ${ca:+PIP_CERT="$ca" SSL_CERT_FILE="$ca" REQUESTS_CA_BUNDLE="$ca"} \
    ${https_proxy:+https_proxy="$https_proxy"} ${http_proxy:+http_proxy="$http_proxy"} \
    chroot "$root" sh /opt/tenken/toolchains/container/build.sh "$cuda" OFF
