"""`tenken systems new --from-here`: detected values are in the file, undetected ones are named, all or nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tenken.machines import cli, draft, hardware, loader, local
from tenken.machines.cluster import Queue
from tenken.machines.errors import SystemFileError
from tests.unit.machines.test_cluster import PBS_NODES, PBS_QUEUES, SINFO, answers

OPEN_MPI = {"mpirun": "mpirun (Open MPI) 5.0.8", "bash": "MPI plugin types are...\n\tpmix\n\tpmi2\n"}

PMIX = {"/sbin/ldconfig": "\tlibpmix.so.2 => /usr/lib/libpmix.so.2"}


def here(tmp_path, mpi: bool = False):
    (tmp_path / "usr/include").mkdir(parents=True)
    (tmp_path / "usr/include/mpi.h").write_text("")
    tools = {"g++", *(("mpicxx", "mpirun") if mpi else ())}
    return local.describe(tmp_path, lambda command: None, lambda name: name if name in tools else None, {}, "x86_64")


def which(name: str) -> str:
    return f"/usr/bin/{name}"


def written(tmp_path, scheduler: str, mpi: bool = False, **said: str):
    made = draft.draft("new", scheduler, here(tmp_path, mpi), answers(**said), which, {"LMOD_CMD": "/x"})
    draft.write(tmp_path / "new.yaml", made.text)
    return loader.load_file(tmp_path / "new.yaml", cache_folder=None), made


GPU = """\
  gpu:
    scheduler: slurm
    launcher: srun
    access:
      - "--partition=gpu"
      - "--account=${TENKEN_ACCOUNT}"
      - "--reservation=${TENKEN_RESERVATION}"
    gpu_request: ["--gpus-per-node={num_gpus_per_node}"]
    environments: [host, cuda, nvhpc]
    features: [cuda]
    time_limit: 24:00:00
    build: login
    node:
      architecture: x86_64   # as here
      count: 14
      sockets: 2
      cores: 112
      threads_per_core: 2
      memory_gib: 1007
      gpus: {sheet: H100-SXM-80GB, count: 4}   # guessed from the scheduler's 'h100'
"""
A100 = """\
      count: 2
      sockets: 2
      cores: 64
      threads_per_core: 1
      memory_gib: 502.9
      gpus: {sheet: A100-SXM-80GB, count: 8, pair_links: all}   # guessed from the scheduler's 'a100'
"""
CPU = """\
    environments: [host]
    features: []
    build: login
    node:
      architecture: x86_64   # as here
      count: 40
      sockets: 2
      cores: 128
      threads_per_core: 2
      memory_gib: 502.9
"""
SHORT_G = """\
  short-g:
    scheduler: pbs
    launcher: mpirun
    launcher_options: ["-ppn {num_tasks_per_node}"]
    access:
      - "-q short-g"
      - "-W group_list=${TENKEN_GROUP}"
    gpu_request: ["ngpus={num_gpus_per_node}"]
    environments: [host]
    features: [mpi]
    time_limit: 08:00:00
    build: login
    node:
      architecture: x86_64   # as here
      count: 2
      cores: 72
      memory_gib: 230
      # gpus: {sheet: ..., count: 1}   # scheduler name: not reported; without a data sheet:
      # gpus: {model: "as nvidia-smi -L prints it", memory_gib: ..., compute_capability: "...", count: 1}
  cpu:
