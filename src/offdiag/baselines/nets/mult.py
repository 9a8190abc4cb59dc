"""Autoencoders with a multinomial likelihood, denoising and variational [Liang18]; see docs/baselines.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.baselines.nets import net_fields, training
from offdiag.baselines.nets.fitting import Neural
from offdiag.models import fields
from offdiag.weights import Network
from offdiag.weights.networks import unit_rows


@fields.model
class MultDAE(Neural):
    """A denoising autoencoder that predicts a whole history as draws from one distribution over items [Liang18].

    min −Σ_i x_i log π_i + l2·Σ‖W‖²,  π = softmax of the net, x̃ the history of unit length with entries dropped

    Use it as a non-linear baseline; it needs torch (extra ``neural``) to fit. The history passes ``depth`` layers of
    ``width``, one of ``rank`` and ``depth`` more, all tanh. The defaults, items → 200 → items, are the published net.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.MultDAE(rank=8, epochs=3).fit(X)
        >>> len(model.losses_)
        3
    """

    rank: int = net_fields.rank()
    width: int = net_fields.width()
    depth: int = net_fields.depth()
    dropout: float = net_fields.dropout()
    l2: float = net_fields.l2(default=2e-5, search=fields.Range(1e-7, 1e-3, log=True))

    def _net(self, rows: sparse.csr_array) -> training.Net:
        return DenoisingNet(rows.shape[1], self)

    def _size(self, rows: sparse.csr_array) -> int:
        return _size(_sizes(rows.shape[1], self))


@fields.model
class MultVAE(Neural):
    """A variational autoencoder: a history gives a normal distribution of vectors, one of which is decoded [Liang18].

    min −Σ_i x_i log π_i + β·KL(q ‖ N(0, I)),  β rising from 0 to beta [Liang18 Eq. 7]

    Use it as a non-linear baseline; it needs torch (extra ``neural``) to fit. Scores are decoded from the mean. The
    defaults, items → 600 → 200 → 600 → items, are the published net, whose β rose for 172 epochs of MovieLens-20M.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.MultVAE(rank=8, width=16, epochs=3).fit(X)
        >>> model.epochs_
        3
    """

    rank: int = net_fields.rank()
    width: int = net_fields.width()
    depth: int = net_fields.depth(1, search=fields.Range(0, 1, whole=True))
    dropout: float = net_fields.dropout()
    beta: float = fields.setting(
        0.2, low=0, search=fields.Range(0.05, 1.0, log=True),
        help="Final weight of the divergence from a standard normal. 0 is a plain autoencoder.",
    )  # fmt: skip
    anneal_epochs: float = fields.setting(100.0, low=0, help="Number of epochs over which beta rises linearly from 0.")
    l2: float = net_fields.l2()

    def _net(self, rows: sparse.csr_array) -> training.Net:
        return VariationalNet(rows.shape[1], self, self.anneal_epochs * -(-rows.shape[0] // self.batch_users))

    def _size(self, rows: sparse.csr_array) -> int:
        sizes = _sizes(rows.shape[1], self)
        return _size(sizes) + (sizes[self.depth] + 1) * self.rank  # variances next to the means


def _sizes(m: int, settings: MultDAE | MultVAE) -> list[int]:
    """Units of every layer, from the items to the items."""
    wide = [settings.width] * settings.depth
    return [m, *wide, settings.rank, *wide, m]


def _size(sizes: Sequence[int]) -> int:
    return sum(rows * columns + columns for rows, columns in pairwise(sizes))


class DenoisingNet:
    """The parameters of MultDAE: W1, b1, …, each matrix from a layer to the next, but the last one item by item."""

    def __init__(self, m: int, settings: MultDAE | MultVAE) -> None:
        self.settings = settings
        rng = np.random.default_rng([settings.seed, 0])
        sizes = _sizes(m, settings)
        self.parameters: dict[str, Any] = {}
        for at, (rows, columns) in enumerate(self._shapes(sizes), 1):
            self.parameters[f"W{at}"] = training.glorot(rng, rows, columns)
            self.parameters[f"b{at}"] = training.zeros(columns if at < len(sizes) - 1 else m)
        self.last = len(sizes) - 1

    def _shapes(self, sizes: list[int]) -> list[tuple[int, int]]:
        *first, (width, m) = pairwise(sizes)
        return [*first, (m, width)]

    def loss(self, users: NDArray[np.int64], x: sparse.csr_array, rng: np.random.Generator, step: int) -> Any:
        import torch

        seen = training.drop_entries(_unit(x), self.settings.dropout, rng)
        hidden = torch.tanh(training.gather_rows(seen, self.parameters["W1"]) + self.parameters["b1"])
        hidden = self._tanh(hidden, range(2, self.last))
        return negative_log_likelihood(self._logits(hidden), x) + self._penalty()

    def network(self) -> Network:
        return Network(tuple(self._arrays(at) for at in range(1, self.last + 1)), ("tanh",) * (self.last - 1), True)

    def _arrays(self, at: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.parameters[f"W{at}"].detach().numpy(), self.parameters[f"b{at}"].detach().numpy()

    def _tanh(self, hidden: Any, layers: range) -> Any:
        import torch

        for at in layers:
            hidden = torch.tanh(torch.addmm(self.parameters[f"b{at}"], hidden, self.parameters[f"W{at}"]))
        return hidden

    def _logits(self, hidden: Any) -> Any:
        import torch

        return torch.addmm(self.parameters[f"b{self.last}"], hidden, self.parameters[f"W{self.last}"].T)

    def _penalty(self) -> Any:
        if self.settings.l2 == 0:
            return 0.0
        return self.settings.l2 * sum((W**2).sum() for name, W in self.parameters.items() if name[0] == "W")


class VariationalNet(DenoisingNet):
    """The middle layer has twice the columns: the means, then the logarithms of the variances."""

    def __init__(self, m: int, settings: MultVAE, anneal_steps: float) -> None:
        self.anneal_steps, self.beta = anneal_steps, settings.beta
        self.middle = settings.depth + 1
        super().__init__(m, settings)
        self.parameters[f"b{self.middle}"] = training.zeros(2 * settings.rank)

    def _shapes(self, sizes: list[int]) -> list[tuple[int, int]]:
        shapes = super()._shapes(sizes)
        rows, columns = shapes[self.middle - 1]
        shapes[self.middle - 1] = (rows, 2 * columns)
        return shapes

    def loss(self, users: NDArray[np.int64], x: sparse.csr_array, rng: np.random.Generator, step: int) -> Any:
        import torch

        mean, log_variance = self.encode(training.drop_entries(_unit(x), self.settings.dropout, rng))
        noise = torch.from_numpy(rng.standard_normal(tuple(mean.shape), dtype=np.float32))
        z = mean + noise * torch.exp(0.5 * log_variance)
        logits = self._logits(self._tanh(z, range(self.middle + 1, self.last)))
        beta = anneal(self.beta, step, self.anneal_steps)
        return negative_log_likelihood(logits, x) + beta * divergence(mean, log_variance) + self._penalty()

    def encode(self, seen: sparse.csr_array) -> tuple[Any, Any]:
        """Means and logarithms of the variances of q(z | x) (n, rank)."""
        import torch

        first = training.gather_rows(seen, self.parameters["W1"]) + self.parameters["b1"]
        if self.middle > 1:
            hidden = self._tanh(torch.tanh(first), range(2, self.middle))
            first = torch.addmm(self.parameters[f"b{self.middle}"], hidden, self.parameters[f"W{self.middle}"])
        rank = self.settings.rank
        return first[:, :rank], first[:, rank:]

    def network(self) -> Network:
        layers = [self._arrays(at) for at in range(1, self.last + 1)]
        rank, (W, b) = self.settings.rank, layers[self.middle - 1]
        layers[self.middle - 1] = np.ascontiguousarray(W[:, :rank]), b[:rank].copy()
        names = ["tanh"] * (self.last - 1)
        names[self.middle - 1] = "identity"
        return Network(tuple(layers), tuple(names), True)


def anneal(beta: float, step: int, steps: float) -> float:
    """β at a step: linear from 0 up to its cap."""
    return beta * min(1.0, step / steps) if steps > 0 else beta


def negative_log_likelihood(logits: Any, x: sparse.csr_array) -> Any:
    """−Σ_i x_i log softmax(logits)_i, the mean over the rows [Liang18 Eq. 2]; x stays sparse."""
    import torch

    values = torch.from_numpy(x.data.astype(np.float32))
    totals = torch.from_numpy(np.asarray(x.sum(axis=1)).reshape(-1).astype(np.float32))
    observed = (values * training.at_entries(logits, x)).sum()
    return ((totals * torch.logsumexp(logits, dim=1)).sum() - observed) / x.shape[0]


def divergence(mean: Any, log_variance: Any) -> Any:
    """KL(N(mean, e^log_variance) ‖ N(0, 1)), summed over the coordinates, the mean over the rows."""
    return 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(dim=1).mean()


def _unit(x: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array((unit_rows(x).astype(np.float32), x.indices, x.indptr), shape=x.shape)
