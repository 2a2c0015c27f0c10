"""A machine with every feature, on which every check is listed with the features it requires.

ReFrame silently drops a check whose feature is missing, and with --skip-system-check it discards what the check
requires. Therefore the plan lists the checks on this system, which cannot run jobs.
"""

from __future__ import annotations

from tenken.machines.model import FEATURES, NODE_COUNTS, OF_MODE, Environment, Node, Partition, System

NAME = "everything"
#: If set in the environment, the configuration contains this system.
VARIABLE = "TENKEN_EVERYTHING"


def describe() -> System:
    """A partition with all features, one with a single GPU for checks that exclude several, and the environments that
    checks may name.
    """
    features = frozenset(FEATURES) | frozenset(NODE_COUNTS.values()) | frozenset(OF_MODE.values())
    environments = {name: Environment(name, features, "gcc", "g++", cuda="nvcc") for name in ("host", "cuda")}
    partitions = {
        name: Partition(
            name=name,
            description="every feature",
            scheduler="local",
            scheduler_status="it represents no machine",
            launcher="local",
            environments=tuple(environments),
            node=Node(architecture="x86_64", gpu_count=gpus),
            features=features,
        )
        for name, gpus in (("all", 8), ("one_gpu", 1))
    }
    return System(NAME, "every feature, for listing", "test", partitions, environments)
