"""When does emphasis pay? Row 5 of Table 1 of [Steck20] (EDLAE) against row 3 (DLAE), on real sets cut and thinned.

    python benchmarks/emphasis_pays.py [FOLDER WITH DATA SETS] [NAME …]   # half an hour on one core
    python benchmarks/emphasis_pays.py figure                             # only the figure and the table

A set is cut to at most 1,000 items and 8,000 users, and may be thinned: each interaction is kept with some
probability. At each of three ranks both models choose dropout and l2 on validation users (the grid of ``offdiag
reproduce steck2020 figure1``); the difference on test users is paired. Writes results/emphasis_pays.json after each
data set, docs/papers/steck2020/emphasis_pays.png, and the table next to it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import data_folder
from measure import machine
from numpy.typing import NDArray
from run import say
from scipy import sparse, stats

import offdiag as od
from offdiag.data.split import Split
from offdiag.evaluation import paired_t_test
from offdiag.papers.steck2020 import grid
from offdiag.plots import papers

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "emphasis_pays.json"
FIGURE = HERE.parent / "docs" / "papers" / "steck2020" / "emphasis_pays.png"
METRIC = "ndcg@100"
ITEMS, USERS, LEAST = 1_000, 8_000, 5  # an item needs this many users, a user this many items
SHARES_OF_ITEMS = (1 / 40, 1 / 10, 1 / 4)  # ranks
HELD_OUT = 0.2
DROPOUTS = (*grid.DROPOUTS, 0.9, 0.95)  # on sparse data DLAE wants a lot
PROPERTIES = {  # what may decide, and how it reads on the axis
    "rank_share": "rank / items",
    "density": "share of the matrix that is filled",
    "per_user": "interactions per user",
    "per_item": "interactions per item",
    "users_per_item": "users / items",
    "dlae_diagonal": "mean diagonal of the tuned DLAE",
    "dlae_diagonal_spread": "spread of its diagonal (standard deviation)",
}


def movielens(folder: Path) -> od.Interactions:
    return od.prepare.binarize(od.datasets.load("ml-1m", folder / "ml-1m"))


def gowalla(folder: Path) -> od.Interactions:
    return od.read([folder / "gowalla-lightgcn" / f"{part}.txt" for part in ("train", "valid")], format="adjacency")


READERS: dict[str, Callable[[Path], od.Interactions]] = {
    "ml-1m": movielens,
    "anime": lambda folder: od.read(folder / "anime" / "anime_history.dat", user="User_ID", item="Anime_ID"),
    "lastfm": lambda folder: od.read(folder / "lastfm-hetrec2011" / "user_artists.dat", user=0, item=1),
    "citeulike-a": lambda folder: od.datasets.load("citeulike-a", folder / "citeulike-a"),
    "retail": lambda folder: od.read(folder / "fimi-retail" / "retail.dat", format="baskets"),
    "gowalla": gowalla,
}
KEPT = {"ml-1m": (1.0, 0.5, 0.25, 0.1), "anime": (1.0, 0.25)}  # share kept; others: all


def cut(inter: od.Interactions, kept: float, seed: int = 0) -> od.Interactions:
    """The most popular items and random users of them, thinned, without those with next to nothing."""
    rng = np.random.default_rng(seed)
    inter = od.prepare.binarize(inter)
    popular = np.argsort(-np.bincount(inter.matrix.indices, minlength=inter.n_items), kind="stable")[:ITEMS]
    inter = inter.select_items(positions=np.sort(popular))
    inter = inter.select_users(positions=np.sort(rng.permutation(inter.n_users)[:USERS]))
    X = inter.matrix.tocoo()
    stay = rng.random(X.nnz) < kept
    thin = sparse.csr_array((X.data[stay], (X.row[stay], X.col[stay])), shape=X.shape)
    return od.prepare.min_counts(od.read(thin), users=LEAST, items=LEAST)


def tuned(kind: Any, rank: int, split: Split, start: grid.Setting) -> tuple[Any, grid.Setting]:
    """The model with the settings that are best on the validation users, and these settings."""
    validation = split.validation
    assert validation is not None

    def fitted(dropout: float, l2: float) -> Any:
        return kind(rank=rank, dropout=dropout, l2=l2, user_power=0.0).fit(split.train)

    def score(dropout: float, l2: float) -> float:
        return od.evaluate(fitted(dropout, l2), validation, [METRIC]).mean[METRIC]

    found = grid.climb(score, start, DROPOUTS)
    return fitted(*found), found


def study(inter: od.Interactions) -> list[dict[str, Any]]:
    """One line per rank: the gain by emphasis, and the properties of the data."""
    split = od.split.strong(inter, held_out=HELD_OUT, seed=0)
    train = split.train
    auto = od.EDLAE(user_power=0.0).fit(train).settings_
    last = dict.fromkeys(("dlae", "edlae"), (auto["dropout"], auto["l2"]))
    lines = []
    for share in SHARES_OF_ITEMS:
        rank = max(2, round(share * train.n_items))
        per_user: dict[str, NDArray[np.float64]] = {}
        line: dict[str, Any] = {
            "rank": rank, "users": train.n_users, "items": train.n_items, "interactions": train.nnz,
            "rank_share": rank / train.n_items, "density": train.nnz / train.n_users / train.n_items,
            "per_user": train.nnz / train.n_users, "per_item": train.nnz / train.n_items,
            "users_per_item": train.n_users / train.n_items,
        }  # fmt: skip
        for name, kind in (("dlae", od.LowRankDLAE), ("edlae", od.LowRankEDLAE)):
            model, last[name] = tuned(kind, rank, split, last[name])
            result = od.evaluate(model, split.test, [METRIC])
            per_user[name] = result.per_user[METRIC]
            diagonal = model.weights_.diagonal()
            line |= {name: result.mean[METRIC], f"{name}_settings": last[name]}
            line |= {f"{name}_diagonal": float(diagonal.mean()), f"{name}_diagonal_spread": float(diagonal.std())}
        gain, sem, *_ = paired_t_test(per_user["edlae"] - per_user["dlae"])
        line |= {"gain": gain, "sem": sem, "relative_gain": gain / line["dlae"], "relative_sem": sem / line["dlae"]}
        line["test_users"] = len(per_user["dlae"])
        say(f"  rank {rank}: DLAE {line['dlae']:.4f} {last['dlae']}, EDLAE {gain:+.4f} ± {sem:.4f} {last['edlae']}")
        lines.append(line)
    return lines


def correlations(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Spearman's rank correlation of the relative gain with each property, and its p-value."""
    gains = [line["relative_gain"] for line in lines]
    return {name: [float(v) for v in stats.spearmanr([line[name] for line in lines], gains)] for name in PROPERTIES}


