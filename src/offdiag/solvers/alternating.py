"""The two steps of low-rank emphasised denoising, for any emphasis, from products G @ V alone.

Problem   J(U, V) = tr G − 2 tr(G B') + tr(B'ᵀ H B') + Σ extra_i β_i² + 2 Σ eta_i β_i with B = U Vᵀ, β = diag(B),
          B' = B − t·diag(β), H = G + diag(Λ): the expectation over all masks [Steck20 Eq. 6]; t = 1 and the rest 0 is
          [Steck20 Eq. 10].
V-step    exact for all rows at once: with UᵀHU = I, row i is a combination of u_i and (HU)_i (docs/models.md).
U-step    one preconditioned conjugate-gradient step, its length from an exact line search; J never rises.
Cost      two products and O(mk²) per iteration; U Vᵀ and anything m×m are never formed; J costs nothing extra.
"""

from dataclasses import dataclass, field

import numpy as np

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.solvers import Doubles, Floats
from offdiag.solvers.blas import product
from offdiag.solvers.products import Product
from offdiag.solvers.subspace import whitener

RELAX = 1.5  # times the exact step for U: V follows, so a longer step is better; below 2, J still cannot rise


@dataclass(frozen=True, eq=False)
class Problem:
    """The quadratic family: a share ``t`` of the diagonal is left out of the fit; ``extra`` and ``eta`` add to it."""

    product: Product
    lam: Doubles
    t: float
    extra: Doubles
    eta: Doubles  # 2·eta_i β_i is added to J: multipliers of a constraint on the diagonal
    h: Doubles = field(init=False)
    kappa: Doubles = field(init=False)  # curvature of J in β_i
    rho: Doubles = field(init=False)  # (G − …)U = HU − rho∘U is the linear term of the V-step

    def __post_init__(self) -> None:
        g = self.product.g
        object.__setattr__(self, "h", g + self.lam)
        object.__setattr__(self, "kappa", self.t**2 * self.h + self.extra)
        object.__setattr__(self, "rho", self.lam + self.t * g + self.eta)

    @property
    def total(self) -> float:
        return float(self.product.g.sum())

    def times_h(self, V: Floats) -> Floats:
        return add_rows(self.product(V), self.lam, V)


@dataclass(frozen=True, eq=False)
class State:
    """An iterate: UᵀHU = I, V the exact optimum for U, and J there."""

    U: Floats
    HU: Floats
    V: Floats
    J: float


def v_step(problem: Problem, U: Floats, HU: Floats) -> State:
    """The exact optimum over V, and U rescaled so that UᵀHU = I.

    Row i minimises vᵀP_i v − 2 r·v with P_i = I − t(u wᵀ + w uᵀ) + κ u uᵀ, r = w − ρ u, w = (HU)_i: it lies in the span
    of u and w, and the remaining 2×2 system has the solution below.
    """
    A = whitener(product(U, HU, transposed=True), 100 * float(np.finfo(U.dtype).eps))
    lost = np.zeros((A.shape[0], A.shape[0] - A.shape[1]))  # directions that U has lost: zero columns
    A = np.ascontiguousarray(np.hstack([A, lost]), dtype=U.dtype)
    U, HU = product(U, A), product(HU, A)
    t, kappa, rho = problem.t, problem.kappa, problem.rho
    al, be, ze = row_dots(U, U), row_dots(U, HU), row_dots(HU, HU)
    det = (1 - t * be) ** 2 + al * (kappa - t * t * ze)
    on_w = 1 - t * be + al * (kappa - t * rho)
    on_u = t * ze - rho * (1 - t * be) - be * kappa
    sound = det > 1e3 * np.finfo(U.dtype).eps * ((1 - t * be) ** 2 + al * (kappa + t * t * ze))
    safe = np.where(sound, det, 1.0)
    on_w, on_u = on_w / safe, on_u / safe
    for i in np.flatnonzero(~sound):  # without row i, U loses a direction: use the shortest optimal v
        on_w[i], on_u[i] = _shortest(al[i], be[i], ze[i], t, kappa[i], rho[i], float(np.finfo(U.dtype).eps))
    V = combine_rows(on_w, HU, on_u, U)
    uv, wv = on_w * be + on_u * al, on_w * ze + on_u * be
    vv = on_w * wv + on_u * uv
    value = 2 * (wv - rho * uv) - (vv - 2 * t * uv * wv + kappa * uv**2)
    return State(U, HU, V, problem.total - float(value.sum()))


def value(problem: Problem, U: Floats, V: Floats) -> float:
    """J of any factors."""
    HU = problem.times_h(U)
    uv, wv, S = row_dots(U, V), row_dots(HU, V), product(U, HU, transposed=True)
    quadratic = row_dots(product(V, S), V) - 2 * problem.t * uv * wv + problem.kappa * uv**2
    return problem.total - float((2 * (wv - problem.rho * uv) - quadratic).sum())


