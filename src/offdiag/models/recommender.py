"""What every model shares from its fit to its file: settings, users added and removed, copies, saving."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from offdiag import notebook, wording
from offdiag.data.catalogue import Catalogue, check_catalogue
from offdiag.data.columns import Roles
from offdiag.data.read_catalogue import read_catalogue
from offdiag.files.keys import Source
from offdiag.gramian.packed import gram
from offdiag.living import exact_change
from offdiag.living.past import Past, gram_of
from offdiag.models import fields, new_items
from offdiag.models.source import Reading
from offdiag.progress import Progress, reporter
from offdiag.weights import Weights

if TYPE_CHECKING:
    from offdiag.gramian.packed import Gram
    from offdiag.gramian.sparse import SparseGram
    from offdiag.living.certificate import Certificate
    from offdiag.living.exact_change import Change, NewWeights
    from offdiag.living.order import Histories
    from offdiag.reasons import PairReason


class Recommender(new_items.Growing):
    """The interface of all models; ``fit`` of each model sets the attributes that end in an underscore."""

    cluster_fit: ClassVar[Literal["full rank", "sparse", "order", "low rank"] | None] = None  # its fit in od.cluster
    learns_from_gram: ClassVar[bool] = False  # it has fit_gram
    prefers_data: ClassVar[bool] = False  # fit needs less memory than the Gram of fit_gram
    starts_warm: ClassVar[bool] = False  # fit_gram takes ``start``, a model fitted with other settings
    stops_early: ClassVar[bool] = False  # fit takes ``validation``, users that decide when to stop
    checkpoints_in_folder: ClassVar[bool] = False  # fit takes ``checkpoint``, a folder
    can_change: ClassVar[bool] = False  # update and forget are exact
    keeps_rows: ClassVar[bool] = False  # it is rows of users, so no file or pickle takes it
    takes_groups: ClassVar[bool] = False  # fit and fit_gram take ``groups``
    has_propensity: ClassVar[bool] = False  # it has with_propensity
    l2_of_ease: ClassVar[bool] = False  # its l2 has the unit of EASE's, so search ranges follow that
    auto_of_ease: ClassVar[bool] = False  # "auto" is resolved by ``models.auto``
    settings_: dict[str, Any]  # the hyper-parameters as used, with every "auto" replaced by its value
    n_users_: int
    counts_users_: bool  # whether popularity_ is the number of users of each item, as it is for 0/1 data
    compressed_: dict[str, Any]  # what od.compress did, in a model that it returned
    _catalogue: Catalogue | None = None
    _past: Past = Past()  # what it remembers of its users; never in a pickle or a model file

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from users×items: Interactions, a scipy sparse matrix, an array; or from any table.

        A table is a data frame, a dict of columns, a file, a database: whatever ``od.read`` reads, with its options:
        ``fit(frame, user="customer", item="sku")``.
        ``columns_`` remembers its columns, and so does a saved model. ``y`` is ignored, as scikit-learn asks for.
        """
        raise NotImplementedError

    def explain_pair(self, item: Any, other: Any) -> PairReason:
        """What the weight of ``item`` on ``other`` adds to how often the two occur together; needs ``gram_``.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> pair = od.EASE(l2=10.0).fit(X).explain_pair(*X.item_ids[:2])
            >>> bool(abs(pair.together - pair.direct - pair.amounts.sum()) < 1e-3)
            True
        """
        from offdiag.models import pair_reasons

        return pair_reasons.explain(self._require_fit(), item, other)

    def update(self, X_new: Any, *, progress: Progress | bool | None = None) -> Self:
        """Learn new users, exactly: the result of a fit with ``settings_`` on the old and the new data together.

        With Interactions, items are matched by id, and unknown ids are new items; a plain matrix must have the columns
        of the catalogue, or more. ``last_change`` is the certificate. docs/living.md gives the cost.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.EASE(l2=10.0).fit(X.select_users(slice(0, 200)))
            >>> model.update(X.select_users(slice(200, 300))).n_users_
            300
        """
        progress = reporter(progress)
        X_new = self._require_fit()._read(X_new)
        with new_items.set_aside(self):
            exact_change.change_users(self, X_new, 1, prove=False, progress=progress)
        return self

    def forget(self, X_old: Any, *, prove: bool = False, progress: Progress | bool | None = None) -> Certificate:
        """Unlearn users, exactly: the result of a fit with ``settings_`` on the data without them.

        ``X_old`` holds their rows as they were learned. The certificate reports how far the weights are from that, as
        checked against the exact Gram; ``prove=True`` also measures it with a new fit. With Interactions, items that
        are left without users are removed from the catalogue.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.EASE(l2=10.0).fit(X)
            >>> certificate = model.forget(X.select_users([0, 1]), prove=True)
            >>> model.n_users_, certificate.proof < 1e-5
            (298, True)
        """
        progress = reporter(progress)
        X_old = self._require_fit()._read(X_old)
        with new_items.set_aside(self):
            return exact_change.change_users(self, X_old, -1, prove=prove, progress=progress)

    @property
    def last_change(self) -> Certificate | None:
        """The certificate of the last update or forget."""
        return self._past.certificate

    @property
    def gram_(self) -> Gram | SparseGram:
        """The Gram of the users in the model. Later changes of the model do not change it."""
        G = gram_of(self._require_fit())
        G.values.flags.writeable = False  # any later change makes a copy
        return G

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        metrics: Any = None,
        updatable: bool = False,
        key: Source = None,
        rotate_key: bool = False,
    ) -> None:
        """Write the model to one file, atomically; ``od.load`` reads it back. No user row is ever stored.

        ``updatable=True`` also writes a second, encrypted file, ``path`` + ".living", for ``update`` and ``forget``.
        ``key`` is a key file, 32 bytes, or a function that returns them; by default keys are kept in the user's
        configuration folder. ``rotate_key=True`` makes every older copy of that file unreadable.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).save("ease.od", metrics={"ndcg@100": 0.4})
            >>> od.load("ease.od").n_users_
            300
        """
        from offdiag import persist

        persist.save(self._require_fit(), path, metrics=metrics, updatable=updatable, key=key, rotate_key=rotate_key)

    @property
    def catalogue_(self) -> Catalogue | None:
        """The products that its items are (``od.read_catalogue``): kept in its file, and shown with its lists."""
        return self._catalogue

    @catalogue_.setter
    def catalogue_(self, catalogue: Catalogue | None) -> None:
        if catalogue is not None:
            check_catalogue(catalogue, self._require_fit().item_ids_)
        self._catalogue = catalogue

    def with_catalogue(self, catalogue: Any) -> Self:
        """The same fit with the titles and other columns of its items; ``None`` takes them away.

        ``catalogue`` is what ``od.read_catalogue`` returns, or a table that it can read. Large arrays are shared.

        Example:
            >>> import offdiag as od
            >>> model = od.EASE(l2=1.0).fit(np.array([[1, 1, 0], [1, 0, 1]]))
            >>> titled = model.with_catalogue({"item": [0, 1, 2], "title": ["Alien", "Brazil", "Cube"]})
            >>> titled.recommend([[1]], k=1).to_dicts()[0]["title"]
            'Alien'
        """
        model = copy.copy(self._require_fit())
        model.catalogue_ = (
            catalogue if catalogue is None or isinstance(catalogue, Catalogue) else read_catalogue(catalogue)
        )
        return model

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        learned = f", learned from {self._source()}" if hasattr(self, "weights_") else ""
        return f"{type(self).__name__}({params}){learned}"

    def _source(self) -> str:
        """What a fitted model learned from; values are interactions where all are 1, which it does not remember."""
        return (
            f"{self.n_users_:,} users x {len(self.item_ids_):,} items, values summing to {self.popularity_.sum():,.7g}"
        )

    def _repr_html_(self) -> str:
        fitted = hasattr(self, "weights_")
        settings = self.settings_ if fitted else self.get_params()
        facts = {"learned from": self._source() if fitted else "nothing yet; call fit(X)"}
        if fitted:
            facts["weights"] = f"{self.weights_.kind}, {wording.size(self.weights_.nbytes)}"
            facts["items"] = notebook.facts_of_rows(self.item_ids_.tolist())
            if self.columns_ is not None:
                facts["columns"] = ", ".join(f"{role} {name!r}" for role, name in self.columns_.present().items())
            if self.catalogue_ is not None:
                covered = self.catalogue_.coverage(self.item_ids_)
                named = ", ".join(self.catalogue_.columns)
                facts["catalogue"] = f"{named} of {covered.n_covered:,} of {covered.n_items:,} items"
        auto = {name for name, value in self.get_params().items() if isinstance(value, str) and value == "auto"}
        marks = {name: " (chosen from the data)" if fitted and name in auto else "" for name in settings}
        chosen = {name: f"{notebook.cell(value)}{marks[name]}" for name, value in settings.items()}
        return notebook.card(type(self).__name__, facts | chosen)

    def _with(self, settings: dict[str, Any]) -> Self:
        """An unfitted model with these settings; names that it does not have are ignored."""
        params = self.get_params()
        return type(self)(**params | {name: value for name, value in settings.items() if name in params})

    def _validate(self) -> Self:
        """An unfitted model with the same settings, validated; "auto" stays for the fit to resolve."""
        return self._with(fields.check_settings(self))

    def _unfitted_copy(self) -> Self:
        """An unfitted model with the settings of the fit, without any "auto"."""
        return self._with(self.settings_)

    def _settings(self) -> dict[str, Any]:
        """The settings that decide what is learned."""
        found = {}
        for name, known in fields.settings_of(self).items():
            value = getattr(self, name)
            if not known.layout and not (known.optional and value == known.default):
                found[name] = value
        return found

    def _valid_settings(self) -> dict[str, Any]:
        return self._validate()._settings()

    def _store(
        self,
        weights: Weights,
        item_ids: NDArray[Any],
        popularity: NDArray[np.float64],
        n_users: int,
        settings: dict[str, Any],
        past: Past | None = None,
        columns: Roles | None = None,
        counts_users: bool = False,
        **learned: Any,
    ) -> Self:
        """The end of every fit; ``learned`` holds further fitted attributes.

        Nothing is assigned before this line: an interrupted fit leaves an earlier one intact.
        """
        for name in ("added_items_", "history_decay_"):
            vars(self).pop(name, None)
        vars(self).update(
            {"_groups": None} | learned,
            weights_=weights,
            item_ids_=item_ids,
            popularity_=popularity,
            n_users_=n_users,
            counts_users_=counts_users,
            columns_=columns,
            settings_=settings,
            _features=None,
            _catalogue=None,  # of the items of an earlier fit: the same ids may now mean other products
            _past=past if past and self.can_change else Past(),
        )
        return self

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> Gram | SparseGram:
        return gram(matrix, user_power, progress=progress)

    def _refit(self, G: Gram | SparseGram, progress: Progress | None = None, item_ids: Any = None) -> Self:
        """A model with these settings, learned from a Gram; groups and features are matched by the ids of its items."""
        fresh: Any = self._unfitted_copy()
        words: dict[str, Any] = {} if self._groups is None else {"item_ids": item_ids, "groups": self._groups}
        if self.settings_.get("feature_weight"):
            assert self._features is not None
            if self._features.coverage(item_ids).n_covered:
                words |= {"item_ids": item_ids, "item_features": self._features}
            else:  # their last item has gone
                fresh.feature_weight = 0.0
        fitted: Self = fresh.fit_gram(G, progress=progress, **words)
        return fitted

    def _histories_of(self, X: Any) -> tuple[Any, Histories | None]:
        """Users to add or remove, with their histories in order if the model learned that."""
        return X, None

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        """The weights on a changed Gram; implemented if ``can_change``."""
        raise NotImplementedError

    def _tolerances(self) -> tuple[float, float]:
        """The largest residual and the largest weight error accepted without a new fit."""
        raise NotImplementedError

    def _objective_gap(self, learned: dict[str, Any], fresh: Recommender, G: Any) -> float | None:
        """How far the objective of new weights is above that of a new fit; None where weights have one optimum."""
        return None

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        inverse = getattr(getattr(self, "weights_", None), "C", None)
        if inverse is not None:
            inverse.flags.writeable = False  # the first of the two to be changed makes a copy
        self._past.share()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = self.__copy__()
        for name, value in self.__getstate__().items():
            setattr(other, name, copy.deepcopy(value, memo))
        return other

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds no user rows, either."""
        return {name: value for name, value in vars(self).items() if name != "_past"}
