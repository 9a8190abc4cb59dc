"""A denoising autoencoder with a non-linear layer, trained with emphasis: does it help beyond the linear case?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.baselines.nets.training import torch_or_error
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import as_matrix
from offdiag.models.fields import check_not_empty, checked, checked_item_ids
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.weights import Network

if TYPE_CHECKING:
    from offdiag.ranking import Explanation


class _Fit(Recommender):
    """What a fit of EmphasizedDAE learns besides the weights."""

    losses_: list[float]  # per user, the mean over the masks of each epoch


@dataclass(kw_only=True, eq=False)
class EmphasizedDAE(_Fit):
    """x̂ = tanh(x/‖x‖·W1 + b1)·W2ᵀ + b2, learned to predict what was dropped from x; needs torch, the extra ``neural``.

    The loss is ``lab.layers.emphasized_loss``: errors on dropped entries count 1, on kept ones ``kept_weight``
    [Steck20 Eq. 1]. Masks are drawn anew in every epoch; Adam, with a step that falls to 0. ``l2`` is a penalty on
    both matrices, per user. A fitted model scores and loads without torch.
    """

    width: int = 256
    dropout: float = 0.5
    kept_weight: float = 0.0
    l2: float = 0.0
    epochs: int = 40
    batch_users: int = 256
    learning_rate: float = 2e-3
    seed: int = 0
    dtype: Literal["float32"] = "float32"

    def fit(self, X: Any, *, progress: Progress | None = None) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items."""
        settings = self._checked()
        matrix = as_matrix(X)
        check_not_empty(matrix.nnz, *matrix.shape)
        n, m = matrix.shape
        item_ids = checked_item_ids(getattr(X, "item_ids", None), m)
        rows = min(settings["batch_users"], n)
        memory.require(
            4
            * (10 * m * settings["width"] + 12 * rows * m),  # both matrices, gradients and Adam's means; a dense batch
            f"a net of width {settings['width']:,} for {m:,} items",
            "lower width or batch_users, or keep fewer items (od.prepare.min_counts)",
        )
        weights, losses = _train(matrix, settings, progress)
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
        return self._store(weights, item_ids, sums, n, settings, losses_=losses)

    def explain(self, history: Any, item: Any) -> Explanation:
        raise OffdiagError(
            "EmphasizedDAE is not linear: a score is no sum over the items of a history; explain with EDLAE instead"
        )

    def _checked(self) -> dict[str, Any]:
        settings = checked(self.get_params())
        if "auto" in (settings["dropout"], settings["l2"]):
            raise OffdiagError("EmphasizedDAE takes numbers for dropout and l2, received 'auto'")
        if settings["dtype"] != "float32":
            raise OffdiagError(f"EmphasizedDAE computes in float32 only, received dtype={settings['dtype']!r}")
        if not 0 < settings["learning_rate"] <= 1e3:
            raise OffdiagError(f"learning_rate must be a number in (0, 1000], received {self.learning_rate!r}")
        if settings["dropout"] == 0 and settings["kept_weight"] == 0:
            raise OffdiagError("with kept_weight=0 only dropped entries count, so dropout must be above 0, received 0")
        del settings["dtype"]
        return settings


def _train(
    matrix: sparse.csr_array, settings: dict[str, Any], progress: Progress | None
) -> tuple[Network, list[float]]:
    torch = torch_or_error("EmphasizedDAE")
    from offdiag.lab import layers

    n, m = matrix.shape
    p, b = settings["dropout"], settings["kept_weight"]
    generator = torch.Generator().manual_seed(settings["seed"])

    def drawn(rows: int, scale: float) -> Any:
        return (torch.randn((rows, settings["width"]), generator=generator) * scale).requires_grad_()

    W1, W2 = drawn(m, m**-0.5), drawn(m, 0.1 * settings["width"] ** -0.5)
    b1, b2 = torch.zeros(settings["width"], requires_grad=True), torch.zeros(m, requires_grad=True)
    optimiser = torch.optim.Adam([W1, b1, W2, b2], lr=settings["learning_rate"])
    rows = settings["batch_users"]
    steps, step = settings["epochs"] * -(-n // rows), 0
    losses = []
    for epoch in range(settings["epochs"]):
        order, total = torch.randperm(n, generator=generator).numpy(), 0.0
        for low in range(0, n, rows):
            users = order[low : low + rows]
            x = torch.from_numpy(matrix[users].toarray().astype(np.float32, copy=False))  # (rows, m)
            kept = torch.rand(x.shape, generator=generator) >= p  # for every entry, zeros included
            seen = x * kept / ((1 - p) * x.norm(dim=1, keepdim=True).clamp(min=1e-12))
            output = torch.tanh(seen @ W1 + b1) @ W2.T + b2
            loss = layers.emphasized_loss(x, output, kept, 1.0, b) / (p + b * (1 - p))
            if settings["l2"]:
                loss = loss + settings["l2"] * ((W1**2).sum() + (W2**2).sum())
            for group in optimiser.param_groups:
                group["lr"] = settings["learning_rate"] * (1 - step / steps)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            total += float(loss.detach()) * len(users) / n
        losses.append(total)
        if progress:
            progress(f"training · loss {total:.6g}", (epoch + 1) / settings["epochs"])
    arrays: list[NDArray[np.float32]] = [part.detach().numpy() for part in (W1, b1, W2, b2)]
    if not np.isfinite(losses).all() or not all(np.isfinite(array).all() for array in arrays):
        raise OffdiagError(
            f"training diverged at learning_rate={settings['learning_rate']:g}; use a smaller one, or smaller values"
        )
    first, first_bias, last, last_bias = arrays
    return Network(((first, first_bias), (last, last_bias)), ("tanh",), True), losses
