"""Key metrics of a program: at most a dozen, each once, each there."""

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
    assert load_program(folder / "metrics.yaml").key == ("copy", "scale", "add", "triad", "dot")
