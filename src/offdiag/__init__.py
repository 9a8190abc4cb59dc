"""Recommendation with linear autoencoders that cannot learn the identity: item i is predicted from the others only.

Names load on first use, so ``import offdiag`` costs nothing. Editors and mypy read ``__init__.pyi``, which is generated
from the tables here and in ``offdiag.model_list`` by docs/make_api.py.
"""

from importlib import import_module
from typing import Any

from offdiag.model_list import MODELS

__version__ = "0.1.0"

_HOMES = {name: entry.module for name, entry in MODELS.items()} | {
    "Autopilot": "offdiag.autopilot",
    "Catalogue": "offdiag.data.catalogue",
    "Features": "offdiag.data.features",
    "FeaturesWarning": "offdiag.errors",
    "FutureLeakWarning": "offdiag.errors",
    "Gram": "offdiag.gramian.packed",
    "Interactions": "offdiag.data.interactions",
    "InterruptedFitWarning": "offdiag.errors",
    "NoMinimiserWarning": "offdiag.errors",
    "NotEnoughMemory": "offdiag.errors",
    "NotFittedError": "offdiag.errors",
    "OffdiagError": "offdiag.errors",
    "OverTime": "offdiag.over_time",
    "Recommendations": "offdiag.recommendations",
    "Reranked": "offdiag.reranked",
    "Result": "offdiag.measured",
    "Scorer": "offdiag.cross_validation",
    "Tuned": "offdiag.tuning",
    "UnknownItemsWarning": "offdiag.errors",
    "auto": "offdiag.autopilot",
    "compress": "offdiag.models.compression",
    "cross_validate": "offdiag.cross_validation",
    "evaluate": "offdiag.evaluation",
    "evaluate_over_time": "offdiag.over_time",
    "gram": "offdiag.gramian.packed",
    "load": "offdiag.persist",
    "read": "offdiag.data.read",
    "read_catalogue": "offdiag.data.read_catalogue",
    "read_features": "offdiag.data.read_features",
    "tune": "offdiag.tuning",
}
_MODULES = {
    "cluster": "offdiag.cluster",
    "datasets": "offdiag.data.datasets",
    "export": "offdiag.export",
    "lab": "offdiag.lab",
    "prepare": "offdiag.data.prepare",
    "spectral": "offdiag.models.spectral",
    "split": "offdiag.data.split",
    "synthetic": "offdiag.data.synthetic",
}
__all__ = sorted([*_HOMES, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'offdiag' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
