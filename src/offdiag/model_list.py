"""Every model, one line each: the only classes that a file or the command line can name."""

from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    module: str
    command: str  # its name on the command line
    family: str  # models that share most settings


MODELS = {
    "EASE": Entry("offdiag.models.full_rank", "ease", "full rank"),
    "DLAE": Entry("offdiag.models.full_rank", "dlae", "full rank"),
    "EDLAE": Entry("offdiag.models.full_rank", "edlae", "full rank"),
    "RDLAE": Entry("offdiag.models.full_rank", "rdlae", "full rank"),
    "SparseEDLAE": Entry("offdiag.models.sparse", "sparse", "sparse"),
    "NextItem": Entry("offdiag.models.next_item", "next-item", "order"),
    "LowRankEDLAE": Entry("offdiag.models.low_rank", "low-rank-edlae", "low rank"),
    "LowRankDLAE": Entry("offdiag.models.low_rank", "low-rank-dlae", "low rank"),
    "ZeroDiagonalLAE": Entry("offdiag.models.low_rank", "zero-diagonal", "low rank"),
    "WeightDecayLAE": Entry("offdiag.models.low_rank", "weight-decay", "low rank"),
    "Spectral": Entry("offdiag.models.spectral", "spectral", "low rank"),
    "Blend": Entry("offdiag.models.blend", "blend", "blends"),
    "EmphasizedDAE": Entry("offdiag.baselines.nets.autoencoders", "emphasized-dae", "nets"),
    "WMF": Entry("offdiag.baselines.wmf", "wmf", "baselines"),
    "CDAE": Entry("offdiag.baselines.nets.cdae", "cdae", "nets"),
    "MultDAE": Entry("offdiag.baselines.nets.mult", "mult-dae", "nets"),
    "MultVAE": Entry("offdiag.baselines.nets.mult", "mult-vae", "nets"),
    "SASRec": Entry("offdiag.baselines.nets.sasrec", "sasrec", "nets"),
    "Popularity": Entry("offdiag.baselines.popularity", "popularity", "baselines"),
    "SLIM": Entry("offdiag.baselines.slim", "slim", "baselines"),
    "ItemKNN": Entry("offdiag.baselines.item_knn", "item-knn", "baselines"),
    "MarkovChain": Entry("offdiag.baselines.markov_chain", "markov-chain", "order"),
    "SessionKNN": Entry("offdiag.baselines.session_knn", "session-knn", "order"),
}
COMMANDS = {entry.command: name for name, entry in MODELS.items()}


def model_class(name: str) -> Any:
    """The class with this name, imported on first use."""
    return getattr(import_module(MODELS[name].module), name)
