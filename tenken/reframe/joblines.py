"""Lines that every job script prints about itself.

A scheduler may report exit code 0 for a job that it killed, name one node of two, start a job twice, or return
incomplete output; only these lines are trusted. Each begins with a word and has `key=value` pairs without blanks:

    TENKEN-NOSTAGE node=H                        this node does not see the stage folder: the script or rank ended here
    TENKEN-BEGIN token=T node=H time=S job=J     one line per attempt of this script, earlier ones first
    TENKEN-NODES n1,n2                           the nodes as the scheduler names them to the job
    TENKEN-NAME n1 H                             Slurm: the host name of a node whose name is another
    TENKEN-HOST machine=M kernel=K online=0-N memory_kib=N cpu=...  the first node; blanks of the CPU's name as _
    TENKEN-GPU GPU 0: NVIDIA ... (UUID: GPU-...)  one line per GPU of the first node
    TENKEN-DEVICE GPU-..., driver, PCI bus id, VBIOS, MIG mode, ECC mode, serial number, persistence mode
                                                  the same, as nvidia-smi describes it
    TENKEN-ROOT ...                              Open MPI may start as root here, and the job runs as root
    TENKEN-PORT when=W node=H port=P ...         between nodes: a port's counters at rest, before, after it
    TENKEN-RUN begin node=H time=S               around the check's command
    TENKEN-RANK host=H                           one line per rank of each launch: its own host name
    TENKEN-RUN end node=H time=S status=N
    TENKEN-END token=T sha256=FILE:D,FILE:D status=N nodes=n1,n2 node=H time=S   the last line

H is the output of `uname -n` there, S seconds of that node's clock since 1970, T the token of this attempt of ReFrame's
(the name of one request), J the scheduler's number of the job, D the SHA-256 of a file that the job wrote: `none` if
there is no such file, `unknown` if it cannot be computed there. A script that runs a second time (its node died and the
scheduler requeued it) finds the line of its first run in `tenken-attempts` of the stage folder, even if the first
output is gone, and removes leftover files before it runs anything else.

The first line of every script, of a check or a build and on every scheduler, enters the stage folder. If the node does
not see it, the script ends there with status 200 (NO_STAGE); otherwise it would continue in the home folder. Its output
is then often lost, since it would be in that folder, but the scheduler records status and node.

The shell lines are POSIX sh. `report` reads them back.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tenken.model.job import CardReading, HostReading, JobAccount, short
from tenken.model.job_exit import NO_STAGE

#: In the stage folder: the TENKEN-BEGIN line of every attempt that began there.
ATTEMPTS_FILE = "tenken-attempts"

_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_TOKEN_LINE = re.compile(r"^tenken_token=(\S+)$", re.M)
_ROOT = re.compile(r"^TENKEN-ROOT ", re.M)
_PAIR = re.compile(r"(?<!\w)(\w{1,64})=(\S*)")
_DIGEST = r"([A-Za-z0-9._+-]+):([0-9a-f]{64}|none|unknown)"
_SEALED_END = re.compile(
    rf"TENKEN-END token=\S+ sha256={_DIGEST}(?:,{_DIGEST})* status=\d+ nodes=\S* node=\S+ time=\d{{9}}\S*"
)

# The pipe keeps each scheduler's own list: a host file names a node once for each of its slots.
_FIND_NODES = """tenken_nodes=$( { if [ -n "$SLURM_JOB_NODELIST" ]; then scontrol show hostnames "$SLURM_JOB_NODELIST";
  elif [ -n "$PBS_NODEFILE" ]; then cat "$PBS_NODEFILE"; elif [ -n "$PE_HOSTFILE" ]; then cut -d' ' -f1 "$PE_HOSTFILE";
  else hostname; fi; } | sort -u | paste -sd, -)"""
_NAMES = r"s/.*NodeName=\([^ ]*\) .*NodeHostName=\([^ ]*\) .*/\1 \2/p"
_FIND_NAMES = f"""[ -z "$SLURM_JOB_NODELIST" ] || scontrol -o show node "$SLURM_JOB_NODELIST" 2>/dev/null |
  sed -n '{_NAMES}' | while read -r name host; do [ "$name" = "$host" ] || echo "TENKEN-NAME $name $host"; done"""
_FIELDS = "uuid,driver_version,pci.bus_id,vbios_version,mig.mode.current,ecc.mode.current,serial,persistence_mode"
# Each start takes up to a second per GPU if the driver is not kept loaded, so both run at the same time; `wait $!` does
# not wait for children of a site's own commands.
_FIND_GPUS = (
    "command -v nvidia-smi >/dev/null && { nvidia-smi -L | sed 's/^/TENKEN-GPU /' &"
    f" nvidia-smi --query-gpu={_FIELDS} --format=csv,noheader | sed 's/^/TENKEN-DEVICE /'; wait $!; }} || true"
)
_FIND_HOST = (
    'echo "TENKEN-HOST machine=$(uname -m) kernel=$(uname -r) online=$(cat /sys/devices/system/cpu/online)'
    r" memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)"
    """ cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | sed -n '1{s/[[:blank:]]/_/g;p;}')\""""
)
_HERE = "node=$(uname -n) time=$(date +%s.%N)"
_JOB = "${SLURM_JOB_ID:-${PBS_JOBID:-${JOB_ID:-none}}}"
_UNSEEN = f'echo "TENKEN-NOSTAGE node=$(uname -n)"; exit {NO_STAGE}'
_RANK = 'echo TENKEN-RANK host=$(uname -n); exec "$@"'


# -- writing the script --


def enter(folder: str) -> str:
    """The shell line that enters the stage folder, or ends the script before it removes or writes anything."""
    return f"cd {shlex.quote(folder)} || {{ {_UNSEEN}; }}"


def begin(gpus: bool, token: str, folder: str, outputs: Sequence[str] = ()) -> list[str]:
    """Shell lines that report this attempt, its nodes, and the GPUs of the first one.

    `token`: name of this attempt, of letters, digits, `_`, `.` and `-`. `folder`: the stage folder. `outputs`: files
    that the job will write, relative to the folder; they may contain `*`. Those left by an earlier attempt are removed
    here by their absolute path. Raises ValueError for another token, and for a file that is not below the folder.
    """
    if not _WORD.fullmatch(token):
        raise ValueError(f"token {token!r}: only letters, digits, '_', '.' and '-' are allowed in a job script")
    for name in outputs:
        if not folder.startswith("/") or name[:1] in ("", "/") or ".." in name.split("/"):
            raise ValueError(f"output {name!r}: only files below the stage folder {folder!r} are removed")
    here = shlex.quote(f"{folder}/")
    left = [here + "*".join(shlex.quote(part) if part else "" for part in name.split("*")) for name in outputs]
    return [
        *([f"rm -rf -- {' '.join(left)}"] if left else []),
        f"tenken_token={token}",
        f'grep -s "^TENKEN-BEGIN token=$tenken_token " {ATTEMPTS_FILE}',
        f'echo "TENKEN-BEGIN token=$tenken_token {_HERE} job={_JOB}" | tee -a {ATTEMPTS_FILE}',
        *_FIND_NODES.splitlines(),
        'echo "TENKEN-NODES $tenken_nodes"',
        *_FIND_NAMES.splitlines(),
        _FIND_HOST,
        *([_FIND_GPUS] if gpus else []),
    ]


def command_begin() -> list[str]:
    """Shell lines directly before the check's command."""
    return [f'echo "TENKEN-RUN begin {_HERE}"']


