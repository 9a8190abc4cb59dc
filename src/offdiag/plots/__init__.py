"""Figures: SVG drawn by hand; those of the theory papers with matplotlib."""
