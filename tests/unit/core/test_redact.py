"""Fixtures name no host, user or folder, and keep GPUs distinguishable."""

from __future__ import annotations

import json

import pytest

from tenken.archive import redact

TEXT = json.dumps(
    {
        "host": {"name": "gpu-node17"},
        "command": ["/home/alice/tenken/.build/bin/stream", "--json", "result.json"],
        "devices": [
            {"uuid": "GPU-ce0b8db5-c5f9-6ec3-7cdd-08bd43bbbd0d", "pci_bus_id": "00000000:07:00.0"},
            {"uuid": "GPU-de0b8db5-c5f9-6ec3-7cdd-08bd43bbbd0d", "pci_bus_id": "00000000:08:00.0"},
        ],
        "again": "GPU-ce0b8db5-c5f9-6ec3-7cdd-08bd43bbbd0d on gpu-node17 by alice",
    }
)


def test_names_go_and_gpus_stay_distinct():
    clean = json.loads(redact.Redactor(hosts=["gpu-node17"], users=["alice"]).text(TEXT))
    assert clean["host"]["name"] == "node1"
    assert clean["command"][0] == "<path>/stream"
    first, second = (d["uuid"] for d in clean["devices"])
    assert first != second
    assert clean["again"] == f"{first} on node1 by user"
    assert len({d["pci_bus_id"] for d in clean["devices"]}) == 2
    for word in ("gpu-node17", "alice", "ce0b8db5", "/home"):
        assert word not in json.dumps(clean)


def test_the_command_writes_redacted_copies(tmp_path):
    (tmp_path / "a.json").write_text(TEXT)
    assert (
        redact.main(["--hosts", "gpu-node17", "--users", "alice", str(tmp_path / "a.json"), str(tmp_path / "o")]) == 0
    )
    assert "gpu-node17" not in (tmp_path / "o" / "a.json").read_text()


def test_an_archive_is_copied_with_its_folders(tmp_path):
    inner = tmp_path / "perflogs" / "h200" / "gpu"
    inner.mkdir(parents=True)
    (inner / "a.json").write_text(TEXT)
    (inner / "a.log").write_text("gpu-node17")
    assert redact.main(["--hosts", "gpu-node17", str(tmp_path / "perflogs"), str(tmp_path / "kept")]) == 0
    assert [p.name for p in (tmp_path / "kept").rglob("*.*")] == ["a.json"]
    assert "gpu-node17" not in (tmp_path / "kept" / "h200" / "gpu" / "a.json").read_text()


def test_an_archive_is_redacted_in_the_order_of_its_names(tmp_path):
    """Otherwise the same archive has other names in each copy."""
    for name, gpu in (("b", 2), ("a", 1), ("c", 3)):
        (tmp_path / "perflogs").mkdir(exist_ok=True)
        (tmp_path / "perflogs" / f"{name}.json").write_text(f"GPU-{gpu}{'0' * 7}-0000-0000-0000-000000000000")
    redact.main([str(tmp_path / "perflogs"), str(tmp_path / "kept")])
    found = [(tmp_path / "kept" / f"{name}.json").read_text() for name in "abc"]
    assert found == sorted(found) and len(set(found)) == 3


def test_what_only_looks_like_a_name_stays():
    redactor = redact.Redactor(hosts=["gpu-node17", "localhost", "x"], users=["alice", "bob"])
    for text in ("gpu-node171", "my-gpu-node17", "alices", "x", "bob", "localhost", "malice", "gpu-node17-ib0"):
        assert redactor.text(text) == text
    assert redactor.text("gpu-node17.site alice:x alice@gpu-node17") == "node1 user:x user@node1"


def test_hosts_are_numbered_in_the_order_given_and_this_one_comes_last(monkeypatch):
    monkeypatch.setattr(redact.socket, "gethostname", lambda: "workstation")
    monkeypatch.setattr(redact.getpass, "getuser", lambda: "operator")
    redactor = redact.Redactor(hosts=["nid2", "nid1", "nid2"])
    assert redactor.text("nid1 nid2 workstation operator nid3") == "node2 node1 node3 user nid3"


