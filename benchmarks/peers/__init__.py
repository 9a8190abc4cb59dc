"""Other people's algorithms and packages, for comparison: nothing in offdiag uses them.

`admm` and `zero_diagonal` are published algorithms. `with_*` call one package each, in a process and a virtual
environment of its own (`environments`, `worker`); `adapter` is what the runner knows about them.
"""
