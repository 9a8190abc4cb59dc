"""Models as estimators of scikit-learn."""

import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import offdiag as od
from offdiag import model_list

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scikit-learn.md"
GRID = [1e-3, 50.0, 1e7]
LINEAR = [name for name, entry in model_list.MODELS.items() if entry.family not in ("nets", "order")]


def expected_failures():
    """The table of the page: check and reason."""
    table = PAGE.read_text().partition("| check | reason |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.M))


@pytest.fixture(scope="module")
def data():
    return od.synthetic.interactions(200, 30, 2_500, seed=0)


@pytest.mark.parametrize("name", LINEAR)
def test_scikit_learn_accepts_every_linear_model(name):
    reasons = expected_failures()
    assert all(len(reason) > 30 for reason in reasons.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tiny data in some checks, and of checks that are skipped
        found = check_estimator(getattr(od, name)(), expected_failed_checks=reasons, on_skip=None, on_fail=None)
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert failed == {}
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(reasons), "a reason is out of date"
    assert sum(one["status"] == "passed" for one in found) >= 35


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_matrix", "lil_matrix", "dok_array", "bsr_array"])
def test_sparse_data_of_every_format_is_the_same_data(name, form):
    X = np.random.default_rng(0).integers(0, 3, (30, 7)).astype(np.float32)
    dense = getattr(od, name)().fit(X)
    other = getattr(od, name)().fit(getattr(sparse, form)(X))
    assert np.array_equal(other.predict(getattr(sparse, form)(X)), dense.predict(X))


def test_a_model_that_is_not_fitted_raises_the_error_of_both():
    with pytest.raises(NotFittedError, match="EASE is not fitted yet") as caught:
        od.EASE().recommend([[0]])
    assert isinstance(caught.value, od.NotFittedError)
    again = pickle.loads(pickle.dumps(caught.value))  # as a worker process sends it
    assert isinstance(again, NotFittedError)
    assert str(again) == str(caught.value)
    with pytest.raises(NotFittedError):
        check_is_fitted(od.EASE())


def test_without_scikit_learn_the_error_is_ours(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    with pytest.raises(od.NotFittedError) as caught:
        od.EASE().predict([[0]])
    assert type(caught.value) is od.NotFittedError


def test_nothing_imports_scikit_learn_before_it_is_needed():
    code = "import sys, offdiag as od; od.EASE(l2=1.0).fit([[1, 1]]).score([[1, 1]]); print('sklearn' in sys.modules)"
    code = code.replace("[[1, 1]]", "od.synthetic.interactions(30, 9, 90)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_a_grid_search_keeps_the_ids_and_finds_the_best(data):
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(od.EASE(), {"l2": GRID}, cv=folds).fit(data)
    apart = [np.mean([od.EASE(l2=l2).fit(data[a]).score(data[b]) for a, b in folds.split(data)]) for l2 in GRID]
    assert search.cv_results_["mean_test_score"] == pytest.approx(apart)
    assert search.best_params_ == {"l2": GRID[int(np.argmax(apart))]}
    best = search.best_estimator_
    assert best.item_ids_.tolist() == data.item_ids.tolist()
    assert best.n_users_ == data.n_users
    plain = GridSearchCV(od.EASE(), {"l2": GRID}, cv=folds).fit(data.matrix)
    assert np.array_equal(plain.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_scores_of_folds_are_those_of_separate_fits(data):
    folds = KFold(4, shuffle=True, random_state=1)
    scores = cross_val_score(od.EASE(l2=20.0), data, cv=folds)
    apart = [od.EASE(l2=20.0).fit(data[train]).score(data[test]) for train, test in folds.split(data)]
    assert scores.tolist() == apart


def test_the_score_is_the_metric_on_the_hidden_items(data):
    """Computed again by hand: rank by predict, without the items that were left."""
    from offdiag.data.hiding import hide

    model = od.EASE(l2=20.0).fit(data[:150])
    part = hide(data.matrix[150:])
    scores = np.where(part.histories.toarray() > 0, -np.inf, model.predict(part.histories))
    hits = []
    for row, targets in zip(np.argsort(-scores, axis=1, kind="stable"), part.targets.toarray() > 0, strict=True):
        if targets.any():
            hits.append(targets[row[:5]].sum() / min(5, targets.sum()))
    assert model.score(data[150:], metric="recall@5") == pytest.approx(np.mean(hits))
    assert od.Scorer("recall@5")(model, data[150:]) == model.score(data[150:], metric="recall@5")


def test_a_table_of_events_has_no_score(data):
    model = od.EASE(l2=20.0).fit(data)
    with pytest.raises(od.OffdiagError, match="table of events"):
        model.score(data.to_polars())


def test_users_with_one_item_have_no_score():
    model = od.EASE(l2=1.0).fit(np.eye(4) + 1)
    with pytest.raises(od.OffdiagError, match="none of the 4 held-out users has a target"):
        model.score(np.eye(4))


def test_a_pipeline_ends_in_a_model(data):
    pipe = make_pipeline(Binarizer(threshold=0.5), od.EASE(l2=20.0)).fit(data.matrix)
    assert np.array_equal(pipe.predict(data.matrix), od.EASE(l2=20.0).fit(data.matrix).predict(data.matrix))
    assert od.Scorer("ndcg@100")(pipe, data.matrix) == pipe.score(data.matrix)
    own = make_pipeline(FunctionTransformer(od.prepare.binarize), od.EASE(l2=20.0)).fit(data)
    assert own[-1].item_ids_.tolist() == data.item_ids.tolist()


def test_several_metrics_in_parallel(data):
    scoring = {"recall": od.Scorer("recall@5"), "hit": od.Scorer("hit@1", hidden=0.5)}
    search = GridSearchCV(od.EASE(), {"l2": [1.0, 50.0]}, cv=2, n_jobs=2, scoring=scoring, refit="recall").fit(data)
    assert (search.cv_results_["mean_test_hit"] > 0).all()
    with pytest.raises(od.OffdiagError, match="unknown metric"):
        od.Scorer("recal@5")


def test_a_clone_is_unfitted_and_equal(data):
    for model in (od.EDLAE(l2=3.0), od.Spectral(shrink="ridge:l2=3"), od.SLIM()):
        copy = clone(model.fit(data))
        assert copy.get_params() == model.get_params()
        assert not hasattr(copy, "weights_")


def test_names_of_columns_are_names_of_items():
    frame = pd.DataFrame(np.random.default_rng(0).random((20, 4)), columns=list("abcd"))
    model = od.EASE(l2=1.0).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4
    assert np.array_equal(model.predict(frame), model.predict(frame.to_numpy()))
    with pytest.raises(od.OffdiagError, match="same order"):
        model.predict(frame[list("badc")])
    numbers = od.EASE(l2=1.0).fit(frame.to_numpy())
    assert not hasattr(numbers, "feature_names_in_")


def test_objects_count_only_if_they_are_numbers():
    X = np.array([[1, 0, 2.5], [0, True, 1]], dtype=object)
    assert od.Popularity().fit(X).popularity_.tolist() == [1, 1, 3.5]
    X[0, 0] = "1"
    with pytest.raises(od.OffdiagError, match="matrix of numbers"):
        od.Popularity().fit(X)
    X[0, 0] = None
    with pytest.raises(od.OffdiagError, match="NaN"):
        od.Popularity().fit(X)
    X[0, 0] = {}
    with pytest.raises(TypeError, match="not 'dict'"):
        od.Popularity().fit(X)


def test_one_user_given_flat_is_not_taken_for_ids():
    model = od.Popularity().fit(np.eye(3))
    with pytest.raises(od.OffdiagError, match="Reshape your data"):
        model.predict(np.array([1.0, 0.0, 1.0]))
    assert model.predict(np.array([1, 0])).shape == (1, 3)  # ids
