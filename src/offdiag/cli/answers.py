"""What a saved model answers on the command line: how good it is, what it recommends, what is similar, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag import wording
from offdiag.cli import console, inputs
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Interactions, Result
    from offdiag.ranking import Explanation
    from offdiag.reasons import PairReason
    from offdiag.recommendations import Recommendations


@dataclass
class Measured:
    """Results of several models on the same users, and what the reader should know about them."""

    files: list[str]
    kinds: list[str]
    results: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def compared(self) -> list[tuple[str, Any]]:
        first, *others = self.results
        return [(file, other.compare(first)) for file, other in zip(self.files[1:], others, strict=True)]


def measure(
    data: str,
    files: Sequence[str],
    targets: str | None,
    *,
    fold_in: float,
    metrics: Sequence[str],
    exclude_seen: bool,
    seed: int,
    columns: inputs.Columns,
    work: console.Work,
) -> Measured:
    """Hide a part of each user's items, or take `targets`, and let every model find them."""
    import offdiag as od
    from offdiag.ranking import encode

    if not 0 < fold_in < 1:
        raise OffdiagError(f"--fold-in takes a number between 0 and 1, received {fold_in:g}; for example 0.8")
    models = [od.load(file) for file in files]
    _check_same_items(files, models)
    measured = Measured(list(files), [type(model).__name__ for model in models])
    work.begin(f"reading {inputs.name_of(data)}")
    inter = _known_items(inputs.read_for(models[0], data, columns), models[0], data, measured.notes)
    if targets is None:
        part = od.split.weak(inter, held_out=1 - fold_in, seed=seed).test
        items = inter.item_ids
    else:
        hidden = inputs.read_for(models[0], targets, columns)
        given = od.split.given(inter, _known_items(hidden, models[0], targets, measured.notes))
        part, items = given.test, given.train.item_ids
    for file, model in zip(files, models, strict=True):
        work.begin(f"evaluating {Path(file).name}")
        histories, wanted = (
            encode(od.Interactions(matrix, part.user_ids, items), model.item_ids_)[0]
            for matrix in (part.histories, part.targets)
        )
        held_out = type(part)(histories, wanted, part.user_ids)
        result = od.evaluate(model, held_out, metrics=metrics, exclude_seen=exclude_seen, progress=work)
        measured.results.append(result)
    measured.notes.append(
        "these figures hold only if the models did not learn from these users; a model file holds no users, "
        "so this cannot be checked"
        if targets is None
        else "these figures hold only if the models did not learn from the targets; this cannot be checked"
    )
    return measured


def _check_same_items(files: Sequence[str], models: Sequence[Any]) -> None:
    catalogue = set(models[0].item_ids_.tolist())
    for file, model in zip(files, models, strict=True):
        if set(model.item_ids_.tolist()) != catalogue:
            raise OffdiagError(
                f"the models must know the same items to be compared, but {files[0]!r} and {file!r} differ; "
                "fit both on the same data, or evaluate them one by one"
            )


def _known_items(inter: Interactions, model: Any, source: str, notes: list[str]) -> Interactions:
    """Only the columns the model knows, and a note about the others."""
    from offdiag.data.ids import positions

    known = positions(inter.item_ids, model.item_ids_) >= 0
    if not known.any():
        raise OffdiagError(
            f"the model knows none of the {inter.n_items:,} items in {source!r}; is it the model of this data, "
            "and is --item the right column?"
        )
    if known.all():
        return inter
    kept = inter.select_items(known)
    notes.append(
        f"{inter.n_items - kept.n_items:,} of {inter.n_items:,} items in {source} are unknown to the model; "
        f"{inter.nnz - kept.nnz:,} of {inter.nnz:,} interactions are left out"
    )
    return kept


def measured_json(measured: Measured, data: str) -> dict[str, Any]:
    return {
        "data": data,
        "models": [
            {"file": file, "model": kind, **result.to_dict()}
            for file, kind, result in zip(measured.files, measured.kinds, measured.results, strict=True)
        ],
        "comparisons": [
            {"file": file, "against": measured.files[0], **test.to_dict()} for file, test in measured.compared()
        ],
        "notes": measured.notes,
    }


def show_measured(measured: Measured) -> None:
    first = measured.results[0]
    names = list(first.mean)
    console.show_table(
        ["model", *(f">{name}" for name in names)],
        [
            [file, *(wording.with_error(result.mean[n], result.sem[n]) for n in names)]
            for file, result in zip(measured.files, measured.results, strict=True)
        ],
    )
    left_out = first.n_without_targets
    rest = f"; {left_out:,} without anything to predict left out" if left_out else ""
    console.say(f"{first.n_users:,} users, mean ± standard error{rest}")
    if len(measured.files) > 1:
        console.say(f"\nDifference from {console.printable(measured.files[0])}, paired over users:")
        console.show_table(
            ["model", "metric", ">difference", ">standard error", ">p"],
            [
                [file, n, f"{test.difference[n]:+.4f}", number(test.sem[n]), p_value(test.p_value[n])]
                for file, test in measured.compared()
                for n in names
            ],
        )


