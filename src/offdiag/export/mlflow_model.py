"""A model for MLflow: logged and loaded as a pyfunc, with lists of ids in and ranked lists out."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag import checks
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import pandas as pd

    from offdiag.models.recommender import Recommender

_FILE = "model.od"


def save_mlflow(model: Recommender, path: str | os.PathLike[str], **words: Any) -> None:
    """Save a fitted model as a folder that ``mlflow.pyfunc.load_model`` reads; ``words`` go to MLflow's save_model.

    ``predict`` takes a data frame with a column ``history`` (a list of item ids per row) and returns the columns
    ``items`` and ``scores`` (lists); ``params={"k": 20}`` sets the length. To log it in a run, save it and use
    ``mlflow.log_artifacts``, or pass ``loader_module="offdiag.export.mlflow_model"`` to ``mlflow.pyfunc.log_model``.

    Needs the package mlflow or mlflow-skinny (``pip install 'offdiag[mlflow]'``).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.export.save_mlflow(od.EASE(l2=10.0).fit(X), "mlflow-model")
    """
    if Path(path).exists():
        raise OffdiagError(f"expected a new folder, received {str(path)!r}, which exists; choose another name")
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # MLflow warns about its own type hints
        model.save(Path(folder, _FILE))
        try:
            _save(model, Path(folder, _FILE), os.fspath(path), words)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # no half-written folder
            raise


def _save(model: Recommender, file: Path, path: str, words: dict[str, Any]) -> None:
    try:
        import mlflow.pyfunc
        from mlflow.models import ModelSignature
        from mlflow.types import ParamSchema, ParamSpec, Schema
        from mlflow.types.schema import Array, ColSpec, DataType
    except ImportError:
        raise OffdiagError("save_mlflow needs mlflow, which is not installed; pip install 'offdiag[mlflow]'") from None
    import offdiag

    ids = DataType.string if model.item_ids_.dtype.kind == "U" else DataType.long
    signature = ModelSignature(
        inputs=Schema([ColSpec(Array(ids), "history")]),
        outputs=Schema([ColSpec(Array(ids), "items"), ColSpec(Array(DataType.double), "scores")]),
        params=ParamSchema([ParamSpec("k", DataType.long, 10)]),
    )
    given: dict[str, Any] = {
        "loader_module": __name__,
        "data_path": str(file),
        "signature": signature,
        "pip_requirements": [f"offdiag=={offdiag.__version__}", "pandas"],
    }
    mlflow.pyfunc.save_model(path, **given | words)


class Served:
    """What MLflow calls: a loaded model behind ``predict``.

    Example:
        >>> import offdiag as od
        >>> import pandas as pd
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> served = od.export.mlflow_model.Served(od.EASE(l2=10.0).fit(X))
        >>> served.predict(pd.DataFrame({"history": [X.item_ids[:3].tolist()]}), {"k": 2})["items"].str.len().tolist()
        [2]
    """

    def __init__(self, model: Recommender) -> None:
        self.model = model

    def predict(self, data: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Ranked items and scores for each row's history."""
        import pandas as pd

        if "history" not in data:
            raise OffdiagError(f"expected a column history, received {', '.join(map(str, data.columns))}; rename it")
        k = checks.whole("k", (params or {}).get("k", 10), 1)
        lists = list(self.model.recommend([list(history) for history in data["history"]], k=k))
        items, scores = ([[pair[at] for pair in row] for row in lists] for at in (0, 1))
        return pd.DataFrame({"items": items, "scores": scores}, index=data.index)


def _load_pyfunc(path: str) -> Served:  # the name that MLflow looks for in a loader module
    import offdiag as od

    file = Path(path)
    return Served(od.load(file / _FILE if file.is_dir() else file))
