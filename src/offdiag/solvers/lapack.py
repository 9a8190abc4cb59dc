"""LAPACK's packed Cholesky routines, called so that Ctrl-C and the progress bar keep working while they run.

SciPy's Python wrappers hold the interpreter lock for the whole call, minutes for a large catalogue. The same compiled
functions, reached through SciPy's Cython exports, release it.
"""

import ctypes
import functools
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from offdiag.solvers import Floats

MAX_ITEMS = 65_535  # m(m+1)/2 must fit in LAPACK's 32-bit index


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


def _call(name: str, packed: Floats, *arguments: Any, tick: Callable[[float], None] | None) -> None:
    """Run a routine and wait for it; arrays are passed by address."""
    function = exported("cython_lapack", name, packed.dtype, len(arguments))

    def run() -> None:  # holds the arguments and the buffers: they must outlive a caller that is interrupted
        function(*[a.ctypes.data if isinstance(a, np.ndarray) else ctypes.addressof(a) for a in arguments])

    wait_for(run, tick)


def wait_for(run: Callable[[], None], tick: Callable[[float], None] | None = None) -> None:
    """Run in a thread of its own and wait in small steps; ``tick`` receives the seconds so far."""
    thread = threading.Thread(target=run, daemon=True)  # an interrupted program may exit without waiting for it
    start = time.perf_counter()
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
        if tick:
            tick(time.perf_counter() - start)


def _in_place(name: str, packed: Floats, m: int, tick: Callable[[float], None] | None) -> int:
    """A routine that overwrites a packed matrix; returns LAPACK's info."""
    info = ctypes.c_int(0)
    _call(name, packed, ctypes.c_char(b"N"), ctypes.c_char(b"L"), ctypes.c_int(m), packed, info, tick=tick)
    return info.value


def pftrf(packed: Floats, m: int, tick: Callable[[float], None] | None = None) -> int:
    """Cholesky factor in place, m³/3 flops."""
    return _in_place("pftrf", packed, m, tick)


def pftri(packed: Floats, m: int, tick: Callable[[float], None] | None = None) -> int:
    """Inverse from the factor, in place, 2m³/3 flops."""
    return _in_place("pftri", packed, m, tick)


def tftri(packed: Floats, m: int, tick: Callable[[float], None] | None = None) -> int:
    """Inverse of a lower triangle, in place, m³/3 flops."""
    info = ctypes.c_int(0)
    words = map(ctypes.c_char, (b"N", b"L", b"N"))
    _call("tftri", packed, *words, ctypes.c_int(m), packed, info, tick=tick)
    return info.value


def tfsm(packed: Floats, B: Floats, *, transposed: bool = False, tick: Callable[[float], None] | None = None) -> None:
    """B becomes L⁻¹ B, or L⁻ᵀ B, for a packed factor L (m×m) and a C-ordered B (m×k), in place: m²k flops."""
    m, k = B.shape
    if B.dtype != packed.dtype or not B.flags.c_contiguous:
        raise ValueError("expected a C-ordered array of the precision of the factor")
    if not B.size:
        return
    # Column-major LAPACK sees Bᵀ (k×m), so L is on the right and transposed: Bᵀ L⁻ᵀ = (L⁻¹ B)ᵀ.
    words = (b"N", b"R", b"L", b"N" if transposed else b"T", b"N")
    one = (ctypes.c_float if B.dtype == np.float32 else ctypes.c_double)(1)
    K, M = ctypes.c_int(k), ctypes.c_int(m)
    _call("tfsm", packed, *map(ctypes.c_char, words), K, M, one, packed, B, K, tick=tick)
