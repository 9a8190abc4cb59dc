"""Training on sampled masks ends at the closed forms: Table 1, rows 3 and 4, of [Steck20] in two ways."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import offdiag as od
from offdiag.errors import OffdiagError
from tests.fixtures.mistakes import rejects
from tests.laws import oracles, oracles_low_rank

pytest.importorskip("torch", reason="sampled training needs torch: pip install torch (the extra 'neural')")

from offdiag.lab import sampled, spreading

RANK = 20


@cache
def data():
    return od.synthetic.interactions(2_000, 300, 30_000, seed=0)


@cache
def dense_gram(user_power=0.0):
    return od.gram(data(), user_power, dtype="float64").toarray()


def test_the_loss_of_a_batch_is_an_unbiased_estimate_of_the_objective():
    """So is its gradient: the equation holds at every U and V."""
    rng = np.random.default_rng(0)
    inter = od.synthetic.interactions(300, 40, 3_000, seed=1)
    U, V = (rng.standard_normal((40, 6)).astype(np.float32) / 4 for _ in range(2))
    cases = [  # dropout, kept_weight, l2, user_power, batch_users, masks
        (0.5, 0.0, 3.0, 0.0, 64, 2),
        (0.33, 0.3, 20.0, 0.5, 300, 1),
        (0.33, 1.0, 20.0, 0.0, 7, 3),
        (0.8, 0.01, 5.0, -0.3, 50, 2),
        (0.1, 0.0, 0.0, 1.0, 100, 5),
        (0.0, 0.7, 4.0, 0.0, 100, 2),
    ]
    for dropout, kept_weight, l2, user_power, batch_users, masks in cases:
        found = sampled.sample_loss(
            inter, U, V, dropout=dropout, kept_weight=kept_weight, l2=l2, user_power=user_power,
            batch_users=batch_users, masks=masks, draws=600, seed=2,
        )  # fmt: skip
        G = oracles.gram(inter.matrix.toarray(), user_power)
        exact = oracles.objective(G, U.astype(np.float64) @ V.T, dropout, l2, kept_weight)
        assert found.standard_error < 0.02 * exact
        assert abs(found.mean - exact) < 4 * found.standard_error + 1e-5 * exact  # float32


@pytest.mark.parametrize(("dropout", "kept_weight"), [(0.5, 0.0), (0.33, 0.3), (0.7, 1.0), (0.0, 0.2)])
def test_l2_counts_on_the_diagonal_as_the_dropout_penalty_does(dropout, kept_weight):
    """The same masks with and without l2 differ by exactly what l2 adds to the objective."""
    rng = np.random.default_rng(0)
    X = (rng.random((30, 8)) < 0.5).astype(np.float32)
    U, V = (rng.standard_normal((8, 3)).astype(np.float32) for _ in range(2))
    for factors in [(U, V), (U @ V.T, np.eye(8, dtype=np.float32))]:
        without, found = (
            sampled.sample_loss(X, *factors, dropout=dropout, kept_weight=kept_weight, l2=l2, draws=2).mean
            for l2 in (0.0, 100.0)
        )
        B, G = U.astype(np.float64) @ V.T, oracles.gram(X)
        more = oracles.objective(G, B, dropout, 100.0, kept_weight) - oracles.objective(G, B, dropout, 0.0, kept_weight)
        assert found - without == pytest.approx(more, rel=1e-4)


def test_with_weights_only_on_stored_entries_it_would_be_another_objective():
    """Masks and their emphasis cover the zeros as well; this data tells the two readings apart."""
    X = (np.random.default_rng(3).random((50, 5)) < 0.4).astype(np.float64)
    B = np.random.default_rng(4).standard_normal((5, 5)).astype(np.float32)
    found = sampled.sample_loss(X, B, np.eye(5), dropout=0.4, kept_weight=0.0, draws=1500, batch_users=50)
    truth = oracles.expected_stochastic_loss(X, B.astype(np.float64), 0.4, a=1.0, b=0.0) / 0.4
    assert abs(found.mean - truth) < 4 * found.standard_error
    rng, drawn = np.random.default_rng(5), []
    for _ in range(2000):
        dropped = (rng.random(X.shape) < 0.4) & (X > 0)
        drawn.append((dropped * (X - (X * ~dropped / 0.6) @ B) ** 2).sum() / 0.4)
    assert np.mean(drawn) < 0.9 * truth


def test_two_masks_of_one_row_make_a_quieter_gradient_than_two_of_any_rows():
    import torch

    inter = od.synthetic.interactions(300, 40, 3_000, seed=1)
    B = oracles.weights(oracles.gram(inter.matrix.toarray()), 0.5, 5.0, 0.3)
    noise = sampled.Noise(0.5, kept_weight=0.3)
    spread = []
    for masks in (1, 2):
        generator, slopes = torch.Generator().manual_seed(masks), []
        for _ in range(200):
            factor = torch.tensor(B, dtype=torch.float32, requires_grad=True)
            words = (inter.matrix, np.ones(300), np.arange(300), [factor], noise, masks, generator)
            sampled._batch_loss(torch, *words).backward()
            slopes.append(factor.grad.numpy())
        spread.append(np.var(slopes, axis=0).sum())
    assert spread[1] < 0.7 * spread[0] / 2


@pytest.mark.slow
def test_for_many_items_the_l2_term_is_estimated_without_bias(monkeypatch):
    """From 7 of 20 rows and columns: the mean is that of all, and the draws differ."""
    X, draws = np.eye(20), np.random.default_rng(3)
    U, V = draws.normal(size=(2, 20, 4)).astype(np.float32)
    words = {"dropout": 0.0, "draws": 4000, "masks": 1, "batch_users": 20}
    monkeypatch.setattr(sampled, "MOST_FOR_L2", 7)
    found = sampled.sample_loss(X, U, V, l2=1.0, **words)
    exact = sampled.sample_loss(X, U, V, l2=0.0, **words | {"draws": 2}).mean + float(((U @ V.T) ** 2).sum())
    assert 0 < found.standard_error < 0.03 * exact
    assert abs(found.mean - exact) < 4 * found.standard_error


@pytest.mark.parametrize(
    ("dropout", "l2", "kept_weight", "user_power"), [(0.33, 10.0, 1.0, 0.0), (0.5, 5.0, 0.0, 0.5), (0.4, 5.0, 0.3, 0.0)]
)
def test_low_rank_training_approaches_the_optimum(dropout, l2, kept_weight, user_power):
    """Within half a per cent of the minimum, from above, and closer the longer it runs."""
    G = dense_gram(user_power)
    if kept_weight == 1:
        best = oracles_low_rank.dlae_optimum(G, RANK, dropout, l2)
    else:
        settings = {"dropout": dropout, "l2": l2, "kept_weight": kept_weight, "user_power": user_power}
        best = od.LowRankEDLAE(rank=RANK, iterations=200, dtype="float64", **settings).fit(data()).objective_
    J = []
    for epochs in (8, 55):
        found = sampled.train(
            data(), RANK, dropout=dropout, l2=l2, kept_weight=kept_weight, user_power=user_power,
            epochs=epochs, learning_rate=0.2,
        )  # fmt: skip
        J.append(found.objective(G))
    assert found.U.shape == found.V.shape == (300, RANK)
    assert J[-1] == pytest.approx(oracles_low_rank.objective(G, found.U, found.V, dropout, l2, kept_weight), rel=1e-9)
    assert J[0] > J[1]
    assert J[1] < 1.005 * best
    assert J[1] > best * (1 if kept_weight == 1 else 0.999)  # a local minimum for b < 1, the minimum for b = 1
    assert len(found.losses) == 55
    assert found.losses[-5:].mean() == pytest.approx(J[1], rel=0.02)
    assert found.losses[0] > 1.2 * found.losses[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("dropout", "l2", "kept_weight"), [(0.5, 5.0, 0.0), (0.5, 5.0, 0.3)])
def test_full_rank_training_approaches_the_closed_form(dropout, l2, kept_weight):
    G = dense_gram()
    model = od.EDLAE(dropout=dropout, l2=l2, kept_weight=kept_weight, user_power=0.0, dtype="float64").fit(data())
    settings = {"dropout": dropout, "l2": l2, "kept_weight": kept_weight, "learning_rate": 0.04}
    short, long = (sampled.train(data(), None, epochs=epochs, **settings) for epochs in (10, 75))
    assert np.array_equal(long.V, np.eye(300, dtype=np.float32))
    assert model.objective_ < long.objective(G) < 1.005 * model.objective_
    assert long.objective(G) < short.objective(G) < 1.2 * model.objective_
    # Not only the value: the matrices agree, weighted by the data that could tell them apart.
    B, weight = model.weights_.toarray(), np.sqrt(np.diag(G))[:, None]
    assert np.linalg.norm(weight * (long.U - B)) < 0.2 * np.linalg.norm(weight * B)
    if kept_weight == 0:
        assert not long.U.diagonal().any()  # its gradient is always 0


@pytest.mark.slow
def test_training_approaches_the_optimum_on_real_data(shared_data):
    """Rank 200 takes minutes and is measured by benchmarks/sampled.py; rank 20 shows the trend."""
    train = od.read(shared_data("ml-1m-ultragcn") / "train.txt", format="adjacency")
    settings = {"dropout": 0.33, "l2": 300.0, "user_power": 0.0}
    best = od.LowRankDLAE(rank=20, dtype="float64", **settings).fit(train).objective_
    found = sampled.train(train, 20, epochs=6, batch_users=100, learning_rate=0.3, **settings)
    assert best < found.objective(od.gram(train, dtype="float64")) < 1.01 * best


def quick(**changes):
    words = {"dropout": 0.4, "l2": 2.0, "epochs": 3, "batch_users": 32, "seed": 1} | changes
    return sampled.train(od.synthetic.interactions(100, 20, 600, seed=0), words.pop("rank", 4), **words)


@pytest.mark.parametrize("rank", [4, None])
def test_training_depends_on_its_own_seed_only(rank):
    import torch

    before = torch.get_rng_state()
    once, again, other = quick(rank=rank), quick(rank=rank), quick(rank=rank, seed=2)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(once.U, again.U)
    assert np.array_equal(once.V, again.V)
    assert np.array_equal(once.losses, again.losses)
    assert not np.array_equal(once.U, other.U)


@pytest.mark.parametrize("rank", [4, None])
def test_training_continues_from_a_start(rank):
    first = quick(rank=rank, epochs=40)
    still = quick(rank=rank, start=(first.U, first.V), learning_rate=1e-6, epochs=1)
    assert np.allclose(still.U, first.U, atol=1e-5)
    assert np.allclose(still.V, first.V, atol=1e-5)
    more = quick(rank=rank, start=(first.U, first.V), epochs=1)
    assert more.losses[0] < 0.8 * quick(rank=rank, epochs=1).losses[0]


def test_the_work_is_reported_and_empty_users_cost_nothing():
    reported = []
    X = np.vstack([np.eye(5), np.zeros((3, 5))])
    found = sampled.train(X, 2, dropout=0.5, epochs=4, batch_users=3, progress=lambda *at: reported.append(at))
    assert [fraction for _, fraction in reported] == [0.25, 0.5, 0.75, 1.0]
    assert np.isfinite(found.losses).all()
    assert found.U.dtype == found.V.dtype == np.float32


def test_the_objective_takes_a_gram_of_the_same_user_weights():
    inter = od.synthetic.interactions(100, 20, 600, seed=0)
    found = quick(user_power=0.5)
    G = od.gram(inter, 0.5, dtype="float64")
    assert found.objective(G) == found.objective(G.toarray())
    with pytest.raises(OffdiagError, match=r"user_power=0\.5, the Gram was made with 0"):
        found.objective(od.gram(inter))


@pytest.mark.parametrize("name", sampled.REGULARISERS)
def test_a_regulariser_lowers_its_own_penalty_and_costs_objective(name):
    inter = od.synthetic.interactions(100, 20, 600, seed=0)
    G = od.gram(inter, dtype="float64").toarray()
    target = spreading.co_occurrence(G)
    measure = {"parseval": spreading.parseval, "spread-out": spreading.spread_out}
    plain, pushed = (quick(regulariser=name, strength=strength, epochs=60) for strength in (0.0, 1.0))
    penalty = [
        sum(float(measure[name](F) if name in measure else spreading.glas(F, target)) for F in (found.U, found.V))
        for found in (plain, pushed)
    ]
    assert penalty[1] < 0.7 * penalty[0]
    assert pushed.objective(G) > plain.objective(G)
    assert np.array_equal(quick(epochs=60).U, plain.U) or name == "glas"  # "glas" draws items, so other masks follow


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: quick(**{"regulariser": "l1", "strength": 1.0}), "regulariser must be 'parseval', 'spread-out' or 'glas'"),
    (lambda: quick(**{"regulariser": "glas", "strength": -1.0}), "strength must be a number"),
    (lambda: quick(**{"strength": 1.0}), "strength=1 needs a regulariser: parseval, spread-out, glas"),
    (lambda: quick(**{"regulariser": "glas", "strength": 1.0, "rank": None}), "needs a rank"),
    (lambda: quick(**{"rank": 0}), "rank must be a whole number of at least 1, or None for full rank, received 0"),
    (lambda: quick(**{"rank": 2.5}), "rank must be a whole number"),
    (lambda: quick(**{"dropout": 1.0}), r"dropout must be a number in \[0, 1\), received 1.0"),
    (lambda: quick(**{"dropout": float("nan")}), "dropout must be a number"),
    (lambda: quick(**{"dropout": 0.0, "kept_weight": 0.0}), "dropout must be above 0"),
    (lambda: quick(**{"kept_weight": 1.5}), "kept_weight must be a number in"),
    (lambda: quick(**{"l2": -1.0}), "l2 must be a number"),
    (lambda: quick(**{"user_power": float("inf")}), "user_power must be a finite number"),
    (lambda: quick(**{"epochs": 0}), "epochs must be a whole number of at least 1, received 0"),
    (lambda: quick(**{"batch_users": 1.5}), "batch_users must be a whole number"),
    (lambda: quick(**{"masks": True}), "masks must be a whole number"),
    (lambda: quick(**{"learning_rate": 0.0}), "learning_rate must be a positive number"),
    (lambda: quick(**{"learning_rate": 1e30}), "diverged at learning_rate=1e.30; use a smaller one"),
    (lambda: quick(**{"start": (np.ones((20, 3)), np.ones((20, 3)))}), r"received shapes \(20, 3\) and \(20, 3\)"),
    (lambda: quick(**{"start": (np.ones((20, 3)), np.ones((20, 2))), "rank": None}), "start must be two matrices"),
    (lambda: quick(**{"start": (np.ones((19, 4)), np.ones((20, 4)))}), "a row for each of 20 items"),
    (lambda: sampled.train(np.zeros((3, 3)), 1, dropout=0.5), "nothing to learn from"),
    (lambda: sampled.sample_loss(np.eye(3), np.eye(3), np.eye(3), dropout=0.5, draws=1), "draws must be at least 2"),
)


def test_the_error_without_torch_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        OffdiagError, match=r"needs torch, which is not installed; pip install torch.*offdiag\[neural\]"
    ):
        quick()


def test_torch_is_loaded_only_by_training():
    code = "import sys; from offdiag.lab import deep, sampled; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