def test_hosts_that_are_called_as_others_will_be_stay_apart():
    redactor = redact.Redactor(hosts=["node3", "node1", "user", "node1.site"], users=["node2"])
    assert redactor.text("node3 node1 node2 node1.site user") == "node1 node2 user node4 node3"


def test_without_any_names_all_else_still_goes(monkeypatch):
    monkeypatch.setattr(redact.socket, "gethostname", lambda: "localhost")
    monkeypatch.setattr(redact.getpass, "getuser", lambda: "bob")
    assert redact.Redactor().text("bob at localhost in /home/bob/x") == "bob at localhost in <path>/x"


def test_paths_go_but_for_what_they_end_in():
    redactor = redact.Redactor(paths=["/srv/site/", "/srv/site/deep", "/"])
    assert redactor.text("in /srv/site/deep/a and /srv/site/b") == "in <root>/a and <root>/b"
    for root in ("home", "root", "work", "tmp", "opt", "mnt", "scratch", "users", "lustre", "data", "var/tmp"):
        assert redactor.text(f'"/{root}/a.b/c-d/e_1@x" and') == '"<path>/e_1@x" and'
    for text in ("/usr/bin/env", "/proc/self/fd", "a/home/b", "./tmp/x", "/dev/shm/x", "</work/x", "/tmp"):
        assert redactor.text(text) == text


GPU = "GPU-ce0b8db5-c5f9-6ec3-7cdd-08bd43bbbd0{}"


def test_the_same_gpu_is_the_same_in_every_text():
    redactor = redact.Redactor()
    first = redactor.text(f"{GPU.format(1)} {GPU.format(2)} at 00000000:0A:00.0 and 0000:0b:00.1")
    assert first == (
        "GPU-00000000-0000-0000-0000-000000000001 GPU-00000000-0000-0000-0000-000000000002 "
        "at 00000000:01:00.0 and 00000000:02:00.0"
    )
    later = redactor.text(f"{GPU.format(3)} {GPU.format(2).replace('GPU', 'MIG')} {GPU.format(1)} 0000:0b:00.1")
    assert later == (
        "GPU-00000000-0000-0000-0000-000000000003 MIG-00000000-0000-0000-0000-000000000004 "
        "GPU-00000000-0000-0000-0000-000000000001 00000000:02:00.0"
    )
    for text in ("GPU-ce0b8db5", "12:34:56.7", GPU.format(1)[:-1]):
        assert redactor.text(text) == text


def test_the_command_takes_lists_with_commas(tmp_path):
    (tmp_path / "a.json").write_text("n1 n2 carol davey /srv/one/x /srv/two/y")
    options = ["--hosts", "n1,,n2", "--users", "carol,davey", "--paths", "/srv/one,/srv/two"]
    assert redact.main([*options, str(tmp_path / "a.json"), str(tmp_path / "o")]) == 0
    assert (tmp_path / "o" / "a.json").read_text() == "node1 node2 user user <root>/x <root>/y"


def test_a_style_sheet_names_no_user():
    clean = redact.Redactor(users=["root"]).text(
        "<style>\n:root { --ink: #000 }\n@media print{:root{}}</style> by root, root:x"
    )
    assert clean.count(":root") == 2
    assert clean.endswith("by user, user:x")


def test_devices_stay_where_a_vendor_must_find_them():
    clean = json.loads(redact.Redactor(hosts=["gpu-node17"], devices=False).text(TEXT))
    assert clean["devices"][0]["uuid"] == "GPU-ce0b8db5-c5f9-6ec3-7cdd-08bd43bbbd0d"
    assert "gpu-node17" not in json.dumps(clean)


CSS = ":root { --ink: #111 }\nhtml,:root{a:b}\n:root[data-x]::before { }\n@media print { :root { } }"


def test_css_is_left_alone_and_a_user_of_that_name_is_not(monkeypatch):
    monkeypatch.setattr(redact.getpass, "getuser", lambda: "root")
    redactor = redact.Redactor()
    assert redactor.text(CSS) == CSS
    assert redactor.text("root root:root uid=0(root) by root.") == "user user:user uid=0(user) by user."


