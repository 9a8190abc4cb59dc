"""What the layers below the models may know about a model: the attributes and methods they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from offdiag.progress import Progress
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


class ClusterModel(Protocol):
    """A model that is fitted on a cluster."""

    weights_: Any
    settings_: dict[str, Any]

    @property
    def dtype(self) -> str: ...
    def _valid_settings(self) -> dict[str, Any]: ...
    def _resolve_on_cluster(self, settings: dict[str, Any], scale: Callable[..., float]) -> dict[str, Any]: ...
    def _store(
        self, weights: Any, item_ids: Any, popularity: Any, n_users: int, settings: dict[str, Any], **learned: Any
    ) -> Any: ...


class FullRankOnCluster(ClusterModel, Protocol):
    """EASE, DLAE, EDLAE or RDLAE; ``_objective`` returns the arguments of ``solvers.cholesky`` besides l2."""

    @property
    def storage(self) -> str: ...
    def with_propensity(self, power: float) -> Self: ...
    def _objective(self, settings: dict[str, Any]) -> dict[str, Any]: ...


class SparseOnCluster(ClusterModel, Protocol):
    """SparseEDLAE."""

    def _check_memory(self, m: int, nnz: int, settings: dict[str, Any]) -> int: ...
    def _finish(self, *solution: Any, **more: Any) -> Any: ...
