"""The low-rank family B = U Vᵀ, from products G @ V alone: two global closed forms and two minimisers.

Closed    ``dlae`` (reduced-rank regression) and ``weight_decay`` (shrunk eigenvectors): ``subspace.leading``.
Minimised ``edlae`` for any emphasis [Steck20 Eq. 6, 10] and ``zero_diagonal`` [Steck20 Eq. 11]: ``alternating``.
Cost      a start of about a dozen products, then two per iteration; nothing m×m, no inverse.
"""

from dataclasses import dataclass, replace

import numpy as np

from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, Ints, blas, cholesky, precision, shrinkage, spectral, subspace
from offdiag.solvers.alternating import Problem, State, add_rows, combine_rows, row_dots, solve_h, u_step, v_step
from offdiag.solvers.products import Product, check_range
from offdiag.solvers.subspace import tolerance_of
from offdiag.solvers.unattained import unattained

PROBES = 32  # of the estimate of diag(H⁻¹): a few per cent of error, and as good a start as the exact diagonal
REFRESH = 10  # iterations after which HU is recomputed instead of updated
START_TOLERANCE = 1e-4  # of the captured sum
LARGE, LARGE_START_TOLERANCE = 2_000_000, 1e-2  # size of U from which the iterations gain the rest at less cost
STIFFNESS = 10.0  # of the augmented Lagrangian, in units of h: much smaller drifts off at first, much larger is slow
NO_MINIMISER = "no minimiser: a diagonal entry of U Vᵀ grows without bound"


@dataclass(frozen=True, eq=False)
class Factors:
    """B = U Vᵀ and how it was found."""

    U: Floats
    V: Floats
    objective: float
    objectives: list[float]  # after each iteration, never rising
    stopped: str  # "closed form", "converged", "iterations", "interrupted" or NO_MINIMISER
    kkt_residual: float | None = None
    gain: float = 0.0  # of the last round or iteration, relative to what the model explains


def edlae_tolerance(dtype: np.dtype[np.floating]) -> float:
    return max(0.1 * tolerance_of(dtype), 1e-9)


def zero_diagonal_tolerance(dtype: np.dtype[np.floating]) -> float:
    return max(tolerance_of(dtype), 1e-11)


def penalty(product: Product, dropout: float, l2: float) -> Doubles:
    """Λ = p/(1−p)·g + l2 [Steck20 Eq. 4]; 1 for an item without users if both are 0: its row and column stay 0."""
    check_range(product)
    g = product.g
    lam = cholesky.penalties(g, dropout, l2)
    return np.where((g == 0) & (lam == 0), 1.0, lam)


def dlae(
    product: Product,
    rank: int,
    *,
    dropout: float,
    l2: float,
    hidden_dropout: float = 0.0,
    seed: int = 0,
    start: Floats | None = None,
    progress: Progress | None = None,
) -> Factors:
    """The global optimum of ‖X − X U Vᵀ‖² + ‖Λ^½ U Vᵀ‖²: V spans the top eigenvectors of G H⁻¹ G, U = H⁻¹ G V.

    ``hidden_dropout`` also drops each of the k hidden units: the singular values σ of H^(−½)G, which U Vᵀ takes over in
    the metric of H, are shrunk as in [Mianjy18 Thm. 3.6]; the decoder carries the shrinkage.
    """
    lam = penalty(product, dropout, l2)
    _check_regularised(lam, product, dropout)
    found = subspace.leading(
        product, lam, product.g + lam, rank, product.dtype, seed=seed, start=start, progress=progress
    )
    if not found.theta.any():  # θ are squares, so they underflow before the numbers themselves
        raise precision.outweighed(float((lam / product.g)[product.g > 0].min()), product.dtype, dropout)
    root = np.sqrt(found.theta)
    up = root.astype(product.dtype)
    down = np.divide(1, root, where=root > 0, out=np.zeros_like(root)).astype(product.dtype)
    if not hidden_dropout:
        J = float(product.g.sum() - found.theta.sum())
        return Factors(found.X * up, found.NX * down, J, [J], _closed(found.stopped), gain=found.gain)
    kept = shrinkage.k_support_prox(root, 1, hidden_dropout / (1 - hidden_dropout) / rank)[0]
    J = float(product.g.sum() - root @ kept)  # (σ − s)² + β(Σs)² is σ² − σs at the optimum, summed
    share = np.divide(kept, root, where=root > 0, out=np.zeros_like(root)).astype(product.dtype)
    return Factors(found.X * up, found.NX * (down * share), J, [J], _closed(found.stopped), gain=found.gain)


