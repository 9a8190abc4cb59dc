import json

import pytest

from offdiag.papers.steck2020 import fits, sources


@pytest.fixture
def folder(tmp_path):
    """Where commands run."""
    return tmp_path


@pytest.fixture
def table1(run):
    """Run the command on a small synthetic catalogue, or with ``small=False`` on what it is given."""

    def call(*args, small=True):
        return run("reproduce", "steck2020", "table1", *args, *(["--users", 160, "--items", 60] if small else []))

    return call


@pytest.fixture
def table1_json(table1):
    """The JSON of a command that succeeds."""

    def call(*args, small=True):
        code, out, err = table1(*args, "--json", small=small)
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


@pytest.fixture
def table1_lines(table1_json):
    """The lines of a command that succeeds on one data set, by row and kind of settings."""

    def call(*args, small=True):
        (part,) = table1_json(*args, small=small)["data"]
        return {(r["row"], r["kind"]): r for r in part["rows"]}

    return call


@pytest.fixture
def invented():
    """The catalogue of ``table1``."""
    return lambda seed=0: sources.load(sources.Source(sources.INVENTED, users=160, items=60), seed)


@pytest.fixture
def counted(monkeypatch):
    """Every fit that is measured, by model."""
    seen = []
    real = fits._fit

    def fit(model, data, progress):
        seen.append(type(model).__name__)
        return real(model, data, progress)

    monkeypatch.setattr(fits, "_fit", fit)
    return seen
