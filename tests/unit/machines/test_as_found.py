"""Machines and answers as users posted them, each kind with its own inputs: valid parts are read, and only unreadable
ones are left out and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenken.machines import cluster, facts, hardware, limits, local, pbs_json
from tenken.machines.compare_local import differences
from tenken.machines.model import Node
from tenken.reframe.plan import make_plan
from tests.unit.machines.test_local import Machine

CARD = "{i}, GPU-0000000{i}, {name}, {able}, {mib}, {gen}, {lanes}, {mig}"


def rows(count: int, name: str, able: str = "8.0", mib: str = "81920", gen: str = "4", lanes: str = "16",
         mig: str = "Disabled") -> str:  # fmt: skip
    return "\n".join(CARD.format(i=i, name=name, able=able, mib=mib, gen=gen, lanes=lanes, mig=mig)
                     for i in range(count)) + "\n"  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "root")
    made.programs |= {"nvidia-smi", "nvcc"}
    made.file("sys/devices/system/cpu/cpu0/topology/core_id", "0")
    return made


def on_bus(made: Machine, bus: int, driver: str = "nvidia") -> None:
    """A GPU on the PCI bus with its driver, or without one, and its device file."""
    folder = f"sys/bus/pci/devices/0000:{bus:02x}:00.0"
    made.file(f"{folder}/vendor", "0x10de")
    made.file(f"{folder}/class", "0x030200")
    made.file(f"dev/nvidia{bus}", "")
    if driver:
        (made.root / folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def smi(made: Machine, answer: Callable[[str], str | None]) -> None:
    """`nvidia-smi` as a function of its whole command line."""
    found = made.run
    made.run = lambda command: answer(" ".join(command)) if command[0] == "nvidia-smi" else found(command)  # type: ignore[method-assign]


# -- one bad field, one bad GPU -----------------------------------------------------------------------------------

FIELDS = ["index", "uuid", "name", "compute_cap", "memory.total", "pcie.link.gen.max", "pcie.link.width.max",
          "mig.mode.current"]  # fmt: skip
V100 = ["{i}", "GPU-0000000{i}", "Tesla V100-SXM2-32GB", "7.0", "32510", "3", "16", "[N/A]"]


@pytest.mark.parametrize(
    "unknown",
    [{"compute_cap"}, {"mig.mode.current"}, {"compute_cap", "mig.mode.current"}, {"compute_cap", "memory.total"},
     {"pcie.link.width.max"}, set(FIELDS[3:])],
)  # fmt: skip
def test_a_field_that_a_driver_does_not_know_voids_itself_alone(node: Machine, unknown: set[str]) -> None:
    def answer(line: str) -> str | None:
        if "topo" in line:
            return "\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n"
        asked = line.split("--query-gpu=")[1].split(" ")[0].split(",")
        if unknown & set(asked):
            return None
        return "".join(", ".join(V100[FIELDS.index(f)].format(i=i) for f in asked) + "\n" for i in range(4))

    smi(node, answer)
    system = node.describe()
    found = system.partition("node").node
    assert (found.gpu_count, found.gpu and found.gpu.name) == (4, "V100-SXM2-32GB")
    assert found.gpu_memory_bytes == (None if "memory.total" in unknown else 32510 * 2**20)
    assert (found.host_link is None) == bool({"pcie.link.width.max", "pcie.link.gen.max"} & unknown)
    assert found.pair_links is not None and found.pair_links.count == 2
    assert (
        found.compute_capability == (None if "compute_cap" in unknown else "7.0") and found.cuda_architectures == "70"
    )
    (note,) = [one for one in system.notes if "has no" in one]
    assert set(note.split("has no ")[1].split(", ")) == unknown


@pytest.mark.parametrize(
    "said",
    [
        None, "Unable to determine the device handle for GPU{i}: 0000:{bus:02X}:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0000:{bus:02X}:00.0: Unknown Error",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dead", [{2}, {0, 3}])
def test_a_card_without_a_handle_voids_itself_alone(node: Machine, dead: set[int], said: str | None) -> None:
    cards = rows(4, "NVIDIA H100 80GB HBM3", "9.0", "81559", "5").splitlines()
    for i in range(4):
        node.file(f"proc/driver/nvidia/gpus/0000:{i + 1:02x}:00.0/information", "Model: \t NVIDIA H100 80GB HBM3\n")
        on_bus(node, i + 1)

    def answer(line: str) -> str | None:
        if " -i " in line and "query" in line:
            i = int(line.split("0000:")[1][:2], 16) - 1
            return (said and said.format(i=i, bus=i + 1)) if i in dead else cards[i]
        return said and said.format(i=max(dead), bus=max(dead) + 1)

    smi(node, answer)
    system = node.describe()
    found = system.partition("node").node
    assert found.gpu_count == 4 and len(found.gpu_names) == 4 - len(dead) and found.gpu_memory_bytes == 81559 * 2**20
    assert any(f"0000:{i + 1:02x}:00.0" in note for i in dead for note in system.notes)


@pytest.mark.parametrize("cell", ["[GPU is lost]", "[Unknown Error]", "ERR!"])
def test_a_card_that_was_lost_is_counted_and_named(node: Machine, cell: str) -> None:
    good = rows(3, "NVIDIA A100-SXM4-80GB")
    for i in range(4):
        on_bus(node, i)
    node.answers["nvidia-smi --query-gpu="] = good + f"3, {cell}, {cell}, {cell}, {cell}, {cell}, {cell}, {cell}\n"
    system = node.describe()
    found = system.partition("node").node
    assert (
        found.gpu_count == 4
        and found.gpu is not None
        and f"nvidia-smi reports of GPU 3: {cell}: 1 lost" in system.notes
    )


def test_a_card_that_must_be_reset_cannot_be_used(node: Machine) -> None:
    first, second = rows(2, "NVIDIA H100 80GB HBM3").splitlines()
    node.answers["nvidia-smi --query-gpu="] = f"{first}\n{second.rpartition(', ')[0]}, [GPU requires reset]\n"
    system = node.describe()
    found = system.partition("node").node
    assert (found.gpu_count, len(found.gpu_names)) == (2, 1)
    assert "nvidia-smi reports of GPU 1: [GPU requires reset]: 1 lost" in system.notes


def test_a_line_in_place_of_a_card_and_warnings_void_no_other(node: Machine) -> None:
    good = rows(3, "NVIDIA A100-SXM4-80GB")
    node.answers["nvidia-smi --query-gpu="] = (
        "WARNING: infoROM is corrupted at gpu 0000:B3:00.0\n" + good
        + "Unable to determine the device handle for GPU3: 0000:DC:00.0: Unknown Error\n"
    )  # fmt: skip
    system = node.describe()
    found = system.partition("node").node
    assert found.gpu_count == 4 and found.gpu is not None and found.gpu_memory_bytes == 81920 * 2**20
    assert "nvidia-smi does not answer for 0000:DC:00.0: 1 lost" in system.notes


def test_what_a_command_printed_before_it_failed_is_used() -> None:
    """nvidia-smi ends with 14 because of an infoROM, and has listed all GPUs."""
    assert local.run_command(["sh", "-c", "echo 0, GPU-1; exit 14"]) == "0, GPU-1\n"
    assert local.run_command(["sh", "-c", "echo no >&2; exit 9"]) is None
    lost = "Unable to determine the device handle for GPU1: 0000:44:00.0: Unknown Error"
    assert local.run_command(["sh", "-c", f"echo 0, GPU-1; echo no >&2; echo {lost!r} >&2"]) == f"0, GPU-1\n{lost}\n"
    assert local.run_command(["sh", "-c", 'echo "$LC_ALL"']) == "C\n", "lscpu translates its labels"


@pytest.mark.parametrize("bad", [["[N/A]"], ["[Not Supported]"], ["[Unknown Error]", "[Unknown Error]"]])
def test_one_value_of_one_card_voids_itself_alone(node: Machine, bad: list[str]) -> None:
    first, second = rows(2, "NVIDIA A100-SXM4-80GB").splitlines()
    cells = first.split(", ")
    if len(bad) == 1:
        cells[1] = bad[0]  # a UUID that this user may not see
    else:
        cells[4], cells[5], cells[6] = bad[0], bad[0], bad[1]
    node.answers["nvidia-smi --query-gpu="] = f"{', '.join(cells)}\n{second}\n"
    found = node.node()
    assert (found.gpu_count, found.gpu_memory_bytes, len(found.gpu_names)) == (2, 81920 * 2**20, 2)
    assert found.host_link is not None and found.host_link.kind == "PCIe Gen4 x16"


@pytest.mark.parametrize(
    "name",
    ["GRID V100DX-32C", "NVIDIA A100-40C", "NVIDIA H100-4-40C", "NVIDIA L40S-48Q", "NVIDIA H100XM-80C", "GRID T4-16Q"],
)
def test_a_share_of_a_card_has_no_sheet_of_the_card(node: Machine, name: str) -> None:
    node.answers["nvidia-smi --query-gpu="] = rows(1, name, mib="40960", gen="[N/A]", lanes="[N/A]")
    found = node.node()
    assert (found.gpu_count, found.gpu, found.gpu_memory_bytes, found.host_link) == (1, None, 40960 * 2**20, None)


@pytest.mark.parametrize(
    ("drivers", "count", "says"),
    [
        (["nvidia"] * 3 + [""], 4, "4 NVIDIA GPUs on the PCI bus, 3 visible to the driver: 1 lost"),
        (["", "nvidia", "nvidia", "", "nvidia"], 5, "5 NVIDIA GPUs on the PCI bus, 3 visible to the driver: 2 lost"),
        ([""] * 4, 4, "4 NVIDIA GPUs on the PCI bus, 3 visible to the driver: 1 lost"),
        (["nvidia"] * 4, 3, "3 of 4 NVIDIA GPUs on the PCI bus are visible to this container or job"),
        (["nvidia"] * 3 + ["vfio-pci"], 3, ""),
        (["nvidia"] * 3 + ["pci-stub"], 3, ""),
        (["nvidia"] * 3 + ["vf", "vf"], 3, ""),
        (["nvidia"] * 3 + ["switch"] * 4, 3, ""),
    ],
)
def test_a_card_that_the_driver_could_not_take_is_lost(
    node: Machine, drivers: list[str], count: int, says: str
) -> None:
    """The kernel creates no device file for it, as if a container had been given only the others."""
    node.answers["nvidia-smi --query-gpu="] = rows(3, "NVIDIA A100-SXM4-80GB")
    for i, driver in enumerate(drivers):
        folder = f"sys/bus/pci/devices/0000:0{i}:00.0"
        node.file(f"{folder}/vendor", "0x10de")
        node.file(f"{folder}/class", "0x068000" if driver == "switch" else "0x030200")
        if driver == "vf":  # a virtual function, which has NVIDIA's driver too
            (node.root / folder / "physfn").symlink_to("../0000:00:00.0")
            driver = "nvidia"
        if driver:
            (node.root / folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    for i in range(3):
        node.file(f"dev/nvidia{i}", "")
    system = node.describe()
    assert system.partition("node").node.gpu_count == count
    assert [note for note in system.notes if "on the PCI bus" in note] == ([says] if says else [])


# -- MIG, names, boards, links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "mode"),
    [
        ("MIG-3f2d0b1e-0000-5000-8000-000000000001,MIG-3f2d0b1e-0000-5000-8000-000000000002", "Enabled"),
        ("MIG-GPU-00000001/7/0", "Enabled"),
        ("MIG-3f2d0b1e-0000-5000-8000-000000000003", "[N/A]"),
    ],
)
def test_of_mig_instances_cuda_opens_one(node: Machine, visible: str, mode: str) -> None:
    for i in range(4):
        node.file(f"dev/nvidia{i}", "")
    node.answers["nvidia-smi --query-gpu="] = rows(4, "NVIDIA A100-SXM4-80GB", mig=mode)
    node.env["CUDA_VISIBLE_DEVICES"] = visible
    system = node.describe()
    found = system.partition("node").node
    assert (found.gpu_count, found.gpu, found.gpu_memory_bytes) == (1, None, None) and "MIG is enabled" in system.notes[
        0
    ]
    assert local.gpu_count(node.root, node.env) == 1
    node.answers = {}
    for i in range(4):
        node.file(f"proc/driver/nvidia/gpus/0000:0{i}:00.0/information", "Model: \t NVIDIA A100-SXM4-80GB\n")
    without = node.describe()
    assert without.partition("node").node.gpu_count == 1 and without.partition("node").node.gpu is None
    assert any("MIG is enabled" in note for note in without.notes)


@pytest.mark.parametrize(
    ("name", "sheet"),
    [
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"), ("A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("A100-SXM-80GB", "A100-SXM-80GB"), ("Tesla P100-PCIE-16GB", "P100-PCIe-16GB"), ("Tesla K40m", "K40"),
        ("A100 80GB PCIe", "A100-PCIe-80GB"), ("GeForce RTX 4090", "RTX-4090-24GB"), ("Graphics Device", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None),
    ],
)  # fmt: skip
def test_cards_under_the_names_of_older_drivers(name: str, sheet: str | None) -> None:
    found = hardware.for_device(name)
    assert (found.name if found else None) == sheet


@pytest.mark.parametrize(
    ("board", "name", "sheet"),
    [
        ("NVIDIA Jetson AGX Orin Developer Kit", "Orin (nvgpu)", "Jetson-AGX-Orin"),
        ("NVIDIA Jetson AGX Thor Developer Kit", "NVIDIA Thor", "Jetson-AGX-Thor"),
        ("NVIDIA Jetson AGX Thor Developer Kit", "Thor (nvgpu)", "Jetson-AGX-Thor"),
        ("NVIDIA Jetson Orin NX Engineering Reference Developer Kit", "Orin (nvgpu)", None),
    ],
)
def test_the_board_names_the_gpu_of_a_jetson(node: Machine, board: str, name: str, sheet: str | None) -> None:
    node.file("proc/device-tree/model", board + "\0")
    node.answers["nvidia-smi --query-gpu="] = rows(1, name, "8.7", "[N/A]", "[N/A]", "[N/A]", "[N/A]")
    found = node.node("aarch64")
    assert (found.gpu_count, found.gpu.name if found.gpu else None, found.host_link) == (1, sheet, None)
    assert found.compute_capability == "8.7"


def test_cuda_calls_boards_of_one_chip_by_its_name(load: Callable[[str], Any]) -> None:
    from tests.unit.machines.conftest import GOOD

    system = load(GOOD)
    partition = replace(
        system.partition("gpu"), node=Node("aarch64", gpu=hardware.sheet("Jetson-AGX-Orin"), gpu_count=1)
    )
    assert "Orin" in facts.facts(system, partition, next(iter(system.environments.values()))).gpu_names
    assert hardware.for_device("Orin") is None, "an Orin NX has this name too"


@pytest.mark.parametrize(
    ("name", "able", "mib", "gen", "lanes"),
    [("NVIDIA GB10", "12.1", "[N/A]", "1", "1"), ("NVIDIA X1", "13.0", "[Not Supported]", "4", "16"),
     ("NVIDIA X2", "9.0", "97871", "1", "16")],
)  # fmt: skip
def test_a_placeholder_is_no_pcie_link(node: Machine, name: str, able: str, mib: str, gen: str, lanes: str) -> None:
    node.answers["nvidia-smi --query-gpu="] = rows(1, name, able, mib, gen, lanes, "[N/A]")
    partition = node.describe("aarch64").partition("node")
    assert partition.node.host_link is None and isinstance(limits.host_link(partition), limits.Unknown)


def matrix(cells: list[str], nics: str = "", legend: str = "\nLegend:\n\n  X    = Self\n", indent: str = "") -> str:
    """`nvidia-smi topo -m` from the cells of the upper triangle, row by row: `NV12 SYS`, `NV12`; with columns of NICs
    and their own rows."""
    count, names = len(cells) + 1, nics.split()
    head = "\t".join(["", *(f"GPU{i}" for i in range(count)), *names, "CPU Affinity", "NUMA Affinity"])
    rows = [row.split() for row in cells]
    lines = [indent + head]
    for i in range(count):
        row = [" X " if i == j else rows[min(i, j)][abs(i - j) - 1] for j in range(count)]
        lines.append(indent + "\t".join([f"GPU{i}", *row, *["PXB"] * len(names), "0-31,64-95", "0"]))
    lines += [indent + "\t".join([name, *["PXB"] * count, *[" X "] * len(names)]) for name in names]
    return "\n".join(lines) + "\n" + legend


@pytest.mark.parametrize(
    ("name", "text", "links", "says"),
    [
        ("NVIDIA A100-SXM4-80GB", matrix(["NV12 NV12 NV12", "NV12 NV12", "NV12"], "NIC0"), 12, ""),
        ("NVIDIA A100-SXM4-80GB",
         matrix(["NV12 NV12 NV12", "NV12 NV12", "NV12"], "mlx5_0 mlx5_1 mlx5_bond_0", "", 8 * " "), 12, ""),
        # a row that the terminal or a tool cut off, beyond the columns of the GPUs
        ("NVIDIA H100 80GB HBM3",
         matrix(["NV18"], "NIC0 NIC1 NIC2").replace("PXB\tPXB\tPXB\t0-31,64-95", "PXB\tPX0-115", 1), 18, ""),
        ("NVIDIA B200", matrix(["NV18 NV18 NV18", "NV18 NV18", "NV18"]).replace(" X ", "\x1b[4m X \x1b[0m"), 18, ""),
        # one that its switch lost, as on a B200
        ("NVIDIA B200", matrix(["NV18 NODE NV18", "NODE NV18", "NODE"], "NIC0"), 18,
         "differ: NODE, NV18: GPU 2 has lost its links"),
        # bridges between pairs, a cube of single and double links, PCIe alone
        ("NVIDIA A100 80GB PCIe", matrix(["NV12 SYS SYS", "SYS SYS", "NV12"]), None, "differ: NV12, SYS"),
        ("Tesla V100-SXM2-32GB", matrix(["NV1 NV1 NV2", "NV2 NV1", "NV1"]), None, "differ: NV1, NV2"),
        ("NVIDIA L40S", matrix(["PIX NODE SYS", "NODE SYS", "SYS"], "NIC0"), None, ""),
    ],
    ids=["nic", "mlx5-indented", "cut-off", "escapes", "lost", "bridges", "cube", "pcie"],
)  # fmt: skip
def test_links_of_every_form_of_the_matrix(node: Machine, name: str, text: str, links: int | None, says: str) -> None:
    count = 1 + max(int(word[3:]) for word in text.split() if word.startswith("GPU") and word[3:].isdigit())
    node.answers = {"nvidia-smi --query-gpu=": rows(count, name), "nvidia-smi topo -m": text}
    system = node.describe()
    found = system.partition("node").node
    assert (found.gpu_count, found.pair_links.count if found.pair_links else None) == (count, links)
    assert [note for note in system.notes if "links" in note] == ([f"links between the GPUs {says}"] if says else [])


@pytest.mark.parametrize("dead", [[7], [0, 3], list(range(8))])
def test_inactive_nvlinks_differ_from_the_file(node: Machine, dead: list[int]) -> None:
    cards = range(8)
    lines = ["\t" + "\t".join(f"GPU{i}" for i in cards) + "\tCPU Affinity"]
    for i in cards:
        cells = [" X " if i == j else "SYS" if i in dead or j in dead else "NV18" for j in cards]
        lines.append("\t".join([f"GPU{i}", *cells, "0-31"]))
    node.answers = {
        "nvidia-smi --query-gpu=": rows(8, "NVIDIA H100 80GB HBM3", "9.0", "81559", "5"),
        "nvidia-smi topo -m": "\n".join(lines) + "\n\nLegend:\n",
    }
    sheet = hardware.sheet("H100-SXM-80GB")
    said = Node("x86_64", gpu=sheet, gpu_count=8, pair_links=sheet.gpu_links)
    (line,) = differences(said, node.node())
    assert line.startswith("links between two GPUs: the file states 18, this machine has ")
    assert line.endswith("none (SYS)" if len(dead) == 8 else f"SYS in those of GPU {', '.join(map(str, dead))}")
    node.answers["nvidia-smi topo -m"] = ""
    assert differences(said, node.node()) == [], "what is not known differs from nothing"


# -- CPUs and memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packages", "dies", "cores", "threads", "told"),
    [(2, 2, 6, 1, "siblings"), (1, 4, 4, 2, "siblings"), (2, 2, 12, 1, "die"), (1, 3, 4, 2, "cluster")],
)
def test_core_numbers_that_repeat(node: Machine, packages: int, dies: int, cores: int, threads: int, told: str) -> None:
    cpu = 0
    for package in range(packages):
        for die in range(dies):
            for core in range(cores):
                mates = range(cpu, cpu + threads)
                for one in mates:
                    base = f"sys/devices/system/cpu/cpu{one}/topology"
                    node.file(f"{base}/physical_package_id", f"{package}\n")
                    node.file(f"{base}/core_id", f"{core}\n")
                    if told == "siblings":
                        node.file(f"{base}/thread_siblings_list", ",".join(map(str, mates)) + "\n")
                    else:
                        node.file(f"{base}/{told}_id", f"{die}\n")
                cpu += threads
    found = node.node()
    assert (found.sockets, found.cores, found.threads_per_core) == (packages, packages * dies * cores, threads)


def siblings(made: Machine, cores: list[list[int]], packages: Callable[[int], int], listed: bool = True,
             number: Callable[[int], int] = lambda core: core) -> None:  # fmt: skip
    """CPUs by the threads of each core, with the package and the number that the kernel gives this core."""
    for core, threads in enumerate(cores):
        for cpu in threads:
            base = f"sys/devices/system/cpu/cpu{cpu}/topology"
            made.file(f"{base}/physical_package_id", f"{packages(core)}\n")
            made.file(f"{base}/core_id", f"{number(core)}\n")
            if listed:
                made.file(f"{base}/thread_siblings_list", f"{min(threads)}-{max(threads)}\n")


def smt(cores: int, threads: int) -> list[list[int]]:
    return [list(range(core * threads, (core + 1) * threads)) for core in range(cores)]


HYBRID = [[2 * core, 2 * core + 1] for core in range(8)] + [[cpu] for cpu in range(16, 20)]


@pytest.mark.parametrize(
    ("cores", "packages", "listed", "number", "seen"),
    [
        # POWER: four or eight threads, numbers with gaps, packages 0 and 8, or none that a hypervisor reports
        (smt(16, 4), lambda core: 0, True, lambda core: 4 * core, (1, 16, 4)),
        (smt(44, 4), lambda core: 0 if core < 22 else 8, True, lambda core: 8 * core + 2048 * (core > 21), (2, 44, 4)),
        (smt(20, 8), lambda core: -1, False, lambda core: 8 * core, (1, 20, 8)),
        # cores of two kinds: with two threads and with one; of two clusters on one Arm chip
        (HYBRID, lambda core: 0, True, lambda core: 4 * core if core < 8 else 32 + core, (1, 12, 2)),
        (smt(20, 1), lambda core: 0, True, lambda core: core % 10, (1, 20, 1)),
        (smt(8, 1), lambda core: 0, False, lambda core: (0, 4, 8, 12, 16, 17, 18, 19)[core], (1, 8, 1)),
    ],
    ids=["power9-smt4", "power9-2-sockets", "power-lpar-smt8", "x86-hybrid", "arm-two-clusters", "x86-low-power"],
)  # fmt: skip
def test_cores_of_unusual_threads_and_packages(
    node: Machine, cores: list[list[int]], packages: Callable[[int], int], listed: bool,
    number: Callable[[int], int], seen: tuple[int, int, int],
) -> None:  # fmt: skip
    siblings(node, cores, packages, listed, number)
    found = node.node()
    assert (found.sockets, found.cores, found.threads_per_core) == seen


@pytest.mark.parametrize(
    ("with_cpus", "without", "gib"),
    [([502070272], [99614720], 478.8), ([502070272, 502070272], [194000000] * 4, 957.6), ([65536], [0], 65536 / 2**20)],
)
def test_memory_of_a_coherent_gpu_is_not_the_hosts(
    node: Machine, with_cpus: list[int], without: list[int], gib: float
) -> None:
    node.file("proc/meminfo", f"MemTotal:       {sum(with_cpus) + sum(without)} kB\n")
    for number, (kib, cpus) in enumerate(
        [*((k, f"{n}") for n, k in enumerate(with_cpus)), *((k, "") for k in without)]
    ):
        node.file(f"sys/devices/system/node/node{number}/meminfo", f"Node {number} MemTotal: {kib} kB\n")
        node.file(f"sys/devices/system/node/node{number}/cpulist", cpus + "\n")
    system = node.describe("aarch64")
    found = system.partition("node").node
    assert found.memory_bytes == sum(with_cpus) * 1024 and found.numa_nodes == len(with_cpus)
    assert found.memory_bytes / 2**30 == pytest.approx(gib, abs=0.1)
    assert any("without CPUs" in note for note in system.notes) == bool(sum(without))
    assert differences(Node("aarch64", memory_bytes=sum(with_cpus) * 1024), replace(found, numa_nodes=None)) == []


def test_a_copy_of_a_machines_files_has_masks_of_cpus(node: Machine) -> None:
    """hwloc-gather-topology and lscpu's mk-input.sh copy no lists."""
    for number, mask in enumerate(["00000000,000000ff", "00000001,00000000", "00000000,00000000", "0"]):
        node.file(f"sys/devices/system/node/node{number}/cpumap", f"{mask}\n")
    assert node.node().numa_nodes == 2


