"""Steck (2020) beyond ``offdiag reproduce``: the published ADMM compared with our solver, and Figure 1 with tuning.

    python benchmarks/steck2020.py                         # both, on synthetic data, a few minutes
    python benchmarks/steck2020.py admm --rank 20          # one of the two
    python benchmarks/steck2020.py figure1 --tune --data train.txt --format adjacency --name "ML-1M"

Results go to the folder given by --out (default: steck2020), as JSON and SVG. Data is read from the given path and
never copied.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from peers import admm

import offdiag as od
from offdiag.cli.steck2020 import show_figure1
from offdiag.papers.steck2020 import figure1 as steck2020
from offdiag.papers.steck2020 import figure1_page
from offdiag.wording import plain

OMEGAS = (1.0, 10.0, 100.0, 1000.0)
DROPOUTS = (0.0, 0.2, 0.4, 0.6, 0.8)
HELD_OUT = 0.1


class Lines:
    """Progress as lines on stderr."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, stage: str, fraction: float) -> None:
        if stage != self._last:
            self.begin(f"  {stage}")
            self._last = stage

    def begin(self, what: str) -> None:
        sys.stderr.write(f"{what}\n")


def compare_admm(inter: Any, name: str, *, rank: int, dropout: float, l2: float, iterations: int, seed: int) -> Any:
    """Eq. 10 over the iterations of the published ADMM, for several ω, and of offdiag's solver."""
    G = admm.gram(inter.matrix, np.float64)
    lam = admm.penalty(G, dropout, l2)
    settings: dict[str, Any] = {"dropout": dropout, "l2": l2, "user_power": 0.0, "dtype": "float64"}
    full = od.EDLAE(**settings).fit(inter)
    start = time.perf_counter()
    ours = od.LowRankEDLAE(rank=rank, iterations=iterations, seed=seed, **settings).fit(inter)
    our_seconds = time.perf_counter() - start
    our_value = admm.objective(G, lam, np.asarray(ours.encoder_), np.asarray(ours.decoder_))
    published: list[dict[str, Any]] = []
    for omega in OMEGAS:
        start = time.perf_counter()
        found = admm.minimise(G, rank, dropout=dropout, l2=l2, omega=omega, iterations=iterations, seed=seed)
        seconds = time.perf_counter() - start
        # The actual objective of the iteration: Eq. 10 with 2Λ + ω, minimised by our solver with these settings.
        odds = 2 * dropout / (1 - dropout)
        other = od.LowRankEDLAE(
            rank=rank, iterations=iterations, seed=seed,
            **(settings | {"dropout": odds / (1 + odds), "l2": 2 * l2 + omega}),
        ).fit(inter)  # fmt: skip
        published.append(
            {
                "omega": omega,
                "objectives": found.objectives,
                "gap_of_the_constraint": found.gap,
                "seconds": seconds,
                "with_doubled_penalty": admm.objective(G, 2 * lam + omega, found.U, found.V),
                "ours_with_doubled_penalty": float(other.objective_),
            }
        )
    best = min(published, key=lambda run: run["objectives"][-1])
    excess = (best["objectives"][-1] - full.objective_) / (our_value - full.objective_)
    return {
        "data": {"source": name, "users": inter.n_users, "items": inter.n_items, "interactions": inter.nnz},
        "rank": rank,
        "dropout": dropout,
        "l2": l2,
        "iterations": iterations,
        "full_rank_optimum": full.objective_,
        "ours": {"objectives": list(ours.objectives_), "objective": our_value, "seconds": our_seconds},
        "published": published,
        "excess_of_the_best_admm_over_ours": excess,
    }


def show_admm(found: dict[str, Any]) -> None:
    full, rank = found["full_rank_optimum"], found["rank"]
    print(f"\nEq. 10 on {found['data']['source']}, rank {rank}; full-rank optimum {full:.6g}. Above that optimum:")
    print(f"  {'solver':<18} {'first':>12} {'10th':>12} {'last':>12} {'seconds':>9}")
    runs = [("offdiag", found["ours"])] + [(f"ADMM, omega {run['omega']:g}", run) for run in found["published"]]
    for name, run in runs:
        values = run["objectives"]
        shown = [values[0], values[min(9, len(values) - 1)], values[-1]]
        print(f"  {name:<18} " + " ".join(f"{v - full:>12.6g}" for v in shown) + f" {run['seconds']:>9.2f}")
    print(f"  the best ADMM ends {found['excess_of_the_best_admm_over_ours']:.3f} times as far above it as offdiag")
    print("  Eq. 10 with 2Λ + ω, which the ADMM's updates belong to:")
    for run in found["published"]:
        print(
            f"    omega {run['omega']:g}: ADMM {run['with_doubled_penalty']:.8g}, "
            f"offdiag with that penalty {run['ours_with_doubled_penalty']:.8g}"
        )


