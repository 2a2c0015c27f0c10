"""What is found does not hang on the order in which files, sets and answers come: neither its order nor what it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tenken.archive import fingerprints
from tenken.campaign import groups, screening, tournament
from tenken.campaign.tournament import Answer, accuse
from tests.unit.archive.test_fingerprints import KEY, NOW, trace


def test_other_versions_come_in_the_order_of_their_first_traces(tmp_path: Path) -> None:
    """The folders have names of digests."""
    keys = [replace(KEY, versions={"torch": f"2.{n}.0"}) for n in range(8)]
    for number, key in enumerate(keys):
        for later in (100, number):  # the first file to be written is not the first one in time
            fingerprints.add(tmp_path, key, trace("A", "ab"[later == 100]), f"s{later}", NOW + timedelta(seconds=later))
    assert fingerprints.other_versions(tmp_path, KEY) == keys


def test_groups_are_filled_from_other_leaves_first() -> None:
    leaf = {node: node // 3 for node in range(9)}.__getitem__
    for free in permutations((1, 2, 3, 6)):
        filled = groups._filled((0,), 4, free, {6}, leaf)
        assert filled[:2] == (0, 3) and set(filled[2:]) == {1, 2}, free


def test_pairs_are_accused_in_their_order() -> None:
    good = [Answer(tournament.WITHIN, (f"a{n}", f"b{n}"), 100.0) for n in range(20)]
    bad = [Answer(tournament.WITHIN, (f"c{n}", f"d{n}"), 50.0) for n in range(9)]
    leaves = {node: "l" for one in (*good, *bad) for node in one.pair}
    for answers in ([*good, *bad], [*bad, *good], [*good[:5], *bad[::-1], *good[5:]]):
        found = accuse(answers, leaves)
        assert list(found.pairs) == [one.pair for one in bad] and not found.nodes


def test_of_nested_groups_the_one_that_is_slow_throughout_is_the_cause() -> None:
    """Five of seven nodes are slow, two of these a little more: neither the two nor the seven are the cause."""
    rest = np.array([0.1, 0.1, 0.09, 0.09, 0.09, 0.0, 0.0])

    def group(size: int) -> tuple[Any, int, float]:
        members = np.arange(size)
        return SimpleNamespace(offsets=[rest[:size].mean()], sizes=[size], members=lambda at, of: members), 0, 0.0

    for odd in permutations([group(2), group(5), group(7)]):
        assert screening._cause(odd, rest)[0].sizes == [5]
