"""Deep linear nets with dropout in any layer: the average over all masks, exactly and without drawing one.

x → drop(p_1) → W_1 → drop(p_2) → W_2 → … → W_L, with inverted dropout (kept values are divided by q = 1 − p), and
the squared error of reconstructing x. All masks together act only on the layers' second moments [Steck20S sec. 5]:
dropping multiplies the diagonal by 1/q and leaves the rest unchanged, so one pass through the layers suffices.
Everything is dense float64; G is XᵀX, as an array or a ``Gram``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from offdiag.checks import is_whole, number, whole
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram
from offdiag.lab import checks
from offdiag.lab.checks import Matrix
from offdiag.lab.montecarlo import Estimate, estimate


@dataclass(frozen=True, eq=False)
class Regulariser:
    """What dropout adds to ‖X − XB‖²: one term per layer, with an exact sum.

    Example:
        >>> od.lab.deep.Regulariser(reconstruction=2.0, penalties=np.array([0.5, 0.25])).penalty
        0.75
    """

    reconstruction: float  # ‖X − XB‖², B = W_1⋯W_L
    penalties: Matrix  # (L,) the penalty of each layer, given the noise of the layers before it

    @property
    def penalty(self) -> float:
        return float(self.penalties.sum())


@dataclass(frozen=True, eq=False)
class Net:
    """A fitted net: its matrices, its expected loss, and whether the minimiser converged.

    Example:
        >>> od.lab.deep.Net([np.eye(2), 2 * np.eye(2)], loss=0.0, iterations=1, converged=True).B.tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """

    weights: list[Matrix]
    loss: float
    iterations: int
    converged: bool

    @property
    def B(self) -> Matrix:  # noqa: N802
        """W_1⋯W_L, the matrix that predicts when nothing is dropped."""
        return _tails(self.weights)[0]


@checks.finite
def expected_loss(G: Any, weights: Sequence[Any], dropouts: Sequence[float], *, l2: float = 0.0) -> float:
    """E‖X − net(X)‖² over all masks, plus l2·‖W_1⋯W_L‖².

    S_0 = G; each layer sets S ← S + p/q·diag(S), then S ← WᵀSW; the loss is tr G − 2 tr(GB) + tr S_L.
    Cost: one product of G with W_1 and products of the layers' own sizes.

    Example:
        >>> od.lab.deep.expected_loss(np.eye(2), [np.eye(2)], [0.5])
        2.0
    """
    G, Ws, odds = _validate(G, weights, dropouts, l2)
    return _loss_and_gradient(G, Ws, odds, l2)[0]


def gradient(G: Any, weights: Sequence[Any], dropouts: Sequence[float], *, l2: float = 0.0) -> list[Matrix]:
    """The derivative of ``expected_loss`` by each W, exact: the same recursion run backwards, at twice its cost.

    Example:
        >>> od.lab.deep.gradient(np.diag([3.0]), [[[1.0]]], [0.5])
        [array([[6.]])]
    """
    G, Ws, odds = _validate(G, weights, dropouts, l2)
    return _loss_and_gradient(G, Ws, odds, l2)[1]


def regulariser(G: Any, weights: Sequence[Any], dropouts: Sequence[float]) -> Regulariser:
    """The expected loss split into the error without noise and one penalty per layer; the sum is exact.

    Switching dropout on layer by layer, layer j adds p/q·Σ_h E[x_h²]·‖row h of W_j⋯W_L‖², where the second moment of
    node h contains the noise of the layers before it.

    Example:
        >>> od.lab.deep.regulariser(np.eye(2), [np.eye(2)] * 2, [0.5, 0.5])
        Regulariser(reconstruction=0.0, penalties=array([2., 4.]))
    """
    G, Ws, odds = _validate(G, weights, dropouts)
    B = _tails(Ws)[0]
    reconstruction = float(np.trace(G) - 2 * np.sum(G * B) + np.sum(B * (G @ B)))
    return Regulariser(reconstruction, _penalties(G, Ws, odds, odds))


def one_layer_penalties(G: Any, weights: Sequence[Any], dropouts: Sequence[float]) -> Matrix:
    """‖Λ_j^½ W_j⋯W_L‖² for each layer j with Λ_j = p/q·diag(X_jᵀX_j), X_j = X W_1⋯W_{j−1} [Steck20S sec. 5].

    Each is exact when its layer is the only one with dropout. With several, X_j carries the noise of the layers
    before it, the second moments grow, and the sum of these terms is too small: see ``regulariser``.

    Example:
        >>> od.lab.deep.one_layer_penalties(np.eye(2), [np.eye(2)] * 2, [0.5, 0.5])
        array([2., 2.])
    """
    G, Ws, odds = _validate(G, weights, dropouts)
    return _penalties(G, Ws, odds, np.zeros_like(odds))


def sample_loss(X: Any, weights: Sequence[Any], dropouts: Sequence[float], *, draws: int, seed: int = 0) -> Estimate:
    """The same expectation by drawing masks for every entry of every layer; X is users × items, dense.

    Example:
        >>> od.lab.deep.sample_loss(np.eye(2), [np.eye(2)], [0.5], draws=9)
        Estimate(mean=2.0, standard_error=0.0, draws=9)
    """
    X = checks.matrix(X, "X")
    _, Ws, _ = _validate(np.zeros((X.shape[1],) * 2), weights, dropouts)
    if not is_whole(draws) or draws < 2:
        raise OffdiagError(f"draws must be at least 2, so that there is a standard error, received {draws!r}")
    rng = np.random.default_rng(whole("seed", seed))
    losses = np.empty(draws)
    for draw in range(draws):
        values = X  # (n_users, width of the layer)
        for W, p in zip(Ws, dropouts, strict=True):
            values = np.where(rng.random(values.shape) < p, 0.0, values / (1 - p)) @ W
        losses[draw] = np.sum((X - values) ** 2)
    return estimate(losses)


def fit(
    G: Any,
    widths: Sequence[int],
    dropouts: Sequence[float],
    *,
    l2: float = 0.0,
    seed: int = 0,
    iterations: int = 2000,
    tolerance: float = 1e-7,
) -> Net:
    """Minimise ``expected_loss`` over nets with these hidden widths, by L-BFGS from random orthogonal matrices.

    ``widths=[k]`` with dropout at the input only is low-rank denoising, whose minimum is known in closed form.
    ``tolerance`` bounds the largest entry of the gradient, relative to the trace of G.

    Example:
        >>> round(od.lab.deep.fit(np.diag([3.0, 1.0]), [1], [0.5, 0.0]).loss, 6)
        2.5
    """
    from scipy.optimize import minimize

    widths = checks.sequence(widths, "widths", "whole numbers")
    if any(not is_whole(k) or k < 1 for k in widths):
        raise OffdiagError(f"widths must be whole numbers of at least 1, one per hidden layer, received {widths}")
    G = _gram(G)
    scale = float(np.trace(G))
    if scale <= 0:
        raise OffdiagError("there is nothing to learn from: the trace of G is 0")
    sizes = [len(G), *(int(k) for k in widths), len(G)]
    rng = np.random.default_rng(whole("seed", seed))
    start = [_orthogonal(rng, a, b) for a, b in pairwise(sizes)]
    G, start, odds = _validate(G, start, dropouts, l2)
    ends = np.cumsum([W.size for W in start])[:-1]

    def unpacked(theta: Matrix) -> list[Matrix]:
        return [part.reshape(W.shape) for part, W in zip(np.split(theta, ends), start, strict=True)]

    def value(theta: Matrix) -> tuple[float, Matrix]:
        loss, slopes = _loss_and_gradient(G, unpacked(theta), odds, l2)
        return loss / scale, np.concatenate([slope.ravel() for slope in slopes]) / scale

    found = minimize(
        value,
        np.concatenate([W.ravel() for W in start]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "maxfun": 2 * iterations, "gtol": tolerance, "ftol": 0.0, "maxcor": 30},
    )
    return Net(unpacked(found.x), float(found.fun) * scale, int(found.nit), bool(found.success))


def _loss_and_gradient(G: Matrix, Ws: list[Matrix], odds: Matrix, l2: float) -> tuple[float, list[Matrix]]:
    squares, slopes = _quadratic(G, Ws, odds)
    cross, cross_slopes = _cross(G, Ws)
    loss = float(np.trace(G)) - 2 * cross + squares
    slopes = [a - 2 * b for a, b in zip(slopes, cross_slopes, strict=True)]
    if l2:  # l2·‖B‖² is the same recursion from l2·I without noise
        decay, more = _quadratic(l2 * np.eye(len(G)), Ws, np.zeros_like(odds))
        loss, slopes = loss + decay, [a + b for a, b in zip(slopes, more, strict=True)]
    return loss, slopes


def _quadratic(S: Matrix, Ws: list[Matrix], odds: Matrix) -> tuple[float, list[Matrix]]:
    """tr S_L of the recursion from S, and its derivative by each W: R_l = ∂tr S_L/∂S_l runs back from R_L = I."""
    TWs: list[Matrix] = []  # T is S after dropping
    for layer, (W, c) in enumerate(zip(Ws, odds, strict=True)):
        if layer:
            S = Ws[layer - 1].T @ TWs[-1]
        TWs.append(S @ W + c * np.diag(S)[:, None] * W)
    slopes = [2 * TWs[-1]]
    RW = Ws[-1].T  # R_l W_lᵀ; neither R_L nor S_L, both m×m, is ever formed
    for layer in reversed(range(len(Ws) - 1)):
        R = Ws[layer + 1] @ RW
        R[np.diag_indices_from(R)] *= 1 + odds[layer + 1]
        slopes.insert(0, 2 * TWs[layer] @ R)
        RW = R @ Ws[layer].T
    return float(np.sum(Ws[-1] * TWs[-1])), slopes


def _cross(G: Matrix, Ws: list[Matrix]) -> tuple[float, list[Matrix]]:
    """tr(GB) and its derivative by each W, which is (G W_1⋯W_{l−1})ᵀ (W_{l+1}⋯W_L)ᵀ."""
    heads = [G]
    for W in Ws[:-1]:
        heads.append(heads[-1] @ W)
    slopes = [head.T @ tail.T for head, tail in zip(heads, _tails(Ws[1:]), strict=False)]
    return float(np.sum(heads[-1] * Ws[-1].T)), [*slopes, heads[-1].T]


def _tails(Ws: list[Matrix]) -> list[Matrix]:
    """W_l⋯W_L for each l."""
    tails = Ws[-1:]
    for W in reversed(Ws[:-1]):
        tails.insert(0, W @ tails[0])
    return tails


def _penalties(G: Matrix, Ws: list[Matrix], odds: Matrix, noise: Matrix) -> Matrix:
    """odds_j·Σ_h S_hh·‖row h of W_j⋯W_L‖², where S is the second moment before layer j under the given noise."""
    S, out = G, np.empty(len(Ws))
    for layer, (W, tail) in enumerate(zip(Ws, _tails(Ws), strict=True)):
        out[layer] = odds[layer] * np.sum(np.diag(S)[:, None] * tail**2)
        S = W.T @ (S @ W + noise[layer] * np.diag(S)[:, None] * W)
    return out


def _orthogonal(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    """A random matrix with orthonormal rows or columns, whichever fit: no layer starts nearly singular."""
    Q = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))[0]
    return Q if rows >= columns else np.ascontiguousarray(Q.T)


def _validate(
    G: Any, weights: Sequence[Any], dropouts: Sequence[float], l2: float = 0.0
) -> tuple[Matrix, list[Matrix], Matrix]:
    """G and the weights as float64 arrays that fit together, and the odds p/q of each layer."""
    G = _gram(G)
    weights, dropouts = (
        checks.sequence(weights, "weights", "matrices"),
        checks.sequence(dropouts, "dropouts", "numbers"),
    )
    Ws = [checks.matrix(W, f"W_{layer}") for layer, W in enumerate(weights, start=1)]
    if not Ws:
        raise OffdiagError("a net needs at least one weight matrix, received none")
    sizes = [len(G), *(W.shape[1] for W in Ws[:-1]), len(G)]
    for layer, W in enumerate(Ws, start=1):
        if W.shape != (sizes[layer - 1], sizes[layer]):
            raise OffdiagError(
                f"W_{layer} must be {sizes[layer - 1]}×{sizes[layer]} to lead from the layer before it to the next "
                f"(the last one to the {len(G)} items), received {W.shape[0]}×{W.shape[1]}"
            )
    if len(dropouts) != len(Ws):
        raise OffdiagError(
            f"one dropout per weight matrix, for the layer in front of it: {len(Ws)} expected, "
            f"{len(dropouts)} received; 0 means none"
        )
    for p in dropouts:
        number("dropout", p, 0, 1, below=True)
    number("l2", l2, 0, checks.LARGEST)
    chances = np.asarray(dropouts, dtype=np.float64)
    return G, Ws, chances / (1 - chances)


def _gram(G: Any) -> Matrix:
    array = checks.matrix(G.toarray() if isinstance(G, Gram) else G, "G")
    if array.shape[0] != array.shape[1]:
        raise OffdiagError(f"G = XᵀX must be square, received {array.shape[0]}×{array.shape[1]}; give X.T @ X")
    if not np.allclose(array, array.T, rtol=1e-6, atol=1e-9 * float(np.abs(array).max())):
        raise OffdiagError("G = XᵀX must be symmetric; give X.T @ X")
    return array
