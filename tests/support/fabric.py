"""Nodes with separate networks on this host: namespaces joined by leaf switches, with links that are made slow,
delayed, lossy, or count errors. For root, or a user who may make user namespaces.

    with Fabric(folder, {"n1": "leaf1", "n2": "leaf2"}) as fabric:
        fabric.rate("n2", 40)
        subprocess.run(fabric.on("n1", ["hostname"]))

Rates are those of the token bucket filter at both ends of a node's link; this kernel may have no netem, so frames are
delayed and dropped by a relay between the node and its switch. Links are slow and long enough for a loaded host: its
scheduling delays of a millisecond or two are not what is measured.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.oracles import compiled

#: A healthy link: Mbit/s, and the delay of its relay in ms.
HEALTHY, DELAY_MS = 8, 3.0
#: Nice value of everything on the fabric, where root may set it.
PRIORITY = -15
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
#: Every node joins the user namespace of the first; root needs none.
_ROOT = os.geteuid() == 0


class Fabric:
    """`leaf_of`: leaf switch by node; all leaves are joined by one spine. `rails`: further interfaces of each node,
    each with a switch of its own and this rate; the counters of the nodes are then those of their interfaces."""

    def __init__(
        self, folder: Path, leaf_of: Mapping[str, str], rate: int = HEALTHY, rails: Sequence[str] = ()
    ) -> None:
        self.folder, self.leaf_of, self.healthy, self.rails = folder, dict(leaf_of), rate, tuple(rails)
        self._mounts = ["-m"] if rails else []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.pids: dict[str, int] = {}
        self.relays: dict[str, subprocess.Popen[bytes]] = {}
        self.address = {node: f"10.77.0.{i}" for i, node in enumerate(leaf_of, 1)}

    def __enter__(self) -> Fabric:
        # what relays and ranks measure is time: compilers of other workers must not take their cores
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, self._priority)
        for node in self.pids:
            for pid in self._inside(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for process in [*self.relays.values(), *self.processes]:
            process.wait()

    # -- what is planted --

    def rate(self, node: str, mbit: float, device: str = "eth0") -> None:
        """The rate of a node's link, in both directions."""
        burst = "4kb" if device == "eth0" else "64kb"
        for where, end in ((node, device), ("switch", f"p-{node}" if device == "eth0" else f"{device}-{node}")):
            self._run(
                where, f"tc qdisc replace dev {end} root tbf rate {1000 * mbit:.0f}kbit burst {burst} latency 200ms"
            )

    def relay(self, node: str, delay_ms: float = DELAY_MS, loss: float = 0) -> None:
        """Frames between a node and its switch are delayed. `loss`: share of the frames of 1,500 bytes that are lost;
        of smaller ones accordingly fewer, as with a rate of bit errors."""
        if before := self.relays.pop(node, None):
            before.kill()
            before.wait()
        words = [sys.executable, "-m", __name__, f"p-{node}", f"a-{node}", str(delay_ms), str(loss)]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.relays[node] = subprocess.Popen(self.on("switch", words), env=env, stdout=subprocess.PIPE)
        assert self.relays[node].stdout.readline() == b"relays\n"  # type: ignore[union-attr]

    def heal(self, node: str) -> None:
        """Restores the node's link."""
        self.relay(node)
        for device in ("eth0", *self.rails):
            self.rate(node, self.healthy, device)

    # -- who runs where --

    def on(self, node: str, command: Sequence[str]) -> list[str]:
        """A command on a node."""
        user = [] if _ROOT else ["-U", "--preserve-credentials"]
        # each node has its own locks
        own = ["env", f"TENKEN_LOCKS={self.folder / 'locks' / node}"]
        return ["nsenter", "-t", str(self.pids[node]), *user, "-n", "-u", *self._mounts, "--", *own, *command]

    def ranks(self, node: str, program: str) -> list[int]:
        """Processes of a program on a node."""
        found = []
        for pid in self._inside(node):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == program:
                    found.append(pid)
        return found

    def _inside(self, node: str) -> list[int]:
        place, found = os.readlink(f"/proc/{self.pids[node]}/ns/net"), []
        for one in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(one / "ns/net") == place:
                    found.append(int(one.name))
        return found

    def launchers(self, ucx: bool = False) -> tuple[str, str]:
        """Commands that start a rank on each of {ranks} nodes, and on the two {nodes} of a pair. `ucx`: UCX over TCP,
        with the interfaces of UCX_NET_DEVICES; otherwise eth0."""
        agent, each, pair = (self.folder / name for name in ("agent", "each", "pair"))
        known = "".join(
            f'{node}|{self.address[node]}) set -- {shlex.join(self.on(node, ["env"]))} "$@";;\n'
            for node in self.leaf_of
        )
        # jobs of a queue do not inherit it
        first_lines = f"#!/bin/sh\nrenice -n {PRIORITY} $$ > /dev/null 2>&1\n"
        # HOST COMMAND: in place of ssh
        start = f'{first_lines}h=$1; shift\nset -- sh -c "$*"\n'
        agent.write_text(f'{start}case $h in\n{known}esac\nexec "$@"\n')
        by = "--mca pml ucx -x UCX_TLS=tcp,self"
        if not ucx:
            by = "--mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include eth0"
        # within a job of Slurm, too
        options = f"--prtemca plm ssh --prtemca ras ^slurm --prtemca plm_ssh_agent {agent} {by}"
        options += f" --prtemca prte_if_include eth0 --bind-to none -x LD_PRELOAD={compiled(self.folder, 'patient.c')}"
        options += " --map-by ppr:1:node"
        first = next(iter(self.leaf_of))
        hosts = ",".join(self.address.values())
        # a script of a reader of ports runs on each node by itself, with the tree of that node's /sys
        reads = "".join(
            f'{shlex.join(self.on(node, self._counted(node)))} "$@" {shlex.quote(str(self.sysfs(node)))} &\n'
            for node in self.leaf_of
        )
        each.write_text(
            f'{first_lines}n=$1; shift\ncase "$*" in *counters.py*)\n{reads}wait; exit;; esac\n'
            f'exec {shlex.join(self.on(first, []))} mpirun -n "$n" --host {hosts} {options} "$@"\n'
        )
        named = "".join(f"{node}) a={self.address[node]};;\n" for node in self.leaf_of)
        starts = "".join(f'{node}) set -- {shlex.join(self.on(node, []))} "$@";;\n' for node in self.leaf_of)
        pair.write_text(
            f'{first_lines}f=${{1%,*}} s=${{1#*,}}; shift\nip() {{ case $1 in\n{named}esac; echo $a; }}\n'
            f'set -- mpirun -n 2 --host $(ip $f),$(ip $s) {options} "$@"\ncase $f in\n{starts}esac\nexec "$@"\n'
        )  # fmt: skip
        for script in (agent, each, pair):
            script.chmod(0o755)
        return f"{each} {{ranks}}", f"{pair} {{nodes}}"

    def sysfs(self, node: str) -> Path:
        """Where the counters of a node are read: a tree that the test writes."""
        return self.folder / "sysfs" / node

    def _counted(self, node: str) -> list[str]:
        """What runs a reader of counters: with rails, after writing those of the node's interfaces into its tree."""
        if not self.rails:
            return []
        write = f"awk -v d={shlex.quote(str(self.sysfs(node)))}/sys/class/net {shlex.quote(_COUNTED)} /proc/net/dev"
        return ["sh", "-c", f'{write}; exec "$@"', "sh"]

    # -- how it is made --

    def _build(self) -> None:
        self._hold("switch")
        for leaf in ["spine", *dict.fromkeys(self.leaf_of.values())]:
            self._run("switch", f"ip link add {leaf} type bridge")
            self._run("switch", f"ip link set {leaf} up")
        for leaf in dict.fromkeys(self.leaf_of.values()):
            self._run("switch", f"ip link add u-{leaf} type veth peer name d-{leaf}")
            self._run("switch", f"ip link set u-{leaf} up master {leaf}")
            self._run("switch", f"ip link set d-{leaf} up master spine")
        for rail in self.rails:
            self._run("switch", f"ip link add s-{rail} type bridge")
            self._run("switch", f"ip link set s-{rail} up")
        for node, leaf in self.leaf_of.items():
            self._hold(node)
            self._run("switch", f"ip link add p-{node} type veth peer name eth0 netns {self.pids[node]}")
            self._run("switch", f"ip link set p-{node} up promisc on")
            self._run("switch", f"ip link add a-{node} type veth peer name b-{node}")
            self._run("switch", f"ip link set a-{node} up promisc on")
            self._run("switch", f"ip link set b-{node} up master {leaf}")
            self._run(node, "ip link set lo up")
            self._run(node, f"ip addr add {self.address[node]}/24 dev eth0")
            self._run(node, "ip link set eth0 up")
            # frames of a wire's size, with their checksums: a relay passes them on as they are
            for where, device in ((node, "eth0"), ("switch", f"p-{node}")):
                self._run(where, f"{sys.executable} -c {shlex.quote(_PLAIN.replace('DEVICE', device))}")
            for number, rail in enumerate(self.rails, 1):
                self._run("switch", f"ip link add {rail}-{node} type veth peer name {rail} netns {self.pids[node]}")
                self._run("switch", f"ip link set {rail}-{node} up master s-{rail}")
                self._run(node, f"ip addr add {self.address[node].replace('.0.', f'.{number}.')}/24 dev {rail}")
                self._run(node, f"ip link set {rail} up")
            self.heal(node)

    def _hold(self, name: str) -> None:
        """A process that keeps the namespaces of a node."""
        user = [] if _ROOT or self.pids else ["-U", "-r"]
        # UCX looks for interfaces in /sys, which shows those of the namespace that mounted it
        start = f"{'mount -t sysfs sysfs /sys && ' if self.rails else ''}hostname {name} && echo up && exec sleep 1d"
        keep = ["unshare", *user, "-n", "-u", *self._mounts, "sh", "-c", start]
        if self.pids and not _ROOT:
            keep = self.on("switch", keep)
        process = subprocess.Popen(keep, stdout=subprocess.PIPE, env={**os.environ, "PATH": _PATH})
        self.processes.append(process)
        if process.stdout.readline() != b"up\n":  # type: ignore[union-attr]
            raise RuntimeError(f"no network namespace for {name}: root, or unprivileged user namespaces, is required")
        self.pids[name] = process.pid

    def _run(self, node: str, command: str) -> None:
        done = subprocess.run(
            self.on(node, ["sh", "-c", command]), capture_output=True, text=True, env={**os.environ, "PATH": _PATH}
        )
        if done.returncode:
            raise RuntimeError(f"{node}: {command}: {done.stderr.strip()}")


