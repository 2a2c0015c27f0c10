"""Answers that people posted, by class, and the tests that have separate inputs for each: at least two, which differ in
more than names. A pattern after @ keeps those inputs of a test that are of the class.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

import pytest

MACHINES = "tests.unit.machines.test_as_found"
SCHEDULERS = "tests.unit.reframe.test_schedulers_as_found"
NODE = "tests.unit.node.test_faults::test_a_fault_is_named_in_one_line"
FOLLOWER = "tests.cluster.test_follower"
REDFISH = "tests.unit.campaign.test_redfish"
SHELF = f"{REDFISH}::test_a_shelf_of_power_supplies"
XIDS = "tests.unit.model.test_xids::test_events_by_their_numbers"
GRES = f"{MACHINES}::test_every_form_of_gres"
MATRIX = f"{MACHINES}::test_links_of_every_form_of_the_matrix"
CORES = f"{MACHINES}::test_cores_of_unusual_threads_and_packages"
COHERENT = f"{MACHINES}::test_memory_of_a_coherent_gpu_is_not_the_hosts"
JSON = f"{MACHINES}::test_json_of_pbs_that_is_not_json"
AVAILABLE = f"{SCHEDULERS}::test_cloud_and_dynamic_nodes_are_nodes"
REASONS = f"{SCHEDULERS}::test_reasons_of_slurm_that_go_away_and_that_do_not"

CLASSES = {
    "many NUMA nodes, one with CPUs": (COHERENT,),
    "core numbers that repeat on each die": (f"{MACHINES}::test_core_numbers_that_repeat",),
    "POWER: eight threads, no package": (f"{CORES}@16, 4|44, 4|20, 8",),
    "one thread in each of many cores, numbered with gaps": (f"{CORES}@12, 2|20, 1|8, 1",),
    "HBM of an x86 host in NUMA nodes without CPUs": (f"{MACHINES}::test_memory_of_x86_without_cpus_is_the_hosts",),
    "a placeholder in place of a PCIe link": (f"{MACHINES}::test_a_placeholder_is_no_pcie_link",),
    "a Jetson whose nvidia-smi names no board": (f"{MACHINES}::test_the_board_names_the_gpu_of_a_jetson",),
    "one card of several lost": (f"{MACHINES}::test_a_card_that_the_driver_could_not_take_is_lost",
                                 f"{MACHINES}::test_a_card_that_was_lost_is_counted_and_named"),
    "MIG instances by UUID": (f"{MACHINES}::test_of_mig_instances_cuda_opens_one",),
    "a card without a handle": (f"{MACHINES}::test_a_card_without_a_handle_voids_itself_alone",),
    "inactive NVLinks": (f"{MACHINES}::test_inactive_nvlinks_differ_from_the_file",),
    "a field that an old driver does not know": (
        f"{MACHINES}::test_a_field_that_a_driver_does_not_know_voids_itself_alone",),
    "links, with columns of adapters": (f"{MATRIX}@NIC|mlx5",),
    "links, without adapters": (f"{MATRIX}@GPU[0-9]+.tCPU",),
    "links, fewer than the sheet has": (f"{MACHINES}::test_inactive_nvlinks_differ_from_the_file", f"{MATRIX}@None"),
    "memory of a GPU within MemTotal": (COHERENT,),
    "PBS: a job in the history, status 35": (f"{SCHEDULERS}::test_a_job_that_pbs_has_in_its_history",),
    "PBS: a raw line break in a variable of others": (f"{JSON}@\\\\n|\\\\r|\\\\t",),
    "PBS: a leading zero in a variable of others": (f"{JSON}@:0",),
    "PBS: one key several times": (f"{MACHINES}::test_a_limit_that_a_queue_has_several_times_voids_nothing",),
    "PBS: vnodes of one host": (f"{MACHINES}::test_vnodes_of_one_host_are_one_node",
                                f"{SCHEDULERS}::test_a_host_with_a_bad_vnode_is_not_in_order"),
    "PBS: quotes in a comment": (f"{JSON}@comment",),
    "Redfish: whole members in a collection": (SHELF,),
    "Redfish: a part without a status": (f"{SHELF}@'P5500'.(,|.$)|: None|'Status': '",),
    "Redfish: a redirect on the same BMC": (f"{REDFISH}::test_redirects_on_the_same_bmc_are_followed",),
    "Redfish: parts on standby": (f"{SHELF}@Standby",),
    "Redfish: one member that fails": (f"{REDFISH}::test_a_member_that_cannot_be_read_voids_itself_alone",),
    "a remapping that is pending": ("tests.unit.judge.test_planted::test_a_planted_fault_is_seen@remapping_(pend|fail)",
                                    f"{NODE}@row remapping"),
    "Grid Engine: tasks of an array": (f"{SCHEDULERS}::test_tasks_of_an_array_are_one_job_of_grid_engine",),
    "Grid Engine: no jobs": (f"{SCHEDULERS}::test_no_jobs_are_no_jobs_of_grid_engine",
                             f"{SCHEDULERS}::test_what_is_no_answer_of_grid_engine_is_none"),
    "GRES: whole cards beside MIG instances": (f"{GRES}@[1-4]g",),
    "GRES: other resources beside GPUs": (f"{GRES}@nvme|mps|shard|craynetwork",),
    "GRES: several models": (f"{MACHINES}::test_lines_of_sinfo@gpu:.*gpu:",),
    "Slurm: a heterogeneous job": (f"{SCHEDULERS}::test_a_heterogeneous_job_and_an_array_are_one_job@7[+]",),
    "Slurm: cloud and dynamic nodes": (f"{AVAILABLE}@CLOUD|DYNAMIC",),
    "Slurm: maintenance": (f"{AVAILABLE}@MAINT",),
    "Slurm: out of memory": (f"{SCHEDULERS}::test_a_job_without_memory_was_killed",),
    "Slurm: a reason that somebody must resolve": (f"{REASONS}@MENDED",),
    "Slurm: a reason that never goes away": (f"{REASONS}@NEVER",),
    "Slurm: an id that squeue no longer knows": (f"{FOLLOWER}::test_slurm_a_number_alone_is_no_job@Invalid job id",),
    "Slurm: states of nodes in order": (f"{SCHEDULERS}::test_how_many_nodes_work_by_the_states_of_sinfo",),
    "XID: hardware by the catalogue": (f"{XIDS}@hardware",),
    "XID: a consequence of another": (f"{XIDS}@, 45",),
    "XID: undecided by its number": (f"{XIDS}@INVALID",),
}  # fmt: skip


def inputs(name: str) -> int:
    """The number of inputs of a test, `MODULE::FUNCTION@PATTERN`."""
    place, _, pattern = name.partition("@")
    module, _, function = place.partition("::")
    test = getattr(importlib.import_module(module), function)
    each = ({text for one in mark.args[1] if re.search(pattern, text := repr(one))} for mark in marks(test))
    return max(map(len, each), default=1)


def marks(test: object) -> Iterator[pytest.Mark]:
    return (mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize")


def test_each_class_of_posted_answers_has_two_inputs_of_its_own() -> None:
    assert len(CLASSES) == 44
    few = {one: total for one, tests in CLASSES.items() if (total := sum(map(inputs, tests))) < 2}
    assert not few
