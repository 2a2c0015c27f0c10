"""The command line of DALI and KvikIO: one line of output, or one line of error and exit status 1."""

from __future__ import annotations

import errno

import pytest

from toolchains import cuda_home, dali, kit, kvikio, mpi


@pytest.mark.parametrize(("module", "prefix"), [(dali, "TENKEN_DALI="), (kvikio, "-DTENKEN_KVIKIO_ROOT=")])
def test_what_is_made_or_what_is_wrong_is_one_line(module, prefix, tmp_path, monkeypatch, capsys):
    assert module.main(["11", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: CUDA 11 has no ") and said.err.endswith("allowed: 12, 13\n")
    monkeypatch.setattr(module, "make", lambda cuda, folder: f"{folder}/{cuda}")
    assert module.main(["13", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{prefix}{tmp_path}/13\n"


@pytest.mark.parametrize(
    ("module", "does", "words"), [(cuda_home, "make", ["13.0"]), (kit, "write_kit", ["x"]), (mpi, "fetch", ["{}"])]
)
def test_a_full_disk_is_one_line(module, does, words, tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(module, does, full)
    assert module.main([word.format(tmp_path) for word in words]) == 1
    assert capsys.readouterr().err == f"{module.__name__.split('.')[1]}: [Errno 28] No space left on device\n"
