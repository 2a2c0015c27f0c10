"""Figures over the configurations that a map of storage measured."""

import math

from tenken.model.numbers import rate_of_times


def best_write(run):
    return _best(run, "write")


def best_write_synced(run):
    return _best(run, "write_synced")


def best_read_cached(run):
    return _best(run, "read_cached")


def best_read_cold(run):
    return _best(run, "read_cold")


def _best(run, situation):
    """The configuration with the shortest median time, of each size, with all its samples."""
    found = {}
    for one in run.of(situation):
        found.setdefault((one.subject, one.at.get("bytes")), []).append(one)
    for ones in found.values():
        fastest = max(ones, key=of_times)
        yield fastest.subject, fastest.at, fastest.samples


def pinned_read_over_least(run):
    """Reading to the GPU relative to the slower of its two parts: the link and the page cache."""
    for one in run.of("pinned_read"):
        cached = run.at("cached_read", one.subject, one.at)
        link = run.at("link_to_gpu", one.subject, {})
        # results of before state the link next to their values
        rate = link.median if link else run.result.path.get(f"link_to_memory_gbs.{one.subject.id}")
        if cached is not None and rate:
            yield one.subject, one.at, [one.median / min(rate, cached.median)]


#: A copy by the operating system in pages, and the beginning of the names of cuFile's methods.
COPIES, CUFILE = "posix_4ki_1", ("cufile", "gds")


def copy_over_cufile(run):
    """Copies by the operating system relative to cuFile's fastest method."""
    found = {}
    for one in run.of("write", "write_synced", "read_cached", "read_cold"):
        if one.kind == "gpu":
            found.setdefault((one.subject, one.name, one.at.get("bytes")), []).append(one)
    for (subject, situation, size), ones in found.items():
        cufile = [one for one in ones if _way(one).startswith(CUFILE)]
        copies = [one for one in ones if _way(one) == COPIES]
        if cufile and copies:
            ratio = of_times(copies[0]) / max(map(of_times, cufile))
            yield subject, {"situation": situation, "bytes": size}, [ratio]


#: Table 1 of the JHPCN report of 2023: the fastest method up to this many bytes: method, KiB per block, threads.
COPY, GDS_4, GDS_16, GDS_16_8 = ("posix", 4, 1), ("gds", 4096, 1), ("gds", 16384, 1), ("gds", 16384, 8)
SMALL, MEDIUM, LARGE = 2_359_296, 9_437_184, 2_415_919_104
SMALLEST = 589_824
LOCAL = {
    "write": {SMALL: COPY, MEDIUM: GDS_4, LARGE: GDS_16},
    "read_cached": {SMALL: COPY, MEDIUM: GDS_16, LARGE: GDS_16_8},
}
LUSTRE = {
    "write": {SMALL: COPY, MEDIUM: COPY, LARGE: GDS_16_8},
    "read_cached": {SMALL: GDS_4, MEDIUM: GDS_4, LARGE: GDS_16_8},
}
#: A method that is this many times slower at two sizes is not tried at larger ones (docs/file_io.md).
DROPPED = 2.5


def named_over_best(run):
    """The method that the table names for a size over the fastest of the table's four; without GPUDirect Storage
    none."""
    table = {"lustre": LUSTRE, "ext4": LOCAL, "xfs": LOCAL}.get(run.result.path.get("file_system"), {})
    found = {}
    for one in run.of(*table):
        if one.kind == "gpu" and SMALLEST <= one.at.get("bytes", 0) <= LARGE:
            found.setdefault((one.subject, one.name, one.at["bytes"]), {})[_way(one)] = of_times(one)
    for (subject, situation, size), ways in found.items():
        four = [ways[name] for name in {_fitted(way, size) for way in (COPY, GDS_4, GDS_16, GDS_16_8)} if name in ways]
        if not any(way.startswith("gds") for way in ways):
            continue
        named = _fitted(next(way for up_to, way in table[situation].items() if size <= up_to), size)
        yield (
            subject,
            {"situation": situation, "bytes": size},
            [ways[named] / max(four) if named in ways else 1 / DROPPED],
        )


def _fitted(way, size):
    """The name of a method for files of this many bytes: no block larger than the file, no thread without a block."""
    method, kib, threads = way
    block = min(kib << 10, -(-size // 4096) * 4096)
    shown = next(f"{block // unit}{name}" for unit, name in ((1 << 20, "mi"), (1 << 10, "ki")) if block % unit == 0)
    return f"{method}_{shown}_{min(threads, -(-size // block))}"


def most_over_cufile(run):
    """The maximum gain of a map's choice over always using cuFile, over all sizes, through the page cache."""
    found = {}
    for one in run.of("adaptive_over_cufile"):
        if one.at.get("situation") in LOCAL:
            found.setdefault(one.subject, []).append(one.median)
    for subject, gains in found.items():
        yield subject, {}, [max(gains)]


def _way(one):
    return str(one.at.get("io_config", one.at.get("way", "")))


def of_times(one):
    return rate_of_times(one.samples, one.median)


def adaptive_over_map(run):
    """The rate of the map's choice over the rate that the map promises."""
    for one in run.of("adaptive"):
        promised = one.counts.get("map_gbs")
        if promised and math.isfinite(promised):
            yield one.subject, one.at, [rate / promised for rate in one.samples]


#: Transfers to or from the disk, compared with the same in memory; at most this share of its rate.
IN_MEMORY, AT_MOST = {"best_write_synced": "best_write", "best_read_cold": "best_read_cached"}, 0.9


def from_disk(run, one):
    """The fastest method to the disk is slower than the fastest in memory, at the same size."""
    for other in run.of(IN_MEMORY[one.name]):
        if other.subject == one.subject and other.at.get("bytes") == one.at.get("bytes"):
            return None, AT_MOST * other.value
    return None
