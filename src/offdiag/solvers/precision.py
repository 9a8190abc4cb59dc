"""A penalty that outweighs the data by more than a floating-point type can express is an error, not a zero."""

import numpy as np
from numpy.typing import DTypeLike

from offdiag.errors import OffdiagError
from offdiag.solvers import Doubles

CANCELLED = 8  # rounding units: a smaller difference from 1 has no correct digits


def check_penalty(
    g: Doubles, lam: Doubles, dtype: DTypeLike, *, dropout: float, inverse: bool = False, diagonal: bool = False
) -> None:
    """Reject Λ if it would wipe out the weights, for g = diag(G); items without users do not count.

    Always: Λ itself must be a number of this type. With ``inverse``, the largest entries of (G + Λ)⁻¹ off the diagonal,
    about g/Λ², must not underflow, with room for smaller ones. With ``diagonal``, the model needs differences such as
    1 − Λ_i C_ii ≈ g_i/Λ_i, which cancel if the penalty exceeds 1/eps times the data. The last two are errors only if
    they affect every item, so a few rare items decide nothing.
    """
    live = g > 0
    if not live.any():
        return
    g, lam, limits = g[live], lam[live], np.finfo(dtype)
    with np.errstate(over="ignore", divide="ignore"):
        share = g / lam
        overflows = not np.isfinite((g + lam).astype(dtype)).all()
        underflows = inverse and float((share / lam).max()) < float(limits.tiny / limits.eps)
        cancels = diagonal and float(share.max()) < CANCELLED * float(limits.eps)
    if overflows or underflows or cancels:
        raise outweighed(float((1 / share).min()), limits.dtype, dropout)


def check_squares(g: Doubles, most: float = np.inf) -> None:
    """Reject diag(G) if it overflowed or exceeds ``most``."""
    if not np.isfinite(g).all() or float(g.max(initial=0.0)) > most:
        raise OffdiagError("the sums of squares overflow; scale the values down, binarise them, or use dtype='float64'")


def outweighed(ratio: float, dtype: DTypeLike, dropout: float = 0.0) -> OffdiagError:
    """The error, naming the setting that contributes most to the penalty."""
    by_dropout = dropout / (1 - dropout) > ratio / 2
    setting = f"dropout={dropout!r}" if by_dropout else "l2"
    wider = ", or use dtype='float64'" if np.dtype(dtype) == np.float32 else ""
    return OffdiagError(
        f"{setting} is too large: the penalty is at least {ratio:.1e} times the data, and in {np.dtype(dtype).name} "
        f"the weights underflow or drown in rounding; use a smaller {'dropout' if by_dropout else 'l2'}{wider}"
    )


def singular(dtype: DTypeLike) -> OffdiagError:
    """The error for items that nothing separates."""
    wider = ", or dtype='float64' if they are" if np.dtype(dtype) == np.float32 else ""
    return OffdiagError(
        "the regularised Gram matrix is singular at this precision: some items are combinations of others "
        f"(duplicate columns?) and too little separates them; set l2 or dropout > 0{wider}"
    )
