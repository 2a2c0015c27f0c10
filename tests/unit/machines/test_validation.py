"""Every refusal names file, line, the error and the allowed values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenken.machines.errors import SystemFileError
from tenken.machines.model import System
from tests.unit.machines.conftest import GOOD

Load = Callable[[str], System]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


# ruff: noqa: E501 -- a table: one case per line is easier to read (text of the valid file, its replacement, the part
# whose line is named, words of the message)
BAD = {
    "unknown key": (
        "    features: [cuda, mpi]\n    capabilities",
        "    modulez: [a]\n    features: [cuda, mpi]\n    capabilities",
        "modulez",
        ["unknown key 'modulez' in partition 'gpu'", "did you mean 'modules'?", "allowed: access, "],
    ),
    "unknown top key": ("status: active", "status: active\nsitename: x", "sitename", ["unknown key 'sitename'; "]),
    "duplicate key": ("status: active", "status: active\nstatus: test", "status: test", ["duplicate key 'status'"]),
    "nested duplicate key": (
        "      sockets: 2\n",
        "      sockets: 2\n      sockets: 1\n",
        "sockets: 1",
        ["duplicate key 'sockets'"],
    ),
    "wrong unit": ("unit: GB/s", "unit: MB/s", "unit: MB/s", ["wrong unit 'MB/s'", "stream.triad", "allowed: GB/s"]),
    "unknown GPU sheet": ("H100-SXM-80GB", "H100-SMX-80GB", "H100-SMX", ["unknown data sheet 'H100-SMX-80GB'", "did you", "A100-PCIe-40GB, A100-PCIe-80GB, A100-SXM-40GB, A100-SXM-80GB, A2-16GB"]),
    "unknown host sheet": ("Xeon-8468", "Xeon-9999", "Xeon-9999", ["unknown data sheet 'Xeon-9999'", "Grace-72, Grace-72-480GB, Tegra-Orin, Tegra-X2, Tegra-Xavier, Xeon-6148"]),
    "unknown metric": ("stream.triad", "stream.triade", "stream.triade", ["unknown metric 'triade'", "'triad'? allowed: add, copy, scale, triad\n"]),
    "unknown program": ("stream.triad", "strom.triad", "strom", ["unknown program 'strom'", "allowed: stream"]),
    "wrong subject": ("subject: gpu", "subject: pair", "subject: pair", ["wrong subject 'pair'", "host, gpu"]),
    "unknown partition": ("partition: gpu", "partition: cpu", "partition: cpu", ["unknown partition 'cpu'", "gpu"]),
    "unknown environ": ("environ: [cuda]", "environ: [pgi]", "environ: [pgi]", ["unknown environment 'pgi'", "cuda, host"]),
    "unknown statistic": ("statistic: median", "statistic: middle", "middle", ["'middle'", "median, best"]),
    "positive lower": ("lower: -0.05", "lower: 0.05", "lower: 0.05", [" reference 1 (stream.triad), 'lower' is 0.05; it must be at most 0\n"]),
    "value and range": ("value: 3000", "value: 3000\n    range: [1, 2]", "- metric", ["one of 'value', 'range' and 'points'"]),
    "neither value nor range": ("    value: 3000\n", "", "- metric", ["one of 'value', 'range' and 'points'"]),
    "range upside down": ("value: 3000", "range: [2, 1]", "range: [2", ["[low, high]"]),
    "bounds nothing": ("lower: -0.05\n    upper: 0.1", "lower: null", "- metric", ["sets no bound"]),
    "negative value": ("value: 3000", "value: -1", "value: -1", ["more than 0"]),
    "infinite value": ("value: 3000", "value: .inf", "value: .inf", ["finite number"]),
    "title as list": ("title: A machine", "title: [A machine]", "title", ["'title' must be text, not a list\n"]),
    "title as map": ("title: A machine", "title: {a: machine}", "title", ["'title' must be text, not a map\n"]),
    "title as truth": ("title: A machine", "title: true", "title", ["'title' must be text, not true: write it in quotes\n"]),
    "title of nothing": ("title: A machine", "title:", "title", ["'title' must be text, not null: write it in quotes\n"]),
    "date of facts": ("status: active", "status: active\nfacts: {date: 1, source: x}", "facts", [" 'facts', 'date' must be text, not 1"]),
    "option as number": ('access: ["-A ${TENKEN_GROUP}", ', "access: [-1, ", "access", ["partition 'gpu', 'access', item 1 must be text, not -1"]),
    "version as number": ('"570.20"', "570.20", "570.20", ["'driver' must be text, not 570.2: write it in quotes"]),
    "missing key": ("    scheduler: slurm\n", "", "  gpu:\n", ["missing key 'scheduler' in partition 'gpu'"]),
    "unknown scheduler": ("scheduler: slurm", "scheduler: slrum", "slrum", ["unknown scheduler 'slrum'", "'slurm'?", "scheduler_status"]),
    "unknown launcher": ("launcher: srun", "launcher: run", "launcher: run", ["unknown launcher 'run'", "mpirun"]),
    "select elsewhere": ("launcher: srun\n", "launcher: srun\n    select: ncpus=1\n", "select", ["'select' of partition 'gpu' requires 'scheduler: pbs'"]),
    "place elsewhere": ("launcher: srun\n", "launcher: srun\n    place: excl\n", "place", ["'place' of partition 'gpu' requires 'scheduler: pbs'"]),
    "nodes of Grid Engine elsewhere": ("launcher: srun\n", "launcher: srun\n    node_request: ['-l n={num_nodes}']\n", "node_request", ["'node_request' of partition 'gpu' requires 'scheduler: gridengine'"]),
    "placeholder of select": ("slurm\n    launcher: srun\n", "pbs\n    launcher: srun\n    select: '{cpus}'\n", "select", ["unknown placeholder '{cpus}' in partition 'gpu'; allowed: num_tasks_per_node, num_cpus_per_node\n"]),
    "placeholder of nodes": ("slurm\n    launcher: srun\n", "gridengine\n    launcher: srun\n    node_request: ['{node}']\n", "node_request", ["unknown placeholder '{node}' in partition 'gpu'; did you mean 'num_nodes'? allowed: num_nodes\n"]),
    "placeholder of GPUs": ("{num_gpus_per_node}", "{num_gpus}", "{num_gpus}", ["unknown placeholder '{num_gpus}' in", "allowed: num_gpus_per_node\n"]),
    "image of another platform": ("launcher: srun\n", "launcher: srun\n    containers: [{platform: Sarus, image: /a.sif}]\n", "containers", ["'image' of partition 'gpu' requires Apptainer, Singularity or Docker: in Sarus a program"]),
    "image without path": ("launcher: srun\n", "launcher: srun\n    containers: [{platform: Apptainer, image: localhost/a}]\n", "containers", ["'image' of partition 'gpu' with 'platform: Apptainer' must be the whole path of a file or folder\n"]),
    "image of Docker with path": ("launcher: srun\n", "launcher: srun\n    containers: [{platform: Docker, image: /a.sif}]\n", "containers", ["'image' of partition 'gpu' with 'platform: Docker' must be a name such as 'localhost/tenken'\n"]),
    "unknown environment": ("[cuda, host]", "[cuda, hots]", "hots", ["unknown environment 'hots'", "'host'?"]),
    "unknown feature": ("features: [openmp]", "features: [openmpi]", "openmpi", ["'openmpi'", "openmp"]),
    "unknown capability": ("[managed, peer]", "[managed, nvlink]", "nvlink", ["'nvlink'", "device_mpi"]),
    "peer of one GPU": ("count: 4", "count: 1", "capabilities", ["'peer'", "two GPUs"]),
    "cores against the sheet": ("cores: 96", "cores: 48", "cores: 48", ["partition 'gpu' has 48 cores; 2 x Xeon-8468 with 48 each are 96"]),
    "no cores": ("      cores: 96\n", "", "    node:", ["missing key 'cores' in partition 'gpu', 'node'"]),
    "no cores of a known host": ("      sockets: 2\n      cores: 96\n", "", "    node:", ["missing key 'cores' in partition 'gpu', 'node'"]),
    "no cores of sockets": ("host: Xeon-8468\n      sockets: 2\n      cores: 96\n", "sockets: 2\n", "    node:", ["missing key 'cores' in partition 'gpu', 'node'"]),
    "architecture of another CPU": ("host: Xeon-8468", "host: Grace-72", "architecture", ["is x86_64, its host Grace-72 is aarch64"]),
    "architecture of another GPU": ("sheet: H100-SXM-80GB", "sheet: GH200-96GB", "architecture", ["is x86_64; with GH200-96GB it is aarch64"]),
    "no environment at all": ("environments: [cuda, host]", "environments: []", "environments: []", ["partition 'gpu', 'environments' is a list; it must be at least this long: 1\n"]),
    "more links than a GPU has": ("pair_links: all", "pair_links: 19", "gpus: {sheet", ["'pair_links' of partition 'gpu' is 19; a H100-SXM-80GB has 18 links"]),
    "links of a GPU without": ("sheet: H100-SXM-80GB", "sheet: L4-24GB", "gpus: {sheet", ["'pair_links' of partition 'gpu' is 'all'; L4-24GB has no links"]),
    "cuda without GPU": (
        "      gpus: {sheet: H100-SXM-80GB, count: 4, pair_links: all}\n",
        "",
        "features: [cuda, mpi]\n    capa",
        ["'cuda'", "needs 'gpus'"],
    ),
    "a feature that no compiler builds": (
        "features: [cuda, mpi], cc: gcc",
        "features: [cuda], cc: gcc",
        "features: [cuda, mpi]\n    capa",
        ["feature 'mpi' of partition 'gpu' requires an environment with this feature: 'cuda' has", "'host' has openmp"],
    ),
    "undeclared variable": ("TENKEN_QUEUE}", "TENKEN_QUEU}", "access", ["not declared", "'TENKEN_QUEUE'?"]),
    "required with default": ("default: short", "default: short, required: true", "TENKEN_QUEUE:", ["required but"]),
    "variable's name": ("TENKEN_RESERVATION: {", "RESERVATION: {", "  RESERVATION", ["'RESERVATION'", "TENKEN_GROUP"]),
    "placeholder": ("{num_tasks_per_node}", "{tasks}", "{tasks}", ["unknown placeholder '{tasks}'", "num_tasks"]),
    "no as a truth": ("required: true", "required: no", "required: no", ["must be true or false, not 'no'"]),
    "cores as text": ("cores: 96", "cores: '96'", "cores: '96'", ["'cores' must be a whole number, not '96'"]),
    "cores and sockets": ("cores: 96", "cores: 95", "cores: 95", ["95 cores do not divide among 2 sockets"]),
    "walltime": ("time_limit: 1:30:00", "time_limit: 90", "time_limit: 90", ["'time_limit' must be text, not 90"]),
    "walltime text": ("time_limit: 1:30:00", "time_limit: 90m", "90m", ["'90m'", "HH:MM:SS"]),
    "GPU count": ("count: 4", "count: all", "count: all", ["'all'", "'found'"]),
    "counts without found": ("count: 4", "count: 4, counts: [1]", "counts", ["'count: found'"]),
    "name in capitals": ("  gpu:\n", "  GPU:\n", "  GPU:\n", ["'GPU'", "lower case"]),
    "retired without a date": ("status: active", "status: retired", "status: retired", ["missing key 'retired'"]),
    "host name": ("status: active", "status: active\nhostnames: ['[']", "hostnames", ["regular expression"]),
    "memory without source": ("cores: 96", "cores: 96\n      memory_gbs: 5", "    node:", ["memory_gbs_source"]),
    "tag": ("title: A machine", "title: !!python/name:os.system ''", "title", ["not allowed"]),
    "tab": ("    launcher: srun", "\tlauncher: srun", "\tlauncher", ["not valid YAML"]),
    "unclosed": ("[cuda, host]", "[cuda, host", "features: [cuda, mpi]\n    capabilities", ["not valid YAML"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_line_and_reason(case: str, load: Load) -> None:
    old, new, marker, words = BAD[case]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    with pytest.raises(SystemFileError) as caught:
        load(text)
    first = str(caught.value).splitlines()[0]
    place = first.split(" ")[0]
    assert place.startswith("systems/machine.yaml:")
    if case != "unclosed":  # the parser only notices later
        assert int(place.split(":")[1]) == line_of(text, marker)
    for word in words:
        assert word in f"{first}\n"


@pytest.mark.parametrize(("old", "new"), [
    ("", ""),
    ("    lower: -0.05\n", ""),
    ("    upper: 0.1\n", ""),
    ("value: 3000", "range: [3000, 3000]"),
    ("parameters: {array_bytes: 1073741824}", "at: {any: 1}"),  # the catalogue states no points
    ("pair_links: all", "pair_links: 18"),
    ("count: 4, pair", "count: 2, pair"),
    ("launcher: srun\n", "launcher: srun\n    containers: [{platform: Sarus}, {platform: Singularity, image: /a.sif}]\n"),
    ("launcher: srun\n", "launcher: srun\n    containers: [{platform: Docker, image: localhost/a}]\n"),
    ("slurm\n    launcher: srun\n", "pbs\n    launcher: srun\n    select: 'ncpus={num_cpus_per_node}'\n    place: excl\n"),
    ("slurm\n    launcher: srun\n", "gridengine\n    launcher: srun\n    node_request: ['-l n={num_nodes}']\n"),
])  # fmt: skip
def test_the_good_file_is_good(old: str, new: str, load: Load) -> None:
    assert old in GOOD
    assert load(GOOD.replace(old, new, 1)).name == "machine"


@pytest.mark.parametrize("changes", [
    (("scheduler: slurm", "scheduler: x"), ("sheet: H100-SXM-80GB", "sheet: X"), ("unit: GB/s", "unit: GB")),
    (("title: A machine", "title: 1"), ("status: active", "status: act")),  # of the schema
])  # fmt: skip
def test_all_problems_of_a_file_are_told_at_once(changes: tuple[tuple[str, str], ...], load: Load) -> None:
    text = GOOD
    for old, new in changes:
        text = text.replace(old, new)
    with pytest.raises(SystemFileError) as caught:
        load(text)
    assert [p.line for p in caught.value.problems] == [line_of(text, new) for _, new in changes]


def test_a_scheduler_of_our_own_is_fine_when_the_file_says_it_is_not_there_yet(load: Load) -> None:
    system = load(GOOD.replace("scheduler: slurm", "scheduler: nqsv\n    scheduler_status: comes later"))
    assert not system.partition("gpu").usable


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "just words\n"])
def test_files_that_are_no_map(text: str, load: Load) -> None:
    with pytest.raises(SystemFileError, match=r"^systems/machine\.yaml:1: (is empty|must be a map)"):
        load(text)


def test_an_alias_that_contains_itself(load: Load) -> None:
    with pytest.raises(SystemFileError):
        load(GOOD + "x: &a {b: *a}\n")
