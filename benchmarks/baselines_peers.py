"""The reference implementations of ``baselines.py``, each in a separate process; does not need offdiag.

    python baselines_peers.py NAME ARRAYS.npz SETTINGS.json OUT.npz

ARRAYS holds the train rows and the histories and targets of validation and test as CSR parts. OUT receives, for
the test users, the 100 best items that are not in their history (best first), and facts about the run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from peers import with_implicit, with_irspack
from peers.adapter import Model, best
from peers.worker import matrix

K = 100
Arrays = dict[str, Any]


def slim(data: Arrays, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return lists(with_irspack.MODELS["irspack SLIM"], data, s, f"irspack {version('irspack')} SLIM")


def ials(data: Arrays, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """alpha0 weights all pairs where our alpha weights the observed ones: the same loss divided by alpha."""
    theirs = {"n_components": s["rank"], "alpha0": 1 / s["alpha"], "reg": s["l2"], "nu": s["l2_power"]}
    theirs |= {"train_epochs": s["iterations"]}
    return lists(with_irspack.MODELS["irspack iALS"], data, theirs, f"irspack {version('irspack')} IALS")


def implicit_als(data: Arrays, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Its loss has one penalty for all users, so it has its own settings, tuned on the same validation users."""
    theirs = {"factors": s["rank"], "regularization": s["l2"], "alpha": s["alpha"], "iterations": s["iterations"]}
    return lists(with_implicit.MODELS["implicit ALS"], data, theirs, f"implicit {version('implicit')} ALS")


def lists(model: Model, data: Arrays, settings: dict[str, Any], name: str) -> tuple[Any, dict[str, Any]]:
    histories = data["test_histories"]
    return model.fit(data["train"], settings).recommend(histories, np.arange(histories.shape[0]), K), {"name": name}


def net(kind: str, data: Arrays, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A net of RecBole with its own loss and forward pass, and our optimiser, batches and early stopping."""
    import torch
    from recbole.model import general_recommender

    torch.manual_seed(s["seed"])
    train = data["train"].astype(np.float32)
    model: Any = getattr(general_recommender, kind)(_config(kind, train, s), _Sizes(*train.shape))
    model.get_rating_matrix = lambda users: torch.from_numpy(train[users.numpy()].toarray())
    optimiser = torch.optim.Adam(model.parameters(), lr=s["learning_rate"], weight_decay=2 * s["l2"])

    def scores(histories: Any) -> Any:
        model.eval()
        with torch.no_grad():
            x = torch.from_numpy(histories.toarray().astype(np.float32))
            if kind == "CDAE":  # users outside the training data get the mean vector
                hidden = model.h_act(model.h_item(x) + model.h_user.weight.mean(0))
                return model.out_layer(hidden).numpy()
            found = model.forward(x)
            return (found[0] if isinstance(found, tuple) else found).numpy()

    rng, kept, values = np.random.default_rng(s["seed"]), None, []
    state: dict[str, Any] = {}
    for epoch in range(s["epochs"]):
        model.train()
        order = rng.permutation(train.shape[0])
        for lo in range(0, len(order), s["batch_users"]):
            optimiser.zero_grad()
            model.calculate_loss({"user": torch.from_numpy(order[lo : lo + s["batch_users"]])}).backward()
            optimiser.step()
        values.append(
            ndcg(scores(data["validation_histories"]), data["validation_histories"], data["validation_targets"])
        )
        if kept is None or values[-1] > values[kept]:
            kept, state = epoch, {name: tensor.clone() for name, tensor in model.state_dict().items()}
        elif epoch - kept >= s["patience"]:
            break
    model.load_state_dict(state)
    facts = {"name": f"RecBole {version('recbole')} {kind}", "epochs": len(values), "validation": max(values)}
    return best(scores(data["test_histories"]), data["test_histories"], K), facts


class _Sizes:
    """All that RecBole's nets need from a data set here."""

    def __init__(self, users: int, items: int) -> None:
        self.sizes = {"user": users, "item": items}

    def num(self, field: str) -> int:
        return self.sizes[field]

    def history_item_matrix(self) -> tuple[Any, Any, Any]:
        import torch

        return torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1), torch.zeros(1)


def _config(kind: str, train: Any, s: dict[str, Any]) -> dict[str, Any]:
    common = {"USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item", "NEG_PREFIX": "neg_", "device": "cpu"}
    if kind == "CDAE":
        return common | {
            "reg_weight_1": 0.0, "reg_weight_2": 0.0, "loss_type": {"logistic": "BCE", "squared": "MSE"}[s["loss"]],
            "hid_activation": s["activation"], "out_activation": "sigmoid", "embedding_size": s["width"],
            "corruption_ratio": s["dropout"],
        }  # fmt: skip
    hidden = {"mlp_hidden_size": [s["width"]] * s["depth"], "dropout_prob": s["dropout"]}
    if kind == "MultiDAE":
        return common | hidden | {"latent_dimension": s["rank"]}
    steps = s["anneal_epochs"] * -(-train.shape[0] // s["batch_users"])
    return common | hidden | {
        "latent_dimension": 2 * s["rank"], "anneal_cap": s["beta"],
        "total_anneal_steps": steps / s["beta"] if s["beta"] else 0,  # RecBole's steps lead to 1, ours to the cap
    }  # fmt: skip


def ndcg(scores: Any, histories: Any, targets: Any) -> float:
    discounts = 1 / np.log2(np.arange(2, K + 2))
    wanted = targets.toarray() > 0
    hits = np.take_along_axis(wanted, best(scores, histories, K), 1)
    ideal = np.array([discounts[: min(n, K)].sum() for n in wanted.sum(1)])
    return float(np.mean((hits @ discounts)[ideal > 0] / ideal[ideal > 0]))


PEERS: dict[str, Callable[[Arrays, dict[str, Any]], tuple[Any, dict[str, Any]]]] = {
    "SLIM": slim,
    "WMF": ials,
    "WMF, implicit": implicit_als,
    "MultVAE": lambda data, s: net("MultiVAE", data, s),
    "MultDAE": lambda data, s: net("MultiDAE", data, s),
    "CDAE": lambda data, s: net("CDAE", data, s),
}


def read(path: str) -> Arrays:
    with np.load(path) as parts:
        names = {name.rpartition(".")[0] for name in parts}
        return {name: matrix(parts, name) for name in names}


def main() -> None:
    name, arrays, settings, out = sys.argv[1:]
    data = read(arrays)
    with open(settings) as file:
        given = json.load(file)
    start = time.perf_counter()
    items, facts = PEERS[name](data, given)
    facts["seconds"] = time.perf_counter() - start
    np.savez(out, items=items, facts=np.array(json.dumps(facts)))


if __name__ == "__main__":
    main()
