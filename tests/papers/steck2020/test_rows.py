"""The rows of Table 1: each published one has its line here, with settings that its model takes."""

from pathlib import Path

import numpy as np

import offdiag as od
from offdiag.papers.steck2020 import rows

ROOT = Path(__file__).resolve().parents[3]


def test_every_row_of_the_published_table_has_a_line_here():
    table = rows.expected()
    for data in table["data"]:
        for row in table["rows"]:
            (ours,) = [r for r in rows.ROWS if r.number == row["row"]]
            assert rows.published_figures(ours, data) == row[data]
        for name, found in ((name, found) for name, found in table["others"].items() if name != "about"):
            (ours,) = [r for r in rows.ROWS if r.label == name]
            assert rows.published_figures(ours, data) == found[data]
        for name in ("EASE", "DLAE", "EDLAE", "RDLAE"):
            full = next(r for r in rows.ROWS if r.group == "full rank" and r.label == name)
            assert rows.published_figures(full, data) == table["full_rank"][name][data]
    assert rows.published_figures(rows.BY_KEY["edlae"], "ml-1m") is None
    assert rows.published_figures(rows.BY_KEY["edlae-full-users"], "ml-20m") is None


def test_published_settings_fit_the_models_they_are_for():
    for row in rows.ROWS:
        for data in rows.expected()["data"]:
            settings = rows.published_settings(row, data)
            if settings is not None:
                getattr(od, row.model)(**settings)
                assert settings["user_power"] == 0
            first = rows.first_settings(row, data)
            if first is not None:
                getattr(od, row.model)(**first)


def test_every_row_names_a_model_and_is_documented():
    text = (ROOT / "docs" / "cli.md").read_text()
    for row in rows.ROWS:
        assert set(row.fixed) <= set(getattr(od, row.model)().get_params())
        assert f"`{row.key}`" in text


def test_the_published_table_is_whole_and_edlae_leads_it():
    table = rows.expected()
    assert [row["row"] for row in table["rows"]] == [1, 2, 3, 4, 5]
    for name in table["data"]:
        values = np.array([row[name] for row in table["rows"]], dtype=float)  # None becomes nan
        assert values.shape == (5, len(table["metrics"]))
        known = values[~np.isnan(values)]
        assert ((known > 0.1) & (known < 0.6)).all()
        assert (np.nanargmax(values, axis=0) == 4).all()
        assert (np.nanargmin(values[:, 1:], axis=0) == 0).all()


def test_every_published_figure_names_its_source():
    table = rows.expected()
    known = (ROOT / "docs" / "references.bib").read_text()
    found = [entry["reference"] for name, entry in table["full_rank"].items() if name != "about"]
    for source in (*found, table["protocol"], table["settings"]["reference"]):
        assert "second-hand" in source or f"{{{source}," in known, source
