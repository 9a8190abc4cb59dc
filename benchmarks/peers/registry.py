"""All models of the comparison, and the adapter of each."""

from __future__ import annotations

from typing import Any

from peers import (
    with_cornac,
    with_implicit,
    with_irspack,
    with_lenskit,
    with_offdiag,
    with_recbole,
    with_recpack,
    with_rectools,
    with_sansa,
)

ADAPTERS: tuple[Any, ...] = (
    with_offdiag, with_irspack, with_implicit, with_lenskit, with_rectools, with_cornac, with_recpack, with_sansa,
    with_recbole,
)  # fmt: skip
ADAPTER_OF = {name: module for module in ADAPTERS for name in module.MODELS}
