"""Weights of items that nobody has chosen yet, from the known items like them.

Problem   k = argmin |f − Fᵀk|² + ridge·|k|² for the features f of a new item and those of the known ones, F (items ×
          features): k = (F Fᵀ + ridge)⁻¹ F f = F (FᵀF + ridge)⁻¹ f. Its column of W is a mixture of theirs, W k.
Cost      the smaller of two systems, features × features or items × items, if small enough; otherwise, for each
          new item, a system of its ``NEAREST`` most similar known items.
Equals    ridge regression of the columns of W on the features (kernel ridge regression), evaluated at f.

Columns of popular items are long, whatever their features. So directions and lengths are predicted apart: columns enter
the mixture divided by length^½, and the mixture is multiplied by the predicted length^½, from the same k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from offdiag._kernels import parallel
from offdiag.solvers import Doubles, Floats, Ints

FEATURES, ITEMS = 1_024, 4_096  # up to so many, the system of features or of items is solved as a whole
ENTRIES = 2_000_000  # of F, up to which the system of features is used: a product with W costs so many times m
NEAREST = 100  # known items that a new one may be like, where neither is small
AT_ONCE = 256  # new items, compared with all known ones
RIDGES = (0.1, 0.3, 1.0, 3.0)  # tried on held-out known items; rows of F have length 1
HELD_OUT = 256  # known items treated as new
EVEN = 0.5  # the power of length that is predicted apart


@dataclass(frozen=True, eq=False)
class Mixture:
    """K (new × known): how much of each known item a new one is made of. K = A R, or R if A is None."""

    R: sparse.csr_array  # (r, known)
    A: Doubles | None  # (new, r)

    def __matmul__(self, Y: Doubles) -> Doubles:
        found = self.R @ Y
        return np.asarray(found if self.A is None else self.A @ found)

    def scaled(self, rows: Doubles, columns: Doubles) -> Mixture:
        """diag(rows) K diag(columns)."""
        R = self.R.copy()
        R.data = R.data * columns[R.indices]
        if self.A is not None:
            return Mixture(R, self.A * rows[:, None])
        R.data *= np.repeat(rows, np.diff(R.indptr))
        return Mixture(R, None)

    def strongest(self, n: int) -> sparse.csr_array:
        """The n largest entries of each row, by size; none are 0."""
        rows, columns, values = [], [], []
        total = self.R.shape[0] if self.A is None else len(self.A)
        for lo in range(0, total, AT_ONCE):
            part = slice(lo, lo + AT_ONCE)
            K = self.R[part].toarray() if self.A is None else np.asarray((self.R.T @ self.A[part].T).T)
            best = _largest(np.abs(K), n)
            row = np.repeat(np.arange(len(K)), best.shape[1])
            value = K[row, best.ravel()]
            kept = value != 0
            rows, columns = [*rows, row[kept] + lo], [*columns, best.ravel()[kept]]
            values.append(value[kept])
        at = np.concatenate(rows or [[]]), np.concatenate(columns or [[]])
        found = sparse.coo_array((np.concatenate(values or [[]]), at), shape=(total, self.R.shape[1]))
        return sparse.csr_array(found)


@dataclass(frozen=True, eq=False)
class Placement:
    """New items among the known ones."""

    columns: Mixture  # of the columns of W
    like: Mixture  # the same without lengths and slope: what a new item counts as in a history
    ridge: float
    slope: float  # by which predicted scores were multiplied, so that they are right on average
    agreement: float | None  # correlation of scores predicted for known items, treated as new, with their own


def place(F: sparse.csr_array, f: sparse.csr_array, S: Doubles, *, ridge: float | None = None) -> Placement:
    """The mixture of each new item; ``S`` (histories × known) holds scores for typical histories.

    Ridge and slope are those that suit known items best when they are treated as new: a sample is held out, and its
    scores are predicted from its features.
    """
    F, f = _used_features(F, f)
    length = _lengths(S)
    known = np.flatnonzero(np.diff(F.indptr))
    held = known[:: max(len(known) // HELD_OUT, 4)][:HELD_OUT] if len(known) >= 8 else known[:0]
    slope, agreement = 1.0, None
    chosen = RIDGES[1] if ridge is None else ridge
    if len(held):
        rest = np.setdiff1d(np.arange(F.shape[0]), held)
        trials = {
            one: _agreement(F[rest], F[held], S[:, rest], S[:, held], length[rest], one)
            for one in (RIDGES if ridge is None else (ridge,))
        }
        chosen = max(trials, key=lambda one: trials[one][0])
        agreement, slope = trials[chosen]
        slope = slope if slope > 0 else 1.0
    like = mixture(F, f, chosen)
    columns = _with_lengths(like, length, slope)
    return Placement(columns, like, chosen, slope, agreement)


def mixture(F: sparse.csr_array, f: sparse.csr_array, ridge: float) -> Mixture:
    """K of new items with the features f (new × features), from the cheapest of three systems."""
    m, d = F.shape
    if d <= min(FEATURES, m) and F.nnz <= ENTRIES:
        H = (F.T @ F).toarray() + ridge * np.eye(d)
        return Mixture(sparse.csr_array(F.T), linalg.cho_solve(linalg.cho_factor(H), f.T.toarray()).T)
    if m <= ITEMS:
        H = (F @ F.T).toarray() + ridge * np.eye(m)
        return Mixture(
            sparse.eye_array(m, format="csr"), linalg.cho_solve(linalg.cho_factor(H), (F @ f.T).toarray()).T
        )
    return Mixture(_local(F, f, ridge), None)


def _local(F: sparse.csr_array, f: sparse.csr_array, ridge: float) -> sparse.csr_array:
    """Each new item on the support of its nearest known items."""
    from offdiag._kernels import feature_grams

    n, m = f.shape[0], F.shape[0]
    nearest = min(NEAREST, m)
    sets, values = np.empty((n, nearest), dtype=np.int64), np.empty((n, nearest))
    for lo in range(0, n, AT_ONCE):
        part = slice(lo, min(lo + AT_ONCE, n))
        similar = np.asarray((f[part] @ F.T).toarray())
        sets[part] = np.sort(_largest(similar, nearest), axis=1)
        values[part] = np.take_along_axis(similar, sets[part], axis=1)
    sets[values <= 0] = -1
    H = np.empty((n, nearest, nearest))
    run = (F.indptr, F.indices, F.data, F.shape[1], sets)
    tasks = parallel.ranges(n, 4 * parallel.n_threads())
    parallel.run_parallel(feature_grams.grams, [(*run, first, last, H) for first, last in tasks])
    H[:, np.arange(nearest), np.arange(nearest)] += ridge
    values = np.where(sets >= 0, values, 0.0)
    k = np.linalg.solve(H, values[:, :, None])[:, :, 0] if n else values
    row, place = np.nonzero(sets >= 0)
    return sparse.csr_array((k[row, place], (row, sets[row, place])), shape=(n, m))


def _largest(values: Doubles, n: int) -> Ints:
    """The columns of the n largest numbers of each row, in no order."""
    n = min(n, values.shape[1])
    return np.argpartition(-values, n - 1, axis=1)[:, :n] if n else np.empty((len(values), 0), dtype=np.int64)


def _used_features(F: sparse.csr_array, f: sparse.csr_array) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Without features that no known item has: of a million hashed ones, few are used."""
    used = np.flatnonzero(np.bincount(F.indices, minlength=F.shape[1]))
    if len(used) == F.shape[1]:
        return F, f
    return sparse.csr_array(F[:, used]), sparse.csr_array(f[:, used])


