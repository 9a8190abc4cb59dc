"""Evaluation against a loop over users, its paired test against scipy, and what it rejects."""

import json
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag import measured
from offdiag import metrics as formulas

evaluate, Result = od.evaluate, od.Result

EVERY = ["recall@3", "recall_all@3", "precision@3", "ndcg@4", "map@4", "mrr@4", "hit@2", "coverage@3", "novelty@3"]


@dataclass(frozen=True)
class HeldOut:
    histories: Any
    targets: Any
    user_ids: np.ndarray | None = None


class Scripted:
    """A recommender that reads its answers from a table; the value in a history is the user's number."""

    def __init__(self, lists: np.ndarray, n_items: int) -> None:
        self.lists = lists
        self.item_ids_ = np.arange(n_items)
        self.popularity_ = np.arange(n_items, dtype=np.float64)
        self.asked: list[tuple[int, int, bool]] = []

    def recommend(self, histories: Any, k: int = 10, *, exclude_seen: bool = True) -> SimpleNamespace:
        self.asked.append((histories.shape[0], k, exclude_seen))
        users = histories.sum(axis=1).astype(int) - 1
        return SimpleNamespace(indices=self.lists[users, :k])


def scripted(lists: Any, targets: Any) -> tuple[Scripted, HeldOut]:
    """User u is recommended lists[u] and wants targets[u] (a dense 0/1 row)."""
    wanted = sp.csr_array(np.array(targets, dtype=np.float32))
    n, m = wanted.shape
    histories = np.zeros((n, m), dtype=np.float32)
    histories[:, 0] = np.arange(1, n + 1)
    return Scripted(np.array(lists, dtype=np.int64), m), HeldOut(sp.csr_array(histories), wanted)


@pytest.fixture(scope="module")
def real() -> tuple[Any, HeldOut]:
    rng = np.random.default_rng(0)
    matrix = sp.csr_array((rng.random((160, 30)) < rng.random(30) * 0.5).astype(np.float32))
    hidden = sp.csr_array(matrix.multiply(rng.random(matrix.shape) < 0.3))[100:]
    seen = sp.csr_array(matrix[100:] - hidden)
    seen.eliminate_zeros()
    model = od.EASE(l2=20.0, user_power=0.0).fit(matrix[:100])
    return model, HeldOut(seen, hidden, np.arange(100, 160))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n, m = draw(st.integers(1, 7)), draw(st.integers(4, 9))
    lists = np.full((n, m), -1)
    for u in range(n):
        order = draw(st.permutations(range(m)))[: draw(st.integers(0, m))]
        lists[u, : len(order)] = order
    targets = np.array(draw(st.lists(st.booleans(), min_size=n * m, max_size=n * m))).reshape(n, m)
    targets[0, draw(st.integers(0, m - 1))] = True  # at least one user has a target
    return lists, targets


