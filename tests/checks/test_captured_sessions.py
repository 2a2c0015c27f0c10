"""Every record that a machine wrote is judged today as it was then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenken import archive, document

KEPT = Path(__file__).parents[1] / "fixtures" / "h200" / "archive"
RECORDS = list(archive.records(KEPT))
#: What a machine failed, kept as it was.
FAILED = {
    ("20261121T150002Z-h200one", "StorageMapCuda"): "FAIL",
}


def test_there_are_records():
    assert len(RECORDS) >= 40


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: f"{r.session}-{r.check}")
def test_a_captured_document_is_of_the_schema_and_names_nobody(record):
    text = record.path.read_text()
    assert "/root" not in text
    kept = FAILED.get((record.session, record.check))
    assert record.verdict == kept if kept else record.verdict in ("PASS", "WAIVED")
    if record.document is not None:
        read = document.validate(record.document, record.path.name)
        assert read.node == "node1"
        assert all(not metric.inconsistencies() for metric in read.metrics)
