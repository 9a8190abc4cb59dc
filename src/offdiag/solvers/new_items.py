"""Weights of items that nobody has chosen yet, from the known items like them.

Problem   k = argmin |φ(f) − Σ_j k_j φ(f_j)|² + ridge·|k|² over the ``NEAREST`` known items j: k = (K + ridge)⁻¹ κ with
          the kernel K_ij = (f_i·f_j)^power and κ_j = (f·f_j)^power. The column of the new item is W k + direct·k: what
          predicts the items that it is like, and these items themselves.
Cost      one sparse product of features, and a system of ``NEAREST`` unknowns for each new item.
Equals    with power 1 and all items as neighbours, ridge regression of the columns of W on the features, at f.

Columns of popular items are long, whatever their features. So directions and lengths are predicted apart: columns enter
the mixture divided by length^½, and the mixture is multiplied by the predicted length^½, from the same k. Among a
hundred neighbours that prediction is weak, and who is well described is popular. So a second one, a ridge regression of
the logarithms on the features of all items and on how much is known of each, replaces a part of it (``Choice.size``).

Power, ridge, direct, amount and size are those that suit known items best: some are held out and treated as new. No
user is needed for that: what is compared are scores for histories that follow from the weights (``audiences``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.solvers import Doubles, Floats, Ints, blas

NEAREST = 100  # known items that a new one may be like
AT_ONCE = 256  # new items, compared with all known ones
HELD_OUT = 256  # known items treated as new
POWERS, RIDGES, DIRECT = (1, 2, 4, 8), (0.1, 0.5, 2.0), (0.0, 2.0, 4.0, 8.0)  # tried on held-out items
AMOUNTS, SIZES = (0.0, 0.25), (0.0, 0.3, 0.6, 1.0)  # the same
SIZE_RIDGES = (0.1, 0.3, 1.0, 3.0)  # of the regression of sizes
STEPS = 50  # of its solution
FANS = 30  # items of a history that leads to a held-out one
EVEN = 0.5  # the power of length that is predicted apart


@dataclass(frozen=True)
class Choice:
    """How new items follow from their features, as chosen on held-out known items."""

    power: int = 1
    ridge: float = 0.5
    direct: float = 0.0  # weight of the items that a new one is like, in a history, in the unit of W
    amount: float = 0.0  # share of the kernel that compares how much is known about items
    size: float = 0.0  # share of the regression in the logarithm of the size of scores
    agreement: float | None = None  # correlation of predicted scores with those of the known items


@dataclass(frozen=True, eq=False)
class Sample:
    """Known items to treat as new, and scores of all known items for some histories."""

    held: Ints
    histories: sparse.csr_array  # (h, known): ``audiences`` of the held-out items, then typical ones
    scores: Doubles  # (h, known)
    unit: float  # a large weight of W


@dataclass(frozen=True, eq=False)
class Placement:
    """New items among the known ones: W K'ᵀ + Dᵀ are their columns."""

    columns: sparse.csr_array  # K' (new × known)
    direct: sparse.csr_array  # D (new × known)
    like: sparse.csr_array  # K, what each is like
    choice: Choice


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest known items of some items: all that the mixtures need."""

    sets: Ints  # (n, NEAREST), −1: none
    products: Doubles  # (n, NEAREST) with the item
    grams: Doubles  # (n, NEAREST, NEAREST) among each other
    known: int

    def mixture(self, power: int, ridge: float) -> sparse.csr_array:
        """k of each item, by rows."""
        H = self.grams**power
        at = np.arange(H.shape[1])
        H[:, at, at] += ridge
        kappa, k = (self.products**power)[:, :, None], np.empty_like(self.products)

        def solve(first: int, last: int) -> None:
            k[first:last] = np.linalg.solve(H[first:last], kappa[first:last])[:, :, 0]

        with blas.one_thread():  # its threads would wait for each other in systems as small as these
            parallel.run_parallel(solve, parallel.ranges(len(k), parallel.n_threads()))
        row, place = np.nonzero(self.sets >= 0)
        return sparse.csr_array((k[row, place], (row, self.sets[row, place])), shape=(len(k), self.known))


def place(
    F: sparse.csr_array, f: sparse.csr_array, sample: Sample, amounts: tuple[sparse.csr_array, sparse.csr_array]
) -> Placement:
    """The mixtures of new items with the features f (new × features), from the known ones, F.

    ``amounts`` are features of how much is known about the known and the new items.
    """
    F, f = _used_features(F, f)
    A, a = amounts
    length = _lengths(sample.scores)
    sizes = Sizes.learn(join(F, A, 0.5), np.log(length), sample.held)
    choice, level = choose(F, A, sample, length, sizes)
    like = neighbours(join(F, A, choice.amount), join(f, a, choice.amount)).mixture(choice.power, choice.ridge)
    like = _without_rows(like, np.diff(f.indptr) == 0)  # how much is known says nothing alone
    columns, direct = with_lengths(like, length), like * choice.direct
    if choice.size:
        scores = columns @ sample.scores.T + (direct @ sample.histories.T).toarray()
        factor = np.exp(
            choice.size * (sizes.predict(join(f, a, 0.5)) - _log_sizes(scores, float(length.min())) - level)
        )
        columns, direct = (_times(rows, factor) for rows in (columns, direct))
    return Placement(columns, direct, like, choice)


def choose(
    F: sparse.csr_array, A: sparse.csr_array, sample: Sample, length: Doubles, sizes: Sizes
) -> tuple[Choice, float]:
    """What predicts the scores of held-out items best from their features, and the mean change of size there.

    That mean is taken out: sizes are redistributed among new items, and compared with known ones they stay as they are.
    """
    held, S, X = sample.held, sample.scores, sample.histories
    by_item = np.ascontiguousarray(S.T)  # or every product would copy it
    own = by_item[held]
    best, level = Choice(), 0.0
    if not len(held) or not own.any():
        return best, level
    norm, smallest = float(np.sqrt((own * own).sum())), float(length.min())
    near: dict[float, Neighbours] = {}

    def attempt(one: Choice) -> Iterator[tuple[Choice, float]]:
        """All values of direct and size, from sums over the histories."""
        if one.amount not in near:
            joined = join(F, A, one.amount)
            near[one.amount] = neighbours(joined, sparse.csr_array(joined[held]), without=held)
        like = near[one.amount].mixture(one.power, one.ridge)
        mixed, direct = with_lengths(like, length) @ by_item, (like @ X.T).toarray() * sample.unit
        pairs = (mixed, mixed), (mixed, direct), (direct, direct), (mixed, own), (direct, own)
        mm, md, dd, mo, do = (np.einsum("ij,ij->i", *pair) for pair in pairs)
        for weight in DIRECT:
            both, squares = mo + weight * do, np.maximum(mm + 2 * weight * md + weight**2 * dd, 0)
            growth = sizes.predict_held - np.log(np.maximum(np.sqrt(squares / own.shape[1]), smallest))
            mean = float(growth.mean())
            for size in SIZES:
                factor = np.exp(size * (growth - mean))
                total = float(np.sqrt(factor**2 @ squares)) * norm
                agreement = float(factor @ both) / total if total else 0.0
                yield Choice(one.power, one.ridge, weight * sample.unit, one.amount, size, agreement), mean

    tried: dict[str, tuple[float, ...]] = {"power": POWERS, "ridge": RIDGES, "amount": AMOUNTS if A.nnz else ()}
    best, level = max(attempt(best), key=_agreement)
    for name in (*tried, *tried):  # one after another, twice, each with every direct and size
        start = best
        for value in tried[name]:
            if value != getattr(start, name):
                change: dict[str, Any] = {name: value}
                best, level = max(((best, level), *attempt(replace(start, **change))), key=_agreement)
    return best, level


def _agreement(found: tuple[Choice, float]) -> float:
    return found[0].agreement or 0.0


@dataclass(frozen=True, eq=False)
class Sizes:
    """The logarithm of the size of an item's scores, by ridge regression on features."""

    mean: float
    slopes: Doubles
    predict_held: Doubles  # of held-out items, learned without them

    @classmethod
    def learn(cls, E: sparse.csr_array, log: Doubles, held: Ints) -> Sizes:
        """The ridge is the one that predicts the held-out items best."""
        rest = np.setdiff1d(np.arange(len(log)), held)
        if not len(held):
            return cls(0.0, np.zeros(E.shape[1]), np.empty(0))
        best: tuple[float, float, Doubles] | None = None
        for ridge in SIZE_RIDGES:
            mean, slopes = regression(sparse.csr_array(E[rest]), log[rest], ridge)
            found = mean + E[held] @ slopes
            error = float(np.sum((found - log[held]) ** 2))
            if best is None or error < best[0]:
                best = error, ridge, found
        assert best is not None
        return cls(*regression(E, log, best[1]), best[2])

    def predict(self, e: sparse.csr_array) -> Doubles:
        """Of items with these features."""
        found: Doubles = self.mean + e @ self.slopes
        return found


