"""Slow and obviously correct twins of the low-rank solvers: B = U Vᵀ is formed, systems follow from the definition.

Everything is dense float64. J and its gradient come from ``tests.laws.oracles``; nothing here knows the algebra that
makes the solvers fast.
"""

import numpy as np
from scipy.optimize import minimize

from tests.laws import oracles


def objective(G, U, V, dropout, l2, b):
    """J of B = U Vᵀ."""
    return oracles.objective(G, wide(U) @ wide(V).T, dropout, l2, b)


def gradients(G, U, V, dropout, l2, b):
    """dJ/dU = (dJ/dB) V and dJ/dV = (dJ/dB)ᵀ U."""
    U, V = wide(U), wide(V)
    E = oracles.gradient(G, U @ V.T, dropout, l2, b)
    return E @ V, E.T @ U


def decay_objective(G, U, V, l2):
    """‖X − X U Vᵀ‖² + l2 (‖U‖² + ‖V‖²)."""
    U, V = wide(U), wide(V)
    R = np.eye(len(G)) - U @ V.T
    return np.trace(R.T @ G @ R) + l2 * ((U**2).sum() + (V**2).sum())


def decay_gradients(G, U, V, l2):
    U, V = wide(U), wide(V)
    E = -2 * G @ (np.eye(len(G)) - U @ V.T)
    return E @ V + 2 * l2 * U, E.T @ U + 2 * l2 * V


def wide(A):
    return np.asarray(A, dtype=np.float64)


def root(G):
    """R with RᵀR = G: data that has this Gram."""
    values, Q = np.linalg.eigh(G)
    return np.sqrt(np.maximum(values, 0))[:, None] * Q.T


# Many starts of a general optimiser


