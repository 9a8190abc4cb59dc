"""Tables at an address: https:// through the standard library, s3://, gs:// and others through fsspec, into files."""

from __future__ import annotations

import http.client
import re
import shutil
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from offdiag import wording
from offdiag.errors import OffdiagError

_WEB = ("http", "https")
_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "ftp", "sftp", "hf", "memory")  # schemes of fsspec
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SECONDS = 60  # without an answer


def is_address(source: object) -> bool:
    """Whether a text is the address of a file elsewhere, rather than a file here or a database."""
    found = _SCHEME.match(source) if isinstance(source, str) else None
    return found is not None and found[1].lower() in (*_WEB, *_STORES)


def name_of(address: str) -> str:
    """The last part of the path, for messages: without user, password and settings."""
    parts = urlsplit(address)
    return PurePosixPath(unquote(parts.path)).name or parts.hostname or parts.scheme


def fetch(address: str, folder: Path) -> Path:
    """Fetch a file, or all files of a folder or a pattern, and return the path of the file or folder here."""
    scheme = address.partition("://")[0].lower()
    return _from_web(address, folder) if scheme in _WEB else _from_store(address, folder)


def _from_web(address: str, folder: Path) -> Path:
    target = folder / re.sub(r"[^\w.=-]", "_", name_of(address))
    try:
        request = urllib.request.Request(address, headers={"User-Agent": "offdiag"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
            size = int(answer.headers.get("Content-Length") or -1)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise _unreachable(address, error) from None
    if 0 <= size != target.stat().st_size:
        raise OffdiagError(
            f"expected {size:,} bytes of {name_of(address)}, received {target.stat().st_size:,}; run this again"
        )
    return target


def _from_store(address: str, folder: Path) -> Path:
    scheme = address.partition("://")[0].lower()
    try:
        import fsspec
    except ImportError:
        raise OffdiagError(
            f"expected fsspec to read {scheme}:// addresses, received none; pip install 'offdiag[remote]'"
        ) from None
    try:
        store, path = fsspec.core.url_to_fs(address)
        if any(sign in path for sign in "*?["):
            found, root = sorted(store.glob(path)), re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        elif store.isdir(path):
            found, root = sorted(store.find(path)), path
        else:
            return _get(store, path, folder / PurePosixPath(path).name)
        if not found:
            raise OffdiagError(f"expected files at {name_of(address)}, received none; check the address")
        for one in found:
            inside = PurePosixPath(one).relative_to(root)
            if ".." in inside.parts:
                raise OffdiagError(f"expected names below the address, received {str(inside)!r}; rename it")
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            _get(store, one, target)
    except OffdiagError:
        raise
    except ImportError as error:  # the package for that store
        raise OffdiagError(
            f"expected the package that reads {scheme}:// addresses, received none ({wording.one_line(error)}); "
            "pip install 'offdiag[remote]'"
        ) from None
    except Exception as error:  # each store has its own errors
        raise _unreachable(address, error) from None
    return folder


def _get(store: Any, path: str, target: Path) -> Path:
    with store.open(path, "rb") as source, target.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    return target


def _unreachable(address: str, error: BaseException) -> OffdiagError:
    parts = urlsplit(address)
    text = wording.one_line(error).replace(address, name_of(address))
    for secret in filter(None, (parts.password, parts.query)):
        text = text.replace(secret, "***")
    return OffdiagError(
        f"expected {name_of(address)} from {parts.scheme}://{parts.hostname or ''}, received {wording.cut(text, 160)}; "
        "check the address and your access to it"
    )
