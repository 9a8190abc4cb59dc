"""What comes next, as a ridge regression: the Gram of the sources on the left, sources times targets on the right.

Problem   min_B  Σ_l ‖y_l − s_l B‖² + ‖Λ^½ B‖²,  Λ = p/(1−p)·diag(A) + l2,  diag(B) = 0 unless repeats are allowed;
          A = Σ sᵀs, K = Σ sᵀy. With dropout p of the sources that is the expected loss: the target is never dropped.
Cost      8/3 m³ flops, 7/3 m³ with repeats; A is overwritten by its factor, K by B, and nothing else is m².
Equals    ``H = A + diag(Λ); B = solve(H, K) - inv(H) * (diag(solve(H, K)) / diag(inv(H)))``.

With H = L Lᵀ, W = L⁻¹ and Z = W K, the second term costs no inverse: B = Wᵀ (Z − W·dMat(r)), r = diag(WᵀZ)/diag(WᵀW).
"""

from itertools import pairwise

import numpy as np

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import Floats, blas, cholesky, lapack, precision

ROWS = 256  # of B checked at a time: all at once would take m² bytes


def solve(
    A: Floats, K: Floats, *, dropout: float, l2: float, repeats: bool = False, progress: Progress | None = None
) -> Floats:
    """B from packed A and C-ordered K, both overwritten; the array of K is returned."""
    m = len(K)
    where = layout.diagonal_positions(m)
    a = A[where].astype(np.float64)
    precision.check_squares(a)
    A[where] = cholesky.regularised(a, A.dtype, dropout=dropout, l2=l2, kept_weight=0.0)
    steps = [m**3 / 3, m**3, m**3] if repeats else [m**3 / 3, m**3 / 3, m**3, m**3]
    done = np.cumsum([0.0, *steps]) / sum(steps)
    ticks = [cholesky.tick(progress, start, stop, sum(steps)) for start, stop in pairwise(done.tolist())]
    cholesky.factor(A, m, ticks[0])
    if repeats:
        lapack.tfsm(A, K, tick=ticks[1])
        lapack.tfsm(A, K, transposed=True, tick=ticks[2])
    else:
        lapack.tftri(A, m, ticks[1])
        lapack.wait_for(lambda: blas.triangular_product(A, K), ticks[2])
        _subtract_diagonal(A, K)
        lapack.wait_for(lambda: blas.triangular_product(A, K, transposed=True), ticks[3])
        np.fill_diagonal(K, 0.0)
    if not all(np.isfinite(K[lo : lo + ROWS]).all() for lo in range(0, m, ROWS)):
        raise OffdiagError("the weights overflowed; increase l2 or use dtype='float64'")
    return K


def _subtract_diagonal(W: Floats, Z: Floats) -> None:
    """Z − W·dMat(r) in place, so that WᵀZ has a diagonal of zeros."""
    m = len(Z)
    h, e, _ = layout.layout(m)
    P = layout.rectangle(W, m) if m else W
    own, both = np.zeros(m), np.zeros(m)
    columns = parallel.shares(np.arange(m, 0, -1), 4 * parallel.n_threads())

    def add(lo: int, hi: int) -> None:
        _kernels.packed_rows.triangle_sums(P, h, e, Z, lo, hi, own, both)

    parallel.run_parallel(add, columns)
    cholesky.check_inverse(own)
    ratio = (both / own).astype(Z.dtype)

    def subtract(lo: int, hi: int) -> None:
        _kernels.packed_rows.subtract_triangle(P, h, e, ratio, Z, lo, hi)

    parallel.run_parallel(subtract, columns)
