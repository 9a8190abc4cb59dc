"""Machine code of the loops: where it is kept between runs, and who learns that a loop has to be compiled.

Numba keeps it in ``__pycache__`` next to the source, else in the cache folder of the user, or in NUMBA_CACHE_DIR. Three
cases are added here. Where no folder is writable but the temporary one, it is kept there. A ``__pycache__`` that is
filled but read-only, as in a container that was built by another user, is read. And a loop is compiled again when the
file of another loop that it may call has changed: Numba compares only its own.
"""

import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

LOG = logging.getLogger("offdiag")

Stamp = frozenset[tuple[str, float, int]]  # name, time of the last change and size of each file

loops: list[Any] = []  # every compiled loop of the modules loaded so far, as Numba's dispatchers
compilations: list[str] = []  # loops compiled in this process, rather than loaded: names and types

seconds = 0.0  # that compiling took in this process; loops that compile others are counted once

_stamps: dict[str, Stamp] = {}  # of each module with loops: its own file and those of all loops that it imports
_announce: Callable[[], None] | None = None
_listening = False
_nested = 0
_begin = 0.0


def announce(tell: Callable[[], None] | None) -> None:
    """Call ``tell`` before the first compilation of this process; None for nobody."""
    global _announce
    _announce = tell


def kept(function: Callable[..., Any], **options: Any) -> Any:
    """The function as a loop that Numba compiles when it is first called, with its machine code kept if possible."""
    from numba import njit

    _listen()
    try:
        loop = njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package folder nor a home directory is writable, as in some containers
        loop = _in_temporary_folder(function, options)
    _compare_all_files(loop)
    _read_package_folder(loop)
    loops.append(loop)
    return loop


def is_kept() -> bool:
    """Whether later runs find the machine code."""
    return all(loop.stats.cache_path for loop in loops)


def folder() -> str | None:
    """Where new machine code goes."""
    return loops[0].stats.cache_path if loops else None


def signatures() -> dict[str, list[str]]:
    """The types for which each loop was compiled or loaded in this process."""
    return {_name(loop): sorted(map(str, loop.signatures)) for loop in loops}


def _name(loop: Any) -> str:
    return f"{loop.py_func.__module__.removeprefix('offdiag.')}.{loop.py_func.__name__}"


def _listen() -> None:
    """Numba reports each compilation, and not what it loads."""
    global _listening
    if _listening:
        return
    _listening = True
    events: Any = import_module("numba.core.event")

    class Compilations(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            global _nested, _begin
            _nested += 1
            if _nested == 1:
                _begin = time.perf_counter()
            loop = event.data["dispatcher"]
            if not loop.py_func.__module__.startswith("offdiag."):
                return
            if not compilations:
                LOG.info("compiling, once")
                if _announce is not None:
                    _announce()
            compilations.append(f"{_name(loop)}{event.data['args']}")
            LOG.debug("compiling %s", compilations[-1])

        def on_end(self, event: Any) -> None:
            global _nested, seconds
            _nested -= 1
            if _nested == 0:
                seconds += time.perf_counter() - _begin

    events.register("numba:compile", Compilations())


def _in_temporary_folder(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    from numba import njit

    config: Any = import_module("numba.core.config")
    private = _private_folder()
    if private is None:
        return njit(**options)(function)
    before = config.CACHE_DIR
    config.CACHE_DIR = str(private)  # read when the loop is made; other libraries keep theirs elsewhere
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)
    finally:
        config.CACHE_DIR = before


def _compare_all_files(loop: Any) -> None:
    """Kept machine code is valid if no file has changed that a loop of this module may come from."""
    known = loop.py_func.__module__
    if known not in _stamps:
        source = Path(loop.py_func.__code__.co_filename)
        found = source.stat()
        own: Stamp = frozenset({(source.name, found.st_mtime, found.st_size)})
        imported = loop.py_func.__globals__.values()
        others = {value.__name__ for value in imported if getattr(value, "__name__", None) in _stamps}  # modules
        others |= {other.py_func.__module__ for other in loops if any(other is value for value in imported)}
        _stamps[known] = own.union(*(_stamps[name] for name in others))
    _stamp(loop._cache, known)


def _stamp(cache: Any, module: str) -> None:
    index: Any = getattr(cache, "_cache_file", None)  # None without a folder to write to
    if hasattr(index, "_source_stamp"):
        index._source_stamp = tuple(sorted(_stamps[module]))


def _private_folder() -> Path | None:
    """A folder of this user alone: machine code from others must not be run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    place = Path(tempfile.gettempdir(), f"offdiag-machine-code-{user}")
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and (os.name == "nt" or (found.st_uid == user and not found.st_mode & 0o022))
    return place if is_ours else None


def _read_package_folder(loop: Any) -> None:
    """Look for machine code next to the source too, if new code is kept elsewhere."""
    caching: Any = import_module("numba.core.caching")
    source = Path(loop.py_func.__code__.co_filename)
    near = source.parent / "__pycache__"
    if loop.stats.cache_path in (None, str(near)) or not any(near.glob(f"{source.stem}.*.nbi")):
        return
    locator = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator  # its name before 0.62

    class Near(locator):  # type: ignore[misc, valid-type]
        def ensure_cache_path(self) -> None:
            """It is only read."""

    class Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = [Near]  # noqa: RUF012

    class NearCache(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Implementation

    other = NearCache(loop.py_func)
    _stamp(other, loop.py_func.__module__)
    loop._cache = _Both(loop._cache, other)


class _Both:
    """A cache that also loads from a second one."""

    def __init__(self, own: Any, other: Any) -> None:
        self._own, self._other = own, other

    def load_overload(self, signature: Any, context: Any) -> Any:
        found = self._own.load_overload(signature, context)
        return self._other.load_overload(signature, context) if found is None else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