@pytest.mark.parametrize("kib", [[65536, 16777216], [0, 268435456, 268435456]])
def test_memory_of_x86_without_cpus_is_the_hosts(node: Machine, kib: list[int]) -> None:
    """HBM of a Xeon Max in flat mode, memory behind CXL."""
    node.file("proc/cpuinfo", "vendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) CPU Max 9468\n")
    node.file("proc/meminfo", f"MemTotal:       {65536 + sum(kib)} kB\n")
    for number, size in enumerate([65536, *kib]):
        node.file(f"sys/devices/system/node/node{number}/meminfo", f"Node {number} MemTotal: {size} kB\n")
        node.file(f"sys/devices/system/node/node{number}/cpulist", "0\n" if number == 0 else "\n")
    system = node.describe()
    assert system.partition("node").node.memory_bytes == (65536 + sum(kib)) * 1024
    assert not any("without CPUs" in note for note in system.notes)
    assert system.partition("node").node.numa_nodes == 1


@pytest.mark.parametrize(
    ("part", "said", "cpu"),
    [
        ("0xd4f", "", "Neoverse-V2"), ("0xd8e", "", None),
        ("0xd85", "Model name:   Cortex-X925\n  Model: 1\nModel name:   Cortex-A725\n", "Cortex-X925, Cortex-A725"),
        ("0x001", "Vendor ID:  FUJITSU\n  Model name:  A64FX\n", "A64FX"), ("0xd83", "Model name: -\n", None),
    ],
)  # fmt: skip
def test_names_of_arm_cpus(node: Machine, part: str, said: str, cpu: str | None) -> None:
    node.file("proc/cpuinfo", f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n")
    node.answers["lscpu"] = said
    assert node.node("aarch64").cpu == cpu


def test_loongarch_writes_model_name_in_capitals(node: Machine) -> None:
    node.file("proc/cpuinfo", "processor\t\t: 0\nCPU Family\t\t: Loongson-64bit\nModel Name\t\t: Loongson-3C6000\n")
    assert node.node("loongarch64").cpu == "Loongson-3C6000"


# -- GPUs that this process does not see -----------------------------------------------------------------------------


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", None])
def test_a_node_with_gpus_that_a_process_does_not_see(node: Machine, visible: str | None) -> None:
    for i in range(4):
        node.file(f"sys/bus/pci/devices/0000:0{i}:00.0/vendor", "0x10de")
        node.file(f"sys/bus/pci/devices/0000:0{i}:00.0/class", "0x030200")
        if visible is not None:
            node.file(f"dev/nvidia{i}", "")
    if visible is not None:
        node.env["CUDA_VISIBLE_DEVICES"] = visible
        node.answers["nvidia-smi --query-gpu="] = rows(4, "NVIDIA A100-SXM4-80GB")
    system = node.describe()
    assert system.partition("node").node.gpu_count == 0
    assert "this machine has 4 NVIDIA GPUs, and this process sees none of them" in system.hidden_gpus
    assert ("CUDA_VISIBLE_DEVICES" in system.hidden_gpus) == (visible is not None)
    assert make_plan(system, [], [], None).as_json()["hidden_gpus"] == system.hidden_gpus


def test_nothing_is_hidden_where_gpus_are_seen_or_there_are_none(node: Machine) -> None:
    assert node.describe().hidden_gpus == ""
    node.file("dev/nvidia0", "")
    node.answers["nvidia-smi --query-gpu="] = rows(1, "NVIDIA A100-SXM4-80GB")
    assert node.describe().hidden_gpus == ""


@pytest.mark.parametrize("listed", [False, True])
def test_a_job_whose_control_group_keeps_its_gpus_from_it(
    listed: bool, node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(2):
        node.file(f"dev/nvidia{i}", "")
        if listed:
            node.file(f"proc/driver/nvidia/gpus/0000:0{i}:00.0/information", "Model: \t NVIDIA A100-SXM4-80GB\n")
    monkeypatch.setattr(local, "_may_open", lambda file: False)
    node.answers["nvidia-smi --query-gpu="] = "No devices were found\n"
    assert "has 2 NVIDIA GPUs" in node.describe().hidden_gpus


# -- schedulers' words on nodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gres", "whole", "instances"),
    [
        ("gpu:nvidia_h100_80gb_hbm3:2,gpu:nvidia_h100_80gb_hbm3_4g.40gb:2(S:0-1)", ("nvidia_h100_80gb_hbm3", 2), 2),
        ("gpu:1g.10gb+me:7", (None, 0), 7),
        ("gpu:a100_3g20gb:2,gpu:a100:1", ("a100", 1), 2),
        ("gpu:mig-1g.5gb:4", (None, 0), 4),
        ("gpu:h100:4(S:0,1),nvme:1", ("h100", 4), 0),
        ("gpu:tesla:no_consume:4", ("tesla", 4), 0),
        ("gpu:no_consume:4", (None, 4), 0),
        ("gpu", (None, 1), 0),
        ("gpu:h100:4(IDX:0-3)", ("h100", 4), 0),
        ("gres/gpu:h100=4", ("h100", 4), 0),
        ("shard:gpu:8,gpu:2,mps:400,tmp:844G", (None, 2), 0),
        ("gpu:a100-sxm4-80gb:8", ("a100-sxm4-80gb", 8), 0),
        ("gpu:1K", (None, 1024), 0),
        ("cpu=64,mem=500G,gres/gpu=4,gres/gpu:a100=4", ("a100", 4), 0),
        ("gres/gpu=6,gres/gpu:a100=2,gres/gpu:a100_1g.5gb=4", ("a100", 2), 4),
        ("gpu:a100-1g-5gb:2", (None, 0), 2),
        ("craynetwork:4,gpu:mi250x:8,shard:mi250x:32", ("mi250x", 8), 0),
        ("(null)", (None, 0), 0),
    ],
)
def test_every_form_of_gres(gres: str, whole: tuple[str | None, int], instances: int) -> None:
    assert (cluster.slurm_gpus(gres), cluster.slurm_instances(gres)) == (whole, instances)


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("gpu*|2|2|32|2|512000+|gpu:h100:4(S:0-1)|2-00:00:00|up|idle", ("gpu*", 2, 64, 512000, 4, "48:00:00", True)),
        ("cloud|4|1|48|1|190000|gpu:l40s:4|infinite|up|idle~", ("cloud", 4, 48, 190000, 4, None, True)),
        ("big|1K|2|32|1|750K|(null)|30:00|inact|mixed-", ("big", 1024, 64, 768000, 0, "00:30:00", False)),
        # a node whose memory is not configured (awslabs/awsome-distributed-ai 195)
        ("compute|1|8|1|1|1|gpu:nvidia-rtx-3090:1|infinite|up|drain", ("compute", 1, 8, None, 1, None, True)),
        # cards of several models, on nodes that Slurm does not accept
        (
            "gpu|1|2|16|1|256000|gpu:a100:4(S:0),gpu:l40s:2(S:1)|infinite|up|inval",
            ("gpu", 1, 32, 256000, 6, None, True),
        ),
        (
            "mix*|3|1|64|2|515000|nvme:1,gpu:a30:1,gpu:t4:2,gpu:v100:1|4:00:00|up|drain*",
            ("mix*", 3, 64, 515000, 4, "04:00:00", True),
        ),
    ],
)
def test_lines_of_sinfo(line: str, seen: tuple[Any, ...]) -> None:
    unread: list[str] = []
    (q,) = cluster.slurm_queues(lambda command: line + "\n", unread)
    assert (q.name, q.nodes, q.cores, q.memory_mib, q.gpus, q.time_limit, q.usable) == seen and unread == []
    assert (q.gpu_kind is None) == ("v100" in line or "a100" in line or not q.gpus), "several models have no name"