def weight_decay(
    product: Product,
    rank: int,
    *,
    l2: float,
    seed: int = 0,
    start: Floats | None = None,
    progress: Progress | None = None,
) -> Factors:
    """The global optimum of ‖X − X U Vᵀ‖² + l2(‖U‖² + ‖V‖²): eigenvectors of G, shrunk by sqrt(1 − l2/γ)."""
    found = spectral.decompose(product, rank, seed=seed, start=start, progress=progress)
    gamma = found.eigenvalues
    kept = gamma > l2
    share = np.where(kept, 1 - l2 / np.where(kept, gamma, 1.0), 0.0)
    U = found.Q * np.sqrt(share).astype(product.dtype)
    J = float(product.g.sum() - (share**2 * gamma).sum())
    return Factors(U, U.copy(), J, [J], _closed(found.stopped), gain=found.gain)


def edlae(
    product: Product,
    rank: int,
    *,
    dropout: float,
    l2: float,
    kept_weight: float,
    iterations: int,
    starts: int = 1,
    seed: int = 0,
    tolerance: float | None = None,
    start: Floats | None = None,
    progress: Progress | None = None,
) -> Factors:
    """Emphasised denoising of rank k: the best of ``starts`` local minima, the first from the one-shot projection.

    With ``start``, an encoder that is already good: the one local minimum near it.
    """
    if kept_weight == 1:
        return dlae(product, rank, dropout=dropout, l2=l2, seed=seed, start=start, progress=progress)
    problem = emphasised(product, dropout, l2, kept_weight)
    _check_regularised(problem.lam, product, dropout, diagonal=True)
    tolerance = edlae_tolerance(product.dtype) if tolerance is None else tolerance
    if start is not None:
        return _alternate(problem, _completed(problem, start, rank, seed), iterations, tolerance, progress)
    best: Factors | None = None
    for number in range(starts):
        part = _part(progress, number, starts)
        try:
            U, cut = (
                one_shot(problem, rank, kept_weight, seed, part)
                if number == 0
                else (_random(problem, rank, seed + number), False)
            )
            found = _alternate(problem, U, 0 if cut else iterations, tolerance, part)
            if cut:
                found = replace(found, stopped="interrupted")
        except KeyboardInterrupt:
            if best is None:
                raise  # nothing to keep yet
            return replace(best, stopped="interrupted")
        if best is None or found.objective < best.objective:
            best = found
        if found.stopped == "interrupted":
            return replace(best, stopped="interrupted")
    assert best is not None
    return best


def emphasised(product: Product, dropout: float, l2: float, kept_weight: float) -> Problem:
    """J of emphasised denoising; kept_weight=1: of plain denoising, also where the diagonal of U Vᵀ is 0."""
    lam = penalty(product, dropout, l2)
    w = dropout + kept_weight * (1 - dropout)
    s = kept_weight / w if kept_weight else 0.0
    extra = (kept_weight - kept_weight**2) / w**2 * lam if kept_weight else np.zeros(product.m)
    return Problem(product, lam, 1 - s, extra, np.zeros(product.m))


def one_shot(
    problem: Problem, rank: int, kept_weight: float, seed: int, progress: Progress | None
) -> tuple[Floats, bool]:
    """The best rank-k approximation of the full-rank optimum B = I − H⁻¹diag(ν), in the metric of H; its encoder.

    ν needs diag(H⁻¹), which is estimated: the start is nearly as good, and no m×m inverse is computed.
    """
    lam, product = problem.lam, problem.product
    free = np.clip(lam * inverse_diagonal(problem, seed), 1e-12, 1.0)
    nu = lam / (kept_weight + (1 - kept_weight) * free)  # the full-rank solution's column scale; docs/models.md
    shift = lam - nu

    def times(V: Floats) -> Floats:
        return add_rows(product(V), shift, V)

    found = subspace.leading(
        times, nu, problem.h, rank, product.dtype, seed=seed, progress=progress,
        tolerance=START_TOLERANCE if product.m * rank < LARGE else LARGE_START_TOLERANCE,
    )  # fmt: skip
    if found.stopped == "interrupted":
        return found.X, True
    U = found.X
    empty = found.theta <= 0  # the data has fewer directions than requested: the rest starts at random
    if empty.any():
        U[:, empty] = _random(problem, int(empty.sum()), seed)
    return U, False


