"""Denoising with masks of any distribution: entries that are dropped together, in groups, or with other chances.

A mask z scales the inputs of a row, x∘(z/mean), and B predicts the row from them. Without emphasis only the covariance
of the masks matters: the expected loss is ‖X − XB‖² + tr(Bᵀ(C̄∘G)B) with C̄_ij = cov_ij/(mean_i·mean_j), so C̄∘G takes
the place of the diagonal penalty Λ of independent dropout. With full emphasis and whole groups dropped at once, no item
is predicted from its own group. Everything is dense float64; G is XᵀX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks
from offdiag.lab.checks import Matrix


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best B under some masks, and its expected loss.

    Example:
        >>> od.lab.masks.Optimum(B=np.eye(2), value=0.0).B.shape
        (2, 2)
    """

    B: Matrix
    value: float


@checks.finite
def expected_loss(G: Any, B: Any, cov: Any, mean: Any = 1.0, *, l2: float = 0.0) -> float:
    """E‖X − (X∘Z/mean)B‖² + l2·‖B‖² over masks with this covariance (m, m) and mean, a number or one per item.

    Example:
        >>> od.lab.masks.expected_loss(np.eye(2), np.eye(2), od.lab.masks.group_covariance([0, 1], drop=0.5))
        2.0
    """
    G, H = _moments(G, cov, mean, l2)
    B = checks.matrix(B, "B", G.shape)
    return _loss(G, H, B)


def optimum(G: Any, cov: Any, mean: Any = 1.0, *, l2: float = 0.0, rank: int | None = None) -> Optimum:
    """The B that minimises ``expected_loss``, of any rank or of at most this one, in closed form.

    B = H⁻¹G with H = G + C̄∘G + l2·I; of rank k it is H⁻¹GVVᵀ, V the leading eigenvectors of G H⁻¹ G. A covariance of
    independent masks is diagonal, and B that of ``od.DLAE``.

    Example:
        >>> od.lab.masks.optimum(np.diag([2.0, 1.0]), od.lab.masks.group_covariance([0, 1], drop=0.5)).B.tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    G, H = _moments(G, cov, mean, l2)
    B = np.linalg.pinv(H, hermitian=True) @ G  # the range of G lies in that of H, as H − G has no negative eigenvalue
    if rank is not None and whole("rank", rank, 1) < len(G):
        V = np.linalg.eigh((G @ B + B.T @ G) / 2)[1][:, -rank:]
        B = B @ V @ V.T
    return Optimum(B, _loss(G, H, B))


def group_covariance(groups: Any, drop: float) -> Matrix:
    """C̄ of masks that keep or drop whole groups: drop/(1 − drop) for two items of one group, 0 for others.

    ``groups`` has a number per item; items with the same number are dropped together.

    Example:
        >>> od.lab.masks.group_covariance([7, 7, 3], drop=0.5).tolist()
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return np.asarray(checks.odds(drop) * _same(groups))


@checks.finite
def group_loss(G: Any, B: Any, groups: Any, drop: float, *, l2: float = 0.0) -> float:
    """The expected error on the dropped entries, divided by drop, when whole groups are dropped; plus l2·‖B‖².

    Entries of B between items of one group have no effect and are taken as 0: when the target is dropped, so are they.

    Example:
        >>> od.lab.masks.group_loss(np.ones((2, 2)), np.ones((2, 2)), [0, 1], drop=0.5)
        2.0
    """
    G, H = _moments(G, group_covariance(groups, drop), 1.0, l2)
    B = checks.matrix(B, "B", G.shape)
    return _loss(G, H, np.where(_same(groups), 0.0, B))


def group_optimum(G: Any, groups: Any, drop: float, *, l2: float = 0.0) -> Optimum:
    """The B that minimises ``group_loss``: no item is predicted from its own group.

    B = I − C·BlkDiag(C)⁻¹ with C = H⁻¹, H = G + drop/(1 − drop)·Mask∘G + l2·I; Mask is 1 within groups, and BlkDiag
    keeps the entries within groups. Groups of one item give ``od.EDLAE``.

    Example:
        >>> od.lab.masks.group_optimum(np.ones((3, 3)), [0, 0, 1], drop=0.5, l2=1.0).B.round(3).tolist()
        [[0.0, 0.0, 0.2], [0.0, 0.0, 0.2], [0.333, 0.333, 0.0]]
    """
    same = _same(groups)
    G, H = _moments(G, group_covariance(groups, drop), 1.0, l2)
    try:
        np.linalg.cholesky(H)
        C = np.linalg.inv(H)
        within = np.linalg.inv(np.where(same, C, 0.0))
    except np.linalg.LinAlgError:
        raise OffdiagError(
            "G + drop/(1 − drop)·Mask∘G + l2 is singular: an item never occurs, or items of one group always occur "
            "together; give l2 above 0"
        ) from None
    B = np.where(same, 0.0, -C @ within)
    return Optimum(B, _loss(G, H, B))


def _loss(G: Matrix, H: Matrix, B: Matrix) -> float:
    return float(np.trace(G) - 2 * np.sum(G * B.T) + np.sum(B * (H @ B)))


def _moments(G: Any, cov: Any, mean: Any, l2: float) -> tuple[Matrix, Matrix]:
    """G and H = G + C̄∘G + l2·I."""
    G = checks.symmetric(G, "G")
    m = len(G)
    cov = checks.symmetric(checks.matrix(cov, "cov", (m, m)), "cov")
    mean = checks.numbers(mean, "mean", "a number or a vector")
    mean = checks.matrix(np.broadcast_to(mean, (1, m)) if mean.ndim == 0 else mean[None], "mean", (1, m))[0]
    if not mean.all():
        raise OffdiagError("mean must not be 0: an item that is never kept cannot be divided by its mean; leave it out")
    return G, G + cov / mean[:, None] / mean * G + number("l2", l2, 0, checks.LARGEST) * np.eye(m)


def _same(groups: Any) -> Any:
    """Which pairs of items share a group, (m, m)."""
    numbers = checks.vector(groups, "groups")
    return numbers[:, None] == numbers