def test_domains_go_with_their_hosts_and_without():
    redactor = redact.Redactor(hosts=["nid1", "nid2"])
    assert redactor.text("nid1.cluster.site.ac.jp NID1.Cluster nid2.local nid1.log") == "node1 node1 node2 node1.log"
    text = "login3.hpc.example-site.de, ssh admin@gw.lab.internal, login3.HPC.example-site.de"
    assert redactor.text(text) == "host1, ssh admin@host2, host1"
    for kept in ('xmlns="http://www.w3.org/2000/svg"', "tenken.history.detect", "a.out", "libcudart.so.12", "x.y.z"):
        assert redactor.text(kept) == kept


def test_upper_case_and_bare_uuids_go_and_stay_the_same():
    redactor = redact.Redactor()
    lower = GPU.format(1)
    first, second, bare, old = redactor.text(
        f"{lower} {lower.upper()} {lower.removeprefix('GPU-')} MIG-{lower}/1/0"
    ).split()
    assert first == second == "GPU-00000000-0000-0000-0000-000000000001"
    assert bare == "00000000-0000-0000-0000-000000000002" and old == "MIG-GPU-00000000-0000-0000-0000-000000000003/1/0"


def test_addresses_go_and_versions_and_times_stay():
    redactor = redact.Redactor()
    assert redactor.text("tcp 10.128.3.77:4420 and 172.16.0.9/24, 10.128.3.77") == (
        "tcp 192.0.2.1:4420 and 192.0.2.2/24, 192.0.2.1"
    )
    assert redactor.text("fe80::ba59:9fff:fe12:3456%ib0 2001:DB8:1::9 ::1") == "2001:db8::3 2001:db8::4 ::1"
    assert redactor.text("b8:59:9f:12:34:56 B8-59-9F-12-34-56 b8:59:9f:12:34:57") == (
        "02:00:00:00:00:01 02-00-00-00-00-01 02:00:00:00:00:02"
    )
    assert redactor.text("f452:1403:0092:5b10 0xf452140300925b10") == "0000:0000:0000:0001 0x0000000000000001"
    for kept in (
        '"cublas": "12.4.5.8"', "driver 535.104.05", "version 4.1.5.1", "VBIOS 96.00.99.00.01", "127.0.0.1", "0.0.0.0",
        "12:34:56", "2026-11-22T03:00:00.123456Z", "std::vector<a::x>", "0x0000000000000004", "1.2.3.4.5", "300.1.1.1",
        "sm_90 9.0", "a::before",
    ):  # fmt: skip
        assert redactor.text(kept) == kept, kept


def test_paths_of_every_file_system_of_a_site_go():
    redactor = redact.Redactor()
    for root in (
        "gpfs",
        "lustre",
        "work",
        "scratch",
        "project",
        "gs",
        "groups",
        "homes",
        "beegfs",
        "p",
        "nfs",
        "LARGE0",
    ):
        assert redactor.text(f"cd /{root}/g1/alice/run7 && x=/{root}/a:/{root}/b") == "cd <path>/run7 && x=<path>/b"
    assert redactor.text("file:///gpfs/g/x GB/s/x https://github.com/a/b </p> <path>/x") == (
        "file://<path>/x GB/s/x https://github.com/a/b </p> <path>/x"
    )


def test_serial_numbers_go_and_stay_distinct():
    redactor = redact.Redactor()
    text = '{"serial": "1320921012345", "board_serial":"PC0AB1234"} Serial Number : 1320921012345; serial: none'
    assert (
        redactor.text(text) == '{"serial": "SERIAL1", "board_serial":"SERIAL2"} Serial Number : SERIAL1; serial: none'
    )


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_user_without_a_name_may_export(monkeypatch, error):
    def nobody():
        raise error("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(redact.getpass, "getuser", nobody)
    assert redact.Redactor(users=["alice"]).text("of alice") == "of user"
