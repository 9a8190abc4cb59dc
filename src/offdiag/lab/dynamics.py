"""How linear autoencoders learn, in closed form: plain, denoising (DAE) and with weight decay (WDAE).

In the eigenbasis of Σ xxᵀ a two-layer linear net learns every direction independently [Pretorius18 sec. B]: a mode with
eigenvalue λ has one weight in each layer, w1 and w2, and what matters is their product w, the share of the
direction that is reconstructed. Gaussian noise of variance s² at the input acts through ``noise`` = ε = N·s², the
penalty γ/2·(‖W1‖² + ‖W2‖²) through ``decay`` = N·γ; ``tau`` = N/α for N samples and learning rate α, and ``t``
counts steps. Gradient flow is then

    τ w1′ = w2 (λ − w (λ + ε)) − Nγ w1,      τ w2′ = w1 (λ − w (λ + ε)) − Nγ w2.

Everything takes arrays that broadcast, such as times (T, 1) against eigenvalues (K,), and works in float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag.checks import whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks
from offdiag.lab.checks import Matrix
from offdiag.lab.modes import (
    arrays,
    dae,
    dae_fixed_point,
    dae_hessian,
    dae_learning_rate,
    dae_time,
    equivalent_decay,
    learning_rate_ratio,
    one,
    simulate,
    wdae,
    wdae_fixed_point,
    wdae_hessian,
    wdae_learning_rate,
    wdae_time,
)
from offdiag.lab.montecarlo import Estimate
from offdiag.lab.montecarlo import estimate as mean_of

__all__ = [
    "Descent",
    "Modes",
    "aligned_start",
    "dae",
    "dae_fixed_point",
    "dae_hessian",
    "dae_learning_rate",
    "dae_time",
    "eigenbasis",
    "equivalent_decay",
    "estimate",
    "expected_loss",
    "gradient_descent",
    "learning_rate_ratio",
    "sample_loss",
    "simulate",
    "wdae",
    "wdae_fixed_point",
    "wdae_hessian",
    "wdae_learning_rate",
    "wdae_time",
]


class Modes(NamedTuple):
    """One number per eigenvector of Σ xxᵀ, leading direction first; nan where the data has no variance.

    Example:
        >>> od.lab.dynamics.estimate(np.diag([2.0, 1.0]), lambda rows: rows / 2)
        Modes(values=array([0.5, 0.5]), eigenvalues=array([4., 1.]))
    """

    values: Matrix  # (n_features,)
    eigenvalues: Matrix  # (n_features,)


@dataclass(frozen=True, eq=False)
class Descent:
    """A training run: the diagonal of Vᵀ·W2·W1·V at each record.

    Example:
        >>> od.lab.dynamics.gradient_descent(np.eye(2), np.eye(2), np.eye(2), rate=0.1, steps=2).steps
        array([0, 1, 2])
    """

    steps: NDArray[np.int64]  # (records,)
    values: Matrix  # (records, n_features), leading direction first
    eigenvalues: Matrix  # (n_features,)
    W1: Matrix  # (hidden, n_features), after the last step
    W2: Matrix  # (n_features, hidden)


@checks.finite
def expected_loss(X: Any, W1: Any, W2: Any, variance: float) -> float:
    """The mean of 1/2N·Σ‖x − W2W1(x + noise)‖² over noise of this variance; X has a sample per row.

    1/2N·(Σ‖x − Mx‖² + N·s²·tr MMᵀ) with M = W2W1: the noise term of [Pretorius18 Eq. 1] belongs inside the 1/2N.

    Example:
        >>> od.lab.dynamics.expected_loss(np.eye(2), np.eye(2), np.eye(2), variance=0.5)
        0.5
    """
    X, W1, W2 = _net(X, W1, W2)
    M = W2 @ W1
    s2 = one(variance=variance)
    return float(np.sum((X - X @ M.T) ** 2) / (2 * len(X)) + s2 / 2 * np.sum(M**2))


def sample_loss(X: Any, W1: Any, W2: Any, variance: float, *, draws: int, seed: int = 0) -> Estimate:
    """The same mean by drawing Gaussian noise for every entry of X.

    Example:
        >>> found = od.lab.dynamics.sample_loss(np.eye(2), np.eye(2), np.eye(2), variance=0.5, draws=1000)
        >>> abs(found.mean - 0.5) < 4 * found.standard_error
        True
    """
    X, W1, W2 = _net(X, W1, W2)
    deviation = float(np.sqrt(one(variance=variance)))
    rng = np.random.default_rng(whole("seed", seed))
    M = W2 @ W1
    losses = [
        np.sum((X - (X + deviation * rng.standard_normal(X.shape)) @ M.T) ** 2) / (2 * len(X))
        for _ in range(whole("draws", draws, 2))
    ]
    return mean_of(np.array(losses))


def eigenbasis(X: Any) -> tuple[Matrix, Matrix]:
    """Eigenvalues of Σ xxᵀ, largest first, and its eigenvectors as columns; X has a sample per row.

    Example:
        >>> od.lab.dynamics.eigenbasis(np.diag([1.0, 2.0]))[0]
        array([4., 1.])
    """
    return _eigenbasis(checks.matrix(X, "X"))


def _eigenbasis(X: Matrix) -> tuple[Matrix, Matrix]:
    if len(X) < X.shape[1]:  # more features than samples: the singular vectors of X, without squaring it
        _, singular, Vt = np.linalg.svd(X, full_matrices=True)
        return np.concatenate([singular**2, np.zeros(X.shape[1] - len(singular))]), np.ascontiguousarray(Vt.T)
    values, vectors = np.linalg.eigh(X.T @ X)
    return np.maximum(values[::-1], 0), np.ascontiguousarray(vectors[:, ::-1])


def estimate(
    X: Any, reconstruct: Callable[[Any], Any], *, basis: tuple[Matrix, Matrix] | None = None, modes: int | None = None
) -> Modes:
    """How much of each direction any net has learnt: diag(Vᵀ (Σ x x̂ᵀ) V)/λ [Pretorius18 sec. F].

    ``reconstruct`` takes rows and returns rows: any function of an array, or a torch module, which is called as it is
    (switch it to evaluation mode first) with a tensor in the precision of its parameters. For a linear net that is
    aligned with the data these are the w of its modes; for any other net they are an estimate, which may leave [0, 1].
    ``basis`` saves a repeated ``eigenbasis(X)``, ``modes`` keeps the leading ones only.
    X may be of any size; eigenvalues that do not fit into float64 are inf or 0.

    Example:
        >>> od.lab.dynamics.estimate(np.diag([2.0, 1.0]), lambda rows: rows / 2).values
        array([0.5, 0.5])
    """
    X = checks.matrix(X, "X", largest=np.inf)
    power = int(np.frexp(np.abs(X).max())[1])
    small = np.ldexp(X, -power)  # of size 1, by a power of 2, which is exact: its squares fit
    if basis is None:
        eigenvalues, V = _eigenbasis(small)
        with np.errstate(over="ignore"):
            basis = np.ldexp(eigenvalues, 2 * power), V
    else:
        basis = checks.pair(basis, "basis", "(eigenvalues, eigenvectors)")
        V = checks.matrix(basis[1], "the basis", (X.shape[1], None))
        eigenvalues = np.square(small @ V).sum(axis=0)
    if modes is not None:
        modes = whole("modes", modes, 1)
    eigenvalues, V = eigenvalues[:modes], V[:, :modes]
    guess = checks.matrix(_rows(reconstruct, X), "what reconstruct returns", X.shape, largest=np.inf)
    overlap = np.einsum("ij,ij->j", small @ V, np.ldexp(guess, -power) @ V)
    floor = max(X.shape) * np.finfo(np.float64).eps * float(eigenvalues[0])
    present = (eigenvalues > floor) & (eigenvalues > 0)
    return Modes(np.where(present, overlap / np.where(present, eigenvalues, 1), np.nan), np.asarray(basis[0])[:modes])


def _rows(reconstruct: Any, X: Matrix) -> Any:
    """The output of a function or a torch module for these rows, without gradients."""
    if not callable(reconstruct):
        raise OffdiagError(
            f"reconstruct must be a function of rows or a torch module, received a {type(reconstruct).__name__}; "
            "give lambda rows: …"
        )
    torch = sys.modules.get("torch")  # there can be a module only if torch is loaded
    if torch is None:
        return reconstruct(X)
    if isinstance(reconstruct, torch.nn.Module):
        like = next(reconstruct.parameters(), torch.empty(0))
        with torch.no_grad():
            found = reconstruct(torch.as_tensor(X, dtype=like.dtype, device=like.device))
    else:
        found = reconstruct(X)
    return found.detach().cpu().double().numpy() if isinstance(found, torch.Tensor) else found


def aligned_start(X: Any, hidden: int, w1: Any, w2: Any, *, seed: int = 0) -> tuple[Matrix, Matrix]:
    """W1 = R·diag(w1)·Vᵀ and W2 = V·diag(w2)·Rᵀ for the ``hidden`` leading directions; R is a random rotation.

    Example:
        >>> W1, W2 = od.lab.dynamics.aligned_start(np.diag([2.0, 1.0]), hidden=2, w1=0.5, w2=0.5)
        >>> np.allclose(W2 @ W1, 0.25 * np.eye(2))
        True
    """
    X = checks.matrix(X, "X")
    if not 1 <= whole("hidden", hidden, 1) <= X.shape[1]:
        raise OffdiagError(f"hidden must be 1 to {X.shape[1]}, the number of features, received {hidden}")
    V = eigenbasis(X)[1][:, :hidden]
    lengths = [arrays(w1=w1)[0], arrays(w2=w2)[0]]
    for name, given in zip(("w1", "w2"), lengths, strict=True):
        if given.shape not in ((), (1,), (hidden,)):
            raise OffdiagError(f"{name} must be a number or hold {hidden}, one per hidden unit, received {given.shape}")
    w1, w2 = (np.broadcast_to(v, (hidden,)) for v in lengths)
    R = np.linalg.qr(np.random.default_rng(whole("seed", seed)).standard_normal((hidden, hidden)))[0]
    return R @ (w1[:, None] * V.T), (V * w2) @ R.T


def gradient_descent(
    X: Any, W1: Any, W2: Any, *, rate: float, steps: int, variance: float = 0, weight_decay: float = 0, record: int = 1
) -> Descent:
    """Plain steps of size ``rate`` down the expected loss plus γ/2·(‖W1‖² + ‖W2‖²) of a whole linear net.

    From ``aligned_start``, each mode follows ``dae`` (noise = N·variance) or ``wdae`` (decay = N·γ) with
    tau = N/rate, up to the error of a finite step. The modes are recorded every ``record`` steps.

    Example:
        >>> od.lab.dynamics.gradient_descent([[1.0]], [[0.5]], [[1.0]], rate=0.1, steps=2).values.ravel()
        array([0.5       , 0.56375   , 0.62385297])
    """
    X, W1, W2 = _net(X, W1, W2)
    rate, s2, gamma = one(rate=rate), one(variance=variance), one(weight_decay=weight_decay)
    steps, record = whole("steps", steps), whole("record", record, 1)
    eigenvalues, V = eigenbasis(X)
    S = X.T @ X / len(X)
    kept, values = [], []
    for step in range(steps + 1):
        if step % record == 0:
            kept.append(step)
            values.append(np.einsum("ij,ij->j", V, W2 @ (W1 @ V)))
        if step == steps:
            break
        # The derivative by M = W2W1 is MS + s²M − S; it is multiplied from the thin side, so M is never formed.
        code = W1 @ S + s2 * W1
        down1 = W2.T @ W2 @ code - W2.T @ S + gamma * W1
        W1, W2 = W1 - rate * down1, W2 - rate * (W2 @ (code @ W1.T) - S @ W1.T + gamma * W2)
    if not np.isfinite(W1).all() or not np.isfinite(W2).all():
        raise OffdiagError(f"gradient descent grew without bound at rate {rate:g}; give a smaller one")
    return Descent(np.array(kept), np.array(values), eigenvalues, W1, W2)


def _net(X: Any, W1: Any, W2: Any) -> tuple[Matrix, Matrix, Matrix]:
    X = checks.matrix(X, "X")
    W1 = checks.matrix(W1, "W1", (None, X.shape[1]))
    return X, W1, checks.matrix(W2, "W2", (X.shape[1], W1.shape[0]))
