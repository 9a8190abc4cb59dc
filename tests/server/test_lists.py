"""Lists: popular items with the share of users where it is certain; histories in order, with and without times."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.ranking import Recency, encode
from offdiag.server.app import create
from offdiag.server.model import EXAMPLE_LENGTH, EXAMPLES, ServedModel
from tests.fixtures.serving import call, one_error

POPULAR = [("POST", "/recommend", {"history": [], "k": 5}), ("GET", "/items?limit=5", None)]


def ones():
    return od.synthetic.interactions(300, 40, 3_000, seed=8)


def with_quantities():
    """Sums below the number of users that do not count users."""
    inter = ones()
    matrix = inter.matrix.copy()
    matrix.data[::50] = 2.0
    return od.Interactions(matrix, inter.user_ids, inter.item_ids)


@pytest.mark.parametrize(
    ("data", "model", "known"),
    [
        (ones, od.EASE(l2=10.0), True),
        (ones, od.LowRankEDLAE(rank=5), True),
        (with_quantities, od.EASE(l2=10.0), False),
        (ones, od.ItemKNN(), True),
        (with_quantities, od.ItemKNN(), False),
    ],
)
def test_the_share_of_users_is_given_only_where_it_is_certain(tmp_path, data, model, known):
    inter = data()
    model.fit(inter).save(tmp_path / "model.od")
    counts = dict(zip(inter.item_ids.tolist(), (inter.matrix != 0).sum(axis=0).tolist(), strict=True))
    for answer in call(create([tmp_path / "model.od"]), *POPULAR):
        items = answer.json()["items"]
        assert len(items) == 5
        for item in items:
            assert ("users" in item) is known
            assert not known or item["users"] == pytest.approx(counts[item["id"]] / inter.n_users)


def test_lists_for_a_history_have_no_share_of_users(tmp_path):
    inter = ones()
    od.EASE(l2=10.0).fit(inter).save(tmp_path / "model.od")
    (answer,) = call(create([tmp_path / "model.od"]), ("POST", "/recommend", {"history": [inter.item_ids[0].item()]}))
    assert not any("users" in item for item in answer.json()["items"])


def test_examples_are_histories_of_items_that_go_together(tmp_path):
    inter = od.synthetic.catalogue(2_000, 400, 40_000, communities=6, seed=3).interactions
    model = od.EASE(l2=50.0).fit(inter)
    model.save(tmp_path / "model.od")
    (answer,) = call(create([tmp_path / "model.od"]), ("GET", "/examples", None))
    histories = [[item["id"] for item in items] for items in answer.json()["examples"]]
    assert len(histories) == EXAMPLES
    firsts = [history[0] for history in histories]
    assert len(set(firsts)) == EXAMPLES
    assert firsts[0] == model.recommend([[]], k=1).items[0, 0]
    for first, *others in histories:
        assert others == model.similar(first, k=EXAMPLE_LENGTH - 1).items[0].tolist()


@pytest.mark.parametrize("n_items", [1, 2, 5])
def test_a_tiny_catalogue_has_examples_too(tmp_path, n_items):
    od.EASE(l2=1.0).fit(sparse.csr_array(np.ones((3, n_items)))).save(tmp_path / "model.od")
    (answer,) = call(create([tmp_path / "model.od"]), ("GET", "/examples", None))
    assert [len(items) for items in answer.json()["examples"]] == [min(n_items, EXAMPLE_LENGTH)]


@pytest.fixture(scope="module")
def ordered(tmp_path_factory):
    """Models of 30 items: one that learned a decay, one that learned a half-life, one that knows no order, a net."""
    folder = tmp_path_factory.mktemp("ordered")
    inter = od.synthetic.interactions(250, 30, 2_500, times=True, names=False, seed=4)
    models = {
        "place": od.NextItem(l2=5.0, history_decay=0.6), "time": od.NextItem(l2=5.0, history_half_life=3.0),
        "plain": od.EASE(l2=5.0), "wmf": od.WMF(rank=4),
    }  # fmt: skip
    for name, model in models.items():
        model.fit(inter).save(folder / f"{name}.od")
    return models, create([folder / f"{name}.od" for name in models]), ServedModel("place", folder / "place.od")


EVENTS = st.lists(st.tuples(st.integers(0, 33), st.integers(-9, 9)), max_size=9)  # with repeats and unknown ids
AGED = [("place", {}), ("time", {}), ("plain", {}), ("plain", {"history_decay": 0.5}), ("time", {"history_decay": 1.0}),
        ("plain", {"history_half_life": 4.0}), ("place", {"history_half_life": 4.0}), ("wmf", {})]  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, recency=st.sampled_from([Recency(0.6), Recency(half_life=2.0), None]))
def test_the_row_of_a_history_is_that_of_the_library(ordered, events, recency):
    served = ordered[2]
    ids, times = [item for item, _ in events], np.array([at for _, at in events], np.float64)
    X, unknown = encode([events], served.model.item_ids_, recency)
    row = served.row(ids, times, recency)
    assert row.columns == X.indices.tolist()
    assert (np.ones(X.nnz) if row.values is None else row.values).tolist() == X.data.tolist()
    assert tuple(row.unknown) == unknown[0]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, case=st.sampled_from(AGED))
def test_lists_by_age_equal_those_of_the_library(ordered, events, case):
    """Also in a batch and a comparison, and their reasons are those of an explanation."""
    (models, app, _), (name, words) = ordered, case
    ids, times = [item for item, _ in events], [at for _, at in events]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.UnknownItemsWarning)
        wanted = models[name].recommend([events], k=4, **words)
    body = {"history": ids, "times": times, "k": 4, "model": name, **words}
    both = {"histories": [ids, [], ids], "times": [times, [], times], "k": 4, "model": name, **words}
    pair = {"history": ids, "times": times, "k": 4, "models": [name, name], **words}
    one, many, compared = call(app, ("POST", "/recommend", body), ("POST", "/batch", both), ("POST", "/compare", pair))
    assert [item["id"] for item in one.json()["items"]] == wanted.items[0].tolist()
    np.testing.assert_allclose([item["score"] for item in one.json()["items"]], wanted.scores[0], rtol=1e-5, atol=1e-7)
    assert many.json()["answers"][::2] == [one.json()] * 2
    assert [item["id"] for item in compared.json()["lists"][0]] == wanted.items[0].tolist()
    if name == "wmf" or not set(ids) & set(range(30)):
        return
    target = wanted.items[0, 0].item()
    why, reasons = call(
        app, ("POST", "/explain", {k: v for k, v in body.items() if k != "k"} | {"item": target}),
        ("POST", "/recommend", body | {"reasons": 2}),
    )  # fmt: skip
    parts = why.json()["contributions"]
    assert sum(part["contribution"] for part in parts) == pytest.approx(why.json()["score"], rel=1e-12)
    assert why.json()["score"] == pytest.approx(wanted.scores[0, 0], rel=1e-5, abs=1e-7)
    found = reasons.json()["items"][0]["reasons"]
    strongest = [part["contribution"] for part in parts[:2] if part["contribution"]]
    np.testing.assert_allclose([part["contribution"] for part in found], strongest, rtol=1e-5, atol=1e-7)
    aged = "history_decay" not in words if name == "time" else (name == "place" or bool(words))
    assert all(("age_weight" in part) == aged for part in parts)


def test_a_history_in_order_needs_no_times_for_a_decay(ordered):
    models, app, _ = ordered
    (answer, card, other) = call(
        app, ("POST", "/recommend", {"history": [3, 9, 3, 5], "k": 3}),
        ("GET", "/model", None), ("GET", "/model?model=plain", None),
    )  # fmt: skip
    assert [item["id"] for item in answer.json()["items"]] == models["place"].recommend([[3, 9, 3, 5]], k=3).items[
        0
    ].tolist()
    assert (card.json()["ordered"], other.json()["ordered"]) == (True, False)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ({"times": [1]}, 409, "times: expected one for each id of the history (2), received 1"),
        ({"times": [1, "2024-01-01"]}, 409, "all numbers or all dates"),
        ({"times": ["2024-01-01", "2999-01-01"]}, 409, "in the future"),
        ({"times": [1, "soon"]}, 422, "times.1: a time is a number or an ISO date"),
        ({"times": 5}, 422, "times"),
        ({"history_decay": 0}, 422, "history_decay"),
        ({"history_decay": 1.01}, 422, "history_decay"),
        ({"history_decay": True}, 422, "history_decay"),
        ({"history_half_life": 0}, 422, "history_half_life"),
        ({"history_half_life": 5}, 409, "since a half-life counts, received none"),
        ({"model": "time"}, 409, "since a half-life counts, received none"),
        ({"history_half_life": 5, "history_decay": 0.5, "times": [1, 2]}, 409, "received both"),
        ({"history_decay": 0.5, "model": "wmf"}, 409, "need a linear model"),
    ],
)
def test_times_that_cannot_be_used_get_one_clear_line(ordered, words, status, text):
    app = ordered[1]
    for path, more in (("/recommend", {}), ("/explain", {"item": 3})):
        (answer,) = call(app, ("POST", path, {"history": [1, 2], **more, **words}))
        one_error(answer, status)
        assert text in answer.json()["error"]


def test_a_batch_needs_times_for_each_history(ordered):
    short = {"histories": [[1], [2]], "times": [[1]]}
    uneven = {"histories": [[1], [2]], "times": [[1], [1, 2]]}
    first, second = call(ordered[1], ("POST", "/batch", short), ("POST", "/batch", uneven))
    for answer, text in (
        (first, "a list for each history (2), received 1"),
        (second, "of the history (1), received 2"),
    ):
        one_error(answer, 409)
        assert text in answer.json()["error"]


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ids=st.lists(st.integers(0, 29), max_size=8), k=st.integers(1, 12), blocked=st.lists(st.integers(0, 29), max_size=3)
)
def test_one_item_per_group_as_in_the_library(grouped, ids, k, blocked):
    models, app = grouped
    for name, words in (("groups", {"block": blocked}), ("groups", {"allow": list(range(3, 30))}), ("shop", {})):
        wanted = models[name].recommend([ids], k=k, one_per_group=True, **words)
        body = {"history": ids, "k": k, "one_per_group": True, "model": name, **words}
        (answer,) = call(app, ("POST", "/recommend", body))
        assert [item["id"] for item in answer.json()["items"]] == wanted.items[0, : wanted.lengths[0]].tolist()


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """Models of 30 items in tens: groups of the fit, groups of the catalogue, and none."""
    folder = tmp_path_factory.mktemp("grouped")
    inter = od.synthetic.interactions(250, 30, 2_500, names=False, seed=4)
    shop = od.Catalogue.of(list(range(30)), {"group": [str(item % 7) for item in range(30)]})
    models = {
        "groups": od.EDLAE(l2=5.0).fit(inter, groups=np.arange(30) // 4),
        "shop": od.EASE(l2=5.0).fit(inter).with_catalogue(shop), "none": od.EASE(l2=5.0).fit(inter),
    }  # fmt: skip
    for name, model in models.items():
        model.save(folder / f"{name}.od")
    return models, create([folder / f"{name}.od" for name in models])


def test_one_per_group_without_groups_is_refused(grouped):
    (answer,) = call(grouped[1], ("POST", "/recommend", {"history": [1], "one_per_group": True, "model": "none"}))
    one_error(answer, 409)
    assert answer.json()["error"].startswith("one_per_group needs groups")


def test_disliked_items_are_left_out_and_weighed(tmp_path):
    inter = ones()
    other = sparse.csr_array((np.random.default_rng(0).random(inter.shape) < 0.1).astype(np.float32))
    rated = od.Interactions(inter.matrix, inter.user_ids, inter.item_ids, dislikes=other)
    models = {"plain": od.EASE(l2=5.0).fit(inter), "rated": od.EASE(l2=5.0, dislike_weight=1.0).fit(rated)}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.od")
    app, ids = create([tmp_path / f"{name}.od" for name in models]), inter.item_ids.tolist()
    for name, model in models.items():
        for history, disliked in (([3, 7], [5, 9]), ([], [0, 1]), ([3, 7], [7])):
            liked, refused = [ids[n] for n in history], [ids[n] for n in disliked]
            body = {"history": liked, "disliked": refused, "k": 8, "model": name, "reasons": 2}
            (answer,) = call(app, ("POST", "/recommend", body))
            wanted = model.recommend([liked], k=8, disliked=[refused])
            assert [item["id"] for item in answer.json()["items"]] == wanted.items[0].tolist()
