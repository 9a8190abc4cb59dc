"""Is the baseline SASRec fair? It against what other implementations report for its settings, on MovieLens-1M.

Published figures rank the last film of each user among 100 that were drawn at random from those the user never rated
[Kang18]; so here, too. Films with fewer than five ratings are not drawn: there they were dropped. Training stops by
validation users. It is the row "SASRec, dropout 0.2" of benchmarks/sequences.py, and continues from its checkpoint.
Writes results/sasrec.json and the table of docs/baselines.md.

    python benchmarks/sasrec.py FOLDER [--checkpoint ml-1m-SASRec-dropout-0.2.ckpt] [--as-it-is]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import documents
import numpy as np
from measure import machine
from numpy.typing import NDArray
from run import say
from sequence_sets import films
from sequences import Epochs, timed

import offdiag as od
from offdiag.files import checkpoints

RESULTS = Path(__file__).parent / "results" / "sasrec.json"
SETTINGS: dict[str, Any] = {"dropout": 0.2, "length": 50}  # the others are the defaults
REPORTED = {  # by others, on the same films and the same split
    "FreeRec": {"width": 64, "length": 50, "hit@10": 0.7934, "ndcg@10": 0.5530},
    "FreeRec, length 200": {"width": 64, "length": 200, "hit@10": 0.8194, "ndcg@10": 0.5877},
    "SASRec.pytorch, length 200, norm first": {"width": 50, "length": 200, "hit@10": 0.8252, "ndcg@10": 0.5940},
    "the paper, length 200": {"width": 50, "length": 200, "hit@10": 0.8245, "ndcg@10": 0.5905},
}
DRAWN, K = 100, 10
FEWEST = 5  # ratings of a film that is drawn


def ranks_among(scores: NDArray[Any], part: od.split.HeldOut, drawn: int = DRAWN, seed: int = 0) -> NDArray[np.int64]:
    """The rank of each user's target, from 1, among as many other items that the user has not chosen."""
    rng = np.random.default_rng(seed)
    known = (part.histories + part.targets).toarray() > 0
    known |= known.sum(axis=0) < FEWEST
    found = []
    for row, target, own in zip(scores, part.targets.indices.tolist(), known, strict=True):
        others = rng.choice(np.flatnonzero(~own), drawn, replace=False)
        found.append(1 + int((row[others] >= row[target]).sum()))  # last among its equals
    return np.array(found)


def summary(values: NDArray[np.floating]) -> dict[str, float]:
    return {"mean": float(values.mean()), "sem": float(values.std(ddof=1) / np.sqrt(len(values)))}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--checkpoint", type=Path, default=Path("ml-1m-SASRec-dropout-0.2.ckpt"))
    asked.add_argument("--results", type=Path, default=RESULTS)
    asked.add_argument("--as-it-is", action="store_true", help="no more epochs: the best of those in the checkpoint")
    given = asked.parse_args()
    split = films(given.folder / "ml-1m").split
    epochs, net = Epochs(given.checkpoint), od.SASRec(**SETTINGS)
    if given.as_it_is:
        net.epochs = checkpoints.read(given.checkpoint)[0]["epoch"]

    def watch(stage: str, done: float) -> None:
        epochs.add()

    words = {"validation": split.validation, "checkpoint": given.checkpoint, "progress": watch}
    model, cost = timed(lambda: net.fit(split.train, **words))
    cost |= epochs.cost(model.epochs_, model.best_epoch_) if epochs.whole else {"resumed": True}
    ranks = ranks_among(model.predict(split.test.ordered), split.test)
    ours = {"hit@10": summary((ranks <= K) * 1.0), "ndcg@10": summary((ranks <= K) / np.log2(ranks + 1))}
    report = {
        "users": split.train.n_users, "items": split.train.n_items, "drawn": DRAWN, "settings": model.settings_,
        "epochs": model.epochs_, "best_epoch": model.best_epoch_, "stopped": given.as_it_is, "fit": cost, "ours": ours,
        "reported": REPORTED,
        "machine": machine(),
    }  # fmt: skip
    given.results.write_text(json.dumps(report, indent=1) + "\n")
    say(f"SASRec: {ours}")
    if given.results == RESULTS:
        documents.renew("sasrec")


if __name__ == "__main__":
    main()
