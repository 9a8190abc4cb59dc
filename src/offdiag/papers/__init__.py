"""Figures and claims of the theory papers, reproduced with the lab: one package and one page per paper."""
