"""A catalogue comes back cell by cell with its model, and a file whose catalogue makes no sense is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag import persist
from offdiag.files import container
from tests.fixtures.mistakes import refused

NAMES = np.array(["Brazil", "Amélie", "千と千尋", "", "a\nb", "🎬", "Z", "x" * 40])


def small(item_ids=None):
    rows = (np.random.default_rng(1).random((40, 8)) < 0.4).astype(np.float32)
    return od.EASE(l2=5.0).fit(od.read(rows, item_ids=item_ids))


def titled():
    shop = od.Catalogue.of(
        ["Z", "Brazil", "🎬", "later"],
        {"title": ["Last", "Brasil", None, "Later"], "price": [9.5, None, 1.0, 2.0], "image": ["z.png"] * 4},
    )
    return small(NAMES.tolist()).with_catalogue(shop)


def test_a_catalogue_comes_back_with_the_model(tmp_path):
    model = titled()
    model.save(tmp_path / "model.od")
    loaded = od.load(tmp_path / "model.od")
    assert loaded.catalogue_.to_dicts() == model.catalogue_.to_dicts()
    assert loaded.recommend([["Z"]], k=9).to_dicts() == model.recommend([["Z"]], k=9).to_dicts()
    about = persist.describe(tmp_path / "model.od")["catalogue"]
    assert about == {"n_rows": 4, "columns": ["title", "image", "price"], "ids_dtype": "U6"}
    loaded.with_catalogue(None).save(tmp_path / "model.od")
    assert od.load(tmp_path / "model.od").catalogue_ is None


CELLS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6))


@given(rows=st.dictionaries(st.integers(0, 9), st.tuples(CELLS, st.one_of(CELLS, st.floats(0, 1e9))), min_size=1))
def test_any_catalogue_comes_back_cell_by_cell(rows, tmp_path_factory):
    scratch = tmp_path_factory.getbasetemp() / "any.od"
    rows = {0: rows.get(0, ("zero", None))} | rows
    cells = {"title": [title for title, _ in rows.values()], "price": [price for _, price in rows.values()]}
    shop = od.Catalogue.of(list(rows), cells)
    small().with_catalogue(shop).save(scratch)
    found = od.load(scratch).catalogue_
    texts = not all(price is None or isinstance(price, float) for price in cells["price"])
    for item, (title, price) in rows.items():
        kept = {"title": title, "price": str(price) if texts and price is not None else price}
        assert found.row(item) == {name: cell for name, cell in kept.items() if cell is not None}


@pytest.mark.parametrize(
    "damage",
    [
        lambda about, arrays: about["catalogue"].update(n_rows=3),
        lambda about, arrays: about["catalogue"].update(n_rows="4"),
        lambda about, arrays: about["catalogue"].update(ids_dtype="U999999"),
        lambda about, arrays: about["catalogue"].update(columns=["title", "link"]),
        lambda about, arrays: about.update(catalogue=[1]),
        lambda about, arrays: arrays.update({"catalogue.price": np.zeros(3)}),
        lambda about, arrays: arrays.update({"catalogue.price": np.zeros(4, dtype=np.int64)}),
        lambda about, arrays: arrays.update({"catalogue.title": np.zeros(4)}),
        lambda about, arrays: arrays.update({"catalogue.title.offsets": np.array([0, 9, 3, 10, 15])}),
        lambda about, arrays: arrays.update({"catalogue.title.utf8": np.full(15, 255, dtype=np.uint8)}),
        lambda about, arrays: arrays.update({"catalogue.items.offsets": np.array([0, 7, 6, 11, 15])}),
        lambda about, arrays: arrays.pop("catalogue.items.utf8"),
    ],
)
def test_a_catalogue_that_makes_no_sense_is_refused(damage, tmp_path):
    about, arrays = persist._contents(titled(), None)
    damage(about, arrays)
    ordered = dict(sorted(arrays.items(), key=lambda pair: -pair[1].dtype.itemsize))
    with open(tmp_path / "model.od", "wb") as file:
        container.write(file, about, ordered, None)
    with refused("makes no sense"):
        od.load(tmp_path / "model.od")


def test_repeated_items_and_long_texts_of_a_catalogue_are_refused(tmp_path):
    model = titled()
    shop = model.catalogue_
    model._catalogue = od.Catalogue(shop.items[[0, 0, 1, 2]], shop.data)
    model.save(tmp_path / "model.od")
    with refused("ascending"):
        od.load(tmp_path / "model.od")
    model._catalogue = od.Catalogue.of(["Z"], {"title": ["x" * 5000]})
    model.save(tmp_path / "model.od")
    with refused("too long"):
        od.load(tmp_path / "model.od")
