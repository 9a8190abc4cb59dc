"""irspack: fitted models score new users with `get_score_cold_user`."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, by_scores


def _linear(name: str) -> Any:
    def fit(X: Any, s: Settings) -> Fitted:
        import irspack.recommenders as irspack

        threads = {"n_threads": 2} if name == "SLIMRecommender" else {}
        model = getattr(irspack, name)(X.astype(np.float64), **s, **threads).learn()
        W = model.W
        arrays = (W.data, W.indices, W.indptr) if hasattr(W, "indptr") else (W,)
        recommend = by_scores(lambda histories, users: model.get_score_cold_user(histories.astype(np.float64)))
        return Fitted(recommend, arrays, None if hasattr(W, "indptr") else lambda: np.asarray(W))

    return fit


def ials(X: Any, s: Settings) -> Fitted:
    from irspack.recommenders.ials import IALSRecommender

    model = IALSRecommender(X.astype(np.float64), solver_type="IALSPP", n_threads=2, **s).learn()
    recommend = by_scores(lambda histories, users: model.get_score_cold_user(histories.astype(np.float64)))
    return Fitted(recommend, (model.get_item_embedding(),))


L2 = Between(3.0, 3000.0)
MODELS = {
    "irspack EASE": Model(
        "irspack", "DenseSLIM", _linear("DenseSLIMRecommender"), {"reg": L2}, usual={"reg": 1.0}, solves=("reg", None)
    ),
    "irspack EDLAE": Model(
        "irspack", "EDLAE", _linear("EDLAERecommender"), {"reg": L2, "dropout_p": Between(0.0, 0.9, linear=True)},
        usual={"reg": 1.0, "dropout_p": 0.1}, solves=("reg", "dropout_p"),
    ),
    "irspack SLIM": Model(
        "irspack", "SLIM", _linear("SLIMRecommender"), {"alpha": Between(0.003, 0.3), "l1_ratio": Between(0.003, 0.3)},
        usual={"alpha": 0.05, "l1_ratio": 0.01},
    ),
    "irspack iALS": Model(
        "irspack", "iALS++", ials,
        {"n_components": Between(32, 256), "alpha0": Between(0.03, 1.0), "reg": Between(0.0003, 0.03)},
        {"train_epochs": 16}, usual={"n_components": 20, "alpha0": 1.0, "reg": 0.001},
    ),
}  # fmt: skip
