"""The collaborative denoising autoencoder: a vector per user in addition to the items of the history [Wu16]."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.baselines.nets import net_fields, training
from offdiag.baselines.nets.fitting import Neural
from offdiag.models import fields
from offdiag.weights import Network


@fields.model
class CDAE(Neural):
    """A denoising autoencoder with a vector for every user of the training data [Wu16].

    x̂ = f(x̃ W1 + v_u + b1) W2ᵀ + b2,  x̃ the history with entries dropped [Wu16 Eq. 2, 3]

    Use it as a non-linear baseline; it needs torch (extra ``neural``) to fit. The target of an item is 1 where the user
    has it and 0 elsewhere. A user who was not in the training data gets the mean of all vectors. Early stopping also
    uses the mean, and only the mean is saved, not the vectors: a model file holds no row of a user.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.CDAE(width=8, loss="squared", epochs=3).fit(X).epochs_
        3
    """

    width: int = net_fields.width(200)
    activation: Literal["tanh", "sigmoid"] = fields.setting(
        "tanh", choices=("tanh", "sigmoid"), help="The function f of the hidden layer."
    )
    loss: Literal["logistic", "squared"] = fields.setting(
        "logistic", choices=("logistic", "squared"), help="How errors are measured, summed over all items."
    )
    dropout: float = net_fields.dropout()
    positive_weight: float = fields.setting(
        5.0, low=0, search=fields.Range(1.0, 30.0, log=True),
        help="Weight of the items that the user has, times their value; the others have weight 1.",
    )  # fmt: skip
    l2: float = net_fields.l2()

    def _net(self, rows: sparse.csr_array) -> training.Net:
        return CollaborativeNet(*rows.shape, self)

    def _size(self, rows: sparse.csr_array) -> int:
        n, m = rows.shape
        return (n + 2 * m + 1) * self.width + m


class CollaborativeNet:
    def __init__(self, n: int, m: int, settings: CDAE) -> None:
        self.settings = settings
        rng, width = np.random.default_rng([settings.seed, 0]), settings.width
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
        entered = training.gather_rows(training.drop_entries(x, self.settings.dropout, rng), W1) + own + b1
        hidden = torch.tanh(entered) if self.settings.activation == "tanh" else torch.sigmoid(entered)
        scores = torch.addmm(b2, hidden, W2.T)
        measure = logistic if self.settings.loss == "logistic" else squared
        errors = measure(scores, x, self.settings.positive_weight)
        if self.settings.l2 == 0:
            return errors
        return errors + self.settings.l2 * ((W1**2).sum() + (W2**2).sum() + (own**2).sum())

    def network(self) -> Network:
        W1, b1, W2, b2, vectors = (tensor.detach().numpy() for tensor in self.parameters.values())
        nobody = b1 + vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        return Network(((W1, nobody), (W2, b2)), (self.settings.activation,), False)


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