def vnode(host: str, cores: int, gib: int, gpus: int = 0, **more: Any) -> dict[str, Any]:
    has = {"host": host, "ncpus": cores, "mem": f"{gib * 2**20}kb", **({"ngpus": gpus} if gpus else {}), **more}
    return {"Mom": host, "state": "free", "pcpus": cores, "resources_available": has}


@pytest.mark.parametrize(
    ("nodes", "seen"),
    [
        ({"uv": vnode("uv", 0, 0), **{f"uv[{i}]": vnode("uv", 8, 16) for i in range(4)}}, [(1, 32, 65536, 0)]),
        ({f"{h}[{i}]": vnode(h, 64, 256, 4) for h in ("n1", "n2") for i in range(2)}, [(2, 128, 524288, 8)]),
        ({"n1": vnode("n1", 64, 256, 4), "n2": vnode("n2", 64, 256, 4)}, [(2, 64, 262144, 4)]),
        ({"a[0]": vnode("a", 8, 1, Qlist="gpu"), "a[1]": vnode("a", 8, 1, Qlist="x")}, [(1, 8, 1024, 0)]),
    ],
)
def test_vnodes_of_one_host_are_one_node(nodes: dict[str, Any], seen: list[tuple[int, int, int, int]]) -> None:
    said = {"pbsnodes": json.dumps({"nodes": nodes}), "qstat": '{"Queue": {"gpu": {"queue_type": "Execution"}}}'}
    found = cluster.pbs_queues(lambda command: said[command[0]])
    assert [(q.nodes, q.cores, q.memory_mib, q.gpus) for q in found] == seen