def _lengths(S: Doubles) -> Doubles:
    """The usual size of each item's scores; those of hardly any are raised to the hundredth part of all."""
    length: Doubles = np.sqrt(np.mean(S * S, axis=0))
    positive = length[length > 0]
    return np.maximum(length, np.quantile(positive, 0.01)) if len(positive) else np.ones_like(length)


def _with_lengths(like: Mixture, length: Doubles, slope: float) -> Mixture:
    """The mixture with lengths predicted apart: their logarithm, by the same mixture around its mean."""
    log = np.log(length)
    predicted = log.mean() + like @ (log - log.mean())
    return like.scaled(slope * np.exp(EVEN * predicted), length**-EVEN)


def _agreement(
    F: sparse.csr_array, f: sparse.csr_array, S: Doubles, own: Doubles, length: Doubles, ridge: float
) -> tuple[float, float]:
    """How well the scores of held-out items follow from their features: correlation and slope."""
    found = (_with_lengths(mixture(F, f, ridge), length, 1.0) @ S.T).T
    product, size = float((found * own).sum()), float((found * found).sum())
    if size == 0 or not own.any():
        return 0.0, 1.0
    return product / float(np.sqrt(size * float((own * own).sum()))), product / size


def typical_histories(popularity: Doubles, n: int = 256, items: int = 20, seed: int = 0) -> sparse.csr_array:
    """Random histories of popular items, for which the scores of known and new items are compared. No user is needed.

    Items are drawn in proportion to popularity, so that the histories depend only on what the model knows anyway.
    """
    rng = np.random.default_rng(seed)
    m = len(popularity)
    total = popularity.sum()
    share = popularity / total if total > 0 else np.full(m, 1 / max(m, 1))
    drawn = rng.choice(m, size=(n, items), p=share)
    X = sparse.csr_array(
        (np.ones(drawn.size, dtype=np.float32), drawn.ravel(), np.arange(n + 1) * items), shape=(n, m)
    )
    X.sum_duplicates()
    X.data[:] = 1
    return X


def as_columns(rows: Floats) -> Floats:
    """The transpose, in the order in which scores read it."""
    return np.ascontiguousarray(rows.T)
