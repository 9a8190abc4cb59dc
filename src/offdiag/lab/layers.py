"""Layers for torch: structured dropout by sampling, and the term that replaces sampling by its exact mean.

``DropBlock1d``, ``DropConnectLinear`` and ``StructuredDropout`` are ``nn.Module`` classes. They are created on first
use, so that importing this file needs no torch; using it needs the extra ``neural``. In evaluation mode each of them
is its mean: the identity, or a plain linear layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks

if TYPE_CHECKING:
    DropBlock1d: Any
    DropConnectLinear: Any
    StructuredDropout: Any

_NEEDS_TORCH = "the layers need torch: pip install 'offdiag[neural]' (without a GPU: pip install torch==2.13.0 first)"
_NAMES = ("DropBlock1d", "DropConnectLinear", "StructuredDropout")


def exact_penalty(weight: Any, activations: Any, cov: Any, mean: Any = 1.0) -> Any:
    """What noise z before the last, linear layer adds to Σ‖y − W(x·z/mean)‖² on average: <C̄, (WᵀW)∘(AᵀA)>.

    ``weight`` is (out, width) as in ``nn.Linear``, or such a layer itself; ``activations`` (rows, width) is the input
    of the noise; ``cov`` (width, width) and ``mean``, a number or (width,), are the moments of z;
    C̄ = cov/(mean·meanᵀ) [Pal20 Lemma 3.1]. It is a sum over the rows of the batch, like the loss it belongs to; divide
    both by the same number. Differentiable with respect to weight and activations.
    Train with ``loss(output without noise) + exact_penalty(…)`` instead of drawing masks.

    Example:
        >>> od.lab.layers.exact_penalty([[1.0, 2.0]], [[1.0, 1.0]], cov=np.eye(2)).item()
        5.0
    """
    torch = torch_or_error()
    activations = _tensor(torch, activations, "activations")
    if activations.ndim < 1 or not activations.numel():
        raise OffdiagError(
            f"activations must be (rows, width) with at least one entry, received {tuple(activations.shape)}"
        )
    weight = _tensor(torch, weight.weight if isinstance(weight, torch.nn.Linear) else weight, "weight", activations)
    cov, mean = _tensor(torch, cov, "cov", activations), _tensor(torch, mean, "mean", activations)
    width = activations.shape[-1]
    if weight.ndim != 2 or not len(weight) or weight.shape[1] != width:
        raise OffdiagError(
            f"weight must be (out, {width}) to follow activations of width {width}, received {tuple(weight.shape)}"
        )
    _check_moments(torch, cov, mean, width)
    rows = activations.reshape(-1, width)
    characteristic = cov / (mean * mean if mean.ndim == 0 else torch.outer(mean, mean))  # [Pal20 Eq. 16]
    return torch.sum(characteristic * (weight.T @ weight) * (rows.T @ rows))


def emphasized_loss(x: Any, output: Any, kept: Any, dropped_weight: float, kept_weight: float) -> Any:
    """Squared error of ``output`` against ``x``, with weights that depend on whether the net could see an entry.

    Σ over entries of weight·(x − output)², with ``kept_weight`` where ``kept`` and ``dropped_weight`` elsewhere,
    averaged over the rows of the batch. ``kept`` is the mask of the input, for every entry, zeros of x included
    [Steck20 Eq. 1]. dropped_weight > kept_weight makes the net predict an entry from the others and not from itself.

    Example:
        >>> od.lab.layers.emphasized_loss([[1.0, 1.0]], [[0.0, 0.5]], [[True, False]], 1.0, kept_weight=0.5).item()
        0.75
    """
    torch = torch_or_error()
    dropped_weight = number("dropped_weight", dropped_weight, 0, checks.LARGEST)
    kept_weight = number("kept_weight", kept_weight, 0, checks.LARGEST)
    output = _tensor(torch, output, "output")
    x, kept = _tensor(torch, x, "x", output), _tensor(torch, kept, "kept", output)
    if not x.shape == output.shape == kept.shape or x.ndim < 1 or not x.numel():
        raise OffdiagError(
            "x, output and kept must have one shape and at least one entry, received "
            f"{tuple(x.shape)}, {tuple(output.shape)} and {tuple(kept.shape)}"
        )
    kinds = (output.new_tensor(weight) for weight in (kept_weight, dropped_weight))  # in the precision of output
    weights = torch.where(kept.to(torch.bool), *kinds)
    rows = x.numel() // x.shape[-1]
    return torch.sum(weights * (x - output) ** 2) / rows


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'offdiag.lab.layers' has no attribute {name!r}")
    return _classes()[name]


def __dir__() -> list[str]:
    return [*_NAMES, "emphasized_loss", "exact_penalty"]


def torch_or_error(message: str = _NEEDS_TORCH) -> Any:
    try:
        import torch
    except ImportError:
        raise OffdiagError(message) from None
    return torch


def descend(optimiser: Any, loss: Any, rate: float) -> None:
    """One step of a torch optimiser down the gradient of this loss, of this size."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _tensor(torch: Any, values: Any, name: str, like: Any = None) -> Any:
    """A floating-point tensor, also from arrays and lists; in the precision and on the device of ``like``."""
    if not isinstance(values, torch.Tensor):
        values = torch.as_tensor(checks.numbers(values, name, largest=float("inf")))
    if values.is_complex():
        raise OffdiagError(f"{name} must be real numbers, received {values.dtype}; take its real part")
    if like is not None:
        return values.to(dtype=like.dtype, device=like.device)
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())


