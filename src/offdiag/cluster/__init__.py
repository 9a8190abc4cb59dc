"""Fits on a Dask cluster, with the same results as on one machine; see docs/cluster.md. Needs the extra ``cluster``."""

from offdiag.cluster.auto import unseen_user_l2
from offdiag.cluster.counting import gram
from offdiag.cluster.filters import prepare
from offdiag.cluster.full_rank import fit_full_rank
from offdiag.cluster.parts import Parts, read
from offdiag.cluster.session import connect
from offdiag.cluster.sparse import fit_sparse
from offdiag.cluster.stages import Report

__all__ = ["Parts", "Report", "connect", "fit_full_rank", "fit_sparse", "gram", "prepare", "read", "unseen_user_l2"]
