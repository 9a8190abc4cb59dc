"""Settings by trial on validation users: shared work, early rejection, a budget, and a study that can be resumed."""

from offdiag.tuning.ranges import bounds_of
from offdiag.tuning.search import tune
from offdiag.tuning.trials import Trial, Tuned

__all__ = ["Trial", "Tuned", "bounds_of", "tune"]
