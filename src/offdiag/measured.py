"""What an evaluation finds: means with standard errors and values per user, and paired comparisons of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from offdiag import notebook, tables, wording
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.popularity_bands import Bands

Floats = NDArray[np.float64]
Decision = Literal["better", "worse", "within error"]
SURE = 2.0  # standard errors beyond which a paired difference decides: the one rule, see docs/evaluation.md


@dataclass(frozen=True, eq=False)
class Comparison(tables.Tabular):
    """The paired difference of two results on the same users, first minus second, for each shared metric."""

    difference: dict[str, float]
    sem: dict[str, float]
    t: dict[str, float]
    p_value: dict[str, float]
    n_users: int

    def _columns(self, form: str) -> Mapping[str, Any]:
        names = ("difference", "sem", "t", "p_value")
        values = {name: np.array([*getattr(self, name).values()]) for name in names}
        return {"metric": list(self.difference)} | values | {"n_users": np.full(len(self.difference), self.n_users)}

    def _repr_html_(self) -> str:
        return notebook.card("Comparison", {"paired over": f"{self.n_users:,} users"}, self.to_polars())

    def __str__(self) -> str:
        names = list(self.difference)
        width = max(len(name) for name in ["metric", *names])
        lines = [f"{'metric':<{width}}  difference      sem         t         p"]
        lines += [
            f"{name:<{width}}  {self.difference[name]:>+10.4f}  {self.sem[name]:>7.4f}"
            f"  {self.t[name]:>8.2f}  {self.p_value[name]:>8.2g}"
            for name in names
        ]
        return "\n".join([*lines, f"paired over {self.n_users:,} users"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: plain numbers, None where a value does not exist."""
        columns = ("difference", "sem", "t", "p_value")
        return {name: finite(getattr(self, name)) for name in columns} | {"n_users": self.n_users}


@dataclass(frozen=True, eq=False)
class Result(tables.Tabular):
    """What `evaluate` returns: means over users, their standard errors, and the values per user.

    Tables: "metrics" has a row per metric (metric, mean, sem, n_users), "users" a row per user and a column per metric.

    `per_user` holds, for each metric, a value for every user with targets, in the order of the held-out rows.
    `coverage` is one number for all users together: it has a mean, a sem of nan and no entry in `per_user`.

    Example:
        >>> print(od.Result({"hit@1": 0.5}, {"hit@1": 0.5}, {"hit@1": np.array([0.0, 1.0])}, 2, 0, seconds=0.1))
        metric      mean      sem
        hit@1     0.5000   0.5000
        2 users, 0.10 s
    """

    TABLES: ClassVar[tuple[str, ...]] = ("metrics", "users")

    mean: dict[str, float]
    sem: dict[str, float]
    per_user: dict[str, Floats]
    n_users: int
    n_without_targets: int
    seconds: float
    user_ids: NDArray[Any] | None = field(default=None, repr=False)
    bands: Bands | None = field(default=None, repr=False)  # the same by popularity of the targets, if asked for

    def _columns(self, form: str) -> Mapping[str, Any]:
        if form == "users":
            users = np.arange(self.n_users) if self.user_ids is None else self.user_ids
            return {"user": users} | self.per_user
        sem = np.array([self.sem[name] for name in self.mean])
        users = np.full(len(self.mean), self.n_users)
        return {"metric": list(self.mean), "mean": np.array([*self.mean.values()]), "sem": sem, "n_users": users}

    def _repr_html_(self) -> str:
        facts = {"users": f"{self.n_users:,}", "time": wording.seconds(self.seconds)}
        if self.n_without_targets:
            facts["left out"] = f"{self.n_without_targets:,} users without targets"
        return notebook.card("Result", facts, self.to_polars().select("metric", "mean", "sem"))

    def compare(self, other: Result) -> Comparison:
        """Paired two-sided t-test of this result minus `other`, user by user, for the metrics both have.

        Both must hold the same users in the same order. Where every user has the same value in both
        there is no difference to test: t is 0, p is 1. With one user, or for coverage, sem, t and p are nan.

        Example:
            >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=0), held_out=0.2)
            >>> result = od.evaluate(od.Popularity().fit(split.train), split.test, "ndcg@10")
            >>> result.compare(result).p_value
            {'ndcg@10': 1.0}
        """
        if self.n_users != other.n_users:
            raise OffdiagError(
                f"a paired comparison needs the same users in both results, received {self.n_users:,} and "
                f"{other.n_users:,}: evaluate both models on the same held-out part"
            )
        if (
            self.user_ids is not None
            and other.user_ids is not None
            and not np.array_equal(self.user_ids, other.user_ids)
        ):
            raise OffdiagError(
                "a paired comparison needs the same users in both results, received different user ids: "
                "evaluate both models on the same held-out part"
            )
        shared = [name for name in self.mean if name in other.mean]
        if not shared:
            raise OffdiagError(
                f"the results share no metric, received {', '.join(self.mean)} and {', '.join(other.mean)}: "
                "evaluate both with the same metrics"
            )
        difference, sem, t, p_value = {}, {}, {}, {}
        for name in shared:
            if name in self.per_user:
                difference[name], sem[name], t[name], p_value[name] = paired_t_test(
                    self.per_user[name] - other.per_user[name]
                )
            else:
                difference[name] = self.mean[name] - other.mean[name]
                sem[name] = t[name] = p_value[name] = float("nan")
        return Comparison(difference, sem, t, p_value, self.n_users)

    def __str__(self) -> str:
        width = max(len(name) for name in ["metric", *self.mean])
        lines = [f"{'metric':<{width}}  {'mean':>8}  {'sem':>7}"]
        lines += [
            f"{name:<{width}}  {mean:>8.4f}  "
            + (f"{self.sem[name]:>7.4f}" if np.isfinite(self.sem[name]) else f"{'-':>7}")
            for name, mean in self.mean.items()
        ]
        left_out = f", {self.n_without_targets:,} without targets left out" if self.n_without_targets else ""
        return "\n".join([*lines, f"{self.n_users:,} users{left_out}, {wording.seconds(self.seconds)}"])

    def to_dict(self, *, per_user: bool = False) -> dict[str, Any]:
        """JSON-ready: plain numbers, None for a sem that does not exist; values per user only on request.

        Example:
            >>> od.Result({"coverage@1": 0.5}, {"coverage@1": np.nan}, {}, 2, 0, seconds=0.1).to_dict()["sem"]
            {'coverage@1': None}
        """
        out: dict[str, Any] = {
            "mean": finite(self.mean),
            "sem": finite(self.sem),
            "n_users": self.n_users,
            "n_without_targets": self.n_without_targets,
            "seconds": self.seconds,
        }
        if self.bands is not None:
            out["bands"] = self.bands.to_list()
        if per_user:
            out["per_user"] = {name: values.tolist() for name, values in self.per_user.items()}
        return out