def regression(E: sparse.csr_array, y: Doubles, ridge: float) -> tuple[float, Doubles]:
    """The mean of y and argmin_b |y − mean − E b|² + ridge·|b|²."""
    from scipy.sparse.linalg import lsqr

    mean = float(y.mean())
    return mean, lsqr(E, y - mean, damp=ridge**0.5, atol=1e-5, btol=1e-5, iter_lim=STEPS)[0]


def join(F: sparse.csr_array, A: sparse.csr_array, share: float) -> sparse.csr_array:
    """Features of which products are those of F and of A, in these shares."""
    if not share or not A.shape[1]:
        return F
    return sparse.csr_array(sparse.hstack([F * (1 - share) ** 0.5, A * share**0.5], format="csr"))


def neighbours(F: sparse.csr_array, f: sparse.csr_array, without: Ints | None = None) -> Neighbours:
    """The nearest of the known items; those in ``without`` are not among them."""
    from offdiag._kernels import feature_grams

    n, m = f.shape[0], F.shape[0]
    nearest = min(NEAREST, m)
    sets, products = np.empty((n, nearest), dtype=np.int64), np.empty((n, nearest))
    for lo in range(0, n, AT_ONCE):
        part = slice(lo, min(lo + AT_ONCE, n))
        similar = (f[part] @ F.T).toarray()
        if without is not None:
            similar[:, without] = 0
        sets[part] = np.sort(np.argpartition(-similar, nearest - 1, axis=1)[:, :nearest], axis=1) if nearest else 0
        products[part] = np.take_along_axis(similar, sets[part], axis=1)
    sets[products <= 0] = -1
    grams = np.empty((n, nearest, nearest))
    run = (F.indptr, F.indices, F.data, F.shape[1], sets)
    tasks = parallel.ranges(n, 4 * parallel.n_threads())
    parallel.run_parallel(feature_grams.grams, [(*run, first, last, grams) for first, last in tasks])
    return Neighbours(sets, np.where(sets >= 0, products, 0.0), grams, m)