def command_end(after: Sequence[str] = ()) -> list[str]:
    """Shell lines directly after the check's command: they store its exit status in `tenken_status` and print it, after
    further lines.
    """
    return ["tenken_status=$?", *after, f'echo "TENKEN-RUN end {_HERE} status=$tenken_status"']


def capture(file: str) -> tuple[list[str], list[str]]:
    """Shell lines before and after the check's command, which write its output into a separate file and print it again.
    A pipe would wait for all processes that the command leaves running.
    """
    return [f"exec 8>&1 > {shlex.quote(file)}"], ["exec >&8 8>&-", f"cat {shlex.quote(file)}"]


def around_rank(folder: str = "", first: str = "") -> str:
    """Words between a launcher with its options and the program. Each rank enters the stage folder (launchers use
    another folder if a node does not see it) and prints its own host name.

    `folder`: the stage folder; if empty, the rank stays where the launcher starts it. `first`: shell words that the
    rank runs between the two.
    """
    there = f"{enter(folder)}; " if folder else ""
    return f"sh -c {shlex.quote(f'{there}{first}{_RANK}')} rank"


def allow_root() -> list[str]:
    """Shell lines that permit Open MPI to start as root, which it refuses by default. A measurement takes seconds, and
    on a borrowed machine or in a container root is often the only user. The job reports it.
    """
    return [
        'if [ "$(id -u)" = 0 ]; then',
        "  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        '  echo "TENKEN-ROOT mpirun runs as root: OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"',
        "fi",
    ]


