"""What noise in the hidden layer of a linear net does to singular values: the squared k-support norm and its prox.

Everything works on vectors of non-negative singular values in float64, in any order, and costs one sort.
"""

import numpy as np

from offdiag.solvers import Doubles


def k_support_squared(a: Doubles, order: int) -> float:
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
    rho = int(np.argmax(shares >= a[:order]))  # always true at the last index
    return float(a[:rho] @ a[:rho] + tails[rho] * shares[rho])


def k_support_prox(m: Doubles, order: int, beta: float) -> tuple[Doubles, Doubles]:
    """x that minimises Σ(m_i − x_i)² + beta·k_support_squared(x, order), and the weights t of its variational form.

    x_i = m_i t_i/(t_i + beta) with t_i = clip(beta·(m_i − c)/c, 0, 1) and c such that Σ t_i = order [Pal20 Thm. 2.7].
    Σ t falls with c, and between the points where an entry reaches 0 or leaves 1 it is linear in 1/c. Two binary
    searches over those points, with sums prepared once, find the piece; within it c is a quotient.
    """
    m = np.asarray(m, dtype=np.float64)
    size = np.abs(m)
    if beta < 1e-300 or np.count_nonzero(size) <= order:
        t = (size > 0).astype(np.float64)
        return m / (1.0 + beta), t
    size = np.ldexp(size, -int(np.frexp(size.max())[1]))  # to at most 1, by a power of 2: exact
    a = np.sort(size)[::-1]
    ones, some = _piece(a, order, beta)
    seen = set()
    while (ones, some) not in seen:  # once, or a few times if rounding misplaced the piece
        seen.add((ones, some))
        if ones == some:  # whole entries only
            if beta * (a[order - 1] - a[order]) >= a[order]:
                t = (size >= a[order - 1]).astype(np.float64)
                return m * (t / (t + beta)), t
            ones, some = order - 1, order + 1  # a tie, or nearly one, hidden by 1 + 1/beta = 1: they share
            seen.add((ones, some))
        c, least, shift = _level(a[ones:some], order - ones, beta)
        t = _weights(a, c, least, shift, beta)
        ones, some = min(int(np.count_nonzero(t == 1)), order), int(np.count_nonzero(t))
        if (ones, some) in seen and abs(t.sum() - order) > 1e-9 * order:  # pieces that point at each other: take both
            ones, some = min(first for first, _ in seen), max(last for _, last in seen)
    t = _weights(size, c, least, shift, beta)
    return m * (t / (t + beta)), t


def _weights(a: Doubles, c: float, least: float, shift: float, beta: float) -> Doubles:
    """clip(beta·(a − c)/c, 0, 1) where c = least + shift."""
    with np.errstate(over="ignore"):
        return np.clip(beta * (((a - least) - shift) / c), 0.0, 1.0)


def _level(a: Doubles, rest: int, beta: float) -> tuple[float, float, float]:
    """c with Σ beta·(a_i − c)/c = rest, the smallest of a, and c minus it.

    With a large beta all of a lie close to c: from c, a − c would be rounding error; from differences it is exact.
    """
    least = float(a[-1])
    above = float(np.sum(a - least))
    b, s = beta / (1 + beta), rest / (1 + beta)  # neither overflows
    total = s + b * len(a)
    return b * float(np.sum(a)) / total, least, (b * above - s * least) / total


def _piece(a: Doubles, order: int, beta: float) -> tuple[int, int]:
    """How many entries have t = 1 and how many t > 0; a falls, is at most 1 and has more than ``order`` entries > 0."""
    a = a[: np.count_nonzero(a)]
    tails = np.append(_tails(a), 0.0)  # summed from the small end: differences of neighbours stay exact
    rising = a[::-1]

    def total(c: float) -> float:
        if c == 0:
            return len(a)
        ones = len(a) - int(rising.searchsorted(c * ((1 + beta) / beta)))
        some = len(a) - int(rising.searchsorted(c, "right"))
        return ones + beta * (float(tails[ones] - tails[some]) / c - (some - ones))

    def count(share: float) -> int:
        """How many entries times ``share`` (1: t has left 0; beta/(1 + beta): t is 1) exceed the wanted c."""
        low, high = 0, len(a)
        while low < high:
            middle = (low + high) // 2
            if total(float(a[middle]) * share) <= order:
                low = middle + 1
            else:
                high = middle
        return low

    some = count(1.0)
    return min(count(beta / (1 + beta)), order, some), some


def _tails(a: Doubles) -> Doubles:
    """Σ_{j ≥ i} a_j for each i."""
    return np.asarray(np.cumsum(a[::-1])[::-1])


def denoised(time: float, start: float, eigenvalue: Doubles, noise: float) -> Doubles:
    """w(t) of a linear denoising net with equal layers, from w(0) = start > 0 [Pretorius18 sec. B, equal weights].

    w*/((1 − e) + e·w*/start) with e = exp(−2λt) and the fixed point w* = λ/(λ + noise); time in units of τ.
    """
    moving = eigenvalue > 0
    goal = eigenvalue / np.where(moving, eigenvalue + noise, 1.0)
    exponent = -2.0 * eigenvalue * time
    below = -np.expm1(exponent) + np.exp(exponent) * goal / start
    # λ = 0 gives w' = −2·noise·w², a slow decay that never reaches 0
    return np.where(moving, goal / np.where(moving, below, 1.0), start / (1 + 2 * noise * start * time))
