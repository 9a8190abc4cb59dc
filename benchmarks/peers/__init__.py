"""Published algorithms of other authors, for comparison: nothing in offdiag uses them."""
