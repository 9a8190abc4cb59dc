"""Items without a row and rows without an item are both counted."""

import numpy as np

from offdiag.data.catalogue import Catalogue

SHOP = Catalogue.of([30, 7, 8], {"title": ["Cube", "Alien", None]})


def test_coverage_counts_both_sides():
    found = SHOP.coverage(np.array([7, 8, 31, 32]))
    assert (found.n_items, found.n_covered, found.without_row, found.rows_without_item) == (4, 2, [31, 32], 1)
    assert found.notes == (
        "2 of 4 items have no row in the catalogue: 31, 32",
        "1 row is of an item that the model does not know",
    )
    assert SHOP.coverage(np.array([7, 8, 30])).notes == ()
