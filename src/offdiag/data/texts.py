"""A column of texts as two plain arrays: their UTF-8 bytes one after another, and where each begins."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Texts(NamedTuple):
    """Text i is ``utf8[offsets[i]:offsets[i + 1]]``; both arrays may be mapped from a file."""

    offsets: NDArray[np.int64]  # (n + 1,)
    utf8: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Unpaired surrogates, which UTF-8 does not have, survive."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))

    def at(self, place: int) -> str:
        return self.utf8[self.offsets[place] : self.offsets[place + 1]].tobytes().decode("utf-8", "surrogatepass")

    def to_list(self) -> list[str]:
        raw = self.utf8.tobytes()
        return [raw[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairwise(self.offsets.tolist())]

    def check(self, n: int, what: str) -> None:
        """Raise ValueError unless these are n texts; arrays from a file may be anything."""
        offsets, utf8 = self
        if offsets.dtype != np.int64 or offsets.shape != (n + 1,) or utf8.dtype != np.uint8 or utf8.ndim != 1:
            raise ValueError(f"the texts of {what} are not {n:,} texts")
        if offsets[0] != 0 or offsets[-1] != len(utf8) or np.any(offsets[1:] < offsets[:-1]):
            raise ValueError(f"the texts of {what} do not fit their offsets")
        utf8.tobytes().decode("utf-8", "surrogatepass")  # a UnicodeDecodeError is a ValueError
        begins = offsets[:-1][offsets[:-1] < len(utf8)]
        if np.any(utf8[begins] & 0xC0 == 0x80):
            raise ValueError(f"a text of {what} begins within a character")
