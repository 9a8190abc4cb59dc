"""Six ways to shrink a spectrum, each the exact answer to one kind of noise; B = Q f(σ) Qᵀ for X = P σ Qᵀ.

A shrink is a function of the singular values: it returns the factors f, between 0 and 1 for all but extreme settings.
Files and the command line write it as text ("dropout:drop=0.5"), which ``parsed`` reads back.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.errors import OffdiagError
from offdiag.solvers.shrinkage import denoised, k_support_prox

Vector = NDArray[np.float64]
Auto = Literal["auto"]
# Lower bound and exclusive upper bound of each parameter, in all shrinkages.
LIMITS = {
    "l2": (0, np.inf),
    "drop": (0, 1),
    "width": (1, np.inf),
    "block": (1, np.inf),
    "time": (0, np.inf),
    "start": (1e-300, 1),
}


@dataclass(frozen=True)
class Shrink:
    """The base class: a name, checked parameters, and a text form.

    Example:
        >>> import offdiag as od
        >>> str(od.spectral.Ridge(l2=300.0)), od.spectral.Ridge(l2=300.0)([30.0, 10.0]).tolist()
        ('ridge:l2=300.0', [0.75, 0.25])
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            low, high = LIMITS[field.name]
            name = f"{field.name} of {type(self).__name__}"
            if field.name in ("width", "block"):
                checks.whole(name, value, int(low))
            else:
                checks.number(name, value, low, high, below=True, auto=field.name == "l2")

    def __str__(self) -> str:
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        numbers = ",".join(f"{name}={value}" for name, value in given if value is not None)
        return f"{self.name}:{numbers}" if numbers else self.name

    def __call__(self, sigma: Any) -> Vector:
        """The factors for singular values in descending order."""
        sigma = np.asarray(sigma, dtype=np.float64)
        if sigma.ndim != 1 or not np.isfinite(sigma).all() or (sigma < 0).any():
            raise OffdiagError("a shrink takes a list of finite singular values of at least 0, largest first")
        return self.factors(sigma)

    def factors(self, sigma: Vector) -> Vector:
        """What a shrinkage of your own defines: a factor in [0, 1] for each singular value, largest first.

        Example:
            >>> import offdiag as od
            >>> class Half(od.spectral.Shrink):
            ...     def factors(self, sigma):
            ...         return 0.5 + 0 * sigma
            >>> Half()([3.0, 1.0])
            array([0.5, 0.5])
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Hard(Shrink):
    """f = 1: the leading components as they are (PureSVD).

    Example:
        >>> import offdiag as od
        >>> od.spectral.Hard()([30.0, 10.0, 0.0]).tolist()
        [1.0, 1.0, 0.0]
    """

    name: ClassVar[str] = "hard"

    def factors(self, sigma: Vector) -> Vector:
        return (sigma > 0).astype(np.float64)


@dataclass(frozen=True)
class Ridge(Shrink):
    """f = σ²/(σ² + l2): Gaussian noise of variance l2/users at the input, averaged out [Pretorius18 sec. A].

    Example:
        >>> import offdiag as od
        >>> od.spectral.Ridge(l2=300.0)([30.0, 10.0]).tolist()
        [0.75, 0.25]
    """

    l2: float | Auto = "auto"
    name: ClassVar[str] = "ridge"

    def factors(self, sigma: Vector) -> Vector:
        squares = sigma**2
        return squares / np.where(squares > 0, squares + _number(self), 1.0)


@dataclass(frozen=True)
class WeightDecay(Shrink):
    """f = (1 − l2/σ²)₊: l2(‖U‖² + ‖V‖²) added to the loss; the same as a penalty on the nuclear norm of UVᵀ.

    Example:
        >>> import offdiag as od
        >>> od.spectral.WeightDecay(l2=300.0)([20.0, 10.0]).tolist()
        [0.25, 0.0]
    """

    l2: float | Auto = "auto"
    name: ClassVar[str] = "weight-decay"

    def factors(self, sigma: Vector) -> Vector:
        squares = sigma**2
        return np.maximum(1 - _number(self) / np.where(squares > 0, squares, np.inf), 0.0) * (squares > 0)


@dataclass(frozen=True)
class Dropout(Shrink):
    """f = (σ − τ)₊/σ: hidden units dropped at random, the squared nuclear norm of X̂ [Mianjy18 Thm. 3.6].

    ``width`` is the number of hidden units, the rank of the decomposition when None. A wider layer is shrunk less.

    Example:
        >>> import offdiag as od
        >>> od.spectral.Dropout(drop=0.5)([6.0, 3.0, 0.0]).round(3).tolist()
        [0.7, 0.4, 0.0]
    """

    drop: float = 0.5
    width: int | None = None
    name: ClassVar[str] = "dropout"

    def factors(self, sigma: Vector) -> Vector:
        return DropBlock(drop=self.drop, block=1, width=self.width).factors(sigma)


@dataclass(frozen=True)
class DropBlock(Shrink):
    """Hidden units dropped in blocks: the squared spectral k-support norm of X̂ [Pal20 Thm. 2.7].

    The largest singular values lose a constant share, as in Ridge; the others a constant amount, as with Dropout. With
    ``block`` 1 this is Dropout, with ``block`` = ``width`` everything loses the same share. The norm is a convex
    bound of the noise: the result is the optimum of a net where that is attained (``tight_`` of Spectral), else near.

    Example:
        >>> import offdiag as od
        >>> od.spectral.DropBlock(drop=0.5, block=2)([8.0, 4.0, 2.0, 1.0]).round(3).tolist()
        [0.667, 0.625, 0.25, 0.0]
    """

    drop: float = 0.5
    block: int = 5
    width: int | None = None
    name: ClassVar[str] = "dropblock"

    def __post_init__(self) -> None:
        Shrink.__post_init__(self)
        if self.width is not None and self.width % self.block:
            raise OffdiagError(
                f"the width of DropBlock must be a multiple of its block, received width={self.width} and "
                f"block={self.block}; use width={max(self.width - self.width % self.block, self.block)}"
            )

    def factors(self, sigma: Vector) -> Vector:
        width = self.units(len(sigma))
        beta = self.drop / (1 - self.drop) / (width // self.block)
        kept = np.where(np.arange(len(sigma)) < width, sigma, 0.0)  # as many components as there are units
        shrunk, _ = k_support_prox(kept, self.block, beta)
        return shrunk / np.where(sigma > 0, sigma, 1.0)

    def units(self, components: int) -> int:
        """The number of hidden units: ``width``, or the largest multiple of ``block`` up to the components.

        Example:
            >>> import offdiag as od
            >>> od.spectral.DropBlock(block=5).units(13)
            10
        """
        return self.width or max(components - components % self.block, self.block)


@dataclass(frozen=True)
class EarlyStop(Shrink):
    """Training of a linear denoising net stopped early: component j has reached f = w_j(t) [Pretorius18 sec. B].

    ``time`` is measured in units of N/(α σ_1²), the pace of the largest component; a component with half the singular
    value takes four times as long. ``start`` is the f of all components at time 0, ``l2`` the noise, as in Ridge.

    Example:
        >>> import offdiag as od
        >>> od.spectral.EarlyStop(time=5.0)([30.0, 10.0]).round(3).tolist()
        [0.957, 0.003]
    """

    time: float = 100.0
    l2: float | Auto = 0.0
    start: float = 1e-3
    name: ClassVar[str] = "early-stop"

    def factors(self, sigma: Vector) -> Vector:
        squares = sigma**2
        most = float(squares.max(initial=0.0))
        if most == 0:
            return np.zeros_like(sigma)
        return denoised(self.time / most, self.start, squares, _number(self)) * (squares > 0)


SHRINKS: dict[str, type[Shrink]] = {s.name: s for s in (Hard, Ridge, WeightDecay, Dropout, DropBlock, EarlyStop)}


def parsed(value: Any) -> Shrink:
    """A shrink, given as such or as text, e.g. "ridge", "ridge:l2=300" or "dropblock:drop=0.3,block=4".

    Example:
        >>> import offdiag as od
        >>> od.spectral.parsed("ridge:l2=300")
        Ridge(l2=300)
    """
    if isinstance(value, Shrink):
        return value
    if not isinstance(value, str):
        raise OffdiagError(
            f"shrink takes od.spectral.{'(), '.join(kind.__name__ for kind in SHRINKS.values())}() or a text such as "
            f"'dropout:drop=0.5', "
            f"received {value!r}"
        )
    name, _, rest = value.partition(":")
    if name not in SHRINKS:
        raise OffdiagError(f"shrink takes {', '.join(SHRINKS)}, received {name!r}")
    known = {field.name for field in fields(SHRINKS[name])}
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, number = part.partition("=")
        if key not in known:
            raise OffdiagError(f"{name} takes {', '.join(sorted(known)) or 'no settings'}, received {part!r}")
        given[key] = _read(number, part)
    return SHRINKS[name](**given)


def _read(text: str, part: str) -> Any:
    if text == "auto":
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise OffdiagError(f"a shrink is written like dropout:drop=0.5, received {part!r}")


def _number(shrink: Any) -> float:
    if shrink.l2 == "auto":
        raise OffdiagError(
            f"l2='auto' of {type(shrink).__name__} is chosen by od.Spectral from data; give a number here"
        )
    return float(shrink.l2)
