"""The certificate of a change: what was done to a model, and how far it is from a new fit."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from offdiag import notebook, wording
from offdiag.living.past import fingerprint_of, gram_of, roll_of

if TYPE_CHECKING:
    from offdiag.living.ledger import Roll
    from offdiag.models.recommender import Recommender
    from offdiag.weights import Weights

SHOWN = 3  # items in the repr
ROWS = 256  # rows of the weights compared at a time
_OF_HISTORIES = ("interactions", "new_items", "gone_items", "method", "seconds", "bound")


@dataclass(frozen=True)
class Certificate:
    """What was changed, and how far the model is from one that never saw (or always saw) these users.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.EASE(l2=10.0).fit(X)
        >>> certificate = model.forget(X.select_users([0, 1]))
        >>> certificate.action, certificate.users, certificate.matches(model)
        ('forget', 2, True)
    """

    action: str  # "update" or "forget"
    users: int
    interactions: int
    n_users: int  # after
    n_items: int  # after
    new_items: list[Any]
    gone_items: list[Any]
    method: str  # "woodbury", "columns", "warm restart", "refit", "sums"
    residual: float
    tolerance: float  # largest accepted residual, whichever users change
    weight_error: float
    bound: float  # largest accepted weight error, likewise
    proof: float | None  # the largest weight difference from a full refit, if requested
    objective_gap: float | None  # how far the objective is above that of the refit, as a share of what it explains
    nonce: str  # random, so that no two certificates can be compared
    before: str  # digests of item ids, Gram and weights under the model's secret key and the nonce
    after: str
    seconds: float

    def __repr__(self) -> str:
        """All fields, but of many items only the first ones."""
        lists = {name: f"[{wording.shorten(getattr(self, name), SHOWN)}]" for name in ("new_items", "gone_items")}
        shown = (f"{name}={lists.get(name) or repr(value)}" for name, value in vars(self).items())
        return f"Certificate({', '.join(shown)})"

    def _repr_html_(self) -> str:
        facts = {
            "users": f"{self.users:,}, {self.n_users:,} in the model now",
            "interactions": f"{self.interactions:,}",
            "items": f"{self.n_items:,} now, {len(self.new_items):,} new, {len(self.gone_items):,} gone",
            "method": f"{self.method}, {wording.seconds(self.seconds)}",
            "error of the weights": f"{self.weight_error:.2g}, accepted up to {self.bound:.2g}",
        }
        if self.proof is not None:
            facts["largest difference from a new fit"] = f"{self.proof:.2g}"
        if self.objective_gap is not None:
            facts["objective above that of a new fit"] = f"{self.objective_gap:.2g}"
        return notebook.card(f"Certificate: {self.action}", facts)

    def to_dict(self) -> dict[str, Any]:
        """The part that may be kept: nothing here depends on which items the users had, or on how many.

        The method is left out, since a long history makes a refit more likely, and so is the error, which is smaller
        after a refit. Kept instead is the next power of ten above the accepted error, or above a larger one.
        """
        kept = {name: value for name, value in asdict(self).items() if name not in _OF_HISTORIES}
        accepted = {"residual": self.tolerance, "weight_error": self.bound, "proof": self.bound}
        accepted["objective_gap"] = self.tolerance
        return kept | {name: _round_up(kept[name], most) for name, most in accepted.items()}

    def matches(self, model: Recommender) -> bool:
        """Whether a model is in the state after this change; it must be the same model, with its living state."""
        gram_of(model)
        roll = roll_of(model)
        return roll is not None and self.after == digest_of(roll, self.nonce, fingerprint_of(model))


def _round_up(error: float | None, accepted: float) -> float | None:
    """The next power of ten above the accepted error, or above a larger one."""
    if error is None:
        return None
    largest = max(error, accepted)
    return float(10.0 ** np.ceil(np.log10(largest))) if largest else 0.0


def digest_of(roll: Roll | None, nonce: str, text: str) -> str:
    """32 hex digits that only the holder of the model's secret key can compute or test a guess against."""
    key = secrets.token_bytes(32) if roll is None else roll.hashes.key
    return hashlib.blake2b((nonce + text).encode(), digest_size=16, key=key, person=b"certificate").hexdigest()


def difference(W: Weights, other: Weights) -> float:
    """The largest difference between two sets of weights over the same items."""
    m, largest = W.shape[0], 0.0
    for lo in range(0, m, ROWS):
        some = sparse.eye_array(m, format="csr", dtype=np.float32)[lo : lo + ROWS]
        ours, theirs = (some @ weights for weights in (W, other))
        largest = max(largest, float(np.abs(ours.astype(np.float64) - theirs).max(initial=0.0)))
    return largest
