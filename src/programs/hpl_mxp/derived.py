"""The fraction of the product rate that a mixed-precision LU reaches in the same run."""

from tenken.model.lu import of_all, of_products


def of_product(run, one):
    return of_products(run, one, "product")


def limit_product(run, one):
    """Of all ranks together."""
    table, low = run.program.tables["operations_per_cycle"], run.parameters.get("low")
    yield of_all(run, one, lambda device: table.get(device.chip, {}).get(low))