def many_starts(value, gradient, m, rank, *, starts, seed=0, iterations=400):
    """L-BFGS on (U, V) jointly from starts of several sizes: (best value, all values, U, V)."""
    rng = np.random.default_rng(seed)
    size = m * rank

    def both(flat):
        U, V = flat[:size].reshape(m, rank), flat[size:].reshape(m, rank)
        return value(U, V), np.concatenate([part.ravel() for part in gradient(U, V)])

    found = []
    for i in range(starts):
        scale = (0.1, 0.4, 1.0)[i % 3]
        start = scale * rng.standard_normal(2 * size)
        options = {"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
        found.append(minimize(both, start, jac=True, method="L-BFGS-B", options=options))
    best = min(found, key=lambda f: f.fun)
    U, V = best.x[:size].reshape(m, rank), best.x[size:].reshape(m, rank)
    return float(best.fun), [float(f.fun) for f in found], U, V


def lbfgs(G, rank, dropout, l2, b, *, starts=10, seed=0, iterations=400):
    """The best J over rank-k matrices that a general optimiser finds."""
    return many_starts(
        lambda U, V: objective(G, U, V, dropout, l2, b),
        lambda U, V: gradients(G, U, V, dropout, l2, b),
        len(G), rank, starts=starts, seed=seed, iterations=iterations,
    )  # fmt: skip


def decay_lbfgs(G, rank, l2, *, starts=8, seed=0):
    return many_starts(
        lambda U, V: decay_objective(G, U, V, l2),
        lambda U, V: decay_gradients(G, U, V, l2),
        len(G), rank, starts=starts, seed=seed,
    )  # fmt: skip


# One block at a time


def best_decoder(G, U, dropout, l2, b):
    """The V that minimises J for this U, item by item, each as the least squares problem that J is in v_i.

    Column i of B is U v_i, but its i-th entry counts s times in the fit and has a penalty of its own.
    """
    U = wide(U)
    lam, w = oracles.penalty(G, dropout, l2), dropout + b * (1 - dropout)
    s = b / w if w else 0.0
    X = root(G)
    V = np.zeros_like(U)
    for i in range(len(G)):
        seen = U.copy()
        seen[i] *= s
        weight = lam.copy()
        weight[i] *= b / w**2 if w else 0.0
        design = np.vstack([X @ seen, np.sqrt(weight)[:, None] * U])
        target = np.concatenate([X[:, i], np.zeros(len(G))])
        V[i] = np.linalg.lstsq(design, target, rcond=None)[0]
    return V


def best_encoder(G, V, dropout, l2, b):
    """The U that minimises J for this V: J is quadratic in U, so its gradient at the unit vectors gives the system."""
    V = wide(V)

    def slope(U):
        return gradients(G, U, V, dropout, l2, b)[0].ravel()

    at_zero = slope(np.zeros_like(V))
    A = np.array([slope(e.reshape(V.shape)) - at_zero for e in np.eye(V.size)])
    return np.linalg.lstsq(A.T, -at_zero, rcond=None)[0].reshape(V.shape)


# Closed forms, by another route than the library's


def dlae(G, rank, dropout, l2):
    """(optimum, B): full-rank ridge, truncated by an SVD in the metric of H (Eckart and Young); H may be singular."""
    lam = oracles.penalty(G, dropout, l2)
    design = np.vstack([root(G), np.diag(np.sqrt(lam))])
    target = np.vstack([root(G), np.zeros_like(G)])
    ridge = np.linalg.lstsq(design, target, rcond=None)[0]
    P, sigma, Qt = np.linalg.svd(design @ ridge, full_matrices=False)
    kept = (P[:, :rank] * sigma[:rank]) @ Qt[:rank]
    B = np.linalg.lstsq(design, kept, rcond=None)[0]
    return float(((target - kept) ** 2).sum()), B


def dlae_optimum(G, rank, dropout, l2):
    """tr G − Σ of the k largest eigenvalues of G H⁻¹ G."""
    H = G + np.diag(oracles.penalty(G, dropout, l2))
    values = np.linalg.eigvalsh(G @ np.linalg.pinv(H, hermitian=True) @ G)
    return float(np.trace(G) - np.sort(values)[::-1][:rank].sum())


def decay_optimum(G, rank, l2):
    """‖X − XB‖² + 2·l2·‖B‖_* splits along the eigenvectors of G: min over β ≥ 0 of γ(1 − β)² + 2·l2·β, the k best."""
    values = np.maximum(np.linalg.eigvalsh(G), 0)
    beta = np.array([max(0.0, 1 - l2 / v) if v > 0 else 0.0 for v in values])
    gain = values - (values * (1 - beta) ** 2 + 2 * l2 * beta)
    return float(values.sum() - np.sort(gain)[::-1][:rank].sum())


# Zero diagonal, [Steck20 Eq. 11]
# Its objective is that of kept_weight = 1, under diag(U Vᵀ) = 0.


def zero_objective(G, U, V, dropout, l2):
    return objective(G, U, V, dropout, l2, 1.0)


def kkt_residual(G, U, V, dropout, l2):
    """How far (U, V) is from stationary: min over η of ‖[(E + diag η)V ; (E + diag η)ᵀU]‖ / ‖[GV ; GU]‖, E = HB − G.

    One η must serve both blocks; the alternation of the supplement finds one for each.
    """
    U, V = wide(U), wide(V)
    E = G @ (U @ V.T) + oracles.penalty(G, dropout, l2)[:, None] * (U @ V.T) - G
    blocks = np.hstack([E @ V, E.T @ U])  # row i is affine in η_i alone, along [v_i, u_i]
    along = np.hstack([V, U])
    left = 0.0
    for r, a in zip(blocks, along, strict=True):
        eta = -(r @ a) / (a @ a) if a @ a > 0 else 0.0
        left += float(((r + eta * a) ** 2).sum())
    size = float((G @ V).ravel() @ (G @ V).ravel() + (G @ U).ravel() @ (G @ U).ravel())
    return np.sqrt(left / size) if size > 0 else np.sqrt(left)


def zero_decoder(G, U, dropout, l2):
    """[Steck20-S Eq. 29, 30]: the best V for this U with u_i·v_i = 0; where u_i = 0 that holds anyway."""
    U = wide(U)
    H = G + np.diag(oracles.penalty(G, dropout, l2))
    D = np.linalg.pinv(U.T @ H @ U, hermitian=True)
    reach = np.diag(U @ D @ U.T)
    eta = np.divide(np.diag(U @ D @ U.T @ G), reach, out=np.zeros(len(G)), where=reach > 1e-14 * reach.max(initial=0))
    return (D @ U.T @ (G - np.diag(eta))).T


def zero_encoder(G, V, dropout, l2):
    """[Steck20-S Eq. 31, 32]: the best U for this V with u_i·v_i = 0."""
    V = wide(V)
    C = np.linalg.pinv(G + np.diag(oracles.penalty(G, dropout, l2)), hermitian=True)
    S = np.linalg.pinv(V.T @ V, hermitian=True)
    K = V @ S @ V.T
    eta = np.linalg.lstsq(C * K, np.diag(C @ G @ K), rcond=None)[0]
    return C @ (G - np.diag(eta)) @ V @ S


def published_alternation(G, rank, dropout, l2, *, starts=5, iterations=100, seed=0):
    """(best value, U, V, all final values) of the supplement's alternation from random starts."""
    rng = np.random.default_rng(seed)
    ends = []
    for _ in range(starts):
        U = rng.standard_normal((len(G), rank))
        V = zero_decoder(G, U, dropout, l2)
        for _ in range(iterations):
            U = zero_encoder(G, V, dropout, l2)
            V = zero_decoder(G, U, dropout, l2)
        ends.append((zero_objective(G, U, V, dropout, l2), U, V))
    best = min(ends, key=lambda end: end[0])
    return (*best, [end[0] for end in ends])


def augmented_lagrangian(G, rank, dropout, l2, *, starts=5, rounds=25, seed=0):
    """(best value, U, V, all values): multipliers and a penalty around L-BFGS, made feasible by a last V-step."""
    m, rng, ends = len(G), np.random.default_rng(seed), []
    size = m * rank
    for i in range(starts):
        flat = (0.3, 1.0)[i % 2] * rng.standard_normal(2 * size)
        eta, rho, before = np.zeros(m), np.trace(G) / m, np.inf

        def both(flat, eta, rho):
            U, V = flat[:size].reshape(m, rank), flat[size:].reshape(m, rank)
            diag = np.einsum("ik,ik->i", U, V)
            push = (2 * eta + 2 * rho * diag)[:, None]
            dU, dV = gradients(G, U, V, dropout, l2, 1.0)
            value = zero_objective(G, U, V, dropout, l2) + 2 * eta @ diag + rho * diag @ diag
            return value, np.concatenate([(dU + push * V).ravel(), (dV + push * U).ravel()])

        for _ in range(rounds):
            options = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-8, "maxcor": 20}
            flat = minimize(both, flat, args=(eta, rho), jac=True, method="L-BFGS-B", options=options).x
            diag = np.einsum("ik,ik->i", flat[:size].reshape(m, rank), flat[size:].reshape(m, rank))
            eta = eta + rho * diag
            off = np.abs(diag).max()
            if off < 1e-9:
                break
            rho *= 3 if off > 0.3 * before else 1
            before = off
        U = flat[:size].reshape(m, rank)
        V = zero_decoder(G, U, dropout, l2)
        ends.append((zero_objective(G, U, V, dropout, l2), U, V))
    best = min(ends, key=lambda end: end[0])
    return (*best, [end[0] for end in ends])
