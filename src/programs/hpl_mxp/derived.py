"""The fraction of the product rate that a mixed-precision LU reaches in the same run."""

from tenken.model.lu import of_products


def of_product(run, one):
    return of_products(run, one, "product")
