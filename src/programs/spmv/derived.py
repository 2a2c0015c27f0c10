"""Figures of a matrix over its variants, and of a set over its matrices."""

import math

#: Beginning of the names of the vendor library's variants; all others are our own kernels.
VENDOR = "cusparse"


def best(run):
    """The variant with the highest median rate, of each matrix, with all its samples."""
    for ones in _by_matrix(run).values():
        fastest = _fastest(ones)
        yield fastest.subject, _without(fastest.at, "variant"), fastest.samples


def own_over_vendor(run):
    for ones in _by_matrix(run).values():
        theirs = [one.median for one in ones if str(one.at.get("variant")).startswith(VENDOR)]
        ours = [one.median for one in ones if not str(one.at.get("variant")).startswith(VENDOR)]
        if theirs and ours and max(theirs) > 0:
            yield ones[0].subject, _without(ones[0].at, "variant"), [max(ours) / max(theirs)]


def geomean(run):
    """Geometric mean of the best variants of a set of at least two matrices."""
    for subject, ones in _sets(run):
        yield subject, {}, [_geometric(ones)]


def worst(run):
    for subject, ones in _sets(run):
        yield subject, {}, [min(one.median for one in ones)]


def geomean_by_size(run):
    """The geometric means of matrices with the same power of ten of entries."""
    for subject, ones in _sets(run):
        decades = {}
        for one in ones:
            decades.setdefault(math.floor(math.log10(one.at["nnz"])), []).append(one)
        for decade, members in sorted(decades.items()):
            yield subject, {"nnz_decade": decade}, [_geometric(members)]


def _geometric(ones):
    return math.exp(math.fsum(math.log(one.median) for one in ones) / len(ones))


def _fastest(ones):
    return max(ones, key=lambda one: one.median)


def _by_matrix(run):
    found = {}
    for one in run.of("spmv"):
        found.setdefault((one.subject, one.at.get("matrix")), []).append(one)
    return found


def _sets(run):
    found = {}
    for one in run.of("best"):
        if one.median > 0:
            found.setdefault(one.subject, []).append(one)
    return [(subject, ones) for subject, ones in found.items() if len(ones) > 1]


def _without(at, *names):
    return {key: value for key, value in at.items() if key not in names}


def limit_spmv(run, one):
    """GFLOP/s: the best read rate of a dot product, before the matrices or after, over the minimum traffic of the
    format, beyond 4 x the cache."""
    dot = run.at("dot", one.subject, {})
    moved, done = one.counts.get("bytes"), one.counts.get("operations")
    cache = _cache(run.result, one.subject)
    if dot is not None and moved and done and cache and moved >= 4 * cache:
        yield run.result.path.get(f"best_dot_gbs.{one.subject.id}", dot.best) * done / moved


def limit_best(run, one):
    """That of the variant with this format."""
    ones = _by_matrix(run).get((one.subject, one.at.get("matrix")))
    return limit_spmv(run, _fastest(ones)) if ones else ()


def _cache(result, subject):
    """Bytes of the last-level cache."""
    if subject.kind == "host":
        return result.host.last_level_cache_bytes
    device = result.device(subject.first)
    return device.l2_bytes if device is not None else None