def _shortest(al: float, be: float, ze: float, t: float, kappa: float, rho: float, eps: float) -> tuple[float, float]:
    """Coefficients of w and u of the least-norm solution of the singular 2×2 system, in an orthonormal basis."""
    if al <= 0 or ze <= 0:
        return (1.0, 0.0) if al <= 0 else (0.0, 0.0)
    a, b = np.sqrt(al), be / np.sqrt(al)
    c = np.sqrt(max(ze - b * b, 0.0))
    K = np.array([[1 + kappa * al - 2 * t * be, -t * a * c], [-t * a * c, 1.0]])
    y = np.linalg.pinv(K, rcond=1e4 * eps, hermitian=True) @ np.array([b - rho * a, c])
    on_w = y[1] / c if c > 1e3 * eps * np.sqrt(ze) else 0.0
    return float(on_w), float((y[0] - on_w * b) / a)


def u_step(problem: Problem, state: State, *, refresh: bool = False) -> tuple[Floats, Floats]:
    """One conjugate-gradient step for U at fixed V, ``RELAX`` times the exact length; returns U and HU.

    The gradient is −2R; the preconditioner R (VᵀV)⁻¹/h is the exact inverse when H is diagonal and t = 0.
    """
    U, HU, V = state.U, state.HU, state.V
    t, dtype = problem.t, U.dtype
    beta, omega = row_dots(U, V), row_dots(HU, V)
    S = product(V, V, transposed=True)
    R = problem.times_h(V * (1 + t * beta).astype(dtype)[:, None])
    product(HU, S, alpha=-1, add_to=R)
    add_rows(R, -(problem.rho + problem.extra * beta - t * (omega - t * problem.h * beta)), V)
    A = whitener(S, 100 * float(np.finfo(dtype).eps))
    P = product(R, (A @ A.T).astype(dtype))  # (VᵀV)⁻¹ where it is not negligible, 0 elsewhere
    P *= (1 / problem.h).astype(dtype)[:, None]
    HP = problem.times_h(P)
    along = float(row_dots(P, R).sum())
    bp, op = row_dots(P, V), row_dots(HP, V)
    curvature = float(
        (product(P, HP, transposed=True).astype(np.float64) * S).sum() - 2 * t * (bp @ op) + problem.kappa @ bp**2
    )
    step = dtype.type(RELAX * along / curvature if curvature > 0 and np.isfinite(along) else 0.0)
    P *= step
    P += U
    if refresh:
        return P, problem.times_h(P)
    HP *= step
    HP += HU
    return P, HP


def solve_h(problem: Problem, b: Floats, tolerance: float) -> Floats:
    """H⁻¹ b, all columns at once, by conjugate gradients with the diagonal as preconditioner."""
    inverse = (1 / problem.h).astype(b.dtype)[:, None]
    x, r = np.zeros_like(b), b.copy()
    z = r * inverse
    p, gamma = z.copy(), np.einsum("ij,ij->j", r, z, dtype=np.float64)
    goal = tolerance**2 * gamma
    for _ in range(100):
        q = problem.times_h(p)
        step = (gamma / np.maximum(np.einsum("ij,ij->j", p, q, dtype=np.float64), 1e-300)).astype(b.dtype)
        x += step * p
        r -= step * q
        z = r * inverse
        before, gamma = gamma, np.einsum("ij,ij->j", r, z, dtype=np.float64)
        if (gamma <= goal).all():
            break
        p = z + (gamma / np.maximum(before, 1e-300)).astype(b.dtype) * p
    return x


def row_dots(A: Floats, B: Floats) -> Doubles:
    """A[i]·B[i] for every i, in float64."""
    out = np.empty(len(A))
    parallel.run_parallel(_kernels.embeddings.row_dots, [(A, B, out, lo, hi) for lo, hi in _ranges(A)])
    return out


def add_rows(out: Floats, d: Doubles, V: Floats) -> Floats:
    """out += d∘V, in place."""
    d = d.astype(out.dtype)
    parallel.run_parallel(_kernels.embeddings.add_scaled_rows, [(out, d, V, lo, hi) for lo, hi in _ranges(out)])
    return out


def combine_rows(a: Doubles, A: Floats, b: Doubles, B: Floats) -> Floats:
    """a∘A + b∘B."""
    out, a, b = np.empty_like(A), a.astype(A.dtype), b.astype(A.dtype)
    parallel.run_parallel(_kernels.embeddings.combine_rows, [(a, A, b, B, out, lo, hi) for lo, hi in _ranges(A)])
    return out


def _ranges(A: Floats) -> list[tuple[int, int]]:
    return parallel.ranges(len(A), parallel.n_threads() if A.size > 1 << 22 else 1)  # small ones need no thread
