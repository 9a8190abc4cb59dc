"""One truncated SVD of the data, from products G @ V alone, for any number of shrinkages.

G = XᵀX = Q σ² Qᵀ gives Q and σ of X = P σ Qᵀ, all that a linear autoencoder B = Q f(σ) Qᵀ needs; P never appears.
Method    a random start, then the blocks of ``subspace.leading``; a final rotation makes σ exact for the subspace.
Cost      about a dozen products G @ (m×rank), at most 17 arrays of m×rank; nothing m×m, nothing users×rank.
"""

from dataclasses import dataclass

import numpy as np

from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, blas, low_pass, subspace
from offdiag.solvers.products import Product, ScaledProduct, check_range


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The leading eigenvectors of G and their eigenvalues σ², largest first; zero columns beyond the rank of X."""

    Q: Floats  # (m, rank)
    eigenvalues: Doubles  # (rank,)
    total: float  # tr G = ‖X‖², which full rank would capture completely
    stopped: str  # "converged", "iterations" or "interrupted"
    gain: float = 0.0  # of the last round, in the units of ``tolerance_of``


def tolerance_of(dtype: np.dtype[np.floating]) -> float:
    return 1e-4 if dtype == np.float32 else 1e-10


def decompose(
    product: Product,
    rank: int,
    *,
    seed: int = 0,
    start: Floats | None = None,
    progress: Progress | None = None,
) -> Decomposition:
    """Stops when a round adds less than ``tolerance_of(dtype)`` to the eigenvalues, as a mean of relative gains."""
    total, ones = float(product.g.sum()), np.ones(product.m)
    product, unit = _near_one(product)
    found = subspace.leading(
        product, ones, ones, rank, product.dtype,
        with_N=False, plain=True, tolerance=tolerance_of(product.dtype), seed=seed, start=start, progress=progress,
    )  # fmt: skip
    QGQ = blas.product(found.X, found.NX, transposed=True)
    eigenvalues, Y = np.linalg.eigh(QGQ.astype(np.float64))  # exact in this subspace, converged or not
    Q = blas.product(found.X, np.ascontiguousarray(Y[:, ::-1]).astype(product.dtype))
    return Decomposition(Q, np.maximum(eigenvalues[::-1], 0.0) * unit, total, found.stopped, found.gain)


def decompose_quickly(product: Product, rank: int, *, seed: int = 0, progress: Progress | None = None) -> Decomposition:
    """The same by a fixed number of products (``solvers.low_pass``): for a projector, not for single directions."""
    total = float(product.g.sum())
    product, unit = _near_one(product)
    values, found = low_pass.leading_pairs(product, rank, seed=seed, progress=progress)
    Q, eigenvalues = np.zeros((product.m, rank), dtype=product.dtype), np.zeros(rank)
    Q[:, : len(values)], eigenvalues[: len(values)] = found, np.maximum(values, 0.0) * unit
    return Decomposition(Q, eigenvalues, total, "converged")


def _near_one(product: Product) -> tuple[Product, float]:
    """The product with eigenvalues near 1, so that neither tiny nor huge data loses digits, and the unit of these."""
    check_range(product)
    unit = 4.0 ** np.round(np.log2(max(float(product.g.max(initial=0.0)), 1e-300)) / 2)
    if 1e-6 < unit < 1e12:
        return product, 1.0
    return ScaledProduct(product, np.ones(product.m) / np.sqrt(unit)), float(unit)
