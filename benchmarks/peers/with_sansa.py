"""SANSA: an approximate sparse EASE for catalogues that are too large for a dense one."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.adapter import Between, Fitted, Model, Settings, by_scores


def sansa(X: Any, s: Settings) -> Fitted:
    from sansa import SANSA, ICFGramianFactorizerConfig, SANSAConfig, UMRUnitLowerTriangleInverterConfig

    config = SANSAConfig(
        l2=s["l2"], weight_matrix_density=s["density"], gramian_factorizer_config=ICFGramianFactorizerConfig(),
        lower_triangle_inverter_config=UMRUnitLowerTriangleInverterConfig(),
    )  # fmt: skip
    model = SANSA(config)
    model.fit(X.astype(np.float32))
    parts = [part for W in model.weights for part in (W.data, W.indices, W.indptr)]
    return Fitted(by_scores(lambda histories, users: model.forward(histories.astype(np.float32)).toarray()), (*parts,))


MODELS = {
    "SANSA": Model(
        "sansa", "SANSA", sansa, {"l2": Between(3.0, 3000.0), "density": Between(0.001, 0.1)},
        usual={"l2": 100.0, "density": 0.01}, note="It has no default settings: the first trial is ours.",
    )
}  # fmt: skip
