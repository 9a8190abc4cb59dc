"""What a fitted model remembers of its users, in one value: the starting point of ``update`` and ``forget``.

A ``Past`` is never changed, only replaced in one assignment, so that no interrupt leaves it incomplete. It is
never in a pickle or a model file; ``offdiag.living.state`` writes what a change needs to a separate file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.gramian import exact
from offdiag.gramian.packed import Gram
from offdiag.living import order
from offdiag.living.ledger import Roll
from offdiag.living.user_rows import counts_users
from offdiag.progress import Progress
from offdiag.weights import Weights

if TYPE_CHECKING:
    from offdiag.gramian.sparse import SparseGram
    from offdiag.living.certificate import Certificate
    from offdiag.living.ledger import Ledger
    from offdiag.living.order import Histories
    from offdiag.living.state import LivingFile
    from offdiag.models.recommender import Recommender

SourceSums = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Past:
    """Everything here depends on users; a model that was loaded only for serving has an empty one."""

    source: sparse.csr_array | Gram | SparseGram | None = None  # of the fit, by reference: the Gram is counted from it
    source_sums: SourceSums | None = None  # of a matrix, to detect later changes
    histories: Histories | None = None  # of the users of the source in order, if the model learned that
    user_ids: NDArray[Any] | None = None  # of the rows of the source
    gram: Gram | SparseGram | None = None  # None until needed
    low: SparseGram | None = None  # the remainders of the sums in the Gram, see offdiag.gramian.exact
    ledger: Ledger | None = None  # which users and events are in the model
    roll: Roll | None = None  # digests of their histories; None for a model fitted on a Gram
    fingerprint: tuple[Weights, Gram | SparseGram, str] | None = None  # of the model with these weights and this Gram
    file: LivingFile | None = None  # where to read the living state when needed
    first_format: bool = False  # read from a file that held everything in one
    certificate: Certificate | None = None  # of the last update or forget

    @classmethod
    def of_fit(cls, source: sparse.csr_array | Gram | SparseGram, X: Any = None) -> Past:
        """After a fit on this Gram, or on this matrix of ``X``; nothing is copied."""
        sums = _sums(source) if isinstance(source, sparse.csr_array) else None
        return cls(source, sums, user_ids=getattr(X, "user_ids", None))

    def in_order(self, histories: Histories) -> Past:
        """The same, where the model learned the order too."""
        assert self.source_sums is not None
        return replace(self, histories=histories, source_sums=(*self.source_sums, *histories.checksum()))

    def _sums(self, matrix: sparse.csr_array) -> SourceSums:
        return (*_sums(matrix), *(() if self.histories is None else self.histories.checksum()))

    def matrix(self) -> sparse.csr_array | None:
        """The data of the fit, if available; raises an error if it has changed since."""
        if not isinstance(self.source, sparse.csr_array):
            return None
        if self._sums(self.source) != self.source_sums:
            raise OffdiagError(
                "the matrix this model was fitted on has been changed since, and its Gram was not counted yet; fit "
                "again, or read model.gram_ before you change the matrix"
            )
        return self.source

    def share(self) -> None:
        """Called for every copy of the model: the first one to be changed makes a copy of the Gram."""
        if self.gram is not None:
            self.gram.values.flags.writeable = False


def _sums(matrix: sparse.csr_array) -> SourceSums:
    """Sums that detect a change of a matrix."""
    return (
        *matrix.shape,
        matrix.nnz,
        float(matrix.data.sum(dtype=np.float64)),
        int(matrix.indices.sum(dtype=np.int64)),
    )


def can_follow(model: Recommender) -> bool:
    """Whether users can be added to and removed from a fit of this model; some of its settings may rule that out."""
    return model.can_change and not (model.knows_order and model.get_params().get("neighbours") is not None)


def check_changeable(model: Recommender) -> None:
    """Check that users can be added to and removed from this model exactly."""
    name, source = type(model).__name__, model._past.source
    if model.weights_.lossy:
        raise OffdiagError(f"a compressed {name} cannot be changed: change the model it came from, then compress again")
    if model.weights_.takes_dislikes:
        raise OffdiagError(
            f"a {name} with dislike_weight cannot be updated or made to forget: fit it again on the changed data"
        )
    if not model.can_change:
        raise OffdiagError(f"{name} cannot be updated or made to forget: fit it again on the changed data")
    if not can_follow(model):
        raise OffdiagError(
            f"a {name} with neighbours cannot be updated or made to forget: fit it again on the changed data"
        )
    if model.settings_.get("prior_weight"):
        raise OffdiagError(
            f"a {name} fitted with prior_weight cannot be updated or made to forget: the prior may have been learned "
            "from its users; fit it again on the changed data"
        )
    if isinstance(source, Gram) and source.dtype == np.float32 and not counts_users(source):
        raise OffdiagError(  # rounded sums keep a trace of subtracted users
            f"this {name} was fitted on a Gram in float32, whose sums are rounded, so it cannot be "
            "changed exactly: count it in double precision, od.gram(..., dtype='float64'), and fit again"
        )


def gram_of(model: Recommender, progress: Progress | None = None) -> Gram | SparseGram:
    """The Gram behind a fitted model, read from its living state or counted from its data when first asked for."""
    past = model._past
    if past.gram is None:
        past = past.file.read(model) if past.file is not None else _count(model, past, progress)
        model._past = past
    assert past.gram is not None
    return past.gram


def _count(model: Recommender, past: Past, progress: Progress | None) -> Past:
    source = past.source
    if source is None:
        raise OffdiagError(
            f"this {type(model).__name__} does not have its Gram any more: a model can be changed after fit in the "
            "same program, or from a file that was saved with updatable=True (offdiag fit --updatable)"
        )
    if isinstance(source, Gram):  # the caller's: copied, in a precision that keeps sums exact
        return replace(past, gram=source.copy() if counts_users(source) else source.astype(np.float64))
    matrix = past.matrix()
    if past.histories is not None and matrix is not None:
        power = model.settings_["user_power"]
        sums, low, roll = order.count(past.histories, matrix, learned_ids(model), power, progress)
        return replace(past, gram=sums, low=low, roll=roll)
    G = model._count_gram(source, model.settings_["user_power"], progress)
    if matrix is None:
        return replace(past, gram=G)
    G, low = exact.count(G, matrix)
    return replace(past, gram=G, low=low, roll=Roll.of(matrix, learned_ids(model)))


def learned_ids(model: Recommender) -> NDArray[Any]:
    """The items that the users of the model have chosen: those of its Gram. Items that were added come after them."""
    return model.item_ids_[: model.weights_.learned.shape[0]]


def ledger_of(model: Recommender) -> Ledger | None:
    """Which users and events are in the model, if known."""
    if model._past.file is not None:
        gram_of(model)
    return model._past.ledger


def keep_ledger(model: Recommender, ledger: Ledger | None) -> None:
    """Set the ledger of the current users; only the reader of the log can know it."""
    model._past = replace(model._past, ledger=ledger)


def roll_of(model: Recommender) -> Roll | None:
    """Digests of the histories that the model has learned; None for a model fitted on a Gram."""
    ledger, roll = model._past.ledger, model._past.roll
    if ledger is not None and (roll is None or roll.hashes is not ledger.hashes):
        roll = ledger.roll()
        model._past = replace(model._past, roll=roll)
    return roll


def fingerprint_of(model: Recommender) -> str:
    """64 hex digits that differ when ids, Gram or weights differ."""
    W, G, known = model.weights_, gram_of(model), model._past.fingerprint
    if known is None or known[0] is not W or known[1] is not G:
        from offdiag._kernels import packed_rows

        digest = hashlib.sha256("\n".join(map(repr, model.item_ids_.tolist())).encode("utf-8", "surrogatepass"))
        for name, array in sorted(G.arrays().items()) + sorted(W.arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(packed_rows.fingerprints(array).tobytes())
        known = W, G, digest.hexdigest()
        model._past = replace(model._past, fingerprint=known)
    return known[2]
