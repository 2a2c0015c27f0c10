"""`tenken node`: checks a node in the seconds before a job.

It runs as root in prologs. So it uses only the standard library, starts in a tenth of a second, writes nothing but its
own state file and changes no setting of the machine. docs/node-check.md describes what is read and what decides.

    gpus       everything NVML reports on the GPUs host       memory, cores, kernel log, EDAC, file systems, clock probe
    children that are never waited for past their deadline expect     what this node should be: the expectation file
    state      what it was when it was last good: the state file verdict    expectation, last state, readings in;
    findings out measure    bandwidths by the suite's own programs, against the node's own brake      how many nodes of
    the partition were taken out for our reasons check      one check, all parts together cli        the command
"""
