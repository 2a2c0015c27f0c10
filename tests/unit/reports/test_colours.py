"""Colours with a meaning are distinguishable for readers with deuteranopia, and stand out from their background."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from tenken.report.page import TEMPLATES

#: Colours of verdicts, and of marks in plots; the first series' colour is that of most bars.
ROLES = ("PASS", "RECORDED", "FAIL", "INVALID", "WAIVED", "reference", "limit")
#: Linear RGB as a person with deuteranopia sees it (Machado, Oliveira and Fernandes 2009, severity 1).
DEUTERANOPIA = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.95047, 1.0, 1.08883)
    xyz = [sum(a * b for a, b in zip(row, rgb, strict=True)) / w for row, w in zip(rows, white, strict=True)]
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def apart(one: str, other: str) -> float:
    """CIE 1976 difference of two colours as seen with deuteranopia."""

    def seen(colour: str) -> list[float]:
        rgb = linear(colour)
        return [min(1.0, max(0.0, sum(a * b for a, b in zip(row, rgb, strict=True)))) for row in DEUTERANOPIA]

    return math.dist(lab(seen(one)), lab(seen(other)))


def contrast(one: str, other: str) -> float:
    light = [sum(k * c for k, c in zip((0.2126, 0.7152, 0.0722), linear(h), strict=True)) for h in (one, other)]
    return (max(light) + 0.05) / (min(light) + 0.05)


def palettes() -> list[dict[str, str]]:
    """Light and dark: the style sheet's two lists of colours."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    lists = re.findall(r":root \{(.*?)\}", style, re.S)[:2]
    return [dict(re.findall(r"--(\w[\w-]*): (#[0-9a-f]{6})", text)) for text in lists]


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark"])
def test_what_means_something_else_looks_different(palette):
    close = {(a, b): round(apart(palette[a], palette[b]), 1) for a, b in itertools.combinations(ROLES, 2)}
    assert min(close.values()) >= 11, sorted(close.items(), key=lambda pair: pair[1])[:3]
    assert all(contrast(palette[role], palette["paper"]) >= 3 for role in ROLES)
    assert all(contrast(palette[v], palette["paper"]) >= 4.5 for v in ROLES[:5])


def test_colours_that_were_too_close_are_found():
    assert apart("#a35c00", "#b93008") < 4
    assert apart("#c99bf0", "#8fbdf0") < 4
