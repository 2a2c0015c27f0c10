"""Documentation, messages, `--help` and pages use the terms of docs/glossary.md."""

from __future__ import annotations

import functools
import re

import pytest

from tests.support import wording
from tests.support.wording import EXPRESSIONS, Expression

ALL = EXPRESSIONS + wording.of_glossary()


@functools.cache
def texts() -> tuple[tuple[str, int, str], ...]:
    return tuple(wording.texts())


def test_no_text_contains_what_the_field_does_not_write() -> None:
    found = [
        f"{where}:{first + line - 1}: '{words}'{f', write: {write}' if write else ''}"
        for where, first, text in texts()
        for line, words, write in wording.wrong(text, ALL)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda e: e.example.replace(" ", "-"))
def test_each_expression_is_found_and_its_replacement_is_not(expression: Expression) -> None:
    assert [words for _, words, _ in wording.wrong(expression.example, (expression,))]
    assert not list(wording.wrong(expression.right, ALL))


def test_terms_of_the_glossary_are_found() -> None:
    terms = wording.of_glossary()
    assert len(terms) >= 10
    for term in terms:
        assert list(wording.wrong(f"A {term.example} was used", (term,))), term.pattern


def test_every_kind_of_text_is_read() -> None:
    """A bad sentence in a text of each kind is found with its line, and is ignored in code or a comment."""
    bad, anew = "one\nthe driver tells no clock\n", r"\btells\b"
    assert re.search(anew, wording.markdown(bad)) and not re.search(
        anew, wording.markdown("`tells`\n```\ntells\n```\n    tells\n")
    )
    assert re.search(anew, wording.html("<p>it tells</p>")) and not re.search(
        anew, wording.html("{# tells #}<p class='tells'>")
    )
    assert list(wording.strings('raise E(f"the driver {x} tells no clock")\n')) == [(1, "the driver {} tells no clock")]
    assert not list(wording.strings('"""it tells all of it"""\n# it tells all\n'))
    assert list(wording.literals('f("it te"\n  "lls");  // tells\n')) == [(1, "it tells")]
    source = 'class A:\n    """it tells `told`"""\n    def _b(self):\n        """tells"""\n'
    assert list(wording.docstrings(source)) == [(2, "it tells  ")]
    kinds = {where.split("/")[0].split(".")[-1] for where, _, _ in texts()}
    assert {"docs", "tenken", "src", "checks", "md", "Makefile"} <= kinds
