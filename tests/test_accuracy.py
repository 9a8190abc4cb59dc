"""Published figures on real data, reproduced: these run where the data sets are next to the repository."""

import pytest

import offdiag as od

pytestmark = pytest.mark.slow

METRICS = ["recall_all@20", "ndcg@20"]


@pytest.fixture
def ultragcn(shared_data):
    folder = shared_data("ml-1m-ultragcn")
    train, test = (od.read(folder / f"{part}.txt", format="adjacency") for part in ("train", "test"))
    return od.split.given(train, test)


@pytest.mark.parametrize(
    ("settings", "recall", "ndcg"),
    [
        ({"dropout": 0.5, "l2": 300.0, "user_power": 0.0}, 0.2778, 0.2693),
        ({"dropout": 0.5, "l2": 300.0, "user_power": 0.5}, 0.2834, 0.2727),
    ],
)
def test_edlae_reaches_the_known_figures_on_the_ultragcn_split_of_ml_1m(ultragcn, settings, recall, ndcg):
    found = od.evaluate(od.EDLAE(**settings).fit(ultragcn.train), ultragcn.test, metrics=METRICS).mean
    assert found["recall_all@20"] == pytest.approx(recall, abs=2e-4)
    assert found["ndcg@20"] == pytest.approx(ndcg, abs=2e-4)


def test_without_any_tuning_edlae_is_above_published_ultragcn_and_ease(ultragcn):
    """UltraGCN .2787/.2642 and EASE .2755/.2674 on this split; nothing here has seen a test interaction."""
    found = od.evaluate(od.EDLAE().fit(ultragcn.train), ultragcn.test, metrics=METRICS).mean
    assert found["recall_all@20"] > 0.2787
    assert found["ndcg@20"] > 0.2674


def test_other_models_beat_popularity_by_far_on_real_data(shared_data):
    inter = od.prepare.binarize(od.datasets.load("ml-100k", shared_data("ml-100k")), at_least=4)
    split = od.split.strong(inter, held_out=0.2, seed=0)
    popular = od.evaluate(od.Popularity().fit(split.train), split.test)
    found = {}
    for model in (od.EASE(), od.DLAE(), od.EDLAE(), od.SLIM(), od.ItemKNN()):
        result = od.evaluate(model.fit(split.train), split.test)
        better = result.compare(popular)
        assert better.difference["ndcg@100"] > 4 * better.sem["ndcg@100"]
        found[type(model).__name__] = result.mean["ndcg@100"]
    assert found["SLIM"] > 0.96 * found["EASE"]


def test_rank_200_with_chosen_user_weights_beats_the_full_rank_model(ultragcn):
    """The user weights are chosen on a tenth of the training interactions; the test part is measured once for each."""
    given = {"rank": 200, "dropout": 0.33, "l2": 300.0, "seed": 0}

    def measured(model):
        return od.evaluate(model.fit(ultragcn.train), ultragcn.test, metrics=METRICS).mean

    plain = measured(od.LowRankEDLAE(user_power=0.0, **given))
    assert plain["recall_all@20"] >= 0.276
    assert plain["ndcg@20"] >= 0.267
    inner = od.split.weak(ultragcn.train, held_out=0.1, seed=0)

    def validated(power):
        model = od.LowRankEDLAE(user_power=power, iterations=5, **given).fit(inner.train)
        return od.evaluate(model, inner.test, metrics=["ndcg@20"]).mean["ndcg@20"]

    power = max((0.0, 0.5), key=validated)
    chosen = measured(od.LowRankEDLAE(user_power=power, **given))
    full = measured(od.EDLAE(dropout=0.33, l2=300.0, user_power=0.0))
    assert chosen["recall_all@20"] > full["recall_all@20"]
    assert chosen["ndcg@20"] > full["ndcg@20"]


def test_sparse_columns_reach_the_known_figures_on_gowalla(shared_data):
    """200 neighbours of 40,981 items: the figures of an independent prototype; LightGCN has .1820/.1547."""
    split = od.datasets.published("gowalla", shared_data("gowalla-lightgcn"))
    model = od.SparseEDLAE(neighbours=200, dropout=0.8, l2=60.0, user_power=0.5).fit(split.train)
    found = od.evaluate(model, split.test, metrics=METRICS).mean
    assert found["recall_all@20"] == pytest.approx(0.1879, abs=3e-4)
    assert found["ndcg@20"] == pytest.approx(0.1567, abs=3e-4)
