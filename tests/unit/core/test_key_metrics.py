"""Key metrics of a program: at most a dozen, each listed once and declared."""

from __future__ import annotations

import pytest

from tenken.errors import CatalogueError
from tenken.model.catalogue import load_program
from tenken.paths import PROGRAMS

GOOD = (PROGRAMS / "stream" / "metrics.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", ["[copy, copy]", "[nosuch]", "copy", "[" + ", ".join(f"m{i}" for i in range(13)) + "]"])
def test_a_wrong_list_is_refused(tmp_path, key):
    folder = tmp_path / "stream"
    folder.mkdir()
    line = next(one for one in GOOD.splitlines() if one.startswith("key: "))
    (folder / "metrics.yaml").write_text(GOOD.replace(line, f"key: {key}"))
    with pytest.raises(CatalogueError, match="key"):
        load_program(folder / "metrics.yaml")
    (folder / "metrics.yaml").write_text(GOOD)
    assert load_program(folder / "metrics.yaml").key == ("triad", "copy", "scale", "add", "dot")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        ("{gpu: 100}", "min_count has the subjects gpu; required: host, gpu"),
        ("{gpu: 100, host: 30, pair: 2}", "min_count has the subjects gpu, host, pair; required: host, gpu"),
        ("{gpu: 100, host: 0}", "min_count is 0; allowed: an integer, 1 or above"),
        ("true", "min_count is True"),
        ("1.5", "min_count is 1.5"),
    ],
)
def test_samples_that_are_required_are_said_of_every_subject(tmp_path, count, words):
    folder = tmp_path / "stream"
    folder.mkdir()
    right = "min_count: 100"
    assert right in GOOD
    (folder / "metrics.yaml").write_text(GOOD.replace(right, f"min_count: {count}", 1))
    with pytest.raises(CatalogueError, match=words):
        load_program(folder / "metrics.yaml")
    (folder / "metrics.yaml").write_text(GOOD.replace(right, "min_count: 7", 1))
    assert load_program(folder / "metrics.yaml").metrics["copy"].min_count == {"host": 7, "gpu": 7}