@given(world=worlds(), batch=st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_every_metric_equals_a_loop_over_users(world: tuple[np.ndarray, np.ndarray], batch: int) -> None:
    lists, targets = world
    model, held_out = scripted(lists, targets)
    result = evaluate(model, held_out, EVERY, batch=batch)
    kept = [u for u in range(len(lists)) if targets[u].any()]
    assert result.n_users == len(kept)
    assert result.n_without_targets == len(lists) - len(kept)
    twins = {
        "recall": formulas.recall, "recall_all": formulas.recall_all, "precision": formulas.precision,
        "ndcg": formulas.ndcg, "map": formulas.average_precision, "mrr": formulas.reciprocal_rank,
        "hit": formulas.hit,
    }  # fmt: skip
    for name in EVERY:
        kind, k = name.split("@")[0], int(name.split("@")[1])
        if kind == "coverage":
            shown = {int(i) for u in kept for i in lists[u, :k] if i >= 0}
            assert result.mean[name] == len(shown) / targets.shape[1]
            assert np.isnan(result.sem[name])
            assert name not in result.per_user
            continue
        if kind == "novelty":
            expected = formulas.novelty(lists[kept], model.popularity_, k)
        else:
            hits = np.array([[i >= 0 and bool(targets[u, i]) for i in lists[u]] for u in kept])
            expected = twins[kind](hits, targets[kept].sum(axis=1), k)
        np.testing.assert_array_equal(result.per_user[name], expected)
        assert result.mean[name] == pytest.approx(expected.mean())


def test_an_empty_place_is_never_a_hit() -> None:
    model, held_out = scripted([[-1, -1], [-1, -1]], [[0, 0, 1], [1, 0, 0]])
    assert evaluate(model, held_out, "hit@2").per_user["hit@2"].tolist() == [0.0, 0.0]


def test_mean_and_standard_error_by_hand() -> None:
    model, held_out = scripted([[0], [0], [0], [0]], [[1, 0], [1, 0], [1, 0], [0, 1]])
    result = evaluate(model, held_out, ["hit@1"])
    assert result.mean == {"hit@1": 0.75}
    # variance with n-1: (3 * 0.25^2 + 0.75^2) / 3 = 0.25; its root over sqrt(4)
    assert result.sem["hit@1"] == pytest.approx(0.25)


def test_one_user_has_a_mean_but_no_standard_error() -> None:
    model, held_out = scripted([[0]], [[1, 0]])
    result = evaluate(model, held_out, "hit@1")
    assert result.mean["hit@1"] == 1.0
    assert np.isnan(result.sem["hit@1"])
    assert np.isnan(result.compare(result).p_value["hit@1"])
    assert result.to_dict()["sem"] == {"hit@1": None}


def test_users_without_targets_are_left_out_and_counted() -> None:
    model, held_out = scripted([[0], [0], [1]], [[1, 0], [0, 0], [0, 1]])
    held_out = HeldOut(held_out.histories, held_out.targets, np.array(["a", "b", "c"]))
    result = evaluate(model, held_out, "hit@1")
    assert (result.n_users, result.n_without_targets) == (2, 1)
    assert result.per_user["hit@1"].tolist() == [1.0, 1.0]
    assert result.user_ids is not None
    assert result.user_ids.tolist() == ["a", "c"]
    assert "2 users, 1 without targets left out" in str(result)


def test_stored_zeros_and_duplicates_are_not_targets() -> None:
    model, held_out = scripted([[0, 1], [0, 1]], [[1, 0, 0], [1, 0, 0]])
    messy = sp.csr_array((np.array([1.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 0]), np.array([0, 3, 4])), shape=(2, 3))
    result = evaluate(model, HeldOut(held_out.histories, messy), "recall_all@2")
    assert result.per_user["recall_all@2"].tolist() == [1.0, 1.0]
    assert messy.nnz == 4  # the caller's matrix is untouched


def test_one_request_per_batch_has_the_depth_of_the_deepest_metric() -> None:
    model, held_out = scripted([[0, 1, 2]] * 5, [[1, 0, 0]] * 5)
    evaluate(model, held_out, ["hit@1", "recall@2"], batch=2, exclude_seen=False)
    assert model.asked == [(2, 2, False), (2, 2, False), (1, 2, False)]
    model.asked.clear()
    result = evaluate(model, held_out, ["precision@100"])
    assert model.asked == [(5, 3, True)]
    assert result.mean["precision@100"] == pytest.approx(0.01)


def test_batches_change_nothing(real: tuple[Any, HeldOut]) -> None:
    whole = evaluate(*real, EVERY)
    pieces = evaluate(*real, EVERY, batch=7)
    assert whole.mean == pieces.mean
    assert all((whole.per_user[name] == pieces.per_user[name]).all() for name in whole.per_user)


def test_a_real_model_is_measured_by_its_sorted_scores(real: tuple[Any, HeldOut]) -> None:
    model, held_out = real
    scores = np.where(held_out.histories.toarray() > 0, -np.inf, model.predict(held_out.histories))
    wanted = held_out.targets.toarray() > 0
    users = np.flatnonzero(wanted.any(axis=1))
    order = np.argsort(-scores[users], axis=1, kind="stable")[:, :5]
    found = np.take_along_axis(wanted[users], order, axis=1).sum(axis=1)
    result = evaluate(model, held_out, "recall@5")
    np.testing.assert_allclose(result.per_user["recall@5"], found / np.minimum(5, wanted[users].sum(axis=1)))


def test_progress_runs_from_zero_to_one(real: tuple[Any, HeldOut]) -> None:
    seen: list[float] = []
    evaluate(*real, batch=10, progress=lambda stage, done: seen.append(done))
    assert seen[0] == 0.0
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


def result_of(values: Any, ids: Any = None, name: str = "ndcg@10") -> Result:
    array = np.asarray(values, dtype=np.float64)
    return Result({name: float(array.mean())}, {name: 0.0}, {name: array}, array.size, 0, 0.1, ids)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=40))
