"""`offdiag recommend`: the best items for histories that are typed or read from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag import wording
from offdiag.cli import cluster_batch, console, inputs, model_inputs, outputs, products
from offdiag.cli.commands import IncludeSeen, Json, ModelFile
from offdiag.cli.item_lookup import Lookup
from offdiag.cli.model_inputs import ModelColumns
from offdiag.cli.recency_options import HistoryDecay, HistoryHalfLife
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Catalogue, Interactions
    from offdiag.models.recommender import Recommender
    from offdiag.ranking import Question
    from offdiag.recommendations import Recommendations
    from offdiag.reranked import Reranked

EXAMPLES = (
    'offdiag recommend films.od --history "Alien,Blade Runner" -k 5',
    "offdiag recommend films.od --histories views.csv --reasons --out top.parquet",
)
COST_USERS = 1_000  # on which the cost of reranking is measured
COST_SHARE = 0.2  # of each history, hidden for that


def recommend(
    model: ModelFile,
    history: Annotated[
        list[str] | None,
        Option(metavar="ITEMS", help='Ids or titles separated by commas ("" for none); once per user.'),
    ] = None,
    disliked: Annotated[
        list[str] | None,
        Option(metavar="ITEMS", help="With --history: what that user disliked; never recommended. Once per --history."),
    ] = None,
    histories: Annotated[str | None, Option(metavar="DATA", help="A table of interactions: one list per user.")] = None,
    only_users: Annotated[
        Path | None, Option(metavar="FILE", help="With --histories: only these users, one id per line.")
    ] = None,
    history_decay: HistoryDecay = None,
    history_half_life: HistoryHalfLife = None,
    k: Annotated[int, Option("-k", "--k", help="How many items.")] = 10,
    allow: Annotated[Path | None, Option(metavar="FILE", help="Recommend only these ids, one per line.")] = None,
    block: Annotated[Path | None, Option(metavar="FILE", help="Never recommend these ids, one per line.")] = None,
    block_pairs: Annotated[
        str | None, Option(metavar="DATA", help="A table of user and item: what single users must not get.")
    ] = None,
    include_seen: IncludeSeen = False,
    diversity: Annotated[
        float, Option(metavar="SHARE", help="More varied lists: 0 by score alone, 1 by dissimilarity alone.")
    ] = 0.0,
    at_most: Annotated[int | None, Option(metavar="N", help="Items of one category in a list.")] = None,
    categories: Annotated[
        str | None, Option(metavar="FILE", help="A table of items and their categories, for --at-most.")
    ] = None,
    per: Annotated[str, Option(metavar="COLUMN", help="Column of --categories.")] = "category",
    one_per_group: Annotated[
        bool, Option("--one-per-group", help="Only the best of each group of items, e.g. one size of a shirt.")
    ] = False,
    new_places: Annotated[
        int, Option(metavar="N", help="Last places of each list for the best items of add-items.")
    ] = 0,
    reasons: Annotated[bool, Option("--reasons", help="Also the item of the history that adds most.")] = False,
    titles: products.Titles = None,
    also: products.With = None,
    out: outputs.Out = None,
    rows_per_file: outputs.RowsPerFile = None,
    to: outputs.To = None,
    cluster: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="Lists by Dask workers: tcp://HOST:PORT, or local:2. --out then has a *: part-*.parquet.",
        ),
    ] = None,
    strict: Annotated[
        bool, Option("--strict", help="Reject ids that the model does not know, instead of ignoring them.")
    ] = False,
    json: Json = False,
    columns: ModelColumns = ModelColumns(),  # noqa: B008 - frozen
) -> None:
    """Recommend items for histories typed here or read from a file.

    On a terminal a table; in a pipe CSV, or JSON lines with --to jsonl; with --out a file, for any number of users.
    """
    import offdiag as od

    if bool(history) == (histories is not None):
        raise OffdiagError('recommend needs --history "id,id,…" or --histories FILE, one of the two')
    if history_half_life is not None and histories is None:
        raise OffdiagError(
            "--history-half-life needs times; give the histories with --histories FILE and --time COLUMN"
        )
    if disliked and len(disliked) != len(history or []):
        raise OffdiagError(
            f'expected --disliked once for each --history ("" for none), received {len(disliked)} for '
            f"{len(history or [])}; for a table use --dislike-below"
        )
    for option, given in (("--only-users", only_users), ("--block-pairs", block_pairs)):
        if given is not None and histories is None:
            raise OffdiagError(f"{option} names users of a table; add --histories FILE")
    if block is not None and block_pairs is not None:
        raise OffdiagError("--block and --block-pairs exclude each other; put the items of --block into the table")
    if cluster is not None:
        cluster_batch.refuse(
            {
                "--history": bool(history), "--only-users": only_users is not None, "--json": json,
                "--block-pairs": block_pairs is not None, "--diversity": bool(diversity),
                "--titles": titles is not None, "--at-most": at_most is not None,
                "--rows-per-file": rows_per_file is not None,
                "--to": to is not None,
            }
        )  # fmt: skip
        fitted = od.load(model)
        options = {
            "exclude_seen": not include_seen, "allow": allow and inputs.read_ids(allow, fitted),
            "block": block and inputs.read_ids(block, fitted), "one_per_group": one_per_group, "new_places": new_places,
            "reasons": reasons, "strict": strict, "columns": products.shown(fitted, None, also)[1],
            "history_decay": history_decay, "history_half_life": history_half_life,
        }  # fmt: skip
        done = cluster_batch.recommend(fitted, model, histories, columns, cluster, out, k, options)
        inputs.note_unknown(list(done.unknown))
        outputs.note_lists(done)
        return
    wanted = outputs.destination(out, rows_per_file, to, json, reads=[model, *([histories] if histories else [])])
    fitted = od.load(model)
    catalogue, shown = products.shown(fitted, titles, also)
    rows: Any
    refused: list[Any] | None = None
    if histories is not None:
        aged = history_decay is not None or history_half_life is not None
        rows = model_inputs.read_for(fitted, histories, replace(columns, in_order=columns.in_order or aged))
        if only_users is not None:
            rows = rows.select_users(ids=_user_ids(only_users, rows))
    else:
        lookup = Lookup(fitted, catalogue)
        rows = [lookup.history(text) for text in history or []]
        refused = [lookup.history(text) for text in disliked] if disliked else None
    source: Recommender | Reranked = fitted
    if diversity or at_most is not None:
        kinds = _categories(categories, per, fitted)
        source = od.Reranked(fitted, diversity=diversity, at_most=at_most, categories=kinds)
        if kinds is not None and at_most is not None:
            _note_without("category", kinds, fitted)
    elif categories is not None:
        raise OffdiagError("--categories is used by --at-most; add --at-most N")
    blocked: Any = None
    if block is not None:
        blocked = inputs.read_ids(block, fitted)
    elif block_pairs is not None:
        pairs = model_inputs.read_for(fitted, block_pairs, columns)
        users: Any = _alike(pairs.user_ids.tolist(), rows)
        blocked = replace(pairs, user_ids=users)
    question = source.ask(
        k,
        exclude_seen=not include_seen,
        allow=None if allow is None else inputs.read_ids(allow, fitted),
        block=blocked,
        strict=strict,
        with_reasons=reasons,
        one_per_group=one_per_group,
        new_places=new_places,
        history_decay=history_decay,
        history_half_life=history_half_life,
    )
    if json:
        _show_json(_all(question, rows, strict, refused), catalogue, shown)
    elif wanted is None:
        lists = _all(question, rows, strict, refused).with_catalogue(catalogue, shown)
        _show(lists, numbered=histories is None)
    else:
        made = question.batches(rows, strict=strict, first=int(histories is None), disliked=refused)
        batches = (lists.with_catalogue(catalogue, shown) for lists in made)
        with console.working() as work:
            done = wanted.write(batches, work, len(rows) if histories is None else rows.n_users)
        inputs.note_unknown(list(done.unknown))
        outputs.note_lists(done)
    _note_filters(question)
    if source is not fitted and question.recency is not None:
        console.note("the cost of reranking is not measured where the order of a history counts")
    elif source is not fitted:
        _note_cost(source, rows if histories is not None else None, k)  # type: ignore[arg-type]


def _show_json(lists: Recommendations, catalogue: Catalogue | None, shown: tuple[str, ...]) -> None:
    users = lists.users.tolist() if lists.user_ids is not None else range(1, len(lists) + 1)
    each = [
        {
            "user": user,
            "items": [products.with_cells({"item": i, "score": s}, catalogue, shown) for i, s in items],
            "unknown": unknown,
        }
        for user, items, unknown in zip(users, lists, lists.unknown, strict=True)
    ]
    if lists.reasons is not None:
        for one, items, shares in zip(each, lists.reasons.items.tolist(), lists.reasons.shares.tolist(), strict=True):
            for item, reason, share in zip(one["items"], items, shares, strict=False):
                item |= {"reason": reason, "reason_share": share}
    console.show_json(each)


def _show(lists: Recommendations, *, numbered: bool) -> None:
    """A table on the terminal."""
    table = lists.to_polars()
    if numbered:
        table = table.with_columns(table["user"] + 1)
    if len(lists) == 1:
        table = table.drop("user")
    outputs.show_lists(table)


def _all(question: Question, rows: Any, strict: bool, disliked: list[Any] | None) -> Recommendations:
    from offdiag import ranking

    lists = ranking.recommend(question, rows, strict=strict, disliked=disliked)
    inputs.note_unknown([item for unknown in lists.unknown_in_histories for item in unknown])
    return lists


def _note_filters(question: Question) -> None:
    inputs.note_unknown(question.unknown_in_filters, " (--allow, --block)")
    if question.blocked is not None and (strangers := question.blocked.unknown_users()):
        console.note(f"users of --block-pairs without a history here: {wording.shorten(strangers)}")


def _user_ids(path: Path, inter: Interactions) -> list[Any]:
    """The ids of a text file."""
    return _alike(inputs.read_lines(path), inter)


def _alike(users: Sequence[Any], inter: Interactions) -> list[Any]:
    """Ids of users, of the type that they have in the table."""
    from offdiag.data.ids import of_type

    whole = inter.user_ids.dtype.kind in "iu"
    return [of_type(user, whole) for user in users]


def _categories(path: str | None, per: str, model: Recommender) -> dict[str, str] | None:
    """The category of each item that has one, from a table or from the catalogue of the model."""
    found = model.catalogue_ if path is None else products.read(path, f"category={per}")
    if found is None or "category" not in found.columns:
        return None
    named = zip(found.items.tolist(), found.column("category", found.items), strict=True)
    return {str(item): str(kind) for item, kind in named if kind is not None}


def _note_without(noun: str, texts: Mapping[str, str], model: Recommender) -> None:
    lacking = [item for item in model.item_ids_.tolist() if str(item) not in texts]
    if lacking:
        have = "has" if len(lacking) == 1 else "have"
        console.note(f"{len(lacking):,} of {len(model.item_ids_):,} items {have} no {noun}: {wording.shorten(lacking)}")


def _note_cost(source: Reranked, rows: Interactions | None, k: int) -> None:
    """How much accuracy the reranking costs, on users of the table."""
    import numpy as np

    import offdiag as od
    from offdiag.ranking import encode

    if rows is None or not (long := np.flatnonzero(np.diff(rows.matrix.indptr) > 1)).size:
        console.note("the cost of reranking is measured on users with two items or more; give them with --histories")
        return
    some = np.random.default_rng(0).permutation(long)[:COST_USERS]
    matrix, _ = encode(rows.select_users(positions=np.sort(some)), source.item_ids_)
    known = od.Interactions(matrix, np.arange(len(some)), source.item_ids_)
    part = od.split.weak(known, held_out=COST_SHARE).test
    if not part.targets.nnz:
        console.note("the cost of reranking was not measured: no user has two items that the model knows")
        return
    metric = f"ndcg@{k}"
    plain = od.evaluate(source.model, part, metric)
    cost = od.evaluate(source, part, metric).compare(plain)
    console.note(
        f"reranking changes {metric} by {wording.with_error(cost.difference[metric], cost.sem[metric], '+')} from "
        f"{plain.mean[metric]:.4f} ({cost.n_users:,} users, a fifth of each history hidden)"
    )
