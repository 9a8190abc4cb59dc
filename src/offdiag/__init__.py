"""Recommendation with linear autoencoders that cannot learn the identity: item i is predicted from the others only.

Names load on first use, so ``import offdiag`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offdiag import cluster, lab
    from offdiag.baselines.item_knn import ItemKNN
    from offdiag.baselines.nets.autoencoders import EmphasizedDAE
    from offdiag.baselines.nets.cdae import CDAE
    from offdiag.baselines.nets.mult import MultDAE, MultVAE
    from offdiag.baselines.popularity import Popularity
    from offdiag.baselines.slim import SLIM
    from offdiag.baselines.wmf import WMF
    from offdiag.data import datasets, prepare, split, synthetic
    from offdiag.data.interactions import Interactions
    from offdiag.data.read import read
    from offdiag.errors import InterruptedFitWarning, NotEnoughMemory, OffdiagError, UnknownItemsWarning
    from offdiag.evaluation import Result, evaluate
    from offdiag.gramian.packed import Gram, gram
    from offdiag.models import spectral
    from offdiag.models.compression import compress
    from offdiag.models.full_rank import DLAE, EASE, EDLAE, RDLAE
    from offdiag.models.low_rank import LowRankDLAE, LowRankEDLAE, WeightDecayLAE, ZeroDiagonalLAE
    from offdiag.models.sparse import SparseEDLAE
    from offdiag.models.spectral import Spectral
    from offdiag.persist import load
    from offdiag.tuning import Tuned, tune

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022
    "CDAE",
    "DLAE",
    "EASE",
    "EDLAE",
    "EmphasizedDAE",
    "Gram",
    "Interactions",
    "InterruptedFitWarning",
    "ItemKNN",
    "LowRankDLAE",
    "LowRankEDLAE",
    "MultDAE",
    "MultVAE",
    "NotEnoughMemory",
    "OffdiagError",
    "Popularity",
    "RDLAE",
    "Result",
    "SLIM",
    "SparseEDLAE",
    "Spectral",
    "Tuned",
    "UnknownItemsWarning",
    "WMF",
    "WeightDecayLAE",
    "ZeroDiagonalLAE",
    "__version__",
    "cluster",
    "compress",
    "datasets",
    "evaluate",
    "gram",
    "lab",
    "load",
    "prepare",
    "read",
    "spectral",
    "split",
    "synthetic",
    "tune",
]

_HOME = {
    "CDAE": "baselines.nets.cdae",
    "DLAE": "models.full_rank",
    "EASE": "models.full_rank",
    "EDLAE": "models.full_rank",
    "EmphasizedDAE": "baselines.nets.autoencoders",
    "Gram": "gramian.packed",
    "Interactions": "data.interactions",
    "InterruptedFitWarning": "errors",
    "ItemKNN": "baselines.item_knn",
    "LowRankDLAE": "models.low_rank",
    "LowRankEDLAE": "models.low_rank",
    "MultDAE": "baselines.nets.mult",
    "MultVAE": "baselines.nets.mult",
    "NotEnoughMemory": "errors",
    "OffdiagError": "errors",
    "Popularity": "baselines.popularity",
    "RDLAE": "models.full_rank",
    "Result": "evaluation",
    "SLIM": "baselines.slim",
    "SparseEDLAE": "models.sparse",
    "Spectral": "models.spectral",
    "Tuned": "tuning",
    "UnknownItemsWarning": "errors",
    "WMF": "baselines.wmf",
    "WeightDecayLAE": "models.low_rank",
    "ZeroDiagonalLAE": "models.low_rank",
    "compress": "models.compression",
    "evaluate": "evaluation",
    "gram": "gramian.packed",
    "load": "persist",
    "read": "data.read",
    "tune": "tuning",
}
_MODULES = {
    "cluster": "cluster",
    "datasets": "data.datasets",
    "lab": "lab",
    "prepare": "data.prepare",
    "spectral": "models.spectral",
    "split": "data.split",
    "synthetic": "data.synthetic",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(f"offdiag.{_MODULES[name]}")
    elif name in _HOME:
        value = getattr(import_module(f"offdiag.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'offdiag' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
