"""Our own models, through the same runner."""

from __future__ import annotations

from typing import Any

from peers.adapter import Between, Fitted, Model, Settings


def _fit(name: str) -> Any:
    def fit(X: Any, s: Settings) -> Fitted:
        import offdiag as od

        model = getattr(od, name)(**s).fit(X)
        dense = name in ("EASE", "EDLAE")
        return Fitted(
            lambda histories, users, k: model.recommend(histories, k=k).indices,
            tuple(value for value in vars(model.weights_).values() if hasattr(value, "nbytes")),
            model.weights_.toarray if dense else None,
            {name: value for name, value in model.settings_.items() if name in SEARCHED},
        )

    return fit


L2, DROPOUT, POWER = Between(3.0, 3000.0), Between(0.0, 0.9, linear=True), Between(0.0, 1.0, linear=True)
WITHOUT = {"user_power": 0.0}  # the formula of the peers
SEARCHED = ("l2", "dropout", "user_power", "max_diagonal", "neighbours")
MODELS = {
    "offdiag EASE": Model("offdiag", "EASE", _fit("EASE"), {"l2": L2}, WITHOUT, solves=("l2", None)),
    "offdiag EDLAE": Model(
        "offdiag", "EDLAE", _fit("EDLAE"), {"l2": L2, "dropout": DROPOUT}, WITHOUT, solves=("l2", "dropout"),
    ),
    "offdiag EDLAE, users weighted": Model(
        "offdiag", "EDLAE", _fit("EDLAE"), {"l2": L2, "dropout": DROPOUT, "user_power": POWER},
        note="Long histories count for less, which no peer offers.",
    ),
    "offdiag RDLAE": Model(
        "offdiag", "RDLAE", _fit("RDLAE"),
        {"l2": L2, "dropout": DROPOUT, "max_diagonal": Between(0.01, 0.9), "user_power": POWER},
    ),
    "offdiag SparseEDLAE": Model(
        "offdiag", "SparseEDLAE", _fit("SparseEDLAE"), {"l2": L2, "dropout": DROPOUT, "user_power": POWER},
    ),
}  # fmt: skip