def without_ssh() -> list[str]:
    """Shell lines for a job on one node: an Open MPI configured for ssh and rsh, like Debian's, fails if neither is
    installed, although ranks on one node need neither. User settings are not overridden.
    """
    return [
        "command -v ssh > /dev/null || command -v rsh > /dev/null ||"
        " export OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-true}",
    ]


def ran_as_root(output: str) -> bool:
    """Whether the job permitted Open MPI to start as root."""
    return bool(_ROOT.search(output))


def digests(folder: str, outputs: Sequence[str]) -> list[str]:
    """Shell lines that put the SHA-256 of each of `outputs` (as for `begin`) into `tenken_sha256`, for the end mark.

    A site's own commands may have left the folder. `ls` makes a network file system look for files that another node
    has just written.
    """
    names = " ".join("*".join(shlex.quote(part) if part else "" for part in name.split("*")) for name in outputs)
    return [
        f"cd {shlex.quote(folder)}; ls > /dev/null",
        "tenken_sha256=",
        f"for tenken_file in {names}; do",
        '  case "$tenken_file" in *[!A-Za-z0-9._+-]*) continue;; esac',
        "  tenken_digest=none",
        '  [ ! -f "$tenken_file" ] || tenken_digest=$({ sha256sum "$tenken_file" ||',
        '    openssl dgst -sha256 "$tenken_file" || shasum -a 256 "$tenken_file"; } 2> /dev/null |',
        r"""    sed -n 's/.*\([0-9a-f]\{64\}\).*/\1/p')""",
        '  tenken_sha256="$tenken_sha256,$tenken_file:${tenken_digest:-unknown}"',
        "done",
    ] if outputs else []  # fmt: skip


def end() -> list[str]:
    """Shell lines that print the exit status in `tenken_status` and exit with it.

    The digests precede the status, so that a truncated line has no status and is not used.
    """
    sealed = "${tenken_sha256:+ sha256=${tenken_sha256#,}}"
    return [
        f'echo "TENKEN-END token=$tenken_token{sealed} status=$tenken_status nodes=$tenken_nodes {_HERE}"',
        "exit $tenken_status",
    ]


def need_modules(modules: list[str]) -> list[str]:
    """Shell lines that end the job if a module was not loaded, and name it: `module load` of some versions returns 0
    even then, and a job with another compiler would be measured.
    """
    if not modules:
        return []
    return [
        f"for tenken_module in {' '.join(modules)}; do",
        '  case ":$LOADEDMODULES:" in *":$tenken_module:"*|*":$tenken_module/"*) continue;; esac',
        '  echo "tenken: module $tenken_module is not loaded here; is it there: module avail $tenken_module" >&2',
        "  tenken_status=1",
        "done",
        f'if [ -n "$tenken_status" ]; then {"; ".join(end())}; fi',
    ]


# -- reading the output --


@dataclass(frozen=True)
class Attempt:
    """One run of the job script: its node's host name, its start (s since 1970) and the scheduler's job."""

    node: str
    time: float | None
    job: str = "none"


@dataclass(frozen=True)
class Command:
    """The check's command: `begin`, `end` in seconds since 1970 by the clock of `node`; None if not printed."""

    node: str
    begin: float | None
    end: float | None = None
    status: int | None = None


