"""recpack: `predict` gives a sparse matrix of scores for any histories."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, by_scores


def _fit(name: str) -> Any:
    def fit(X: Any, s: Settings) -> Fitted:
        from recpack import algorithms

        model = getattr(algorithms, name)(**s)
        model.fit(X.astype(np.float32))
        W = model.similarity_matrix_

        def score(histories: Any, users: Any) -> Any:
            scores = model.predict(histories.astype(np.float32))
            return scores.toarray() if hasattr(scores, "toarray") else scores

        dense = name == "EASE"
        arrays = (W.data, W.indices, W.indptr) if hasattr(W, "indptr") else (W,)
        weights = lambda: W.toarray() if hasattr(W, "toarray") else np.asarray(W)  # noqa: E731
        return Fitted(by_scores(score), arrays, weights if dense else None)

    return fit


MODELS = {
    "recpack EASE": Model(
        "recpack", "EASE", _fit("EASE"), {"l2": Between(3.0, 3000.0)}, usual={"l2": 1000.0}, solves=("l2", None)
    ),
    "recpack ItemKNN": Model("recpack", "ItemKNN", _fit("ItemKNN"), {"K": Between(20, 1000)}, usual={"K": 200}),
}
