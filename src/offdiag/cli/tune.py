"""`offdiag tune`: settings chosen on validation users, one measurement on test users, and a model of all users."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from typer import Option

from offdiag import checks, wording
from offdiag.cli import console, fit, group_options, inputs, item_features, model_options, outputs
from offdiag.cli.commands import DataFile, Event, Json, KeyFile, ModelName, Seed, Updatable, complete_metric
from offdiag.cli.inputs import FilteredColumns
from offdiag.errors import OffdiagError
from offdiag.report import writer

if TYPE_CHECKING:
    from offdiag import Interactions, Tuned
    from offdiag.data.split import Split
    from offdiag.models.recommender import Recommender
    from offdiag.progress import Progress
    from offdiag.protocols import Learner
    from offdiag.tuning import Gain

EXAMPLES = (
    "offdiag tune ratings.csv --value rating --at-least 4 --out films.od",
    "offdiag tune ratings.csv --model slim --seconds 600 --study slim.study",
    "offdiag tune orders.csv --features products.csv --out shop.od",
)
SHOWN = 10  # trials in the printed table
END = {"trials": "all were made", "seconds": "time was up"}


def tune(
    data: DataFile,
    model: ModelName = model_options.DEFAULT,
    metric: Annotated[
        str, Option(metavar="NAME", autocompletion=complete_metric, help="What to maximise on the validation users.")
    ] = "ndcg@100",
    trials: Annotated[int, Option(min=1, help="Number of settings to try, including those of a study.")] = 40,
    seconds: Annotated[float | None, Option(help="End the search after this many seconds.")] = None,
    study: Annotated[
        str | None, Option(metavar="FILE", help="Keep the trials there; the same command resumes the search.")
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
        str | None,
        Option("--out", "-o", metavar="MODEL", help="Fit the best settings on all users; save the model there."),
    ] = None,
    features: item_features.FeatureFile = None,
    feature_columns: item_features.FeatureColumns = None,
    groups: group_options.Groups = None,
    group_column: group_options.GroupColumn = None,
    updatable: Updatable = False,
    event: Event = None,
    key_file: KeyFile = None,
    plot: Annotated[str | None, Option(metavar="FILE", help="Draw the trials into this SVG file.")] = None,
    seed: Seed = 0,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Find the best settings of a model on validation users.

    They and the automatic settings are measured once on test users, which tells whether tuning helped. Bounds are
    derived from the data; no setting is required. Needs optuna (the extra tune).
    """
    from offdiag.evaluation import parse_metric
    from offdiag.plots import tuning as figures

    parse_metric(metric)
    cls = model_options.model_class(model)
    held = held_settings(model, fixed, seed)
    space = {name: bounds(name, text) for name, text in model_options.assignments(ranges, "range").items()}
    model_options.check_named(model, space)
    if both := sorted(set(held) & set(space)):
        raise OffdiagError(f"{both[0]} is held by --fixed and searched by --range; give one of the two")
    _check_files(data, out, plot, study)
    learner = cls(**held | {name: 1.0 for name in space if name == "half_life"})  # then times count, whatever it is
    group_options.check(learner, groups, group_column)
    item_features.check(learner, features, model)
    columns = fit.with_events(columns, learner)
    fit.check_updatable(learner, updatable, event, columns, key_file)
    if updatable and out is None:
        raise OffdiagError("--updatable is about the model that --out saves; add --out")
    begin = time.perf_counter()
    known = item_features.given(features, feature_columns)
    with console.working() as work:
        work.begin(f"reading {inputs.name_of(data)}")
        inter, ledger = fit.read(data, columns, learner, updatable, event)
        given: dict[str, Any] = {
            "trials": trials,
            "seconds": seconds,
            "study": study,
            "fixed": held,
            "space": space,
            "seed": seed,
        }
        given["groups"] = group_options.read(groups, group_column, inter.item_ids)
        given["item_features"] = item_features.noted(known, inter.item_ids)
        split, tuned = _search(cls, inter, held_out, metric, given, work)
        if tuned.stopped == "interrupted":
            console.note(f"interrupted after {len(tuned.trials):,} trials; continuing with the best of them")
        try:
            if plot is not None:
                writer.replace_text(Path(plot), figures.overview(tuned).svg())
            work.begin("measuring chosen and automatic settings on test users")
            gain = tuned.gain(split, item_features=known, progress=work)
            if out is not None:
                work.begin(f"fitting {cls.__name__} on everyone")
                also = {name: given[name] for name in ("groups", "item_features") if given[name] is not None}
                learner = cls(**tuned.settings).fit(inter, progress=work, **also)
                fit.save(learner, out, ledger, key_file, gain.tuned, work)
        except KeyboardInterrupt:  # the results of the search are kept
            console.note(f"the settings chosen: {', '.join(outputs.settings_list(tuned.settings))}")
            raise
    about = as_json(tuned, gain, inter, split)
    about |= {"study": study, "plot": plot, "file": out, "bytes": None if out is None else os.path.getsize(out)}
    about["seconds"] = time.perf_counter() - begin
    if json:
        console.show_json(about)
    else:
        show(tuned, gain, about)


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
        outputs.check_file(name, data, option, example)
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


