"""Leaf of each node from Slurm, ibnetdiscover and a site's file: formats as their programs print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenken.campaign.file import expand
from tenken.machines import topology

TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2,4]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]
"""
BLOCKS = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
FABRIC = """\
#
# Topology file: generated on Thu Nov 26 01:00:00 2026
#
vendid=0x2c9
devid=0xd2f2
switchguid=0xb83fd20300f29dea(b83fd20300f29dea)
Switch\t65 "S-b83fd20300f29dea"\t\t# "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-946dae0300a1b2c0"[1](946dae0300a1b2c0) \t\t# "n1 mlx5_0" lid 45 4xNDR
[2]\t"H-946dae0300a1b2d0"[1](946dae0300a1b2d0) \t\t# "n2 HCA-1" lid 46 4xNDR
[33]\t"S-b83fd20300aaaaaa"[1]\t\t# "MF0;spine1:MQM9700/U1" lid 7 4xNDR
[65]\t"H-b83fd20300f29df2"[1](b83fd20300f29df2) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xNDR

Switch\t65 "S-b83fd20300aaaaab"\t\t# "leaf2" enhanced port 0 lid 2 lmc 0
[1]\t"H-946dae0300a1b2e0"[1](946dae0300a1b2e0) \t\t# "n3 mlx5_0" lid 47 4xNDR
[2]\t"H-946dae0300a1b2c1"[1](946dae0300a1b2c1) \t\t# "n1 mlx5_1" lid 48 4xNDR

Ca\t1 "H-946dae0300a1b2c0"\t\t# "n1 mlx5_0"
[1](946dae0300a1b2c0) \t"S-b83fd20300f29dea"[1]\t\t# lid 45 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
"""
#: topology.conf of a site, which a file of the site may be.
CONF = """\
# SwitchName=old Nodes=n[1-4]
#SwitchName=old Nodes=n4
SwitchName=leaf1 Nodes=n[1-2] # SwitchName=rack7
switchname=leaf2 \\
  nodes=n3
SwitchName=spine Switches=leaf[1-2]
"""
#: Switches without a name, and two boards of one chassis.
UNNAMED = """\
Switch\t36 "S-aa"\t\t# "SwitchIB Mellanox Technologies" base port 0 lid 48 lmc 0
[1]\t"H-01"[1](01) \t\t# "n1 HCA-1" lid 67 4xEDR
[13]\t"S-bb"[19]\t\t# "SwitchIB Mellanox Technologies" lid 21 4xEDR
Switch\t36 "S-bb"\t\t# "SwitchIB Mellanox Technologies" base port 0 lid 23 lmc 0
[13]\t"H-02"[1](02) \t\t# "n2 HCA-1" lid 100 4xEDR
Switch\t40 "S-cc"\t\t# "MF0;core:CS7500/L01/U1" enhanced port 0 lid 24 lmc 0
[1]\t"H-03"[1](03) \t\t# "n3 HCA-1" lid 101 4xEDR
Switch\t40 "S-dd"\t\t# "MF0;core:CS7500/L02/U1" enhanced port 0 lid 25 lmc 0
[1]\t"H-04"[1](04) \t\t# "n4 HCA-1" lid 102 4xEDR
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TREE, {"n1": "leaf1", "n2": "leaf1", "n4": "leaf1", "n3": "leaf2"}),
        (BLOCKS, {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"}),
        (CONF, {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2"}),
        (FABRIC, {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2"}),
        (UNNAMED, {"n1": "SwitchIB Mellanox Technologies aa", "n2": "SwitchIB Mellanox Technologies bb",
                   "n3": "MF0;core:CS7500/L01/U1", "n4": "MF0;core:CS7500/L02/U1"}),
        ("# rack by rack\nn1 s1\nn2  s2\n", {"n1": "s1", "n2": "s2"}),
        ("leaf,rack,node\ns1,r1,n1\ns2,r1,n2\n", {"n1": "s1", "n2": "s2"}),
        ("n1\n", {}),
        ("No topology information available\n", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_the_leaf_of_each_node(text: str, found: dict[str, str]) -> None:
    assert topology.parse(text, expand) == found


def test_what_cannot_be_read_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.txt").write_text("n1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    for source, said in (
        ("none.txt", "none.txt: No such file"),
        ("empty.txt", "names no leaf"),
        ("slurm", "no program"),
    ):
        with pytest.raises(topology.TopologyError, match=said):
            topology.leaves(source, tmp_path, expand)
    scontrol = tmp_path / "scontrol"
    (tmp_path / "told").write_text(BLOCKS)
    scontrol.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line"; done < {tmp_path / "told"}\n')
    scontrol.chmod(0o755)
    assert topology.leaves("slurm", tmp_path, expand)["n3"] == "b2"


def test_a_program_that_fails_or_is_not_there_gives_no_topology() -> None:
    assert topology._asked(["sh", "-c", "echo told; echo beside >&2"]) == "told\n"
    for script, says in (("echo told; echo why >&2; exit 3", "why$"), ("echo told; exit 1", "told$")):
        with pytest.raises(topology.TopologyError, match=says):
            topology._asked(["sh", "-c", script])
    with pytest.raises(topology.TopologyError, match="no program no-such-program here"):
        topology._asked(["no-such-program"])