def with_lengths(like: sparse.csr_array, length: Doubles) -> sparse.csr_array:
    """The mixture with lengths predicted apart: their logarithm, by the same mixture around its mean."""
    log = np.log(length)
    predicted = log.mean() + like @ (log - log.mean())
    found = like.copy()
    found.data = found.data * length[found.indices] ** -EVEN
    found.data *= np.repeat(np.exp(EVEN * predicted), np.diff(found.indptr))
    return found


def strongest(like: sparse.csr_array, n: int) -> sparse.csr_array:
    """Only the n largest entries of each row."""
    row = np.repeat(np.arange(like.shape[0]), np.diff(like.indptr))
    order = np.lexsort((-np.abs(like.data), row))
    rank = np.arange(len(row)) - like.indptr[row]  # rows stay together
    kept = np.sort(order[(rank < n) & (like.data[order] != 0)])
    return sparse.csr_array((like.data[kept], (row[kept], like.indices[kept])), shape=like.shape)


def held_out(F: sparse.csr_array, popularity: Doubles, seed: int = 0) -> Ints:
    """Known items to treat as new: at most a quarter of those with features, the popular ones more often."""
    known = np.flatnonzero((np.diff(F.indptr) > 0) & (popularity > 0))
    n = min(HELD_OUT, len(known) // 4)
    share = np.sqrt(popularity[known])
    drawn = np.random.default_rng(seed).choice(known, n, replace=False, p=share / share.sum()) if n else known[:0]
    return np.sort(drawn)


def audiences(columns: Floats, popularity: Doubles, held: Ints) -> sparse.csr_array:
    """For each held-out item, whose column of W is a row here, a history of the items that lead to it most often."""
    strength = columns * np.sqrt(popularity)
    strength[:, held] = 0
    n = min(FANS, strength.shape[1])
    fans = np.argpartition(-strength, n - 1, axis=1)[:, :n] if n else np.empty((len(held), 0), dtype=np.int64)
    X = sparse.csr_array(
        (np.ones(fans.size, dtype=np.float32), fans.ravel(), np.arange(len(held) + 1) * n), shape=strength.shape
    )
    X.sort_indices()
    return X


def typical_histories(
    popularity: Doubles, held: Ints, n: int = 256, items: int = 20, seed: int = 0
) -> sparse.csr_array:
    """Random histories of popular items, without those held out."""
    share = popularity.astype(np.float64).copy()
    share[held] = 0
    total = share.sum()
    m = len(share)
    share = share / total if total > 0 else np.full(m, 1 / max(m, 1))
    drawn = np.random.default_rng(seed).choice(m, size=(n, items), p=share)
    X = sparse.csr_array((np.ones(drawn.size, dtype=np.float32), drawn.ravel(), np.arange(n + 1) * items), shape=(n, m))
    X.sum_duplicates()
    X.data[:] = 1
    return X


def _lengths(S: Doubles) -> Doubles:
    """The usual size of each item's scores; those of hardly any are raised to the hundredth part of all."""
    length: Doubles = np.sqrt(np.mean(S * S, axis=0))
    positive = length[length > 0]
    return np.maximum(length, np.quantile(positive, 0.01)) if len(positive) else np.ones_like(length)


def _log_sizes(scores: Doubles, smallest: float) -> Doubles:
    """The logarithm of the usual size of each row's scores, at least the smallest of known items."""
    found: Doubles = np.log(np.maximum(np.sqrt(np.mean(scores * scores, axis=1)), smallest))
    return found


def _times(rows: sparse.csr_array, factor: Doubles) -> sparse.csr_array:
    found = rows.copy()
    found.data = found.data * np.repeat(factor, np.diff(found.indptr))
    return found


def _without_rows(rows: sparse.csr_array, gone: NDArray[np.bool_]) -> sparse.csr_array:
    if not gone.any():
        return rows
    found = _times(rows, np.where(gone, 0.0, 1.0))
    found.eliminate_zeros()
    return found


def _used_features(F: sparse.csr_array, f: sparse.csr_array) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Without features that no known item has: of a million hashed ones, few are used."""
    used = np.flatnonzero(np.bincount(F.indices, minlength=F.shape[1]))
    if len(used) == F.shape[1]:
        return F, f
    return sparse.csr_array(F[:, used]), sparse.csr_array(f[:, used])
