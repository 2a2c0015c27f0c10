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
