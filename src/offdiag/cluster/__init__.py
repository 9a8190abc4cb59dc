"""Fits and batch work on a Dask cluster, with the same results as on one machine; see docs/cluster.md.

Needs the extra ``cluster``.

Example:
    >>> import offdiag as od
    >>> with od.cluster.connect("local:1") as client:
    ...     parts = od.cluster.read(od.synthetic.interactions(60, 20, 400, names=False), client=client)
    ...     model = od.cluster.fit_full_rank(od.EASE(l2=5.0, user_power=0.0), parts, client=client)
    >>> parts
    Parts(1 parts, 60 users x 20 items, 400 interactions)
    >>> model.recommend([[0, 1]], k=3).items.shape
    (1, 3)
"""

from offdiag.cluster.auto import unseen_user_l2
from offdiag.cluster.batch import evaluate, recommend
from offdiag.cluster.counting import gram
from offdiag.cluster.filters import prepare
from offdiag.cluster.full_rank import fit_full_rank
from offdiag.cluster.low_rank import fit_low_rank
from offdiag.cluster.next_item import fit_next_item
from offdiag.cluster.parts import Parts, read
from offdiag.cluster.session import connect
from offdiag.cluster.sparse import fit_sparse
from offdiag.cluster.stages import Report

__all__ = [
    "Parts", "Report", "connect", "evaluate", "fit_full_rank", "fit_low_rank", "fit_next_item", "fit_sparse",
    "gram", "prepare", "read", "recommend", "unseen_user_l2",
]  # fmt: skip