def flat(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"data": name} | line for name, lines in results["data"].items() for line in lines]


def picture(results: dict[str, Any]) -> bytes:
    """The relative gain by rank, a curve per set; and by how much of a set was kept, a curve per rank."""
    figure, axes = papers.panels(1, 2, width=4.8, height=3.6)
    whole = {name: lines for name, lines in results["data"].items() if "kept" not in name}
    for n, (name, lines) in enumerate(whole.items()):
        _curve(axes[0, 0], lines, "rank_share", 0.96 + 0.016 * n, n, name)
    thinned = {name: [own for key, own in results["data"].items() if key.split(",")[0] == name] for name in KEPT}
    for dash, (name, sets) in zip(("-", "--"), thinned.items(), strict=True):
        for n, share in enumerate(SHARES_OF_ITEMS):
            label = f"{name}, rank {share:g} of the items"
            _curve(axes[0, 1], [lines[n] for lines in sets], "density", 0.98 + 0.02 * n, n, label, linestyle=dash)
    axes[0, 0].set(title="By rank", xlabel=PROPERTIES["rank_share"], ylabel="gain by emphasis, %")
    axes[0, 0].set_xticks(SHARES_OF_ITEMS, [f"{share:g}" for share in SHARES_OF_ITEMS])
    axes[0, 1].set(title="Thinned", xlabel="per cent of the matrix that is filled")
    axes[0, 1].set_xticks([0.02, 0.04, 0.08, 0.12], ["2", "4", "8", "12"])
    places: tuple[dict[str, Any], ...] = ({"loc": "lower center", "ncols": 2}, {"loc": "upper right"})  # free of bars
    for axis, legend in zip(axes.flat, places, strict=True):
        axis.minorticks_off()
        axis.axhline(0, color="black", lw=0.8)
        axis.legend(frameon=False, fontsize=7.5, **legend)
    return papers.rendered(figure, "png")


def _curve(axis: Any, lines: list[dict[str, Any]], name: str, dodge: float, n: int, label: str, **words: Any) -> None:
    """One curve with error bars of two standard errors; ``dodge`` keeps the bars of several curves apart."""
    axis.errorbar(
        [dodge * line[name] for line in lines], [100 * line["relative_gain"] for line in lines],
        [200 * line["relative_sem"] for line in lines], marker="o", markersize=4, linewidth=1.2, elinewidth=0.8,
        color=papers.COLOURS[n % len(papers.COLOURS)], label=label, **words,
    )  # fmt: skip
    axis.set_xscale("log")


def renew() -> None:
    FIGURE.write_bytes(picture(json.loads(RESULTS.read_text())))
    documents.renew("emphasis-pays")


def main(words: list[str]) -> None:
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
    if words != ["figure"]:
        folder = data_folder(words)
        for name in words or READERS:
            inter = READERS[name](folder)
            for kept in KEPT.get(name, (1.0,)):
                label = name if kept == 1 else f"{name}, {100 * kept:g} % kept"
                start = time.perf_counter()
                some = cut(inter, kept)
                say(f"{label}: {some}")
                results["data"][label] = study(some)
                results |= {"machine": machine(), "metric": METRIC, "properties": PROPERTIES}
                results["correlations"] = correlations(flat(results))
                RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
                say(f"  {time.perf_counter() - start:.0f} s")
    renew()


if __name__ == "__main__":
    main(sys.argv[1:])
