"""Cholesky factor and inverse of a packed matrix, block by block, so that Ctrl-C and progress work while they run.

Rectangular full packed storage is two triangles T1, T2 and a rectangle S (``offdiag.gramian.layout``), each an ordinary
matrix with a leading dimension. LAPACK's own routines for it (pftrf, pftri, tftri, tfsm) make the calls made here
[Gustavson10]; here no size or offset exceeds m + 1, so 32-bit integers last for any matrix that fits in memory,
and a run whose caller has left ends with the block at work.

SciPy's Python wrappers hold the interpreter lock for the whole call, minutes for a large catalogue. The same compiled
functions, reached through SciPy's Cython exports, release it.
"""

import ctypes
import functools
import threading
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from offdiag.gramian import layout
from offdiag.solvers import Floats

Tick = Callable[[float], None] | None
Call = tuple[Any, ...]  # name of a routine, then its arguments: addresses are ints, the rest ctypes objects

LEFT, RIGHT, LOWER, UPPER, PLAIN, FLIPPED = (ctypes.c_char(x) for x in (b"L", b"R", b"L", b"U", b"N", b"T"))
RETURNS_INFO = frozenset({"potrf", "trtri", "lauum"})  # routines of LAPACK; the others are of BLAS


@functools.cache
def exported(module: str, name: str, dtype: np.dtype[Any], arguments: int) -> Any:
    """The compiled function of SciPy's ``cython_blas`` or ``cython_lapack`` for this precision; takes addresses."""
    exports = import_module(f"scipy.linalg.{module}").__pyx_capi__
    capsule = exports[("s" if dtype == np.float32 else "d") + name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)
    return prototype(get_pointer(capsule, get_name(capsule)))


def wait_for(run: Callable[[], None], tick: Tick = None) -> None:
    """Run in a thread of its own and wait in small steps; ``tick`` receives the seconds so far."""
    thread = threading.Thread(target=run, daemon=True)  # an interrupted program may exit without waiting for it
    start = time.perf_counter()
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
        if tick:
            tick(time.perf_counter() - start)


class _Blocks:
    """Addresses, sizes and constants of a packed matrix for BLAS."""

    def __init__(self, packed: Floats, m: int) -> None:
        if len(packed) != layout.size(m) or not packed.flags.c_contiguous:
            raise ValueError(f"expected {layout.size(m):,} numbers in a row, received {packed.shape}")
        self.packed = packed
        h, _, ld = layout.layout(m)
        self.T1, self.S, self.T2 = (packed.ctypes.data + at * packed.itemsize for at in layout.blocks(m))
        self.h, self.rest, self.ld = map(ctypes.c_int, (h, m - h, ld))
        real = ctypes.c_float if packed.dtype == np.float32 else ctypes.c_double
        self.one, self.minus = real(1), real(-1)

    def run(self, calls: Iterable[Call], tick: Tick) -> int:
        """One call after the other, until one fails or the caller leaves; returns LAPACK's info."""
        info, left = ctypes.c_int(0), threading.Event()

        def work() -> None:  # holds the matrix and the arguments: they must outlive a caller that is interrupted
            for name, *arguments in calls:
                if left.is_set() or info.value:
                    return
                module = "cython_lapack" if name in RETURNS_INFO else "cython_blas"
                every = [*arguments, info] if name in RETURNS_INFO else arguments
                function = exported(module, name, self.packed.dtype, len(every))
                function(*[a if isinstance(a, int) else ctypes.addressof(a) for a in every])

        try:
            wait_for(work, tick)
        except BaseException:
            left.set()
            raise
        return info.value


def pftrf(packed: Floats, m: int, tick: Tick = None) -> int:
    """Cholesky factor in place, m³/3 flops; not 0 if the matrix is not positive definite."""
    return (b := _Blocks(packed, m)).run(factor_calls(b), tick)


def factor_calls(b: _Blocks) -> list[Call]:
    return [
        ("potrf", LOWER, b.h, b.T1, b.ld),
        ("trsm", RIGHT, LOWER, FLIPPED, PLAIN, b.rest, b.h, b.one, b.T1, b.ld, b.S, b.ld),
        ("syrk", UPPER, PLAIN, b.rest, b.h, b.minus, b.S, b.ld, b.one, b.T2, b.ld),
        ("potrf", UPPER, b.rest, b.T2, b.ld),
    ]


def tftri(packed: Floats, m: int, tick: Tick = None) -> int:
    """Inverse of a lower triangle in place, m³/3 flops; not 0 if it is singular."""
    return (b := _Blocks(packed, m)).run(_triangle_calls(b), tick)


def _triangle_calls(b: _Blocks) -> list[Call]:
    """The rectangle becomes −T2⁻¹ S T1⁻¹."""
    return [
        ("trtri", LOWER, PLAIN, b.h, b.T1, b.ld),
        ("trmm", RIGHT, LOWER, PLAIN, PLAIN, b.rest, b.h, b.minus, b.T1, b.ld, b.S, b.ld),
        ("trtri", UPPER, PLAIN, b.rest, b.T2, b.ld),
        ("trmm", LEFT, UPPER, FLIPPED, PLAIN, b.rest, b.h, b.one, b.T2, b.ld, b.S, b.ld),
    ]


def pftri(packed: Floats, m: int, tick: Tick = None) -> int:
    """Inverse from the factor, in place, 2m³/3 flops; not 0 if the factor is singular."""
    b = _Blocks(packed, m)
    product_of_inverses: list[Call] = [  # L⁻ᵀ L⁻¹
        ("lauum", LOWER, b.h, b.T1, b.ld),
        ("syrk", LOWER, FLIPPED, b.h, b.rest, b.one, b.S, b.ld, b.one, b.T1, b.ld),
        ("trmm", LEFT, UPPER, PLAIN, PLAIN, b.rest, b.h, b.one, b.T2, b.ld, b.S, b.ld),
        ("lauum", UPPER, b.rest, b.T2, b.ld),
    ]
    return b.run([*_triangle_calls(b), *product_of_inverses], tick)


def tfsm(packed: Floats, B: Floats, *, transposed: bool = False, tick: Tick = None) -> None:
    """B becomes L⁻¹ B, or L⁻ᵀ B, for a packed factor L (m×m) and a C-ordered B (m×k), in place: m²k flops."""
    m, k = B.shape
    if B.dtype != packed.dtype or not B.flags.c_contiguous:
        raise ValueError("expected a C-ordered array of the precision of the factor")
    if not B.size:
        return
    b, K = _Blocks(packed, m), ctypes.c_int(k)
    B1 = B.ctypes.data
    B2 = B1 + b.h.value * k * B.itemsize
    # Column-major BLAS sees Bᵀ (k×m), so L is on the right and transposed: Bᵀ L⁻ᵀ = (L⁻¹ B)ᵀ. T2 is stored transposed.
    first, second = (PLAIN, FLIPPED) if transposed else (FLIPPED, PLAIN)
    leading: Call = ("trsm", RIGHT, LOWER, first, PLAIN, K, b.h, b.one, b.T1, b.ld, B1, K)
    trailing: Call = ("trsm", RIGHT, UPPER, second, PLAIN, K, b.rest, b.one, b.T2, b.ld, B2, K)
    up: Call = ("gemm", PLAIN, PLAIN, K, b.h, b.rest, b.minus, B2, K, b.S, b.ld, b.one, B1, K)
    down: Call = ("gemm", PLAIN, FLIPPED, K, b.rest, b.h, b.minus, B1, K, b.S, b.ld, b.one, B2, K)
    b.run([trailing, up, leading] if transposed else [leading, down, trailing], tick)
