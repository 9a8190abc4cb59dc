"""The public names, for editors and mypy; made by docs/make_api.py."""

from offdiag import cluster, export, lab
from offdiag.autopilot import Autopilot, auto
from offdiag.baselines.item_knn import ItemKNN
from offdiag.baselines.markov_chain import MarkovChain
from offdiag.baselines.nets.autoencoders import EmphasizedDAE
from offdiag.baselines.nets.cdae import CDAE
from offdiag.baselines.nets.mult import MultDAE, MultVAE
from offdiag.baselines.nets.sasrec import SASRec
from offdiag.baselines.popularity import Popularity
from offdiag.baselines.session_knn import SessionKNN
from offdiag.baselines.slim import SLIM
from offdiag.baselines.wmf import WMF
from offdiag.cross_validation import Scorer, cross_validate
from offdiag.data import datasets, prepare, split, synthetic
from offdiag.data.catalogue import Catalogue
from offdiag.data.features import Features
from offdiag.data.interactions import Interactions
from offdiag.data.read import read
from offdiag.data.read_catalogue import read_catalogue
from offdiag.data.read_features import read_features
from offdiag.errors import (
    FeaturesWarning,
    FutureLeakWarning,
    InterruptedFitWarning,
    NoMinimiserWarning,
    NotEnoughMemory,
    NotFittedError,
    OffdiagError,
    UnknownItemsWarning,
)
from offdiag.evaluation import evaluate
from offdiag.gramian.packed import Gram, gram
from offdiag.measured import Result
from offdiag.models import spectral
from offdiag.models.blend import Blend
from offdiag.models.compression import compress
from offdiag.models.full_rank import DLAE, EASE, EDLAE, RDLAE
from offdiag.models.low_rank import LowRankDLAE, LowRankEDLAE, WeightDecayLAE, ZeroDiagonalLAE
from offdiag.models.next_item import NextItem
from offdiag.models.sparse import SparseEDLAE
from offdiag.models.spectral import Spectral
from offdiag.over_time import OverTime, evaluate_over_time
from offdiag.persist import load
from offdiag.recommendations import Recommendations
from offdiag.reranked import Reranked
from offdiag.tuning import Tuned, tune

__version__: str
__all__ = [  # noqa: RUF022 - the order of dir(offdiag)
    "Autopilot",
    "Blend",
    "CDAE",
    "Catalogue",
    "DLAE",
    "EASE",
    "EDLAE",
    "EmphasizedDAE",
    "Features",
    "FeaturesWarning",
    "FutureLeakWarning",
    "Gram",
    "Interactions",
    "InterruptedFitWarning",
    "ItemKNN",
    "LowRankDLAE",
    "LowRankEDLAE",
    "MarkovChain",
    "MultDAE",
    "MultVAE",
    "NextItem",
    "NoMinimiserWarning",
    "NotEnoughMemory",
    "NotFittedError",
    "OffdiagError",
    "OverTime",
    "Popularity",
    "RDLAE",
    "Recommendations",
    "Reranked",
    "Result",
    "SASRec",
    "SLIM",
    "Scorer",
    "SessionKNN",
    "SparseEDLAE",
    "Spectral",
    "Tuned",
    "UnknownItemsWarning",
    "WMF",
    "WeightDecayLAE",
    "ZeroDiagonalLAE",
    "__version__",
    "auto",
    "cluster",
    "compress",
    "cross_validate",
    "datasets",
    "evaluate",
    "evaluate_over_time",
    "export",
    "gram",
    "lab",
    "load",
    "prepare",
    "read",
    "read_catalogue",
    "read_features",
    "spectral",
    "split",
    "synthetic",
    "tune",
]
