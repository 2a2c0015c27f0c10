"""The duration of a loop without snapshots."""

#: Above steps x step time, the host may add this fraction; below it, the loop may be shorter by this fraction, since
#: the steps of a GPU were calibrated in the same run.
ABOVE, BELOW = 1.10, 0.85


def steps(run, one):
    """The loop without snapshots takes as long as its steps, which consist of whole passes over the state: each is off
    by at most half a pass; a step of a single pass has no upper limit."""
    count, step_ms = run.parameters.get("steps"), run.parameters.get("step_ms")
    if one.at.get("mode") != "none" or not count or not step_ms:
        return None
    whole = count * step_ms / 1e3
    passes = run.result.path.get(f"passes_of_a_step.{one.subject.id}")
    if not isinstance(passes, int) or passes < 1:
        return BELOW * whole, ABOVE * whole
    longest = None if passes == 1 else ABOVE * whole * passes / (passes - 0.5)
    return BELOW * whole * passes / (passes + 0.5), longest
