"""What noise in the hidden layer of a linear net does to singular values: the squared k-support norm and its prox.

Everything works on vectors of non-negative singular values in float64, in any order, and costs one sort.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def k_support_squared(a: Vector, order: int) -> float:
    """min { Σ a_i²/t_i : 0 ≤ t_i ≤ 1, Σ t_i ≤ order }, the squared k-support norm [Pal20 Thm. 2.3].

    The largest ρ − 1 entries count by their squares, the sum T of the others by T²/(order − ρ + 1), where ρ is the
    first index at which that share is no smaller than the entry. order 1 is the squared sum, order ≥ len(a) the sum
    of squares.
    """
    a = np.sort(np.abs(a))[::-1]
    if order >= len(a):
        return float(a @ a)
    tails = _tails(a)[:order]
    shares = tails / (order - np.arange(order))
    rho = int(np.argmax(shares >= a[:order]))  # true at the last index at the latest
    return float(a[:rho] @ a[:rho] + tails[rho] * shares[rho])


def k_support_prox(m: Vector, order: int, beta: float) -> tuple[Vector, Vector]:
    """x that minimises Σ(m_i − x_i)² + beta·k_support_squared(x, order), and the weights t of its variational form.

    x_i = m_i t_i/(t_i + beta) with t_i = clip(α m_i − beta, 0, 1) and α such that Σ t_i = order [Pal20 Thm. 2.7].
    Σ t grows with α and is linear between the points where an entry leaves 0 or reaches 1. Two binary searches over
    those points, with sums prepared once, find the piece; within it α is a quotient.
    """
    m = np.asarray(m, dtype=np.float64)
    size = np.abs(m)
    if beta == 0 or np.count_nonzero(size) <= order:
        t = (size > 0).astype(np.float64)
        return m / (1.0 + beta), t
    size = size / size.max()
    t = np.clip(_alpha(np.sort(size)[::-1], order, beta) * size - beta, 0.0, 1.0)
    return m * (t / (t + beta)), t


def _alpha(a: Vector, order: int, beta: float) -> float:
    """The α at which Σ clip(α a_i − beta, 0, 1) = order; a falls from 1 and has more than ``order`` entries > 0."""
    a = a[: np.count_nonzero(a)]
    tails = np.append(_tails(a), 0.0)  # summed from the small end: differences of neighbours stay exact
    rising = a[::-1]

    def total(alpha: float) -> float:
        ones = len(a) - int(np.searchsorted(rising, (1 + beta) / alpha, side="left"))
        some = len(a) - int(np.searchsorted(rising, beta / alpha, side="right"))
        return ones + alpha * float(tails[ones] - tails[some]) - beta * (some - ones)

    def count(level: float) -> int:
        """How many entries have reached ``level`` (beta: left 0; 1 + beta: arrived at 1) by the α we look for."""
        low, high = 0, len(a)
        while low < high:
            middle = (low + high) // 2
            if total(level / a[middle]) <= order:
                low = middle + 1
            else:
                high = middle
        return low

    ones, some = count(1 + beta), count(beta)
    between = float(a[ones:some].sum())
    if between == 0:  # whole entries only: any α of the flat piece
        return float((1 + beta) / a[ones - 1])
    return float((order - ones + beta * (some - ones)) / between)


def _tails(a: Vector) -> Vector:
    """Σ_{j ≥ i} a_j for each i."""
    return np.asarray(np.cumsum(a[::-1])[::-1])
