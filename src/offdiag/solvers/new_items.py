"""Weights of items that nobody has chosen yet, from the known items like them.

Problem   k = argmin |φ(f) − Σ_j k_j φ(f_j)|² + ridge·|k|² over the ``NEAREST`` known items j: k = (K + ridge)⁻¹ κ with
          the kernel K_ij = (f_i·f_j)^power and κ_j = (f·f_j)^power. The column of the new item is W k + direct·k: what
          predicts the items that it is like, and these items themselves.
Cost      one sparse product of features, and a system of ``NEAREST`` unknowns for each new item.
Equals    with power 1 and all items as neighbours, ridge regression of the columns of W on the features, at f.

Columns of popular items are long, whatever their features. So directions and lengths are predicted apart: columns enter
the mixture divided by length^½, and the mixture is multiplied by the predicted length^½, from the same k.

Power, ridge, direct and what each kind of feature counts for (K = Σ weight·K_kind) are those that suit known items
best: some are held out and treated as new. No user is needed for that: what is compared are scores for random histories
of popular items. From the scores of each history their mean is taken off, since only their order matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, product

import numpy as np
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.solvers import Doubles, Ints, blas

NEAREST = 100  # known items that a new one may be like
AT_ONCE = 64  # new items that a thread compares with all known ones
DENSE = 0.1  # share of features above 0 from which dense products are faster
HELD_OUT = 256  # known items treated as new
POWERS, RIDGES, DIRECT = (1, 2, 4), (0.1, 0.5, 2.0), (0.0, 2.0, 4.0, 8.0)  # tried on held-out items
STEP, ROUNDS, TRIALS = 3.0, 3, 40  # the weight of a kind grows or shrinks by the step, in rounds over all kinds
GAIN = 1e-3  # of the agreement, for a step to be taken
HISTORIES, LONG = 512, 20  # random histories, and their items
EVEN = 0.5  # the power of length that is predicted apart


@dataclass(frozen=True)
class Choice:
    """How new items follow from their features, as chosen on held-out known items."""

    power: int = 1
    ridge: float = 0.5
    direct: float = 0.0  # weight of the items that a new one is like, in a history, in the unit of W
    agreement: float = -1.0  # correlation of predicted scores with those of the known items
    kinds: tuple[float, ...] = (1.0,)  # what each kind of feature counts for


@dataclass(frozen=True, eq=False)
class Sample:
    """Known items to treat as new, and scores of all known items for some histories."""

    held: Ints
    histories: sparse.csr_array  # (h, known): ``typical_histories``
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
        H = _raised(self.grams, power)
        at = np.arange(H.shape[1])
        H[:, at, at] += ridge
        kappa, k = _raised(self.products, power)[:, :, None], np.empty_like(self.products)

        def solve(first: int, last: int) -> None:
            k[first:last] = np.linalg.solve(H[first:last], kappa[first:last])[:, :, 0]

        with blas.one_thread():  # its threads would wait for each other in systems as small as these
            parallel.run_parallel(solve, parallel.ranges(len(k), parallel.n_threads()))
        row, place = np.nonzero(self.sets >= 0)
        return sparse.csr_array((k[row, place], (row, self.sets[row, place])), shape=(len(k), self.known))


def place(F: sparse.csr_array, f: sparse.csr_array, sample: Sample, kinds: Ints | None = None) -> Placement:
    """The mixtures of new items with the features f (new × features), from the known ones, F.

    ``kinds`` is the kind of each feature, from 0; without it they are all of one kind.
    """
    F, f, kinds = _used_features(F, f, np.zeros(F.shape[1], dtype=np.int64) if kinds is None else kinds)
    length = _lengths(sample.scores)
    choice = choose(F, sample, length, kinds)
    share = _shares(F, choice.kinds, kinds)
    like = neighbours(_scaled(F, share), _scaled(f, share)).mixture(choice.power, choice.ridge)
    return Placement(with_lengths(like, length), like * choice.direct, like, choice)


def choose(F: sparse.csr_array, sample: Sample, length: Doubles, kinds: Ints) -> Choice:
    """What predicts the scores of held-out items best from their features."""
    n = int(kinds.max(initial=0)) + 1
    trial = _Trial(F, sample, length, kinds)
    if not len(sample.held) or not trial.own.any():
        return Choice(kinds=(1.0,) * n)
    grid = [(power, ridge, direct) for power, ridge in product(POWERS, RIDGES) for direct in DIRECT]
    best = trial.best((1.0,) * n, grid)
    left = TRIALS if n > 1 else 0
    for _ in range(ROUNDS):
        before = best
        for kind, step in product(range(n), (1 / STEP, STEP)):
            taken = True
            while taken and left:
                left -= 1
                weights = tuple(w * step if one == kind else w for one, w in enumerate(best.kinds))
                found = trial.best(weights, [(best.power, best.ridge, best.direct / sample.unit)])
                if taken := found.agreement > best.agreement + GAIN:
                    best = found
        if best.kinds == before.kinds:
            break
        best = trial.best(best.kinds, grid)
    return best


class _Trial:
    """Held-out items as if they were new: how well settings predict their scores."""

    def __init__(self, F: sparse.csr_array, sample: Sample, length: Doubles, kinds: Ints) -> None:
        self.F, self.sample, self.length, self.kinds = F, sample, length, kinds
        self.own = _centred(sample.scores[:, sample.held].T)  # (held, h)
        self.by_item = np.ascontiguousarray(sample.scores.T, dtype=np.float32)  # sparse products would copy it

    def best(self, weights: tuple[float, ...], grid: list[tuple[int, float, float]]) -> Choice:
        """The best settings of a grid of powers, ridges and weights of direct, with these weights of kinds."""
        held, unit, own = self.sample.held, self.sample.unit, self.own
        F = _scaled(self.F, _shares(self.F, weights, self.kinds))
        near = neighbours(F, sparse.csr_array(F[held]), without=held)
        best = Choice(kinds=weights)
        for (power, ridge), group in groupby(grid, key=lambda one: one[:2]):
            like = near.mixture(power, ridge)
            mixed = with_lengths(like, self.length).astype(np.float32) @ self.by_item
            direct = (like @ self.sample.histories.T).toarray() * unit
            for _, _, weight in group:
                found = _centred(mixed + weight * direct)
                size = float(np.sqrt((found * found).sum() * (own * own).sum()))
                agreement = float((found * own).sum()) / size if size else 0.0
                if agreement > best.agreement:
                    best = Choice(power, ridge, weight * unit, agreement, weights)
        return best


def neighbours(F: sparse.csr_array, f: sparse.csr_array, without: Ints | None = None) -> Neighbours:
    """The nearest of the known items; those in ``without`` are not among them."""
    from offdiag._kernels import feature_grams

    n, m = f.shape[0], F.shape[0]
    nearest = min(NEAREST, m)
    sets, products = np.empty((n, nearest), dtype=np.int64), np.empty((n, nearest))
    full = F.toarray() if F.nnz > DENSE * F.shape[0] * F.shape[1] else None
    by_feature = sparse.csr_array(F.T)

    def compare(first: int, last: int) -> None:
        part = f[first:last]
        similar = part.toarray() @ full.T if full is not None else (part @ by_feature).toarray()
        if without is not None:
            similar[:, without] = 0
        sets[first:last] = np.sort(np.argpartition(-similar, nearest - 1, axis=1)[:, :nearest], axis=1)
        products[first:last] = np.take_along_axis(similar, sets[first:last], axis=1)

    if nearest:
        with blas.one_thread():
            parallel.run_parallel(compare, parallel.ranges(n, -(-n // AT_ONCE)))
    sets[products <= 0] = -1
    grams = np.empty((n, nearest, nearest))
    tasks = parallel.ranges(n, 4 * parallel.n_threads())

    def multiply(first: int, last: int) -> None:
        if full is None:
            feature_grams.grams(F.indptr, F.indices, F.data, F.shape[1], sets, first, last, grams)
            return
        for one in range(first, last):
            near = np.where(sets[one, :, None] >= 0, full[sets[one]], 0.0)
            np.matmul(near, near.T, out=grams[one])

    with blas.one_thread():
        parallel.run_parallel(multiply, tasks)
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


def typical_histories(
    popularity: Doubles, held: Ints, n: int = HISTORIES, items: int = LONG, seed: int = 0
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


def _raised(A: Doubles, power: int) -> Doubles:
    """A copy of A to a power of two, entry by entry; NumPy's own takes ten times as long at 4."""
    out = A.copy()
    for _ in range(power.bit_length() - 1):
        out *= out
    return out


