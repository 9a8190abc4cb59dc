"""One direction of a linear autoencoder: how its weight grows, where it converges, how large a step may be.

The closed forms behind ``lab.dynamics``, which re-exports them all and defines the symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offdiag.errors import OffdiagError
from offdiag.lab import checks
from offdiag.lab.checks import Matrix

_STEEP = 1e12  # for larger starts the integrator loses digits and does not converge
_PATIENCE = 200_000  # evaluations of the slope per integration; ordinary ones take a few thousand
_TINY = 1e-60  # starts below this first grow by the linear part of the equations, which dominates there


@np.errstate(over="ignore", under="ignore", invalid="ignore")  # exp(−∞) = 0 is intended; NaN is rejected at the end
def dae(t: Any, w1: Any, w2: Any, eigenvalue: Any, noise: Any, tau: Any) -> Any:
    """w(t) = w1(t)·w2(t) of the denoising autoencoder from any start; ``noise=0`` is the plain autoencoder.

    The same curve as [Pretorius18 Eq. 5], written as a quotient of sums whose terms do not cancel: it neither
    overflows when λt/τ is large nor loses digits when w1² and w2² are nearly or exactly equal.

    Example:
        >>> od.lab.dynamics.dae([0, 1e3], w1=0.1, w2=0.1, eigenvalue=4.0, noise=1.0, tau=10.0).round(6)
        array([0.01, 0.8 ])
    """
    t, w1, w2, lam, eps, tau = arrays(t=t, w1=w1, w2=w2, eigenvalue=eigenvalue, noise=noise, tau=tau)
    L = lam + eps
    time = t / tau
    time, w1, w2 = _grow_tiny_starts(time, w1, w2, lam)
    w0 = w1 * w2
    size = np.abs(w0)
    c0 = np.abs((w2 - w1) * (w2 + w1))  # w2² − w1² never changes
    lz = np.hypot(c0 * L, 2 * lam)
    at_rest = lz == 0
    a = np.where(at_rest, 1.0, 2 * lam / np.where(at_rest, 1, lz))
    b = np.where(at_rest, 0.0, c0 * L / np.where(at_rest, 1, lz))  # a² + b² = 1
    e = np.exp(-lz * time)
    phi = _integral(lz, time)  # (1 − e)/lz
    h = np.hypot(c0, 2 * size)
    k = c0 + h
    nothing = k == 0  # w1 = w2 = 0 stays there
    k = np.where(nothing, 1.0, k)
    x = 2 * size / k  # |tanh(θ₀/2)|
    r = 1 + c0 / np.where(nothing, 1, h + 2 * size)  # so that 1 − x = c0·r/k and k − 2|w0| = c0·r, without cancellation
    less = c0 / k * r  # 1 − x; before any product with c0, which may be as large as 1e200
    P = a**2 / (1 + b) + e * (1 + b)  # (1 + e) − (1 − e)·b, as lz > c0·L
    Q = b**2 / (1 + a) + e * (1 + a)  # (1 + e) − (1 − e)·a, as lz > 2λ
    up = (2 * lam * phi * k + 2 * size * P) / (phi * L * (k + 2 * size) + r * Q)
    up *= (phi * (c0 * L + 2 * lam * x) + 1 + e) / (phi * (c0 * L * less + 2 * lam * (1 + x)) + (1 + e) * (1 + x))
    # From w0 < 0 the curve crosses 0, unless c0 = 0: then b = 0 and it only gets close; 2ab/(1 + a + b) = a + b − 1.
    down = c0 * r * 2 * lam * phi + 2 * size * (2 * a * b / (1 + a + b) - e * (1 + a + b))
    down /= phi * (L * (k + 2 * size) + 2 * lam * r) + (1 + e) * r
    below = phi * c0 * L * less + (1 + x) * Q
    share = (phi * c0 * L + x * Q + less * (1 + e)) / np.where(below > 0, below, 1)
    down *= np.where(below > 0, share, 0.0)  # at c0 = 0 all terms underflow together when t is large
    return _float_or_array(np.where(nothing, 0.0, np.where(w0 < 0, down, up)))


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")  # 1/0 = ∞ makes w(t) = 0, as it should
def wdae(t: Any, w: Any, eigenvalue: Any, decay: Any, tau: Any) -> Any:
    """w(t) under weight decay from a balanced start: w1 = w2 = √w, or w1 = −w2 = √|w| when w < 0.

    [Pretorius18 Eq. 7] with λ in the exponent, missing in the printed formula: E = exp(2λξt/τ), ξ = 1 − Nγ/λ. For
    unequal starts there is no closed form; ``simulate`` integrates.

    Example:
        >>> od.lab.dynamics.wdae([0, 1e3], w=0.01, eigenvalue=4.0, decay=1.0, tau=10.0).round(6)
        array([0.01, 0.75])
    """
    t, w, lam, d, tau = arrays(t=t, w=w, eigenvalue=eigenvalue, decay=decay, tau=tau)
    # Opposite weights pull each other to 0: |w| obeys the same equation with λ + Nγ as its rate of decay.
    rate = np.where(w < 0, -(lam + d), lam - d)
    time = 2 * t / tau
    e = np.exp(-np.abs(rate) * time)
    phi = _integral(np.abs(rate), time)
    size = np.abs(w)
    grows = 1 / (e / np.where(size > 0, size, 1) + lam * phi)
    shrinks = size * e / (1 + lam * size * phi)
    return _float_or_array(np.sign(w) * np.where(size == 0, 0.0, np.where(rate > 0, grows, shrinks)))


def dae_fixed_point(eigenvalue: Any, noise: Any) -> Any:
    """λ/(λ + ε), the limit of a denoising autoencoder [Pretorius18 sec. E]; 0 for a direction without variance.

    Example:
        >>> od.lab.dynamics.dae_fixed_point(4.0, noise=1.0)
        0.8
    """
    lam, eps = arrays(eigenvalue=eigenvalue, noise=noise)
    return _float_or_array(_ratio(lam, lam + eps))


def wdae_fixed_point(eigenvalue: Any, decay: Any) -> Any:
    """max(0, 1 − Nγ/λ): weight decay switches off directions with λ ≤ Nγ [Pretorius18 sec. E, with Nγ for γ].

    Example:
        >>> od.lab.dynamics.wdae_fixed_point([4.0, 0.5], decay=1.0)
        array([0.75, 0.  ])
    """
    lam, d = arrays(eigenvalue=eigenvalue, decay=decay)
    return _float_or_array(_ratio(np.maximum(lam - d, 0), lam))


def equivalent_decay(eigenvalue: Any, noise: Any) -> Any:
    """The Nγ with the same fixed point as noise ε, λε/(λ + ε): different for each λ [Pretorius18 sec. E, Nγ for γ].

    Example:
        >>> od.lab.dynamics.equivalent_decay(4.0, noise=1.0)
        0.8
    """
    lam, eps = arrays(eigenvalue=eigenvalue, noise=noise)
    return _float_or_array(lam * _ratio(eps, lam + eps))


def dae_learning_rate(eigenvalue: Any, noise: Any, samples: Any = 1) -> Any:
    """α = N/(2λ + 3ε): one over the curvature at w1 = w2 = 1 [Pretorius18 Eq. 8, where τ must be read as N].

    Conservative: on a balanced path up from 0 the curvature stays below 2λ/N, its value at the fixed point.

    Example:
        >>> od.lab.dynamics.dae_learning_rate(3.5, noise=1.0, samples=100)
        10.0
    """
    lam, eps, n = arrays(eigenvalue=eigenvalue, noise=noise, samples=samples)
    return _float_or_array(_ratio(n, 2 * lam + 3 * eps, otherwise=np.inf))


def wdae_learning_rate(eigenvalue: Any, decay: Any, samples: Any = 1) -> Any:
    """α = N/(2λ + Nγ), the same for weight decay [Pretorius18 Eq. 8, with Nγ for γ].

    Example:
        >>> od.lab.dynamics.wdae_learning_rate(4.5, decay=1.0, samples=100)
        10.0
    """
    lam, d, n = arrays(eigenvalue=eigenvalue, decay=decay, samples=samples)
    return _float_or_array(_ratio(n, 2 * lam + d, otherwise=np.inf))


def learning_rate_ratio(eigenvalue: Any, noise: Any, decay: Any) -> Any:
    """R = (2λ + Nγ)/(2λ + 3ε), the DAE's rate over the WDAE's [Pretorius18 sec. D, with Nγ for γ].

    Example:
        >>> od.lab.dynamics.learning_rate_ratio(3.5, noise=1.0, decay=1.0)
        0.8
    """
    lam, eps, d = arrays(eigenvalue=eigenvalue, noise=noise, decay=decay)
    return _float_or_array(_ratio(2 * lam + d, 2 * lam + 3 * eps, otherwise=np.inf))


def dae_hessian(w1: Any, w2: Any, eigenvalue: Any, noise: Any, tau: Any) -> Matrix:
    """(…, 2, 2): second derivatives of λ/2τ·(1 − w)² + ε/2τ·w² by w1 and w2 [Pretorius18 sec. D].

    Example:
        >>> od.lab.dynamics.dae_hessian(1, 1, eigenvalue=4.0, noise=1.0, tau=1.0).tolist()
        [[5.0, 6.0], [6.0, 5.0]]
    """
    w1, w2, lam, eps, tau = arrays(w1=w1, w2=w2, eigenvalue=eigenvalue, noise=noise, tau=tau)
    L = lam + eps
    mixed = 2 * w1 * w2 * L - lam
    return _two_by_two(w2**2 * L / tau, mixed / tau, w1**2 * L / tau)


def wdae_hessian(w1: Any, w2: Any, eigenvalue: Any, decay: Any, tau: Any) -> Matrix:
    """(…, 2, 2): second derivatives of λ/2τ·(1 − w)² + Nγ/2τ·(w1² + w2²) by w1 and w2 [Pretorius18 sec. D].

    Example:
        >>> od.lab.dynamics.wdae_hessian(1, 1, eigenvalue=4.0, decay=1.0, tau=1.0).tolist()
        [[5.0, 4.0], [4.0, 5.0]]
    """
    w1, w2, lam, d, tau = arrays(w1=w1, w2=w2, eigenvalue=eigenvalue, decay=decay, tau=tau)
    mixed = 2 * w1 * w2 * lam - lam
    return _two_by_two((w2**2 * lam + d) / tau, mixed / tau, (w1**2 * lam + d) / tau)


def dae_time(fraction: Any, w: Any, eigenvalue: Any, noise: Any, tau: Any) -> Any:
    """Steps until w(t) is that fraction of its fixed point, from w1 = w2 = √w; inf if it never gets there.

    In [Pretorius18 sec. B] with c0 = 0: τ/2λ·ln(w_f (w* − w0)/(w0 (w* − w_f))), for a start below or above.

    Example:
        >>> round(od.lab.dynamics.dae_time(0.5, w=0.01, eigenvalue=4.0, noise=1.0, tau=10.0), 3)
        5.462
    """
    fraction, w, lam, eps, tau = arrays(fraction=fraction, w=w, eigenvalue=eigenvalue, noise=noise, tau=tau)
    return _float_or_array(_time(fraction, w, _ratio(lam, lam + eps), 2 * lam / tau))


def wdae_time(fraction: Any, w: Any, eigenvalue: Any, decay: Any, tau: Any) -> Any:
    """The same under weight decay: τ/2(λ − Nγ)·ln(…) [Pretorius18 sec. C]; inf where the direction is switched off.

    Example:
        >>> round(od.lab.dynamics.wdae_time(0.5, w=0.01, eigenvalue=4.0, decay=1.0, tau=10.0), 3)
        7.173
    """
    fraction, w, lam, d, tau = arrays(fraction=fraction, w=w, eigenvalue=eigenvalue, decay=decay, tau=tau)
    gain = np.maximum(lam - d, 0)
    return _float_or_array(_time(fraction, w, _ratio(gain, lam), 2 * gain / tau))


def simulate(
    t: Any, w1: float, w2: float, eigenvalue: float, *, noise: float = 0.0, decay: float = 0.0, tau: float
) -> tuple[Matrix, Matrix]:
    """w1(t) and w2(t) by numerical integration (LSODA), noise and decay together, for any start and one mode.

    Meant for the case without a closed form, weight decay from unequal weights; errors are near 1e-10. Starts are
    at most 1e12.

    Example:
        >>> w1, w2 = od.lab.dynamics.simulate(1e3, w1=0.1, w2=0.3, eigenvalue=4.0, decay=1.0, tau=10.0)
        >>> (w1 * w2).round(6)
        array([0.75])
    """
    from scipy.integrate import solve_ivp

    t = np.atleast_1d(arrays(t=t)[0])
    start = [one(w1=w1), one(w2=w2)]
    lam, eps, d, tau = one(eigenvalue=eigenvalue), one(noise=noise), one(decay=decay), one(tau=tau)
    if t.ndim != 1 or not len(t) or (np.diff(t) < 0).any():
        raise OffdiagError(
            f"t must be one time or a list of times in rising order, received shape {t.shape}; sort them first"
        )
    if max(map(abs, start)) > _STEEP:
        raise OffdiagError(
            f"w1 and w2 must be at most {_STEEP:g} in size to be integrated, received {start[0]:g} and {start[1]:g}; "
            "start nearer to 0"
        )
    evaluations = 0

    def slope(_: float, w: Matrix) -> list[float]:
        nonlocal evaluations
        evaluations += 1
        if evaluations > _PATIENCE:
            raise OffdiagError(
                f"the integration took more than {_PATIENCE} steps and was stopped; give an earlier last time, a "
                "larger tau or a smaller start"
            )
        pull = lam - w[0] * w[1] * (lam + eps)
        return [(w[1] * pull - d * w[0]) / tau, (w[0] * pull - d * w[1]) / tau]

    if t[-1] == 0:
        return np.full(t.shape, start[0]), np.full(t.shape, start[1])
    found = solve_ivp(slope, (0.0, float(t[-1])), start, method="LSODA", t_eval=t, rtol=1e-11, atol=1e-14)
    if not found.success:
        raise OffdiagError(f"the integration stopped ({found.message}); give an earlier last time or a larger tau")
    return found.y[0], found.y[1]


def _grow_tiny_starts(time: Matrix, w1: Matrix, w2: Matrix, lam: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Starts so small that their products would underflow, moved along w1 ± w2 ∝ exp(±λt/τ) towards 1e-60."""
    largest = np.maximum(np.abs(w1), np.abs(w2))
    tiny = (largest < _TINY) & (largest > 0) & (lam > 0)
    if not tiny.any():
        return time, w1, w2
    log_growth = np.where(tiny, np.log(_TINY / np.where(tiny, largest, _TINY)), 0)
    log_growth = np.minimum(log_growth, lam * time)
    up, down = (w1 + w2) / 2 * np.exp(log_growth), (w1 - w2) / 2 * np.exp(-log_growth)
    left = np.maximum(time - log_growth / np.where(lam > 0, lam, 1), 0)
    return np.where(tiny, left, time), np.where(tiny, up + down, w1), np.where(tiny, up - down, w2)


