"""Limits of HPCG: the dot bandwidth of the same run over the bytes of a counted operation."""

#: A GPU with fewer points is bound by launches on the coarser levels.
LEAST_POINTS = 192**3
#: The part of an iteration that each value covers; all others cover the whole.
PARTS = {"spmv": "product", "mg": "cycle"}


def limit_raw(run, one):
    """GFLOP/s, of all ranks; none if the matrix fits into caches, or a GPU has too few points."""
    result, part = run.result, PARTS.get(one.name)
    told = result.path
    bytes_of = {key: told.get(f"bytes_of_iteration.{key}") for key in ("vectors", "product", "cycle")}
    operations = told.get(f"operations_of_iteration.{part}" if part else "operations_of_iteration")
    dot = run.at("dot", one.subject, {})
    if dot is None or not operations or None in bytes_of.values() or not _by_memory(run):
        return
    moved = bytes_of[part] if part else sum(bytes_of.values())
    yield dot.median * operations / moved


limit_set = limit_rating = limit_spmv = limit_mg = limit_raw


def _by_memory(run):
    result = run.result
    matrix = result.path.get("bytes_of_matrix")
    if run.parameters.get("backend") == "cuda":
        points = 1
        for side in ("nx", "ny", "nz"):
            points *= run.parameters.get(side) or 0
        cache = result.devices[0].l2_bytes if result.devices else None
        return points >= LEAST_POINTS and bool(matrix and cache and matrix >= 4 * cache)
    # the matrix is that of one rank, which shares the cache with the others of its node
    nodes = result.placement.nodes
    cache = result.host.last_level_cache_bytes
    return bool(matrix and cache and matrix >= 4 * (cache // (nodes.count(nodes[0]) if nodes else 1)))
