"""Cross-validation over users: each user is held out once, and every model sees the same folds and hidden items."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data.hiding import hide
from offdiag.data.interactions import Interactions
from offdiag.data.read import read
from offdiag.errors import OffdiagError
from offdiag.evaluation import Result, evaluate, parse_metric, standard_error
from offdiag.models.estimator import HIDDEN, METRIC
from offdiag.progress import Progress, reporter
from offdiag.protocols import Learner

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]  # users to learn from, users to measure on


class Splitter(Protocol):
    """A splitter of scikit-learn, such as KFold; the rows that it divides are users."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]: ...


def cross_validate(
    model: Learner,
    data: Any,
    folds: int | Splitter = 5,
    metrics: Sequence[str] | str = ("recall@20", "recall@50", METRIC),
    *,
    hidden: float = HIDDEN,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Result:
    """Fit on all users but those of one fold, measure on those, and so on for every fold.

    Of each held-out user a share of the items is ``hidden``, and the model recommends from the others. Every user
    counts once, so means, standard errors and values per user are as those of ``od.evaluate``. Folds and hidden items
    depend only on the data and on ``seed``: results of several models on the same data are paired, and
    ``result.compare(other)`` tests their difference. Coverage is the mean over the folds.

    ``data`` is Interactions or anything that ``od.read`` takes without options. ``folds`` is their number, with users
    drawn at random, or a splitter of scikit-learn. The model itself is not changed. The standard error is that of the
    users; that the fits share most of their data is not in it.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> ease, popular = (od.cross_validate(model, X, metrics="ndcg@10") for model in (od.EASE(), od.Popularity()))
        >>> ease.n_users, sorted(ease.compare(popular).difference)
        (291, ['ndcg@10'])
    """
    report, start = reporter(progress), time.perf_counter()
    if not dataclasses.is_dataclass(model) or not hasattr(model, "fit"):
        raise OffdiagError(
            f"expected a model with settings, fit and recommend, such as od.EASE(), received {type(model).__name__}"
        )
    inter = data if isinstance(data, Interactions) else read(data)
    results: list[Result] = []
    divided = _folds(inter, folds, seed)
    for at, (train, test) in enumerate(divided):
        if report is not None:
            report("cross-validation", at / len(divided))
        held_out = replace(hide(inter.matrix[test], hidden, seed), user_ids=test, item_ids=inter.item_ids)
        if held_out.targets.nnz:
            fitted = replace(model)  # unfitted, with the same settings
            fitted.fit(inter.select_users(positions=train))
            results.append(evaluate(fitted, held_out, metrics))
    if report is not None:
        report("cross-validation", 1.0)
    if not results:
        raise OffdiagError("expected users with two items or more, received none; there is nothing to hide")
    return _joined(inter, results, time.perf_counter() - start)


def _folds(inter: Interactions, folds: int | Splitter, seed: int) -> list[Fold]:
    if hasattr(folds, "split"):
        given = [(np.asarray(train), np.asarray(test)) for train, test in folds.split(inter)]
        tested = np.concatenate([test for _, test in given])
        if len(np.unique(tested)) != len(tested):
            raise OffdiagError(
                "expected a splitter that holds out each user at most once, received one that repeats users; "
                "use KFold(shuffle=True) instead of repeated or shuffled splits"
            )
        return given
    n = checks.whole("folds", folds, 2, inter.n_users)
    order = np.random.default_rng(seed).permutation(inter.n_users)
    return [(np.setdiff1d(order, part), np.sort(part)) for part in np.array_split(order, n)]


def _joined(inter: Interactions, results: list[Result], seconds: float) -> Result:
    """One result over all users, in the order of the data."""
    users = np.concatenate([result.user_ids for result in results if result.user_ids is not None])
    order = np.argsort(users)
    per_user = {name: np.concatenate([r.per_user[name] for r in results])[order] for name in results[0].per_user}
    mean, sem = {}, {}
    for name in results[0].mean:
        if parse_metric(name).kind == "coverage":
            mean[name], sem[name] = float(np.mean([result.mean[name] for result in results])), float("nan")
        else:
            mean[name], sem[name] = float(per_user[name].mean()), standard_error(per_user[name])
    return Result(
        mean, sem, per_user, n_users=len(users), n_without_targets=inter.n_users - len(users), seconds=seconds,
        user_ids=inter.user_ids[users[order]],
    )  # fmt: skip


@dataclass(frozen=True)
class Scorer:
    """A metric as ``scoring=`` of scikit-learn's searches and ``cross_val_score``; see ``model.score``.

    Works for models and for pipelines that end in one.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> recall = od.Scorer("recall@20", hidden=0.5)
        >>> recall(od.EASE(l2=10.0).fit(X[:200]), X[200:]) > 0.5
        True
    """

    metric: str = METRIC
    hidden: float = HIDDEN
    seed: int = 0

    def __post_init__(self) -> None:
        parse_metric(self.metric)

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        if hasattr(estimator, "steps"):  # a Pipeline
            X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
            estimator = estimator[-1]
        return float(estimator.score(X, metric=self.metric, hidden=self.hidden, seed=self.seed))
