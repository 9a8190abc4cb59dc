"""What the layers below the models may know about a model: the attributes and methods they use."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from offdiag.progress import Progress


class Lists(Protocol):
    """Ranked lists as columns of the catalogue, users × k, −1 for an empty place."""

    @property
    def indices(self) -> Any: ...


class Ranker(Protocol):
    """Anything that ranks items for histories, from offdiag or elsewhere."""

    def recommend(self, histories: Any, /, *, k: int, exclude_seen: bool) -> Lists: ...


class Learner(Ranker, Protocol):
    """A dataclass of settings that learns from data, from offdiag or elsewhere."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init__(self, **settings: Any) -> None: ...
    @property
    def settings_(self) -> dict[str, Any]: ...
    def fit(self, X: Any, /, *, progress: Progress | None = None) -> Any: ...


class GramLearner(Learner, Protocol):
    """A model that also learns from a Gram."""

    starts_warm: ClassVar[bool]

    @property
    def user_power(self) -> Any: ...
    def fit_gram(self, G: Any, /, *, item_ids: Any = None, progress: Progress | None = None) -> Any: ...
