"""Power supplies, fans and coolant of a node, read from its BMC by Redfish; nothing is changed there.

Only GET requests, within a maximum time per node, over HTTPS with its certificate verified unless the campaign file
states otherwise. User and password come from the environment or a file that others cannot read. They are sent only to
the address in the campaign file (redirects and links to other hosts are not followed) and stored nowhere. An unreadable
part of a BMC voids only itself, and is named.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import stat
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from tenken.errors import TenkenError

#: The readings of all nodes, in the folder of a campaign.
FILE = "hardware.json"
USER, PASSWORD, CREDENTIALS = "TENKEN_REDFISH_USER", "TENKEN_REDFISH_PASSWORD", "TENKEN_REDFISH_CREDENTIALS"
#: The readings as table, one line per node and reading, in the same folder.
READINGS = "hardware-readings.jsonl"
#: Limits: seconds per node; seconds, bytes and redirects per answer. Nodes at once.
_SECONDS, _ONE_SECONDS, _BYTES, _HOPS, _AT_ONCE = 300.0, 10.0, 4 << 20, 5, 32
_REDIRECTS = (301, 302, 303, 307, 308)
_SHORT_SECONDS = 20.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_ROOT = "/redfish/v1"
#: Places below a chassis, of which the first that has any part counts: since 2020, since 2025, and on older BMCs.
_PARTS: Mapping[str, Sequence[Sequence[str]]] = {
    "power supply": (("PowerSubsystem", "PowerSupplies"), ("Power", "PowerSupplies")),
    "fan": (("ThermalSubsystem", "Fans"), ("Thermal", "Fans")),
    "coolant connector": (("ThermalSubsystem", "CoolantConnectors"),),
    "leak detector": (
        ("ThermalSubsystem", "LeakDetection", "LeakDetectors"), ("LeakDetectors",),
        ("ThermalSubsystem", "LeakDetection", "LeakDetectorGroups", "Detectors"),
    ),
}  # fmt: skip
_PLURAL = {"power supply": "power supplies"}


@dataclass(frozen=True)
class Hardware:
    """What a BMC reports: `items` to compare between nodes, `faults` that are faults on any node, `readings` by name
    (`power_w`: of the node, in W; `leaks`: number of detectors that report one); `error`: unreadable parts."""

    items: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    error: str = ""
    readings: dict[str, float] = field(default_factory=dict)


class RedfishError(TenkenError):
    """BMCs that cannot be read at all, in one line."""


class BmcError(Exception):
    """One line for a BMC, or a resource of it, that cannot be read."""


class _TimeUpError(BmcError):
    """Nothing more can be read from it."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could take the password to another host: `Bmc.get` follows those that do not."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def credentials(environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """User and password. Raises RedfishError if there are none or others could read them."""
    named = environment.get(CREDENTIALS)
    if named:
        path = Path(named)
        try:
            mode = path.stat().st_mode
            words = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8 text"
            raise RedfishError(f"{CREDENTIALS}: {path} cannot be read: {why}") from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise RedfishError(f"{CREDENTIALS}: {path} is readable by other users; allowed: mode 600 or 400")
        if len(words) < 2 or not words[0] or not words[1]:
            raise RedfishError(f"{CREDENTIALS}: {path} needs two lines: user and password")
        return words[0], words[1]
    user, password = environment.get(USER, ""), environment.get(PASSWORD, "")
    if not user or not password:
        raise RedfishError(f"set {USER} and {PASSWORD}, or {CREDENTIALS} to a file of two lines (mode 600)")
    return user, password


def fault_of_address(address: str) -> str | None:
    """What is wrong with an address in the campaign file; None if nothing."""
    try:
        parts = urlsplit(address.replace("{node}", "n1"))
        port_is_a_number = parts.port is None or parts.port > 0
    except ValueError:
        return "is not a URL; write https://{node}-bmc"
    if not parts.hostname or not port_is_a_number:
        return "is not a URL; write https://{node}-bmc"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "names more than a host; write https://{node}-bmc"
    if parts.username or parts.password:
        return f"contains a user name or a password; set them by {USER} and {PASSWORD} or {CREDENTIALS}"
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return "would send the password unencrypted; write https://"
    return None


class Bmc:
    """One BMC, with its limits of time and size."""

    def __init__(
        self, address: str, login: tuple[str, str], context: ssl.SSLContext | None = None, seconds: float = _SECONDS
    ) -> None:
        self.address, self.until = address.rstrip("/"), time.monotonic() + seconds
        self.seconds = seconds
        #: Unreadable parts, in the order found.
        self.unread: list[str] = []
        token = base64.b64encode(f"{login[0]}:{login[1]}".encode()).decode()
        self.headers = {"Authorization": f"Basic {token}", "Accept": "application/json", "OData-Version": "4.0"}
        # no proxy: a BMC is on the site's own network
        handlers = [urllib.request.ProxyHandler({}), _NoRedirects()]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self.opener = urllib.request.build_opener(*handlers)

    def get(self, path: str) -> dict[str, Any] | None:
        """A resource; None if it does not exist. Raises BmcError."""
        for _ in range(_HOPS):
            found = self._get(path)
            if not isinstance(found, str):
                return found
            path = found
        raise BmcError(f"{path}: more than {_HOPS} redirects")

    def _get(self, path: str) -> dict[str, Any] | str | None:
        """A resource, or the path on this BMC that its answer redirects to."""
        if "://" in path:  # a link, in full
            path = self._here(_ROOT, path) or ""
        if not (path == _ROOT or path.startswith(f"{_ROOT}/")) or any(c in path for c in " \r\n\t\\") or ".." in path:
            raise BmcError(f"a link does not lead below {_ROOT}")
        request = urllib.request.Request(self.address + path, headers=self.headers, method="GET")
        left = self.until - time.monotonic()
        if left <= 0:
            raise _TimeUpError(f"not read within {self.seconds:g} s")
        try:
            with self.opener.open(request, timeout=min(left, _ONE_SECONDS)) as answer:
                text = self._read(answer)
            found = json.loads(text.decode("utf-8-sig", "replace"), strict=False)
        except urllib.error.HTTPError as error:
            if error.code in (404, 405, 501):
                return None
            if error.code in _REDIRECTS and (elsewhere := self._here(path, error.headers.get("Location"))):
                return elsewhere
            known = {401: "user or password is not accepted", 403: "the user may not read it"}
            raise BmcError(
                f"{path}: HTTP {error.code}{': ' + known[error.code] if error.code in known else ''}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise BmcError(f"no answer: {str(why) or type(why).__name__}") from None
        except (ValueError, RecursionError):
            raise BmcError(f"{path}: the answer is not JSON") from None
        if not isinstance(found, dict):
            raise BmcError(f"{path}: the answer is not a JSON object")
        return found

    def _read(self, answer: Any) -> bytes:
        """The whole answer, read in pieces, since a slow one must not exceed the remaining time."""
        parts: list[bytes] = []
        size = 0
        while part := answer.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if size > _BYTES:
                raise BmcError(f"an answer has more than {_BYTES} bytes")
            if time.monotonic() > self.until:
                raise _TimeUpError(f"not read within {self.seconds:g} s")
        return b"".join(parts)

    def _here(self, path: str, location: str | None) -> str | None:
        """The path of a redirect on this BMC; None: it leads to another host, or nowhere."""
        if not location:
            return None
        try:
            asked, there = urlsplit(self.address), urlsplit(urljoin(self.address + path, location))
            # requested with our own scheme and port, whatever a BMC behind a proxy reports as its own
            same = asked.hostname == there.hostname and there.port in (None, asked.port, 443)
        except ValueError:
            return None
        return f"{there.path}?{there.query}" if same and there.query else there.path if same else None

    def members(self, collection: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
        """The members of a collection, including further pages, without those that cannot be read."""
        pages: set[str] = set()
        while collection is not None:
            listed = collection.get("Members")
            bad = sum(not isinstance(link, dict) for link in listed) if isinstance(listed, list) else listed is not None
            if bad:
                self.unread.append(f"{_word(collection.get('@odata.id'))}: {int(bad)} members that are not links")
            for link in _list(listed):
                # some BMCs include the members themselves
                found = link if "Status" in link or "@odata.id" not in link else self.follow(link)
                if found is not None:
                    yield found
            following = collection.get("Members@odata.nextLink")
            if isinstance(following, str) and following in pages:
                self.unread.append(f"{following} was read before: its pages form a loop")
                return
            pages.add(str(following))
            collection = self.follow({"@odata.id": following})

    def follow(self, link: Any) -> dict[str, Any] | None:
        """The target of a link; None if it has none, or if it is unreadable, which is added to `unread`."""
        path = link.get("@odata.id") if isinstance(link, dict) else None
        try:
            return self.get(path) if isinstance(path, str) else None
        except _TimeUpError:
            raise
        except BmcError as error:
            said = str(error)
            self.unread.append(said if str(path) in said else f"{_word(path)}: {said}")
            return None


def read(bmc: Bmc) -> Hardware:
    """Power supplies, fans and coolant of all chassis of a BMC."""
    items: dict[str, str] = {}
    faults: list[str] = []
    watts: list[float] = []
    of: dict[str, list[dict[str, Any]]] = {label: [] for label in _PARTS}
    try:
        chassis = bmc.get(f"{_ROOT}/Chassis")
        if chassis is None:
            return Hardware(error=f"no {_ROOT}/Chassis: not a Redfish service")
        for one in bmc.members(chassis):
            for label, found in _parts(bmc, one):
                of[label] += found
            watts += _watts(bmc, one)
    except BmcError as error:
        bmc.unread.append(str(error))
    for label, parts in of.items():
        there = [p for p in parts if _state(p)[0] != "Absent"]
        if parts:
            items[_PLURAL.get(label, f"{label}s")] = _listed(map(_model, there)) or "none"
        faults += [f"{label} {_name(p)}: {fault}" for p in there if (fault := _fault(label, p))]
    supplied = [] if watts else [_supplied(bmc, p) for p in of["power supply"] if _state(p)[0] != "Absent"]
    if supplied and None not in supplied:
        watts.append(sum(filter(None, supplied)))
    readings = {"power_w": max(watts)} if watts else {}
    if of["leak detector"]:
        readings["leaks"] = float(sum(_fault("leak detector", p) is not None for p in of["leak detector"]))
    return Hardware(items, sorted(faults), "; ".join(dict.fromkeys(bmc.unread)), readings)


def power(bmc: Bmc, places: Sequence[str] = ()) -> tuple[float, tuple[str, ...]]:
    """The power of a node in W, and the resources that gave it, for the next reading. Raises BmcError."""
    if places:
        found = [(place, list(_watts_in(bmc.get(place) or {}))) for place in places]
    else:
        links = [
            link
            for chassis in bmc.members(bmc.get(f"{_ROOT}/Chassis"))
            for link in (chassis.get("EnvironmentMetrics"), chassis.get("Power"))
        ]
        paths = [str(link["@odata.id"]) for link in links if isinstance(link, dict) and "@odata.id" in link]
        found = [(path, list(_watts_in(bmc.follow({"@odata.id": path}) or {}))) for path in paths]
    stated = [(place, watts) for place, watts in found if watts]
    if not stated:
        raise BmcError("; ".join(["no chassis states its power", *bmc.unread[:1]]))
    return max(max(watts) for _, watts in stated), tuple(place for place, _ in stated)


def _watts(bmc: Bmc, chassis: Mapping[str, Any]) -> Iterator[float]:
    """Power that a chassis draws, in W. The node's reading is that of its largest chassis, since parts report
    separately."""
    now = bmc.follow(chassis.get("EnvironmentMetrics")) or {}
    stated = list(_watts_in(now))
    # the metrics of a chassis may contain only temperatures
    yield from stated or _watts_in(bmc.follow(chassis.get("Power")) or {})


def _watts_in(resource: Mapping[str, Any]) -> Iterator[float]:
    told = resource.get("PowerControl")  # some BMCs have one where others have a list
    controls = (one.get("PowerConsumedWatts") for one in _list([told] if isinstance(told, dict) else told))
    yield from (watts for watts in map(_number, [resource.get("PowerWatts"), *controls]) if watts is not None)


def _supplied(bmc: Bmc, supply: Mapping[str, Any]) -> float | None:
    """Power in W that a supply draws, for nodes where no chassis reports it; None: not reported."""
    try:
        metrics = bmc.follow(supply.get("Metrics")) or {}
    except _TimeUpError as error:
        bmc.unread.append(str(error))
        return None
    return next(filter(None, map(_number, (metrics.get("InputPowerWatts"), supply.get("PowerInputWatts")))), None)


def _number(reading: Any) -> float | None:
    """A power in W, or the `Reading` of a sensor excerpt; some BMCs write it as text. None: there is none."""
    value = reading.get("Reading") if isinstance(reading, dict) else reading
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,6}(\.\d{1,9})?\s*", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value < 1e6 else None


def _parts(bmc: Bmc, chassis: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """By label; for a BMC with several kinds of resources, the newer ones."""
    fetched: dict[str, dict[str, Any] | None] = {}
    for label, places in _PARTS.items():
        yield label, next(filter(None, (_at(bmc, chassis, place, fetched) for place in places)), [])


def _at(
    bmc: Bmc, chassis: Mapping[str, Any], place: Sequence[str], fetched: dict[str, dict[str, Any] | None]
) -> list[dict[str, Any]]:
    """The parts at a place: the members of a collection, or the lists that resources there have."""
    at: list[dict[str, Any]] = [dict(chassis)]
    for step in place:
        found: list[dict[str, Any]] = []
        for one in at:
            told = one.get(step)
            if isinstance(told, list):
                found += _list(told)
                continue
            key = f"{step} of {one.get('@odata.id')}"
            if key not in fetched:
                fetched[key] = bmc.follow(told)
            resource = fetched[key]
            if resource is not None:
                found += bmc.members(resource) if step == place[-1] else [resource]
        at = found
    return at


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _state(part: Mapping[str, Any]) -> tuple[str, str]:
    status = part.get("Status")
    status = status if isinstance(status, dict) else {}
    return str(status.get("State") or ""), str(status.get("Health") or "")


def _name(part: Mapping[str, Any]) -> str:
    keys = ("Name", "FanName", "DeviceName", "MemberId", "Id")
    return _word(next(filter(None, map(part.get, keys)), "without name"))


def _word(value: Any) -> str:
    """One line of printable text, since it appears in reports."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())[:80]


def _model(part: Mapping[str, Any]) -> str:
    """Properties that are equal for equal parts: no serial numbers or readings."""
    words = [part.get(key) for key in ("Manufacturer", "Model", "FirmwareVersion", "CoolantConnectorType")]
    watts = part.get("PowerCapacityWatts")
    return " ".join(_word(w) for w in (*words, f"{watts} W" if watts else None) if w) or "present"


def _fault(label: str, part: Mapping[str, Any]) -> str | None:
    state, health = _state(part)
    if label == "leak detector" and str(part.get("DetectorState") or "OK") != "OK":
        return f"detector state {_word(part['DetectorState'])}"
    if health in ("Warning", "Critical"):
        return f"health {health}"
    if state == "UnavailableOffline":
        return f"state {state}"
    return None


def _listed(values: Any) -> str:
    counts = Counter(v for v in values if v)
    return ", ".join(f"{n} x {v}" if n > 1 else v for v, n in sorted(counts.items()))


def collect(
    nodes: Sequence[str], address: str, login: tuple[str, str], context: ssl.SSLContext | None = None,
    seconds: float = _SECONDS, said: Any = None,
) -> dict[str, Hardware]:  # fmt: skip
    """Reads all nodes, several at once; `said` is called with each node's name when it is done."""

    def one(node: str) -> tuple[str, Hardware]:
        found = read(Bmc(address.replace("{node}", node), login, context, seconds))
        if said is not None:
            said(node)
        return node, found

    with ThreadPoolExecutor(min(_AT_ONCE, max(len(nodes), 1))) as pool:
        return dict(pool.map(one, nodes))


def connector(address: str, ca: Path | None, verify: bool) -> Callable[[str], Bmc]:
    """Makes the connection to a node's BMC for one short reading. Raises RedfishError without user and password, or
    where the file of the CA cannot be read.
    """
    login, made = credentials(), context(ca, verify) if address.startswith("https") else None
    return lambda node: Bmc(address.replace("{node}", node), login, made, _SHORT_SECONDS)


def context(ca: Path | None, verify: bool) -> ssl.SSLContext:
    """How certificates of BMCs are verified. Raises RedfishError if the CA file cannot be read."""
    try:
        made = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise RedfishError(f"'redfish.ca': {ca} cannot be read: {getattr(error, 'strerror', error)}") from None
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def text(found: Mapping[str, Hardware]) -> str:
    """What is stored in a campaign's folder."""
    kept = {
        n: {"items": h.items, "faults": h.faults, "error": h.error, "readings": h.readings}
        for n, h in sorted(found.items())
    }
    return json.dumps(kept, indent=1) + "\n"


def readings(found: Mapping[str, Hardware], moment: str) -> str:
    """Lines of READINGS: one for each node that reports any. `moment`: UTC, ISO 8601."""
    return "".join(
        json.dumps({"time": moment, "node": node, **one.readings}) + "\n"
        for node, one in sorted(found.items())
        if one.readings
    )


def kept(folder: Path) -> dict[str, Hardware]:
    """The readings of a campaign's nodes; empty if there are none. Raises RedfishError if the file is damaged."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {str(node): _kept_one(one) for node, one in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RedfishError(
            f"{folder / FILE} is damaged; `tenken campaign hardware {folder.name}` writes it again"
        ) from None


def _kept_one(one: Mapping[str, Any]) -> Hardware:
    items = {str(item): str(value) for item, value in one["items"].items()}
    read = {str(name): float(value) for name, value in one.get("readings", {}).items()}
    return Hardware(items, [str(fault) for fault in one["faults"]], str(one["error"]), read)