def _centred(S: Doubles) -> Doubles:
    """Scores (items × histories) less the mean of each history."""
    return np.ascontiguousarray(S - S.sum(axis=0) / max(len(S), 1))


def _lengths(S: Doubles) -> Doubles:
    """The usual size of each item's scores; those of hardly any are raised to the hundredth part of all."""
    length: Doubles = np.sqrt(np.mean(S * S, axis=0))
    positive = length[length > 0]
    return np.maximum(length, np.quantile(positive, 0.01)) if len(positive) else np.ones_like(length)


def _used_features(
    F: sparse.csr_array, f: sparse.csr_array, kinds: Ints
) -> tuple[sparse.csr_array, sparse.csr_array, Ints]:
    """Without features that no known item has: of a million hashed ones, few are used."""
    used = np.flatnonzero(np.bincount(F.indices, minlength=F.shape[1]))
    if len(used) == F.shape[1]:
        return F, f, kinds
    return sparse.csr_array(F[:, used]), sparse.csr_array(f[:, used]), kinds[used]


def _shares(F: sparse.csr_array, weights: tuple[float, ...], kinds: Ints) -> Doubles:
    """What each feature is multiplied with, so that its kind has this weight in K and rows their length on average."""
    share: Doubles = np.sqrt(np.array(weights))[kinds]
    weighted = float(np.square(F.data * share[F.indices]).sum())
    return share * np.sqrt(float(np.square(F.data).sum()) / weighted) if weighted > 0 else share


def _scaled(F: sparse.csr_array, share: Doubles) -> sparse.csr_array:
    return sparse.csr_array((F.data * share[F.indices], F.indices, F.indptr), shape=F.shape)
