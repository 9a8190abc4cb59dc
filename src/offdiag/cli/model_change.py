"""What `offdiag update` and `offdiag forget` share: a saved model takes all of a change, or none of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offdiag.cli import console, info, model_options
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import keys, switch

if TYPE_CHECKING:
    from offdiag.living.certificate import Certificate
    from offdiag.living.events import LogPlan
    from offdiag.living.ledger import Ledger
    from offdiag.models.recommender import Recommender

UpdatableFile = Annotated[str, typer.Argument(metavar="MODEL", help="A file written by `offdiag fit --updatable`.")]
Out = Annotated[
    str | None, typer.Option("--out", "-o", metavar="NEW", help="Write the changed model there; default MODEL itself.")
]


def target_of(model: str, out: str | None, sources: list[str]) -> str:
    """Where the changed model goes, checked before any work is done."""
    if out is None or (os.path.exists(out) and os.path.exists(model) and os.path.samefile(out, model)):
        out = model
    for source in sources:
        if os.path.exists(source) and os.path.exists(model) and os.path.samefile(source, model):
            raise OffdiagError(f"expected a model and a log, received {source!r} as both; name the other one")
        model_options.check_target(out, source)
    return out


class ModelChange:
    """One run of a command that changes a model: where it is read and written, and what an earlier run left to do."""

    def __init__(self, model: str, target: str, key_file: str | None) -> None:
        self._model, self._target, self._key = model, target, key_file
        self.finished: switch.Note | None = None  # of a run that was killed and has been completed now

    def settle(self) -> None:
        """Finish what a killed run has begun; called with the lock held."""
        self.finished = switch.complete(Path(os.path.realpath(self._model)), keys.keys_of(self._key))
        if self.finished is not None:
            console.note(f"finished a change of {console.printable(self._model)} that had been interrupted")

    def load(self) -> tuple[Recommender, Ledger]:
        from offdiag import persist
        from offdiag.living import past

        fitted: Recommender = persist.load(self._model, key=self._key)
        ledger = past.ledger_of(fitted)
        if ledger is None:
            raise OffdiagError(
                f"expected a model that was fitted with offdiag fit --updatable, received {self._model!r}, which does "
                "not say what it has counted (is its file .living missing?); fit it again with --updatable"
            )
        return fitted, ledger

    def apply(self, fitted: Recommender, plan: LogPlan, work: console.Work, prove: bool = False) -> list[Certificate]:
        """Both halves of the plan: add first and remove then, so that no item is lost in between."""
        steps = []
        if plan.add is not None:
            work.begin("updating")
            last = fitted.update(plan.add, progress=work).last_change
            assert last is not None
            steps.append(last)
        if plan.remove is not None:
            work.begin("forgetting")
            steps.append(fitted.forget(plan.remove, prove=prove, progress=work))
        return steps

    def save(
        self,
        fitted: Recommender,
        ledger: Ledger,
        unchanged: Callable[[], None],
        work: console.Work,
        rotate_key: bool = False,
        note: switch.Note | None = None,
    ) -> None:
        from offdiag import persist
        from offdiag.living import past, state

        past.keep_ledger(fitted, ledger)
        work.begin("saving")
        first_format = fitted._past.first_format
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EarlierFormatWarning)  # printed below, as a command does
            persist.save(
                fitted,
                self._target,
                updatable=True,
                key=self._key,
                rotate_key=rotate_key,
                note=note,
                progress=work,
                ready=unchanged,
            )
        if first_format:
            beside = switch.living_path(Path(self._target)).name
            console.note(f"{console.printable(self._target)}: {state.REVEALED.format(living=beside)}")


def weight_error_text(error: float, what: str) -> str:
    return f"within {error:.2g} of {what} (estimated)" if error else f"those of {what}"


def saved_text(target: str) -> str:
    return f"{target} ({info.size(os.path.getsize(target))})"
