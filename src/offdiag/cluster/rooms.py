"""How much of the Gram a worker counts and copies at a time: what its memory allows, and whether that is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offdiag.cluster import bands, session
from offdiag.cluster.columns import BLOCKS_HELD
from offdiag.cluster.counting import IDLE

if TYPE_CHECKING:
    from distributed import Client

LEAST_BLOCK, LARGEST_BLOCK = 1 << 24, 1 << 32  # bytes of copied rows when block_bytes is "auto"
LEAST_BAND, ENOUGH_BAND, LARGEST_BAND = 1 << 22, 1 << 25, 1 << 28  # bytes of the pieces of a band
BLOCK_SHARE, BAND_SHARE = 0.125, 0.02  # of the rows that a worker keeps, at least
LESS = "ask for fewer neighbours or a smaller block_bytes, or give more workers, or workers with more memory"


def sizes(client: Client, data: int, found: bands.Sizes, wanted: int | str, n: int, what: str) -> tuple[int, int]:
    """Bytes of rows that a worker may copy, and of the pieces of a band; raises if a worker cannot hold its share.

    ``data``: bytes of its interactions; ``wanted``: the setting block_bytes. Both are larger where a worker has the
    memory: blocks with more rows have less to move, and there are fewer tasks.
    """
    stored = int(found.stored.sum()) // n
    block = int(np.clip(BLOCK_SHARE * stored, LEAST_BLOCK, LARGEST_BLOCK)) if isinstance(wanted, str) else wanted
    band = int(np.clip(BAND_SHARE * stored, LEAST_BAND, LARGEST_BAND))
    need = IDLE + stored + max(data + bands.BANDS_HELD * band, int(BLOCKS_HELD * block))
    session.require(client, need, what, LESS)
    limit = session.limit_of(client)
    left = max((session.USABLE * limit if limit else np.inf) - IDLE - stored - data, 1.0)
    if isinstance(wanted, str):  # a power of 2, so that a fit that resumes has the same blocks
        block = max(block, 1 << int(np.log2(min(left / BLOCKS_HELD, LARGEST_BLOCK))))
    return block, max(band, int(min(left / 4 / bands.BANDS_HELD, ENOUGH_BAND)))
