"""Weights of items that nobody has chosen yet, from the known items like them.

Problem   k = argmin |φ(f) − Σ_j k_j φ(f_j)|² + ridge·|k|² over the ``NEAREST`` known items j: k = (K + ridge)⁻¹ κ with
          the kernel K_ij = (f_i·f_j)^power and κ_j = (f·f_j)^power. The column of the new item is W k + direct·k: what
          predicts the items that it is like, and these items themselves.
Cost      one sparse product of features, and a system of ``NEAREST`` unknowns for each new item.
Equals    with power 1 and all items as neighbours, ridge regression of the columns of W on the features, at f.

Columns of popular items are long, whatever their features. So directions and lengths are predicted apart: columns enter
the mixture divided by length^½, and the mixture is multiplied by the predicted length^½: from the same k, or from all
items (``new_sizes``), or half from each.

Power, ridge, direct, that share and what each kind of feature counts for (K = Σ weight·K_kind) are those that suit
known items best: some are held out and treated as new. No user is needed for that: what is compared are scores for
random histories of popular items. From the scores of each history their mean is taken off, since only their order
matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.solvers import Doubles, Ints, blas, new_sizes

NEAREST = 100  # known items that a new one may be like
AT_ONCE = 64  # new items that a thread compares with all known ones
DENSE = 0.1  # share of features above 0 from which dense products are faster
HELD_OUT = 256  # known items treated as new
POWERS, RIDGES, DIRECT = (1, 2, 4), (0.1, 0.5, 2.0), (0.0, 2.0, 4.0, 8.0)  # tried on held-out items
SIZED = (0.0, 0.5, 1.0)  # share of the size that is predicted from all items
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
    sized: float = 0.0  # share of the size that is predicted from all items


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
        from offdiag._kernels import nearest_items

        k = np.empty_like(self.products)
        run = (self.grams, self.products, power, ridge)
        tasks = parallel.ranges(len(k), 4 * parallel.n_threads())
        parallel.run_parallel(nearest_items.solve, [(*run, first, last, k) for first, last in tasks])
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
    log = np.log(length)
    predicted = _predicted(like, log)
    if choice.sized:
        predicted += choice.sized * (log.mean() + new_sizes.fit(F, kinds, log).of(f, kinds) - predicted)
    return Placement(with_lengths(like, length, predicted), like * choice.direct, like, choice)


def choose(F: sparse.csr_array, sample: Sample, length: Doubles, kinds: Ints) -> Choice:
    """What predicts the scores of held-out items best from their features."""
    n = int(kinds.max(initial=0)) + 1
    trial = _Trial(F, sample, length, kinds)
    if not len(sample.held) or not trial.own.any():
        return Choice(kinds=(1.0,) * n)
    grid = list(product(POWERS, RIDGES))
    best = trial.best((1.0,) * n, grid)
    left = TRIALS if n > 1 else 0
    for _ in range(ROUNDS):
        before = best
        for kind, step in product(range(n), (1 / STEP, STEP)):
            taken = True
            while taken and left:
                left -= 1
                weights = tuple(w * step if one == kind else w for one, w in enumerate(best.kinds))
                found = trial.best(weights, [(best.power, best.ridge)])
                if taken := found.agreement > best.agreement + GAIN:
                    best = found
        if best.kinds == before.kinds:
            break
        best = trial.best(best.kinds, grid)
    return best


class _Trial:
    """Held-out items as if they were new: how well settings predict their scores."""

    def __init__(self, F: sparse.csr_array, sample: Sample, length: Doubles, kinds: Ints) -> None:
        self.F, self.sample, self.length, self.kinds, self.log = F, sample, length, kinds, np.log(length)
        self.own = _centred(sample.scores[:, sample.held].T)  # (held, h)
        self.by_item = np.ascontiguousarray(sample.scores.T, dtype=np.float32)  # sparse products would copy it
        others = np.delete(np.arange(F.shape[0]), sample.held)
        known = new_sizes.fit(sparse.csr_array(F[others]), kinds, self.log[others])
        self.sizes = self.log.mean() + known.of(sparse.csr_array(F[sample.held]), kinds)

    def best(self, weights: tuple[float, ...], grid: list[tuple[int, float]]) -> Choice:
        """The best settings of a grid of powers and ridges, with these weights of kinds."""
        held = self.sample.held
        F = _scaled(self.F, _shares(self.F, weights, self.kinds))
        near = neighbours(F, sparse.csr_array(F[held]), without=held)
        best = Choice(kinds=weights)
        for power, ridge in grid:
            like = near.mixture(power, ridge)
            predicted = _predicted(like, self.log)
            mixed = with_lengths(like, self.length, predicted).astype(np.float32) @ self.by_item
            direct = _centred((like @ self.sample.histories.T).toarray() * self.sample.unit)
            for sized in SIZED:
                scores = _centred(mixed * np.exp(EVEN * sized * (self.sizes - predicted))[:, None])
                agreements = self._agreements(scores, direct)
                # Direct says little of random histories, and more of those who chose an item because it is like others.
                last = int(np.flatnonzero(agreements >= agreements.max() - GAIN)[-1])
                if agreements[last] > best.agreement:
                    found = float(agreements[last])
                    best = Choice(power, ridge, DIRECT[last] * self.sample.unit, found, weights, sized)
        return best

    def _agreements(self, scores: Doubles, direct: Doubles) -> Doubles:
        """The correlation of scores + w·direct with the items' own scores, for each w of DIRECT."""
        own, w = self.own, np.array(DIRECT)
        common = _inner(scores, own) + w * _inner(direct, own)
        squares = _inner(scores, scores) + 2 * w * _inner(scores, direct) + w * w * _inner(direct, direct)
        size = np.sqrt(np.maximum(squares, 0) * _inner(own, own))
        found: Doubles = np.divide(common, size, out=np.zeros(len(w)), where=size > 0)
        return found


