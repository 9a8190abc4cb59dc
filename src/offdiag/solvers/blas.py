"""Products with a packed symmetric matrix at the speed of a full one, straight from the packed numbers.

The rectangular full packed layout (``offdiag.packed``) is two triangles and a rectangle, each an ordinary matrix to
BLAS if it may be told a leading dimension. SciPy's Python wrappers copy such pieces; its Cython exports do not, and
they release the interpreter lock.
"""

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import packed
from offdiag.solvers.lapack import exported


@functools.cache
def _function(name: str) -> Any:
    from scipy.linalg import cython_blas

    return exported(dict(cython_blas.__pyx_capi__)[name], {"symm": 12, "gemm": 13}[name[1:]])


def symmetric_product(
    values: NDArray[np.floating], V: NDArray[np.floating], alpha: float = 1.0
) -> NDArray[np.floating]:
    """alpha·A V for the packed symmetric A and a C-ordered V (m×k): 2m²k flops, only the result is allocated."""
    m, k = V.shape
    if V.dtype != values.dtype or not V.flags.c_contiguous or len(values) != packed.size(m):
        raise ValueError("expected C-ordered V of the matrix's precision with one row per row of the matrix")
    out = np.empty_like(V)
    if not out.size:
        return out
    h, e, ld = packed.layout(m)
    rest = m - h
    kind, real = ("s", ctypes.c_float) if values.dtype == np.float32 else ("d", ctypes.c_double)
    size = values.itemsize
    # BLAS counts by columns: a C-ordered V is Vᵀ to it, so A V is computed as Vᵀ A, with A on the right.
    leading = values.ctypes.data + e * size  # A[:h, :h], lower triangle
    corner = leading + h * size  # A[h:, :h]
    trailing = values.ctypes.data + (1 - e) * ld * size  # A[h:, h:], upper triangle
    V1, V2 = V.ctypes.data, V.ctypes.data + h * k * size
    out1, out2 = out.ctypes.data, out.ctypes.data + h * k * size
    symm, gemm = _function(kind + "symm"), _function(kind + "gemm")

    def call(function: Any, *arguments: Any) -> None:
        function(*[a if isinstance(a, int) else ctypes.addressof(a) for a in arguments])

    one, zero, scale = real(1), real(0), real(alpha)
    K, HALF, REST, LD = (ctypes.c_int(n) for n in (k, h, rest, ld))
    right, lower, upper, plain, transposed = (ctypes.c_char(x) for x in (b"R", b"L", b"U", b"N", b"T"))
    call(symm, right, lower, K, HALF, scale, leading, LD, V1, K, zero, out1, K)
    if rest:
        call(symm, right, upper, K, REST, scale, trailing, LD, V2, K, zero, out2, K)
        call(gemm, plain, plain, K, HALF, REST, scale, V2, K, corner, LD, one, out1, K)
        call(gemm, plain, transposed, K, REST, HALF, scale, V1, K, corner, LD, one, out2, K)
    return out
