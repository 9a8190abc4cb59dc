"""Blocks and bands take the memory that workers have, and no more than they must where it is short."""

import numpy as np
import pytest

from offdiag.cluster import bands, rooms, session
from offdiag.cluster.columns import BLOCKS_HELD
from offdiag.cluster.counting import IDLE
from offdiag.errors import NotEnoughMemory

STORED, DATA, WORKERS = 400 << 20, 50 << 20, 4


def sizes(monkeypatch, limit, wanted="auto"):
    monkeypatch.setattr(session, "limit_of", lambda client: limit)
    found = bands.Sizes(np.zeros(10), np.full(10, WORKERS * STORED / 10))
    return rooms.sizes(None, DATA, found, wanted, WORKERS, "a fit")


def test_what_a_worker_takes_fits_into_its_memory(monkeypatch):
    before = 0
    for limit in (5 << 28, 3 << 30, 16 << 30, 64 << 30):
        block, band = sizes(monkeypatch, limit)
        needed = IDLE + STORED + max(DATA + bands.BANDS_HELD * band, BLOCKS_HELD * block)
        assert needed <= session.USABLE * limit
        assert before <= block <= rooms.LARGEST_BLOCK
        before = block
    assert sizes(monkeypatch, None) == (rooms.LARGEST_BLOCK, rooms.ENOUGH_BAND)


def test_little_memory_gives_the_least_and_less_is_refused(monkeypatch):
    least = int(rooms.BLOCK_SHARE * STORED)
    needed = IDLE + STORED + max(DATA + bands.BANDS_HELD * rooms.BAND_SHARE * STORED, BLOCKS_HELD * least)
    assert sizes(monkeypatch, int(needed / session.USABLE) + 1000)[0] == least
    with pytest.raises(NotEnoughMemory, match="a fit needs .*smaller block_bytes"):
        sizes(monkeypatch, int(needed / session.USABLE) - 1000)
    assert sizes(monkeypatch, 64 << 30, wanted=12_345)[0] == 12_345
