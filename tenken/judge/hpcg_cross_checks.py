"""Values of an HPCG document compared with each other."""

from __future__ import annotations

from tenken.judge.criteria import miss
from tenken.model.judgement import Finding
from tenken.model.result import Result


def rating_above_raw(result: Result) -> list[Finding]:
    """The rating is the raw performance less overheads; only fewer than 50 iterations can increase it."""
    values = {metric.name: metric for metric in result.metrics}
    if not {"raw", "rating", "iterations"} <= set(values):
        return []
    rating, raw = values["rating"], values["raw"]
    bound = raw.value * max(1.0, 50 / max(1.0, values["iterations"].value))
    if rating.value <= bound * 1.00001:  # six digits are printed
        return []
    message = (
        f"{result.node}: {rating.id} = {rating.value:.5g} GFLOP/s is above what {raw.id} = {raw.value:.5g} GFLOP/s and "
        f"{values['iterations'].value:g} iterations allow"
    )
    return [miss(result, rating, message, rating.value, bound, "cross-check")]
