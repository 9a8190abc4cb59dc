"""What the layers below the models may know about a model: the attributes and methods they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from offdiag.weights import Weights


class Fitted(Protocol):
    """What every fitted model holds; ``offdiag.models.recommender`` documents each attribute."""

    @property
    def weights_(self) -> Weights: ...
    @property
    def item_ids_(self) -> NDArray[Any]: ...
    @property
    def popularity_(self) -> NDArray[np.float64]: ...
    @property
    def settings_(self) -> dict[str, Any]: ...
    @property
    def n_users_(self) -> int: ...


class Lists(Protocol):
    """Ranked lists as columns of the catalogue, users × k, −1 for an empty place."""

    @property
    def indices(self) -> Any: ...


class Ranker(Protocol):
    """Anything that ranks items for histories, from offdiag or elsewhere."""

    def recommend(self, histories: Any, /, *, k: int, exclude_seen: bool) -> Lists: ...
