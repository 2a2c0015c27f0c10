"""A fixed share of the fuzzing, and that it would detect violations. The long run: `make fuzz SECONDS=600`
(docs/fuzzing.md)."""

from __future__ import annotations

import json
import time

import pytest

from tests.fuzz import runner
from tests.fuzz.runner import Tally, give, input_of, run
from tests.fuzz.targets import Target, targets

SEED = 20261122
#: Inputs of each parser: at least 10,000 in total. YAML takes ten milliseconds and more per input.
SLOW = ("yaml", "sheets", "acknowledged", "catalogue", "contract", "record", "session")
COUNTS = {one.name: 100 if one.name in SLOW else 775 for one in targets()}


@pytest.mark.fuzz
def test_ten_thousand_inputs() -> None:
    assert sum(COUNTS.values()) >= 10_000
    tallies = run(targets(), SEED, 0, lambda one: COUNTS[one.name])
    print(f"seed {SEED}")
    failures = [f"{t.name} --seed {SEED} --show {number}: {what}" for t in tallies for number, what in t.failures]
    assert not failures, "\n".join(failures[:20])
    for tally in tallies:
        assert tally.inputs == COUNTS[tally.name]
    # a test whose broken inputs are all refused at once, or not at all, would be weak
    refused = {t.name: t.refused / t.inputs for t in tallies}
    assert all(0.1 < refused[name] < 1 for name in ("document", "record", "osu", "hpl", "hpcg", "log", "sheets"))


def test_good_inputs_are_read() -> None:
    for target in targets():
        target.read(target.corpus[0])


def test_the_same_seed_gives_the_same_inputs() -> None:
    one = targets()[0]
    again = targets()[0]
    assert [input_of(one, 7, n) for n in range(50)] == [input_of(again, 7, n) for n in range(50)]
    assert input_of(one, 7, 1) != input_of(one, 8, 1)
    sizes = [len(input_of(target, 3, n)) for target in targets() for n in range(100)]
    assert sum(size <= 20_000 for size in sizes) > 0.9 * len(sizes)


def spin(content: bytes) -> None:
    end = time.process_time() + 20
    while time.process_time() < end:
        pass


def refuse(content: bytes) -> None:
    raise runner_error("\x1b[2J")


def runner_error(text: str) -> Exception:
    error = ValueError()
    error.args = (text,)
    return error


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda content: {}["x"], "KeyError: 'x' at "),
        (lambda content: json.loads("[" * 100_000), "RecursionError"),
        (lambda content: [].pop(), "IndexError"),
        (spin, "took "),
        (refuse, "no clear line"),
    ],
)
def test_what_must_not_happen_is_noticed(read: object, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # no other error may look slow on a busy machine
    monkeypatch.setattr(runner, "MOST_SECONDS", 0.2 if read is spin else 60)
    bad = Target("bad", (b"abc",), read, errors=(ValueError,))  # type: ignore[arg-type]
    (tally,) = run([bad], 1, 0, lambda one: 1)
    ((number, what),) = tally.failures
    assert number == 0 and says in what


def test_what_is_refused_or_read_is_no_failure() -> None:
    tally = Tally("x")
    good = Target("x", (b"abc",), lambda content: int(content), errors=(ValueError,))
    for number, content in enumerate((b"1", b"x")):
        give(good, content, tally, number)
    assert (tally.inputs, tally.refused, tally.failures) == (2, 1, [])
