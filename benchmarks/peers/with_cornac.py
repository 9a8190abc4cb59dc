"""cornac: knows only the users of its data set; one call per user."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, best


def _fit(name: str) -> Any:
    def fit(X: Any, s: Settings) -> Fitted:
        from cornac import data, models

        # Every user and item has its number here: a matrix of pairs would be renumbered in order of appearance.
        coo = X.tocoo()
        known = {n: n for n in range(X.shape[0])}, {n: n for n in range(X.shape[1])}
        values = (coo.row.astype(np.int64), coo.col.astype(np.int64), coo.data.astype(np.float32))
        model = getattr(models, name)(**s, verbose=False)
        model.fit(data.Dataset(X.shape[0], X.shape[1], *known, values, seed=0))

        def recommend(histories: Any, users: Any, k: int) -> Any:
            scores = (np.asarray(model.score(int(user))).reshape(1, -1) for user in users)
            return np.vstack([best(row, histories[[n]], k) for n, row in enumerate(scores)])

        if name == "EASE":
            return Fitted(recommend, (model.B,), lambda: model.B)
        return Fitted(recommend, (model.u_factors, model.i_factors, model.i_biases))

    return fit


MODELS = {
    "cornac EASE": Model(
        "cornac", "EASE", _fit("EASE"), {"lamb": Between(3.0, 3000.0)}, {"posB": False}, usual={"lamb": 500.0},
        new_users=False, solves=("lamb", None), note="With its default posB=True, negative weights are set to 0.",
    ),
    "cornac BPR": Model(
        "cornac", "BPR", _fit("BPR"),
        {
            "k": Between(10, 200), "max_iter": Between(50, 300), "learning_rate": Between(0.003, 0.1),
            "lambda_reg": Between(0.0005, 0.05),
        },
        {"seed": 0}, usual={"k": 10, "max_iter": 100, "learning_rate": 0.001, "lambda_reg": 0.01}, new_users=False,
    ),
}  # fmt: skip
