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


def _call(name: str, packed: Floats, m: int, tick: Callable[[float], None] | None) -> int:
    """Run a packed routine in a thread of its own and wait for it in small steps; returns LAPACK's info."""
    function = exported("cython_lapack", name, packed.dtype, 5)
    info = ctypes.c_int(0)
    arguments: tuple[Any, ...] = (ctypes.c_char(b"N"), ctypes.c_char(b"L"), ctypes.c_int(m))

    def run() -> None:  # holds the arguments and the buffer: they must outlive a caller that is interrupted
        function(*map(ctypes.addressof, arguments), packed.ctypes.data, ctypes.addressof(info))

    thread = threading.Thread(target=run, daemon=True)  # an interrupted program may exit without waiting for it
    start = time.perf_counter()
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
        if tick:
            tick(time.perf_counter() - start)
    return info.value


def pftrf(packed: Floats, m: int, tick: Callable[[float], None] | None = None) -> int:
    """Cholesky factor in place, m³/3 flops."""
    return _call("pftrf", packed, m, tick)


def pftri(packed: Floats, m: int, tick: Callable[[float], None] | None = None) -> int:
    """Inverse from the factor, in place, 2m³/3 flops."""
    return _call("pftri", packed, m, tick)
