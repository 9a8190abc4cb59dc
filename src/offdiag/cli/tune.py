"""`offdiag tune`: settings chosen on validation users, one measurement on test users, and a model of all users."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Option

from offdiag import checks
from offdiag.cli import console, fit, info, inputs, model_options, tune_output
from offdiag.cli.inputs import FilteredColumns
from offdiag.cli.options import DataFile, Event, Json, KeyFile, ModelName, Seed, Updatable
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Interactions, Tuned
    from offdiag.data.split import Split
    from offdiag.models.recommender import Recommender
    from offdiag.progress import Progress
    from offdiag.protocols import Learner

EXAMPLES = (
    "offdiag tune ratings.csv --value rating --at-least 4 --out films.od",
    "offdiag tune ratings.csv --model slim --seconds 600 --study slim.study",
)


def tune(
    data: DataFile,
    model: ModelName = model_options.DEFAULT,
    metric: Annotated[str, Option(help="What to maximise on the validation users.")] = "ndcg@100",
    trials: Annotated[int, Option(min=1, help="Settings to try, including those of a study.")] = 40,
    seconds: Annotated[float | None, Option(help="End the search after this time.")] = None,
    study: Annotated[
        str | None, Option(metavar="FILE", help="Keep the trials there; the same command resumes.")
    ] = None,
    fixed: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="A setting that is not searched; repeatable.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        Option(
            "--range", metavar="NAME=LOW:HIGH[:log]", help="Bounds of a setting, or choices NAME=A,B,C; repeatable."
        ),
    ] = None,
    held_out: Annotated[float, Option(help="Share of users to validate on, and to test on.")] = 0.1,
    out: Annotated[
        str | None, Option("--out", "-o", metavar="MODEL", help="Fit the best on all users and save it there.")
    ] = None,
    updatable: Updatable = False,
    event: Event = None,
    key_file: KeyFile = None,
    plot: Annotated[str | None, Option(metavar="FILE", help="Draw the trials into this SVG file.")] = None,
    seed: Seed = 0,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Find the best settings of a model on validation users.

    They are measured once on test users. Bounds are derived from the data; no setting is required. Needs optuna (the
    extra tune).
    """
    from offdiag.evaluation import parse_metric
    from offdiag.plots import tuning as figures
    from offdiag.report import writer

    parse_metric(metric)
    cls = model_options.model_class(model)
    held = held_settings(model, fixed, seed)
    space = {name: bounds(name, text) for name, text in model_options.assignments(ranges, "range").items()}
    model_options.check_named(model, space)
    if both := sorted(set(held) & set(space)):
        raise OffdiagError(f"{both[0]} is held by --fixed and searched by --range; give one of the two")
    _check_files(data, out, plot, study)
    fit.check_updatable(cls, updatable, event, columns, key_file)
    if updatable and out is None:
        raise OffdiagError("--updatable is about the model that --out saves; add --out")
    begin = time.perf_counter()
    with console.working() as work:
        work.begin(f"reading {inputs.name_of(data)}")
        inter, ledger = fit.read(data, columns, updatable, event)
        given = {"trials": trials, "seconds": seconds, "study": study, "fixed": held, "space": space, "seed": seed}
        split, tuned = _search(cls, inter, held_out, metric, given, work)
        if tuned.stopped == "interrupted":
            console.note(f"interrupted after {len(tuned.trials):,} trials; going on with the best of them")
        try:
            if plot is not None:
                writer.replace_text(Path(plot), figures.overview(tuned).svg())
            work.begin("measuring the best on test users")
            result = fit.measure(cls(**tuned.settings), split, [tuned.metric], work)
            if out is not None:
                work.begin(f"fitting {cls.__name__} on everyone")
                fit.save(cls(**tuned.settings).fit(inter, progress=work), out, ledger, key_file, result, work)
        except KeyboardInterrupt:  # the results of the search are kept
            console.note(f"the best settings found: {info.settings_text(tuned.settings, {})}")
            raise
    about = tune_output.about(tuned, result, inter, split)
    about |= {"study": study, "plot": plot, "file": out, "bytes": None if out is None else os.path.getsize(out)}
    about["seconds"] = time.perf_counter() - begin
    if json:
        console.show_json(about)
    else:
        tune_output.show(tuned, result, about)


def held_settings(model: str, fixed: Sequence[str] | None, seed: int) -> dict[str, Any]:
    """The settings of --fixed, and the seed if the model uses random numbers; an invalid value raises now."""
    held = {name: model_options.typed(value) for name, value in model_options.assignments(fixed, "fixed").items()}
    model_options.check_named(model, held)
    learner = model_options.new_model(model, held, seed)
    return held | ({"seed": seed} if "seed" in learner.get_params() else {})


def bounds(name: str, text: str) -> Any:
    """low:high, low:high:log, or choices separated by commas, as od.tune takes them."""
    wanted = f"--range takes {name}=LOW:HIGH, {name}=LOW:HIGH:log or choices {name}=A,B,C"
    if "," in text:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise OffdiagError(f"{wanted}, received {text!r}")
        return [model_options.typed(part) for part in parts]
    low, high, *rest = [*text.split(":"), ""]
    numbers = [model_options.typed(low), model_options.typed(high)]
    real = all(checks.is_number(v) and math.isfinite(v) for v in numbers)
    if not real or rest not in ([""], ["log", ""]):
        raise OffdiagError(f"{wanted}, received {text!r}")
    return (*numbers, "log") if rest == ["log", ""] else tuple(numbers)


def _check_files(data: str, out: str | None, plot: str | None, study: str | None) -> None:
    """Raise now if a file cannot be written, or if two are the same."""
    named = {"out": (out, "model.od"), "plot": (plot, "trials.svg"), "study": (study, "edlae.study")}
    places: dict[Path, str] = {}
    for option, (name, example) in named.items():
        if name is None:
            continue
        model_options.check_target(name, data, option, example)
        other = places.setdefault(Path(name).resolve(), option)
        if other != option:
            raise OffdiagError(f"--{other} and --{option} are the same file {name!r}; choose two names")


def _search(
    cls: type[Recommender], inter: Interactions, held_out: float, metric: str, given: dict[str, Any], work: console.Work
) -> tuple[Split, Tuned]:
    import offdiag as od

    split = od.split.strong(inter, held_out=held_out, seed=given["seed"])
    work.begin(f"tuning {cls.__name__}")
    try:
        return split, od.tune(cast("type[Learner]", cls), split, metric, progress=_steady(work), **given)
    except KeyboardInterrupt:
        if given["study"] is not None and os.path.exists(given["study"]):
            console.note(f"finished trials are kept in {given['study']}")
        raise


def _steady(work: Progress) -> Progress:
    """Progress that never goes back, as one stage: otherwise the time left would restart with every trial."""
    most = 0.0

    def report(stage: str, fraction: float) -> None:
        nonlocal most
        most = max(most, fraction)
        work(f"search · {stage}", most)

    return report
