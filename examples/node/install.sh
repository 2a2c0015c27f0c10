#!/bin/sh
# Installs the node check for root, entirely in places where no other user can write. As root, on each node or in its
# image:
#     install.sh WHEEL [FOLDER with the built programs]
# Removed by: rm -r /opt/tenken /etc/tenken /var/lib/tenken
set -eu
umask 022
PATH=/usr/sbin:/usr/bin:/sbin:/bin
wheel=${1:?usage: install.sh WHEEL [FOLDER of programs]}
here=$(dirname "$(readlink -f "$0")")
[ -r "$wheel" ] || { echo "install.sh: no wheel $wheel (make dist writes it)" >&2; exit 1; }
found=
for program in stream transfer p2p gemm; do
    [ ! -x "${2:-}/$program" ] || found="$found $program"
done
# otherwise nothing would be measured, and nobody would notice
[ $# -lt 2 ] || [ -n "$found" ] || {
    echo "install.sh: $2 has none of stream, transfer, p2p, gemm: name a bin folder that a run has built" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || { echo "install.sh: must be run by root" >&2; exit 1; }

# nobody else may be able to replace the folders above
for folder in / /opt /etc /var /var/lib; do
    [ "$(stat -c %u "$folder")" = 0 ] && [ -z "$(find "$folder" -maxdepth 0 -perm /022)" ] ||
        { echo "install.sh: $folder is not root's alone" >&2; exit 1; }
done
for folder in /opt/tenken /etc/tenken /var/lib/tenken; do
    [ ! -L "$folder" ] || { echo "install.sh: $folder is a link" >&2; exit 1; }
done

python3 -m venv /opt/tenken
# the check needs only the standard library: a compute node gets no dependencies
/opt/tenken/bin/python -m pip install --quiet --no-index --no-deps --force-reinstall "$wheel"
install -d -m 755 /opt/tenken/programs /opt/tenken/hooks /etc/tenken /var/lib/tenken
for program in $found; do
    install -m 755 "$2/$program" /opt/tenken/programs/
done
install -m 755 "$here"/node-check "$here"/slurm-prolog "$here"/slurm-epilog "$here"/slurm-health "$here"/sge-prolog \
    "$here"/pbs_hook.py /opt/tenken/hooks/
chown -R root:root /opt/tenken /etc/tenken /var/lib/tenken
chmod -R go-w /opt/tenken /etc/tenken /var/lib/tenken
/opt/tenken/bin/python -I -m tenken.node --help > /dev/null
echo "installed, programs:${found:- none, nothing will be measured}; next: /etc/tenken/node.json (tenken node expect --system NAME --partition NAME)"
