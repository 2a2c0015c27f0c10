"""References with an error, and references of programs that a site's check declares."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.errors import TenkenError
from tenken.machines import facts, loader, yamlfile
from tenken.machines.errors import SystemFileError
from tenken.model import catalogue
from tenken.report import contracts
from tests.unit.machines.conftest import GOOD

MBW = {
    "program": "mbw", "title": "mbw", "section": "docs/foreign-programs.md", "version": 1, "identity": ["command"],
    "key": ["memcpy"], "libraries": ["command mbw"],
    "metrics": {
        "memcpy": {
            "title": "copy", "unit": "GB/s", "direction": "higher", "statistic": "median", "per": ["host"],
            "limit": "none: the program is not of this suite", "plot": "bars", "sign": "positive", "min_count": 1,
            "max_spread": None,
        }
    },
    "verifications": [{"what": "exit status", "of": ["memcpy"], "tolerance": 0}],
}  # fmt: skip
REFERENCE = """
  - metric: {metric}
    subject: host
    partition: gpu
    unit: {unit}
    statistic: median
    value: 11.5
    lower: -0.05
    date: 2026-03-01
    source: three runs
"""


CONTRACT = """\
title: T
system: h200
parties: {{customer: C, supplier: S}}
date: 2026-03-01
clauses:
  - id: A1
    metric: {metric}
    subject: host
    unit: GB/s
    target: 10
    source: agreed
"""


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENKEN_ARCHIVE", str(tmp_path / "perflogs"))
    monkeypatch.setattr(catalogue, "_declared", {})
    (tmp_path / "perflogs").mkdir()
    return tmp_path


def load(folder: Path, *references: str, strict: bool = False, extra: str = "") -> Any:
    file = folder / "machine.yaml"
    head, _, rest = GOOD.partition("references:\n")
    file.write_text(f"{head}{extra}references:{''.join(references)}{rest}")
    return loader.load_file(file, cache_folder=None, strict=strict)


def reference(metric: str = "stream.triad", unit: str = "GB/s") -> str:
    return REFERENCE.rstrip("\n").format(metric=metric, unit=unit) + "\n"


def test_a_reference_of_a_program_that_a_check_declares_is_one(archive: Path) -> None:
    system = load(archive, "\n", reference("mbw.memcpy")[1:])
    (one,) = system.references_of("mbw", "memcpy")
    assert (one.value, one.unit) == (11.5, "GB/s")
    (told,) = [notice for notice in system.notices if "mbw" in notice]
    assert "no check has declared program 'mbw' yet" in told
    with pytest.raises(SystemFileError, match="unknown program 'mbw' in reference 1"):
        load(archive, "\n", reference("mbw.memcpy")[1:], strict=True)

    catalogue.remember(MBW)  # as its check does when ReFrame loads it
    assert catalogue.load_catalogue()["mbw"].metrics["memcpy"].unit == "GB/s"
    for strict in (False, True):
        system = load(archive, "\n", reference("mbw.memcpy")[1:], strict=strict)
        assert not [notice for notice in system.notices if "mbw" in notice]
        assert system.references_of("mbw", "memcpy")[0].value == 11.5
    for metric, unit, says in (("mbw.memmove", "GB/s", "unknown metric 'memmove'"), ("mbw.memcpy", "s", "wrong unit")):
        with pytest.raises(SystemFileError, match=says):
            load(archive, "\n", reference(metric, unit)[1:], strict=True)


def test_it_is_a_criterion_of_its_values(archive: Path) -> None:
    system = load(archive, "\n", reference("mbw.memcpy")[1:])
    catalogue.remember(MBW)
    partition = system.partition("gpu")
    known = facts.facts(system, partition, system.environments[partition.environments[0]])
    result: Any = SimpleNamespace(program="mbw", parameters={"command": "mbw -n 3 64"})
    metric: Any = SimpleNamespace(name="memcpy", kind="host", unit="GB/s", at={}, subject=None)
    found = known.criterion(result, metric)
    assert found is not None and (found.kind, found.value, found.low) == ("reference", 11.5, pytest.approx(11.5 * 0.95))
    metric.unit = "MB/s"
    assert known.criterion(result, metric) is None and "unit MB/s; the nearest is in GB/s" in known.unmatched(
        result, metric
    )


@pytest.mark.parametrize(("wrong", "says"), [
    (reference("stream.quad"), "unknown metric 'quad' of program 'stream'"),
    (reference(unit="us"), "wrong unit 'us'"),
    (reference().replace("partition: gpu", "partition: cpu"), "unknown partition 'cpu'"),
    (reference().replace("    lower: -0.05\n", ""), "sets no bound"),
    (reference().replace("    date: 2026-03-01\n", ""), "missing key 'date'"),
    (reference().replace("value: 11.5", "value: fast"), "must be a number"),
    (reference("mbw.memcpy").replace("partition: gpu", "partition: cpu"), "unknown partition 'cpu'"),
])  # fmt: skip
def test_an_error_in_one_reference_disables_that_one(archive: Path, wrong: str, says: str) -> None:
    right = reference("stream.copy")
    system = load(archive, "\n", right[1:], wrong[1:])
    assert [f"{one.program}.{one.metric}" for one in system.references if one.value == 11.5] == ["stream.copy"]
    (told,) = [notice for notice in system.notices if "disabled" in notice]
    assert says in told and told.endswith("(this reference is disabled)")
    with pytest.raises(SystemFileError, match=says):
        load(archive, "\n", right[1:], wrong[1:], strict=True)


def test_another_error_of_the_file_remains_one(archive: Path) -> None:
    with pytest.raises(SystemFileError, match="unknown key 'colour'"):
        load(archive, "\n", reference("stream.quad")[1:], extra="colour: red\n")


def test_a_contract_names_the_metric_of_a_declared_program(archive: Path) -> None:
    text = CONTRACT.format(metric="mbw.memcpy")
    document = yamlfile.parse(text, "contract.yaml")
    with pytest.raises(TenkenError, match="unknown program 'mbw' in clause 1"):
        contracts.parse("x", document, text, catalogue.load_catalogue(), ["h200"])
    catalogue.remember(MBW)
    contract = contracts.parse("x", document, text, catalogue.load_catalogue(), ["h200"])
    assert [(clause.program, clause.metric) for clause in contract.clauses] == [("mbw", "memcpy")]
