"""Redaction of captured documents, records, logs and pages that are stored as fixtures.

Host names with their domains, user names, home folders and absolute paths, addresses (IPv4, IPv6, MAC, GUIDs of
InfiniBand) and serial numbers are removed; GPU UUIDs and PCI bus ids are replaced. Replacements are distinct, so that
"the same GPU" remains visible. Versions, times and numbers of the same form are retained: an address is distinguished
from a version by the preceding word.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

_HEX = "[0-9a-fA-F]"
_UUID = re.compile(
    rf"(?<![0-9A-Za-z])((?i:GPU|MIG)-(?:GPU-)?)?{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?![0-9A-Za-z])"
)
_PCI = re.compile(r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]\b")
#: Folders at the root that contain files of users and sites; those of every Linux are not confidential.
_SYSTEM_FOLDERS = "usr|lib|lib64|bin|sbin|etc|proc|sys|dev|run|boot|snap"
_PATH = re.compile(
    rf"(?:(?<=file://)|(?<![\w./<*]))/(?!(?:{_SYSTEM_FOLDERS})(?![\w.+@=~:%,-]))(?=[A-Za-z._~])[\w.+@=~%,-]+(?:/+[\w.+@=~:%,-]+)+/?"
)
_MAC = re.compile(rf"(?<![0-9A-Za-z:.-])(?:{_HEX}{{2}}[:-]){{5,19}}{_HEX}{{2}}(?![0-9A-Za-z:-]|\.[0-9])")
_GUID = re.compile(rf"(?<![0-9A-Za-z:])(?:0x(?!000000){_HEX}{{16}}|(?:{_HEX}{{4}}:){{3}}{_HEX}{{4}})(?![0-9A-Za-z:])")
_IPV4 = re.compile(r"(?<![0-9A-Za-z.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])")
_IPV6 = re.compile(rf"(?<![0-9A-Za-z:.])(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}(?:%\w+)?(?![0-9A-Za-z:])")
#: Words before four numbers with points that make them a version, for instance of a library.
_VERSION = re.compile(
    r"(?i)(?:\bv|version|release|driver|firmware|vbios|bios|fw|rev(?:ision)?|build|compiler|\bcu[a-z]+|nccl|mpi|ucx|gcc|"
    r"lib[a-z0-9_]*|[a-z]*blas|lapack|mkl|hdf5|nvcc|nvml|nvshmem|hpcx|ofed)[\"' :=(/-]{0,5}$"
)
#: Host names that were not given: three words or more and a country, or a name of a network.
_COUNTRIES = "jp|de|fr|uk|ch|it|es|fi|se|nl|be|at|cz|pt|kr|cn|tw|sg|au|ca|br|us|eu|no|dk|ie|il|nz|za"
_DOMAIN = re.compile(
    r"(?i)(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,8}?"
    rf"(?:(?:[a-z0-9][a-z0-9-]{{0,62}}\.)(?:{_COUNTRIES})|edu|gov|mil|org|net|com|int|local|lan|localdomain|internal)(?![\w-]|\.\w)"
)
#: Public domains, of standards and vendors, that do not identify a site.
_PUBLIC = re.compile(r"(?i)(?:.*\.)?(?:w3|json-schema|python|reframe-hpc)\.org|(?:.*\.)?(?:nvidia|github|example)\.com")
#: File extensions, which are not a domain after a host name.
_ENDS = "json|log|txt|out|err|ya?ml|csv|html|xz|gz|tar|py|sh|tmp|h[0-9]"
_SERIAL = re.compile(
    r"(?i)((?<![a-z])(?:serial(?:[ _-]?(?:number|no|nr))?|(?:board|asset|product|chassis)[ _-]?(?:serial|tag|id)|"
    r"service[ _-]?tag|s/n)[\"' ]{0,3}[:=#][\"' ]{0,4})([A-Za-z0-9][\w/-]{3,})"
)
#: Addresses of no machine in particular.
_KEPT_ADDRESSES = ("127.0.0.1", "0.0.0.0", "255.255.255.255", "255.255.255.0")

#: Placeholder for a given folder until all words are replaced, since `root` may be one of them.
_ROOT = "\ue000"


class Redactor:
    """Replaces names consistently in all texts. `hosts` and `users` are names to replace in addition to those of this
    machine and user. Hosts become node1, node2, ... in order of appearance. With `devices` False, UUIDs and bus ids
    are retained.
    """

    def __init__(
        self, hosts: Iterable[str] = (), users: Iterable[str] = (), paths: Iterable[str] = (), devices: bool = True
    ) -> None:
        self._devices = devices
        names = dict.fromkeys(h.lower() for h in [*hosts, socket.gethostname()] if len(h) > 1 and h != "localhost")
        self._hosts: dict[str, str] = {name: f"node{i}" for i, name in enumerate(names, start=1)}
        known = dict.fromkeys(users)
        with contextlib.suppress(KeyError, OSError):  # in a container a user may have no name
            known[getpass.getuser()] = None
        self._users = [user for user in known if len(user) > 3 and user.lower() not in self._hosts]
        self._domains: dict[str, str] = {}
        self._paths = sorted({p.rstrip("/") for p in paths if len(p) > 1}, key=len, reverse=True)
        self._uuids: dict[str, str] = {}
        self._buses: dict[str, str] = {}
        self._macs: dict[str, str] = {}
        self._guids: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._serials: dict[str, str] = {}

    def _uuid(self, match: re.Match[str]) -> str:
        kind = match[1] or ""
        fresh = f"{kind}00000000-0000-0000-0000-{len(self._uuids) + 1:012d}"
        return self._uuids.setdefault(match[0].lower(), fresh)

    def _mac(self, match: re.Match[str]) -> str:
        mark = match[0][2]
        fresh = f"02:00:00:00:{len(self._macs) // 256:02x}:{len(self._macs) % 256 + 1:02x}"
        return self._macs.setdefault(match[0].lower().replace("-", ":"), fresh).replace(":", mark)

    def _guid(self, match: re.Match[str]) -> str:
        fresh = f"{len(self._guids) + 1:016x}"
        number = self._guids.setdefault(match[0].lower().removeprefix("0x").replace(":", ""), fresh)
        return f"0x{number}" if match[0][1] == "x" else ":".join(number[i : i + 4] for i in range(0, 16, 4))

    def _ipv4(self, match: re.Match[str]) -> str:
        if match[0] in _KEPT_ADDRESSES or _VERSION.search(match.string[max(0, match.start() - 24) : match.start()]):
            return match[0]
        if any(int(part) > 255 for part in match[0].split(".")):
            return match[0]
        # of the range reserved for documentation (RFC 5737)
        count = len(self._addresses)
        return self._addresses.setdefault(match[0], f"192.0.{2 + count // 254}.{count % 254 + 1}")

    def _ipv6(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv6Address(match[0].partition("%")[0])
        except ValueError:  # a time, a colour, a C++ name
            return match[0]
        if address.is_loopback or address.is_unspecified:
            return match[0]
        # of the range reserved for documentation (RFC 3849)
        return self._addresses.setdefault(str(address), f"2001:db8::{len(self._addresses) + 1:x}")

    def _serial(self, match: re.Match[str]) -> str:
        if not any(c.isdigit() for c in match[2]):
            return match[0]
        return match[1] + self._serials.setdefault(match[2], f"SERIAL{len(self._serials) + 1}")

    def _bus(self, match: re.Match[str]) -> str:
        return self._buses.setdefault(match[0], f"00000000:{len(self._buses) + 1:02X}:00.0")

    def _name(self, match: re.Match[str]) -> str:
        host = match.groupdict().get("host")
        return "user" if host is None else self._hosts[host.lower()]

    def _domain(self, match: re.Match[str]) -> str:
        if _PUBLIC.fullmatch(match[0]):
            return match[0]
        return self._domains.setdefault(match[0].lower(), f"host{len(self._domains) + 1}")

    def text(self, text: str) -> str:
        """`text` with every name replaced."""
        for path in self._paths:
            text = text.replace(path, _ROOT)
        text = _PATH.sub(lambda m: "<path>/" + m[0].rstrip("/").rsplit("/", 1)[1], text)
        if self._devices:
            text = _UUID.sub(self._uuid, text)
            text = _PCI.sub(self._bus, text)
        text = _SERIAL.sub(self._serial, text)
        text = _MAC.sub(self._mac, text)
        text = _GUID.sub(self._guid, text)
        text = _IPV6.sub(self._ipv6, text)
        text = _IPV4.sub(self._ipv4, text)
        # in a single pass, since a new name may equal the old name of another host
        hosts, users = (
            "|".join(re.escape(word) for word in sorted(some, key=len, reverse=True))
            for some in (self._hosts, self._users)
        )
        named = [rf"(?P<host>(?i:{hosts}))(?:\.(?!(?:{_ENDS})\b)[A-Za-z][A-Za-z0-9-]*)*"] * bool(hosts)
        named += [f"(?:{users})"] * bool(users)
        if named:
            # CSS has a `:root`
            before = r"(?<![\w-])(?<![\s,{};>+~(:]:)(?<!\A:)"
            text = re.sub(rf"{before}(?:{'|'.join(named)})(?![\w-])", self._name, text)
        text = _DOMAIN.sub(self._domain, text)
        return text.replace(_ROOT, "<root>")

    def file(self, source: Path, target: Path) -> None:
        """Write a redacted copy of a text file; a record is marked as redacted and has no seal (docs/seal.md)."""
        text = self.text(source.read_text(encoding="utf-8"))
        marked = re.sub(r'\A\{\s*"record":', '{"derived":"names were replaced; unsealed","record":', text)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(marked, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m tenken.archive.redact --hosts NAME,... FILE... FOLDER`: redacted copies of the files in the folder.

    If a folder is given instead of a file, such as an archive, all its JSON files are redacted and the folder
    structure is retained.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tenken.archive.redact", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--hosts", default="", help="further host names to replace (comma-separated); this machine's is always replaced"
    )
    parser.add_argument(
        "--users", default="", help="further user names to replace (comma-separated); this user's is always replaced"
    )
    parser.add_argument("--paths", default="", help="folders to replace (comma-separated)")
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(argv)

    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    redactor = Redactor(words(options.hosts), words(options.users), words(options.paths))
    for given in options.files:
        for file in sorted(given.rglob("*.json")) if given.is_dir() else [given]:
            name = file.relative_to(given) if given.is_dir() else Path(file.name)
            redactor.file(file, options.folder / name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
