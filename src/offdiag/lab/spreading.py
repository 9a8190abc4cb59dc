"""Penalties that spread the embeddings of one layer apart: the rivals of emphasis in section 5 of [Steck20].

F has a row per item, such as the encoder U or the decoder V. All are differentiable and written so that F may be a
NumPy array or a torch tensor. Cosines are those between rows; pairs are of two different items. ``lab.sampled.train``
takes them by name and adds them for U and for V.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offdiag.lab import checks
from offdiag.lab.checks import Matrix

TINY = 1e-30  # added to squared lengths: a row of zeros has no direction, and cosines of 0


def parseval(F: Any) -> Any:
    """‖FᵀF − I‖²/k for F of k columns [Cisse17]: 0 if the layer neither stretches nor shrinks.

    With more items than columns the rows cannot all be orthogonal; at 0 they form a tight frame, which is as close to
    that as they can come.

    Example:
        >>> float(od.lab.spreading.parseval(2 * np.eye(3)[:, :2]))
        9.0
    """
    gram = F.T @ F
    k = F.shape[1]
    return ((gram**2).sum() - 2 * (F**2).sum() + k) / k


def spread_out(F: Any) -> Any:
    """M₁² + max(0, M₂ − 1/k), the mean and the mean square of the cosines of all pairs [Zhang17].

    Random directions in k dimensions have M₁ = 0 and M₂ = 1/k, where the penalty ends.

    Example:
        >>> round(float(od.lab.spreading.spread_out(np.ones((4, 2)))), 6)
        1.5
    """
    E, m = _unit(F), F.shape[0]
    pairs = m * (m - 1)
    first = ((E.sum(0) ** 2).sum() - m) / pairs
    second = (((E.T @ E) ** 2).sum() - m) / pairs
    return first**2 + (second - 1 / F.shape[1]).clip(min=0)


def glas(F: Any, target: Any) -> Any:
    """The mean squared difference between the cosine of a pair and what the data say about the two items [Guo19].

    ``target`` is that of ``co_occurrence``: items that occur together may have similar embeddings, others may not.

    Example:
        >>> float(od.lab.spreading.glas(np.eye(2), np.array([[1.0, 0.5], [0.5, 1.0]])))
        0.25
    """
    E, m = _unit(F), F.shape[0]
    gaps = (E @ E.T - target) ** 2
    return (gaps.sum() - gaps.diagonal().sum()) / (m * (m - 1))


def co_occurrence(G: Any) -> Matrix:
    """(P + Pᵀ)/2 with P_ij = G_ij/G_ii, the share of the users of item i who have item j too; 1 on the diagonal.

    Example:
        >>> od.lab.spreading.co_occurrence([[4.0, 2.0], [2.0, 2.0]]).tolist()
        [[1.0, 0.75], [0.75, 1.0]]
    """
    G = checks.symmetric(G, "G")
    g = np.diag(G)
    P = G / np.where(g > 0, g, 1.0)[:, None]
    both: Matrix = (P + P.T) / 2
    np.fill_diagonal(both, 1.0)
    return both


def _unit(F: Any) -> Any:
    return F / ((F**2).sum(1)[:, None] + TINY) ** 0.5
