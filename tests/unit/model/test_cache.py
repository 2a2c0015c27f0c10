"""The cached content of a YAML file equals the file's."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tenken.model import cache


def test_yaml_is_read_once_and_what_json_cannot_keep_is_read_again(tmp_path: Path, monkeypatch) -> None:
    file, folder = tmp_path / "stream" / "metrics.yaml", tmp_path / "cache"
    kept = "a: [1, 1.0, yes, 1e-12, 0o17, ~]\nb: {c: &x {d: e}, f: *x}\n"
    for text in (kept, kept.replace("1e-12", "2e-12")):
        first = cache.yaml(file, text, folder)
        assert first["a"][:3] == [1, 1.0, "yes"] and [type(one) for one in first["a"][:2]] == [int, float]
        assert (folder / "stream-metrics.json").is_file()
        with monkeypatch.context() as patch:
            patch.setattr("ruamel.yaml.YAML", None)
            assert cache.yaml(file, text, folder) == first
    for number, text in enumerate(("1: a\n", "a: 2026-01-02\n", "a: .nan\n", "a: .inf\n")):
        other = tmp_path / f"{number}.yaml"
        assert str(cache.yaml(other, text, folder)) == str(YAML(typ="safe", pure=True).load(text))
        assert cache.yaml(other, text, folder).keys() == YAML(typ="safe", pure=True).load(text).keys()
    assert [one.name for one in folder.iterdir()] == ["stream-metrics.json"]
    with pytest.raises(YAMLError):
        cache.yaml(file, "a: [", folder)
