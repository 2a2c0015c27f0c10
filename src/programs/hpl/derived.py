"""The fraction of the product rate that an LU reaches in the same run."""

from tenken.model.lu import of_products


def of_dgemm(run, one):
    return of_products(run, one, "dgemm")
