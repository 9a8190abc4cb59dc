"""Blend: several models as one, each in its own unit for every user; see docs/models.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from offdiag import checks, model_list
from offdiag.errors import OffdiagError
from offdiag.models import blend_shares, fields
from offdiag.models.blended_parts import blended
from offdiag.models.fields import Auto
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, data_of, read_data
from offdiag.models.spectral import SMOOTH_RANK, smooth_part
from offdiag.progress import Progress, reporter
from offdiag.ranking import Recency

DENSE_ITEMS = 20_000  # up to this many, the sharp part of parts="auto" has all weights

Parts = Sequence["Recommender | type[Recommender] | Mapping[str, Any]"] | str


class _Chosen(Recommender):
    """What a fit learns besides the weights."""

    chosen_on_: int  # the number of users whose hidden items decided the shares; 0 if none were needed or none have two


@fields.model
class Blend(_Chosen):
    """Two or more models as one: their scores are brought to one scale, user by user, and added.

    score = Σ_p shares_p·s_p/c_p,  s_p the scores of part p, c_p the mean of its best 20 of items the user does not have

    Use it where models know different things: neighbours and a smooth part on large sparse catalogues, order and taste
    where times are known. It costs the sum of its parts in time and memory. ``Blend.of`` makes one of fitted models.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.Blend(parts=[od.EDLAE(), od.Spectral(rank=8)], shares=[1, 0.5]).fit(X)
        >>> model.recommend(X, k=5).items.shape
        (300, 5)
    """

    parts: Parts = fields.setting(
        "auto", takes='models, or their names on the command line such as "edlae,spectral", or "auto"',
        auto=f"EDLAE, or SparseEDLAE beyond {DENSE_ITEMS:,} items, and a smooth part of rank {SMOOTH_RANK} or less",
        help="The models to blend. Each learns from the same data.",
    )  # fmt: skip
    shares: Sequence[float] | str | Auto = fields.setting(
        "auto", takes='a number from 0 for each part, or "auto"',
        auto="those that best find hidden items of the users, which takes a second fit of each part",
        help="What each part counts for. In units in which every part ranks its best items equally high.",
    )  # fmt: skip
    seed: int = fields.seed(help="Seed of the choice of users and items that are hidden to choose the shares.")

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        Memory and time: those of the parts together, and their time once more for shares="auto".
        """
        progress = reporter(progress)
        self._validate()
        ordered = any(part.knows_order for part in models_of(self.parts, 1, 1)) if self.parts != "auto" else False
        X = data_of(X, reading, **({"keep": "events"} if ordered else {}))
        _, source = read_data(X)
        parts = models_of(self.parts, source.n_users, len(source.item_ids))
        shares = checked_shares(self.shares, len(parts))
        chosen_on = 0
        if shares is None:
            shares, chosen_on = blend_shares.choose(parts, X, self.seed, progress)
        fitted = [part.fit(X, progress=progress) for part in parts]
        return self._finish(fitted, shares, chosen_on, vars(source))

    @classmethod
    def of(cls, models: Sequence[Recommender], shares: Sequence[float] | None = None) -> Self:
        """Models that are fitted already, on the same items; without ``shares`` all count the same.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> both = od.Blend.of([od.EASE().fit(X), od.Popularity().fit(X)], shares=[1, 0.1])
            >>> both.settings_["shares"]
            [1.0, 0.1]
        """
        found = checked_shares([1.0] * len(models) if shares is None else shares, len(models))
        assert found is not None
        for model in models:
            if not isinstance(model, Recommender):
                raise OffdiagError(f"expected fitted models, received {type(model).__name__}; fit one, or od.load it")
            if not np.array_equal(model._require_fit().item_ids_, models[0].item_ids_):
                raise OffdiagError(
                    f"expected models of the same items in the same order, received {len(models[0].item_ids_):,} and "
                    f"{len(model.item_ids_):,} items that differ; fit them on the same data"
                )
        first = models[0]
        source = {
            "item_ids": first.item_ids_, "popularity": first.popularity_, "n_users": first.n_users_,
            "columns": first.columns_, "counts_users": first.counts_users_,
        }  # fmt: skip
        blend = cls(parts=[model._unfitted_copy() for model in models], shares=found.tolist())
        made = blend._finish(list(models), found, 0, source)
        made._catalogue = first.catalogue_
        return made

    def _finish(
        self, fitted: list[Recommender], shares: NDArray[np.float64], chosen_on: int, source: dict[str, Any]
    ) -> Self:
        for part in fitted:
            if part.keeps_rows:
                raise OffdiagError(f"{type(part).__name__} is made of rows of users and cannot be part of a blend")
        weights, recency = blended(fitted, shares)
        settings: dict[str, Any] = {
            "parts": [{"model": type(part).__name__, "settings": dict(part.settings_)} for part in fitted],
            "shares": shares.tolist(),
            "seed": self.seed,
        }
        if recency is not None:
            settings |= {name: value for name, value in recency._asdict().items() if value is not None}
        kept = {name: value for name, value in source.items() if name != "past"}
        return self._store(weights, **kept, settings=settings, chosen_on_=chosen_on)

    @property
    def knows_order(self) -> bool:  # type: ignore[override]  # if one of its parts does
        fitted = getattr(self, "settings_", None)
        if fitted is not None:
            return "decay" in fitted
        return self.parts != "auto" and any(part.knows_order for part in models_of(self.parts, 1, 1))

    def _recency(self) -> Recency | None:
        used = self._require_fit().settings_
        return Recency(used["decay"], used.get("half_life")) if "decay" in used else None

    def _unfitted_copy(self) -> Self:
        used = self.settings_
        return type(self)(parts=used["parts"], shares=used["shares"], seed=used["seed"])


