"""Each metric against a slow twin in plain Python, against values worked out by hand, against its laws."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from offdiag import metrics

Case = tuple[np.ndarray, np.ndarray, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Ranked hits, number of targets (at least the hits and one), a k shorter or longer than the list."""
    n, width, k = draw(st.integers(0, 6)), draw(st.integers(0, 9)), draw(st.integers(1, 12))
    bits = draw(st.lists(st.booleans(), min_size=n * width, max_size=n * width))
    hits = np.array(bits, dtype=np.bool_).reshape(n, width)
    extra = draw(st.lists(st.integers(0, 15), min_size=n, max_size=n))
    n_targets = np.maximum(hits.sum(axis=1) + np.array(extra, dtype=np.int64), 1)
    return hits, n_targets, k


def ndcg_twin(row: list[bool], targets: int, k: int) -> float:
    gained = ideal = 0.0
    for place in range(k):
        if place < len(row) and row[place]:
            gained += 1 / math.log2(place + 2)
        if place < targets:
            ideal += 1 / math.log2(place + 2)
    return gained / ideal


def map_twin(row: list[bool], targets: int, k: int) -> float:
    total, found = 0.0, 0
    for place in range(min(k, len(row))):
        if row[place]:
            found += 1
            total += found / (place + 1)
    return total / min(k, targets)


TWINS: dict[Callable[..., Any], Callable[[list[bool], int, int], float]] = {
    metrics.recall: lambda row, targets, k: sum(row[:k]) / min(k, targets),
    metrics.recall_all: lambda row, targets, k: sum(row[:k]) / targets,
    metrics.precision: lambda row, targets, k: sum(row[:k]) / k,
    metrics.ndcg: ndcg_twin,
    metrics.average_precision: map_twin,
    metrics.reciprocal_rank: lambda row, targets, k: 1 / (row.index(True) + 1) if True in row[:k] else 0.0,
    metrics.hit: lambda row, targets, k: float(True in row[:k]),
}
ALL = pytest.mark.parametrize("metric", TWINS, ids=lambda metric: metric.__name__)


@ALL
@given(case=cases())
@settings(max_examples=150, deadline=None)
def test_a_metric_equals_its_plain_python_twin(metric: Callable[..., Any], case: Case) -> None:
    hits, n_targets, k = case
    values = metric(hits, n_targets, k)
    assert values.dtype == np.float64
    assert values.shape == (len(hits),)
    expected = [TWINS[metric](row, t, k) for row, t in zip(hits.tolist(), n_targets.tolist(), strict=True)]
    np.testing.assert_allclose(values, expected, rtol=1e-14)
    assert ((values >= 0) & (values <= 1)).all()
    np.testing.assert_array_equal(values, metric(hits[:, :k], n_targets, k), "what follows rank k changes nothing")


@ALL
def test_a_perfect_list_scores_exactly_one(metric: Callable[..., Any]) -> None:
    for targets in range(1, 40):
        for k in range(1, 45):
            if metric is metrics.recall_all and k < targets:
                continue  # it cannot reach 1: k places do not hold all targets
            if metric is metrics.precision and k > targets:
                continue  # it cannot reach 1: there are fewer targets than places
            hits = np.arange(k)[None, :] < targets
            assert metric(hits, np.array([targets]), k).tolist() == [1.0]


@ALL
def test_a_list_without_hits_scores_zero(metric: Callable[..., Any]) -> None:
    assert metric(np.zeros((2, 5), np.bool_), np.array([1, 9]), 5).tolist() == [0.0, 0.0]
    assert metric(np.zeros((2, 0), np.bool_), np.array([1, 9]), 5).tolist() == [0.0, 0.0]


@ALL
def test_a_user_without_targets_has_no_value(metric: Callable[..., Any]) -> None:
    values = metric(np.array([[False, False], [True, False]]), np.array([0, 1]), 2)
    assert np.isnan(values[0])
    assert values[1] > 0


@pytest.mark.parametrize("metric", [metrics.recall_all, metrics.reciprocal_rank, metrics.hit])
@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_a_longer_list_never_lowers_what_is_found(metric: Callable[..., Any], case: Case) -> None:
    hits, n_targets, k = case
    assert (metric(hits, n_targets, k + 1) >= metric(hits, n_targets, k)).all()


@pytest.mark.parametrize("metric", [metrics.ndcg, metrics.average_precision, metrics.reciprocal_rank])
def test_a_hit_moved_up_raises_a_metric_that_looks_at_order(metric: Callable[..., Any]) -> None:
    ranked = np.eye(6, dtype=np.bool_)  # user u has one hit at rank u + 1
    assert (np.diff(metric(ranked, np.full(6, 3), 6)) < 0).all()