def inverse_diagonal(problem: Problem, seed: int) -> Doubles:
    """An estimate of diag(H⁻¹), within its exact bounds 1/h ≤ C_ii ≤ 1/Λ: random signs z, mean of z∘(H⁻¹ z)."""
    h, m, dtype = problem.h, problem.product.m, problem.product.dtype
    signs = np.random.default_rng(seed).integers(0, 2, (m, PROBES))
    root = np.sqrt(h).astype(dtype)[:, None]  # probing D^½ H⁻¹ D^½, whose diagonal varies less
    b = (2 * signs - 1).astype(dtype) * root
    x = solve_h(problem, b, 1e-2)
    mean = np.einsum("ij,ij->i", b, x, dtype=np.float64) / PROBES
    return np.asarray(np.clip(mean / h, 1 / h, 1 / np.maximum(problem.lam, 1e-300)))


def _random(problem: Problem, k: int, seed: int) -> Floats:
    """A random start, moved towards the data by one product."""
    product = problem.product
    U = np.random.default_rng(seed).standard_normal((product.m, k), dtype=product.dtype)
    U *= (1 / np.sqrt(problem.h)).astype(product.dtype)[:, None]
    return np.asarray(U + product(U) * (1 / problem.h).astype(product.dtype)[:, None])


def _alternate(problem: Problem, U: Floats, iterations: int, tolerance: float, progress: Progress | None) -> Factors:
    """U-step and V-step in turn until an iteration gains less than ``tolerance`` of what the model explains."""
    state = v_step(problem, U, problem.times_h(U))
    objectives, stopped, gain = [state.J], "iterations", 0.0
    try:
        for iteration in range(iterations):
            if progress:
                progress(f"minimising · objective {state.J:.6g}", iteration / iterations)
            new = v_step(problem, *u_step(problem, state, refresh=iteration % REFRESH == REFRESH - 1))
            gain = state.J - new.J
            if gain > 0:
                state = new  # one assignment: an interruption never leaves half an iterate
            objectives.append(state.J)
            if not gain > tolerance * (problem.total - state.J):
                stopped = "converged"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    if len(objectives) > 1:  # HU was updated incrementally; the result uses a recomputed one
        state = v_step(problem, state.U, problem.times_h(state.U))
        objectives[-1] = state.J
    if stopped != "interrupted" and unattained(problem, state) is not None:
        stopped = NO_MINIMISER
    _finish(progress, state.J, stopped)
    return Factors(state.U, state.V, state.J, objectives, stopped, gain=_relative(gain, problem, state.J))


def zero_diagonal(
    product: Product,
    rank: int,
    *,
    dropout: float,
    l2: float,
    iterations: int,
    seed: int = 0,
    start: tuple[Floats, Floats] | None = None,
    progress: Progress | None = None,
) -> Factors:
    """[Steck20 Eq. 11]: least squares with diag(U Vᵀ) = 0, by an augmented Lagrangian over the same two steps.

    The constraint ties U to V, so plain alternation can stall where neither can move alone; updating multipliers
    avoids that. The last V-step meets the constraint exactly. ``start`` holds factors that are already good;
    the multipliers are computed from them.
    """
    lam = penalty(product, dropout, l2)
    _check_regularised(lam, product, dropout, diagonal=True)
    tolerance = zero_diagonal_tolerance(product.dtype)
    h = product.g + lam
    full_emphasis = Problem(product, lam, 1.0, np.zeros(product.m), np.zeros(product.m))
    eta, gain = np.zeros(product.m), 0.0
    if start is None:
        U, cut = one_shot(full_emphasis, rank, 0.0, seed, progress)
    else:
        eta = _stationarity(product, lam, *start)[0]
        U, cut = _completed(full_emphasis, start[0], rank, seed), False
    problem = Problem(product, lam, 0.0, STIFFNESS * h, eta)
    state = v_step(problem, U, problem.times_h(U))
    best, J = _on_constraint(problem, state)
    objectives, stopped, quiet = [J], "interrupted" if cut else "iterations", 0
    try:
        for iteration in range(0 if cut else iterations):
            if progress:
                progress(f"minimising · objective {objectives[-1]:.6g}", iteration / iterations)
            problem = replace(problem, eta=problem.eta + problem.extra * row_dots(state.U, state.V))
            moved = u_step(problem, state, refresh=iteration % REFRESH == REFRESH - 1)
            state = v_step(problem, *moved)
            before, (candidate, J) = J, _on_constraint(problem, state)
            if objectives[-1] > J:
                best = candidate
            objectives.append(min(J, objectives[-1]))
            off = float(problem.h @ row_dots(state.U, state.V) ** 2)  # the remaining diagonal
            gain = max(abs(before - J), off)
            moving = gain > tolerance * (problem.total - J)
            quiet = 0 if moving else quiet + 1
            if quiet == 3:
                stopped = "converged"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    (U, V), objectives[-1] = _on_constraint(problem, v_step(problem, best[0], problem.times_h(best[0])))
    _finish(progress, objectives[-1], stopped)
    J = objectives[-1]
    return Factors(U, V, J, objectives, stopped, kkt_residual(product, lam, U, V), _relative(gain, problem, J))


