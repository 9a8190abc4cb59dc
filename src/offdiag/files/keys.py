"""Keys of living states: 32 random bytes each, kept in a separate file, in the environment, or by the caller.

A key file holds one key per line, in hexadecimal; the last line is the newest. Each living state has its own key, so
that destroying one (``forget --rotate-key``) makes every older copy of that state unreadable, but no other state.
Lookup order: what the caller gives (a path, 32 bytes, or a function that returns them), the variables
OFFDIAG_KEY and OFFDIAG_KEY_FILE, and the file ``offdiag/keys`` in the user's configuration folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from offdiag.errors import OffdiagError
from offdiag.files import atomic

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

KEY_BYTES = 32
KEY, NEW_KEY, KEY_FILE = "OFFDIAG_KEY", "OFFDIAG_NEW_KEY", "OFFDIAG_KEY_FILE"
Source = str | os.PathLike[str] | bytes | Callable[[], bytes] | None


@dataclass(frozen=True)
class Key:
    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """16 digits that identify the key and reveal nothing else about it."""
        return hashlib.blake2b(self.secret, digest_size=8, person=b"offdiag key id").hexdigest()

    def derive(self, purpose: bytes, salt: bytes) -> bytes:
        """32 bytes for one purpose and one salt."""
        return hashlib.blake2b(salt, digest_size=32, key=self.secret, person=purpose).digest()

    @classmethod
    def random(cls) -> Key:
        return cls(secrets.token_bytes(KEY_BYTES))


@dataclass(frozen=True)
class Keys:
    """Where keys are found: those given by the caller, and a file that new ones are written to."""

    path: Path
    given: tuple[Key, ...] = ()
    named: bool = False  # the caller named the file

    def find(self, id: str, what: str) -> Key:  # noqa: A002 - the name of the field
        for key in (*self.given, *self._stored()):
            if key.id == id:
                return key
        raise OffdiagError(
            f"{what} is encrypted with the key {id}, which is not in {self._places()}; "
            f"name the file that holds it with --key-file (in Python key=...) or {KEY_FILE}"
        )

    def has(self, id: str) -> bool:  # noqa: A002
        return any(key.id == id for key in (*self.given, *self._stored()))

    def new(self) -> Key:
        """The key of a new living state: the given key, or a random one, to be stored with ``keep``."""
        if self.given:
            return self.given[0]
        stored = self._stored()
        return stored[-1] if stored and not os.access(self.path, os.W_OK) else Key.random()

    def keep(self, key: Key) -> None:
        """Store a key in the key file, if it is not there or given."""
        if self.given or self.has(key.id):
            return
        with self._locked():
            self._write([*self._stored(), key])

    def rotated(self) -> Key:
        """A key that no older copy was encrypted with."""
        if not self.given:
            return self.new()
        text = os.environ.get(NEW_KEY)
        if text is None or self.named or self.given[0] != _from_environment():
            raise OffdiagError(
                "a key that was given cannot be replaced from here: save with another key and destroy the first one "
                f"yourself; or keep keys in a file (--key-file), or set {NEW_KEY} next to {KEY}"
            )
        key = parse(text, f"the variable {NEW_KEY}")
        if key == self.given[0]:
            raise OffdiagError(f"{NEW_KEY} is the same key as {KEY}; make a new one")
        return key

    def retire(self, id: str) -> None:  # noqa: A002
        """Destroy a key, if it is in the file; a key kept elsewhere must be destroyed by the caller."""
        if not any(key.id == id for key in self._stored()):
            return
        with self._locked():
            self._write([key for key in self._stored() if key.id != id])

    def _places(self) -> str:
        given = "what was given, nor in " if self.given else ""
        return f"{given}{str(self.path)!r}" + ("" if self.path.exists() else " (no such file)")

    def _stored(self) -> list[Key]:
        try:
            with open(self.path, encoding="ascii") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise OffdiagError(
                        f"expected a key file, received {str(self.path)!r}, which is not an ordinary file"
                    )
                if os.name == "posix" and mode & 0o077:
                    raise OffdiagError(
                        f"the key file {str(self.path)!r} can be read by others; make it yours alone: "
                        f"chmod 600 {str(self.path)!r}"
                    )
                lines = file.read().split()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise OffdiagError(f"cannot read the key file {str(self.path)!r}: {error}") from error
        return [parse(line, f"the key file {str(self.path)!r}") for line in lines]

    def _write(self, keys: list[Key]) -> None:
        text = "".join(key.secret.hex() + "\n" for key in keys)
        with atomic.replacing(self.path, mode=0o600) as file:
            file.write(text.encode("ascii"))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let only one program at a time change a key file."""
        if not self.named:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fcntl is None or not os.access(self.path.parent, os.W_OK):
            yield
            return
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def parse(text: str, where: str) -> Key:
    """Parse a hexadecimal key; the error message never shows it."""
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise OffdiagError(
            f"expected keys of {2 * KEY_BYTES} hexadecimal digits, received something else in {where}; "
            "`openssl rand -hex 32` makes one"
        )
    return Key(secret)


def default_path() -> Path:
    """The user's key file."""
    if named := os.environ.get(KEY_FILE):
        return Path(named)
    if os.name == "nt":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "offdiag" / "keys"


def _from_environment() -> Key | None:
    text = os.environ.get(KEY)
    return None if text is None else parse(text, f"the variable {KEY}")


def keys_of(source: Source = None) -> Keys:
    """Where to look for keys."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.exists() and not path.is_file():
            raise OffdiagError(f"expected a key file, received {str(source)!r}, which is not an ordinary file")
        if not path.parent.is_dir():
            raise OffdiagError(f"cannot keep keys in {str(source)!r}: its folder does not exist; create it first")
        return Keys(path, named=True)
    if source is None:
        given = _from_environment()
        return Keys(default_path(), () if given is None else (given,))
    secret = source() if callable(source) else source
    if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
        raise OffdiagError(f"expected a key of {KEY_BYTES} bytes, received {_kind(secret)}; secrets.token_bytes(32)")
    return Keys(default_path(), (Key(secret),))


def _kind(secret: object) -> str:
    return f"{len(secret)} bytes" if isinstance(secret, bytes) else type(secret).__name__
