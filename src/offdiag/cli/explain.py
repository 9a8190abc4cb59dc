"""`offdiag explain`: why an item is recommended, and what the weight between two items means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag.cli import console, inputs, products
from offdiag.cli.commands import Json, KeyFile, ModelFile
from offdiag.cli.item_lookup import Lookup
from offdiag.cli.recency_options import HistoryDecay, HistoryHalfLife, Times, with_times
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Catalogue
    from offdiag.ranking import Explanation
    from offdiag.reasons import PairReason

EXAMPLES = (
    'offdiag explain films.od --history "Alien,Blade Runner" --item Brazil',
    "offdiag explain films.od --pair Alien Aliens",
)
THIRD_ITEMS = 10  # named in the reason of a pair; the others share one row


def explain(
    model: ModelFile,
    history: Annotated[str | None, Option(help="Item ids or titles separated by commas.")] = None,
    item: Annotated[str | None, Option(help="The item whose score is to be explained.")] = None,
    history_decay: HistoryDecay = None,
    history_half_life: HistoryHalfLife = None,
    times: Times = None,
    pair: Annotated[
        tuple[str, str] | None,
        Option(metavar="ITEM OTHER", help="Two items: what their weight says beyond co-occurrence."),
    ] = None,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Show what each item of a history adds to the score of an item.

    The parts sum to the score exactly; next to each is the rank without it. With --pair, show through which other
    items two items are related; this needs a model that was saved with `--updatable`, and its key.
    """
    import offdiag as od

    given = [name for name, value in (("--history", history), ("--item", item)) if value is not None]
    if pair is None and len(given) < 2:
        missing = "--item" if given == ["--history"] else "--history" if given else "--history and --item"
        raise OffdiagError(f"explain needs --history and --item, or --pair; missing: {missing}")
    if pair is not None and given:
        raise OffdiagError(f"--pair explains two items on their own, received {' and '.join(given)} as well; leave out")
    fitted = od.load(model, key=key_file)
    lookup, catalogue = Lookup(fitted), fitted.catalogue_
    if pair is not None:
        reason = fitted.explain_pair(*lookup.items(pair))
        if json:
            console.show_json(reason.to_dict())
        else:
            show_pair(reason, catalogue)
        return
    (target,) = lookup.items([item or ""])
    if history_half_life is not None and times is None:
        raise OffdiagError("--history-half-life needs the time of each item; add --times")
    typed = with_times(lookup.history(history or ""), times)
    explanation = fitted.explain([typed], target, history_decay=history_decay, history_half_life=history_half_life)
    inputs.note_unknown(explanation.unknown)
    if json:
        console.show_json(to_dict(explanation, catalogue))
    else:
        show(explanation, catalogue, dated=isinstance(typed[0][1], str) if times and typed else False)


def to_dict(reason: Explanation, catalogue: Catalogue | None = None) -> dict[str, Any]:
    parts = zip(reason.items.tolist(), reason.contributions.tolist(), reason.rank_without.tolist(), strict=True)
    each = [{"item": item, "contribution": part, "rank_without": without or None} for item, part, without in parts]
    for name, numbers in (("age_weight", reason.age_weights), ("age", reason.ages)):
        for one, number in zip(each, [] if numbers is None else numbers.tolist(), strict=False):
            one[name] = number
    about = {
        "item": reason.item,
        "score": reason.score,
        "rank": reason.rank,
        "contributions": [products.with_cells(one, catalogue, ("title",)) for one in each],
        "unknown": reason.unknown,
    }
    if reason.like is not None:
        like = [{"item": other, "weight": weight} for other, weight in reason.like]
        about["like"] = [products.with_cells(one, catalogue, ("title",)) for one in like]
    return products.with_cells(about, catalogue, ("title",))


def show(reason: Explanation, catalogue: Catalogue | None = None, *, dated: bool = False) -> None:
    def change(without: int) -> str:
        if not without:
            return ""
        if reason.rank is None:
            return f"rank {without:,}"
        return f"rank {reason.rank:,} → {without:,}" if without != reason.rank else f"rank {without:,}, as it is"

    named = [products.label(item, catalogue) for item in reason.items.tolist()]
    parts = list(zip(named, reason.contributions.tolist(), strict=True))
    changes = [change(without) for without in reason.rank_without.tolist()]
    name = console.printable(products.label(reason.item, catalogue))
    aged: dict[str, list[str]] = {}
    if reason.ages is not None:
        aged["older by"] = [_days(age) if dated else f"{age:.3g}" for age in reason.ages.tolist()]
    if reason.age_weights is not None:
        aged["counts"] = [f"× {weight:.3g}" for weight in reason.age_weights.tolist()]
    console.show_bars(f"score of {name}", reason.score, parts, more={**aged, "without this": changes})
    if reason.like is not None:
        others = ", ".join(console.printable(products.label(other, catalogue)) for other, _ in reason.like)
        console.say(f"{name} is new, and recommended because it is like {others}.")
    if reason.rank is None:
        console.say(f"{name} is in the history, so it is not recommended.")
    else:
        console.say(f"{name} has rank {reason.rank:,} among the items that are not in the history.")


def _days(seconds: float) -> str:
    days = f"{seconds / 86_400:.3g}"
    return f"{days} day" if days == "1" else f"{days} days"


def show_pair(reason: PairReason, catalogue: Catalogue | None = None) -> None:
    """What two items have in common, in per cent: their own weight, each third item, and the rest."""
    a, b = (console.printable(products.label(item, catalogue)) for item in (reason.item, reason.other))
    console.say(f"weight of {a} on {b}: {reason.weight:+.4f}; if it were the only one: {reason.alone:+.4f}")
    if not reason.together:
        console.say("Nobody has both, so there is nothing in common to take apart.")
        return
    unit = 100 / reason.together
    rows: list[tuple[str, float]] = [("its own weight", reason.direct * unit)]
    through = zip(reason.items[:THIRD_ITEMS].tolist(), reason.amounts[:THIRD_ITEMS].tolist(), strict=True)
    for item, amount in through:
        name = products.label(item, catalogue)
        rows.append((f"{name} itself" if item == reason.other else f"through {name}", amount * unit))
    others = reason.amounts[THIRD_ITEMS:]
    if len(others):
        rows.append((f"through {len(others):,} others", float(others.sum()) * unit))
    rows.append(("not explained by the model", reason.rest * unit))
    console.show_bars("what they have in common", 100.0, rows, head=("goes", ">% of it"), digits=1)
