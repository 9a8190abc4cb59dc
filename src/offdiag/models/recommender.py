"""What every fitted model can do, whatever it learned: score, recommend, find similar items, save itself."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from offdiag import notebook, ranking, wording
from offdiag.errors import OffdiagError
from offdiag.files.keys import Source
from offdiag.gramian.packed import gram
from offdiag.living import exact_change
from offdiag.living.past import Past, gram_of
from offdiag.models import fields
from offdiag.progress import Progress, reporter
from offdiag.weights import Weights

if TYPE_CHECKING:
    from offdiag.gramian.packed import Gram
    from offdiag.gramian.sparse import SparseGram
    from offdiag.list_files import Written
    from offdiag.living.certificate import Certificate
    from offdiag.living.exact_change import Change, NewWeights
    from offdiag.ranking import Explanation
    from offdiag.reasons import PairReason
    from offdiag.recommendations import Recommendations


class Recommender:
    """The interface of all models; ``fit`` of each model sets the attributes that end in an underscore."""

    cluster_fit: ClassVar[Literal["full rank", "sparse"] | None] = None  # which fit of od.cluster it uses
    learns_from_gram: ClassVar[bool] = False  # it has fit_gram
    prefers_data: ClassVar[bool] = False  # fit needs less memory than the Gram of fit_gram
    starts_warm: ClassVar[bool] = False  # fit_gram takes ``start``, a model fitted with other settings
    stops_early: ClassVar[bool] = False  # fit takes ``validation``, users that decide when to stop
    checkpoints_in_folder: ClassVar[bool] = False  # fit takes ``checkpoint``, a folder
    can_change: ClassVar[bool] = False  # update and forget are exact
    has_propensity: ClassVar[bool] = False  # it has with_propensity
    l2_of_ease: ClassVar[bool] = False  # its l2 has the unit of EASE's, so search ranges follow that
    knows_order: ClassVar[bool] = False  # it learns from, and recommends for, histories in order
    auto_of_ease: ClassVar[bool] = False  # "auto" is resolved by ``models.auto``
    weights_: Weights
    item_ids_: NDArray[Any]
    popularity_: NDArray[np.float64]  # column sums of the training data
    settings_: dict[str, Any]  # the hyper-parameters as used, with every "auto" replaced by its value
    n_users_: int
    compressed_: dict[str, Any]  # what od.compress did, in a model that it returned
    _past: Past = Past()  # what it remembers of its users; never in a pickle or a model file

    def fit(self, X: Any, *, progress: Progress | bool | None = None) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[np.floating]:
        """Scores of all items for each row of X: a dense users×items array. For lists, ``recommend`` needs far less.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).predict(X).shape
            (300, 40)
        """
        rows, unknown = ranking.encode(X, self._require_fit().item_ids_, self._recency())
        ranking.report_unknown(unknown, stacklevel=3)
        return rows @ self.weights_

    def recommend(
        self,
        histories: Any = None,
        k: int = 10,
        *,
        users: Any = None,
        data: Any = None,
        exclude_seen: bool = True,
        allow: Any = None,
        block: Any = None,
        strict: bool = False,
        reasons: bool = False,
    ) -> Recommendations:
        """The k best items for each history (rows of a matrix, Interactions, or lists of item ids).

        Or for ``users``, a list of ids, whose histories are in ``data`` (Interactions); an unknown id is an error.
        ``allow`` and ``block`` are lists of item ids; ``block`` may also be a table with the columns user and item
        (a data frame or Interactions) of what single users must not get. ``reasons=True`` also finds the item of the
        history that adds most to each score, and its share of all that is added.

        A list is shorter than k only when no more items are left: ``.lengths`` holds their lengths, and the places
        after the end are masked. Ids that are not in the catalogue are ignored, listed in ``.unknown`` and warned
        about; ``strict=True`` makes them an error. An empty history gets the popular items. ``.to_polars()``,
        ``.to_pandas()``, ``.to_arrow()`` and ``.to_dicts()`` give tables.

        Example:
            >>> import offdiag as od
            >>> import numpy as np
            >>> model = od.EASE(l2=1.0).fit(np.array([[1, 1, 0], [1, 0, 1]]))
            >>> [pairs[0][0] for pairs in model.recommend([[1], [2]], k=1)]
            [0, 0]
            >>> inter = od.read(np.array([[1, 0, 0], [0, 0, 1]]), user_ids=["ann", "bob"])
            >>> model.recommend(users=["bob"], data=inter, k=1).to_dicts()[0]["user"]
            'bob'
        """
        question = self.ask(k, exclude_seen=exclude_seen, allow=allow, block=block, strict=strict, with_reasons=reasons)
        return ranking.recommend(question, ranking.choose_histories(histories, users, data), strict=strict)

    def recommend_to(
        self,
        path: str | os.PathLike[str],
        histories: Any = None,
        k: int = 10,
        *,
        users: Any = None,
        data: Any = None,
        exclude_seen: bool = True,
        allow: Any = None,
        block: Any = None,
        strict: bool = False,
        reasons: bool = False,
        titles: Mapping[Any, str] | None = None,
        rows_per_file: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Written:
        """``recommend`` to a file, for any number of users: the lists are written as they are made.

        ``path`` ends in .parquet, .csv, .jsonl or .ndjson. The columns are user, rank, item, title (with ``titles``, a
        dict by item id), score, and with ``reasons=True`` reason and reason_share. The file appears when it is
        complete; with ``rows_per_file``, ``path`` is a new folder of files part-00000, part-00001, … What was written,
        and what was left out, is counted in the result.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).recommend_to("top.jsonl", X, k=5).n_rows
            1500
        """
        question = self.ask(k, exclude_seen=exclude_seen, allow=allow, block=block, strict=strict, with_reasons=reasons)
        return ranking.write(
            question, ranking.choose_histories(histories, users, data), path,
            rows_per_file=rows_per_file, titles=titles, strict=strict, progress=reporter(progress),
        )  # fmt: skip

    def ask(self, k: int, **words: Any) -> ranking.Question:
        """What ``recommend`` asks for any histories; for other ways to read the lists, see ``offdiag.ranking.ask``.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> question = od.EASE(l2=10.0).fit(X).ask(k=5)
            >>> sum(len(lists) for lists in question.batches(X))
            300
        """
        model = self._require_fit()
        return ranking.ask(model.weights_, model.item_ids_, model.popularity_, k, recency=self._recency(), **words)

    def similar(
        self,
        items: Any,
        k: int = 10,
        *,
        space: str = "score",
        allow: Any = None,
        block: Any = None,
        strict: bool = False,
    ) -> Recommendations:
        """For each item id, the k items that a history of only that item leads to.

        Low-rank models also compare embeddings: the cosine of the rows of ``encoder_`` (items that predict the same
        items) with ``space="encoder"``, or of ``decoder_`` (items predicted by the same items) with "decoder".
        ``allow``, ``block`` and ``strict`` are as in ``recommend``.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.EASE(l2=10.0).fit(X)
            >>> [len(pairs) for pairs in model.similar(X.item_ids[:2], k=3)]
            [3, 3]
            >>> model.similar(X.item_ids[0], allow=X.item_ids[1:3]).lengths
            array([2])
        """
        model = self._require_fit()
        return ranking.similar(
            model.weights_, model.item_ids_, items, k, space=space, allow=allow, block=block, strict=strict
        )

    def explain(self, history: Any, item: Any) -> Explanation:
        """What each item of one history contributes to the score of ``item``; the parts sum to the score exactly.

        ``.rank`` is its place in the list, ``.rank_without`` its place without each item of the history.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> reasons = od.EASE(l2=10.0).fit(X).explain(X.item_ids[:3].tolist(), X.item_ids[3])
            >>> bool(reasons.score == reasons.contributions.sum())
            True
        """
        model = self._require_fit()
        return ranking.explain(model.weights_, model.item_ids_, history, item, model.popularity_, self._recency())

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
        exact_change.change_users(self._require_fit(), X_new, 1, prove=False, progress=progress)
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
        return exact_change.change_users(self._require_fit(), X_old, -1, prove=prove, progress=progress)

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The hyper-parameters, as scikit-learn's ``clone`` and searches expect them.

        Example:
            >>> import offdiag as od
            >>> od.EASE(l2=10.0).get_params()["l2"]
            10.0
        """
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Change some hyper-parameters; they take effect in the next fit.

        Example:
            >>> import offdiag as od
            >>> od.EASE().set_params(l2=10.0).l2
            10.0
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise OffdiagError(f"{type(self).__name__} has no setting {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

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
        auto = {name for name, value in self.get_params().items() if isinstance(value, str) and value == "auto"}
        marks = {name: " (chosen from the data)" if fitted and name in auto else "" for name in settings}
        chosen = {name: f"{notebook.cell(value)}{marks[name]}" for name, value in settings.items()}
        return notebook.card(type(self).__name__, facts | chosen)

    def _recency(self) -> ranking.Recency | None:
        """How the age of a choice weighs in a history; None if the order does not matter."""
        return None

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
        return {name: getattr(self, name) for name, known in fields.settings_of(self).items() if not known.layout}

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
        **learned: Any,
    ) -> Self:
        """The end of every fit; ``learned`` holds further fitted attributes.

        Nothing is assigned before this line: an interrupted fit leaves an earlier one intact.
        """
        vars(self).update(
            learned,
            weights_=weights,
            item_ids_=item_ids,
            popularity_=popularity,
            n_users_=n_users,
            settings_=settings,
            _past=past if past and self.can_change else Past(),
        )
        return self

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> Gram | SparseGram:
        return gram(matrix, user_power, progress=progress)

    def _refit(self, G: Gram | SparseGram, progress: Progress | None = None) -> Self:
        """A model with these settings, learned from a Gram."""
        fresh: Any = self._unfitted_copy()
        fitted: Self = fresh.fit_gram(G, progress=progress)
        return fitted

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        """The weights on a changed Gram; implemented if ``can_change``."""
        raise NotImplementedError

    def _tolerances(self) -> tuple[float, float]:
        """The largest residual and the largest weight error accepted without a new fit."""
        raise NotImplementedError

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

    def _require_fit(self) -> Self:
        if not hasattr(self, "weights_"):
            raise OffdiagError(f"this {type(self).__name__} is not fitted yet; call fit(X) first")
        return self
