"""What the job script and the scheduler report about one attempt: the result's identity is compared with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")


@dataclass(frozen=True)
class HostReading:
    """The host as the job script read it; empty or None if it could not."""

    architecture: str = ""
    kernel: str = ""
    cpu: str = ""
    logical_cpus: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class CardReading:
    """A GPU as nvidia-smi described it to the job script; empty or None if not reported."""

    uuid: str
    driver: str = ""
    pci_bus_id: str = ""
    vbios: str = ""
    mig_enabled: bool | None = None
    ecc_enabled: bool | None = None
    serial: str = ""
    persistence_mode: bool | None = None


@dataclass(frozen=True)
class JobAccount:
    """One attempt as seen from outside the program; None or empty: unknown.

    `nodes` are short host names, by the scheduler's own map and the site's aliases; `node` is the one whose clock gave
    `begin` and `end`, seconds since 1970 around the command; `uuids` are those of the GPUs of the first node, `host`
    and `cards` what the script read there.
    """

    nodes: frozenset[str] = frozenset()
    node: str = ""
    begin: float | None = None
    end: float | None = None
    uuids: frozenset[str] = frozenset()
    host: HostReading = field(default_factory=HostReading)
    cards: tuple[CardReading, ...] = ()


def short(host: str) -> str:
    """The one name of a node: its host name without the domain, in lower case, since a host and its scheduler may spell
    it differently, as may a scheduler that was reinstalled. An address is returned unchanged.
    """
    return host if _ADDRESS.fullmatch(host) else host.split(".")[0].lower()


def job_name(token: str) -> str:
    """The name of a job by which it is found where a scheduler shows eight characters of it and no other mark: `tk` and
    six digits of base 36, from a hexadecimal token.
    """
    number, digits = int(token[:16], 16), ""
    for _ in range(6):
        number, digit = divmod(number, 36)
        digits += "0123456789abcdefghijklmnopqrstuvwxyz"[digit]
    return f"tk{digits}"
