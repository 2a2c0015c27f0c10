"""Requirements of an acceptance for the seal: sealed records, consistent manifests, and a signature by the right
party."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace

import pytest

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.commands import accept as command
from tenken.errors import TenkenError
from tenken.model import record as records
from tenken.report import bundle, signature
from tests.unit.reports import builder
from tests.unit.reports.test_acceptance import CONTRACT, RUNS, run, stream

STRICT = CONTRACT.replace("allow_unsealed: true\n", "")


def write(root, session, first=0, facts=None, count=5):
    """A session whose jobs printed the digests of their results, unless they have other `facts`."""
    seal.begin(root, session)
    runs = [stream(first + i, {0: v, 1: v - 5}, session=session) for i, v in enumerate(RUNS[:count])]
    for raw in runs:
        made = records.parse(json.dumps(raw))
        told = {"sha256": {"result.json": seal.sha256(made.result.text.encode())}} if facts is None else facts
        archive.write(replace(made, job=replace(made.job, facts=told)), root)
    folder = archive.session_folder(root, session)
    (folder / "plan.json").write_text(json.dumps(builder.PLAN))
    cases = [builder.testcase(r["check"], "pass", partition=r["partition"], environ=r["environ"]) for r in runs]
    (folder / "run-report.json").write_text(json.dumps(builder.run_report(cases)))


@pytest.fixture
def root(tmp_path):
    found = tmp_path / "perflogs"
    write(found, "S1")
    return found


def accept(root, *more, text=STRICT, sessions=("S1",)):
    """Exit status and answer."""
    deal = root.parent / "deal.yaml"
    deal.write_text(text)
    out = root.parent / "out"
    status = run(
        "--contract", deal, "--archive", root, "--output", out, "--no-pdf", "--sessions", *sessions, *more
    )  # fmt: skip
    return status, json.loads((out / "acceptance.json").read_text())


def test_sealed_records_are_accepted_and_their_manifest_is_in_the_tar(root, capsys):
    status, said = accept(root)
    assert (status, said["statement"], said["unsealed"], said["damaged"]) == (0, "ACCEPTED", [], [])
    tar = root.parent / "out" / "deal.tar"
    assert f"archive/{archive.SESSIONS}/S1/{seal.MANIFEST}" in bundle.read(tar)
    assert run("--verify", tar) == 0 and "Not signed" in capsys.readouterr().out


@pytest.mark.parametrize("facts", [{}, {"unsealed": "no program of the node computes SHA-256"}])
def test_results_of_jobs_without_a_digest_are_listed_and_need_a_contract_that_allows_them(tmp_path, facts):
    root = tmp_path / "perflogs"
    write(root, "S1", facts=facts)
    status, said = accept(root)
    assert (status, said["statement"], len(said["unsealed"])) == (3, "INCONCLUSIVE", 5)
    assert said["reasons"] == [f"5 records are unsealed, such as {said['unsealed'][0]}"]
    assert "5 records are unsealed: no digest shows" in (tmp_path / "out" / "report.html").read_text()
    status, said = accept(root, text=CONTRACT)
    assert (status, said["statement"], len(said["unsealed"])) == (0, "ACCEPTED", 5)
    assert "which the contract allows" in (tmp_path / "out" / "report.html").read_text()


def test_records_without_a_manifest_are_unsealed(root):
    (archive.session_folder(root, "S1") / seal.MANIFEST).unlink()
    status, said = accept(root)
    assert (status, len(said["unsealed"]), said["damaged"]) == (3, 5, [])


def edited(root, path):
    path.write_text(path.read_text().replace('"RECORDED"', '"PASS"', 1).replace('"StreamCuda"', '"StreamCuda" ', 1))
    return "differs: its SHA-256 is"


def removed(root, path):
    path.unlink()
    return "is missing"


def added(root, path):
    shutil.copy(path, path.with_name(f"{path.stem[:-8]}00000000.json"))
    return "is new"


def exchanged(root, path):
    other = next(p for p in archive.paths(root) if "-S2-" in p.name)
    texts = path.read_text().replace('"S1"', '"S2"'), other.read_text().replace('"S2"', '"S1"')
    path.write_text(texts[1])
    other.write_text(texts[0])
    return "differs: its SHA-256 is"


@pytest.mark.parametrize("tamper", [edited, removed, added, exchanged])
def test_a_tampered_archive_is_not_accepted_whatever_the_contract_allows(root, tamper):
    write(root, "S2", 6)
    said_ = tamper(root, next(p for p in archive.paths(root) if "-S1-" in p.name))
    status, said = accept(root, text=CONTRACT, sessions=("S1", "S2"))
    assert (status, said["statement"]) == (3, "INCONCLUSIVE")
    assert any(said_ in text for text in said["damaged"]), said["damaged"]
    # the same from the tar alone
    assert run("--verify", root.parent / "out" / "deal.tar") == 0


def test_a_session_that_a_later_one_continues_in_another_form_is_refused(root, capsys):
    write(root, "S2", 6)
    path = next(p for p in archive.paths(root) if "-S1-" in p.name)
    manifest = archive.session_folder(root, "S1") / seal.MANIFEST
    before = seal.sha256(path.read_bytes())
    edited(root, path)
    manifest.write_text(manifest.read_text().replace(before, seal.sha256(path.read_bytes())))
    with pytest.raises(TenkenError, match=r"manifest.sha256 differs from what session S2 continues"):
        accept(root)
    assert accept(root, sessions=("S2",))[0] == 0, "nothing is wrong with the later one"


def test_a_decision_of_before_there_were_seals_is_reproduced(root, capsys):
    (archive.session_folder(root, "S1") / seal.MANIFEST).unlink()
    accept(root, text=CONTRACT)
    tar = root.parent / "out" / "deal.tar"
    members = bundle.read(tar)
    del members[bundle.MANIFEST]
    said = json.loads(members[bundle.ANSWER])
    del said["unsealed"]
    members[bundle.ANSWER] = (json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode()
    members[bundle.CONTRACT] = STRICT.encode()
    bundle.write(tar, [bundle.Member(n, c) for n, c in members.items()])
    assert run("--verify", tar) == 0
    assert "was written before seals existed" in capsys.readouterr().out


# -- signatures --

needs_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


@pytest.fixture
def keys(tmp_path):
    """The key of the vendor, of another party, and the site's list of those who may sign."""
    for name in ("vendor", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    public = " ".join((tmp_path / "vendor.pub").read_text().split()[:2])
    (tmp_path / "signers").write_text(f"lab@vendor {public}\n")
    return tmp_path


@needs_keygen
def test_a_signature_is_made_and_verified_with_its_name(root, keys, capsys):
    assert accept(root, "--sign", keys / "vendor")[0] == 0
    tar = root.parent / "out" / "deal.tar"
    assert f"Signature: {tar}.sig" in capsys.readouterr().out
    assert run("--verify", tar, "--signers", keys / "signers") == 0
    assert "Signed by lab@vendor with ED25519 key SHA256:" in capsys.readouterr().out
    assert run("--verify", tar) == 0
    assert "Signed by unknown with ED25519 key SHA256:" in capsys.readouterr().out


@needs_keygen
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("unsigned", "deal.tar.sig is missing"),
        ("by another", "deal.tar.sig is by no key in"),
        ("written again", "deal.tar.sig is not a signature of deal.tar"),
        ("garbled", "deal.tar.sig is "),
    ],
)
def test_a_signature_that_is_not_theirs_or_not_of_this_file_is_told(root, keys, capsys, change, said):
    tar = root.parent / "out" / "deal.tar"
    signature = tar.with_name("deal.tar.sig")
    accept(
        root, *([] if change == "unsigned" else ["--sign", keys / ("other" if change == "by another" else "vendor")])
    )
    if change == "written again":
        shutil.copy(signature, root.parent)
        accept(root, text=STRICT.replace("offer", "another offer"))
        shutil.copy(root.parent / "deal.tar.sig", signature)
    elif change == "garbled":
        signature.write_text(signature.read_text().replace("U", "V"))
    capsys.readouterr()
    assert run("--verify", tar, "--signers", keys / "signers") == 1
    assert f"CHANGED: {said}" in capsys.readouterr().out