def _check_moments(torch: Any, cov: Any, mean: Any, width: int) -> None:
    if tuple(cov.shape) != (width, width):
        raise OffdiagError(f"cov must be {width}×{width}, one row per unit, received {tuple(cov.shape)}")
    if mean.ndim > 1 or (mean.ndim == 1 and len(mean) != width):
        raise OffdiagError(f"mean must be a number or hold {width} of them, received shape {tuple(mean.shape)}")
    if not bool(torch.isfinite(cov).all() and torch.isfinite(mean).all()):
        raise OffdiagError("cov and mean must be finite; remove NaN and infinite values")
    if bool((mean == 0).any()):
        raise OffdiagError("mean must not be 0: what is kept is divided by it")


@cache
def _classes() -> dict[str, Any]:
    torch = torch_or_error()
    nn = torch.nn

    class DropBlock1d(nn.Module):  # type: ignore[misc, name-defined]
        """Drops the last axis in blocks of neighbours, with a separate mask for each row, and divides by 1 − drop.

        On a grid by default: the width is a multiple of the block. With ``overlap`` blocks may lie anywhere, and a unit
        is kept as often as on the grid (``lab.dropblock.overlapping``); any width is allowed.

        Example:
            >>> od.lab.layers.DropBlock1d(block=2, drop=0.5)
            DropBlock1d(block=2, drop=0.5, overlap=False)
        """

        def __init__(self, block: int, drop: float, *, overlap: bool = False) -> None:
            super().__init__()
            self.block, self.drop, self.overlap = whole("block", block, 1), checks.drop(drop), overlap

        def forward(self, x: Any) -> Any:
            if not self.training or self.drop == 0:
                return x
            if x.ndim < 1:
                raise OffdiagError("x must have at least one axis, the units to be dropped, received a single number")
            *rows, width = x.shape
            keep = 1 - self.drop
            if self.overlap:
                seeds = torch.rand((*rows, width + self.block - 1), device=x.device) < keep ** (1 / self.block)
                mask = seeds.unfold(-1, self.block, 1).all(-1)
            else:
                k = checks.blocks(width, self.block)
                mask = (torch.rand((*rows, k), device=x.device) < keep).repeat_interleave(self.block, -1)
            return x * (mask.to(x.dtype) / keep)

        def extra_repr(self) -> str:
            return f"block={self.block}, drop={self.drop}, overlap={self.overlap}"

    class DropConnectLinear(nn.Linear):  # type: ignore[misc, name-defined]
        """``nn.Linear`` whose connections are dropped one by one, a new mask per call, and divided by 1 − drop.

        The bias is never dropped.

        Example:
            >>> od.lab.layers.DropConnectLinear(3, 2, drop=0.5)
            DropConnectLinear(in_features=3, out_features=2, bias=True, drop=0.5)
        """

        def __init__(self, in_features: int, out_features: int, drop: float, bias: bool = True) -> None:
            super().__init__(whole("in_features", in_features, 1), whole("out_features", out_features, 1), bias=bias)
            self.drop = checks.drop(drop)

        def forward(self, x: Any) -> Any:
            weight = self.weight
            if self.training and self.drop > 0:
                kept = torch.rand(weight.shape, device=weight.device) >= self.drop
                weight = weight * (kept.to(weight.dtype) / (1 - self.drop))
            return nn.functional.linear(x, weight, self.bias)

        def extra_repr(self) -> str:
            return f"{super().extra_repr()}, drop={self.drop}"

    class StructuredDropout(nn.Module):  # type: ignore[misc, name-defined]
        """Multiplies by z/mean, where z is noise with this mean and covariance, drawn independently for each row.

        z is Gaussian, or what ``sampler(rows)`` returns, a (rows, width) tensor with those moments. All that matters
        for a squared loss after a linear layer is cov/(mean·meanᵀ), see ``exact_penalty``.

        Example:
            >>> od.lab.layers.StructuredDropout(np.eye(2)).penalty([[1.0, 2.0]], [[1.0, 1.0]]).item()
            5.0
        """

        def __init__(self, cov: Any, mean: Any = 1.0, sampler: Callable[[int], Any] | None = None) -> None:
            super().__init__()
            cov, mean = (_tensor(torch, v, name).double() for v, name in ((cov, "cov"), (mean, "mean")))
            if not cov.numel() or cov.ndim != 2 or cov.shape[0] != cov.shape[1] or not torch.allclose(cov, cov.T):
                raise OffdiagError(f"cov must be square and symmetric, received shape {tuple(cov.shape)}")
            _check_moments(torch, cov, mean, len(cov))
            values, vectors = torch.linalg.eigh((cov + cov.T) / 2)
            if float(values.min()) < -1e-9 * float(values.abs().max()):
                raise OffdiagError(
                    f"cov must have no negative eigenvalue, received {float(values.min()):.3g}; give a covariance"
                )
            self.register_buffer("cov", cov)
            self.register_buffer("mean", mean)
            self.register_buffer("root", vectors * values.clamp(min=0).sqrt())
            self.sampler = sampler

        def forward(self, x: Any) -> Any:
            if x.ndim < 1 or x.shape[-1] != len(self.cov):
                raise OffdiagError(f"the last axis must be {len(self.cov)} wide, as cov is, received {tuple(x.shape)}")
            if not self.training:
                return x
            rows = x.numel() // x.shape[-1]
            if self.sampler is None:
                normal = torch.randn((rows, len(self.cov)), dtype=self.root.dtype, device=x.device)
                z = self.mean + normal @ self.root.T
            else:
                z = torch.as_tensor(self.sampler(rows), device=x.device)
                if tuple(z.shape) != (rows, len(self.cov)):
                    raise OffdiagError(f"sampler({rows}) must be {rows}×{len(self.cov)}, received {tuple(z.shape)}")
            return x * (z / self.mean).to(x.dtype).reshape(x.shape)

        def penalty(self, weight: Any, activations: Any) -> Any:
            """``exact_penalty`` of this noise."""
            return exact_penalty(weight, activations, self.cov, self.mean)

    made = {"DropBlock1d": DropBlock1d, "DropConnectLinear": DropConnectLinear, "StructuredDropout": StructuredDropout}
    for name, kind in made.items():  # found by name, so that a module can be pickled and its repr is short
        kind.__qualname__ = name
        kind.__module__ = __name__
    return made
