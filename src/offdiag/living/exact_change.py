"""Users who come and go after the fit: the Gram is changed exactly, the weights follow, and a certificate tells how.

Everything a linear model knows of its users has passed through the Gram, which adds. So ``update`` and ``forget`` give
what a fit with the same settings would give on the users that are there then; how a model gets there is its
``_relearned``.
"""

from __future__ import annotations

import hashlib
import secrets
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.gramian import exact
from offdiag.gramian.packed import Gram
from offdiag.gramian.user_weights import Facts
from offdiag.living import user_rows
from offdiag.living.history_prints import Roll
from offdiag.progress import Progress

if TYPE_CHECKING:
    from offdiag.gramian.sparse import SparseGram

SMALL, LARGE = 2_000, 5_000  # items of a change: from SMALL on, half the catalogue means a new fit; from LARGE on, any
ROWS = 256  # of the weights compared at a time


@dataclass(frozen=True, eq=False)
class Change:
    """A Gram before and after; all numbers are without the factor ``scale``."""

    G: Gram | SparseGram  # after
    items: NDArray[np.int64]  # of the users who come or go, columns of the new catalogue, ascending
    before: NDArray[np.float64]  # G[items, items]
    after: NDArray[np.float64]
    places: NDArray[np.int64] | None  # where every old column is in the new catalogue, −1: dropped; None: all as before
    scale_before: float
    hold: Callable[[], None] = lambda: None  # from here on Ctrl-C waits: old weights are being overwritten


@dataclass(frozen=True, eq=False)
class Relearned:
    """What a model made of a change."""

    attributes: dict[str, Any]  # weights_ and what else the fit would have set
    method: str
    residual: float  # how far the weights are from optimal, relative
    weight_error: float  # the largest difference from the weights of a new fit, estimated


@dataclass(frozen=True)
class Certificate:
    """What was changed, and how far the model is from one that never saw (or always saw) these users."""

    action: str  # "update" or "forget"
    users: int
    interactions: int
    n_users: int  # after
    n_items: int  # after
    new_items: list[Any]
    gone_items: list[Any]
    method: str  # "woodbury", "columns", "warm restart", "refit"
    residual: float
    tolerance: float  # what is accepted of a residual, whoever comes or goes
    weight_error: float
    bound: float  # what is accepted of a weight error, likewise
    proof: float | None  # the largest weight difference from a full refit, measured where it was asked for
    nonce: str  # random, so that no two certificates can be compared
    before: str  # digests of item ids, Gram and weights under the model's secret key and the nonce
    after: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """What may be kept: nothing here depends on which items the users had, or on how many.

        The method is left out, since a long history makes a refit more likely, and so is the error, which is smaller
        after a refit: what is kept is what this model accepts, or the next power of ten above an error beyond that.
        """
        kept = {name: value for name, value in asdict(self).items() if name not in _OF_HISTORIES}
        accepted = {"residual": self.tolerance, "weight_error": self.bound, "proof": self.bound}
        return kept | {name: _at_most(kept[name], most) for name, most in accepted.items()}

    def matches(self, model: Any) -> bool:
        """Whether a model is in the state after this change; it must be the same model, with its living state."""
        gram_of(model)
        roll = roll_of(model)
        return roll is not None and self.after == digest_of(roll, self.nonce, fingerprint_of(model))


_OF_HISTORIES = ("interactions", "new_items", "gone_items", "method", "seconds", "bound")


def _at_most(error: float | None, accepted: float) -> float | None:
    """The next power of ten above what is accepted, or above an error beyond that."""
    if error is None:
        return None
    largest = max(error, accepted)
    return float(10.0 ** np.ceil(np.log10(largest))) if largest else 0.0


def digest_of(roll: Roll | None, nonce: str, text: str) -> str:
    """32 digits that only the holder of the model's secret key can make, or test a guess with."""
    key = secrets.token_bytes(32) if roll is None else roll.hashes.key
    return hashlib.blake2b((nonce + text).encode(), digest_size=16, key=key, person=b"certificate").hexdigest()