"""


def test_slurm(tmp_path):
    system, made = written(tmp_path, "slurm", sinfo=SINFO)
    assert {n: (p.node.count, p.node.cores, p.node.gpu_count) for n, p in system.partitions.items()} == {
        "gpu": (14, 112, 4),
        "gpu-a100": (2, 64, 8),
        "cpu": (40, 128, 0),
    }
    gpu = system.partition("gpu")
    assert gpu.node.gpu.name == "H100-SXM-80GB" and gpu.gpu_request and gpu.access[0] == "--partition=gpu"
    assert system.modules_system == "lmod" and "nodes" in gpu.abilities
    partitions = made.text.partition("\npartitions:\n")[2]
    assert partitions.startswith(f"{GPU}  gpu-a100:\n") and f"{A100}  cpu:\n" in partitions and partitions.endswith(CPU)
    assert '  cuda:\n    features: [cuda, openmp]\n    cc: gcc\n    cxx: g++\n    cuda: "nvcc"\n' in made.text
    assert made.seen == [
        "partition gpu: 14 nodes, 112 cores, 4 x H100-SXM-80GB",
        "partition gpu-a100: 2 nodes, 64 cores, 8 x A100-SXM-80GB", "partition cpu: 40 nodes, 128 cores, no GPU",
    ]  # fmt: skip
    assert [line.partition(":")[0] for line in made.unseen] == [
        "sinfo", "an MPI that can build and start programs", "modules",
        "how many NVLinks join two GPUs of partition gpu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "name"),
    [
        (Queue("GPU (new)", 1), "gpu-new"), (Queue("7days", 1), "p7days"), (Queue("_", 1), "p"),
        (Queue("a", 1, gpu_kind="NVIDIA_H100"), "a-nvidiah100"), (Queue("a", 1, cores=64), "a-64"),
        (Queue("a", 1), "a-3"), (Queue("a", 1, gpu_kind="b"), "a-bx"),
    ],
)  # fmt: skip
def test_names_of_partitions_are_allowed_and_differ(queue, name):
    taken = {"a", "a-b", "c"}
    assert draft._name(queue, taken) == name and name in taken


@pytest.mark.parametrize(
    ("env", "name"),
    [({}, "nomod"), ({"LMOD_CMD": "/x", "MODULESHOME": "/y"}, "lmod"), ({"MODULESHOME": "/y"}, "envmod"),
     ({"MODULESHOME": "/y", "MODULES_CMD": "/z"}, "tmod4")],
)  # fmt: skip
def test_the_modules_system_is_told_by_its_variables(env, name):
    assert draft._modules_system(env) == name


def test_modules_to_choose_from_are_a_comment(tmp_path):
    versions = [f"nvhpc/{n}" for n in range(38)]
    listed = "\n".join(
        ["/opt/modules:", "cuda/12.6", " gcc/13", "python/3", "gccx/1", *versions, "Cray-MPICH", "nvidia"]
    )
    _, made = written(tmp_path, "slurm", sinfo=SINFO, bash=listed)
    assert f"\n# modules here: {', '.join(['cuda/12.6', 'gcc/13', *versions])}\n" in made.text  # 40 of them
    assert "42 modules of compilers, CUDA and MPI" in made.seen
    assert not [line for line in made.unseen if "module avail" in line]


def test_nodes_of_another_architecture_than_the_login_node_build_for_themselves(tmp_path):
    sinfo = "hopper|8|1|72|1|480000|gpu:gh200:1|1-00:00:00|up|idle\ncpu|40|2|64|1|256000|(null)|infinite|up|idle\n"
    sinfo += "spark|2|1|20|1|120000|gpu:gb10:1|1-00:00:00|up|idle\n"
    system, _ = written(tmp_path, "slurm", sinfo=sinfo)
    hopper, cpu = system.partition("hopper"), system.partition("cpu")
    for one in (hopper, system.partition("spark")):
        assert (one.node.architecture, one.build) == ("aarch64", "job")
    assert (cpu.node.architecture, cpu.build) == ("x86_64", "login")


def test_a_node_that_shows_fewer_cores_than_its_sheet_has_is_written_without_it(tmp_path):
    seen = here(tmp_path)
    node = replace(
        seen.partition("node").node, host=hardware.host_sheet("Xeon-8468"), sockets=2, cores=90, memory_bytes=2**38
    )
    seen = replace(seen, partitions={"node": replace(seen.partition("node"), node=node)})
    made = draft.draft("new", "local", seen, answers(), which, {})
    draft.write(tmp_path / "new.yaml", made.text)
    assert loader.load_file(tmp_path / "new.yaml", cache_folder=None).partition("node").node.host is None
    whole = replace(seen, partitions={"node": replace(seen.partition("node"), node=replace(node, cores=96))})
    assert "host: Xeon-8468" in draft.draft("new", "local", whole, answers(), which, {}).text


def test_pbs(tmp_path):
    said = {"pbsnodes": json.dumps({"nodes": PBS_NODES}), "qstat": json.dumps({"Queue": PBS_QUEUES})}
    system, made = written(tmp_path, "pbs", mpi=True, **said)
    # a stopped queue is left out; a GPU that the scheduler does not name has no data sheet
    assert set(system.partitions) == {"short-g", "cpu"}
    assert system.partition("short-g").node.gpu is None and system.partition("short-g").gpu_request == (
        "ngpus={num_gpus_per_node}",
    )
    assert any("data sheet of the 1 GPUs of partition short-g" in line for line in made.unseen)
    assert SHORT_G in made.text and made.text.endswith("      count: 1\n      cores: 112\n      memory_gib: 124\n")


@pytest.mark.parametrize(
    ("said", "launcher", "options"),
    [
        ({**OPEN_MPI, **PMIX, "sh": "TENKEN-RANK\n"}, "srun", ("--mpi=pmix",)),
        # listed, and its library is here, but a node cannot load it
        ({**OPEN_MPI, **PMIX}, "mpirun", ("--map-by ppr:{num_tasks_per_node}:node",)),
        (
            {**OPEN_MPI, "/sbin/ldconfig": "", "sh": "TENKEN-RANK\n"},
            "mpirun",
            ("--map-by ppr:{num_tasks_per_node}:node",),
        ),
        ({"mpirun": "HYDRA build details", "bash": "\tpmi2\n", "sh": "TENKEN-RANK\n"}, "srun", ("--mpi=pmi2",)),
        ({"mpirun": "HYDRA build details"}, "mpirun", ("-ppn {num_tasks_per_node}",)),
    ],
)
def test_ranks_are_started_by_what_can_start_them(said, launcher, options, tmp_path):
    system, made = written(tmp_path, "slurm", mpi=True, sinfo=SINFO, **said)
    assert (system.partition("gpu").launcher, system.partition("gpu").launcher_options) == (launcher, options)
    refused = "sh" not in said and ("pmix" in said.get("bash", "") and "libpmix" in said.get("/sbin/ldconfig", ""))
    assert any("`srun --mpi=pmix` starts ranks in partition gpu" in line for line in made.unseen) == refused


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "srun: error:  mpi/pmix_v4: init: can not load PMIx library\nsrun: error: Couldn't load specified plugin\n",
            "srun: error: mpi/pmix_v4: init: can not load PMIx library",
        ),
        ("srun: job 7 queued and waiting\nsrun: error: Unable to allocate resources\n", "error: Unable to allocate"),
        ("srun: job 7 queued and waiting for resources\n", "srun: job 7 queued and waiting for resources"),
        ("\x1b[2J error\n", "\\x1b[2J error"), ("error " + 500 * "x", 40 * "x"), ("", "no answer within 9 s"),
        (None, "no answer within 9 s"),
    ],
)  # fmt: skip
def test_why_srun_starts_no_rank_is_in_its_own_words(said, reason, tmp_path):
    answer = {} if said is None else {"sh": said}
    _, made = written(tmp_path, "slurm", mpi=True, sinfo=SINFO, **OPEN_MPI, **PMIX, **answer)
    (line, *_) = [line for line in made.unseen if "`srun --mpi=pmix` starts ranks in partition gpu" in line]
    assert reason in line and line.endswith("so mpirun was chosen") and len(line) < 350 and "\x1b" not in line


@pytest.mark.parametrize(
    ("script", "reason"),
    [('#!/bin/sh\nshift; exec "$@"\n', None), ("#!/bin/sh\necho 'srun: error: no' >&2\nexit 1\n", "srun: error: no")],
)
def test_an_srun_is_tried_as_a_shell_runs_it(script, reason, tmp_path):
    srun = tmp_path / "an srun"
    srun.write_text(script)
    srun.chmod(0o755)
    assert draft._refusal(local.run_command, [str(srun), "--mpi=pmix"]) == reason


@pytest.mark.parametrize(
    ("components", "launcher"),
    [
        ("mca:plm:rsh:version\n", "openmpi-hosts"), ("mca:plm:rsh:version\nmca:plm:tm:version\n", "mpirun"),
        (None, "mpirun"),
    ],
)  # fmt: skip
def test_an_open_mpi_that_knows_nothing_of_pbs_is_handed_the_nodes(components, launcher, tmp_path):
    said = {"pbsnodes": json.dumps({"nodes": PBS_NODES}), "qstat": json.dumps({"Queue": PBS_QUEUES}), **OPEN_MPI}
    said |= {"ompi_info": components} if components else {}
    system, _ = written(tmp_path, "pbs", mpi=True, **said)
    assert {partition.launcher for partition in system.partitions.values()} == {launcher}


@pytest.mark.parametrize(("with_mpi", "launcher", "features"), [(False, "local", ""), (True, "mpirun", "mpi")])
def test_this_machine(with_mpi, launcher, features, tmp_path):
    _, made = written(tmp_path, "local", mpi=with_mpi)
    assert made.text.endswith(f"""