@settings(max_examples=100, deadline=None)
def test_the_paired_test_equals_scipys(pairs: list[tuple[float, float]]) -> None:
    left, right = np.array(pairs).T
    if (left - right).std() < 1e-9:
        return  # scipy warns of lost precision; the degenerate cases have their own test
    comparison = result_of(left).compare(result_of(right))
    expected = scipy.stats.ttest_rel(left, right)
    assert comparison.difference["ndcg@10"] == pytest.approx((left - right).mean())
    assert comparison.sem["ndcg@10"] == pytest.approx(scipy.stats.sem(left - right))
    assert comparison.t["ndcg@10"] == pytest.approx(expected.statistic)
    assert comparison.p_value["ndcg@10"] == pytest.approx(expected.pvalue)


def test_comparing_a_result_with_itself_finds_no_difference(real: tuple[Any, HeldOut]) -> None:
    result = evaluate(*real, ["ndcg@5", "coverage@5"])
    comparison = result.compare(result)
    assert comparison.difference == {"ndcg@5": 0.0, "coverage@5": 0.0}
    assert (comparison.t["ndcg@5"], comparison.p_value["ndcg@5"]) == (0.0, 1.0)
    assert np.isnan(comparison.p_value["coverage@5"])


def test_a_shift_equal_for_every_user_is_certain() -> None:
    comparison = result_of([0.25, 0.5]).compare(result_of([0.5, 0.75]))
    assert (comparison.t["ndcg@10"], comparison.p_value["ndcg@10"]) == (-np.inf, 0.0)


def test_swapping_the_results_swaps_the_sign_only(real: tuple[Any, HeldOut]) -> None:
    model, held_out = real
    left = evaluate(model, held_out, "ndcg@5")
    right = evaluate(od.Popularity().fit(held_out.histories), held_out, "ndcg@5")
    forth, back = left.compare(right), right.compare(left)
    assert forth.difference["ndcg@5"] == -back.difference["ndcg@5"]
    assert forth.p_value == back.p_value


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (result_of([0.1, 0.2, 0.3]), "same users"),
        (result_of([0.1, 0.2], np.array([1, 3])), "different user ids"),
        (result_of([0.1, 0.2], name="hit@1"), "share no metric"),
    ],
)
def test_results_that_cannot_be_paired_are_refused(other: Result, message: str) -> None:
    with pytest.raises(od.OffdiagError, match=message) as caught:
        result_of([0.1, 0.2], np.array([1, 2])).compare(other)
    assert "\n" not in str(caught.value)


def test_only_shared_metrics_are_compared(real: tuple[Any, HeldOut]) -> None:
    left, right = evaluate(*real, ["hit@1", "ndcg@5"]), evaluate(*real, ["ndcg@5", "mrr@2"])
    assert list(left.compare(right).difference) == ["ndcg@5"]


def test_tables_are_aligned_and_dicts_are_json(real: tuple[Any, HeldOut]) -> None:
    result = evaluate(*real, ["recall_all@20", "hit@1", "coverage@5"])
    for text in (str(result), str(result.compare(result))):
        header, *rows = text.splitlines()[:-1]
        assert len(rows) == 3
        assert {len(row) for row in rows} == {len(header)}
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["mean"] == result.mean
    assert plain["sem"]["coverage@5"] is None
    assert "per_user" not in plain
    full = json.loads(json.dumps(result.to_dict(per_user=True), allow_nan=False))
    assert full["per_user"]["hit@1"] == result.per_user["hit@1"].tolist()
    json.dumps(result.compare(result).to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("ndgc@100", "ndcg@100"), ("NDCG@5", "ndcg@5"), ("recal@x", "recall@20"), ("precision", "precision@20"),
     ("ndcg@0", "ndcg@20"), ("ndcg@-3", "ndcg@20"), ("ndcg@5.5", "ndcg@20"), ("ndcg@", "ndcg@20")],
)  # fmt: skip
def test_an_unknown_metric_lists_the_known_ones_and_suggests_one(
    real: tuple[Any, HeldOut], name: str, suggestion: str
) -> None:
    with pytest.raises(od.OffdiagError) as caught:
        evaluate(*real, [name])
    message = str(caught.value)
    assert f"did you mean {suggestion}?" in message
    assert all(known in message for known in ("recall_all@k", "map@k", "novelty@k"))
    assert "\n" not in message


