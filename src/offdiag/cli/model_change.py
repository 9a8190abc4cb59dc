"""Shared by `offdiag update` and `offdiag forget`: a change is applied to a saved model completely or not at all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offdiag.cli import console, outputs
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import keys, switch

if TYPE_CHECKING:
    from offdiag.living.certificate import Certificate
    from offdiag.living.events import LogPlan
    from offdiag.living.ledger import Ledger
    from offdiag.models.recommender import Recommender

UpdatableFile = Annotated[str, typer.Argument(metavar="MODEL", help="A file written by `offdiag fit --updatable`.")]
Out = Annotated[
    str | None, typer.Option("--out", "-o", metavar="NEW", help="Write the changed model there. Default: MODEL itself.")
]


def target_of(model: str, out: str | None, sources: list[str]) -> str:
    """Where the changed model goes, checked before any work is done."""
    if out is None or (os.path.exists(out) and os.path.exists(model) and os.path.samefile(out, model)):
        out = model
    for source in sources:
        if os.path.exists(source) and os.path.exists(model) and os.path.samefile(source, model):
            raise OffdiagError(f"expected a model and a log, received {source!r} as both; name the other one")
        outputs.check_file(out, source)
    return out


@contextmanager
def open_model(model: str, out: str | None, sources: list[str], key_file: str | None) -> Iterator[ModelChange]:
    """A saved model and its ledger, with the lock held; the change of a killed run is completed first."""
    from offdiag.living.past import ledger_of
    from offdiag.persist import load

    target = target_of(model, out, sources)
    with switch.changing(target):
        finished = switch.complete(Path(os.path.realpath(model)), keys.keys_of(key_file))
    if finished is not None:
        console.note(f"finished a change of {console.printable(model)} that had been interrupted")
    with switch.changing(target) as unchanged, console.working() as work:
        work.begin(f"reading {os.path.basename(model)}")
        fitted: Recommender = load(model, key=key_file)
        ledger = ledger_of(fitted)
        if ledger is None:
            raise OffdiagError(
                f"expected a model that was fitted with offdiag fit --updatable, received {model!r}, which does "
                "not say what it has counted (is its file .living missing?); fit it again with --updatable"
            )
        yield ModelChange(target, key_file, fitted, ledger, finished, unchanged, work)


@dataclass(frozen=True, eq=False)
class ModelChange:
    """A model while a command changes it."""

    target: str
    key_file: str | None
    fitted: Recommender
    ledger: Ledger
    finished: switch.Note | None  # of a killed run whose change has now been completed
    unchanged: Callable[[], None]  # raises if another program has replaced the file
    work: console.Work

    def commit(
        self,
        plan: LogPlan,
        *,
        prove: bool = False,
        rotate_key: bool = False,
        note: Callable[[list[Certificate]], switch.Note] | None = None,
    ) -> list[Certificate]:
        """Change the model and save it; `note` records the change until both files are in place."""
        from offdiag.living.exact_change import exchange_users
        from offdiag.living.state import REVEALED
        from offdiag.models.new_items import set_aside
        from offdiag.persist import save

        self.work.begin("forgetting" if plan.add is None else "updating")
        with set_aside(self.fitted):
            steps = exchange_users(self.fitted, plan.add, plan.remove, prove=prove, progress=self.work)
        self.fitted._past = replace(self.fitted._past, ledger=plan.ledger)
        self.work.begin("saving")
        first_format = self.fitted._past.first_format
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EarlierFormatWarning)  # printed below, in the style of a command
            save(
                self.fitted,
                self.target,
                updatable=True,
                key=self.key_file,
                rotate_key=rotate_key,
                note=None if note is None else note(steps),
                progress=self.work,
                ready=self.unchanged,
            )
        if first_format:
            living = switch.living_path(Path(self.target)).name
            console.note(f"{console.printable(self.target)}: {REVEALED.format(living=living)}")
        return steps


def weight_error_text(error: float, what: str) -> str:
    return f"within {error:.2g} of {what} (estimated)" if error else f"those of {what}"
