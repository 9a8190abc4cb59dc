"""Figures: results and searches as SVG; the theory papers with matplotlib."""

from offdiag.plots.ageing import ageing
from offdiag.plots.race import race
from offdiag.plots.results import comparison, contributions, curve, distribution, popularity
from offdiag.plots.svg import Figure

__all__ = ["Figure", "ageing", "comparison", "contributions", "curve", "distribution", "popularity", "race"]
