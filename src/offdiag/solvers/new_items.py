"""Weights of items that nobody has chosen yet, from the known items like them.

Problem   k = argmin |φ(f) − Σ_j k_j φ(f_j)|² + ridge·|k|² over the ``NEAREST`` known items j: k = (K + ridge)⁻¹ κ with
          the kernel K_ij = (f_i·f_j)^power and κ_j = (f·f_j)^power. The column of the new item is W k + direct·k: what
          predicts the items that it is like, and these items themselves.
Cost      one sparse product of features, and a system of ``NEAREST`` unknowns for each new item.
Equals    with power 1 and all items as neighbours, ridge regression of the columns of W on the features, at f.

Columns of popular items are long, whatever their features. So directions and lengths are predicted apart: columns enter
the mixture divided by length^½, and the mixture is multiplied by the predicted length^½, from the same k.

Power, ridge and direct are those that suit known items best: some are held out and treated as new. No user is
needed for that: what is compared are scores for histories that follow from the weights (``audiences``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.solvers import Doubles, Floats, Ints, blas

NEAREST = 100  # known items that a new one may be like
AT_ONCE = 256  # new items, compared with all known ones
HELD_OUT = 256  # known items treated as new
POWERS, RIDGES, DIRECT = (1, 2, 4), (0.1, 0.5, 2.0), (0.0, 2.0, 4.0, 8.0)  # tried on held-out items
FANS = 30  # items of a history that leads to a held-out one
EVEN = 0.5  # the power of length that is predicted apart


@dataclass(frozen=True)
class Choice:
    """How new items follow from their features, as chosen on held-out known items."""

    power: int = 1
    ridge: float = 0.5
    direct: float = 0.0  # weight of the items that a new one is like, in a history, in the unit of W
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


def place(F: sparse.csr_array, f: sparse.csr_array, sample: Sample) -> Placement:
    """The mixtures of new items with the features f (new × features), from the known ones, F."""
    F, f = _used_features(F, f)
    length = _lengths(sample.scores)
    choice = choose(F, sample, length)
    like = neighbours(F, f).mixture(choice.power, choice.ridge)
    return Placement(with_lengths(like, length), like * choice.direct, like, choice)


def choose(F: sparse.csr_array, sample: Sample, length: Doubles) -> Choice:
    """What predicts the scores of held-out items best from their features."""
    held, S, X = sample.held, sample.scores, sample.histories
    own = S[:, held]
    if not len(held) or not own.any():
        return Choice()
    near = neighbours(F, sparse.csr_array(F[held]), without=held)
    best = Choice()
    for power, ridge in product(POWERS, RIDGES):
        like = near.mixture(power, ridge)
        mixed, direct = (with_lengths(like, length) @ S.T).T, (like @ X.T).T.toarray() * sample.unit
        for weight in DIRECT:
            found = mixed + weight * direct
            size = float(np.sqrt((found * found).sum() * (own * own).sum()))
            agreement = float((found * own).sum()) / size if size else 0.0
            if best.agreement is None or agreement > best.agreement:
                best = Choice(power, ridge, weight * sample.unit, agreement)
    return best


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


def _used_features(F: sparse.csr_array, f: sparse.csr_array) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Without features that no known item has: of a million hashed ones, few are used."""
    used = np.flatnonzero(np.bincount(F.indices, minlength=F.shape[1]))
    if len(used) == F.shape[1]:
        return F, f
    return sparse.csr_array(F[:, used]), sparse.csr_array(f[:, used])