def as_json(tuned: Tuned, gain: Gain, inter: Interactions, split: Split) -> dict[str, Any]:
    """Everything, as JSON."""
    from offdiag.plots import tuning
    from offdiag.tuning.trials import automatic_value

    found, held = tuned.to_dict(), split.validation
    return {
        "model": found["model"],
        "metric": tuned.metric,
        "settings": tuned.settings,
        "chosen": found["chosen"],
        "reason": found["reason"],
        "validation": {
            "value": tuned.value,
            "sem": tuned.sem,
            "users": 0 if held is None else int(np.count_nonzero(np.diff(held.targets.indptr))),
            "automatic": automatic_value(tuned.trials),
        },
        "test": gain.tuned.to_dict(),
        "gain": gain.to_dict(),
        "influence": [vars(part) for part in tuning.influence(tuned)],
        "stopped": tuned.stopped,
        "search_seconds": tuned.seconds,
        "users": inter.n_users,
        "items": inter.n_items,
        "interactions": inter.nnz,
        "trials": found["trials"],
    }


def show(tuned: Tuned, gain: Gain, facts: dict[str, Any]) -> None:
    """Print the same as tables on stdout."""
    states = [trial.state for trial in tuned.trials]
    counts = [f"{states.count(state):,} {state}" for state in dict.fromkeys(states)]
    metric, result, before = tuned.metric, gain.tuned, facts["validation"]["automatic"]
    untuned = wording.with_error(gain.automatic.mean[metric], gain.automatic.sem[metric])
    pairs: dict[str, Any] = {
        "model": facts["model"],
        "settings": outputs.settings_list(tuned.settings),
        "chosen": tuned.reason,
        "validation": f"{metric} {wording.with_error(tuned.value, tuned.sem)}, {facts['validation']['users']:,} users"
        + ("" if before is None else f"; automatic {before:.4f}"),
        "test": f"{metric} {wording.with_error(result.mean[metric], result.sem[metric])}, {result.n_users:,} other "
        f"users, asked once; automatic {untuned}",
        "gain": f"{gain}{_advice(gain)}",
        "trials": f"{', '.join(counts)}, {wording.seconds(tuned.seconds)}; {END.get(tuned.stopped, tuned.stopped)}",
    }
    if facts["study"] is not None:
        more = " with more --trials" if tuned.stopped == "trials" else ""
        pairs["study"] = f"{facts['study']}; the same command{more} continues from there"
    if facts["plot"] is not None:
        pairs["plot"] = facts["plot"]
    if facts["file"] is not None:
        pairs["saved to"] = f"{outputs.saved_text(facts['file'])}, fitted on all {facts['users']:,} users"
    console.show_pairs(pairs)
    _show_trials(tuned)
    if facts["influence"]:
        rows = []
        for part in facts["influence"]:
            good = " to ".join(dict.fromkeys(map(writer.setting_text, part["good"])))
            share = "-" if part["share"] is None else f"{part['share']:.0%}"
            rows.append([part["setting"], writer.setting_text(part["best"]), good, share])
        console.say("\nWhich settings mattered:")
        console.show_table(["setting", ">best", ">within 1 % of the best", ">explains"], rows)
        console.say(
            "explains: share of the differences between trials that follows this setting alone; a hint, no more",
            hang=10,
        )


def _advice(gain: Gain) -> str:
    if gain.measurable or gain.same:
        return ""
    return f"; offdiag fit, which is automatic, is {'the better choice' if gain.worse else 'as good'}"


def _show_trials(tuned: Tuned) -> None:
    """The chosen trial and the best others; where the settings have no room as columns, they share one."""
    best = [t for t in tuned.ranked if t.value is not None][:SHOWN]
    names = list(dict.fromkeys(name for trial in best for name in trial.settings))
    head = [f">{tuned.metric}", ">±", ">left-out error"]
    values = [[outputs.number(t.value), outputs.number(t.sem), outputs.number(t.left_out_error)] for t in best]
    each = list(zip(best, values, strict=True))
    shown = [{name: writer.setting_text(value) for name, value in t.settings.items()} for t in best]
    console.say("\nTrials on the validation users, the chosen one first, then by value:")
    console.show_table(
        [">trial", "origin", *(f">{name}" for name in names), *head],
        [
            [t.number, t.origin, *(one.get(name, "") for name in names), *cells]
            for (t, cells), one in zip(each, shown, strict=True)
        ],
        narrow=(
            [">trial", "origin", *head, "settings"],
            [[t.number, t.origin, *cells, outputs.settings_list(t.settings)] for t, cells in each],
        ),
    )
