"""One table of units: every kind with its prefixes, and conversion between those of one kind."""

from __future__ import annotations

import pytest

from tenken.model import catalogue, units

METRIC = {
    "title": "t", "direction": "lower", "statistic": "median", "per": ["host"], "limit": "none", "plot": "bars",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "wanted", "factor"),
    [
        ("ns", "us", 1e-3), ("s", "ns", 1e9), ("GiB/s", "GB/s", 1.073741824), ("kop/s", "op/s", 1e3), ("%", "1", 0.01),
        ("MB/s", "GB/s", 1e-3), ("TFLOP/s", "GFLOP/s", 1e3), ("B/s", "B/s", 1),
    ],
)  # fmt: skip
def test_units_of_one_kind_convert(given, wanted, factor):
    assert units.factor(given, wanted) == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "wanted"), [("GB/s", "GB"), ("s", "Hz"), ("GB/s", "Gbit/s"), ("furlong", "s"), ("s", "Ms")]
)
def test_others_do_not(given, wanted):
    with pytest.raises(ValueError, match=r"measures|is not known; allowed: s with p, n, u, m"):
        units.factor(given, wanted)


@pytest.mark.parametrize("unit", ["ns", "us", "GB/s", "MiB/s", "Mop/s", "1", "%", "GFLOP/s/W", "kHz"])
def test_a_metric_may_have_any_of_them(unit):
    assert catalogue.read_metric("latency", {**METRIC, "unit": unit}, "here").unit == unit


@pytest.mark.parametrize("unit", ["sec", "mB/s", "gb/s", "Gs", "", None, 1, "ns "])
def test_a_metric_may_have_no_other(unit):
    with pytest.raises(catalogue.CatalogueError, match=r"here: unit is .*; allowed: s with p, n, u, m; B with k, M"):
        catalogue.read_metric("latency", {**METRIC, "unit": unit}, "here")