def models_of(parts: Any, n_users: int, n_items: int) -> list[Recommender]:
    """Unfitted models, from whatever ``parts`` may hold."""
    if isinstance(parts, str) and parts == "auto":
        parts = ["edlae" if n_items <= DENSE_ITEMS else "sparse", smooth_part(n_users, n_items)]
    elif isinstance(parts, str):
        parts = [word.strip() for word in parts.replace("+", ",").split(",")]
    if not isinstance(parts, Sequence) or len(parts) < 2:
        raise OffdiagError(f"expected two models or more as parts of a Blend, received {parts!r}")
    return [_model_of(part) for part in parts]


def _model_of(part: Any) -> Recommender:
    if isinstance(part, str):
        name = model_list.COMMANDS.get(part.lower(), part)
        if name not in model_list.MODELS:
            raise OffdiagError(
                f"expected a model such as {', '.join(list(model_list.COMMANDS)[:6])}, received {part!r}"
            )
        part = model_list.model_class(name)
    if isinstance(part, Mapping):
        known = isinstance(part.get("model"), str) and part["model"] in model_list.MODELS
        if not known or not isinstance(part.get("settings", {}), Mapping):
            raise OffdiagError(f'expected {{"model": name, "settings": …}} as a part of a Blend, received {part!r}')
        empty: Recommender = model_list.model_class(part["model"])()
        return empty._with(dict(part.get("settings", {})))
    if isinstance(part, type) and issubclass(part, Recommender):
        part = part()
    if not isinstance(part, Recommender) or isinstance(part, Blend):
        raise OffdiagError(f"expected models as parts of a Blend, received {part!r}; name one such as od.EDLAE()")
    return type(part)(**part.get_params())


def checked_shares(shares: Any, n: int) -> NDArray[np.float64] | None:
    """One number per part; None for "auto"."""
    if isinstance(shares, str):
        if shares == "auto":
            return None
        shares = shares.split(",")
    if not isinstance(shares, Sequence | np.ndarray) or len(shares) != n:
        raise OffdiagError(f'expected shares of {n} parts, or "auto", received {shares!r}')
    try:
        numbers = [float(share) for share in shares]
    except (TypeError, ValueError):
        raise OffdiagError(f"expected numbers as shares, received {shares!r}") from None
    found = np.array([checks.number("shares", share, 0) for share in numbers])
    if not found.any():
        raise OffdiagError("expected a share above 0, received none; a blend without parts ranks nothing")
    return found
