"""The collaborative denoising autoencoder: a vector per user beside the items of the history [Wu16]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.baselines.nets import training
from offdiag.baselines.nets.fitting import Neural
from offdiag.weights import Network


@dataclass(kw_only=True, eq=False)
class CDAE(Neural):
    """x̂ = f(x̃ W1 + v_u + b1) W2ᵀ + b2 with a vector v_u for every user of the training data [Wu16 Eq. 2, 3].

    x̃ is the history with entries dropped. Every item counts in the loss, "logistic" or "squared", with target 1 where
    the user has it and 0 elsewhere; ``positive_weight`` times the value of an entry weighs the ones, the zeros weigh 1.
    ``l2`` times the squares of both matrices and of the batch's user vectors is added, per user. Who was not in the
    training data has no vector and gets the mean of all, which is also what early stopping watches, and what is
    saved: no row of a user is in a model. Needs torch (extra ``neural``).
    """

    width: int = 200
    activation: Literal["tanh", "sigmoid"] = "tanh"
    loss: Literal["logistic", "squared"] = "logistic"
    positive_weight: float = 5.0
    dropout: float = 0.5
    l2: float = 0.0
    epochs: int = 200
    patience: int = 20
    batch_users: int = 100
    learning_rate: float = 1e-3
    seed: int = 0

    def _net(self, rows: sparse.csr_array, settings: dict[str, Any]) -> training.Net:
        return CollaborativeNet(*rows.shape, settings)

    def _size(self, rows: sparse.csr_array, settings: dict[str, Any]) -> int:
        n, m = rows.shape
        return (n + 2 * m + 1) * int(settings["width"]) + m


class CollaborativeNet:
    def __init__(self, n: int, m: int, settings: dict[str, Any]) -> None:
        self.settings = settings
        rng, width = np.random.default_rng([settings["seed"], 0]), settings["width"]
        self.parameters: dict[str, Any] = {
            "W1": training.glorot(rng, m, width),
            "b1": training.zeros(width),
            "W2": training.glorot(rng, m, width),
            "b2": training.zeros(m),
            "users": training.glorot(rng, n, width),
        }

    def loss(self, users: NDArray[np.int64], x: sparse.csr_array, rng: np.random.Generator, step: int) -> Any:
        import torch

        W1, b1, W2, b2, vectors = self.parameters.values()
        own = vectors.index_select(0, torch.from_numpy(users))
        entered = training.gathered(training.dropped(x, self.settings["dropout"], rng), W1) + own + b1
        hidden = torch.tanh(entered) if self.settings["activation"] == "tanh" else torch.sigmoid(entered)
        scores = torch.addmm(b2, hidden, W2.T)
        errors = losses_of(self.settings["loss"])(scores, x, self.settings["positive_weight"])
        if self.settings["l2"] == 0:
            return errors
        return errors + self.settings["l2"] * ((W1**2).sum() + (W2**2).sum() + (own**2).sum())

    def network(self) -> Network:
        W1, b1, W2, b2, vectors = (tensor.detach().numpy() for tensor in self.parameters.values())
        nobody = b1 + vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        return Network(((W1, nobody), (W2, b2)), (self.settings["activation"],), False)


def losses_of(name: str) -> Any:
    return logistic if name == "logistic" else squared


def logistic(scores: Any, x: sparse.csr_array, positive_weight: float) -> Any:
    """Σ_{x_i=0} log(1 + e^s_i) + Σ_{x_i>0} w_i log(1 + e^−s_i), w = positive_weight·x, the mean over the rows."""
    import torch

    softplus = torch.nn.functional.softplus
    ones, weights = _at_ones(scores, x, positive_weight)
    return (softplus(scores).sum() + (weights * softplus(-ones) - softplus(ones)).sum()) / x.shape[0]


def squared(scores: Any, x: sparse.csr_array, positive_weight: float) -> Any:
    """Σ_{x_i=0} s_i² + Σ_{x_i>0} w_i (1 − s_i)², w = positive_weight·x, the mean over the rows."""
    ones, weights = _at_ones(scores, x, positive_weight)
    return ((scores**2).sum() + (weights * (1 - ones) ** 2 - ones**2).sum()) / x.shape[0]


def _at_ones(scores: Any, x: sparse.csr_array, positive_weight: float) -> tuple[Any, Any]:
    import torch

    return training.at_entries(scores, x), torch.from_numpy((positive_weight * x.data).astype(np.float32))