def _integral(rate: Matrix, time: Matrix) -> Matrix:
    """∫₀^time exp(−rate·s) ds, which is (1 − e)/rate, also for rates near 0."""
    z = rate * time
    small = z < 1e-16
    return np.where(small, time, -np.expm1(-z) / np.where(small, 1, rate))


def _time(fraction: Matrix, w: Matrix, end: Matrix, rate: Matrix) -> Matrix:
    goal = fraction * end
    reached = (w > 0) & (rate > 0) & ((w - goal) * (goal - end) >= 0) & (goal > 0) & (goal != end)
    w, goal, end, rate = (np.where(reached, v, u) for v, u in ((w, 1.0), (goal, 1.0), (end, 2.0), (rate, 1.0)))
    return np.where(reached, np.log(goal * (end - w) / (w * (end - goal))) / rate, np.inf)


def _ratio(top: Matrix, bottom: Matrix, otherwise: float = 0.0) -> Matrix:
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1), otherwise)


def _two_by_two(first: Matrix, mixed: Matrix, second: Matrix) -> Matrix:
    first, mixed, second = np.broadcast_arrays(first, mixed, second)
    return np.stack([np.stack([first, mixed], axis=-1), np.stack([mixed, second], axis=-1)], axis=-2)


_FREE = {"w", "w1", "w2"}  # may be negative