@dataclass(frozen=True)
class JobReport:
    """What a job printed about itself."""

    token: str | None = None
    """Of the last attempt; None: no script of ours began."""
    attempts: tuple[Attempt, ...] = ()
    """All attempts with this token, oldest first. More than one: the scheduler ran the script again."""
    nodes: tuple[str, ...] = ()
    """As the scheduler named them to the last attempt, sorted."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Host name by name of the node if they differ, as the scheduler maps them."""
    rank_hosts: tuple[str, ...] = ()
    """The host name that each rank of the last attempt found, in the order of its lines; empty without a launch."""
    gpus: tuple[str, ...] = ()
    """`GPU 0: NAME (UUID: ...)` of the first node."""
    commands: tuple[Command, ...] = ()
    begin: float | None = None
    """When the last attempt began, in seconds since 1970 by its node's clock."""
    end: float | None = None
    """When it ended; None: it did not reach its end."""
    status: int | None = None
    """Its exit status; None: it did not reach its end."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """From the end mark: SHA-256 by file, `none` or `unknown`; empty: a script without digests."""
    other_tokens: tuple[str, ...] = ()
    """Tokens of lines that do not belong here: another job wrote into this output."""
    ends: tuple[str, ...] = ()
    """The exit statuses of all different end marks of the last attempt; a script prints one."""
    host: HostReading = field(default_factory=HostReading)
    cards: tuple[CardReading, ...] = ()
    behind: str = ""
    """The first line of a command or a rank after the end mark; empty: none."""
    unseen: tuple[str, ...] = ()
    """Host names of nodes that do not see the stage folder, of the last attempt."""
    within: str = ""
    """The token of another job that began or ended between the begin and the end mark; empty: none."""

    @property
    def ran_again(self) -> bool:
        return len(self.attempts) > 1

    def fault(self) -> str | None:
        """How the script's lines contradict each other, or which of them are missing; None: they are complete.

        Applies to a job that reached its end mark with the status of a program that measured or was waived.
        """
        if len(self.ends) > 1:
            return (
                f"its output has {len(self.ends)} end marks that differ, of status {', '.join(self.ends)}; expected: 1"
            )
        if self.status not in (0, 3):
            return None
        if self.within:
            return f"its output contains marks of token {self.within} between its own: two jobs wrote into it"
        if self.behind:
            return f"its output continues after the end mark with {self.behind!r}: something still ran"
        if not self.commands:
            return "its output has no TENKEN-RUN lines, between which the command runs"
        for command in self.commands:
            for name, moment in (("begin", command.begin), ("end", command.end)):
                if moment is None:
                    return f"its output has no time of TENKEN-RUN {name}"
        return None

    def host_of(self, node: str) -> str:
        """Short host name of a node by the scheduler's map."""
        return short(self.names.get(node, node))

    def placement_fault(self, ranks: int) -> str | None:
        """Errors in the nodes of the ranks, with both lists; None: they are correct.

        The host names of the ranks must be the nodes assigned by the scheduler, compared by short name through the
        scheduler's own map. There must be `ranks` ranks, or a multiple if the job launched more than once.
        """
        hosts = [short(host) for host in self.rank_hosts]
        wanted = {self.host_of(node) for node in self.nodes}
        faults = []
        if not hosts or len(hosts) % ranks:
            faults.append(f"{len(hosts)} ranks reported their host name")
        if set(hosts) != wanted:
            faults.append("the ranks did not run on the nodes of the job")
        if not faults:
            return None
        counted = ",".join(f"{host} ({hosts.count(host)})" for host in sorted(set(hosts))) or "none"
        hosts_of = {node: self.host_of(node) for node in self.nodes}
        said = ",".join(node if host == short(node) else f"{node}={host}" for node, host in hosts_of.items())
        return f"{'; '.join(faults)}: {ranks} ranks requested; nodes by the scheduler: {said}; by the ranks: {counted}"