def full_rank(product: Product, live: Ints, *, dropout: float, l2: float, kept_weight: float) -> Factors:
    """The full-rank optimum over the items ``live`` as factors of that many columns: U holds B, V the identity."""
    k = len(live)
    lam = penalty(product, dropout, l2)
    units = np.zeros((product.m, k), dtype=product.dtype)
    units[live, np.arange(k)] = 1
    values = layout.pack(np.ascontiguousarray(product(units)[live]))
    solution = cholesky.solve(values, k, dropout=dropout, l2=l2, kept_weight=kept_weight)
    B = layout.unpack(solution.C, k) * solution.scale
    np.fill_diagonal(B, solution.diagonal)
    U = np.zeros_like(units)
    U[live] = B
    residual = kkt_residual(product, lam, U, units) if kept_weight == 0 else None
    return Factors(U, units, solution.objective, [solution.objective], "full rank", residual)


def _on_constraint(problem: Problem, state: State) -> tuple[tuple[Floats, Floats], float]:
    """The optimal V with u_i·v_i = 0 exactly, and the objective there: v = w minus its part along u."""
    U, HU = state.U, state.HU
    al, be, ze = row_dots(U, U), row_dots(U, HU), row_dots(HU, HU)
    share = np.divide(be, al, where=al > 0, out=np.zeros_like(al))
    V = combine_rows(np.ones_like(al), HU, -share, U)
    return (U, V), problem.total - float((ze - share * be).sum())


def kkt_residual(product: Product, lam: Doubles, U: Floats, V: Floats) -> float:
    """How far [Steck20 Eq. 11] is from stationary: ‖(E + diag η)V‖ and ‖(E + diag η)ᵀU‖ together, E = HB − G.

    η is the one vector that makes both smallest; the result is relative to ‖GV‖ and ‖GU‖.
    """
    return _stationarity(product, lam, U, V)[1]


def _stationarity(product: Product, lam: Doubles, U: Floats, V: Floats) -> tuple[Doubles, float]:
    """η and the residual."""
    GU, GV = product(U), product(V)
    HU = add_rows(GU.copy(), lam, U)
    EV = blas.product(HU, blas.product(V, V, transposed=True), add_to=-GV)
    EU = blas.product(V, blas.product(HU, U, transposed=True), add_to=-GU)
    below = row_dots(V, V) + row_dots(U, U)
    eta = -np.divide(row_dots(EV, V) + row_dots(EU, U), below, where=below > 0, out=np.zeros_like(below))
    add_rows(EV, eta, V)
    add_rows(EU, eta, U)
    size = row_dots(GV, GV).sum() + row_dots(GU, GU).sum()
    left = row_dots(EV, EV).sum() + row_dots(EU, EU).sum()
    return eta, float(np.sqrt(left / size)) if size > 0 else 0.0


def _completed(problem: Problem, U: Floats, rank: int, seed: int) -> Floats:
    """A start of ``rank`` columns: the nonzero columns of U, the others random."""
    size = np.einsum("ij,ij->j", U, U, dtype=np.float64)
    kept = np.flatnonzero(size > 1e-12 * size.max(initial=0.0))[:rank]
    if len(kept) == rank:
        return np.ascontiguousarray(U[:, kept])
    return np.hstack([U[:, kept], _random(problem, rank - len(kept), seed)])


def _relative(gain: float, problem: Problem, J: float) -> float:
    rounding = float(np.finfo(np.float64).eps) * problem.total
    return max(gain, 0.0) / max(problem.total - J, rounding) if problem.total > 0 else 0.0


def _check_regularised(lam: Doubles, product: Product, dropout: float, *, diagonal: bool = False) -> None:
    precision.check_penalty(product.g, lam, product.dtype, dropout=dropout, diagonal=diagonal)
    if not (lam[product.g > 0] > 0).all():
        raise OffdiagError(
            "dropout and l2 are both 0: nothing keeps a low-rank model from copying its input; give l2 or dropout > 0"
        )


def _finish(progress: Progress | None, J: float, stopped: str) -> None:
    if progress and stopped != "interrupted":
        progress(f"minimising · objective {J:.6g}", 1.0)


def _closed(stopped: str) -> str:
    return "closed form" if stopped == "converged" else stopped


def _part(progress: Progress | None, start: int, starts: int) -> Progress | None:
    """The progress of one start among several."""
    if progress is None or starts == 1:
        return progress
    return lambda stage, fraction: progress(f"start {start + 1} of {starts}, {stage}", fraction)
