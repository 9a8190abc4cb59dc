"""Denoising as it is usually done: draw masks, take steps. It must converge to the closed forms.

Every entry of a row, zeros included, is dropped with probability p. From the remaining entries, Z/q, the whole row is
predicted; errors on dropped entries count 1, on kept ones b = ``kept_weight`` [Steck20 Eq. 1]. Divided by
w = p + b·q, the expectation of that loss is the objective J that the models minimise without sampling.
Needs torch, the extra ``neural``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.checks import choice, number, whole
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram, as_matrix
from offdiag.gramian.user_weights import user_weights
from offdiag.lab import layers, spreading
from offdiag.lab.montecarlo import Estimate, estimate
from offdiag.progress import Progress, reporter

NEEDS_TORCH = (
    "sampled training needs torch, which is not installed; pip install torch, or take the extra: "
    "pip install 'offdiag[neural]'"
)
REGULARISERS = ("parseval", "spread-out", "glas")
SOME_ITEMS = 512  # whose pairs stand for all of them in a step of "glas"
MOST_FOR_L2 = (
    4096  # items up to which ‖UVᵀ‖² is exact; beyond, as many rows and columns, drawn at random, stand for all
)


@dataclass(frozen=True)
class Noise:
    """The noise to sample: the settings of the objective, as in ``LowRankEDLAE``.

    Example:
        >>> od.lab.sampled.Noise(dropout=0.5, kept_weight=0.0).w
        0.5
    """

    dropout: float
    l2: float = 0.0
    kept_weight: float = 1.0
    user_power: float = 0.0

    @property
    def w(self) -> float:
        """The mean weight of an entry."""
        return self.dropout + self.kept_weight * (1 - self.dropout)


@dataclass(frozen=True, eq=False)
class Trained:
    """B = UVᵀ at the end of training; ``losses`` are the means over each epoch of unbiased estimates of J.

    Example:
        >>> found = od.lab.sampled.train(np.eye(3), rank=2, dropout=0.5, epochs=2)
        >>> found.U.shape, found.losses.shape, found.objective(np.eye(3)) > 0
        ((3, 2), (2,), True)
    """

    U: NDArray[np.float32]  # (n_items, rank)
    V: NDArray[np.float32]  # (n_items, rank); I at full rank
    losses: NDArray[np.float64]  # (epochs,)
    noise: Noise

    def objective(self, G: Any) -> float:
        """The exact J at these factors, from the Gram of the data (with the same ``user_power``) or XᵀX."""
        if isinstance(G, Gram) and G.user_power != self.noise.user_power:
            raise OffdiagError(
                f"this was trained with user_power={self.noise.user_power:g}, the Gram was made with "
                f"{G.user_power:g}; make them equal"
            )
        G = np.asarray(G.toarray() if isinstance(G, Gram) else G, dtype=np.float64)
        return _objective(G, self.U.astype(np.float64), self.V.astype(np.float64), self.noise)


def train(
    X: Any,
    rank: int | None,
    *,
    epochs: int = 100,
    batch_users: int = 200,
    learning_rate: float = 0.15,
    masks: int = 2,
    seed: int = 0,
    start: tuple[Any, Any] | None = None,
    regulariser: str | None = None,
    strength: float = 0.0,
    progress: Progress | bool | None = None,
    **noise: float,
) -> Trained:
    """Fit B = UVᵀ (``rank=None``: any B) by Adam on sampled masks, with a step size that falls to 0 linearly.

    ``noise`` holds the settings of ``Noise``: ``dropout``, and optionally ``l2``, ``kept_weight`` and ``user_power``.
    ``learning_rate`` is the first step size of an entry in units of 1/√n_items, the size of the entries of U and V.
    The result is the mean of the iterates of the second half. Each row is seen under ``masks`` masks at a time that
    together drop every entry equally often, as far as p allows; each alone is an ordinary dropout mask, so
    the gradient is unbiased and its noise smaller. ``start`` holds factors to continue from.
    ``regulariser`` ("parseval", "spread-out" or "glas") adds ``strength``·‖X‖² times that penalty of ``lab.spreading``
    on U and on V, for comparison with emphasis [Steck20 section 5]; ``objective`` and ``losses`` leave it out.
    Beyond 4,096 items the l2 term of a step is estimated, too, from that many random rows and columns of B.
    Cost of an epoch: about 6·masks·n_users·n_items·rank multiplications; memory: a batch of dense rows.

    Example:
        >>> found = od.lab.sampled.train(np.ones((4, 3)), rank=None, dropout=0.5, learning_rate=0.5)
        >>> found.objective(4 * np.ones((3, 3))) < 12
        True
    """
    progress = reporter(progress)
    torch = layers.torch_or_error(NEEDS_TORCH)
    matrix, drawn = _validate(X, **noise)
    for name, value in (("epochs", epochs), ("batch_users", batch_users), ("masks", masks)):
        whole(name, value, 1)
    if not 0 < learning_rate < np.inf:
        raise OffdiagError(f"learning_rate must be a positive number, received {learning_rate!r}")
    weights = user_weights(matrix, drawn.user_power)
    generator = torch.Generator().manual_seed(int(seed))
    penalty = _regulariser(torch, matrix, weights, rank, regulariser, strength, generator)
    factors = _start(torch, matrix.shape[1], rank, start, generator)
    first_step = learning_rate / matrix.shape[1] ** 0.5
    optimiser = torch.optim.Adam(factors, lr=first_step)
    n, steps, step = matrix.shape[0], epochs * -(-matrix.shape[0] // batch_users), 0
    means, averaged = [factor.detach().clone() for factor in factors], 0
    losses = np.zeros(epochs)
    for epoch in range(epochs):
        order = torch.randperm(n, generator=generator).numpy()
        for low in range(0, n, batch_users):
            users = order[low : low + batch_users]
            loss = _batch_loss(torch, matrix, weights, users, factors, drawn, masks, generator)
            layers.descend(optimiser, loss + penalty(factors) if penalty else loss, first_step * (1 - step / steps))
            step += 1
            if 2 * step > steps:
                averaged += 1
                for mean, factor in zip(means, factors, strict=True):
                    mean += (factor.detach() - mean) / averaged
            losses[epoch] += float(loss.detach()) * len(users) / n
        if progress:
            progress("training on sampled masks", (epoch + 1) / epochs)
    U = means[0].numpy()
    V = means[1].numpy() if len(means) > 1 else np.eye(len(U), dtype=np.float32)
    if not (np.isfinite(U).all() and np.isfinite(V).all()):
        raise OffdiagError(f"training diverged at learning_rate={learning_rate:g}; use a smaller one")
    return Trained(U, V, losses, drawn)


def sample_loss(
    X: Any, U: Any, V: Any, *, draws: int, batch_users: int = 200, masks: int = 2, seed: int = 0, **noise: float
) -> Estimate:
    """The loss whose gradient ``train`` follows, at fixed factors: random users, random masks. Its expectation is J.

    Example:
        >>> od.lab.sampled.sample_loss(np.eye(3), np.eye(3), np.eye(3), dropout=0.5, draws=9)
        Estimate(mean=3.0, standard_error=0.0, draws=9)
    """
    torch = layers.torch_or_error(NEEDS_TORCH)
    matrix, drawn = _validate(X, **noise)
    for name, value in (("batch_users", batch_users), ("masks", masks), ("draws", draws)):
        whole(name, value, 1)
    if draws < 2:
        raise OffdiagError(f"draws must be at least 2, so that there is a standard error, received {draws}")
    weights = user_weights(matrix, drawn.user_power)
    generator = torch.Generator().manual_seed(int(seed))
    factors = [torch.tensor(_factor(F, matrix.shape[1])) for F in (U, V)]
    found = np.empty(draws)
    for draw in range(draws):
        users = torch.randperm(matrix.shape[0], generator=generator).numpy()[:batch_users]
        found[draw] = float(_batch_loss(torch, matrix, weights, users, factors, drawn, masks, generator))
    return estimate(found)


def _batch_loss(
    torch: Any,
    matrix: sparse.csr_array,
    weights: NDArray[np.float64],
    users: NDArray[np.int64],
    factors: list[Any],
    noise: Noise,
    masks: int,
    generator: Any,
) -> Any:
    """An unbiased estimate of J from some users: Σ A∘(x − Z B/q)² / w, scaled to all of them, and the l2 term."""
    p, b = noise.dropout, noise.kept_weight
    x = torch.from_numpy(matrix[users].toarray().astype(np.float32, copy=False))  # (batch, n_items)
    chance = torch.rand(x.shape, generator=generator)
    # One number per entry gives all masks: shifted by a fraction modulo 1, it is still uniform.
    kept = torch.cat([(chance + turn / masks).frac_() >= p for turn in range(masks)]).float()
    x = x.repeat(masks, 1)
    hidden = (x * kept / (1 - p)) @ factors[0]
    errors = (x - (hidden @ factors[1].T if len(factors) > 1 else hidden)) ** 2
    emphasis = 1 - (1 - b) * kept  # a = 1 where dropped, also where x is 0
    row_weights = torch.from_numpy((weights[users] / (len(users) * masks * noise.w)).astype(np.float32)).repeat(masks)
    loss = (row_weights @ (emphasis * errors)).sum() * matrix.shape[0]
    return loss + _l2_term(torch, factors, noise, generator) if noise.l2 else loss


def _regulariser(
    torch: Any,
    matrix: sparse.csr_array,
    weights: NDArray[np.float64],
    rank: int | None,
    name: str | None,
    strength: float,
    generator: Any,
) -> Callable[[list[Any]], Any] | None:
    """strength·‖X‖² times the penalty on both factors, as a function of them; None if there is none."""
    number("strength", strength, 0)
    if name is None:
        if strength:
            raise OffdiagError(f"strength={strength:g} needs a regulariser: {', '.join(REGULARISERS)}")
        return None
    name = choice("regulariser", name, REGULARISERS)
    if rank is None:
        raise OffdiagError("a regulariser of embeddings needs a rank, received None; give the number of columns")
    scale = strength * float(weights @ matrix.multiply(matrix).sum(axis=1))
    if name != "glas":
        penalty = spreading.parseval if name == "parseval" else spreading.spread_out
        return lambda factors: scale * (penalty(factors[0]) + penalty(factors[1]))
    m = matrix.shape[1]
    target = torch.tensor(spreading.co_occurrence((matrix.T @ matrix).toarray()), dtype=torch.float32)

    def glas(factors: list[Any]) -> Any:
        some = torch.randperm(m, generator=generator)[:SOME_ITEMS]
        wanted = target[some][:, some]
        return scale * (spreading.glas(factors[0][some], wanted) + spreading.glas(factors[1][some], wanted))

    return glas


def _l2_term(torch: Any, factors: list[Any], noise: Noise, generator: Any) -> Any:
    """l2·(Σ_{j≠i} B_ji² + b/w²·Σ B_ii²): l2 is added to Λ, whose part on the diagonal carries that factor."""
    U = factors[0]
    if len(factors) == 1:
        beta, squares = U.diagonal(), (U**2).sum()
    else:
        V = factors[1]
        beta, squares = (U * V).sum(1), _squares(torch, U, V, generator)
    return noise.l2 * (squares - (1 - noise.kept_weight / noise.w**2) * (beta**2).sum())


def _squares(torch: Any, U: Any, V: Any, generator: Any) -> Any:
    """‖UVᵀ‖², for many items an unbiased estimate: exact, it would cost several times as much as the batch."""
    m = len(U)
    if m > MOST_FOR_L2:
        U, V = (F[torch.randperm(m, generator=generator)[:MOST_FOR_L2]] for F in (U, V))
    return (m / len(U)) ** 2 * ((U.T @ U) * (V.T @ V)).sum()


def _objective(G: NDArray[np.float64], U: NDArray[np.float64], V: NDArray[np.float64], noise: Noise) -> float:
    """J of docs/models.md, with no m×m matrix but G."""
    g, p, b = np.diag(G), noise.dropout, noise.kept_weight
    s, penalty = b / noise.w, p / (1 - p) * g + noise.l2
    GU = G @ U
    HU = GU + penalty[:, None] * U
    beta = np.sum(U * V, axis=1)
    cross = np.sum(GU * V) - (1 - s) * (g @ beta)
    squares = np.sum((U.T @ HU) * (V.T @ V)) - 2 * (1 - s) * (beta @ np.sum(HU * V, axis=1))
    diagonal = (1 - s) ** 2 * (g + penalty) + (b - b * b) / noise.w**2 * penalty
    return float(g.sum() - 2 * cross + squares + diagonal @ beta**2)


def _start(torch: Any, m: int, rank: int | None, start: tuple[Any, Any] | None, generator: Any) -> list[Any]:
    if rank is not None:
        whole("rank", rank, 1, other=", or None for full rank")
    if start is not None:
        U, V = (_factor(F, m) for F in start)
        if U.shape != V.shape or (rank is not None and U.shape[1] != rank):
            raise OffdiagError(
                f"start must be two matrices of {m} items × {rank or 'equally many columns'}, "
                f"received shapes {U.shape} and {V.shape}"
            )
        given = [U @ V.T] if rank is None else [U, V]
        return [torch.tensor(factor, requires_grad=True) for factor in given]
    if rank is None:
        return [torch.zeros((m, m), requires_grad=True)]
    # Small compared with a solution, whose columns have length about 1, but not at the saddle point 0.
    return [(torch.randn((m, rank), generator=generator) / m**0.5).requires_grad_() for _ in range(2)]


def _factor(values: Any, m: int) -> NDArray[np.float32]:
    array = np.asarray(values, dtype=np.float32)
    if array.ndim != 2 or len(array) != m or not np.isfinite(array).all():
        raise OffdiagError(f"a factor must be a finite matrix with a row for each of {m} items, received {array.shape}")
    return array


def _validate(
    X: Any, *, dropout: float, l2: float = 0.0, kept_weight: float = 1.0, user_power: float = 0.0
) -> tuple[sparse.csr_array, Noise]:
    matrix = as_matrix(X)
    if not matrix.nnz:
        raise OffdiagError("there is nothing to learn from: the data hold no interaction")
    noise = Noise(
        number("dropout", dropout, 0, 1, below=True),
        number("l2", l2, 0),
        number("kept_weight", kept_weight, 0, 1),
        number("user_power", user_power),
    )
    if dropout == 0 and kept_weight == 0:
        raise OffdiagError("with kept_weight=0 only dropped entries count, so dropout must be above 0, received 0")
    return matrix, noise
