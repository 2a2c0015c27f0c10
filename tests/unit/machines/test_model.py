"""User variables and units."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenken.machines.errors import UnknownSystemError, UnsetVariableError
from tenken.machines.model import FOR_HOST, System
from tests.unit.machines.conftest import GOOD

Load = Callable[[str], System]


def test_values_and_defaults_are_filled_in(load: Load) -> None:
    gpu = load(GOOD).expand({"TENKEN_GROUP": "gz00"}).partition("gpu")
    assert gpu.access == ("-A gz00", "-p short"), "an optional variable without a value drops its option"
    assert "${SITE_OPTIONS}" in gpu.launcher_options, "the shell's own variables stay"


def test_optional_variables_count_when_set(load: Load) -> None:
    env = {"TENKEN_GROUP": "gz00", "TENKEN_QUEUE": "long", "TENKEN_RESERVATION": "R12"}
    assert load(GOOD).expand(env).partition("gpu").access == ("-A gz00", "-p long", "--reservation=R12")


def test_all_unset_variables_are_named_at_once(load: Load) -> None:
    system = load(GOOD.replace("default: short", "required: true"))
    with pytest.raises(UnsetVariableError) as caught:
        system.expand({"TENKEN_GROUP": ""})
    message = str(caught.value)
    assert message.startswith("system 'machine': ")
    assert "TENKEN_GROUP (project group) is not set" in message
    assert "TENKEN_QUEUE (queue) is not set" in message
    assert "\n" not in message


def test_listing_needs_none(load: Load) -> None:
    gpu = load(GOOD).expand({}, strict=False).partition("gpu")
    assert gpu.access == ("-A ${TENKEN_GROUP}", "-p short")


@pytest.mark.parametrize("value", ["a b", "x\n#PBS -q other", "$(id)", "a;b", "'"])
def test_values_that_would_break_a_script_are_refused(value: str, load: Load) -> None:
    with pytest.raises(UnsetVariableError, match=r"TENKEN_GROUP is .*allowed: letters"):
        load(GOOD).expand({"TENKEN_GROUP": value})


def test_unknown_partition(load: Load) -> None:
    with pytest.raises(UnknownSystemError, match="no partition 'cpu'; allowed: gpu"):
        load(GOOD).partition("cpu")


@pytest.mark.parametrize(
    ("environments", "expected"),
    [("[cuda, host]", {"host"}), ("[cuda]", {"cuda"}), ("[cuda, gnu]", {"gnu"}), ("[gnu, cuda]", {"gnu"})],
)
def test_checks_of_the_host_take_an_environment_by_what_it_can_do(
    environments: str, expected: set[str], load: Load
) -> None:
    gnu = "  gnu: {features: [openmp], cc: gcc, cxx: g++}\npartitions:"
    text = GOOD.replace("partitions:", gnu, 1).replace("environments: [cuda, host]", f"environments: {environments}")
    system = load(text)
    (partition,) = system.partitions.values()
    assert {name for name in partition.environments if FOR_HOST in system.abilities(name)} == expected
