"""Arrays of the host compared with its cache."""

from __future__ import annotations

from tenken.model.judgement import Finding
from tenken.model.result import Result
from tenken.model.verdicts import FAIL

#: Arrays in memory are this many times as large as the cache: the rule of STREAM (www.cs.virginia.edu/stream).
CACHES = 4


def cached_arrays(result: Result) -> list[Finding]:
    """Arrays that a cache of the host holds in part: an array that was chosen too small measures the cache."""
    size, cache = result.parameters.get("array_bytes"), result.host.last_level_cache_bytes
    on_host = any(metric.kind == "host" for metric in result.metrics)
    if not on_host or not cache or not isinstance(size, int) or size >= CACHES * cache - 8:
        return []
    text = (
        f"{result.node}: parameter array_bytes is {size}; required: {CACHES} x host.last_level_cache_bytes, "
        f"{CACHES * cache}"
    )
    return [Finding(FAIL, text, node=result.node, kind="cross-check")]
