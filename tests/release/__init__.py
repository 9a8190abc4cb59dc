"""What a release must pass outside the repository: ``python -m tests.release`` (`make release-check`).

It builds wheel and sdist, installs the wheel into an empty environment of every Python that it finds, with the newest
and with the oldest dependencies that pyproject.toml allows, runs ``smoke.py`` there, and resolves every extra.
"""
