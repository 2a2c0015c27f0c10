"""Formats numbers, sizes, subjects and health fields for pages. Pure functions, no I/O."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

from tenken.model.numbers import is_number
from tenken.model.quantities import coordinate, number, size
from tenken.model.result import HealthSample

__all__ = [
    "code", "coordinate", "duration", "health_cell", "is_number", "key", "natural", "number", "percent", "revision",
    "size",
]  # fmt: skip

#: NVML's clock event reasons (nvml.h, nvmlClocksEventReason*), as the result document spells them.
EVENT_REASONS = {
    "gpu_idle": "idle (nothing was running)",
    "applications_clocks_setting": "clocks set by an administrator",
    "sw_power_cap": "software power cap (normal under compute-bound load)",
    "hw_slowdown": "hardware slowdown",
    "sync_boost": "held back by sync boost",
    "sw_thermal_slowdown": "software thermal slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "hardware power brake",
    "display_clock_setting": "display clock setting",
}

#: Health fields in display order: (title, unit, keys). Several keys share one cell.
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


def percent(fraction: Any, digits: int = 1) -> str:
    """0.953 -> '95.3 %'."""
    return f"{100 * fraction:.{digits}f}\u202f%" if is_number(fraction) else "–"


def key(value: Any) -> str:
    """The sort key of a column, as an attribute; empty for text that is not a number."""
    return f"data-v={value:.6g}" if is_number(value) else ""


def duration(seconds: Any) -> str:
    """Seconds in readable form: '4.2 s', '3 min 20 s', '2 h 05 min'."""
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


def natural(text: str) -> list[Any]:
    """Sort key that puts 'GPU 2' before 'GPU 10'."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text)]


def health_cell(sample: HealthSample, keys: tuple[str, ...], unit: str) -> str:
    """One cell of the health table; empty if the device does not report it."""
    if keys == ("reasons",):
        if sample.reasons is None:
            return ""
        return ", ".join(EVENT_REASONS.get(r, r.replace("_", " ")) for r in sample.reasons) or "none"
    if len(keys) == 2:
        generation, width = (getattr(sample, k) for k in keys)
        return f"Gen{generation} x{width}" if generation is not None and width is not None else ""
    value = getattr(sample, keys[0])
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes":
        return size(value)
    return f"{number(value)}\u202f{unit}".strip() if is_number(value) else str(value)


def code(text: str) -> Markup:
    """A sentence of the terminal: text in backticks becomes code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


#: Available in every template: each page includes parts of the others.
FILTERS = {
    "key": key,
    "number": number,
    "percent": percent,
    "duration": duration,
    "size": size,
    "revision": revision,
    "code": code,
}
