"""The command line of DALI and KvikIO: one line of output, or one line of error and exit status 1."""

from __future__ import annotations

import pytest

from toolchains import dali, kvikio


@pytest.mark.parametrize(("module", "prefix"), [(dali, "TENKEN_DALI="), (kvikio, "-DTENKEN_KVIKIO_ROOT=")])
def test_what_is_made_or_what_is_wrong_is_one_line(module, prefix, tmp_path, monkeypatch, capsys):
    assert module.main(["11", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: CUDA 11 has no ") and said.err.endswith("allowed: 12, 13\n")
    monkeypatch.setattr(module, "make", lambda cuda, folder: f"{folder}/{cuda}")
    assert module.main(["13", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{prefix}{tmp_path}/13\n"
