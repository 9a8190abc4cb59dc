"""od.auto from data to model: what it chooses, what it says, and what it does with a small budget or bad input."""

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot import race, searching
from offdiag.autopilot.outcome import BEHIND, NO_GAIN, SKIPPED
from tests.autopilot.races import tastes


@pytest.fixture(scope="module")
def found():
    X = od.synthetic.interactions(600, 120, 12_000, seed=0)
    return X, od.auto(X, seconds=10, seed=1)


def test_the_model_is_fitted_on_everything_and_is_the_best_row(found):
    X, outcome = found
    assert outcome.model.n_users_ == X.n_users
    assert outcome.model.popularity_.sum() == X.nnz
    best = max(row.value(outcome.metric) for row in outcome.rows)
    assert outcome.chosen.value(outcome.metric) >= best - 0.3 * outcome.chosen.result.sem[outcome.metric]
    assert type(outcome.model).__name__ == outcome.chosen.model


@pytest.fixture
def without_search(monkeypatch):
    """Families race, and none is tuned: a race of small data would search until its time is up."""
    monkeypatch.setattr(searching, "run", lambda race: None)


def assert_same_lists(one, other, X):
    """Bit for bit: the settings are written with all their digits."""
    mine, theirs = (model.recommend(X, k=5) for model in (one, other))
    np.testing.assert_array_equal(mine.indices, theirs.indices)
    np.testing.assert_array_equal(mine.scores, theirs.scores)


def test_the_line_to_repeat_it_gives_the_same_lists(found):
    X, outcome = found
    again = eval(outcome.repeat, {"od": od, "data": X})
    assert_same_lists(again, outcome.model, X)


def test_popularity_is_surely_behind_and_never_chosen(found):
    _, outcome = found
    (popular,) = (row for row in outcome.rows if row.family == "popularity")
    assert popular.state == BEHIND
    assert outcome.chosen is not popular


def test_every_row_was_measured_on_the_same_users(found):
    _, outcome = found
    measured = [row.result for row in outcome.rows if row.result is not None]
    assert len(measured) >= 5
    assert len({result.n_users for result in measured}) == 1


def test_the_test_users_are_asked_once_about_two_models(monkeypatch):
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)
    split = od.split.weak(X, 0.2, 0.1, seed=0)
    asked = []
    ask = race.evaluate
    monkeypatch.setattr(race, "evaluate", lambda model, part, *a, **k: asked.append(part) or ask(model, part, *a, **k))
    outcome = od.auto(X, seconds=5, split=split)
    assert 1 <= sum(part is split.test for part in asked) <= 2
    assert outcome.gain.n_users == outcome.test["chosen"].n_users


def test_the_report_says_what_was_seen_tried_and_found(found):
    _, outcome = found
    for words in (
        "600 users",
        "no times",
        "others for the test",
        outcome.chosen.family,
        "test users",
        "again: od.",
    ):
        assert words in outcome.report
    assert outcome.table["family"][0] == outcome.chosen.family
    assert "Autopilot" in outcome._repr_html_()


def test_order_is_used_where_it_is_known():
    X = od.synthetic.interactions(300, 40, 4_000, times=True, seed=3)
    outcome = od.auto(X, seconds=4)
    assert outcome.serve == "next"
    assert outcome.metric == "ndcg@10"
    assert {"next item", "markov chain"} <= {row.family for row in outcome.rows}
    new = od.auto(X, seconds=0.01, serve="new")
    assert new.serve == "new"
    assert "users are held out" in new.sights[-1]


def test_a_budget_for_one_model_gives_the_automatic_one_and_says_so():
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)
    outcome = od.auto(X, seconds=1e-6)
    assert outcome.chosen.family == "full rank"
    assert all(row.state == SKIPPED for row in outcome.rows if row is not outcome.chosen)
    assert "too few for more than one model" in outcome.report
    assert "the automatic model is the best" in outcome.verdict


def test_an_interrupted_race_gives_the_best_so_far(monkeypatch):
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)

    def stop(race):
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "run", stop)
    with pytest.warns(od.InterruptedFitWarning, match="the best model so far"):
        outcome = od.auto(X, seconds=5)
    assert outcome.stopped == "interrupted"
    assert outcome.model.n_users_ == 300


