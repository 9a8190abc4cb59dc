"""Histories of any form, also tables with the columns of the fit, give the same lists."""

import pandas as pd
import polars as pl
import pytest

import offdiag as od


@pytest.fixture(scope="module")
def data():
    return od.synthetic.interactions(60, 20, 500, seed=0)


@pytest.fixture(scope="module")
def table(data):
    return data.to_polars().rename({"user": "who", "item": "what"})


@pytest.fixture(scope="module")
def model(table):
    return od.EASE(l2=5.0).fit(table, user="who", item="what")


@pytest.mark.parametrize("form", [pl.DataFrame, pl.LazyFrame, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_a_table_of_histories_is_read_with_the_columns_of_the_fit(model, data, table, form):
    assert model.recommend(form(table), k=3).to_dicts() == model.recommend(data, k=3).to_dicts()
    usual = form(table.rename({"who": "user", "what": "item"}))
    assert model.recommend(usual, k=3).to_dicts() == model.recommend(data, k=3).to_dicts()


def test_users_are_found_in_a_table(model, table):
    lists = model.recommend(users=[7, 3], data=table, k=2)
    assert lists.users.tolist() == [7, 3]
    with pytest.raises(od.OffdiagError, match="received 999"):
        model.recommend(users=[999], data=table)


def test_lists_to_a_file_and_reranked_lists_take_tables_too(model, data, table, tmp_path):
    model.recommend_to(tmp_path / "top.parquet", table, k=3)
    assert pl.read_parquet(tmp_path / "top.parquet").equals(model.recommend(data, k=3).to_polars())
    varied = od.Reranked(model, diversity=0.5)
    assert varied.recommend(table, k=3).to_dicts() == varied.recommend(data, k=3).to_dicts()


def test_a_file_has_the_columns_of_the_catalogue_that_are_named(model, data, tmp_path):
    shop = od.Catalogue.of(data.item_ids, {"title": [f"title {x}" for x in data.item_ids], "price": [1.5] * 20})
    titled = model.with_catalogue(shop)
    titled.recommend_to(tmp_path / "top.csv", data, k=2, columns=("title", "price"))
    assert pl.read_csv(tmp_path / "top.csv").columns == ["user", "rank", "item", "title", "price", "score"]
    with pytest.raises(od.OffdiagError, match="received 'link'; the model has title, price"):
        titled.recommend_to(tmp_path / "none.csv", data, columns=["link"])
    with pytest.raises(od.OffdiagError, match="received 'price'; the model has no catalogue"):
        model.recommend_to(tmp_path / "none.csv", data, columns=["price"])
    assert not (tmp_path / "none.csv").exists()


def test_users_of_a_table_are_added_and_forgotten(data, table):
    first, rest = table.filter(pl.col("who") < 40), table.filter(pl.col("who") >= 40)
    model = od.EASE(l2=5.0, user_power=0.0).fit(first, user="who", item="what")
    before = model.predict(data)
    assert model.update(rest).n_users_ == data.n_users
    model.forget(rest.to_pandas())
    assert abs(model.predict(data) - before).max() < 1e-4
    assert model.columns_.user == "who"


def test_values_of_the_fit_must_be_in_a_table_and_times_need_not(table):
    """Without a screen for notes, ratings that silently count as 1 would be a trap."""
    timed = table.with_columns(day=pl.int_range(pl.len()))
    model = od.EASE(l2=5.0).fit(timed, user="who", item="what", value="value", time="day")
    assert model.recommend(table, k=2).lengths.min() == 2
    for call in (model.recommend, model.predict, model.update):
        with pytest.raises(od.OffdiagError, match="expected value='value'"):
            call(table.drop("value"))


def test_a_list_of_texts_is_one_history_not_files(model):
    assert model.recommend(model.item_ids_[:2].tolist(), k=1).lengths.tolist() == [1]


def test_a_table_without_the_columns_is_an_error(model):
    with pytest.raises(od.OffdiagError, match="expected user='who', item='what'"):
        model.recommend(pd.DataFrame({"a": [1], "b": [2]}))
