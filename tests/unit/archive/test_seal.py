"""The seal: edited, removed, added or exchanged files are named; the results of a kill or a full disk are not."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tenken.archive import chained, disk, durable, packed, redact, retention, seal, verify
from tenken.archive import records as archive
from tenken.campaign import spool
from tenken.errors import ArchiveError
from tenken.model.result import parse
from tenken.paths import ROOT
from tenken.reframe import clean
from tests.support import kept
from tests.support.documents import gpu_document
from tests.unit.core.test_archive import record
from tests.unit.core.test_retention import main
from tools.campaign import standin

ONE, TWO, THREE = (f"2026112{i}T000000Z-abcdef" for i in range(1, 4))


@pytest.fixture
def root(tmp_path):
    """Two sessions of two records each, the second one with the output of a third-party program."""
    found = tmp_path / "perflogs"
    for session in (ONE, TWO):
        archive.begin_session(found, session, [])
        for check in ("A", "B"):
            archive.write(
                record(session, check=check, parameters={"first": session == ONE}),
                found,
                {"tool.out": b"rate: 1\n"} if session == TWO else {},
            )
    return found


def lines(root, session):
    return (archive.session_folder(root, session) / seal.MANIFEST).read_text().splitlines()


def of(root, session, check="A"):
    (path,) = (p for p in archive.paths(root) if session in p.name and p.parent.name == check)
    return path


def faults(root):
    return verify.check(root).faults


# -- the record --


@pytest.mark.parametrize("around", [("", ""), ("\n ", "\r\n\n"), ("", "\n" + 50 * " ")])
def test_the_bytes_of_a_result_are_the_last_ones_of_its_record(tmp_path, around):
    written = around[0] + json.dumps(gpu_document(), indent=1).replace("GB/s", r"GB\/s") + around[1]
    path = archive.write(record(result=parse(written, "result.json")), tmp_path)
    content = path.read_bytes()
    length = json.loads(content)["result_bytes"]
    assert content[-length - 1 : -1] == written.encode() and archive.read(path).result.program == "stream"
    # as a site would do it
    told = subprocess.run(
        f"tail -c {length + 1} {path} | head -c {length} | sha256sum", shell=True, capture_output=True, text=True
    ).stdout
    assert told.split()[0] == seal.sha256(written.encode())


# -- manifests --


def test_a_manifest_lists_each_file_as_sha256sum_does(root):
    head, continued, *listed = lines(root, TWO)
    assert head == f"# tenken-manifest/1 {TWO}" and continued.split()[:3] == ["#", "continues", ONE]
    assert [line.rpartition(".")[2] for line in listed] == ["out", "json", "out", "json"]
    assert of(root, TWO).with_suffix(".tool.out").read_text() == "rate: 1\n"
    manifest = archive.session_folder(root, TWO) / seal.MANIFEST
    done = subprocess.run(["sha256sum", "-c", manifest], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count(": OK")) == (0, 4)


def test_a_group_of_users_may_write_a_manifest_as_their_umask_says(tmp_path):
    before = os.umask(0o002)
    try:
        archive.write(record(ONE), tmp_path)
    finally:
        os.umask(before)
    assert (archive.session_folder(tmp_path, ONE) / seal.MANIFEST).stat().st_mode & 0o7777 == 0o664


@pytest.mark.parametrize(("name", "text", "unsealed"), [
    ("notes.json", "{", True), ("notes.json", '{"record": "other"}', True), ("notes.txt", "{", False),
])  # fmt: skip
def test_what_is_no_record_and_of_no_session_is_unsealed(root, name, text, unsealed):
    path = of(root, ONE).with_name(name)
    path.write_text(text)
    found = verify.check(root)
    assert (found.faults, found.unsealed) == ([], [str(path.relative_to(root))] * unsealed)


def test_an_archive_as_it_was_written_is_whole(root, tmp_path, capsys):
    assert main("verify", "--archive", root) == 0
    assert "6 files are listed by 2 manifests: no file differs, is missing or is new" in capsys.readouterr().out
    file = tmp_path / "a.tar.xz"
    with tarfile.open(file, "w:xz") as tar:
        tar.add(root, ".")
    assert faults(packed.folder_of(file, tmp_path / "cache")) == []


def edited(root):
    path = of(root, ONE)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path, "differs"


def removed(root):
    path = of(root, ONE)
    path.unlink()
    return path, "is missing"


def added(root):
    path = of(root, ONE)
    return shutil.copy(path, path.with_name(f"{path.stem[:-8]}00000000.json")), "is new"


def added_by_another_name(root):
    path = of(root, ONE)
    return shutil.copy(path, path.with_name("copy.json")), "is new"


def added_output(root):
    path = of(root, ONE)
    return shutil.copy(path, path.with_suffix(".tool.out")), "is new"


def exchanged(root):
    one, two = of(root, ONE), of(root, TWO)
    texts = [p.read_text().replace(a, b) for p, a, b in ((one, ONE, TWO), (two, TWO, ONE))]
    two.write_text(texts[0])
    one.write_text(texts[1])
    return one, "differs"


def moved(root):
    one = of(root, ONE)
    target = one.with_name(one.name.replace(ONE, TWO))
    target.write_text(one.read_text().replace(ONE, TWO))
    one.unlink()
    return target, "is new"


def printed(root):
    path = of(root, TWO).with_suffix(".tool.out")
    path.write_text("rate: 2\n")
    return path, "differs"


def linked(root):
    path = of(root, ONE)
    path.rename(root / "elsewhere")
    path.symlink_to(root / "elsewhere")
    return path, "is a symbolic link"


def relisted(root):
    """Together with its line: the later session has the digest of the original manifest."""
    path, manifest = of(root, ONE), archive.session_folder(root, ONE) / seal.MANIFEST
    before = seal.sha256(path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b'"PASS"', b'"FAIL"'))
    manifest.write_text(manifest.read_text().replace(before, seal.sha256(path.read_bytes())))
    return manifest, f"differs from what session {TWO} continues"


def unlisted(root):
    """Together with its manifest, which makes its records unsealed."""
    manifest = archive.session_folder(root, ONE) / seal.MANIFEST
    manifest.unlink()
    return manifest, f"is missing; session {TWO} continues it"


def listed_elsewhere(root):
    with (archive.session_folder(root, TWO) / seal.MANIFEST).open("a") as stream:
        stream.write(f"{'0' * 64}  {of(root, ONE).relative_to(root)}\n")
    return archive.session_folder(root, TWO) / seal.MANIFEST, "line 7 is not one of this manifest"


def listed_twice(root):
    path = of(root, TWO)
    path.write_text("{}")
    with (archive.session_folder(root, TWO) / seal.MANIFEST).open("a") as stream:
        stream.write(f"{seal.sha256(b'{}')}  {path.relative_to(root)}\n")
    return archive.session_folder(root, TWO) / seal.MANIFEST, "line 7 is not one of this manifest"


def listed_hidden(root):
    path = of(root, ONE)
    hidden = path.parent.with_name(".hidden")
    path.parent.rename(hidden)
    manifest = archive.session_folder(root, ONE) / seal.MANIFEST
    manifest.write_text(manifest.read_text().replace(f"/{path.parent.name}/", "/.hidden/"))
    return manifest, "is not one of this manifest"


TAMPERINGS = (edited, removed, added, added_by_another_name, added_output, exchanged, moved, printed, linked, relisted,
              unlisted, listed_elsewhere, listed_twice, listed_hidden)  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_the_file_that_differs_is_missing_or_is_new_is_named(root, tamper, capsys):
    path, said = tamper(root)
    assert main("verify", "--archive", root) == 1
    assert any(
        line.startswith(f"{Path(path).relative_to(root)}: ") and said in line
        for line in capsys.readouterr().out.splitlines()
    )
    # also where only the sessions concerned are verified; what later ones continue is a question of the whole archive
    if "continues" not in said:
        assert any(said in fault for fault in verify.check(root, [ONE, TWO]).faults)
        assert verify.check(root, [THREE]).faults == []


def test_every_end_that_a_manifest_loses_together_with_its_records_is_a_fault(root):
    """The later session has the length of what it continues."""
    manifest = archive.session_folder(root, ONE) / seal.MANIFEST
    content, records = manifest.read_bytes(), {path: path.read_bytes() for path in archive.paths(root)}
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    assert ends[-1] == len(content) and len(ends) >= 3
    for end in [0, *ends[:-1], len(content) - 1]:
        manifest.write_bytes(content[:end])
        for path in records:
            if ONE in path.name and str(path.relative_to(root)) not in content[:end].decode():
                path.unlink()
        assert any(str(manifest.relative_to(root)) in fault for fault in faults(root)), end
        for path, whole in records.items():
            path.write_bytes(whole)
    manifest.write_bytes(content)
    assert faults(root) == []


def test_the_first_file_is_named_first_and_no_more_than_twenty(tmp_path, capsys):
    for number in range(25):
        archive.write(record(ONE, check=f"C{number:02d}"), tmp_path).unlink()
    assert main("verify", "--archive", tmp_path) == 1
    told = capsys.readouterr().out.splitlines()
    assert "/C00/" in told[0] and told[20] == "... and 5 more"


def test_logs_alone_are_verified_too(tmp_path, capsys):
    (tmp_path / "m" / "gpu").mkdir(parents=True)
    log = tmp_path / "m" / "gpu" / "node_check.n1.log"
    chained.append(log, {"line": "good"}, {"triad": 1.0})
    assert main("verify", "--archive", tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 files are listed by 0 manifests: no file differs, is missing or is new",
        "1 logs of node checks have a seal in each line",
    ]
    log.write_text(log.read_text().replace("good", "gold"))
    assert main("verify", "--archive", tmp_path) == 1
    assert "0 files are listed by 0 manifests: 1 faults" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "named"), [(20, 20), (21, 20)])
def test_at_most_twenty_faults_are_named(count, named, tmp_path, capsys):
    for number in range(count):
        archive.write(record(ONE, check=f"C{number:02d}"), tmp_path).unlink()
    assert main("verify", "--archive", tmp_path) == 1
    told = capsys.readouterr().out.splitlines()
    assert sum("is missing" in line for line in told) == named
    assert told[named:] == ["... and 1 more"] * (count > 20) + [
        f"{count} files are listed by 1 manifests: {count} faults"
    ]


def test_an_archive_without_a_file_is_not_verified(tmp_path, capsys):
    assert main("verify", "--archive", tmp_path) == 1
    assert "0 files are listed by 0 manifests: nothing was verified" in capsys.readouterr().out


def test_records_of_before_are_unsealed_and_no_fault(root, tmp_path, capsys):
    assert main("verify", "--archive", packed.folder_of(kept.ACCEPTANCE)) == 1, "nothing protects any of them"
    out = capsys.readouterr().out
    assert "80 records are unsealed" in out and "0 manifests: nothing was verified" in out
    # a session that an earlier release began, and from which this one adopts a job
    shutil.rmtree(archive.session_folder(root, ONE))
    shutil.rmtree(archive.session_folder(root, TWO))
    archive.write(record(ONE, check="C"), root)
    found = verify.check(root)
    assert (found.faults, found.sealed, len(found.unsealed)) == ([], 1, 4)
    assert len(verify.check(root, [ONE]).unsealed) == 2
    of(root, ONE).write_text("{}")
    assert verify.check(root).faults == [], "nothing protects it"


def test_a_session_that_another_user_keeps_to_himself_is_named(root, monkeypatch):
    """As by umask 077; root, who may run the tests, can read it."""
    theirs, manifests, access = archive.session_folder(root, ONE), seal.manifests, os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != theirs and access(path, mode))
    monkeypatch.setattr(seal, "manifests", lambda r: {k: v for k, v in manifests(r).items() if v.parent != theirs})
    (theirs.parent / "a file of the site").touch()  # which is no program either
    found = verify.check(root)
    assert found.faults == [f"{seal.SESSIONS}/{ONE}/{seal.MANIFEST}: cannot be read: permission denied"]
    assert found.unsealed == [] and verify.check(root, [TWO]).faults == []


# -- sessions at once --


def test_a_session_continues_running_ones_as_they_are_and_the_next_one_as_they_became(root):
    beside, last = "20261123T000000Z-000000", "20261124T000000Z-abcdef"
    archive.begin_session(root, THREE, [])
    archive.begin_session(root, beside, [])
    for session in (THREE, beside):
        archive.write(record(session), root)
    archive.begin_session(root, last, [])
    continued = {
        session: sorted(line.split()[2] for line in lines(root, session) if "continues" in line)
        for session in (THREE, beside, last)
    }
    assert continued == {THREE: [TWO], beside: [THREE], last: sorted([THREE, beside])}
    # an earlier one that grew again, by an adopted job
    archive.write(record(ONE, check="C"), root)
    archive.begin_session(root, "20261125T000000Z-abcdef", [])
    assert f"# continues {ONE} " in "\n".join(lines(root, "20261125T000000Z-abcdef"))
    assert faults(root) == []


def test_two_processes_of_one_session_lose_no_line(tmp_path):
    code = (
        "import sys, pathlib\nfrom tenken.archive import records as archive\n"
        "from tests.unit.core.test_archive import record\n"
        "for i in range(20): archive.write(record(check=sys.argv[2]), pathlib.Path(sys.argv[1]))\n"
    )
    with ThreadPoolExecutor(3) as pool:
        done = [
            pool.submit(subprocess.run, [sys.executable, "-c", code, str(tmp_path), name], cwd=ROOT) for name in "abc"
        ]
    assert all(one.result().returncode == 0 for one in done)
    found = verify.check(tmp_path)
    assert (found.sealed, found.faults, found.notes, found.unsealed) == (60, [], [], [])


def test_a_file_system_without_locks_will_do(root, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(durable.fcntl, "flock", refuse)
    archive.write(record(ONE, check="C"), root)
    assert faults(root) == []


# -- kills, crashes and full disks --


def test_content_line_and_name_are_on_the_disk_in_this_order(root, monkeypatch):
    done, real = [], {name: getattr(os, name) for name in ("fsync", "rename")}

    def fsync(descriptor):
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name[:5])
        real["fsync"](descriptor)

    def rename(source, target):
        done.append("rename")
        real["rename"](source, target)

    with monkeypatch.context() as patch:
        patch.setattr(seal.os, "fsync", fsync)
        patch.setattr(seal.os, "rename", rename)
        archive.write(record(ONE), root)
    assert done == [".tmp-", "Strea", "manif", "rename", "Strea"]


WRITES = f"archive.write(record({ONE!r}, check='C'), root)"
PRUNES = "[retention.prune(one, root) for one in retention.prunable(root, 30, datetime(2030, 1, 1), (), [])]"


def killed_at(root, call, does=WRITES):
    """A process that kills itself."""
    code = (
        "import os, signal, sys, pathlib\nfrom datetime import datetime\n"
        "from tenken.archive import retention, records as archive\n"
        "from tests.unit.core.test_archive import record\n"
        f"root, {call} = pathlib.Path(sys.argv[1]), lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n{does}\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(root)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL


def temporaries(root):
    return [p for p in root.rglob(".tmp-*") if p.is_file()]


def test_what_a_kill_kept_from_its_name_has_it_when_the_next_session_begins(root):
    killed_at(root, "os.rename")
    found = verify.check(root)
    assert found.faults == [] and "/C/" in found.notes[0] and not list(archive.records(root, ONE))[2:]
    # its content is not a leftover
    old = datetime.now(timezone.utc).timestamp() + 7 * 86400
    assert not [left for left in clean.find(root / "none", root, 7, 7, old) if left.path in temporaries(root)]
    archive.begin_session(root, THREE, [])
    assert {r.check for r in archive.records(root, ONE)} == {"A", "B", "C"} and temporaries(root) == []
    assert (faults(root), verify.check(root).notes) == ([], [])


def test_what_a_kill_left_in_the_session_of_another_user_keeps_no_session_from_beginning(root, monkeypatch):
    killed_at(root, "os.rename")

    def refused(root, session):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(seal, "finish", refused)
    archive.begin_session(root, THREE, [])
    assert THREE in seal.manifests(root)


def test_what_a_kill_kept_from_its_name_and_is_gone_is_missing(root):
    killed_at(root, "os.rename")
    (left,) = temporaries(root)
    left.write_bytes(left.read_bytes() + b" ")
    archive.begin_session(root, THREE, [])
    (fault,) = faults(root)
    assert "/C/" in fault and fault.endswith("is missing")


def test_a_kill_before_its_line_leaves_no_record(root):
    killed_at(root, "os.write")
    assert len(temporaries(root)) == 1 and verify.check(root).notes == faults(root) == []
    archive.write(record(ONE, check="C"), root)
    assert faults(root) == [] and len(list(archive.records(root, ONE))) == 3


def test_half_a_line_of_a_crash_never_counts(root):
    manifest = archive.session_folder(root, ONE) / seal.MANIFEST
    whole = manifest.read_bytes()
    with manifest.open("ab") as stream:
        stream.write(b"0123456789abcdef")
    assert faults(root) == []
    archive.write(record(ONE, check="C"), root)
    assert manifest.read_bytes().startswith(whole) and len(lines(root, ONE)) == 4 and faults(root) == []


@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_full_disk_takes_the_line_back(root, monkeypatch, call):
    before, real = lines(root, ONE), os.write
    with monkeypatch.context() as patch:

        def full(*what):
            if call == "write":
                return real(what[0], what[1][:10])
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(disk, "PAUSES", ())
        patch.setattr(seal.os, call, full)
        with pytest.raises(ArchiveError, match=r"No space left on device: \d+ bytes of .*json were not written"):
            archive.write(record(ONE, check="C"), root)
    assert (lines(root, ONE), faults(root), temporaries(root)) == (before, [], [])


def test_an_interrupt_takes_the_line_back(root, monkeypatch):
    """Otherwise the manifest lists a record that is missing."""
    before = lines(root, ONE)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(seal.os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            archive.write(record(ONE, check="C"), root)
    assert (lines(root, ONE), faults(root), temporaries(root)) == (before, [], [])


# -- pruning, gathering, export --


def prune(root):
    later = datetime(2030, 1, 1, tzinfo=timezone.utc)
    damaged = []
    for one in retention.prunable(root, 30, later, (), damaged):
        retention.prune(one, root)
    return damaged


def test_pruning_appends_the_old_digest_and_the_new_one(root):
    path = of(root, ONE)
    below, before = path.relative_to(root), seal.sha256(path.read_bytes())
    assert prune(root) == [] and faults(root) == []
    assert lines(root, ONE)[-4:-2] == [f"# pruned {before}  {below}", f"{seal.sha256(path.read_bytes())}  {below}"]
    assert "result_bytes" not in json.loads(path.read_text())
    assert prune(root) == []
    path.write_text(path.read_text().replace('"PASS"', '"FAIL"'))
    assert str(below) in faults(root)[0]


@pytest.mark.parametrize("tamper", [edited, added])
def test_pruning_seals_nothing_that_was_not(root, tamper):
    path, said = tamper(root)
    content = path.read_bytes()
    (damaged,) = prune(root)
    assert str(path) in damaged and path.read_bytes() == content
    assert any(str(path.relative_to(root)) in fault and said in fault for fault in faults(root))


def test_pruning_that_was_killed_is_finished(root):
    killed_at(root, "os.rename", PRUNES)
    assert faults(root) == [] and len(verify.check(root).notes) == 1
    assert not [p for p in archive.paths(root) if '"pruned"' in p.read_text()]
    archive.begin_session(root, THREE, [])
    assert faults(root) == [] and verify.check(root).notes == []
    assert len([p for p in archive.paths(root) if '"pruned"' in p.read_text()]) == 1


def test_records_of_before_are_pruned_without_a_seal(root):
    for session in (ONE, TWO):
        shutil.rmtree(archive.session_folder(root, session))
    assert prune(root) == [] and len(verify.check(root).unsealed) == 4


def spooled(folder, change=lambda files: None):
    """The file of a node, whose archive has a separate manifest."""
    there = folder / "node" / "archive"
    world = standin.StandIn(("n00",), checks=2, gpus=1)
    for check in range(2):
        archive.write(world._record(ONE, "n00", check), there, {"tool.out": b"1\n"})
    change(there)
    (there.parent / "meta").write_text("token=t\nnode=n00\nhost=n00\nnames=n00\nbegin=1\nend=2\n")
    with tarfile.open(folder / "t.tar", "w") as tar:
        for path in sorted(there.parent.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(there.parent))
    return folder


def test_gathering_twice_changes_nothing(root, tmp_path):
    folder = spooled(tmp_path)
    first = spool.gather(folder, "t", "n00", ONE, root)
    assert (first.fault, len(first.records)) == (None, 2)
    before = lines(root, ONE)
    assert len([line for line in before if "standin/" in line]) == 4 and faults(root) == []
    assert spool.gather(folder, "t", "n00", ONE, root) == first and lines(root, ONE) == before
    # not even pruned ones
    assert prune(root) == []
    pruned = (root / first.records[0]).read_bytes()
    assert spool.gather(folder, "t", "n00", ONE, root).fault is None
    assert (root / first.records[0]).read_bytes() == pruned and faults(root) == []


def edit_a_record(archive_of_node):
    path = next(archive.paths(archive_of_node))
    path.write_text(path.read_text().replace('"local"', '"LOCAL"'))


def remove_a_record(archive_of_node):
    next(archive.paths(archive_of_node)).unlink()


@pytest.mark.parametrize("change", [edit_a_record, remove_a_record])
def test_a_file_that_its_node_did_not_list_is_not_gathered(root, tmp_path, change):
    found = spool.gather(spooled(tmp_path, change), "t", "n00", ONE, root)
    assert "is not what the node's manifest lists" in str(found.fault)
    assert not list(root.glob("standin/*")) and faults(root) == []


def test_another_content_of_a_record_that_is_there_is_not_gathered(root, tmp_path):
    folder = spooled(tmp_path)
    assert spool.gather(folder, "t", "n00", ONE, root).fault is None
    there = folder / "node" / "archive"
    edit_a_record(there)
    manifest = archive.session_folder(there, ONE) / seal.MANIFEST
    path = next(archive.paths(there))
    listed = next(line for line in manifest.read_text().splitlines() if line.endswith(path.name))
    new = seal.sha256(path.read_bytes())
    manifest.write_text(manifest.read_text().replace(listed[:64], new))
    with tarfile.open(folder / "t.tar", "w") as tar:
        for one in sorted(there.parent.rglob("*")):
            if one.is_file():
                tar.add(one, one.relative_to(there.parent))
    assert "is in the archive with another content" in str(spool.gather(folder, "t", "n00", ONE, root).fault)
    assert faults(root) == []


def test_what_is_exported_is_derived_and_has_no_seal(root, tmp_path):
    assert main("export", tmp_path / "x.tar.xz", "--sessions", ONE, "--archive", root) == 0
    folder = packed.folder_of(tmp_path / "x.tar.xz", tmp_path / "cache")
    found = verify.check(folder)
    assert (found.faults, found.sealed, len(found.unsealed)) == ([], 0, 2)
    raw = json.loads((folder / found.unsealed[0]).read_text())
    assert "unsealed" in raw["derived"] and "result_bytes" not in raw and "sha256" not in raw["job"]["facts"]


def test_what_is_redacted_is_derived_too(root, tmp_path):
    redact.main(["--hosts", "nid001", str(root), str(tmp_path / "out")])
    found = verify.check(tmp_path / "out")
    assert (found.faults, found.sealed, len(found.unsealed)) == ([], 0, 4)
    assert all("unsealed" in json.loads(path.read_text())["derived"] for path in archive.paths(tmp_path / "out"))
    assert len(list(archive.records(tmp_path / "out"))) == 4


def test_an_archive_that_is_written_to_meanwhile_has_no_fault(root, monkeypatch):
    """A record that gets its name between the listing of the folders and that of the manifests."""
    real = archive.all_files

    def then(*what):
        yield from list(real(*what))
        archive.write(record(ONE, check="C"), root)

    monkeypatch.setattr(archive, "all_files", then)
    assert faults(root) == []


def test_a_place_of_another_session_is_refused(root):
    path = of(root, ONE)
    with pytest.raises(ArchiveError, match=f"is not a place for a file of session {TWO}"):
        archive.put(root, TWO, path, b"{}")


def test_what_was_changed_a_moment_ago_is_not_replaced(root):
    path = of(root, ONE)
    before, there = lines(root, ONE), path.read_bytes()
    with pytest.raises(ArchiveError, match="was changed a moment ago"):
        archive.put(root, ONE, path, b"{}", instead_of=there + b" ")
    assert (lines(root, ONE), path.read_bytes(), temporaries(root), faults(root)) == (before, there, [], [])


def test_a_lock_that_is_never_free_is_told(root, monkeypatch):
    def held(*_):
        raise TimeoutError(errno.ETIMEDOUT, "another process has held the lock")

    before = lines(root, ONE)
    monkeypatch.setattr(durable, "lock", held)
    with pytest.raises(ArchiveError, match="another process has held the lock"):
        archive.write(record(ONE, check="C"), root)
    assert (lines(root, ONE), temporaries(root), faults(root)) == (before, [], [])


def test_a_session_with_an_odd_name_is_sealed_too(tmp_path):
    archive.write(record("my run/№ 1"), tmp_path)
    archive.write(replace(record("none"), check="x" * 200), tmp_path)
    found = verify.check(tmp_path, ["my run/№ 1"])
    assert (found.sealed, found.faults, faults(tmp_path)) == (1, [], [])


@pytest.mark.parametrize("name", ["../outside.json", "a/../../outside.json", "inside.json", f"{'x' * 200}.json"])
def test_a_name_that_leaves_the_archive_is_never_given(name, tmp_path):
    """A manifest names the file that a kill left unnamed; one that was forged could name any."""
    root = tmp_path / "perflogs"
    (root / "a").mkdir(parents=True)
    target = root / name
    left = durable.temporary(target, b"x")
    line = f"# seal\n{seal.sha256(b'x')}  {name}\n".encode()
    assert list(seal.pending(root, line)) == ([] if ".." in name else [(left, target)])
    assert list(seal.pending(root, line.replace(b"  ", b"  absent/"))) == []


#: Lines of a manifest after its head, and which of them are not of this manifest. A, B: listed paths; a, b: digests.
MANIFESTS = {
    "two files": ("a  A|b  B", []),
    "a file twice": ("a  A|b  A", [3]),
    "pruned": ("a  A|# pruned a  A|b  A", []),
    "pruned twice": ("a  A|# pruned a  A|b  A|# pruned b  A|a  A", []),
    "pruned, and then nothing": ("a  A|# pruned a  A", []),
    "pruned was another content": ("a  A|# pruned b  A|a  A", [3]),
    "pruned was not listed": ("# pruned a  A|b  A", [2, 3]),
    "another file after pruned, whose line a crash cut short": ("a  A|# pruned a  A|b  B", []),
    "not right after pruned": ("a  A|# pruned a  A|# unsealed B|b  A", [5]),
    "unsealed": ("# unsealed A|b  B", []),
    "unsealed of elsewhere": ("# unsealed ELSEWHERE", [2]),
    "of elsewhere": ("a  ELSEWHERE", [2]),
    "not so deep": ("a  SHALLOW", [2]),
    "too deep": ("a  DEEP", [2]),
    "hidden": ("a  HIDDEN", [2]),
    "continues": ("# continues other 12 a|a  A", []),
    "words behind": ("a  A x|# unsealed A x|# pruned a  A x|# continues other 12 a x", [2, 3, 4, 5]),
    "a remark": ("# remark", [2]),
    "one space": ("a A", [2]),
    "a second head": ("HEAD", [2]),
}  # fmt: skip


@pytest.mark.parametrize("what", MANIFESTS)
def test_each_line_of_a_manifest_is_one_that_the_suite_writes(what):
    file = f"000000-{ONE}-00000000.json"
    words = {"a": "a" * 64, "b": "b" * 64, "A": f"s/p/d/A/{file}", "B": f"s/p/d/B/{file}", "HIDDEN": f"s/.p/d/A/{file}",
             "ELSEWHERE": f"s/p/d/A/000000-{TWO}-00000000.json", "SHALLOW": f"s/p/d/{file}",
             "DEEP": f"s/p/d/A/x/{file}", "HEAD": f"# tenken-manifest/1 {ONE}"}  # fmt: skip
    text, wrong = MANIFESTS[what]
    given = [" ".join(words.get(word, word) for word in line.split(" ")) for line in text.split("|")]
    found = seal.read("\n".join([words["HEAD"], *given, ""]).encode(), ONE)
    assert [int(fault.split()[1]) for fault in found.faults] == wrong
    assert [fault.rpartition("manifest: ")[2] for fault in found.faults] == [repr(given[n - 2][:120]) for n in wrong]
    if what == "continues":
        assert found.continues == (("other", 12, words["a"]),)
    if what == "unsealed":
        assert (found.unsealed, found.files) == ({words["A"]}, {words["B"]: words["b"]})
    if what == "pruned":
        assert found.files == {words["A"]: words["b"]}
    (fault,) = seal.read("\n".join(["# tenken-manifest/1 other", *given, ""]).encode(), ONE).faults[:1]
    assert fault.startswith("line 1 is not")