def climb(score: Callable[[float, float], float], dropout: float, l2: float) -> tuple[float, float]:
    """The best (dropout, l2) by hill climbing; neighbours have the next dropout of the list, or three times the l2."""
    seen: dict[tuple[int, int], float] = {}

    def value(at: tuple[int, int]) -> float:
        if at not in seen:
            seen[at] = score(DROPOUTS[at[0]], l2 * 3.0 ** at[1])
        return seen[at]

    at = (min(range(len(DROPOUTS)), key=lambda n: abs(DROPOUTS[n] - dropout)), 0)
    while True:
        near = [(at[0] + step, at[1]) for step in (-1, 1) if 0 <= at[0] + step < len(DROPOUTS)]
        near += [(at[0], at[1] + step) for step in (-1, 1)]
        best = max(near, key=value)
        if value(best) <= value(at):
            return DROPOUTS[at[0]], l2 * 3.0 ** at[1]
        at = best


def validated(split: Any, model: Any, dropout: float, l2: float) -> tuple[float, float]:
    """The dropout and l2 near the given ones that are best on the validation users."""

    def score(dropout: float, l2: float) -> float:
        fitted = replace(model, dropout=dropout, l2=l2).fit(split.train)
        return od.evaluate(fitted, split.validation, ["ndcg@100"]).mean["ndcg@100"]

    return climb(score, dropout, l2)


def tuned(split: Any) -> Callable[[str, int, Any], Any]:
    """Choose dropout and l2 of each model at each rank, starting from those of the rank below."""
    last: dict[str, tuple[float, float]] = {}

    def choose(name: str, rank: int, model: Any) -> Any:
        last[name] = validated(split, model, *last.get(name, (model.dropout, model.l2)))
        sys.stderr.write(f"    dropout {last[name][0]:g}, l2 {last[name][1]:.4g}\n")
        return replace(model, dropout=last[name][0], l2=last[name][1])

    return choose


def figure1(inter: Any, name: str, options: argparse.Namespace) -> Any:
    """Figure 1 as `offdiag reproduce steck2020 figure1` makes it, with the panels as SVG files."""
    dropout, l2 = _or(options.dropout, "auto"), _or(options.l2, "auto")
    if options.tune:
        split = od.split.strong(inter, held_out=HELD_OUT, seed=options.seed)
        full = od.EDLAE(dropout=dropout, l2=l2, user_power=0.0)
        start = full.fit(split.train).settings_
        dropout, l2 = validated(split, full, start["dropout"], start["l2"])
    figure = steck2020.run(
        inter,
        name,
        ranks=steck2020.parse_ranks(options.ranks),
        rank=options.histograms,
        dropout=dropout,
        l2=l2,
        held_out=HELD_OUT,
        metric="ndcg@100",
        seed=options.seed,
        work=Lines(),  # type: ignore[arg-type]
        choose=tuned if options.tune else None,
    )
    for file, drawing in figure1_page.drawings(figure).items():
        drawing.save(options.out / f"{file}.svg")
    show_figure1(figure, [])
    return figure1_page.as_json(figure)


def _or(given: float | None, otherwise: Any) -> Any:
    return otherwise if given is None else given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["admm", "figure1", []], help="default: both")
    parser.add_argument("--data", help="a table of interactions; default: invented")
    parser.add_argument("--format", help="adjacency, counted, csv, …: see od.read")
    parser.add_argument("--name", help="what to call the data in the results")
    parser.add_argument("--rank", type=int, default=50, help="of the comparison with the ADMM")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--ranks", help="of Figure 1, divided by commas")
    parser.add_argument("--histograms", type=int, metavar="RANK", help="of Figure 1; default: the largest rank")
    parser.add_argument("--tune", action="store_true", help="Figure 1: settings of each model and rank by validation")
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--l2", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("steck2020"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    what = options.what or ["admm", "figure1"]
    inter = od.synthetic.interactions(4000, 750, 120_000, seed=options.seed, names=False)
    name = "a synthetic catalogue"
    if options.data:
        inter, name = od.read(options.data, format=options.format), options.name or Path(options.data).name
    if "admm" in what:
        dropout, l2 = _or(options.dropout, 0.33), _or(options.l2, 30.0)
        found = compare_admm(
            inter, name, rank=options.rank, dropout=dropout, l2=l2, iterations=options.iterations, seed=options.seed
        )
        show_admm(found)
        (options.out / "admm.json").write_text(json.dumps(plain(found), indent=2) + "\n")
    if "figure1" in what:
        drawn = figure1(inter, name, options)
        (options.out / "figure1.json").write_text(json.dumps(plain(drawn), indent=2) + "\n")


if __name__ == "__main__":
    main()