def test_hand_computed_values() -> None:
    hits = np.array([[True, False, True, False]])
    four = np.array([4])
    assert metrics.recall(hits, four, 3)[0] == pytest.approx(2 / 3)
    assert metrics.recall_all(hits, four, 3)[0] == pytest.approx(2 / 4)
    assert metrics.precision(hits, four, 4)[0] == pytest.approx(2 / 4)
    assert metrics.average_precision(hits, four, 3)[0] == pytest.approx((1 + 2 / 3) / 3)
    assert metrics.reciprocal_rank(hits[:, 1:], four, 3)[0] == pytest.approx(1 / 2)
    # 1/log2(2) = 1 and 1/log2(4) = 0.5; the best three places give 1 + 0.63093 + 0.5.
    assert metrics.ndcg(hits, four, 3)[0] == pytest.approx(1.5 / 2.1309297535714573)


def test_a_short_list_is_still_divided_by_k() -> None:
    assert metrics.precision(np.array([[True, True]]), np.array([2]), 10).tolist() == [0.2]


def test_an_absurd_k_needs_no_memory() -> None:
    assert metrics.ndcg(np.array([[True, False]]), np.array([1]), 10**9).tolist() == [1.0]


def test_coverage_counts_each_item_once_and_no_empty_place() -> None:
    lists = np.array([[0, 3, -1], [3, 1, 2]])
    assert metrics.recommended(lists, 8, 3).mean() == 4 / 8
    assert metrics.recommended(lists, 8, 1).mean() == 2 / 8
    assert metrics.recommended(np.full((2, 3), -1), 8, 3).mean() == 0.0


@given(lists=st.lists(st.lists(st.integers(-1, 9), min_size=4, max_size=4), min_size=1, max_size=8))
def test_coverage_equals_a_set_and_combines_over_batches(lists: list[list[int]]) -> None:
    indices = np.array(lists, dtype=np.int64)
    assert metrics.recommended(indices, 10, 3).mean() == len({i for row in lists for i in row[:3] if i >= 0}) / 10
    halves = metrics.recommended(indices[:1], 10, 3) | metrics.recommended(indices[1:], 10, 3)
    np.testing.assert_array_equal(halves, metrics.recommended(indices, 10, 3))


def test_novelty_by_hand() -> None:
    popularity = np.array([8.0, 4.0, 2.0, 2.0, 0.0])  # shares 1/2, 1/4, 1/8, 1/8: 1, 2, 3, 3 bits
    lists = np.array([[0, 1], [2, -1], [4, 0], [-1, -1]])
    np.testing.assert_allclose(metrics.novelty(lists, popularity, 2), [1.5, 3.0, (3 + 1) / 2, 0.0], rtol=1e-14)


@given(
    lists=st.lists(st.lists(st.integers(-1, 5), min_size=4, max_size=4), min_size=1, max_size=8),
    popularity=st.lists(st.integers(0, 50), min_size=6, max_size=6),
    k=st.integers(1, 6),
)
def test_novelty_equals_its_plain_python_twin(lists: list[list[int]], popularity: list[int], k: int) -> None:
    rarest = min([p for p in popularity if p], default=0)

    def bits(item: int) -> float:
        if rarest == 0:
            return math.log2(6)
        return -math.log2(max(popularity[item], rarest) / sum(popularity))

    expected = []
    for row in lists:
        surprise = [bits(item) for item in row[:k] if item >= 0]
        expected.append(sum(surprise) / len(surprise) if surprise else 0.0)
    values = metrics.novelty(np.array(lists, dtype=np.int64), np.array(popularity, dtype=np.float64), k)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


def test_novelty_does_not_depend_on_the_unit_of_popularity() -> None:
    popularity = np.array([0.0, 1.0, 5.0])
    lists = np.array([[0, 1], [2, 1]])
    np.testing.assert_allclose(
        metrics.novelty(lists, popularity, 2), metrics.novelty(lists, popularity * 0.01, 2), rtol=1e-12
    )


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 6), st.integers(0, 10**6))
def test_hits_are_the_places_whose_item_is_a_target(n: int, m: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rng.random((n, m)) < 0.5
    wanted[rng.integers(n), rng.integers(m)] = True
    indices = rng.integers(-1, m, (n, width))
    expected = [[place >= 0 and bool(wanted[u, place]) for place in indices[u].tolist()] for u in range(n)]
    found = metrics.find_hits(indices, sparse.csr_array(wanted))
    assert found.dtype == np.bool_
    assert found.tolist() == expected
