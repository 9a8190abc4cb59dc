"""SASRec: self-attention over what a user chose before [Kang18]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import ranking
from offdiag.baselines.nets import early_stopping, net_fields, training
from offdiag.baselines.nets.early_stopping import Watched
from offdiag.baselines.nets.fitting import Neural
from offdiag.data.sequences import Sequences, weighted_rows
from offdiag.errors import OffdiagError
from offdiag.models import fields
from offdiag.models.ordered import read_ordered
from offdiag.models.source import Source
from offdiag.ranking import Recency
from offdiag.weights.attention import EPSILON, LONGEST, Padded, SelfAttention, padded, shapes

LENGTHS = (6, 12, 25)  # of histories that are computed together
BITS = Recency(0.5)  # the row of a history then holds the places of its last 53 events, one bit each


@fields.model
class SASRec(Neural):
    """Predicts each choice of a user from the choices before it, by self-attention [Kang18].

    h = LN(block(… block(√width·e_i + p_place))),  block(x) = z + FFN(LN(z)), z = x + attention(LN(x)),  score_i = h·e_i

    Use it as the neural baseline for models that know order; it needs torch (extra ``neural``) to fit, not to score.
    The architecture is that of the paper, with one head and places counted from the end.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> od.SASRec(width=8, epochs=2).fit(X).recommend([X.history(0)], k=5).items.shape  # latest last
        (1, 5)
    """

    knows_order = True
    width: int = fields.setting(50, low=1, whole=True, help="Numbers per item.")
    blocks: int = fields.setting(2, low=1, whole=True, help="Number of blocks of attention and a point-wise net.")
    length: int = fields.setting(
        LONGEST, low=1, high=LONGEST, whole=True, help="Only this many last choices of a history count."
    )
    loss: Literal["sampled", "full"] = fields.setting(
        "sampled", choices=("sampled", "full"),
        help="What is minimised at every choice. Logistic errors of it and of one other item, drawn at random, as in "
        "the paper; or the cross entropy over all items.",
    )  # fmt: skip
    dropout: float = net_fields.dropout(help="Share of numbers that are set to 0 while learning, at every layer.")
    batch_users: int = net_fields.batch_users(128)

    def _net(self, rows: sparse.csr_array) -> training.Net:
        return AttentionNet(rows.shape[1], self)

    def _size(self, rows: sparse.csr_array) -> int:
        return sum(int(np.prod(shape)) for shape in self._shapes(rows.shape[1]).values())

    def _shapes(self, m: int) -> dict[str, tuple[int, ...]]:
        return shapes(m, self.width, self.length, self.blocks)

    def _training_rows(self, X: Any, reading: Mapping[str, Any]) -> tuple[sparse.csr_array, Source]:
        sequences, matrix, source = read_ordered(X, reading, "SASRec")
        return coded(sequences, matrix.shape[1]), source

    def _watched(
        self, rows: sparse.csr_array, validation: Any, item_ids: NDArray[Any], seed: int
    ) -> tuple[sparse.csr_array, Watched | None]:
        if validation is None:
            return set_aside(rows, seed)
        ordered = getattr(validation, "ordered", None)
        if ordered is None:
            raise OffdiagError(
                "SASRec needs the order of validation histories, received none; take validation from a split of "
                "Interactions with times or events"
            )
        histories, _ = ranking.encode(ordered, item_ids, BITS)
        watched = early_stopping.given(validation, item_ids)
        return rows, Watched(histories[np.flatnonzero(np.diff(validation.targets.indptr))], watched.targets)

    def _recency(self) -> Recency:
        return BITS


def coded(sequences: Sequences, m: int) -> sparse.csr_array:
    """Rows whose values hold the places of the last events as bits, as histories are given to the model."""
    recent = sequences.select_events(sequences.from_end() < LONGEST + 2)  # older ones would only be rounded away
    return weighted_rows(recent, m, BITS.decay ** recent.from_end().astype(np.float64))


def set_aside(rows: sparse.csr_array, seed: int) -> tuple[sparse.csr_array, Watched | None]:
    """The remaining training data, and a twentieth of the users with their last choice as the target."""
    lengths = np.diff(rows.indptr)
    able = np.flatnonzero(lengths >= early_stopping.LEAST)
    count = min(int((lengths > 0).sum()) // early_stopping.SHARE, early_stopping.MOST, len(able))
    if count < 1:
        return rows, None
    chosen = np.sort(np.random.default_rng([seed, 0, 1]).choice(able, count, replace=False))
    some = rows[chosen]
    last = some.data >= 1  # the bit of place 0
    histories, targets = some.copy(), some.copy()
    histories.data = 2 * (some.data - last)  # everything moves up by one place
    targets.data = last.astype(np.float32)
    for matrix in (histories, targets):
        matrix.eliminate_zeros()
    rest = np.setdiff1d(np.arange(rows.shape[0]), chosen)
    return rows[rest], Watched(histories, targets)


class AttentionNet:
    def __init__(self, m: int, settings: SASRec) -> None:
        import torch

        self.settings, self.m = settings, m
        rng = np.random.default_rng([settings.seed, 0])
        self.parameters: dict[str, Any] = {}
        for name, shape in settings._shapes(m).items():
            if len(shape) == 2:
                self.parameters[name] = training.glorot(rng, *shape)
            else:
                self.parameters[name] = torch.full(shape, float(name.startswith("scale")), requires_grad=True)

    def loss(self, users: NDArray[np.int64], x: sparse.csr_array, rng: np.random.Generator, step: int) -> Any:
        import torch

        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        whole = padded(x, self.settings.length + 1)
        parts = [
            self._sum(x[some], Padded(whole.items[some, -longest:], whole.filled[some, -longest:]), rng, generator)
            for some, longest in of_similar_length(whole.filled)
        ]
        if not parts:  # nobody here has two events
            return sum(tensor.sum() for tensor in self.parameters.values()) * 0.0
        return sum(parts) / len(users)

    def _sum(self, x: sparse.csr_array, whole: Padded, rng: np.random.Generator, generator: Any) -> Any:
        """The sum of the losses of all choices of these users but the first."""
        import torch

        given, wanted = (Padded(whole.items[:, at], whole.filled[:, at]) for at in (slice(None, -1), slice(1, None)))
        rows, places = np.nonzero(given.filled)
        states = self.states(given, generator)[torch.from_numpy(rows), torch.from_numpy(places)]
        items, right = self.parameters["items"], wanted.items[rows, places]
        if self.settings.loss == "full":
            return torch.nn.functional.cross_entropy(states @ items.T, torch.from_numpy(right), reduction="sum")
        wrong = draw_others(x, rows, self.m, rng)
        scores = [(states * items[torch.from_numpy(chosen)]).sum(dim=1) for chosen in (right, wrong)]
        softplus = torch.nn.functional.softplus
        return (softplus(-scores[0]) + softplus(scores[1])).sum()

    def states(self, given: Padded, generator: Any = None) -> Any:
        """The state at every place (users, length, width); with a generator, numbers are dropped."""
        import torch

        p, parts = self.settings.dropout, self.parameters
        length, width = given.items.shape[1], self.settings.width

        def drop(x: Any) -> Any:
            if generator is None or p == 0:
                return x
            return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)

        def normed(x: Any, scale: str, offset: str) -> Any:
            return torch.nn.functional.layer_norm(x, (width,), parts[scale], parts[offset], EPSILON)

        filled = torch.from_numpy(given.filled)
        visible = torch.ones((length, length)).tril().bool() & filled[:, None, :] | torch.eye(length).bool()
        places = parts["places"][:length].flip(0)
        x = drop(parts["items"][torch.from_numpy(given.items)] * width**0.5 + places) * filled[:, :, None]
        for n in range(self.settings.blocks):
            y = normed(x, f"scale{n}", f"offset{n}")
            strength = (y @ parts[f"query{n}"]) @ (y @ parts[f"key{n}"]).transpose(1, 2) / width**0.5
            share = torch.softmax(strength.masked_fill(~visible, -torch.inf), dim=2)
            x = x + drop(share) @ (y @ parts[f"value{n}"])
            y = normed(x, f"scale2{n}", f"offset2{n}")
            y = drop(torch.relu(y @ parts[f"first{n}"] + parts[f"first_bias{n}"]))
            x = (x + drop(y @ parts[f"second{n}"] + parts[f"second_bias{n}"])) * filled[:, :, None]
        return normed(x, "scale", "offset")

    def network(self) -> SelfAttention:
        return SelfAttention({name: tensor.detach().numpy() for name, tensor in self.parameters.items()})


def of_similar_length(filled: NDArray[np.bool_]) -> list[tuple[NDArray[np.int64], int]]:
    """Users with two events or more in groups, each with its longest length: empty places cost as much as full ones."""
    lengths = filled.sum(axis=1)
    group = np.searchsorted(LENGTHS, lengths)
    group[lengths < 2] = -1
    found = [np.flatnonzero(group == each) for each in np.unique(group[group >= 0])]
    return [(some, int(lengths[some].max())) for some in found]


def draw_others(x: sparse.csr_array, rows: NDArray[np.int64], m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each row number, an item that this row of x does not have; any item if it has nearly all."""
    own = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)) * m + x.indices
    drawn = rng.integers(m, size=len(rows))
    for _ in range(20):
        taken = np.flatnonzero(np.isin(rows * m + drawn, own))
        if not len(taken):
            break
        drawn[taken] = rng.integers(m, size=len(taken))
    return drawn
