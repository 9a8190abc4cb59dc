"""The rectangular full packed layout: a symmetric m×m matrix in m(m+1)/2 numbers, factored at full speed.

Seen as a C-ordered array of ``height(m)`` rows, row j holds column j of the lower triangle, and in front of it the
part of row h+j that lies in the trailing triangle (h = ⌈m/2⌉). With e = 1 for even m and 0 for odd m:

    A[i, j], i ≥ j, j < h   is at  P[j, i + e]
    A[i, j], i ≥ j ≥ h      is at  P[i - h + 1 - e, j - h]

This is LAPACK's TRANSR='N', UPLO='L' form; all position formulas are here and in ``_kernels``.
"""

import numpy as np
from numpy.typing import NDArray


def size(m: int) -> int:
    """Numbers needed for a symmetric m×m matrix."""
    return m * (m + 1) // 2


def layout(m: int) -> tuple[int, int, int]:
    """(h, e, ld): items in the leading triangle, shift of its columns, and length of a packed row."""
    e = 1 - m % 2
    return (m + 1) // 2, e, m + e


def blocks(m: int) -> tuple[int, int, int]:
    """Where A[0, 0], A[h, 0] and A[h, h] are: a lower triangle, a rectangle and, transposed, another triangle.

    In column order each is an ordinary matrix with leading dimension ``ld``, so BLAS and LAPACK take it as it is.
    """
    h, e, ld = layout(m)
    return e, e + h, (1 - e) * ld


def rectangle(packed: NDArray[np.floating], m: int) -> NDArray[np.floating]:
    """The 1-D buffer as the 2-D array described above (a view)."""
    _, _, ld = layout(m)
    return packed.reshape(-1, ld)


def diagonal_positions(m: int) -> NDArray[np.int64]:
    """Position of A[i, i] in the buffer for every i."""
    h, e, ld = layout(m)
    i = np.arange(m, dtype=np.int64)
    return np.where(i < h, i * ld + i + e, (i - h + 1 - e) * ld + i - h)


def pack(A: NDArray[np.floating]) -> NDArray[np.floating]:
    """Pack the lower triangle of a symmetric array (for small matrices; the Gram is built packed)."""
    m = len(A)
    h, e, ld = layout(m)
    out = np.empty(size(m), dtype=A.dtype)
    P = out.reshape(-1, ld)
    for j in range(h):
        P[j, j + e :] = A[j:, j]
    for i in range(h, m):
        P[i - h + 1 - e, : i - h + 1] = A[i, h : i + 1]
    return out


def unpack(packed: NDArray[np.floating], m: int) -> NDArray[np.floating]:
    """The full symmetric m×m array."""
    h, e, ld = layout(m)
    P = packed.reshape(-1, ld)
    out = np.empty((m, m), dtype=packed.dtype)
    for j in range(h):
        out[j:, j] = P[j, j + e :]
        out[j, j:] = P[j, j + e :]
    for i in range(h, m):
        row = P[i - h + 1 - e, : i - h + 1]
        out[i, h : i + 1] = row
        out[h : i + 1, i] = row
    return out


def positions(m: int, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of A[row, col] in the buffer for every pair of the two lists."""
    h, e, ld = layout(m)
    i, j = np.maximum.outer(rows, cols), np.minimum.outer(rows, cols)
    return np.where(j < h, j * ld + i + e, (i - h + 1 - e) * ld + j - h)


def columns(values: NDArray[np.floating], m: int, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """A[:, which] in double precision, m×len(which)."""
    out = np.empty((m, len(which)))
    everything = np.arange(m)
    for place, j in enumerate(which):
        out[:, place] = values[positions(m, np.array([j]), everything)[0]]
    return out
