"""Search for settings on validation users: shared work, early rejection, a budget, and a resumable study."""

from offdiag.tuning.gain import Gain
from offdiag.tuning.ranges import bounds_of
from offdiag.tuning.search import tune
from offdiag.tuning.trials import Trial, Tuned

__all__ = ["Gain", "Trial", "Tuned", "bounds_of", "tune"]
