"""Figures and statements of the theory papers, made again with the lab: one module per paper, one page each."""
