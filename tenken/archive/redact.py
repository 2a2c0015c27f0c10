"""Redaction of captured documents, records, logs and pages that are kept as fixtures.

Host names, user names, home folders and absolute paths go; GPU UUIDs and PCI bus ids are replaced but stay
distinct, so that "the same GPU" remains visible.
"""

from __future__ import annotations

import argparse
import getpass
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_PCI = re.compile(r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]\b")
_PATH = re.compile(r"(?<![\w./<])/(?:home|root|work|tmp|opt|mnt|scratch|users|lustre|data|var/tmp)(?:/[\w.+@=-]+)+")

#: Stands for a folder given until the words are replaced, of which `root` may be one.
_ROOT = "\ue000"


def _pattern(word: str) -> str:
    """A name as a pattern; `:root {` of a style sheet names no user."""
    return rf"(?<!^:)(?<![\s{{}};,>]:){word}" if word == "root" else re.escape(word)


class Redactor:
    """Replaces names consistently over all texts it is given.

    `hosts` and `users` are further names to replace, besides those of the machine and user it runs as. Hosts
    become node1, node2, ... in the order met. With `devices` False, UUIDs and bus ids stay as they are.
    """

    def __init__(
        self, hosts: Iterable[str] = (), users: Iterable[str] = (), paths: Iterable[str] = (), devices: bool = True
    ) -> None:
        self._devices = devices
        names = dict.fromkeys(h for h in [*hosts, socket.gethostname()] if len(h) > 1 and h != "localhost")
        self._words: dict[str, str] = {name: f"node{i}" for i, name in enumerate(names, start=1)}
        for user in dict.fromkeys([*users, getpass.getuser()]):
            if len(user) > 3:
                self._words.setdefault(user, "user")
        self._paths = sorted({p.rstrip("/") for p in paths if len(p) > 1}, key=len, reverse=True)
        self._uuids: dict[str, str] = {}
        self._buses: dict[str, str] = {}

    def _uuid(self, match: re.Match[str]) -> str:
        fresh = f"{match[1]}-00000000-0000-0000-0000-{len(self._uuids) + 1:012d}"
        return self._uuids.setdefault(match[0], fresh)

    def _bus(self, match: re.Match[str]) -> str:
        return self._buses.setdefault(match[0], f"00000000:{len(self._buses) + 1:02X}:00.0")

    def text(self, text: str) -> str:
        """`text` with every name replaced."""
        for path in self._paths:
            text = text.replace(path, _ROOT)
        text = _PATH.sub(lambda m: "<path>/" + m[0].rsplit("/", 1)[1], text)
        if self._devices:
            text = _UUID.sub(self._uuid, text)
            text = _PCI.sub(self._bus, text)
        # all at once: a host may be called as another one is from now on
        words = "|".join(_pattern(word) for word in sorted(self._words, key=len, reverse=True))
        if words:
            text = re.sub(rf"(?<![\w-])(?:{words})(?![\w-])", lambda match: self._words[match[0]], text)
        return text.replace(_ROOT, "<root>")

    def file(self, source: Path, target: Path) -> None:
        """Write a redacted copy of a text file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.text(source.read_text(encoding="utf-8")), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m tenken.archive.redact --hosts NAME,... FILE... FOLDER`: redacted copies of the files in the folder.

    Of a folder given in the place of a file, an archive say, all JSON files are taken, in the same order of folders.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tenken.archive.redact", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--hosts", default="", help="host names to replace besides this machine's, with commas")
    parser.add_argument("--users", default="", help="user names to replace besides this user's, with commas")
    parser.add_argument("--paths", default="", help="folders to replace, with commas")
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
