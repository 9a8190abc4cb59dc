"""LensKit: a scorer in a pipeline, asked user by user, with the history as a query."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, padded, triples


def _fit(module: str, name: str) -> Any:
    def fit(X: Any, s: Settings) -> Fitted:
        import importlib

        import pandas as pd
        from lenskit.data import ItemList, RecQuery, from_interactions_df
        from lenskit.pipeline import topn_pipeline

        users, items, _ = triples(X)
        data = from_interactions_df(pd.DataFrame({"user_id": users, "item_id": items}))
        scorer = getattr(importlib.import_module(module), name)(**s)
        pipeline = topn_pipeline(scorer)
        pipeline.train(data)
        scorer = pipeline.component("scorer")
        known = np.unique(items)  # a query with an item that was not in the fit is an error

        def recommend(histories: Any, users: Any, k: int) -> Any:
            lists = []
            for low, high in zip(histories.indptr[:-1], histories.indptr[1:], strict=True):
                history = np.intersect1d(histories.indices[low:high], known)
                query = RecQuery(user_items=ItemList(item_ids=history))
                lists.append(pipeline.run("recommender", query=query, n=k).ids())
            return padded(lists, k)

        if name != "EASEScorer":
            return Fitted(recommend, (scorer.item_embeddings,))

        def weights() -> Any:
            order = np.asarray(scorer.items.ids(), dtype=np.int64)
            B = np.zeros((X.shape[1], X.shape[1]), dtype=np.float32)
            B[np.ix_(order, order)] = scorer.weights
            return B

        return Fitted(recommend, (scorer.weights,), weights)

    return fit


MODELS = {
    "LensKit EASE": Model(
        "lenskit", "EASE", _fit("lenskit.knn.ease", "EASEScorer"), {"regularization": Between(3.0, 3000.0)},
        usual={"regularization": 1.0}, solves=("regularization", None),
    ),
    "LensKit ImplicitMF": Model(
        "lenskit", "ImplicitMF", _fit("lenskit.als", "ImplicitMFScorer"),
        {"embedding_size": Between(32, 256), "regularization": Between(0.03, 30.0), "weight": Between(0.5, 40.0)},
        {"epochs": 15, "user_embeddings": False},
        usual={"embedding_size": 50, "regularization": 0.1, "weight": 40.0},
    ),
}  # fmt: skip
