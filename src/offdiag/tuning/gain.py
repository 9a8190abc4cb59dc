"""Whether tuning helped: the chosen and the automatic settings on the same test users, asked once for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from offdiag import notebook, wording
from offdiag.evaluation import Comparison, Result, evaluate
from offdiag.progress import Progress
from offdiag.protocols import Learner

LEVEL = 0.05  # of the paired test: above it, there is no measurable gain


@dataclass(frozen=True, eq=False)
class Gain:
    """Results of the chosen and of the automatic settings on the same test users; printed, it says what was gained.

    Example:
        >>> import offdiag as od
        >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=0), held_out=0.2)
        >>> tuned = od.tune(od.EASE, split, trials=1)  # the first trial has the automatic settings
        >>> print(tuned.gain(split))
        none: the automatic settings were chosen
    """

    metric: str
    tuned: Result
    automatic: Result
    same: bool = False  # the chosen settings are the automatic ones

    @cached_property
    def comparison(self) -> Comparison:
        """Tuned minus automatic, paired over the test users."""
        return self.tuned.compare(self.automatic)

    @property
    def measurable(self) -> bool:
        """Whether tuned is better, by a paired test at the 5 % level."""
        return self._differs and self.comparison.difference[self.metric] > 0

    @property
    def worse(self) -> bool:
        """Whether tuned is worse, by the same test."""
        return self._differs and self.comparison.difference[self.metric] < 0

    @property
    def _differs(self) -> bool:
        return bool(self.comparison.p_value[self.metric] < LEVEL)  # False for nan

    def __str__(self) -> str:
        if self.same:
            return "none: the automatic settings were chosen"
        test, metric = self.comparison, self.metric
        amount = f"{wording.with_error(test.difference[metric], test.sem[metric], '+')} {metric}"
        p = wording.p_value(test.p_value[metric])
        if self.measurable:
            return f"{amount} over automatic ({p})"
        if self.worse:
            return f"{amount}, worse than automatic ({p})"
        return f"no measurable gain over automatic ({p}): {amount}"

    def _repr_html_(self) -> str:
        results = {"tuned": self.tuned, "automatic": self.automatic}
        facts = {name: wording.with_error(one.mean[self.metric], one.sem[self.metric]) for name, one in results.items()}
        return notebook.card(f"Gain in {self.metric}", {"gain": str(self)} | facts)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "metric": self.metric,
            "measurable": self.measurable,
            "same": self.same,
            "text": str(self),
            **self.comparison.to_dict(),
            "automatic": self.automatic.to_dict(),
        }


def measure_gain(
    tuned: Learner,
    automatic: Learner,
    split: Any,
    metric: str,
    progress: Progress | None = None,
    item_features: Any = None,
) -> Gain:
    """Fit both on the training part and measure both on the test users."""
    with_tuning, without = (measure(model, split, [metric], progress, item_features) for model in (tuned, automatic))
    return Gain(metric, with_tuning, without, same=tuned.settings_ == automatic.settings_)


def measure(
    model: Learner, split: Any, metrics: Sequence[str], progress: Progress | None = None, item_features: Any = None
) -> Result:
    """Fit on the training part and measure on the test users; nets stop early by the validation users."""
    also: dict[str, Any] = {"validation": split.validation} if getattr(model, "stops_early", False) else {}
    also |= {} if item_features is None else {"item_features": item_features}
    model.fit(split.train, progress=progress, **also)
    if getattr(model, "stopped_", None) == "interrupted":
        raise KeyboardInterrupt  # a model that is not finished must not be judged
    return evaluate(model, split.test, metrics=metrics, progress=progress)
