"""What is kept as a fixture names no host, user or folder, and keeps GPUs apart."""

from __future__ import annotations

import json

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


def test_what_only_looks_like_a_name_stays():
    redactor = redact.Redactor(hosts=["gpu-node17", "localhost", "x"], users=["alice", "bob"])
    for text in ("gpu-node171", "my-gpu-node17", "alices", "x", "bob", "localhost", "malice", "gpu-node17-ib0"):
        assert redactor.text(text) == text
    assert redactor.text("gpu-node17.site alice:x alice@gpu-node17") == "node1.site user:x user@node1"


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
    for text in ("/usr/bin/env", "/proc/self/fd", "a/home/b", "./tmp/x", "/homes/x", "</work/x", "/tmp"):
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
