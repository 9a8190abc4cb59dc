"""RecBole: its data set, sampler, trainer and full-sort scores; the users are those of its data set."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, by_scores, triples


def _fit(name: str) -> Any:
    def fit(X: Any, s: Settings) -> Fitted:
        import torch
        from recbole.config import Config
        from recbole.data import create_dataset, data_preparation
        from recbole.utils import get_model, get_trainer, init_seed

        torch.set_num_threads(2)
        with tempfile.TemporaryDirectory() as folder:
            config = Config(model=name, dataset="pairs", config_dict=_config(folder, s))
            _write(Path(folder) / "pairs" / "pairs.inter", X)
            init_seed(config["seed"], config["reproducibility"])
            data = create_dataset(config)
            train, *_ = data_preparation(config, data)
            model = get_model(name)(config, train.dataset)
            trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
            trainer.fit(train, None, saved=False, show_progress=False, verbose=False)
        model.eval()
        items = np.array([int(token) for token in data.field2id_token["item"][1:]])  # number 0 pads
        users = data.token2id("user", [str(user) for user in range(X.shape[0])])

        def score(histories: Any, asked: Any) -> Any:
            with torch.no_grad():
                found = model.full_sort_predict({"user": torch.as_tensor(users[asked])}).reshape(len(asked), -1)
            out = np.full((len(asked), X.shape[1]), -np.inf, dtype=np.float32)
            out[:, items] = found.numpy()[:, 1:]
            return out

        return Fitted(by_scores(score), tuple(value.detach().numpy() for value in model.parameters()))

    return fit


def _write(path: Path, X: Any) -> None:
    users, items, _ = triples(X)
    path.parent.mkdir()
    with path.open("w") as file:
        file.write("user:token\titem:token\n")
        np.savetxt(file, np.stack([users, items], 1), fmt="%d", delimiter="\t")


def _config(folder: str, s: Settings) -> dict[str, Any]:
    return {
        "data_path": folder, "USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item", "load_col": {"inter": ["user", "item"]},
        "eval_args": {"split": {"RS": [1.0, 0.0, 0.0]}, "order": "RO", "group_by": "user", "mode": "full"},
        "use_gpu": False, "show_progress": False, "state": "ERROR", "checkpoint_dir": folder, "seed": 0,
        "train_batch_size": 4096, "metrics": ["NDCG"], "valid_metric": "NDCG@10",
    } | s  # fmt: skip


RATE = Between(0.001, 0.02)
MODELS = {
    "RecBole LightGCN": Model(
        "recbole", "LightGCN", _fit("LightGCN"),
        {"learning_rate": RATE, "n_layers": Between(1, 3), "reg_weight": Between(1e-5, 1e-2)},
        {"embedding_size": 64, "epochs": 10},
        usual={"learning_rate": 0.001, "n_layers": 2, "reg_weight": 1e-5}, new_users=False,
        note="10 epochs, which take about a minute of a processor on lastfm; its default is 300.",
    ),
    "RecBole SimpleX": Model(
        "recbole", "SimpleX", _fit("SimpleX"),
        {"learning_rate": RATE, "margin": Between(0.0, 0.9, linear=True), "negative_weight": Between(5, 100)},
        {"embedding_size": 64, "epochs": 10, "train_neg_sample_args": {
            "distribution": "uniform", "sample_num": 50, "alpha": 1.0, "dynamic": False, "candidate_num": 0}},
        usual={"learning_rate": 0.001, "margin": 0.5, "negative_weight": 10}, new_users=False,
        note="10 epochs of 50 negatives; its default is 300 epochs.",
    ),
}  # fmt: skip
