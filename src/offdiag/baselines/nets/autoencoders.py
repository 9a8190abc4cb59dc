"""A denoising autoencoder with a non-linear layer, trained with emphasis: does it help beyond the linear case?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.baselines.nets import net_fields
from offdiag.baselines.nets.training import torch_or_error, zeros
from offdiag.errors import OffdiagError
from offdiag.lab import layers
from offdiag.models import fields
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, read_data
from offdiag.progress import Progress, reporter
from offdiag.weights import Network

if TYPE_CHECKING:
    from offdiag.ranking import Explanation


class _Fit(Recommender):
    """What a fit of EmphasizedDAE learns besides the weights."""

    losses_: list[float]  # per user, the mean over the masks of each epoch


@fields.model
class EmphasizedDAE(_Fit):
    """A net with one hidden layer, trained to predict what was dropped from a history: does it beat the linear EDLAE?

    x̂ = tanh(x̃/‖x‖·W1 + b1)·W2ᵀ + b2, errors on dropped entries count 1, on kept ones kept_weight [Steck20 Eq. 1]

    Use it to compare with EDLAE; it needs torch (extra ``neural``) to fit, not to score. Masks are drawn again in every
    epoch (``od.lab.layers.emphasized_loss``); the learning rate of Adam decays to 0.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.EmphasizedDAE(width=8, epochs=3).fit(X)
        >>> len(model.losses_)
        3
    """

    width: int = net_fields.width(256)
    dropout: float = net_fields.dropout()
    kept_weight: float = fields.kept_weight(search=fields.Range(0.0, 1.0))
    l2: float = net_fields.l2()
    epochs: int = net_fields.epochs(40, help="Passes over all users.")
    batch_users: int = net_fields.batch_users(256)
    learning_rate: float = net_fields.learning_rate(2e-3)
    seed: int = fields.seed()
    dtype: Literal["float32"] = fields.dtype(
        help="Precision of the computation and of the weights. Only float32 is supported here."
    )

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``."""
        progress = reporter(progress)
        used = self._validate()
        matrix, source = read_data(X, reading)
        n, m = matrix.shape
        memory.require(  # both matrices, gradients and Adam's means; a dense batch
            4 * (10 * m * used.width + 12 * min(used.batch_users, n) * m),
            f"a net of width {used.width:,} for {m:,} items",
            "lower width or batch_users, or keep fewer items (od.prepare.min_counts)",
        )
        weights, losses = used._train(matrix, progress)
        return self._store(weights, **vars(source), settings=used._settings(), losses_=losses)

    def explain(self, history: Any, item: Any, **words: Any) -> Explanation:
        raise OffdiagError(
            "EmphasizedDAE is not linear: a score is not a sum over the items of a history; explain with EDLAE instead"
        )

    def _validate(self) -> Self:
        used = super()._validate()
        if self.dtype != "float32":
            raise OffdiagError(f"EmphasizedDAE computes in float32 only, received dtype={self.dtype!r}")
        if used.dropout == 0 and used.kept_weight == 0:
            raise OffdiagError("with kept_weight=0 only dropped entries count, so dropout must be above 0, received 0")
        return used

    def _train(self, matrix: sparse.csr_array, progress: Progress | None) -> tuple[Network, list[float]]:
        torch = torch_or_error("EmphasizedDAE")
        n, m = matrix.shape
        p, b, rows = self.dropout, self.kept_weight, self.batch_users
        generator = torch.Generator().manual_seed(self.seed)

        def draw(rows: int, scale: float) -> Any:
            return (torch.randn((rows, self.width), generator=generator) * scale).requires_grad_()

        W1, W2 = draw(m, m**-0.5), draw(m, 0.1 * self.width**-0.5)
        b1, b2 = zeros(self.width), zeros(m)
        optimiser = torch.optim.Adam([W1, b1, W2, b2], lr=self.learning_rate)
        steps, step = self.epochs * -(-n // rows), 0
        losses = []
        for epoch in range(self.epochs):
            order, total = torch.randperm(n, generator=generator).numpy(), 0.0
            for low in range(0, n, rows):
                users = order[low : low + rows]
                x = torch.from_numpy(matrix[users].toarray().astype(np.float32, copy=False))  # (rows, m)
                kept = torch.rand(x.shape, generator=generator) >= p  # for every entry, zeros included
                seen = x * kept / ((1 - p) * x.norm(dim=1, keepdim=True).clamp(min=1e-12))
                output = torch.tanh(seen @ W1 + b1) @ W2.T + b2
                loss = layers.emphasized_loss(x, output, kept, 1.0, b) / (p + b * (1 - p))
                if self.l2:
                    loss = loss + self.l2 * ((W1**2).sum() + (W2**2).sum())
                layers.descend(optimiser, loss, self.learning_rate * (1 - step / steps))
                step += 1
                total += float(loss.detach()) * len(users) / n
            losses.append(total)
            if progress:
                progress(f"training · loss {total:.6g}", (epoch + 1) / self.epochs)
        arrays: list[NDArray[np.float32]] = [part.detach().numpy() for part in (W1, b1, W2, b2)]
        if not np.isfinite(losses).all() or not all(np.isfinite(array).all() for array in arrays):
            raise OffdiagError(
                f"training diverged at learning_rate={self.learning_rate:g}; use a smaller one, or smaller values"
            )
        first, first_bias, last, last_bias = arrays
        return Network(((first, first_bias), (last, last_bias)), ("tanh",), True), losses