@pytest.mark.parametrize("other", ['"comment":"x"', '"comment":005', '"comment":"a "b" c"'])
@pytest.mark.parametrize(
    "limits",
    [
        '"max_queued":"[o:PBS_ALL=100]","max_queued":"[u:PBS_GENERIC=50]","max_queued":"[u:root=60]"',
        '"max_run_res":{"ncpus":"[u:PBS_GENERIC=8]"},"max_run_res":{"ncpus":"[o:PBS_ALL=64]"}',
    ],
)
def test_a_limit_that_a_queue_has_several_times_voids_nothing(limits: str, other: str) -> None:
    queue = f'"queue_type":"Execution",{limits},{other},"resources_max":{{"walltime":"24:00:00"}}'
    nodes = json.dumps({"nodes": {"n1": vnode("n1", 8, 1)}})
    said = {"pbsnodes": nodes, "qstat": '{"Queue":{"gpu":{' + queue + '},"long":{"queue_type":"Execution"}}}'}
    unread: list[str] = []
    found = cluster.pbs_queues(lambda command: said[command[0]], unread)
    assert [(q.name, q.time_limit) for q in found] == [("gpu", "24:00:00"), ("long", None)] and not unread


GOOD_JOB = '"53.s":{"Job_Name":"a","job_state":"R","exec_host":"n1/0*4"}'
BROKEN = [
    '"Variable_List":{"foo":005}',
    '"Variable_List":{"A":0x1f,"B":+5,"C":1_2,"D":.5}',
    '"Variable_List":{"BASH_FUNC_module()":"() {  eval `modulecmd bash $*`\n}"}',
    '"Variable_List":{"F":"() { echo "hi"; }","G":"x"}',
    '"Variable_List":{"J":"{"a":"b","c":["d"]}"}',
    '"Variable_List":{"BASH_FUNC_ml%%":"() {  [ -n "$1" ] &&\n eval "$(lmod $*)"\n}","N":007}',
    '"Variable_List":{"CERT":"-----BEGIN-----\r\nAB+/=\r\n-----END-----\tx","PIN":0042}',
    '"comment":"HEALTH-CHECK: reboot "scratch" (Sep 04)"',
    '"comment":"C:\\temp\\"',
    '"Variable_List":{"EMPTY":,"X":1}',
]


