"""RecTools: tables in, tables out; its EASE recommends only to users of its data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, padded, triples


def ease(X: Any, s: Settings) -> Fitted:
    import pandas as pd
    from rectools.dataset import Dataset
    from rectools.models import EASEModel

    users, items, values = triples(X)
    table = pd.DataFrame({"user_id": users, "item_id": items, "weight": values, "datetime": "2020-01-01"})
    data = Dataset.construct(table)
    model = EASEModel(**s, recommend_n_threads=2).fit(data)
    items_known = data.item_id_map.external_ids.astype(np.int64)

    def recommend(histories: Any, users: Any, k: int) -> Any:
        lists = model.recommend(users, dataset=data, k=k, filter_viewed=True)
        found = {user: rows.to_numpy() for user, rows in lists.groupby("user_id", sort=False)["item_id"]}
        return padded([found.get(user, ()) for user in users], k)

    def weights() -> Any:
        B = np.zeros((X.shape[1], X.shape[1]), dtype=model.weight.dtype)
        B[np.ix_(items_known, items_known)] = model.weight.T  # its ranker multiplies with the rows
        return B

    return Fitted(recommend, (model.weight,), weights)


MODELS = {
    "RecTools EASE": Model(
        "rectools", "EASE", ease, {"regularization": Between(3.0, 3000.0)}, usual={"regularization": 500.0},
        new_users=False, solves=("regularization", None),
    )
}  # fmt: skip
