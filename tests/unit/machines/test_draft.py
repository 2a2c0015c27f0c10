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
    assert any("MPI" in line for line in made.unseen) and any("NVLinks" in line for line in made.unseen)


def test_nodes_of_another_architecture_than_the_login_node_build_for_themselves(tmp_path):
    sinfo = "hopper|8|1|72|1|480000|gpu:gh200:1|1-00:00:00|up|idle\ncpu|40|2|64|1|256000|(null)|infinite|up|idle\n"
    system, _ = written(tmp_path, "slurm", sinfo=sinfo)
    hopper, cpu = system.partition("hopper"), system.partition("cpu")
    assert (hopper.node.architecture, hopper.build) == ("aarch64", "job")
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


def test_this_machine(tmp_path):
    system, _ = written(tmp_path, "local")
    assert system.partition("node").scheduler == "local" and system.partition("node").max_jobs == 1


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
     ("gh200", "GH200-96GB"), ("mi300x", None), (None, None), ("nvidia_gh200_480gb", "GH200-96GB"), ("v100s", None),
     ("tesla", None), ("80gb", None), ("h100-sxm5-80gb", "H100-SXM-80GB"), ("a100_80", "A100-PCIe-80GB"),
     ("nvidia_a100-sxm4-40gb", "A100-SXM-40GB"), ("rtx_4090", "RTX-4090-24GB"), ("tesla_k40m", "K40")],
)  # fmt: skip
def test_the_schedulers_word_for_a_card(kind, sheet, tmp_path):
    found, _ = draft.sheet_of(Queue("q", 1, gpus=4, gpu_kind=kind), here(tmp_path))
    assert (found.name if found else None) == sheet


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