def recommendations_json(users: Sequence[Any], answer: Recommendations) -> list[dict[str, Any]]:
    return [
        {"user": user, "items": [{"item": i, "score": s} for i, s in listed], "unknown": unknown}
        for user, listed, unknown in zip(users, answer, answer.unknown, strict=True)
    ]


def show_recommendations(users: Sequence[Any], answer: Recommendations) -> None:
    one = len(users) == 1
    rows = [
        [*([] if one else [user]), rank, item, f"{score:.4f}"]
        for user, listed in zip(users, answer, strict=True)
        for rank, (item, score) in enumerate(listed, 1)
    ]
    console.show_table([*([] if one else ["user"]), ">rank", "item", ">score"], rows)


def similar_json(items: Sequence[Any], answer: Recommendations) -> list[dict[str, Any]]:
    return [
        {"item": item, "similar": [{"item": i, "score": s} for i, s in listed]}
        for item, listed in zip(items, answer, strict=True)
    ]


def show_similar(items: Sequence[Any], answer: Recommendations) -> None:
    for item, listed in zip(items, answer, strict=True):
        rows = [[rank, other, f"{score:.4f}"] for rank, (other, score) in enumerate(listed, 1)]
        console.show_table([">rank", f"similar to {console.printable(item)}", ">score"], rows)


def explanation_json(reason: Explanation) -> dict[str, Any]:
    parts = zip(reason.items.tolist(), reason.contributions.tolist(), reason.rank_without.tolist(), strict=True)
    return {
        "item": reason.item,
        "score": reason.score,
        "rank": reason.rank,
        "contributions": [
            {"item": item, "contribution": part, "rank_without": without or None} for item, part, without in parts
        ],
        "unknown": reason.unknown,
    }


def show_explanation(reason: Explanation) -> None:
    def moved(without: int) -> str:
        if not without:
            return ""
        if reason.rank is None:
            return f"rank {without:,}"
        return f"rank {reason.rank:,} → {without:,}" if without != reason.rank else f"rank {without:,}, as it is"

    parts = list(zip(reason.items.tolist(), reason.contributions.tolist(), strict=True))
    beside = [moved(without) for without in reason.rank_without.tolist()]
    name = console.printable(reason.item)
    console.show_bars(f"score of {name}", reason.score, parts, beside=("without this", beside))
    if reason.rank is None:
        console.say(f"{name} is in the history, so it is not recommended.")
    else:
        console.say(f"{name} has rank {reason.rank:,} among the items that are not in the history.")


def show_pair(reason: PairReason, most: int = 10) -> None:
    """What two items have in common, in per cent: their own weight, each third item, what is left."""
    a, b = console.printable(reason.item), console.printable(reason.other)
    console.say(f"weight of {a} on {b}: {reason.weight:+.4f}; if it were the only one: {reason.alone:+.4f}")
    if not reason.together:
        console.say("Nobody has both, so there is nothing in common to take apart.")
        return
    unit = 100 / reason.together
    rows: list[tuple[str, float]] = [("its own weight", reason.direct * unit)]
    through = zip(reason.items[:most].tolist(), reason.amounts[:most].tolist(), strict=True)
    for item, amount in through:
        itself = item == reason.other
        rows.append((f"{item} itself" if itself else f"through {item}", amount * unit))
    others = reason.amounts[most:]
    if len(others):
        rows.append((f"through {len(others):,} others", float(others.sum()) * unit))
    rows.append(("not explained by the model", reason.rest * unit))
    console.show_bars("what they have in common", 100.0, rows, head=("goes", ">% of it"), digits=1)


def note_unknown(unknown: Sequence[Any], source: str = "") -> None:
    """Ids that are not in the catalogue are reported, not silently dropped."""
    if unknown:
        shown = list(dict.fromkeys(map(str, unknown)))
        more = f" and {len(shown) - 5:,} more" if len(shown) > 5 else ""
        console.note(f"not in the model's catalogue, left out{source}: {', '.join(map(repr, shown[:5]))}{more}")


def metric_rows(metrics: dict[str, Any]) -> list[list[str]]:
    """Rows of a table from `Result.to_dict()`, as a model file also keeps it."""
    return [[name, number(mean), number(metrics["sem"].get(name))] for name, mean in metrics["mean"].items()]


def number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4f}"


def p_value(value: float) -> str:
    return "-" if value != value else f"{value:.2g}"