@needs_keygen
def test_a_key_that_is_none_is_one_line(root, tmp_path):
    with pytest.raises(TenkenError, match=r"deal\.tar was not signed with .*none"):
        accept(root, "--sign", tmp_path / "none")


def test_a_key_that_nobody_touches_is_given_up(root, tmp_path, monkeypatch, capsys):
    waits = tmp_path / "ssh-keygen"
    waits.write_text("#!/bin/sh\nexec sleep 60\n")
    waits.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(signature, "SAID_S", 0.05)
    monkeypatch.setattr(signature, "GIVEN_UP_S", 0.05)
    with pytest.raises(TenkenError, match="did not end within"):
        signature.sign(tmp_path / "x", tmp_path / "key")
    assert "waits for a passphrase, a PIN or a touch" in capsys.readouterr().err


def test_without_ssh_keygen_it_is_one_line(root, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TenkenError, match="ssh-keygen cannot be run: No such file"):
        accept(root, "--sign", tmp_path / "key")


def test_a_new_report_leaves_no_signature_of_the_last_one(root, tmp_path):
    accept(root)
    (tmp_path / "out" / "deal.tar.sig").write_text("of the last one")
    accept(root)
    assert not (tmp_path / "out" / "deal.tar.sig").exists()
    assert command.verify(tmp_path / "out" / "deal.tar") == 0
