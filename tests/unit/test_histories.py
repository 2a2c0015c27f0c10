"""Readers of public histories: what each format yields from a repository."""

from __future__ import annotations

import json
import subprocess

import pytest

from tools import histories

RUN = {"bench_run": {"head_commit": {"timestamp": "2026-01-02T00:00:00+00:00"}}, "label_score_dict": {"a": 2.5, "b": 0}}
SOLVE = [{"time": "2026-01-02T00:00:00+00:00", "data": [{"problem": "Poisson", "nodes": 2, "Solve": 3.0}]}]
METRIC = {"timestamp": 5, "metrics": {"build": [7, "ms"], "memory": [9, "MB"]}}
DAY = 1767312000.0  # 2026-01-02


@pytest.mark.parametrize(
    ("form", "path", "content", "chosen", "values"),
    [
        ("dated", "r/fib.yml", "---\n20260102: [2.0,null,4.0]\n", "r", [(DAY, "fib 0", 2.0), (DAY, "fib 2", 4.0)]),
        ("scores", "c/1.json", json.dumps(RUN), "c/", [(DAY, "a", 2.5)]),
        ("solves", "c/1.json", json.dumps(SOLVE), "c/", [(DAY, "Poisson 2 Solve", 3.0)]),
        ("metrics", "m.json", json.dumps(METRIC) + "\n", "m.json", [(5.0, "build", 7.0)]),
        ("nightlies", "v/time/SetNightly/a.csv", "version,avg\n3-bin-20260102-c,4.5\n3,9\n", "/time/",
         [(DAY, "SetNightly/a.csv", 4.5)]),
        ("labelled", "l/Splay.json", json.dumps({"labels": [(DAY + 9) * 1000], "results": {"x": [8]}}), "l/",
         [(DAY, "Splay x_per_second", 8.0)]),
    ],
)  # fmt: skip
def test_a_reader_yields_time_series_and_value(form, path, content, chosen, values, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(content)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "results"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert list(histories.FORMATS[form](tmp_path, "HEAD", chosen)) == values