#: The interfaces of /proc/net/dev as /sys/class/net shows those of a device.
_COUNTED = """
NR > 2 { sub(":", " "); if ($1 !~ /^eth/) next; at = d "/" $1; system("mkdir -p " at "/statistics " at "/device");
  print 1 > (at "/type"); print "up" > (at "/operstate"); print 100 > (at "/speed");
  print $2 > (at "/statistics/rx_bytes"); print $10 > (at "/statistics/tx_bytes") }
"""

#: Off: segmentation by the device (TSO, GSO), joining (GRO) and its checksums (linux/ethtool.h).
_PLAIN = """
import fcntl, socket, struct, array
s = socket.socket()
for command in (0x1f, 0x24, 0x2c, 0x17):
    value = array.array("B", struct.pack("II", command, 0))
    fcntl.ioctl(s, 0x8946, struct.pack("16sP", b"DEVICE", value.buffer_info()[0]))
"""


def relay(one: str, other: str, delay_s: float, loss: float) -> None:
    """Passes frames between two devices until it is killed."""
    ends = {}
    for name in (one, other):
        ends[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        ends[name].setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
        ends[name].bind((name, 0))
        ends[name].setblocking(False)
    to = {ends[one]: ends[other], ends[other]: ends[one]}
    rng = random.Random(1)
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    print("relays", flush=True)
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        ready, _, _ = select.select([*to], [], [], left)
        for end in ready:
            with contextlib.suppress(BlockingIOError):
                while True:
                    frame = end.recv(65536)
                    if rng.random() >= loss * len(frame) / 1500:
                        waiting.append((time.monotonic() + delay_s, to[end], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, frame = waiting.popleft()
            with contextlib.suppress(OSError):
                end.send(frame)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    relay(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1e3, float(sys.argv[4]))