def token_of(lines: Iterable[str]) -> str | None:
    """The token in the lines of a job script; None: the script prints no marks."""
    found = _TOKEN_LINE.search("\n".join(lines))
    return found[1] if found else None


def report(text: str, token: str | None = None) -> JobReport:
    """The data in a job's output. With `token`, lines with any other token count as foreign; without it, the last token
    in the output is used.
    """
    marks = [line.strip() for line in text.splitlines() if line.startswith("TENKEN-")]
    begins = [(at, dict(_PAIR.findall(line))) for at, line in enumerate(marks) if line.startswith("TENKEN-BEGIN ")]
    ends = [(at, dict(_PAIR.findall(line))) for at, line in enumerate(marks) if _is_end(line)]
    if token is None and begins:
        token = begins[-1][1].get("token")
    # lines that a later attempt printed again or appended to the same output count as one attempt each
    attempts = dict.fromkeys(
        Attempt(pairs.get("node", "unknown"), _seconds(pairs.get("time")), pairs.get("job", "none"))
        for _, pairs in begins
        if pairs.get("token") == token
    )
    first = next((at for at, pairs in reversed(begins) if pairs.get("token") == token), 0)
    last = marks[first:]
    ended = [pairs for at, pairs in ends if at >= first and pairs.get("token") == token]
    commands = _commands(last)
    # a program can print whatever its script prints: an end mark before the end of the command is not the script's
    cut = bool(commands) and commands[-1].end is None and commands[-1].status is None
    end_of = ended[-1] if ended and not cut else {}
    return JobReport(
        token=token if attempts else None,
        attempts=tuple(attempts),
        nodes=next((tuple(_words(line)[1].split(",")) for line in last if _is(line, "NODES", 2)), ()),
        names={_words(line)[1]: _words(line)[2] for line in last if _is(line, "NAME", 3)},
        rank_hosts=tuple(dict(_PAIR.findall(line)).get("host", "unknown") for line in last if _is(line, "RANK")),
        gpus=tuple(line.partition(" ")[2] for line in last if _is(line, "GPU")),
        commands=commands,
        begin=list(attempts)[-1].time if attempts else None,
        end=_seconds(end_of.get("time")),
        status=_whole(end_of.get("status")),
        digests=dict(re.findall(_DIGEST, end_of.get("sha256", ""))),
        other_tokens=tuple(sorted({pairs.get("token", "none") for _, pairs in [*begins, *ends]} - {token})),
        ends=tuple(pairs.get("status", "none") for at, pairs in enumerate(ended) if pairs not in ended[:at]),
        host=_host(next((dict(_PAIR.findall(line)) for line in last if _is(line, "HOST")), {})),
        behind=_behind(marks, next(at for at, pairs in ends if pairs is ended[0])) if end_of else "",
        unseen=tuple(dict.fromkeys(dict(_PAIR.findall(line)).get("node", "") for line in last if _is(line, "NOSTAGE"))),
        within=next(
            (
                pairs.get("token", "none")[:64]
                for at, pairs in sorted([*begins, *ends], key=lambda one: one[0])
                if end_of
                and first < at < max(at for at, pairs in ends if pairs is end_of)
                and pairs.get("token") != token
            ),
            "",
        ),
        cards=tuple(card for line in last if _is(line, "DEVICE") and (card := _card(line.partition(" ")[2]))),
    )


def _is_end(line: str) -> bool:
    """Whether a line is a complete end mark: the output of a job arrives in parts."""
    return line.startswith("TENKEN-END ") and (" sha256=" not in line or _SEALED_END.fullmatch(line) is not None)


def _behind(marks: Sequence[str], ended: int) -> str:
    """The first line of a launch or a command after an end mark."""
    return next((line[:80] for line in marks[ended:] if line.startswith(("TENKEN-RUN ", "TENKEN-RANK "))), "")


def _host(pairs: Mapping[str, str]) -> HostReading:
    memory = _whole(pairs.get("memory_kib"))
    return HostReading(
        pairs.get("machine", ""), pairs.get("kernel", ""), pairs.get("cpu", ""), _online(pairs.get("online", "")),
        None if memory is None else 1024 * memory,
    )  # fmt: skip


