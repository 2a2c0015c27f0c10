"""Deprecation warnings of ReFrame: none that a user would see is lost, and none that is ignored is traced."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
from reframe.core import fields, variables
from reframe.core.warnings import ReframeDeprecationWarning, suppress_deprecations

from tenken.reframe import deprecations


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages whose source ReFrame looks for."""
    found: list[str] = []
    for module in (fields, variables):
        monkeypatch.setattr(module, "user_deprecation_warning", lambda message, *_: found.append(message))
    deprecations.register()
    return found


def test_a_deprecated_field_and_variable_are_placed_where_the_warning_is_seen(placed: list[str]) -> None:
    field = fields.DeprecatedField(fields.TypedField(int), "old name")
    field.__set_name__(object, "x")
    deprecated = SimpleNamespace(is_deprecated=lambda: True, field=SimpleNamespace(op=1, message="old variable"))
    for seen in (False, True):
        with warnings.catch_warnings() if seen else suppress_deprecations():
            field.__set__(SimpleNamespace(), 1)
            variables.TestVar._warn_deprecation(deprecated, 1)
        assert placed == (["old name", "old variable"] if seen else [])


@pytest.mark.parametrize("action", ["error", "always", "default"])
def test_a_filter_that_shows_warnings_is_not_taken_for_one_that_ignores_them(action: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(action, ReframeDeprecationWarning)
        assert not deprecations.ignored()


def test_a_filter_for_some_of_them_ignores_not_all() -> None:
    with warnings.catch_warnings():
        for some in ({"message": "variables"}, {"module": "checks"}, {"lineno": 3}, {"category": SyntaxWarning}):
            warnings.filterwarnings("ignore", **{"category": ReframeDeprecationWarning, **some})
            assert not deprecations.ignored(), some
        warnings.resetwarnings()
        assert not deprecations.ignored()
        warnings.simplefilter("ignore")
        assert deprecations.ignored()