def merged(results: Sequence[Result]) -> Result:
    """One result from those of different users, one after another; of metrics that have a value per user."""
    per_user = {name: np.concatenate([one.per_user[name] for one in results]) for name in results[0].per_user}
    ids = [one.user_ids for one in results if one.user_ids is not None]
    return Result(
        {name: float(values.mean()) for name, values in per_user.items()},
        {name: standard_error(values) for name, values in per_user.items()},
        per_user,
        sum(one.n_users for one in results),
        sum(one.n_without_targets for one in results),
        sum(one.seconds for one in results),
        np.concatenate(ids) if len(ids) == len(results) else None,
    )


def paired_t_test(differences: Floats) -> tuple[float, float, float, float]:
    """(mean, standard error, t, two-sided p) of the hypothesis that the mean difference is 0."""
    from scipy.special import stdtr  # the t distribution, without the slow import of scipy.stats

    mean, sem = float(differences.mean()), standard_error(differences)
    if not np.isfinite(sem):
        return mean, sem, float("nan"), float("nan")
    if sem == 0.0:  # every user differs by the same amount: no spread, so no uncertainty
        return mean, sem, (float("inf") * np.sign(mean) if mean else 0.0), (0.0 if mean else 1.0)
    t = mean / sem
    return mean, sem, t, float(2.0 * stdtr(differences.size - 1, -abs(t)))


def decide(difference: float, *sems: float | None) -> Decision:
    """The verdict on a paired difference: more than two standard errors decide, of the largest if there are several.

    A standard error that does not exist (None or nan: too few values) leaves it undecided.

    Example:
        >>> decide(0.03, 0.01), decide(-0.03, 0.01), decide(0.03, 0.01, 0.02)
        ('better', 'worse', 'within error')
    """
    known = [float("nan") if sem is None else float(sem) for sem in sems]
    if not known or not all(abs(difference) > SURE * sem for sem in known):
        return "within error"
    return "better" if difference > 0 else "worse"


def with_verdict(difference: float, *sems: float | None) -> str:
    """A paired difference with its errors and what it decides: nothing is said of one that is within error.

    Example:
        >>> with_verdict(0.03, 0.01), with_verdict(-0.03, 0.02)
        ('+0.0300 ± 0.0100, better', '-0.0300 ± 0.0200')
    """
    found = decide(difference, *sems)
    errors = "".join(f" ± {sem:.4f}" for sem in sems if sem is not None and np.isfinite(sem))
    return f"{difference:+.4f}{errors}" + ("" if found == "within error" else f", {found}")


def standard_error(values: Floats) -> float:
    if values.size < 2:
        return float("nan")
    return float(values.std(ddof=1) / np.sqrt(values.size))


def over_groups(values: Floats, sizes: Sequence[int]) -> float:
    """The standard error of the mean over groups of values, which lie one group after the other."""
    return standard_error(np.array([part.mean() for part in np.split(values, np.cumsum(sizes)[:-1])]))


def finite(values: dict[str, float]) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in values.items()}
