"""Download one file: whole or not at all, checked, with progress."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

from offdiag.errors import OffdiagError
from offdiag.files import atomic
from offdiag.progress import Progress

_BLOCK = 1 << 20


def fetch(address: str, target: Path, checksum: str | None, progress: Progress | None = None) -> None:
    """Download `address` to `target` unless it exists. `checksum` is "md5:…" or "sha256:…", or None."""
    if target.exists():
        if checksum is not None:
            verify(target, checksum)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(target) as file:
        digest = hashlib.new(checksum.partition(":")[0]) if checksum else None
        try:
            with urllib.request.urlopen(address, timeout=60) as response:
                size = int(response.headers.get("Content-Length") or 0)
                done = 0
                while block := response.read(_BLOCK):
                    file.write(block)
                    done += len(block)
                    if digest is not None:
                        digest.update(block)
                    if progress is not None:
                        progress(f"download {target.name}", min(1.0, done / size) if size else 0.0)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise OffdiagError(
                f"expected {address} to answer, received {error}; fetch it by other means and give folder="
            ) from None
        whole = not size or done == size
        if checksum is not None and digest is not None:
            advice = "the file was altered or replaced" if whole else f"only {done:,} of {size:,} bytes arrived"
            _check(digest.hexdigest(), checksum, target.name, f"{advice}; not kept, download it again")
        if not whole:
            raise OffdiagError(f"expected {size:,} bytes of {target.name}, received {done:,}; download it again")


def verify(path: Path, checksum: str) -> None:
    """Raise an error with the expected and the actual checksum if they differ."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, checksum.partition(":")[0])
    _check(digest.hexdigest(), checksum, path.name, "delete it and download again")


def _check(received: str, checksum: str, name: str, advice: str) -> None:
    kind, _, expected = checksum.partition(":")
    if received != expected:
        raise OffdiagError(f"expected {kind} {expected} for {name}, received {received}; {advice}")