partitions:
  node:
    scheduler: local
    launcher: {launcher}
    environments: [host]
    features: [{features}]
    max_jobs: 1
    build: login
    node:
      architecture: x86_64   # as here
""")
    assert made.seen == ["partition node: 1 nodes, ? cores, no GPU"]


@pytest.mark.parametrize(
    ("sheet", "count", "known", "asked"),
    [
        ("H100-SXM-80GB", 8, True, False), ("H100-SXM-80GB", 4, False, True), ("H100-SXM-80GB", 1, False, False),
        ("H100-NVL-94GB", 8, False, True), ("L4-24GB", 8, False, False),
    ],
)  # fmt: skip
def test_the_links_of_a_board_of_eight_are_known(sheet, count, known, asked):
    made, links = draft.Draft(""), ", pair_links: all" if known else ""
    lines = draft._gpus(Queue("q", 1, gpus=count, gpu_kind="k"), hardware.sheet(sheet), False, "q", made)
    assert lines == [f"      gpus: {{sheet: {sheet}, count: {count}{links}}}"] and bool(made.unseen) == asked


@pytest.mark.parametrize("nvcc", [False, True])
def test_gpus_of_this_machine_without_a_sheet_are_as_the_driver_reports(nvcc, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "CACHE", tmp_path)  # a toolkit that other tests installed is found there
    seen = here(tmp_path)
    node = replace(
        seen.partition("node").node, sockets=1, cores=8, threads_per_core=1, memory_bytes=2**34, gpu_count=2,
        gpu_names=("NVIDIA X1", "NVIDIA X1"), gpu_memory_bytes=3 * 2**33, compute_capability="9.9",
    )  # fmt: skip
    seen = replace(seen, partitions={"node": replace(seen.partition("node"), node=node)})
    made = draft.draft("n", "local", seen, answers(), which if nvcc else lambda name: None, {})
    assert made.text.endswith("""\
      sockets: 1
      cores: 8
      threads_per_core: 1
      memory_gib: 16
      gpus:   # there is no data sheet; as reported by the driver
        model: "NVIDIA X1"
        memory_gib: 24
        compute_capability: "9.9"
        count: 2
