"""Jobs of every shape, whose program writes a document prepared by the test: one node, two, uneven, flexible, GPUs."""

from __future__ import annotations

import reframe as rfm

from tests.reframe.checks.doctored.doctored import Doctored


@rfm.simple_test
class ProbeOne(Doctored):
    """One task on one node, without MPI."""

    cores = None


@rfm.simple_test
class ProbeTwo(Doctored):
    """One rank on each of two nodes."""

    cores = None
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+mpi"]
    uses_mpi = True
    num_tasks = 2


@rfm.simple_test
class ProbeUneven(Doctored):
    """Ten ranks at four per node: three nodes, the last one with two."""

    cores = None
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+mpi"]
    uses_mpi = True
    num_tasks = 10
    num_tasks_per_node = 4


@rfm.simple_test
class ProbeFlexible(Doctored):
    """One rank on every available node."""

    cores = None
    valid_systems = ["+mpi"]
    valid_prog_environs = ["+mpi"]
    uses_mpi = True
    num_tasks = 0
    tags = {"flexible"}


@rfm.simple_test
class ProbeGpu(Doctored):
    """All GPUs of a node."""

    cores = None
    valid_systems = ["+cuda"]
    valid_prog_environs = ["+cuda"]
    subjects = ["gpu"]
