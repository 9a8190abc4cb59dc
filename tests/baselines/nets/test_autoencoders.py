"""The non-linear denoising autoencoder: what it computes, that it learns, and that it behaves like any other model."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.weights import Network

torch = pytest.importorskip("torch")
SMALL = {"width": 12, "epochs": 40, "batch_users": 100, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def split():
    return od.split.strong(od.synthetic.interactions(1_200, 150, 30_000, seed=1), held_out=0.2, seed=0)


@pytest.fixture(scope="module")
def model(split):
    return od.EmphasizedDAE(**SMALL).fit(split.train)


def test_scores_are_those_of_the_net(model, split):
    X = split.test.histories[:20].toarray()
    X[3] = 0  # a user without history
    W1, b1, W2, b2 = (model.weights_.arrays()[name].astype(np.float64) for name in ("W1", "b1", "W2", "b2"))
    norm = np.maximum(np.sqrt((X**2).sum(1, keepdims=True)), 1e-12)
    np.testing.assert_allclose(model.predict(X), np.tanh(X / norm @ W1 + b1) @ W2.T + b2, atol=1e-5)
    assert model.predict(sparse.csr_array((0, 150))).shape == (0, 150)


@pytest.mark.slow
def test_it_learns_and_beats_popularity(model, split):
    assert model.losses_[-1] < 0.9 * model.losses_[0]
    metric = "ndcg@20"
    popular = od.evaluate(od.Popularity().fit(split.train), split.test, [metric])
    ours = od.evaluate(model, split.test, [metric])
    test = ours.compare(popular)
    assert test.difference[metric] > 4 * test.sem[metric]


def test_full_emphasis_asks_nothing_about_what_was_kept(monkeypatch):
    """With kept_weight 0 the loss is that of the dropped entries, over their mean weight."""
    from offdiag.lab import layers

    seen = []
    real = layers.emphasized_loss

    def watched(x, output, kept, dropped_weight, kept_weight):
        seen.append((x.numpy(), output.detach().numpy(), kept.numpy(), dropped_weight, kept_weight))
        return real(x, output, kept, dropped_weight, kept_weight)

    monkeypatch.setattr(layers, "emphasized_loss", watched)
    X = (np.random.default_rng(0).random((40, 7)) < 0.5).astype(np.float32)
    model = od.EmphasizedDAE(width=3, epochs=1, batch_users=40, dropout=0.3).fit(X)
    (x, output, kept, a, b), *rest = seen
    assert not rest
    assert (a, b) == (1.0, 0.0)
    by_hand = np.sum(~kept * (x - output) ** 2) / 40 / 0.3
    assert model.losses_[0] == pytest.approx(by_hand, rel=1e-5)
    assert 0.15 < 1 - kept.mean() < 0.45
    assert kept[x == 0].mean() < 0.9  # zeros are dropped as well


def test_the_seed_decides_everything(split):
    few = SMALL | {"epochs": 2}
    one, other = (od.EmphasizedDAE(**few, seed=3).fit(split.train) for _ in range(2))
    for name, array in one.weights_.arrays().items():
        np.testing.assert_array_equal(array, other.weights_.arrays()[name])
    third = od.EmphasizedDAE(**few, seed=4).fit(split.train)
    assert not np.array_equal(one.weights_.layers[0][0], third.weights_.layers[0][0])


def test_it_is_saved_and_loaded_without_torch(model, split, tmp_path, monkeypatch):
    model.save(tmp_path / "net.od")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    again = od.load(tmp_path / "net.od")
    assert isinstance(again.weights_, Network)
    X = split.test.histories[:9]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.recommend(X, k=5).indices, model.recommend(X, k=5).indices)
    assert again.get_params() == model.get_params()
    assert again.losses_ == model.losses_
    assert len(again.similar([split.train.item_ids[0]], k=3).items[0]) == 3
    with pytest.raises(od.OffdiagError, match="needs torch"):
        od.EmphasizedDAE().fit(np.eye(4))


def test_a_weight_penalty_makes_the_weights_smaller(split):
    few = SMALL | {"epochs": 20}
    free, held = (od.EmphasizedDAE(**few, l2=l2).fit(split.train).weights_ for l2 in (0.0, 0.1))
    assert np.sum(held.layers[1][0] ** 2) < 0.5 * np.sum(free.layers[1][0] ** 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dropout": 0.0}, "dropout must be above 0"),
        ({"dropout": "auto"}, "takes numbers"),
        ({"dropout": 1.0}, "dropout must be a number"),
        ({"width": 0}, "width must be a whole number"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"learning_rate": -1.0}, "learning_rate must be a number"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"learning_rate": 1e30}, r"learning_rate must be a number in \(0, 1000\]"),
        ({"learning_rate": 0.0}, r"learning_rate must be a number in \(0, 1000\]"),
        ({"dtype": "float64"}, "float32 only"),
    ],
)
def test_mistakes_are_told(settings, said):
    with pytest.raises(od.OffdiagError, match=said):
        od.EmphasizedDAE(**settings).fit(np.eye(4, dtype=np.float32) + np.eye(4, k=1))


def test_training_that_leaves_the_numbers_is_told():
    with pytest.raises(od.OffdiagError, match="training diverged"):
        od.EmphasizedDAE(width=4, epochs=2).fit(np.eye(3) * 1e30)


def test_what_a_net_cannot_do_is_said(model):
    with pytest.raises(od.OffdiagError, match="not linear"):
        model.explain([0], 1)
    with pytest.raises(od.OffdiagError, match="no matrix"):
        model.weights_.toarray()
    with pytest.raises(od.OffdiagError, match="no matrix"):
        model.weights_.column(np.array([0]), 1)
    with pytest.raises(od.OffdiagError, match="nothing to learn"):
        od.EmphasizedDAE().fit(np.zeros((3, 3)))


def test_the_command_line_fits_it(tmp_path, monkeypatch):
    from offdiag.cli import main

    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{u},{i}" for u in range(20) for i in range(5) if (u * i) % 3)
    (tmp_path / "t.csv").write_text(f"user,item\n{rows}\n")
    words = ["--model", "emphasized-dae", "--width", "6", "--epochs", "2", "--dropout", "0.4", "--kept-weight", "0.3"]
    assert main(["fit", "t.csv", "-o", "m.od", *words]) == 0
    params = od.load("m.od").get_params()
    assert {name: params[name] for name in ("width", "epochs", "dropout", "kept_weight")} == {
        "width": 6, "epochs": 2, "dropout": 0.4, "kept_weight": 0.3,
    }  # fmt: skip
    assert main(["recommend", "m.od", "--history", "1,2"]) == 0
