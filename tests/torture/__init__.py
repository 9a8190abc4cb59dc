"""A robustness campaign: ``python -m tests.torture`` (`make torture`) does to offdiag what machines and people do.

It writes what it tried and what went wrong to a JSON file, from which docs/torture.md is made.
"""