def test_progress_never_goes_back_and_ends():
    X = od.synthetic.interactions(200, 30, 2_000, seed=0)
    seen = []
    od.auto(X, seconds=2, progress=lambda stage, fraction: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        (np.eye(5), {}, "two items or more"),
        (np.ones((4, 5)), {"seconds": 0}, "seconds must be"),
        (np.ones((4, 5)), {"serve": "all"}, "serve must be"),
        (np.ones((4, 5)), {"serve": "next"}, "needs an order"),
        (np.ones((4, 5)), {"metric": "ndgc@5"}, "ndgc"),
        (np.ones((4, 5)), {"split": "random"}, "expected a split"),
        (np.zeros((4, 5)), {}, "two items or more"),
        (np.ones((2, 5)), {"serve": "new"}, "at least 3 are needed"),
        (np.ones((4, 5)), {"at": "2024-01-01"}, "needs times"),
        (np.ones((1, 5)), {}, "no item could be held out for validation"),
        (np.ones((4, 5)), {"item_features": {"item": [77, 78], "kind": ["x", "y"]}}, "none of them but 77"),
        (np.ones((4, 5)), {"item_features": {"item": [0], "kind": ["x"]}, "groups": {0: 1}}, "do not go together"),
    ],
)
def test_bad_input_is_named(data, words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.auto(data, **words)


def test_a_date_divides_what_is_known_from_what_comes():
    X = od.synthetic.interactions(300, 40, 4_000, times=True, seed=3)
    outcome = od.auto(X, seconds=0.01, at="2024-07-01")
    assert outcome.serve == "next"
    assert "from 2024-07-01 on" in outcome.sights[-1]
    with pytest.raises(od.OffdiagError, match="leave one of the two out"):
        od.auto(X, at="2024-07-01", serve="known")
    with pytest.raises(od.OffdiagError, match="leave one of the two out"):
        od.auto(X, at="2024-07-01", split=od.split.last_out(X))
    with pytest.raises(od.OffdiagError, match="expected a time between"):
        od.auto(X, at="1999-01-01")


def test_too_little_memory_for_the_automatic_model_is_an_error(monkeypatch):
    monkeypatch.setattr("offdiag.memory.available", lambda: 1000)
    with pytest.raises(od.OffdiagError, match="of memory but 1 kB is available"):
        od.auto(od.synthetic.interactions(300, 40, 3_000, seed=0), seconds=5)


def test_a_run_continues_and_measures_nothing_twice(tmp_path, monkeypatch):
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)
    split = od.split.weak(X, 0.2, 0.1, seed=0)

    def killed(race):
        raise SystemExit

    monkeypatch.setattr(searching, "run", killed)
    with pytest.raises(SystemExit):
        od.auto(X, seconds=60, split=split, resume=tmp_path / "race")
    lines = (tmp_path / "race").read_text().count('"row"')
    assert lines >= 8
    fitted = []
    fit = race.Race.fit
    note = lambda self, model, row, *rest: fitted.append(row.name) or fit(self, model, row, *rest)  # noqa: E731
    monkeypatch.setattr(race.Race, "fit", note)
    monkeypatch.setattr(searching, "run", lambda race: None)
    outcome = od.auto(X, seconds=60, split=split, resume=tmp_path / "race")
    assert any("continued a run" in note for note in outcome.notes)
    counts = {name: fitted.count(name) for name in fitted}
    measured = [row.name for row in outcome.rows if row.result is not None]
    assert len(measured) >= 8
    assert len(counts) < len(measured), "only what is needed at the end is fitted again"
    fitted.clear()
    third = od.auto(X, seconds=60, split=split, resume=tmp_path / "race")
    assert third.chosen.settings == outcome.chosen.settings
    assert third.chosen.result.mean == outcome.chosen.result.mean
    assert third.seconds > outcome.seconds, "the time of the earlier parts counts"


def test_features_reach_the_model_on_everything(without_search):
    X, kinds = tastes(900, 300)
    features = od.read_features({"item": np.arange(300), "kind": [f"k{kind}" for kind in kinds]}, categories=["kind"])
    outcome = od.auto(X, seconds=600, item_features=features)
    assert "features describe 300 of 300 items (100 %)" in outcome.report
    assert any(row.features and row.state != NO_GAIN for row in outcome.rows)
    names = {"od": od, "data": X, "features": features}
    again = eval(outcome.repeat, names)
    assert_same_lists(again, outcome.model, X)
    if outcome.chosen.features:
        assert "item_features=features" in outcome.repeat


def test_groups_are_kept_apart_in_the_chosen_model():
    X = od.synthetic.interactions(300, 40, 4_000, seed=0)
    outcome = od.auto(X, seconds=4, groups=dict.fromkeys(X.item_ids[:2].tolist(), "a"))
    weights = outcome.model.weights_.toarray()
    assert weights[0, 1] == weights[1, 0] == 0
    assert "do not learn from groups" in outcome.report
    assert "groups=groups" in outcome.repeat


def test_dislikes_are_seen_and_a_family_learns_from_them(without_search):
    rng = np.random.default_rng(0)
    rows = {"user": rng.integers(0, 200, 4000), "item": rng.integers(0, 30, 4000), "stars": rng.integers(1, 6, 4000)}
    outcome = od.auto(rows, value="stars", dislike_below=2, duplicates="once", seconds=600)
    assert "dislikes are known" in outcome.report
    assert "full rank, dislikes" in {row.family for row in outcome.rows}


def test_a_table_is_read_with_the_options_of_read():
    table = od.synthetic.interactions(200, 30, 2_000, seed=0).to_polars().rename({"user": "who", "item": "what"})
    outcome = od.auto(table, user="who", item="what", seconds=0.01)
    assert outcome.model.n_users_ == 200
