"""Numbers, sizes, subjects and health fields in the words that a page uses. Pure functions, no I/O."""

from __future__ import annotations

import math
import re
from typing import Any

#: Worst first: the verdict of several things together is the first of these that any of them has.
VERDICTS = ("FAIL", "INVALID", "PASS", "WAIVED")

#: NVML's clock event reasons (nvml.h, nvmlClocksEventReason*), as the result document spells them.
EVENT_REASONS = {
    "gpu_idle": "idle (nothing was running)",
    "applications_clocks_setting": "clocks set by an administrator",
    "sw_power_cap": "software power cap (normal under compute-bound load)",
    "hw_slowdown": "hardware slow-down",
    "sync_boost": "held back by sync boost",
    "sw_thermal_slowdown": "software thermal slow-down",
    "hw_thermal_slowdown": "hardware thermal slow-down",
    "hw_power_brake_slowdown": "hardware power brake",
    "display_clock_setting": "display clock setting",
}

#: Health fields in the order in which they are read: (title, unit, keys). Several keys share one cell.
HEALTH_FIELDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("SM clock", "MHz", ("sm_clock_mhz",)),
    ("Memory clock", "MHz", ("memory_clock_mhz",)),
    ("Power", "W", ("power_w",)),
    ("Temperature", "°C", ("temperature_c",)),
    ("Memory temperature", "°C", ("memory_temperature_c",)),
    ("Clock events", "", ("reasons",)),
    ("ECC errors, corrected", "", ("ecc_corrected",)),
    ("ECC errors, uncorrected", "", ("ecc_uncorrected",)),
    ("Rows remapped, correctable", "", ("remapped_rows_correctable",)),
    ("Rows remapped, uncorrectable", "", ("remapped_rows_uncorrectable",)),
    ("Row remapping pending", "", ("remapping_pending",)),
    ("PCIe link", "", ("pcie_generation", "pcie_width")),
    ("NVLinks active", "", ("nvlinks_active",)),
    ("Other processes", "", ("other_processes",)),
    ("Memory used", "bytes", ("memory_used_bytes",)),
    ("Utilisation", "%", ("utilization_percent",)),
)

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def is_number(value: Any) -> bool:
    """True for a finite int or float that is not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(value: Any, digits: int = 4) -> str:
    """`digits` significant digits, never fewer than the integer part has; an en dash for no number."""
    if not is_number(value):
        return "–"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude >= 9 or magnitude < -4:
        return f"{value:.{digits - 1}e}"
    if isinstance(value, int):
        return _grouped(str(value))
    return _grouped(f"{value:.{max(0, digits - 1 - magnitude)}f}")


def _grouped(text: str) -> str:
    """Thin spaces between thousands from five integer digits on (4395, but 32 751)."""
    sign, body = ("−", text[1:]) if text.startswith("-") else ("", text)
    whole, dot, fraction = body.partition(".")
    if len(whole) > 4:
        whole = f"{int(whole):,}".replace(",", "\u202f")
    return sign + whole + dot + fraction


def percent(fraction: Any, digits: int = 1) -> str:
    """0.953 -> '95.3 %'."""
    return f"{100 * fraction:.{digits}f}\u202f%" if is_number(fraction) else "–"


def size(count: Any) -> str:
    """Bytes in the largest binary unit that keeps the number at 1 or more: 4096 -> '4 KiB'."""
    if not is_number(count):
        return "–"
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value /= 1024
        unit += 1
    return f"{value:.4g}\u202f{_BINARY[unit]}"


def duration(seconds: Any) -> str:
    """Seconds as a person says them: '4.2 s', '3 min 20 s', '2 h 05 min'."""
    if not is_number(seconds) or seconds < 0:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f}\u202fs"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u202fmin {rest:02d}\u202fs"
    return f"{minutes // 60}\u202fh {minutes % 60:02d}\u202fmin"


def revision(text: str) -> str:
    """A git revision with twelve digits of its hash, which is long enough to find it and fits on a line."""
    return re.sub(r"^([0-9a-f]{12})[0-9a-f]{28}", r"\1", text)


def coordinate(key: str, value: Any) -> str:
    """One coordinate of a sweep: bytes=4096 -> '4 KiB', threads=8 -> 'threads 8', kernel=tile -> 'tile'."""
    if isinstance(value, str) and not re.fullmatch(r"[-+.\d]+", value):
        return value
    if key == "bytes" or key.endswith("_bytes"):
        text = size(value)
        return text if key == "bytes" else f"{key[:-6].replace('_', ' ')} {text}"
    return f"{key.replace('_', ' ')} {number(value) if is_number(value) else value}"


def split_metric_id(metric_id: str) -> tuple[str, str, dict[str, str]]:
    """'peer.gpu0-gpu1.bytes=4096' -> ('peer', 'gpu0-gpu1', {'bytes': '4096'})."""
    name, _, rest = metric_id.partition(".")
    # A coordinate's value may hold a point (ratio=0.5): only a part with '=' opens the next one.
    subject, at, key = "", {}, ""
    for part in rest.split(".") if rest else []:
        if "=" in part:
            key, _, value = part.partition("=")
            at[key] = value
        elif key:
            at[key] += "." + part
        else:
            subject = f"{subject}.{part}" if subject else part
    return name, subject, at


def subject_words(subject: Any) -> str:
    """The document's subject object, or the subject part of a metric id, as words: 'GPU 0', 'GPU 0 → 1'."""
    if isinstance(subject, dict):
        if "from" in subject and "to" in subject:
            return f"GPU {subject['from']} → {subject['to']}"
        for key, text in (("gpu", "GPU {}"), ("ranks", "{} ranks")):
            if key in subject:
                return text.format(subject[key])
        return "host"
    text = str(subject)
    pair = re.fullmatch(r"gpu(\d+)-gpu(\d+)", text)
    if pair:
        return f"GPU {pair[1]} → {pair[2]}"
    one = re.fullmatch(r"gpu(\d+)", text)
    if one:
        return f"GPU {one[1]}"
    ranks = re.fullmatch(r"ranks=?(\d+)", text)
    return f"{ranks[1]} ranks" if ranks else text or "host"


def natural(text: str) -> list[Any]:
    """Sort key that puts 'GPU 2' before 'GPU 10'."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text)]


def health_cell(sample: Any, keys: tuple[str, ...], unit: str) -> str:
    """One cell of the health table; empty when the device does not tell."""
    if not isinstance(sample, dict):
        return ""
    if keys == ("reasons",):
        reasons = sample.get("reasons")
        if not isinstance(reasons, list):
            return ""
        return ", ".join(EVENT_REASONS.get(str(r), str(r).replace("_", " ")) for r in reasons) or "none"
    if len(keys) == 2:
        generation, width = (sample.get(k) for k in keys)
        return f"Gen{generation} x{width}" if generation is not None and width is not None else ""
    value = sample.get(keys[0])
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes":
        return size(value)
    return f"{number(value)}\u202f{unit}".strip() if is_number(value) else str(value)


def worst(verdicts: Any) -> str:
    """The verdict of several together; unknown words count as FAIL, none at all is PASS."""
    found = [v if v in VERDICTS else "FAIL" for v in verdicts]
    return min(found, key=VERDICTS.index) if found else "PASS"