@pytest.mark.parametrize("bad", BROKEN)
@pytest.mark.parametrize("order", [0, 1])
def test_json_of_pbs_that_is_not_json(bad: str, order: int) -> None:
    jobs = [f'"4.s":{{"job_state":"Q",{bad},"queue":"gpu"}}', GOOD_JOB]
    text = '{"timestamp":1,"Jobs":{' + ",".join(jobs[:: -1 if order else 1]) + "}}"
    found, unread = pbs_json.read(text, "Jobs")
    assert found["53.s"] == {"Job_Name": "a", "job_state": "R", "exec_host": "n1/0*4"} and unread == []
    assert found["4.s"]["job_state"] == "Q"


def test_an_entry_that_cannot_be_read_is_named() -> None:
    found, unread = pbs_json.read('{"Jobs":{"4.s":{"job_state":"R" ~},' + GOOD_JOB + ',"54.s":{"job_state":"Q"', "Jobs")
    assert list(found) == ["53.s"] and unread == ["4.s", "54.s"]
    with pytest.raises(ValueError, match="no JSON"):
        pbs_json.read("qstat: cannot connect", "Jobs")


def test_a_line_before_the_json_and_an_entry_that_is_none() -> None:
    found, unread = pbs_json.read('site: maintenance at 6 pm\n{"Jobs":{"9.s":"gone",' + GOOD_JOB + "}}", "Jobs")
    assert list(found) == ["53.s"] and unread == ["9.s"]


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("65970696kb", 64424),
        ("64GB", 65536),
        ("1tb", 2**20),
        ("2048mw", 16384),
        ("1048576", 1),
        ("", None),
        ("x", None),
    ],
)
def test_sizes_of_pbs(text: str, mib: int | None) -> None:
    assert cluster._pbs_mib(text) == mib


def test_what_of_the_nodes_cannot_be_read_is_named() -> None:
    bad = '{"nodes":{"n1":{"state":"free" ~},"n2":{"state":"free","resources_available":{"host":"n2","ncpus":64}}}}'
    said = {"pbsnodes": bad, "qstat": '{"Queue": {"gpu": {"queue_type": "Execution"}}}'}
    unread: list[str] = []
    found = cluster.pbs_queues(lambda command: said[command[0]], unread)
    assert [q.nodes for q in found] == [1] and unread == ["n1, one of the nodes of PBS, cannot be read"]
    cluster.slurm_queues(lambda command: "gpu|x\n", unread)
    assert unread[-1] == "sinfo: 'gpu|x' cannot be read"
