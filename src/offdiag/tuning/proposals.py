"""Optuna proposes: a tree-structured Parzen estimator that learns from every trial, including the rejected ones."""

from __future__ import annotations

import warnings
from typing import Any

from offdiag.errors import OffdiagError
from offdiag.tuning import ranges
from offdiag.tuning.trials import COMPLETE, REJECTED, Trial

STARTUP = 5  # trials before the estimator is used


class Sampler:
    """An Optuna study in memory; silent."""

    def __init__(self, space: ranges.Space, seed: int) -> None:
        optuna = _optuna()
        self._space, self._seed = space, seed
        self._distributions = ranges.distributions(space)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            self._study = optuna.create_study(direction="maximize")
        finally:
            optuna.logging.set_verbosity(verbosity)

    def propose(self, number: int) -> dict[str, Any]:
        """Settings for the trial of this number: the same after the same trials, whether resumed in between or not."""
        optuna = _optuna()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # multivariate is marked experimental
            self._study.sampler = optuna.samplers.TPESampler(
                seed=(self._seed * 1_000_003 + number) % 2**31, multivariate=True, n_startup_trials=STARTUP,
                n_ei_candidates=64,
            )  # fmt: skip
            trial = self._study.ask(self._distributions)
            # ``learn`` reports its result, as for trials proposed elsewhere.
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return dict(trial.params)

    def learn(self, trial: Trial) -> None:
        """Take a finished trial into account."""
        params = ranges.nearest(trial.settings, self._space)
        if params is None or trial.origin == "propensity" or trial.state not in (COMPLETE, REJECTED):
            return
        optuna = _optuna()
        rejected = trial.state == REJECTED
        self._study.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions=self._distributions,
                state=optuna.trial.TrialState.PRUNED if rejected else optuna.trial.TrialState.COMPLETE,
                value=None if rejected else trial.value,
                intermediate_values={0: trial.small_value or 0.0} if rejected else {},
            )
        )


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise OffdiagError("tuning needs optuna: pip install 'offdiag[tune]'") from None
    return optuna
