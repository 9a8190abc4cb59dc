"""The interface that the trained nets share: from data to a network, with early stopping and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.baselines.nets import early_stopping, net_fields, training
from offdiag.baselines.nets.checkpoints import Checkpoint, fingerprint
from offdiag.baselines.nets.early_stopping import Watched
from offdiag.errors import OffdiagError
from offdiag.models import fields
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, Source, read_data
from offdiag.progress import Progress, reporter

if TYPE_CHECKING:
    from offdiag.ranking import Explanation

LARGEST = 1e12  # sums of squares of a history stay in the range of float32


@fields.model
class _Settings(Recommender):
    """How a net is trained."""

    epochs: int = net_fields.epochs()
    patience: int = fields.setting(
        20, low=1, help="Training ends after this many epochs without a better nDCG@100 on the validation users."
    )
    batch_users: int = net_fields.batch_users()
    learning_rate: float = net_fields.learning_rate()
    seed: int = fields.seed()


class Neural(_Settings):
    """A subclass is its settings, its net and the number of its parameters."""

    stops_early = True
    epochs_: int  # number of epochs run
    best_epoch_: int  # the epoch whose weights are kept; without validation users the last one
    losses_: list[float]  # mean loss per user over each epoch
    validation_: list[float]  # nDCG@100 after each epoch; empty without validation users

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        validation: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | bool | None = None,
        **reading: Unpack[Reading],
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        ``validation`` (a HeldOut with the same columns, as in a split) decides which epoch is kept; without it a
        twentieth of the users is set aside for that and not trained on. ``checkpoint`` names a file that is
        updated during training: the same call resumes from it and ends with exactly the numbers of a run that was
        never interrupted. It may then ask for more ``epochs``; everything else must be the same.
        """
        progress = reporter(progress)
        used = self._validate()
        matrix, source = self._training_rows(X, reading)
        name, m, settings = type(self).__name__, matrix.shape[1], used._settings()
        if matrix.data.max() > LARGEST:
            raise OffdiagError(
                f"{name} computes in float32 and takes values up to {LARGEST:g}, received values up to "
                f"{matrix.data.max():g}; use od.prepare.binarize"
            )
        rows = matrix[np.flatnonzero(np.diff(matrix.indptr))]  # an empty history teaches nothing
        rows, watched = self._watched(rows, validation, source.item_ids, used.seed)
        training.torch_or_error(name)
        batch = min(used.batch_users, rows.shape[0])
        memory.require(
            4 * (6 * used._size(rows) + 6 * batch * m),  # gradients, Adam's moments, the best, one in flight
            f"a {name} of {m:,} items",
            "lower width, rank or batch_users, or keep fewer items (od.prepare.min_counts)",
        )
        data = [rows] + ([watched.histories, watched.targets] if watched else [])
        mark = "" if checkpoint is None else fingerprint(name, settings, data)
        net = used._net(rows)
        run = training.train(net, rows, watched, used, Checkpoint(checkpoint, mark, settings), progress)
        return self._store(
            net.network(), **vars(source), settings=settings, epochs_=run.epoch,
            best_epoch_=run.best_epoch or run.epoch, losses_=run.losses, validation_=run.validation,
        )  # fmt: skip

    def explain(self, history: Any, item: Any, **words: Any) -> Explanation:
        raise OffdiagError(
            f"{type(self).__name__} is not linear: a score is not a sum over the items of a history; "
            "explain with EDLAE instead"
        )

    def _training_rows(self, X: Any, reading: Mapping[str, Any]) -> tuple[sparse.csr_array, Source]:
        """Users as rows, as the net takes them."""
        return read_data(X, reading)

    def _watched(
        self, rows: sparse.csr_array, validation: Any, item_ids: NDArray[Any], seed: int
    ) -> tuple[sparse.csr_array, Watched | None]:
        """The rows to train on, and the users who decide when to stop."""
        if validation is None:
            return early_stopping.set_aside(rows, seed)
        return rows, early_stopping.given(validation, item_ids)

    def _net(self, rows: sparse.csr_array) -> training.Net:
        raise NotImplementedError

    def _size(self, rows: sparse.csr_array) -> int:
        """How many parameters the net has."""
        raise NotImplementedError
