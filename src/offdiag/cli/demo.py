"""`offdiag demo`: one split, four models, the same users, and reasons for the recommendations, as a report."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from offdiag import wording
from offdiag.cli import console, inputs, outputs, products
from offdiag.cli.commands import DataOrSynthetic, Json, Seed
from offdiag.cli.inputs import OptionalColumns
from offdiag.errors import OffdiagError
from offdiag.report import writer
from offdiag.report.writer import Study

if TYPE_CHECKING:
    from offdiag import Interactions
    from offdiag.data.split import HeldOut
    from offdiag.models.recommender import Recommender
    from offdiag.ranking import Explanation

EXAMPLES = ("offdiag demo", "offdiag demo ratings.csv --value rating --at-least 4 --out films")
FOLD_IN = 0.8
HELD_OUT = 0.1
SAMPLES = 3
PICKS = 5


def demo(
    data: DataOrSynthetic = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FOLDER", help="Where the report and model go.")] = "demo",
    catalogue: products.CatalogueFile = None,
    catalogue_columns: products.CatalogueColumns = None,
    seed: Seed = 0,
    json: Json = False,
    columns: OptionalColumns = OptionalColumns(),  # noqa: B008 - frozen
) -> None:
    """Compare four models on new users and write an HTML report.

    The models are Popularity, EASE, DLAE and EDLAE; a few of the new users get recommendations with reasons.
    """
    folder = Path(out)
    outputs.check_folder(folder, "report.html", "model.od", "train.csv", "new-users.csv")
    shop = products.given(catalogue, catalogue_columns)
    with console.working() as work:
        inter, source = inputs.read_or_generate(data, columns, seed, work)
        study = run(inter, source, seed, work)
        if shop is not None:
            products.attach(study.model, shop)
        study = write(study, inter, folder, work, with_data=data is None)
    if json:
        console.show_json(as_json(study, folder))
    else:
        show(study, folder)


def run(inter: Interactions, source: str, seed: int, work: console.Work) -> Study:
    """Split, fit, evaluate, explain; nothing is written."""
    import offdiag as od

    start = time.perf_counter()
    work.begin("splitting users")
    split = od.split.strong(inter, held_out=HELD_OUT, fold_in=FOLD_IN, seed=seed)
    if not split.test.targets.nnz:
        raise OffdiagError(
            "the held-out users have one item each, so there is nothing to hide and find again; "
            "give data whose users have several items, or raise --min-users"
        )
    metrics = [*writer.METRICS, *writer.ALSO, *writer.CUTS]
    entries = []
    ideas: dict[Recommender, str] = {
        od.Popularity(): "the same list for everyone",
        od.EASE(): "each item predicted from all others",
        od.DLAE(): "learned while items drop out",
        od.EDLAE(): "the same, judged on the dropped items",
    }
    for model, idea in ideas.items():
        name = type(model).__name__
        work.begin(name)
        begun = time.perf_counter()
        model.fit(split.train, progress=work)
        fitted = time.perf_counter() - begun
        result = od.evaluate(model, split.test, metrics=metrics, progress=work)
        settings, n_bytes = dict(model.settings_), model.weights_.nbytes
        entries.append(writer.Entry(name, idea, model.get_params(), settings, result, fitted, n_bytes))
    best = dict(zip(entries, ideas, strict=True))[writer.best_of(entries)]  # the one that the report names recommends
    work.begin("looking for reasons")
    samples = _samples(best, split.test)
    return Study(source, split, FOLD_IN, seed, entries, best, samples, time.perf_counter() - start)


def _samples(model: Recommender, held_out: HeldOut) -> list[writer.Sample]:
    """The first users with a short history and hidden items; chosen before anything is recommended."""
    from offdiag import Popularity

    lengths, hidden = np.diff(held_out.histories.indptr), np.diff(held_out.targets.indptr)
    good = np.flatnonzero((hidden >= 1) & (lengths >= 4) & (lengths <= 10))
    if len(good) < SAMPLES:  # unusual data: take the shortest histories available
        order = np.argsort(lengths, kind="stable")
        good = order[(hidden[order] >= 1) & (lengths[order] >= 1)]
    samples = []
    for user in good[:SAMPLES].tolist():
        history = model.item_ids_[held_out.histories[[user]].indices].tolist()
        targets = set(model.item_ids_[held_out.targets[[user]].indices].tolist())
        (listed,) = model.recommend([history], k=PICKS)
        picks = [(item, score, item in targets) for item, score in listed]
        # Popularity, if it is the best, has no reasons: it does not look at the history.
        reasons = [] if isinstance(model, Popularity) else [model.explain([history], item) for item, _, _ in picks]
        samples.append(writer.Sample(held_out.user_ids[user].item(), history, picks, reasons))
    return samples


def write(study: Study, inter: Interactions, folder: Path, work: console.Work, *, with_data: bool) -> Study:
    """Write the report, the model and, for synthetic data, the tables, for use with other commands."""
    from offdiag import persist

    best = study.best.name
    files = {"model.od": f"the {best} model, the best here; try offdiag similar, recommend, explain and info"}
    if with_data:
        files["train.csv"] = "the users it learned from, and those set aside; try offdiag fit"
        files["new-users.csv"] = "the held-out users; try offdiag evaluate"
    study = replace(study, files=files)
    work.begin("writing")
    folder.mkdir(parents=True, exist_ok=True)
    # All files are written to a temporary folder and moved at the end: an interrupted run keeps the old ones.
    with tempfile.TemporaryDirectory(prefix=".offdiag-", dir=folder) as name:
        aside = Path(name)
        writer.replace_text(aside / "report.html", writer.render(study))
        measured = study.best.result.to_dict() | {"popularity": study.results["Popularity"].to_dict()}
        persist.save(study.model, aside / "model.od", metrics=measured, progress=work)
        if with_data:
            is_new = np.isin(inter.user_ids, study.split.test.user_ids)
            _write_table(inter.select_users(~is_new), aside / "train.csv")
            _write_table(inter.select_users(is_new), aside / "new-users.csv")
        for file in ("report.html", *files):
            os.replace(aside / file, folder / file)
    return study


def _write_table(inter: Interactions, path: Path) -> None:
    import polars as pl

    users = np.repeat(inter.user_ids, np.diff(inter.matrix.indptr))
    frame = pl.DataFrame({"user": users.tolist(), "item": inter.item_ids[inter.matrix.indices].tolist()})
    writer.replace_text(path, frame.write_csv())


def as_json(study: Study, folder: Path) -> dict[str, Any]:
    """The whole study as JSON."""
    best, train = study.best, study.split.train
    return {
        "source": study.source,
        "data": {"users": train.n_users, "items": train.n_items, "interactions": train.nnz},
        "test_users": best.result.n_users,
        "best": best.name,
        "models": [
            {
                "model": entry.name,
                "settings": entry.settings,
                "seconds_to_fit": entry.seconds,
                **entry.result.to_dict(),
                "behind_best": None if entry is best else best.result.compare(entry.result).to_dict(),
            }
            for entry in study.entries
        ],
        "samples": [
            {
                "user": sample.user,
                "history": sample.history,
                "recommended": [
                    {
                        "item": item,
                        "score": score,
                        "really_chosen": chosen,
                        "contributions": [{"item": i, "contribution": c} for i, c in _contributions(reason)],
                    }
                    for (item, score, chosen), reason in zip_longest(sample.picks, sample.reasons)
                ],
            }
            for sample in study.samples
        ],
        "seconds": study.seconds,
        "files": [str(folder / name) for name in ("report.html", *study.files)],
    }


def _contributions(reason: Explanation | None) -> list[tuple[Any, float]]:
    return [] if reason is None else list(zip(reason.items.tolist(), reason.contributions.tolist(), strict=True))


def show(study: Study, folder: Path) -> None:
    """Print the study on stdout."""
    console.show_source(study.source, study.split.train, study.best.result.n_users)
    rows = [
        [
            entry.name,
            *(cell for metric in writer.METRICS for cell in outputs.mean_and_error(entry.result, metric)),
            wording.seconds(entry.seconds),
        ]
        for entry in study.entries
    ]
    console.say()
    console.show_table(["model", *(head for m in writer.METRICS for head in (f">{m}", ">±")), ">fit"], rows)
    console.say()
    for line in writer.summary(study):
        console.say(line, hang=2)
    for sample in study.titled_samples:
        console.say(f"\nUser {console.printable(sample.user)} has", style="bold")
        for item in sample.history:
            console.say(f"  {console.printable(item)}")
        console.say(f"{type(study.model).__name__} recommends")
        for (item, score, chosen), reason in zip_longest(sample.picks, sample.reasons):
            mark = " (really chosen)" if chosen else ""
            console.say(f"  {score:.3f}  {console.printable(item)}{mark}", hang=9)
            why = writer.SAME_FOR_ALL if reason is None else writer.reason_text(reason)
            console.say(f"         {console.printable(why)}", style="dim", hang=9)
    console.say()
    files = {"report.html": "figures and details; open it in a browser", **study.files}
    console.show_pairs({str(folder / name): what for name, what in files.items()})