def changed(model: Any, X: Any, sign: int, *, prove: bool, progress: Progress | None) -> Certificate:
    """Add (+1) or remove (−1) users; after an error the model is what it was."""
    begin = time.perf_counter()
    check_able(model)
    check_exact(model)
    G = gram_of(model, progress)
    rows, catalogue = user_rows.rows_of(model.item_ids_, X, sign)
    nonce, roll = secrets.token_hex(16), roll_of(model)
    fingerprint = digest_of(roll, nonce, fingerprint_of(model))
    if roll is not None:
        roll = user_rows.on_the_roll(roll, X, rows, catalogue.item_ids, sign)
    sums = user_rows.Sums(G, model._low)
    if catalogue.at is not None:
        sums = sums.moved(catalogue.at)
    grown = sums.G
    items = np.unique(rows.indices).astype(np.int64)
    if roll is None:
        facts, low_sums = user_rows.facts_after(grown, rows, sign), np.zeros(0)
    else:
        facts, low_sums = user_rows.exact_facts(sums, rows, sign)
    if sign < 0 and grown.n_interactions and not facts["item_counts"].any():
        raise OffdiagError(
            "these are all users of the model, and nothing would be left: delete it (nothing was changed)"
        )
    gone = items[facts["item_counts"][items] == 0] if catalogue.by_id else items[:0]
    fresh = None
    with _Shield() as shield:
        shield.release()
        if not rows.shape[0]:
            relearned = Relearned({}, "nothing to do", 0.0, 0.0)
        elif len(items) >= min(max(SMALL, grown.n_items // 2), LARGE):
            if roll is None:
                sums = user_rows.Sums(
                    user_rows.summed(user_rows.wide_enough(grown, rows, facts), rows, facts, sign), None
                )
            else:
                sums = user_rows.exact_sums(sums, rows, sign)
            sums = sums.without(gone)
            G = sums.G
            relearned = refit(model, G, progress)
            fresh = model._refitted(G, progress) if prove else None
            shield.hold()
        else:
            before = grown.part(items)
            if roll is None:
                after = user_rows.part_after(grown, before, rows, items, facts, sign)
            else:
                after, low = user_rows.exact_part(sums, before, rows, items, facts, sign)
                sums = sums.with_low(items, low, low_sums)
            old: Facts = {"activity": grown.activity, "item_counts": grown.item_counts, "item_sums": grown.item_sums}
            scale_before = grown.scale
            G = user_rows.wide_enough(grown, rows, facts)
            in_place = G is model._gram
            shield.hold()
            try:
                G = G.put(items, after, facts) if roll is None else user_rows.put_exactly(G, items, after, facts)
                sums = replace(sums, G=G).without(gone)
                shield.release()
                stay = np.isin(items, gone, invert=True)
                kept = np.setdiff1d(np.arange(G.n_items), gone)
                change = Change(
                    sums.G,
                    np.searchsorted(kept, items[stay]),
                    before[np.ix_(stay, stay)],
                    after[np.ix_(stay, stay)],
                    _places(len(model.item_ids_), catalogue.at, kept, G.n_items),
                    scale_before,
                    shield.hold,
                )
                # The proof comes first: it may fail, and what it is compared with is about to be overwritten.
                fresh = model._refitted(change.G, progress) if prove else None
                relearned = model._relearned(change, progress)
                shield.hold()
                G = change.G
            except BaseException:
                shield.hold()
                if in_place:
                    model._gram = G.put(items, before, old)
                raise
        kept = np.setdiff1d(np.arange(len(catalogue.item_ids)), gone)
        for name, value in relearned.attributes.items():
            setattr(model, name, value)
        model.item_ids_ = catalogue.item_ids[kept]
        model.popularity_ = G.item_sums.copy()
        model.n_users_ = G.n_users
        model._gram = G
        if rows.shape[0]:
            model._source = model._user_ids = model._ledger = None  # they tell of before; a new ledger is the caller's
        model._roll = roll
        model._low = sums.low
        tolerance, bound = model._accepted()
        model.last_change = Certificate(
            action="update" if sign > 0 else "forget",
            users=rows.shape[0],
            interactions=int(rows.nnz),
            n_users=G.n_users,
            n_items=G.n_items,
            new_items=[] if catalogue.at is None else catalogue.item_ids[catalogue.at < 0].tolist(),
            gone_items=catalogue.item_ids[gone].tolist(),
            method=relearned.method,
            residual=relearned.residual,
            tolerance=tolerance,
            weight_error=relearned.weight_error,
            bound=bound,
            proof=None if fresh is None else difference(model.weights_, fresh.weights_),
            nonce=nonce,
            before=fingerprint,
            after=digest_of(roll, nonce, fingerprint_of(model)),
            seconds=time.perf_counter() - begin,
        )
    return model.last_change  # type: ignore[no-any-return]


def gram_of(model: Any, progress: Progress | None = None) -> Gram | SparseGram:
    """The Gram behind a fitted model, read from its living state or counted from its data when first asked for."""
    if model._gram is None and model._living is not None:
        model._living.restore(model)
        model._living = None
    if model._gram is None:
        source = model._source
        if source is None:
            raise OffdiagError(
                f"this {type(model).__name__} does not have its Gram any more: a model can be changed after fit in the "
                "same program, or from a file that was saved with updatable=True (offdiag fit --updatable)"
            )
        if isinstance(source, Gram):  # another's: copied, and wide enough that sums lose nothing
            model._gram = source.copy() if user_rows.counted(source) else source.astype(np.float64)
        else:
            user_rows.check_same(source, model._source_sums)
            model._gram = model._count_gram(source, model.settings_["user_power"], progress)
            if isinstance(source, sparse.csr_array):
                model._gram, model._low = exact.count(model._gram, source)
                model._roll = Roll.of(source, model.item_ids_)
    return model._gram  # type: ignore[no-any-return]


def check_exact(model: Any) -> None:
    """Of sums that were rounded before they came here nothing can be taken out without a trace."""
    source = model._source
    if isinstance(source, Gram) and source.dtype == np.float32 and not user_rows.counted(source):
        raise OffdiagError(
            f"this {type(model).__name__} was fitted on a Gram in float32, whose sums are rounded, so it cannot be "
            "changed exactly: count it in double precision, od.gram(..., dtype='float64'), and fit again"
        )


def ledger_of(model: Any) -> Any:
    """Which users and events are in the model, where that is known."""
    if model._living is not None:
        gram_of(model)
    return model._ledger


def roll_of(model: Any) -> Roll | None:
    """Digests of the histories that the model has learned; None for a model that was fitted on a Gram."""
    ledger = model._ledger
    if ledger is not None and (model._roll is None or model._roll.hashes is not ledger.hashes):
        model._roll = ledger.roll()
    return model._roll  # type: ignore[no-any-return]


def refit(model: Any, G: Gram | SparseGram, progress: Progress | None) -> Relearned:
    """The same settings on the changed Gram: always right, never cheap."""
    fresh = model._refitted(G, progress)
    apart = ("item_ids_", "popularity_", "n_users_", "settings_")
    learned = {name: value for name, value in vars(fresh).items() if name.endswith("_") and name not in apart}
    return Relearned(learned, "refit", 0.0, 0.0)


def difference(W: Any, other: Any) -> float:
    """The largest difference between two weights of the same items."""
    m, largest = W.shape[0], 0.0
    for lo in range(0, m, ROWS):
        some = sparse.eye_array(m, format="csr", dtype=np.float32)[lo : lo + ROWS]
        largest = max(largest, float(np.abs((some @ W).astype(np.float64) - some @ other).max(initial=0.0)))
    return largest


def fingerprint_of(model: Any) -> str:
    """64 hex digits that differ when ids, Gram or weights differ."""
    W, G = model.weights_, model._gram
    if model._fingerprint is None or model._fingerprint[0] is not W or model._fingerprint[1] is not G:
        from offdiag._kernels import packed_rows

        digest = hashlib.sha256("\n".join(map(repr, model.item_ids_.tolist())).encode("utf-8", "surrogatepass"))
        for name, array in sorted(G.arrays().items()) + sorted(W.arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(packed_rows.fingerprints(array).tobytes())
        model._fingerprint = W, G, digest.hexdigest()
    return str(model._fingerprint[2])


def check_able(model: Any) -> None:
    name = type(model).__name__
    if model.weights_.lossy:
        raise OffdiagError(f"a compressed {name} cannot be changed: change the model it came from, then compress again")
    if not hasattr(model, "_relearned"):
        raise OffdiagError(f"{name} cannot be updated or made to forget: fit it again on the changed data")


def _places(
    m_old: int, at: NDArray[np.int64] | None, kept: NDArray[np.int64], m_grown: int
) -> NDArray[np.int64] | None:
    """Where every old column is now."""
    if at is None and len(kept) == m_grown:
        return None
    origin = (np.arange(m_grown) if at is None else at)[kept]
    places = np.full(m_old, -1, dtype=np.int64)
    places[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
    return places


class _Shield:
    """Ctrl-C while held takes effect at the release: half a change is none. It begins and ends held."""

    def __enter__(self) -> _Shield:
        self._held, self._pending = True, False
        before = signal.getsignal(signal.SIGINT)
        self._before = before if threading.current_thread() is threading.main_thread() and callable(before) else None
        if self._before is not None:
            signal.signal(signal.SIGINT, self._handler)
        return self

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _handler(self, number: int, frame: Any) -> None:
        if self._held:
            self._pending = True
        elif callable(self._before):
            self._before(number, frame)

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self._held = True
        finally:
            if self._before is not None:
                signal.signal(signal.SIGINT, self._before)
        if kind is None:
            self.release()
