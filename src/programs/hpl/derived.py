"""The fraction of the product rate that an LU reaches in the same run."""

from tenken.model.lu import of_all, of_products


def of_dgemm(run, one):
    return of_products(run, one, "dgemm")


def limit_dgemm(run, one):
    """Of all ranks together."""
    table = run.program.tables["fp64_operations_per_cycle"]
    yield of_all(run, one, lambda device: table.get(device.compute_capability))
