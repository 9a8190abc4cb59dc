"""The published ADMM for Eq. 10 of [Steck20] compared with our solver.

    python benchmarks/steck2020.py                 # on synthetic data, a minute
    python benchmarks/steck2020.py --rank 20 --data train.txt --format adjacency --name "ML-1M"

Results go to the folder given by --out (default: steck2020), as JSON. Data is read from the given path, never copied.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from peers import admm

import offdiag as od
from offdiag.wording import plain

OMEGAS = (1.0, 10.0, 100.0, 1000.0)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a table of interactions; default: invented")
    parser.add_argument("--format", help="adjacency, counted, csv, …: see od.read")
    parser.add_argument("--name", help="what to call the data in the results")
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--dropout", type=float, default=0.33)
    parser.add_argument("--l2", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("steck2020"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    inter = od.synthetic.interactions(4000, 750, 120_000, seed=options.seed, names=False)
    name = "a synthetic catalogue"
    if options.data:
        inter, name = od.read(options.data, format=options.format), options.name or Path(options.data).name
    words = {key: getattr(options, key) for key in ("rank", "dropout", "l2", "iterations", "seed")}
    found = compare_admm(inter, name, **words)
    show_admm(found)
    (options.out / "admm.json").write_text(json.dumps(plain(found), indent=2) + "\n")


if __name__ == "__main__":
    main()
