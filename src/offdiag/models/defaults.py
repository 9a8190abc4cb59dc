"""What "auto" means: settings chosen from the training data alone."""

from typing import Any

from scipy import sparse

from offdiag.gramian import Gram
from offdiag.progress import Progress


def from_data(
    matrix: sparse.csr_array, settings: dict[str, Any], *, progress: Progress | None = None
) -> dict[str, Any]:
    return {k: (dict(dropout=0.5, l2=50.0, user_power=0.0)[k] if v == "auto" else v) for k, v in settings.items()}


def from_gram(G: Gram, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        k: (dict(dropout=0.5, l2=50.0, user_power=G.user_power)[k] if v == "auto" else v) for k, v in settings.items()
    }
