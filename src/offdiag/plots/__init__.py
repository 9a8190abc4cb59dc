"""Figures: results and searches as SVG; the theory papers with matplotlib."""

from offdiag.plots.results import comparison, contributions, curve, distribution, popularity
from offdiag.plots.svg import Figure

__all__ = ["Figure", "comparison", "contributions", "curve", "distribution", "popularity"]