def neighbours(F: sparse.csr_array, f: sparse.csr_array, without: Ints | None = None) -> Neighbours:
    """The nearest of the known items; those in ``without`` are not among them."""
    from offdiag._kernels import feature_grams, nearest_items

    n, m = f.shape[0], F.shape[0]
    nearest = min(NEAREST, m)
    sets, products = np.empty((n, nearest), dtype=np.int64), np.empty((n, nearest))
    full = F.toarray() if F.nnz > DENSE * F.shape[0] * F.shape[1] else None
    by_feature = F.tocsc()

    def compare(first: int, last: int) -> None:
        if full is not None:
            similar = f[first:last].toarray() @ full.T
        else:
            similar = np.empty((last - first, m))
            columns = by_feature.indptr, by_feature.indices, by_feature.data
            nearest_items.similar(f.indptr, f.indices, f.data, *columns, first, last, similar)
        if without is not None:
            similar[:, without] = 0
        nearest_items.largest(similar, sets[first:last], products[first:last])

    if nearest:
        with blas.one_thread():
            parallel.run_parallel(compare, parallel.ranges(n, -(-n // AT_ONCE)))
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
    return Neighbours(sets, products, grams, m)


def with_lengths(like: sparse.csr_array, length: Doubles, predicted: Doubles) -> sparse.csr_array:
    """The mixture with lengths predicted apart, as logarithms."""
    found = like.copy()
    found.data = found.data * length[found.indices] ** -EVEN
    found.data *= np.repeat(np.exp(EVEN * predicted), np.diff(found.indptr))
    return found


def _predicted(like: sparse.csr_array, log: Doubles) -> Doubles:
    """The logarithms of lengths by the same mixture, around their mean."""
    mean = log.mean() if len(log) else 0.0
    found: Doubles = mean + like @ (log - mean)
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


def _centred(S: Doubles) -> Doubles:
    """Scores (items × histories) less the mean of each history."""
    return np.ascontiguousarray(S - S.sum(axis=0) / max(len(S), 1))


def _inner(A: Doubles, B: Doubles) -> float:
    return float(np.einsum("ij,ij->", A, B))  # BLAS would start threads for each, which cost more than the sum


def _lengths(S: Doubles) -> Doubles:
    """The usual size of each item's scores; those of hardly any are raised to the hundredth part of all."""
    length: Doubles = np.sqrt(np.einsum("ij,ij->j", S, S) / max(len(S), 1))
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
