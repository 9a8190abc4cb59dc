"""What comes next, as a ridge regression: the Gram of the sources on the left, sources times targets on the right.

Problem   min_B  Σ_l ‖y_l − s_l B‖² + ‖Λ^½ B‖²,  Λ = p/(1−p)·diag(A) + l2,  diag(B) = 0 unless repeats are allowed;
          A = Σ sᵀs, K = Σ sᵀy. With dropout p of the sources that is the expected loss: the target is never dropped.
Cost      3m³ flops, 7/3 m³ with repeats; A is overwritten by the inverse (or factor), K by B, and nothing else is m².
Equals    ``H = A + diag(Λ); B = solve(H, K) - inv(H) * (diag(solve(H, K)) / diag(inv(H)))``.
"""

from itertools import pairwise

import numpy as np

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import Floats, cholesky, lapack, precision

BLOCK = 128  # rows of the inverse that are unpacked at a time, by each thread


def solve(
    A: Floats, K: Floats, *, dropout: float, l2: float, repeats: bool = False, progress: Progress | None = None
) -> Floats:
    """B from packed A and C-ordered K, both overwritten; the array of K is returned."""
    m = len(K)
    where = layout.diagonal_positions(m)
    a = A[where].astype(np.float64)
    precision.check_squares(a)
    A[where] = cholesky.regularised(a, A.dtype, dropout=dropout, l2=l2, kept_weight=0.0)
    flops = 7 / 3 * m**3 if repeats else 3.0 * m**3
    done = np.cumsum([0, m**3 / 3, m**3, m**3, 2 / 3 * m**3]) / flops
    ticks = [cholesky.tick(progress, start, stop, flops) for start, stop in pairwise(done.tolist())]
    cholesky.factor(A, m, ticks[0])
    lapack.tfsm(A, K, tick=ticks[1])
    lapack.tfsm(A, K, transposed=True, tick=ticks[2])
    if not repeats:
        lapack.pftri(A, m, ticks[3])
        cholesky.check_inverse(A[where])
        _clear_diagonal(A, K)
    if not np.isfinite(K).all():
        raise OffdiagError("the weights overflowed; increase l2 or use dtype='float64'")
    return K


def _clear_diagonal(C: Floats, B: Floats) -> None:
    """B − C·dMat(diag(B)/diag(C)) in place, C packed: the residuals off the diagonal stay, the diagonal becomes 0."""
    m = len(B)
    h, e, _ = layout.layout(m)
    P = layout.rectangle(C, m)
    ratio = (np.diag(B).astype(np.float64) / C[layout.diagonal_positions(m)]).astype(B.dtype)
    zero = np.zeros(m, dtype=B.dtype)
    rows, places = np.arange(m, dtype=np.uint64), np.arange(BLOCK, dtype=np.uint64)

    def work(first: int, last: int) -> None:
        some = np.empty((last - first, m), dtype=B.dtype)
        _kernels.packed_rows.packed_tile(P, h, e, rows[first:last], places, 0, m, ratio, zero, some, 0, last - first)
        B[first:last] -= some
        B[np.arange(first, last), np.arange(first, last)] = 0.0

    parallel.run_parallel(work, [(lo, min(lo + BLOCK, m)) for lo in range(0, m, BLOCK)])