def _online(text: str) -> int | None:
    """CPUs in the kernel's list of those online, "0-3,8"; None for another text. `getconf` is not used: with some C
    libraries it counts the CPUs that the job may use.
    """
    if not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", text):
        return None
    ranges = [part.partition("-") for part in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


#: How nvidia-smi writes a mode; anything else is not reported.
_MODES = {"Enabled": True, "Disabled": False}


def _card(text: str) -> CardReading | None:
    """A line of nvidia-smi; None for a message in its place."""
    words = [word.strip() for word in text.split(",")]
    # a job script of an earlier version requests only the first six
    if len(words) not in (6, 8) or not re.fullmatch(r"GPU-[0-9a-fA-F-]+", words[0]):
        return None
    uuid, driver, bus, vbios, _, _, serial, mode = [*words, "", ""][:8]
    texts = (word if re.fullmatch(r"[\w.:-]+", word) else "" for word in (uuid, driver, bus, vbios, serial))
    uuid, driver, bus, vbios, serial = texts
    return CardReading(uuid, driver, bus, vbios, _MODES.get(words[4]), _MODES.get(words[5]), serial, _MODES.get(mode))


_UUID = re.compile(r"UUID: ([A-Za-z0-9-]+)\)")


def account(told: JobReport) -> JobAccount:
    """The data with which a result's identity is compared: nodes under every name that the job found for them, times,
    GPUs.
    """
    known = {told.host_of(node) for node in told.nodes} | {short(node) for node in told.nodes}
    known |= {short(host) for host in told.rank_hosts if host != "unknown"}
    known |= {short(attempt.node) for attempt in told.attempts[-1:] if attempt.node != "unknown"}
    known |= {short(command.node) for command in told.commands if command.node != "unknown"}
    begins = [c.begin for c in told.commands if c.begin is not None]
    ends = [c.end for c in told.commands if c.end is not None]
    # only the first node lists its GPUs
    uuids = [found[1] for gpu in told.gpus if (found := _UUID.search(gpu))] if len(told.nodes) == 1 else []
    return JobAccount(
        frozenset(known) if told.token is not None else frozenset(),
        told.commands[0].node if told.commands and told.commands[0].node != "unknown" else "",
        min(begins) if begins else None,
        max(ends) if ends else None,
        frozenset(uuids),
        told.host,
        told.cards if len(told.nodes) == 1 else (),
    )


def other_names(told: JobReport) -> list[str]:
    """The host names that the nodes give themselves, sorted, if the scheduler's names differ; a record stores both."""
    return sorted(account(told).nodes - {short(node) for node in told.nodes})


def nodes(text: str) -> list[str]:
    """The nodes named in a job's output; empty if there are none."""
    return list(report(text).nodes)


def end_status(text: str, token: str | None = None) -> int | None:
    """The exit status that a job printed at its end; None: it did not reach its end."""
    return report(text, token).status


def _commands(marks: Sequence[str]) -> tuple[Command, ...]:
    found: list[Command] = []
    for line in marks:
        pairs = dict(_PAIR.findall(line))
        if line.startswith("TENKEN-RUN begin "):
            found.append(Command(pairs.get("node", "unknown"), _seconds(pairs.get("time"))))
        elif line.startswith("TENKEN-RUN end ") and found and found[-1].end is None:
            status = _whole(pairs.get("status"))
            found[-1] = Command(found[-1].node, found[-1].begin, _seconds(pairs.get("time")), status)
    return tuple(found)


def _words(line: str) -> list[str]:
    return line.split()


def _is(line: str, kind: str, words: int = 0) -> bool:
    return line.startswith(f"TENKEN-{kind} ") and (not words or len(line.split()) == words)


def _whole(text: str | None) -> int | None:
    """A whole number, 0 or above; None for anything else."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None


def _seconds(text: str | None) -> float | None:
    """Output of `date +%s.%N`; a `date` without %N prints that word."""
    found = re.match(r"[0-9]{1,18}(\.[0-9]{1,18})?", text or "")
    return float(found[0]) if found else None
