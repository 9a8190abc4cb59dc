"""The non-linear denoising autoencoder: its loss, that it learns, its settings; what nets share is in test_fitting."""

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.mistakes import rejects

pytest.importorskip("torch")
SMALL = {"width": 12, "epochs": 40, "batch_users": 100, "learning_rate": 1e-2}


@pytest.mark.slow
def test_it_learns_and_beats_popularity(split):
    model = od.EmphasizedDAE(**SMALL).fit(split.train)
    assert model.losses_[-1] < 0.9 * model.losses_[0]
    popular, ours = (od.evaluate(m, split.test, "ndcg@20") for m in (od.Popularity().fit(split.train), model))
    test = ours.compare(popular)
    assert test.difference["ndcg@20"] > 4 * test.sem["ndcg@20"]


def test_with_full_emphasis_kept_entries_do_not_count(monkeypatch):
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
    ((x, output, kept, a, b),) = seen
    assert (a, b) == (1.0, 0.0)
    by_hand = np.sum(~kept * (x - output) ** 2) / 40 / 0.3
    assert model.losses_[0] == pytest.approx(by_hand, rel=1e-5)
    assert 0.15 < 1 - kept.mean() < 0.45
    assert kept[x == 0].mean() < 0.9  # zeros are dropped as well


def test_a_weight_penalty_makes_the_weights_smaller(split):
    free, held = (od.EmphasizedDAE(**SMALL, l2=l2).fit(split.train).weights_ for l2 in (0.0, 0.1))
    assert np.sum(held.layers[1][0] ** 2) < 0.5 * np.sum(free.layers[1][0] ** 2)


def fit(scale=1.0, **settings):
    return lambda: od.EmphasizedDAE(**settings).fit(scale * (np.eye(4, dtype=np.float32) + np.eye(4, k=1)))


test_mistakes_are_errors = rejects(
    (fit(dropout=0.0), "dropout must be above 0"),
    (fit(dropout="auto"), "takes numbers"),
    (fit(dropout=1.0), "dropout must be a number"),
    (fit(width=0), "width must be a whole number"),
    (fit(epochs=1.5), "epochs must be a whole number"),
    (fit(learning_rate=-1.0), "learning_rate must be a number"),
    (fit(learning_rate=1e30), r"learning_rate must be a number in \(0, 1000\]"),
    (fit(learning_rate=0.0), r"learning_rate must be a number in \(0, 1000\]"),
    (fit(dtype="float16"), "dtype must be"),
    (fit(dtype="float64"), "float32 only"),
    (fit(1e30, width=4, epochs=2), "training diverged"),
)


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