def test_inputs_that_cannot_be_measured_are_refused_in_one_line(real: tuple[Any, HeldOut]) -> None:
    model, held_out = real
    histories, targets = held_out.histories, held_out.targets
    without = SimpleNamespace(recommend=model.recommend)
    out_of_range = SimpleNamespace(recommend=lambda h, k, exclude_seen: SimpleNamespace(indices=np.full((60, k), 30)))
    too_few = SimpleNamespace(recommend=lambda h, k, exclude_seen: SimpleNamespace(indices=np.zeros((1, k))))
    wrong: list[tuple[str, Any, HeldOut, dict[str, Any]]] = [
        ("30 items but the held-out part has 29 columns", model, HeldOut(histories[:, :29], targets[:, :29]), {}),
        ("same shape", model, HeldOut(histories[:5], targets), {}),
        ("has a target", model, HeldOut(histories, sp.csr_array(targets.shape)), {}),
        ("at least one metric", model, held_out, {"metrics": []}),
        ("batch must be at least 1", model, held_out, {"batch": 0}),
        ("popularity_", without, held_out, {"metrics": "novelty@3"}),
        ("columns from 30 to 30|columns from 0 to 30", out_of_range, held_out, {}),
        ("rows", too_few, held_out, {}),
    ]
    for message, who, part, options in wrong:
        with pytest.raises(od.OffdiagError, match=message) as caught:
            evaluate(who, part, **options)
        assert "\n" not in str(caught.value)


def test_asking_twice_for_a_metric_gives_it_once(real: tuple[Any, HeldOut]) -> None:
    assert list(evaluate(*real, ["hit@1", "hit@1"]).mean) == ["hit@1"]


@pytest.mark.parametrize("first", ["od.Result", "od.evaluate", "__import__('offdiag.persist')"])
def test_the_public_name_is_the_function_whatever_was_touched_before(first: str) -> None:
    code = f"import offdiag as od; {first}; od.Result; assert callable(od.evaluate), od.evaluate"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_of_the_same_items_in_another_order_is_refused() -> None:
    """Columns are matched by position in an evaluation, so this would silently give a wrong number."""
    inter = od.synthetic.interactions(200, 40, 3000, seed=0)
    split = od.split.strong(inter, held_out=0.2, seed=0)
    backwards = split.train.select_items(np.arange(split.train.n_items)[::-1])
    with pytest.raises(od.OffdiagError, match="another order"):
        od.evaluate(od.EASE(l2=5.0).fit(backwards), split.test)
    by_matrix = od.evaluate(od.EASE(l2=5.0).fit(split.train.matrix), split.test)
    assert by_matrix.mean == od.evaluate(od.EASE(l2=5.0).fit(split.train), split.test).mean


def test_a_history_that_continues_after_its_target_is_reported():
    X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
    leaking, honest = od.split.strong(X, held_out=0.2), od.split.last_out(X)
    with pytest.warns(
        od.FutureLeakWarning, match="of 60 users have a history that continues after a target, and Markov"
    ):
        od.evaluate(od.MarkovChain().fit(leaking.train), leaking.test, "ndcg@10")
    od.evaluate(od.EASE(l2=10.0).fit(leaking.train), leaking.test, "ndcg@10")  # it does not use the order
    od.evaluate(od.MarkovChain().fit(honest.train), honest.test, "ndcg@10")


