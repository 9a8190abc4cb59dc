"""implicit: its own `recommend`, compiled and threaded, with histories as arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings


def als(X: Any, s: Settings) -> Fitted:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(**s, random_state=0, use_gpu=False, num_threads=2)
    model.fit(X.astype(np.float32), show_progress=False)

    def recommend(histories: Any, users: Any, k: int) -> Any:
        histories = histories.astype(np.float32)
        rows = np.arange(histories.shape[0])
        return model.recommend(rows, histories, N=k, filter_already_liked_items=True, recalculate_user=True)[0]

    return Fitted(recommend, (model.item_factors,))


def bpr(X: Any, s: Settings) -> Fitted:
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(**s, random_state=0, use_gpu=False, num_threads=2)
    model.fit(X.astype(np.float32), show_progress=False)

    def recommend(histories: Any, users: Any, k: int) -> Any:
        return model.recommend(users, histories.astype(np.float32), N=k, filter_already_liked_items=True)[0]

    return Fitted(recommend, (model.item_factors, model.user_factors))


MODELS = {
    "implicit ALS": Model(
        "implicit", "ALS", als,
        {"factors": Between(32, 256), "regularization": Between(0.1, 100.0), "alpha": Between(0.5, 40.0)},
        {"iterations": 15}, usual={"factors": 100, "regularization": 0.01, "alpha": 1.0},
    ),
    "implicit BPR": Model(
        "implicit", "BPR", bpr,
        {
            "factors": Between(32, 256), "learning_rate": Between(0.01, 0.2), "regularization": Between(0.001, 0.1),
            "iterations": Between(50, 300),
        },
        usual={"factors": 100, "learning_rate": 0.01, "regularization": 0.01, "iterations": 100}, new_users=False,
    ),
}  # fmt: skip
