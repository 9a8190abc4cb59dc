"""Algorithms of others as published, to compare with: nothing in offdiag uses them."""