@pytest.mark.parametrize("recency", [{"history_decay": 0.6}, {"history_half_life": 40 * 86_400.0}], ids=str)
@pytest.mark.parametrize("kind", ["pairs", "events"])
def test_recent_choices_count_for_more_as_in_recommend(recency: dict[str, float], kind: str) -> None:
    X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
    if kind == "events":
        log = X.to_polars().with_columns(user=X.user_ids[0]).head(40)  # a long history with repeats, too
        both = {name: [*X.to_polars()[name], *log[name]] for name in ("user", "item", "time")}
        X = od.read(both, time="time", keep="events")
    split = od.split.last_out(X)
    model = od.EASE(l2=10.0).fit(split.train)
    found = od.evaluate(model, split.test, "ndcg@10", batch=37, **recency)
    some = np.flatnonzero(np.diff(split.test.targets.indptr))
    lists = model.recommend(split.test.ordered.select_users(positions=some), k=10, **recency).indices
    targets = split.test.targets[some].indices  # one each
    hits = lists == targets[:, None]
    expected = np.where(hits.any(axis=1), 1 / np.log2(2 + hits.argmax(axis=1)), 0.0)
    np.testing.assert_allclose(found.per_user["ndcg@10"], expected)
    flat = od.evaluate(model, split.test, "ndcg@10")
    assert found.compare(flat).difference["ndcg@10"] != 0
    assert od.evaluate(model, split.test, "ndcg@10", history_decay=None, history_half_life=None).mean == flat.mean
    by_matrix = od.EASE(l2=10.0).fit(split.train.matrix)  # its ids are the columns
    assert od.evaluate(by_matrix, split.test, "ndcg@10", **recency).mean == pytest.approx(found.mean)


def test_age_cannot_count_without_an_order_or_a_linear_model() -> None:
    X = od.synthetic.interactions(100, 20, 900, times=True, seed=0)
    split = od.split.last_out(X)
    model = od.EASE(l2=10.0).fit(split.train)
    rows = HeldOut(split.test.histories, split.test.targets, X.user_ids)

    class Elsewhere:
        def recommend(self, histories: Any, *, k: int, exclude_seen: bool) -> Any: ...

    cases: list[tuple[Any, Any, dict[str, float], str]] = [
        (model, rows, {"history_decay": 0.5}, "histories in order .* received rows without one; split Interactions"),
        (Elsewhere(), split.test, {"history_decay": 0.5}, "takes history_decay, such as od.EASE, received Elsewhere"),
        (od.WMF(rank=2).fit(split.train), split.test, {"history_decay": 0.5}, "need a linear model"),
        (model, split.test, {"history_decay": 0.5, "history_half_life": 3.0}, "received both"),
        (model, split.test, {"history_decay": 2.0}, "history_decay must be"),
    ]
    for who, held_out, recency, words in cases:
        with pytest.raises(od.OffdiagError, match=words):
            od.evaluate(who, held_out, "ndcg@10", **recency)
    leaking = od.split.weak(X)
    with pytest.warns(od.FutureLeakWarning, match="and EASE uses its order"):
        od.evaluate(model, leaking.test, "ndcg@10", history_decay=0.5)


@pytest.mark.parametrize(
    ("difference", "sems", "decided"),
    [
        (0.021, [0.01], "better"),
        (-0.021, [0.01], "worse"),
        (0.02, [0.01], "within error"),  # more than two standard errors, not two
        (0.021, [0.01, 0.011], "within error"),
        (0.021, [0.01, 0.002], "better"),
        (0.0, [0.0], "within error"),
        (1e-9, [0.0], "better"),
        (0.5, [None], "within error"),
        (0.5, [float("nan")], "within error"),
        (0.5, [], "within error"),
    ],
)
def test_more_than_two_standard_errors_decide(difference, sems, decided) -> None:
    assert measured.decide(difference, *sems) == decided


def test_the_error_over_groups_is_that_of_their_means() -> None:
    values = np.array([0.0, 1.0, 4.0, 4.0, 4.0, 1.0])
    assert measured.over_groups(values, [2, 3, 1]) == pytest.approx(np.std([0.5, 4.0, 1.0], ddof=1) / np.sqrt(3))
