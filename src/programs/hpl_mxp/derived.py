"""What a mixed-precision LU reaches of the products of its run."""

from tenken.model.lu import of_products


def of_product(run, one):
    return of_products(run, one, "product")