""")
    assert any(line.startswith("nvcc: ") for line in made.unseen) != nvcc
    of_slurm = draft.draft("n", "slurm", seen, answers(sinfo=SINFO.replace("h100", "x1")), which, {})
    assert 'model: "NVIDIA X1"' not in of_slurm.text and "# gpus: {sheet: ..., count: 4}" in of_slurm.text


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_no_answer_is_one_line(scheduler, tmp_path):
    with pytest.raises(draft.NothingSeenError, match="is not on PATH: run this on a login node"):
        draft.draft("new", scheduler, here(tmp_path), lambda command: None, lambda name: None)


def test_a_file_that_is_not_valid_leaves_nothing(tmp_path):
    with pytest.raises(SystemFileError):
        draft.write(tmp_path / "bad.yaml", "title: x\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays(tmp_path):
    (tmp_path / "new.yaml").write_text("mine")
    with pytest.raises(FileExistsError):
        draft.write(tmp_path / "new.yaml", "title: x\n")
    assert (tmp_path / "new.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("kind", "sheet"),
    [("h100", "H100-SXM-80GB"), ("a100", "A100-SXM-80GB"), ("nvidia_h200_nvl", "H200-NVL-141GB"), ("l40s", "L40S-48GB"),
     ("gh200", "GH200-96GB"), ("mi300x", None), (None, None), ("nvidia_gh200_480gb", "GH200-96GB"),
     ("v100s", "V100S-PCIe-32GB"),
     ("a2", "A2-16GB"), ("a10", "A10-24GB"), ("a10g", None), ("rtx_a6000", "RTX-A6000-48GB"), ("quadro_rtx_6000", None),
     ("tesla", None), ("80gb", None), ("h100-sxm5-80gb", "H100-SXM-80GB"), ("a100_80", "A100-PCIe-80GB"),
     ("nvidia_a100-sxm4-40gb", "A100-SXM-40GB"), ("rtx_4090", "RTX-4090-24GB"), ("tesla_k40m", "K40"),
     ("hbm3", None), ("pro6000", "RTX-PRO-6000-Server-96GB")],
)  # fmt: skip
def test_the_schedulers_word_for_a_card(kind, sheet, tmp_path):
    seen = here(tmp_path)
    found, guessed = draft.sheet_of(Queue("q", 1, gpus=4, gpu_kind=kind), seen)
    assert (found.name if found else None) == sheet and guessed == (found is not None)
    assert draft.sheet_of(Queue("q", 1, gpus=0, gpu_kind=kind), seen) == (None, False)


@pytest.mark.parametrize(("kind", "guessed"), [("h100", True), ("H100-NVL-94GB", False)])
def test_the_card_of_this_machine_comes_before_others_of_its_name(kind, guessed, tmp_path):
    seen, sheet = here(tmp_path), hardware.sheet("H100-NVL-94GB")
    node = replace(seen.partition("node").node, gpu=sheet)
    seen = replace(seen, partitions={"node": replace(seen.partition("node"), node=node)})
    assert draft.sheet_of(Queue("q", 1, gpus=4, gpu_kind=kind), seen) == (sheet, guessed)


def test_names_and_files_alike_can_be_validated(capsys):
    def tenken(*words: str) -> int:
        import argparse

        parser = argparse.ArgumentParser()
        cli.register(parser.add_subparsers())
        arguments = parser.parse_args(["systems", *words])
        return arguments.func(arguments)

    assert tenken("validate", "miyabi", "hardware") == 0
    assert capsys.readouterr().out.splitlines() == ["systems/miyabi.yaml: ok", "systems/hardware.yaml: ok"]
    assert tenken("validate", "nosuch") == 2
    assert "no such file or system: nosuch; allowed: a file, alps, h200" in capsys.readouterr().err
