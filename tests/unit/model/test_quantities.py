"""Numbers, sizes and coordinates as people read and write them, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tenken.model import quantities

#: A thin space.
S = "\u202f"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.0, "0"), (7, "7"), (4395, "4395"), (32751, f"32{S}751"), (123456789, f"123{S}456{S}789"),
        (999_999_999, f"999{S}999{S}999"), (10**9, "1.000e+09"), (1.5e12, "1.500e+12"),
        (4278.44, "4278"), (9.5, "9.500"), (95.04, "95.04"), (950.44, "950.4"), (0.4462, "0.4462"),
        (0.05517, "0.05517"),
        (0.00012346, "0.0001235"), (0.000012345, "1.234e-05"), (12345.6, f"12{S}346"), (-4278.44, "−4278"),
        (-32751, f"−32{S}751"), (-0.5, "−0.5000"), (math.nan, "–"), (math.inf, "–"), (None, "–"), ("4", "–"),
        (True, "–"),
    ],
)  # fmt: skip
def test_a_number_has_four_digits_and_all_of_its_integer_part(value: Any, text: str) -> None:
    assert quantities.number(value) == text


def test_digits_are_counted_from_the_first_one() -> None:
    assert [quantities.number(12.3456, digits) for digits in (2, 3, 6)] == ["12", "12.3", "12.3456"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB"), (4096, "4 KiB"), (2**20, "1 MiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2**40, "1 TiB"), (2**50, "1 PiB"), (2**60, "1024 PiB"), (-2048, "-2 KiB"), (None, "–"), ("x", "–"),
    ],
)  # fmt: skip
def test_a_size_has_the_largest_unit_that_keeps_it_at_1(count: Any, text: str) -> None:
    assert quantities.size(count) == text.replace(" ", S)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("bytes", 4096, f"4{S}KiB"), ("array_bytes", 2**30, f"array 1{S}GiB"),
        ("halo_row_bytes", 512, f"halo row 512{S}B"),
        ("threads", 8, "threads 8"), ("block_size", 65536, f"block size 65{S}536"), ("kernel", "tile", "tile"),
        ("n", "128", "n 128"), ("bytes", "few", "few"),
    ],
)  # fmt: skip
def test_a_coordinate_is_named_unless_its_value_says_it(key: str, value: Any, text: str) -> None:
    assert quantities.coordinate(key, value) == text


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (4, 4.0), (True, True), (None, None), ("4", 4.0), ("-1.5e3", -1500.0), ("4k", 4e3), ("4 MB", 4e6),
        ("4G", 4e9), ("4T", 4e12),
        ("4Ki", 4096.0), ("4 ki", 4096.0), ("256 MiB", 2.0**28), ("256mi", 2.0**28), ("4Gi", 2.0**32), ("4gi", 2.0**32),
        ("2TiB", 2.0**41), ("2ti", 2.0**41), (" Tile ", "tile"), ("4 apples", "4 apples"), ("4m", "4m"),
    ],
)  # fmt: skip
def test_a_value_is_compared_as_a_number_where_it_is_one(value: Any, found: Any) -> None:
    assert quantities.plain(value) == found and type(quantities.plain(value)) is type(found)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1024, "1Ki", True), (1.0, 1 + 1e-10, True), (1.0, 1 + 1e-8, False), ("A", "a", True), ("a", "b", False),
        (1, True, False),
        (None, None, True), (0, None, False), (True, True, True), (True, False, False),
    ],
)  # fmt: skip
def test_values_are_the_same_up_to_rounding_and_case(one: Any, other: Any, equal: bool) -> None:
    assert quantities.same(one, other) is quantities.same(other, one) is equal
