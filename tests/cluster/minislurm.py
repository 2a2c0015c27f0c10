"""A real Slurm of four emulated nodes on this machine, as an ordinary user, on loopback alone.

    python -m tests.cluster.minislurm up DIR      then: export SLURM_CONF=DIR/etc/slurm.conf
    python -m tests.cluster.minislurm down DIR

It comes from Debian's packages (tests/support/debian.py); their services are neither started nor changed. All nodes are
daemons of this host and share its files, each with its own host name if the kernel allows (a UTS namespace); a node's
four GPUs are resources of Slurm without a device.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: slurmctld, slurmdbd, then one daemon per node.
PORT = 27001
NODES = 4
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

_SLURM_CONF = """\
ClusterName=mini
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={dir}/msock/s
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
# PMIx of several nodes on one host needs a folder each
TmpFS={dir}/tmp/%n
SlurmctldPidFile={dir}/pid/slurmctld
SlurmdPidFile={dir}/pid/slurmd-%n
SlurmctldLogFile={dir}/log/slurmctld
SlurmdLogFile={dir}/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
# nodes claim more cores than the host has
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
SlurmctldTimeout=30
SlurmdTimeout=20
KillWait=3
MinJobAge=300
InactiveLimit=0
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting_port}
# beside AuthInfo, or every client hangs
AccountingStoragePass={dir}/msock/s
AccountingStorageEnforce=associations,limits,safe
GresTypes=gpu
NodeName=nid[1-{nodes}] NodeHostname={node_hosts} NodeAddr=127.0.0.1 Port=[{first}-{last}] Sockets=2 CoresPerSocket=8 \
ThreadsPerCore=1 RealMemory=2000 Gres=gpu:h200:4
PartitionName=gpu Nodes=ALL Default=YES MaxTime=01:00:00 DefaultTime=00:10:00 State=UP
PartitionName=debug Nodes=nid[1-2] MaxTime=00:10:00 State=UP
FirstJobId={first_number}
"""
_DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={dir}/msock/s
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={accounting_port}
SlurmUser={user}
PidFile={dir}/pid/slurmdbd
LogFile={dir}/log/slurmdbd
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


class ClusterError(Exception):
    """The cluster cannot be started: one line with the reason."""


class PortTakenError(ClusterError):
    """Another process has one of its ports."""


class MiniSlurm:
    """One cluster in one folder (an absolute, short path: it holds sockets)."""

    def __init__(self, folder: Path, port: int = PORT) -> None:
        self.dir = folder
        self.port = port
        self.conf = folder / "etc" / "slurm.conf"
        self.namespace = _namespace()
        self.numbers_return = False
        self.first_number = 1
        self.environment = {"SLURM_CONF": str(self.conf), "PATH": f"{os.environ['PATH']}:/usr/sbin"}

    # -- up and down --

    def up(self) -> None:
        """Start all daemons and wait until every node is idle. Raises ClusterError."""
        self._refuse()
        for name in ("etc", "log", "pid", "state", "spool", "munge", "db", "dev", "msock", "tmp"):
            (self.dir / name).mkdir(parents=True, exist_ok=True)
        (self.dir / "munge").chmod(0o700)
        self._configure()
        try:
            self._start_munge()
            self._start_accounting()
            self._start("slurmctld")
            for node in range(1, NODES + 1):
                self.start_node(f"nid{node}")
            self._wait(lambda: self.idle() == NODES, "not all nodes came up: " + self.slurm("sinfo", "-R", "-h"), 60)
        except ClusterError:
            self.down()
            raise

    def down(self) -> None:
        """Ends only the daemons whose pid files are in the folder."""
        for pattern in ("slurmd-*", "slurmctld", "slurmdbd", "mariadbd", "munged"):
            pids = [pid for file in (self.dir / "pid").glob(pattern) if (pid := self._pid(file))]
            for pid in pids:
                self._end(pid, signal.SIGTERM)
            until = time.time() + 8
            while any(map(_alive, pids)) and time.time() < until:
                time.sleep(0.05)
            for pid in filter(_alive, pids):
                self._end(pid, signal.SIGKILL)
            for file in (self.dir / "pid").glob(pattern):
                file.unlink(missing_ok=True)

    def _refuse(self) -> None:
        # two that start at the same moment would both find the ports free: held until this process ends
        try:
            self.lock = Path(tempfile.gettempdir(), f"minislurm-{self.port}.lock").open("w")  # noqa: SIM115
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PortTakenError(f"port {self.port} of 127.0.0.1 is taken by a test cluster that starts") from None
        lacking = [name for name in DAEMONS if not shutil.which(name, path=_PATH)]
        if lacking:
            raise ClusterError(
                f"missing: {', '.join(lacking)}; python -m tests.support.debian slurm (as root) installs them"
            )
        for port in (self.port, self.port + 1, *(self.port + 10 + node for node in range(NODES))):
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    one.bind(("127.0.0.1", port))
                except OSError:
                    raise PortTakenError(
                        f"port {port} of 127.0.0.1 is taken; end what listens there (another test cluster?) "
                        f"or choose others with TENKEN_TEST_PORT"
                    ) from None

    def _configure(self) -> None:
        host = socket.gethostname().split(".")[0]
        nodes = f"nid[1-{NODES}]" if self.namespace else host
        values = {
            "dir": self.dir, "host": host, "node_hosts": nodes, "user": getpass.getuser(), "port": self.port,
            "accounting_port": self.port + 1, "nodes": NODES, "first": self.port + 10, "last": self.port + 9 + NODES,
            "first_number": self.first_number,
        }  # fmt: skip
        self.conf.write_text(_SLURM_CONF.format(**values))
        accounting = self.dir / "etc" / "slurmdbd.conf"
        accounting.write_text(_DBD_CONF.format(**values))
        accounting.chmod(0o600)
        # Slurm wants character devices for GPUs: four harmless ones that every machine has
        gpus = "/dev/null,/dev/zero,/dev/full,/dev/random"
        (self.dir / "etc" / "gres.conf").write_text(f"NodeName=nid[1-{NODES}] Name=gpu Type=h200 File={gpus}\n")
        (self.dir / "etc" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.dir / "etc" / "plugstack.conf").write_text("")
        names = " ".join(["localhost", host, *(f"nid{node}" for node in range(1, NODES + 1))])
        (self.dir / "etc" / "hosts").write_text(f"127.0.0.1 {names}\n")

    def _start_munge(self) -> None:
        key = self.dir / "munge" / "key"
        if not key.exists():
            key.write_bytes(os.urandom(64))
            key.chmod(0o400)
        self._run(
            "munged", f"--key-file={key}", f"--socket={self.dir}/msock/s", f"--pid-file={self.dir}/pid/munged",
            f"--log-file={self.dir}/munge/log", f"--seed-file={self.dir}/munge/seed", "--num-threads=2", "--force",
        )  # fmt: skip

    def _start_accounting(self) -> None:
        data, sock = self.dir / "db" / "data", self.dir / "db" / "s"
        # A server removes temporary tables when it starts: in a shared folder also another cluster's.
        temporary = self.dir / "db" / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        if not (data / "mysql").is_dir():
            self._run(
                "mariadb-install-db", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}",
                "--auth-root-authentication-method=normal", "--skip-test-db", TMPDIR=str(temporary),
            )  # fmt: skip
        with (self.dir / "log" / "mariadbd").open("w") as log:
            subprocess.Popen(
                [
                    "mariadbd", "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}", f"--socket={sock}",
                    f"--pid-file={self.dir}/pid/mariadbd", "--skip-networking", "--innodb-buffer-pool-size=64M",
                    "--innodb-lock-wait-timeout=900", "--innodb-log-file-size=64M",
                ],
                env=self._env(TMPDIR=str(temporary)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        create = ["mariadb", "--no-defaults", "-S", str(sock), "-u", "root", "-e"]
        create.append("create database if not exists slurm_acct_db")
        self._wait(lambda: self._status(*create) == 0, "mariadbd did not come up", 30)
        self.start_accounting()
        if "test" not in self.slurm("sacctmgr", "-n", "-P", "show", "account"):
            self.slurm("sacctmgr", "-i", "add", "cluster", "mini")
            self.slurm("sacctmgr", "-i", "add", "account", "test", "cluster=mini")
            user = getpass.getuser()
            self.slurm("sacctmgr", "-i", "add", "user", user, "account=test", "defaultaccount=test")

    def start_accounting(self) -> None:
        """Starts slurmdbd, initially or again."""
        self._run("slurmdbd", MYSQL_UNIX_PORT=str(self.dir / "db" / "s"))
        self._wait(lambda: _listens(self.port + 1), "slurmdbd does not listen", 15)

    def stop_accounting(self) -> None:
        """As after a crash of its host."""
        pid = self._pid(self.dir / "pid" / "slurmdbd")
        if pid:
            self._end(pid, signal.SIGKILL)
            self._wait(lambda: not _alive(pid), "slurmdbd does not end", 10)

    def stop_controller(self, number: signal.Signals = signal.SIGKILL) -> None:
        """As after a crash of its host; with SIGTERM as an administrator does."""
        pid = self._pid(self.dir / "pid" / "slurmctld")
        self.numbers_return = self.numbers_return or number == signal.SIGKILL
        if pid:
            self._end(pid, number)
            self._wait(lambda: not _alive(pid), "slurmctld does not end", 30)

    def start_controller(self) -> None:
        """Starts slurmctld if it does not run."""
        if not _alive(self._pid(self.dir / "pid" / "slurmctld") or 0):
            self._start("slurmctld")

    def noted(self) -> bytes:
        """The controller's state of jobs on disk. The controller writes it every five seconds, so tests that kill it
        earlier restore it: otherwise the loss would depend on chance."""
        try:
            return (self.dir / "state" / "job_state").read_bytes()
        except OSError:
            return b""

    def lose_since(self, noted: bytes) -> None:
        """As after a crash within seconds of that moment; the controller is back, and has lost everything since."""
        self.stop_controller()
        for name in ("job_state", "job_state.old"):
            (self.dir / "state" / name).unlink(missing_ok=True)
        if noted:
            (self.dir / "state" / "job_state").write_bytes(noted)
        self.start_controller()

    def _skip_numbers(self) -> None:
        """A controller that was killed reuses numbers of lost jobs, which the nodes then refuse."""
        self.first_number += 1000
        text = re.sub(r"FirstJobId=.*\n", "", self.conf.read_text()) + f"FirstJobId={self.first_number}\n"
        self.conf.write_text(text)
        self.stop_controller(signal.SIGTERM)
        self.start_controller()
        self.numbers_return = False

    def start_node(self, name: str, full_spool: bool = False, unseen: Path | None = None) -> None:
        """The daemon of a node; with `full_spool` its spool disk is full. `unseen`: a folder that is empty for it, as
        if a file system were not mounted.
        """
        (self.dir / "spool" / name).mkdir(exist_ok=True)
        (self.dir / "tmp" / name).mkdir(exist_ok=True)
        if self.namespace:
            # a daemon on loopback alone resolves its own name
            spool = f"{self.dir}/spool/{name}"
            full = f"mount -t tmpfs -o size=64k none {spool} && {{ cat /dev/zero > {spool}/fill; true; }} && "
            hosts = f"mount --bind {self.dir}/etc/hosts /etc/hosts"
            hidden = f"mount -t tmpfs -o size=64k none {unseen} && " if unseen else ""
            alone = f"{full if full_spool else ''}{hidden}hostname {name} && {hosts} && exec slurmd -N {name}"
            self._run(*self.namespace, "sh", "-c", alone)
        else:
            self._run("slurmd", "-N", name)

    def restart_node(self, name: str, full_spool: bool = False, unseen: Path | None = None) -> None:
        """Its daemon is restarted; its jobs continue."""
        pid = self._pid(self.dir / "pid" / f"slurmd-{name}")
        if pid:
            self._end(pid, signal.SIGTERM)
            self._wait(lambda: not _alive(pid), f"slurmd of {name} does not end", 20)
        self.start_node(name, full_spool, unseen)

    def kill_node(self, name: str) -> None:
        """As after a power cut: its daemon and its steps end at once."""
        pid = self._pid(self.dir / "pid" / f"slurmd-{name}")
        here = {f"SLURMD_NODENAME={name}", f"SLURM_CONF={self.conf}"}  # another cluster has a node of that name
        steps = [one for one in _processes("slurmstepd") if here <= set(_environ_of_children(one).split("\0"))]
        for one in [pid, *(child for step in steps for child in [step, *_descendants(step)])]:
            if one:
                self._end(one, signal.SIGKILL)

    # -- talking to it --

    def slurm(self, *words: str) -> str:
        """Output of one of its commands, including standard error."""
        done = subprocess.run(
            words, env=self._env(), capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL
        )
        return (done.stdout + done.stderr).strip()

    def idle(self) -> int:
        """How many nodes are idle (`sinfo -t idle` would count drained ones)."""
        return self.slurm("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T").split().count("idle")

    def reset(self) -> None:
        """No jobs, all nodes idle: the state at the start of each test."""
        if self.numbers_return:
            self._skip_numbers()
        self.start_controller()
        self.slurm("scontrol", "delete", "reservationname=maint")
        self.slurm("scancel", "-u", getpass.getuser())
        for node in range(1, NODES + 1):
            if not _alive(self._pid(self.dir / "pid" / f"slurmd-nid{node}") or 0):
                self.start_node(f"nid{node}")
        if not _listens(self.port + 1):
            self.start_accounting()
        for partition in ("gpu", "debug"):
            self.slurm("scontrol", "update", f"partition={partition}", "state=up")
        if self._resume():
            # a controller killed before it saved this would restart with the nodes drained
            self.stop_controller(signal.SIGTERM)
            self.start_controller()
            self._resume()

    def _resume(self) -> bool:
        """Waits until all nodes are idle; returns whether one had to be resumed."""
        until, resumed = time.time() + 40, False
        while self.idle() < NODES and time.time() < until:
            for line in self.slurm("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T").splitlines():
                node, _, state = line.partition(" ")
                if "drain" in state or "down" in state:
                    self.slurm("scontrol", "update", f"node={node}", "state=resume")
                    resumed = True
            time.sleep(0.2)
        if self.idle() < NODES:
            raise ClusterError("the test cluster does not recover: " + self.slurm("sinfo"))
        return resumed

    # -- small parts --

    def _env(self, **more: str) -> dict[str, str]:
        return {"PATH": _PATH, "HOME": str(self.dir), "SLURM_CONF": str(self.conf), "LANG": "C", **more}

    def _status(self, *words: str, **more: str) -> int:
        return subprocess.run(words, env=self._env(**more), capture_output=True, check=False).returncode

    def _run(self, *words: str, **more: str) -> None:
        with (self.dir / "log" / f"start-{words[0]}").open("w+") as log:
            done = subprocess.run(
                words, env=self._env(**more), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=60
            )
            log.seek(0)
            lines = log.read().strip().splitlines()
        if done.returncode:
            raise ClusterError(
                f"{words[0]} ended with {done.returncode}: {lines[-1] if lines else 'it printed nothing'}"
            )

    def _start(self, daemon: str) -> None:
        self._run(daemon)
        self._wait(lambda: "UP" in self.slurm("scontrol", "ping"), f"{daemon} does not answer", 30)

    def _wait(self, is_so: Any, otherwise: str, seconds: float) -> None:
        until = time.time() + seconds
        while not is_so():
            if time.time() > until:
                raise ClusterError(otherwise)
            time.sleep(0.05)

    @staticmethod
    def _pid(file: Path) -> int | None:
        try:
            return int(file.read_text().strip())
        except (OSError, ValueError):
            return None

    @staticmethod
    def _end(pid: int, number: signal.Signals) -> None:
        try:
            os.kill(pid, number)
        except OSError:
            return


def _namespace() -> list[str]:
    """Words that start a command with its own host name; empty if the kernel does not allow that."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    words = ["unshare", *user, "--uts", "--mount"]
    attempt = "hostname nid1 && mount --bind /etc/hosts /etc/hosts"
    try:
        done = subprocess.run([*words, "sh", "-c", attempt], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return words if done.returncode == 0 else []


def _alive(pid: int) -> bool:
    try:
        return pid > 0 and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _processes(name: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "comm").read_text().strip() == name:
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [one for child in map(int, children) for one in [child, *_descendants(child)]]


def _environ_of_children(pid: int) -> str:
    texts = []
    for child in _descendants(pid):
        try:
            texts.append(Path(f"/proc/{child}/environ").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\0".join(texts)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("up", "down") or not arguments[1].startswith("/"):
        print("usage: python -m tests.cluster.minislurm up|down /ABSOLUTE/FOLDER", file=sys.stderr)
        return 2
    cluster = MiniSlurm(Path(arguments[1]), int(os.environ.get("TENKEN_TEST_PORT", PORT)))
    try:
        cluster.up() if arguments[0] == "up" else cluster.down()
    except ClusterError as error:
        print(f"minislurm: {error}", file=sys.stderr)
        return 1
    if arguments[0] == "up":
        print(cluster.slurm("sinfo"))
        print(f"export SLURM_CONF={cluster.conf} PATH=$PATH:/usr/sbin")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
