"""The state needed only to change a model, in a separate file: the Gram, and digests of its users and events.

The file ``model.od.living`` is next to ``model.od`` and sealed (``offdiag.files.sealed``) with a key that is kept
elsewhere (``offdiag.files.keys``). It names the fingerprint of its model file. The key of its digests is stored only
wrapped with that same key.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import wording
from offdiag.errors import OffdiagError
from offdiag.files import sealed, switch
from offdiag.files.keys import Key, Source, keys_of
from offdiag.living import first_format, past
from offdiag.living.digests import Hashes, Hashing
from offdiag.living.first_format import FirstHashes
from offdiag.living.ledger import Ledger, Roll
from offdiag.living.past import Past

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender

VERSION = 1
REVEALED = (
    "the file was written by an earlier offdiag, whose updatable files could reveal users' histories to whoever read "
    "them; it is converted now, and what a change needs is kept encrypted in {living}: destroy older copies"
)


@dataclass(frozen=True)
class LivingFile:
    """Where a loaded model finds its living state when it is first needed."""

    target: Path
    key: Source
    fingerprint: str  # of the model file that was loaded

    def read(self, model: Recommender) -> Past:
        """The past of the model, decrypted and checked."""
        path = switch.living_path(self.target)
        about, arrays, key = sealed.read(path, keys_of(self.key), f"the living state {str(path)!r}")
        if about.get("serving") != self.fingerprint:
            raise OffdiagError(
                f"{path.name!r} belongs to another state of the model than the one loaded from {str(self.target)!r}: "
                "load it again; if one of the two files was replaced or restored alone, restore both, or fit again"
            )
        try:
            if about["version"] > VERSION:
                raise OffdiagError(f"{str(path)!r} was written by a newer offdiag: upgrade offdiag")
            return read_past(model, about, arrays, unwrap_key(about, key))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            if isinstance(error, OffdiagError):
                raise
            raise OffdiagError(
                f"the living state {str(path)!r} is whole but makes no sense ({wording.one_line(error)}): fit again"
            ) from error


def contents(model: Recommender, key: Key, fingerprint: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Description and tensors of the living state of a fitted model."""
    ledger, G = _ledger_of(model), past.gram_of(model)
    about: dict[str, Any] = {
        "version": VERSION,
        "serving": fingerprint,
        "gram": {"kind": G.kind, "user_power": G.user_power},
    }
    tensors = {f"gram.{name}": array for name, array in G.arrays().items()}
    if model._past.low is not None:
        tensors |= {f"low.{name}": array for name, array in model._past.low.arrays().items()}
    roll = past.roll_of(model)
    if roll is not None:
        about |= wrap_key(roll.hashes, key)
    if ledger is not None:
        about["ledger"] = ledger.about()
        tensors |= {f"ledger.{name}": array for name, array in ledger.entries.arrays().items()}
    elif roll is not None:
        tensors |= {f"roll.{name}": array for name, array in roll.arrays().items()}
    return about, dict(sorted(tensors.items(), key=lambda pair: -pair[1].dtype.itemsize))


def wrap_key(hashes: Hashing, key: Key) -> dict[str, str]:
    """The key of the digests, readable only with the key of the file."""
    nonce = secrets.token_bytes(32)
    found = {"nonce": nonce.hex(), "hash_key": _mask(hashes.key, key, b"hash key", nonce)}
    if isinstance(hashes, FirstHashes):
        found["first_salt"] = _mask(hashes.salt, key, b"first salt", nonce)
    return found


def unwrap_key(about: dict[str, Any], key: Key) -> Hashing | None:
    if "hash_key" not in about:
        return None
    nonce = bytes.fromhex(about["nonce"])
    secret = bytes.fromhex(_mask(bytes.fromhex(about["hash_key"]), key, b"hash key", nonce))
    if "first_salt" not in about:
        return Hashes(secret)
    return FirstHashes(secret, bytes.fromhex(_mask(bytes.fromhex(about["first_salt"]), key, b"first salt", nonce)))


def _mask(secret: bytes, key: Key, purpose: bytes, nonce: bytes) -> str:
    """XOR with a pad that is used once; the file as a whole is authenticated."""
    return bytes(a ^ b for a, b in zip(secret, key.derive(purpose, nonce), strict=False)).hex()


def read_past(
    model: Recommender, about: dict[str, Any], arrays: dict[str, NDArray[Any]], hashes: Hashing | None
) -> Past:
    """The past of a loaded model from the arrays; its settings and item ids are already set."""
    from offdiag.gramian.order_gram import OrderGram
    from offdiag.gramian.packed import Gram
    from offdiag.gramian.sparse import SparseGram

    params, penalty = model.get_params(), getattr(model, "penalty_", None)
    used = {name: value for name, value in model.settings_.items() if name in params}
    type(model)(**params | used)._valid_settings()
    if not all(_is_number(x) for x in (about["gram"]["user_power"], 0.0 if penalty is None else penalty)):
        raise ValueError("a penalty or a power is not a number")
    kinds: dict[str, Any] = {"packed": Gram, "sparse": SparseGram, "order": OrderGram}
    G = kinds[about["gram"]["kind"]].from_arrays(named(arrays, "gram."), about["gram"])
    if G.n_items != len(past.learned_ids(model)):
        raise ValueError("the Gram does not fit the items")
    low = None
    if rest := named(arrays, "low."):
        low = SparseGram.from_arrays(rest, about["gram"])
        if low.n_items != G.n_items or low.values.dtype != np.float64:
            raise ValueError("the remainders do not fit the Gram")
    if hashes is None:
        return Past(gram=G, low=low)
    if "ledger" in about:
        return Past(gram=G, low=low, ledger=Ledger.from_arrays(hashes, named(arrays, "ledger."), about["ledger"]))
    return Past(gram=G, low=low, roll=Roll.from_arrays(hashes, named(arrays, "roll.")))


def read_first_format(model: Recommender, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Past:
    """The same from a file of the first format, which held everything in one."""
    hashes, arrays = first_format.convert(about, arrays)
    return replace(read_past(model, about, arrays, hashes), first_format=True)


def named(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and bool(np.isfinite(value))


def _ledger_of(model: Recommender) -> Ledger | None:
    """The ledger of the model, or that of the users it was fitted on, if their ids are known."""
    user_ids, histories = model._past.user_ids, model._past.histories
    if model._past.ledger is None and user_ids is not None and _can_be_logged(user_ids, past.learned_ids(model)):
        from offdiag.data.interactions import Interactions
        from offdiag.living import events

        matrix = model._past.matrix()
        assert matrix is not None  # a Gram has no user ids
        inter = Interactions(matrix, user_ids, past.learned_ids(model))
        if histories is None:
            past.keep_ledger(model, events.ledger_of_data(inter))
        else:
            past.keep_ledger(model, events.ledger_of_histories(inter, histories))
    return model._past.ledger


def _can_be_logged(*ids: NDArray[Any]) -> bool:
    """Whether a table can have these ids: text or signed 64-bit integers."""
    return all(part.dtype.kind in "iU" or (part.dtype.kind == "u" and int(part.max(initial=0)) < 2**63) for part in ids)