def arrays(**values: Any) -> list[Matrix]:
    """Finite float64 arrays of one shape; all but the weights must be ≥ 0, tau and samples > 0."""
    found = []
    for name, value in values.items():
        array = checks.numbers(value, name, "a number or an array", largest=np.inf)
        if name in ("tau", "samples") and (array <= 0).any():
            raise OffdiagError(f"{name} must be above 0, received {array.min():g}")
        if name in _FREE and (np.abs(array) > 1e100).any():
            raise OffdiagError(f"{name} must be at most 1e100 in size, received {np.abs(array).max():g}")
        if name not in _FREE and (array < 0).any():
            raise OffdiagError(f"{name} must be at least 0, received {array.min():g}")
        found.append(array)
    try:
        return list(np.broadcast_arrays(*found))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(values, found, strict=True))
        raise OffdiagError(f"shapes that broadcast are needed, received {shapes}; add axes of length 1") from None


def one(**value: Any) -> float:
    """A single number, with the same checks."""
    (found,) = arrays(**value)
    if found.ndim:
        raise OffdiagError(f"{next(iter(value))} must be one number here, received shape {found.shape}")
    return float(found)


def _float_or_array(values: Matrix) -> Any:
    """A float for numbers, an array for arrays."""
    if np.isnan(values).any():
        raise OffdiagError(
            "these numbers are too large, or too far apart, for float64; scale them, times and tau alike"
        )
    return float(values) if values.ndim == 0 else values
