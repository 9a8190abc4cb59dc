"""Matrix products in place and straight from packed numbers, all from one BLAS.

NumPy and SciPy each bundle a BLAS with its own threads, which keep spinning for a while after a call: solvers that
alternate between the two run many times slower. So all products go through SciPy's BLAS here, whose LAPACK the solvers
need anyway.

The rectangular full packed layout (``offdiag.gramian.layout``) is two triangles and a rectangle, each an ordinary
matrix to BLAS, given a leading dimension. SciPy's Python wrappers copy such pieces; its Cython exports do
not, and they release the interpreter lock.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from offdiag.gramian import layout
from offdiag.solvers import Floats
from offdiag.solvers.lapack import exported


def _call(name: str, dtype: np.dtype[Any], *arguments: Any) -> None:
    """BLAS takes the addresses of all its arguments; integers here are addresses already."""
    function = exported("cython_blas", name, dtype, len(arguments))
    function(*[a if isinstance(a, int) else ctypes.addressof(a) for a in arguments])


def _real(dtype: np.dtype[Any]) -> Any:
    return ctypes.c_float if dtype == np.float32 else ctypes.c_double


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS without its own threads, for many small problems in parallel on ours."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


def _readable(M: Floats) -> bool:
    """Whether rows are contiguous and follow each other in memory without overlap: the only layout BLAS can read."""
    in_one_piece = M.shape[1] == 1 or M.strides[1] == M.itemsize
    apart = len(M) == 1 or (M.strides[0] >= M.shape[1] * M.itemsize and M.strides[0] % M.itemsize == 0)
    return in_one_piece and apart


def product(
    A: Floats, B: Floats, *, transposed: bool = False, alpha: float = 1.0, add_to: Floats | None = None
) -> Floats:
    """alpha·A B, or alpha·Aᵀ B, for C-ordered arrays or column slices of such; ``add_to`` is added to in place."""
    rows, inner = A.shape[::-1] if transposed else A.shape
    columns = B.shape[1]
    if len(B) != inner:
        raise ValueError(f"the shapes {A.shape} and {B.shape} do not fit")
    out = np.zeros((rows, columns), dtype=A.dtype) if add_to is None else add_to
    if out.shape != (rows, columns) or out.dtype != A.dtype or not out.flags.c_contiguous:
        raise ValueError(f"expected a C-ordered array of {rows}×{columns} to add to, received {out.shape}")
    if not (rows and columns and inner):
        return out
    if A.dtype != B.dtype or not (_readable(A) and _readable(B)):
        raise ValueError("expected two C-ordered arrays of one precision")
    # Column-major BLAS sees the transposes, so we ask for outᵀ = Bᵀ op(A)ᵀ.
    plain, order = ctypes.c_char(b"N"), ctypes.c_char(b"T" if transposed else b"N")
    M, N, K = ctypes.c_int(columns), ctypes.c_int(rows), ctypes.c_int(inner)
    lda, ldb = (ctypes.c_int(max(M.strides[0] // M.itemsize, M.shape[1])) for M in (A, B))
    factor, keep = (_real(A.dtype)(x) for x in (alpha, add_to is not None))
    _call(
        "gemm", A.dtype, plain, order, M, N, K, factor, B.ctypes.data, ldb, A.ctypes.data, lda, keep,
        out.ctypes.data, M,
    )  # fmt: skip
    return out


def _operands(values: Floats, V: Floats, alpha: float) -> tuple[Any, ...]:
    """A packed matrix A (m×m) and V (m×k) for BLAS: addresses of their parts, the sizes, and alpha, 1 and 0.

    The parts of A are A[:h, :h] (lower triangle), A[h:, :h] and A[h:, h:] (upper triangle).
    """
    m, k = V.shape
    if V.dtype != values.dtype or not V.flags.c_contiguous or len(values) != layout.size(m):
        raise ValueError("expected C-ordered V of the matrix's precision with one row per row of the matrix")
    (h, _, ld), size = layout.layout(m), values.itemsize
    parts = tuple(values.ctypes.data + at * size for at in layout.blocks(m))
    halves = V.ctypes.data, V.ctypes.data + h * k * size
    sizes = [ctypes.c_int(n) for n in (k, h, m - h, ld)]
    return parts, halves, sizes, [_real(V.dtype)(x) for x in (alpha, 1, 0)]


def symmetric_product(values: Floats, V: Floats, alpha: float = 1.0) -> Floats:
    """alpha·A V for the packed symmetric A and a C-ordered V (m×k): 2m²k flops, only the result is allocated."""
    (leading, corner, trailing), (V1, V2), (K, HALF, REST, LD), (scale, one, zero) = _operands(values, V, alpha)
    out = np.empty_like(V)
    if not out.size:
        return out
    out1 = out.ctypes.data
    out2 = out1 + V2 - V1
    # BLAS is column-major: a C-ordered V is Vᵀ to it, so A V is computed as Vᵀ A, with A on the right.
    right, lower, upper, plain, transposed = (ctypes.c_char(x) for x in (b"R", b"L", b"U", b"N", b"T"))
    _call("symm", V.dtype, right, lower, K, HALF, scale, leading, LD, V1, K, zero, out1, K)
    if REST.value:
        _call("symm", V.dtype, right, upper, K, REST, scale, trailing, LD, V2, K, zero, out2, K)
        _call("gemm", V.dtype, plain, plain, K, HALF, REST, scale, V2, K, corner, LD, one, out1, K)
        _call("gemm", V.dtype, plain, transposed, K, REST, HALF, scale, V1, K, corner, LD, one, out2, K)
    return out


def triangular_product(values: Floats, V: Floats, *, transposed: bool = False) -> None:
    """V becomes T V, or Tᵀ V, for the packed lower triangle T and a C-ordered V (m×k): m²k flops, nothing allocated."""
    (leading, corner, trailing), (V1, V2), (K, HALF, REST, LD), (_, one, _) = _operands(values, V, 1.0)
    if not V.size:
        return
    right, lower, upper, plain, flipped = (ctypes.c_char(x) for x in (b"R", b"L", b"U", b"N", b"T"))

    def multiply(part: Any, order: Any, side: int, size: Any, half: int) -> None:
        _call("trmm", V.dtype, right, part, order, plain, K, size, one, side, LD, half, K)

    # To BLAS a C-ordered V is Vᵀ, so T is on the right and transposed; the trailing part of T is stored transposed.
    if transposed:
        multiply(lower, plain, leading, HALF, V1)
        if REST.value:
            _call("gemm", V.dtype, plain, plain, K, HALF, REST, one, V2, K, corner, LD, one, V1, K)
            multiply(upper, flipped, trailing, REST, V2)
        return
    if REST.value:
        multiply(upper, plain, trailing, REST, V2)
        _call("gemm", V.dtype, plain, flipped, K, REST, HALF, one, V1, K, corner, LD, one, V2, K)
    multiply(lower, flipped, leading, HALF, V1)


def add_outer(values: Floats, W: Floats, alpha: float) -> None:
    """A += alpha·W Wᵀ for the packed symmetric A, in place: m²k flops for a C-ordered W (m×k), nothing allocated."""
    (leading, corner, trailing), (W1, W2), (K, HALF, REST, LD), (scale, one, _) = _operands(values, W, alpha)
    if not W.size:
        return
    lower, upper, plain, transposed = (ctypes.c_char(x) for x in (b"L", b"U", b"N", b"T"))
    # To BLAS a C-ordered W is Wᵀ, so W Wᵀ is the product of its transpose with itself.
    _call("syrk", W.dtype, lower, transposed, HALF, K, scale, W1, K, one, leading, LD)
    if REST.value:
        _call("syrk", W.dtype, upper, transposed, REST, K, scale, W2, K, one, trailing, LD)
        _call("gemm", W.dtype, transposed, plain, REST, HALF, K, scale, W2, K, W1, K, one, corner, LD)
