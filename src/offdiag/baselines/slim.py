"""Sparse linear methods: each item from few others, chosen by an elastic net [Ning11]; see docs/baselines.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, gram
from offdiag.models import auto, fields
from offdiag.models.fields import Auto, number
from offdiag.models.full_rank import EASE
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, Source, check_gram, read_data, read_gram
from offdiag.progress import Progress, reporter
from offdiag.solvers import elastic_net
from offdiag.weights import Packed, Sparse

# "auto", in units of the l2 that suits EASE; chosen on validation users of three public data sets, docs/baselines.md
SHARES = {"l1": 1 / 400, "l2": 0.3}


class _Fit(Recommender):
    """What a fit of SLIM learns besides the weights."""

    objective_: float
    gap_: float  # above ``tolerance`` only where max_iterations ended the fit
    total_gap_: float  # objective_ is at most this far above the minimum
    iterations_: int


@fields.model
class SLIM(_Fit):
    """Each item from few others, which an elastic net chooses [Ning11].

    min ½‖X − XB‖² + l2/2·‖B‖² + l1·Σ|B_ji|,  diag(B) = 0,  B ≥ 0 while non_negative

    Use it as the classic sparse baseline. Without l1 and the sign it is EASE, whose l2 means the same. Every column is
    certified to lie within tolerance·½‖x_i‖² of its minimum (``gap_``).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.SLIM(l1=2.0, l2=10.0).fit(X)
        >>> model.gap_ <= 1e-4
        True
    """

    learns_from_gram = True
    starts_warm = True
    l2_of_ease = True
    l1: float | Auto = fields.setting(
        "auto", low=0, auto="1/400 of the l2 that suits EASE", search=fields.around_l2(1000, 1),
        help="Penalty on the absolute weights. The larger it is, the fewer weights differ from 0.",
    )  # fmt: skip
    l2: float | Auto = fields.l2(auto="0.3 times the l2 that suits EASE")
    non_negative: bool = fields.setting(True, help="Whether weights must be at least 0, as published.")
    user_power: float | Auto = fields.user_power()
    tolerance: float = fields.setting(
        1e-4, low=0, high=1, below=True,
        help="Distance from the minimum at which a column is done. Its unit is ½‖x_i‖².",
    )  # fmt: skip
    max_iterations: int = fields.setting(
        100, low=1, help="At most this many passes over all columns. ``gap_`` is the distance that remains."
    )
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        start: SLIM | None = None,
        progress: Progress | bool | None = None,
        **reading: Unpack[Reading],
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        ``start``: a SLIM fitted to the same items, for example with another l1; the result is the same, found sooner.
        Memory: m² numbers for m items, half as much again during unpacking, and the weights.
        """
        progress = reporter(progress)
        used = self._validate()
        matrix, source = read_data(X, reading)
        self._check_memory(matrix.shape[1], layout.size(matrix.shape[1]))
        B = _columns(start, source.item_ids)
        used._resolve(lambda ease: auto.from_data(matrix, ease, progress=progress))
        G = gram(matrix, number(used.user_power), dtype=self.dtype, progress=progress)
        return self._solve(G, used, source, B, progress)

    def fit_gram(
        self, G: Gram, *, item_ids: Any = None, start: SLIM | None = None, progress: Progress | bool | None = None
    ) -> Self:
        """Learn from a Gram alone, with its ``user_power``. G is not changed.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.SLIM(l1=1.0, l2=10.0).fit_gram(od.gram(X, user_power=0.5), item_ids=X.item_ids)
            >>> model.recommend([[]], k=3).lengths
            array([3])
        """
        progress = reporter(progress)
        used = self._validate()
        check_gram(G, used.user_power)
        source = read_gram(G, item_ids)
        self._check_memory(G.n_items, 0)
        B = _columns(start, source.item_ids)
        used._resolve(lambda ease: auto.from_gram(G, ease))
        return self._solve(G, used, source, B, progress)

    def _resolve(self, choose: Callable[[EASE], None]) -> None:
        """Replace every "auto"; ``choose`` does that for EASE, whose l2 is computed only if needed."""
        missing = [name for name in SHARES if getattr(self, name) == "auto"]
        ease = EASE(l2="auto" if missing else 0.0, user_power=self.user_power)
        choose(ease)
        self.user_power = ease.user_power
        for name in missing:
            setattr(self, name, SHARES[name] * number(ease.l2))

    def _solve(
        self, G: Gram, used: Self, source: Source, start: sparse.csc_array | None, progress: Progress | None
    ) -> Self:
        scale = G.scale  # B does not change under G → tG, l1 → t·l1, l2 → t·l2, so the m² numbers need not be touched
        full = _unpacked(G.values if G.dtype == np.dtype(self.dtype) else G.values.astype(self.dtype), G.n_items)
        if not np.isfinite(full.diagonal()).all():
            raise OffdiagError("the sums of squares overflow; binarise the values, or use dtype='float64'")
        found = elastic_net.solve(
            full, l1=number(used.l1) / scale, l2=number(used.l2) / scale, non_negative=used.non_negative,
            tolerance=used.tolerance, max_iterations=used.max_iterations, start=start, progress=progress,
        )  # fmt: skip
        return self._store(
            Sparse.of(found.B), **vars(source), settings=used._settings(), objective_=found.objective * scale,
            gap_=found.gap, total_gap_=found.total_gap * scale, iterations_=found.passes,
        )  # fmt: skip

    def _check_memory(self, m: int, gram_numbers: int) -> None:
        memory.require(
            (m * m + gram_numbers) * np.dtype(self.dtype).itemsize,
            f"SLIM of {m:,} items",
            "keep fewer items with od.prepare.min_counts(items=...), or use od.ItemKNN, which needs no m×m matrix",
        )

    def _validate(self) -> Self:
        used = super()._validate()
        if used.l1 == 0 and used.l2 == 0:
            raise OffdiagError("SLIM needs l1 or l2 above 0, received 0 for both: the weights would not be determined")
        return used


def _unpacked(values: NDArray[np.floating], m: int) -> NDArray[np.floating]:
    """The full symmetric matrix, whose rows the solver reads."""
    from offdiag._kernels import parallel

    g = values[layout.diagonal_positions(m)]
    rows, out = np.arange(m), np.empty((m, m), dtype=values.dtype)
    tile = Packed(values, np.ones(m, dtype=values.dtype), g).tile
    parallel.run_parallel(tile, [(rows, rows, 0, m, out, lo, hi) for lo, hi in parallel.ranges(m, -(-m // 512))])
    return out


def _columns(start: Any, item_ids: NDArray[Any]) -> sparse.csc_array | None:
    """The weights of an earlier fit, by columns."""
    if start is None:
        return None
    weights = getattr(start, "weights_", None)
    if not isinstance(start, SLIM) or weights is None or weights.lossy:
        raise OffdiagError(f"start takes a fitted SLIM, received {type(start).__name__}; call its fit first")
    if not np.array_equal(start.item_ids_, item_ids):
        raise OffdiagError(
            "start takes a SLIM of the same items in the same order, received one of others; leave it out"
        )
    return sparse.csc_array(weights.tocsr())
