"""Dropout in deep linear nets: the recursion against every mask, sampling and closed forms."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.lab import deep
from tests.fixtures.mistakes import rejects
from tests.laws import oracles, oracles_low_rank


def every_mask(X, weights, dropouts):
    """E‖X − net(X)‖² from the definition: all masks of all layers, each with its probability."""

    def expected(x, values, layer):
        if layer == len(weights):
            return float(((x - values) ** 2).sum())
        p, total = dropouts[layer], 0.0
        for mask in itertools.product([0.0, 1.0], repeat=len(values)):
            kept = np.array(mask)
            chance = np.prod(np.where(kept == 1, 1 - p, p))
            if chance:
                total += chance * expected(x, (values * kept / (1 - p)) @ weights[layer], layer + 1)
        return total

    return sum(expected(x, x, 0) for x in X)


def net(seed, m, widths, users=4):
    rng = np.random.default_rng(seed)
    sizes = [m, *widths, m]
    X = rng.standard_normal((users, m)) * (rng.random((users, m)) < 0.7)
    return X, X.T @ X, [rng.standard_normal(shape) for shape in itertools.pairwise(sizes)]


chances = st.sampled_from([0.0, 0.1, 0.5, 0.9])


@st.composite
def tiny_nets(draw, max_hidden=2):
    """At most 9 nodes that can be dropped, so there are at most 512 masks."""
    m = draw(st.integers(1, 3))
    widths = draw(st.lists(st.integers(1, 3), max_size=max_hidden))
    X, G, weights = net(draw(st.integers(0, 2**32 - 1)), m, widths, users=2)
    return X, G, weights, [draw(chances) for _ in weights]


@given(tiny_nets())
def test_the_recursion_is_the_mean_over_every_mask(tiny):
    X, G, weights, dropouts = tiny
    truth = every_mask(X, weights, dropouts)
    assert deep.expected_loss(G, weights, dropouts) == pytest.approx(truth, rel=1e-10, abs=1e-10)


@given(tiny_nets())
def test_the_split_adds_up_and_no_part_is_negative(tiny):
    X, G, weights, dropouts = tiny
    split = deep.regulariser(G, weights, dropouts)
    B = np.linalg.multi_dot([*weights, np.eye(len(G))])
    assert split.reconstruction == pytest.approx(((X - X @ B) ** 2).sum(), rel=1e-9, abs=1e-9)
    assert (split.penalties >= 0).all()
    assert all(part == 0 for part, p in zip(split.penalties, dropouts, strict=True) if p == 0)
    truth = every_mask(X, weights, dropouts)
    assert split.reconstruction + split.penalty == pytest.approx(truth, rel=1e-9, abs=1e-9)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 7),
    st.lists(st.integers(1, 6), max_size=3),
    st.data(),
    st.sampled_from([0.0, 0.7]),
)
def test_the_gradient_is_that_of_finite_differences(seed, m, widths, data, l2):
    _, G, weights = net(seed, m, widths)
    dropouts = [data.draw(chances) for _ in weights]
    slopes = deep.gradient(G, weights, dropouts, l2=l2)
    rng = np.random.default_rng(seed)
    for layer, slope in enumerate(slopes):
        assert slope.shape == weights[layer].shape
        towards = rng.standard_normal(slope.shape)
        # the loss is quadratic in one layer, so a central difference has only rounding error
        near = [
            deep.expected_loss(G, [*weights[:layer], weights[layer] + step, *weights[layer + 1 :]], dropouts, l2=l2)
            for step in (towards, -towards)
        ]
        scale = max(abs(near[0]), abs(near[1]), 1e-300)
        assert np.sum(slope * towards) == pytest.approx((near[0] - near[1]) / 2, abs=1e-10 * scale)


@pytest.mark.parametrize("dropouts", [(0.4, 0.3, 0.0), (0.4, 0.3, 0.5), (0.0, 0.2, 0.0), (0.6, 0.0, 0.1)])
def test_sampling_finds_the_same_within_four_standard_errors(dropouts):
    X, G, weights = net(3, 6, [4, 5], users=20)
    weights = [W / np.sqrt(len(W)) for W in weights]
    found = deep.sample_loss(X, weights, dropouts, draws=4000, seed=1)
    exact = deep.expected_loss(G, weights, dropouts)
    assert 0 < found.standard_error < 0.02 * exact
    assert abs(found.mean - exact) < 4 * found.standard_error
    assert found.draws == 4000


def test_sampling_depends_on_its_seed_and_has_a_standard_error():
    X, G, weights = net(4, 4, [3], users=5)
    runs = [deep.sample_loss(X, weights, (0.5, 0.2), draws=50, seed=seed) for seed in range(200)]
    assert deep.sample_loss(X, weights, (0.5, 0.2), draws=50, seed=7) == runs[7]
    off = (np.array([r.mean for r in runs]) - deep.expected_loss(G, weights, (0.5, 0.2))) / [
        r.standard_error for r in runs
    ]
    assert 0.8 < off.std() < 1.3  # the spread matches the standard error
    assert deep.sample_loss(X, weights, (0.0, 0.0), draws=3).standard_error == 0


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_one_layer_with_dropout_gives_the_term_of_the_supplement(layer):
    X, G, weights = net(5, 6, [4, 3])
    dropouts = [0.0, 0.0, 0.0]
    dropouts[layer] = 0.35
    inputs, tail = X, np.eye(6)
    for W in weights[:layer]:
        inputs = inputs @ W
    for W in reversed(weights[layer:]):
        tail = W @ tail
    term = 0.35 / 0.65 * (np.diag(inputs.T @ inputs)[:, None] * tail**2).sum()
    printed = deep.one_layer_penalties(G, weights, dropouts)
    assert printed == pytest.approx([term if at == layer else 0.0 for at in range(3)])
    assert deep.regulariser(G, weights, dropouts).penalties == pytest.approx(printed)


def test_with_several_layers_the_printed_terms_are_too_small():
    """The terms were derived one layer at a time; noise of an early layer is itself dropped and amplified later."""
    X, G, weights = net(6, 5, [2, 2], users=3)
    for dropouts in [(0.4, 0.3, 0.0), (0.4, 0.3, 0.5), (0.0, 0.3, 0.5)]:
        exact, printed = deep.regulariser(G, weights, dropouts), deep.one_layer_penalties(G, weights, dropouts)
        truth = every_mask(X, weights, dropouts)
        assert exact.reconstruction + exact.penalty == pytest.approx(truth, rel=1e-10)
        assert exact.reconstruction + printed.sum() < truth - 0.02 * exact.penalty
        first = np.flatnonzero(dropouts)[0]
        assert exact.penalties[first] == pytest.approx(printed[first])  # no noise before it
        assert (exact.penalties >= printed * (1 - 1e-12)).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([0.0, 0.3, 0.8]), st.sampled_from([0.0, 2.5]))
def test_one_layer_is_the_objective_of_denoising(seed, m, dropout, l2):
    _, G, weights = net(seed, m, [])
    truth = oracles.objective(G, weights[0], dropout, l2, b=1.0)
    assert deep.expected_loss(G, weights, [dropout], l2=l2) == pytest.approx(truth, rel=1e-10)
    slope = deep.gradient(G, weights, [dropout], l2=l2)[0]
    assert slope == pytest.approx(oracles.gradient(G, weights[0], dropout, l2, b=1.0), rel=1e-9, abs=1e-9)


def test_without_dropout_it_is_the_plain_loss():
    X, G, weights = net(7, 6, [5, 4, 3])
    plain = ((X - X @ np.linalg.multi_dot(weights)) ** 2).sum()
    assert deep.expected_loss(G, weights, [0] * 4) == pytest.approx(plain)
    assert deep.regulariser(G, weights, [0] * 4).penalty == 0
    more = deep.expected_loss(G, weights, [0] * 4, l2=2.0) - plain
    assert more == pytest.approx(2 * (np.linalg.multi_dot(weights) ** 2).sum())


def test_splitting_a_layer_with_the_identity_changes_nothing():
    _, G, weights = net(8, 5, [3])
    longer = [weights[0], np.eye(3), weights[1]]
    once = deep.expected_loss(G, weights, [0.3, 0.5])
    assert deep.expected_loss(G, longer, [0.3, 0.5, 0.0]) == pytest.approx(once)
    assert deep.expected_loss(G, longer, [0.3, 0.0, 0.5]) == pytest.approx(once)


def small_gram():
    return od.gram(od.synthetic.interactions(400, 40, 4000, seed=2), dtype="float64")


@pytest.mark.parametrize(("dropout", "l2"), [(0.5, 0.0), (0.3, 20.0)])
@pytest.mark.parametrize("rank", [1, 5])
def test_a_net_with_dropout_at_its_input_reaches_the_low_rank_optimum(dropout, l2, rank):
    G = small_gram()
    found = deep.fit(G, [rank], [dropout, 0.0], l2=l2, seed=3)
    dense = G.toarray()
    assert found.converged
    assert found.loss == pytest.approx(oracles_low_rank.dlae_optimum(dense, rank, dropout, l2), rel=1e-7)
    assert oracles.objective(dense, found.B, dropout, l2, b=1.0) == pytest.approx(found.loss, rel=1e-10)
    deeper = deep.fit(dense, [8, rank, 8], [dropout, 0.0, 0.0, 0.0], l2=l2, seed=4)  # depth adds nothing but work
    assert deeper.loss == pytest.approx(found.loss, rel=1e-4)


def test_fitting_with_dropout_inside_ends_where_no_layer_can_improve():
    G = small_gram()
    found = deep.fit(G, [6, 4], [0.3, 0.2, 0.1])
    assert found.loss == pytest.approx(deep.expected_loss(G, found.weights, [0.3, 0.2, 0.1]))
    slopes = deep.gradient(G, found.weights, [0.3, 0.2, 0.1])
    assert max(np.abs(slope).max() for slope in slopes) < 1e-4 * np.trace(G.toarray())
    # hidden noise has a cost: more than with noise at the input alone, less than with no model at all
    assert oracles_low_rank.dlae_optimum(G.toarray(), 4, 0.3, 0.0) < found.loss < np.trace(G.toarray())
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = [W + 0.01 * rng.standard_normal(W.shape) for W in found.weights]
        assert deep.expected_loss(G, near, [0.3, 0.2, 0.1]) > found.loss


def test_a_fit_depends_on_its_seed_and_stops_at_its_limit():
    G = small_gram()
    once, again = (deep.fit(G, [3], [0.4, 0.1], seed=5, iterations=7) for _ in range(2))
    assert once.iterations == 7
    assert not once.converged
    assert all(np.array_equal(a, b) for a, b in zip(once.weights, again.weights, strict=True))
    assert deep.fit(G, [3], [0.4, 0.1], seed=6, iterations=7).loss != once.loss


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_precision_and_a_gram_are_accepted(dtype):
    inter = od.synthetic.interactions(50, 8, 150, seed=0)
    G = od.gram(inter, dtype=dtype)
    W = np.random.default_rng(0).standard_normal((8, 8)).astype(dtype)
    truth = oracles.objective(oracles.gram(inter.matrix.toarray()), W.astype(np.float64), 0.5, 0.0, 1.0)
    assert deep.expected_loss(G, [W], [0.5]) == pytest.approx(truth, rel=oracles.TOLERANCE[dtype])


I3 = np.eye(3)


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: deep.expected_loss(I3, [], []), "at least one weight matrix"),
    (lambda: deep.expected_loss(np.ones((3, 2)), [I3], [0.5]), "G = XᵀX must be square, received 3×2"),
    (lambda: deep.expected_loss(np.triu(np.ones((3, 3))), [I3], [0.5]), "must be symmetric"),
    (lambda: deep.expected_loss(np.ones(3), [I3], [0.5]), r"G must be a matrix of numbers, received shape \(3,\)"),
    (lambda: deep.expected_loss(np.full((3, 3), np.nan), [I3], [0.5]), "G holds NaN"),
    (lambda: deep.expected_loss(I3, [np.ones((3, 2))], [0.5]), "W_1 must be 3×3 .* received 3×2"),
    (lambda: deep.gradient(I3, [I3, np.ones((2, 3))], [0, 0]), "W_2 must be 3×3 .* received 2×3"),
    (lambda: deep.gradient(I3, [I3, np.full((3, 3), np.inf)], [0, 0]), "W_2 holds NaN or infinite"),
    (lambda: deep.regulariser(I3, [I3], [0.5, 0.5]), "1 expected, 2 received"),
    (lambda: deep.regulariser(I3, [I3], [1.0]), r"dropout must be a number in \[0, 1\), received 1.0"),
    (lambda: deep.one_layer_penalties(I3, [I3], [-0.1]), "received -0.1"),
    (lambda: deep.one_layer_penalties(I3, [I3], ["auto"]), "received 'auto'"),
    (lambda: deep.expected_loss(I3, [I3], [float("nan")]), "received nan"),
    (lambda: deep.expected_loss(I3, [I3], [0.5], l2=-1.0), "l2 must be a number"),
    (lambda: deep.sample_loss(I3, [I3], [0.5], draws=1), "draws must be at least 2"),
    (lambda: deep.sample_loss(I3, [np.eye(2)], [0.5], draws=5), "W_1 must be 3×3"),
    (lambda: deep.fit(I3, [0], [0.5, 0.0]), "widths must be whole numbers of at least 1"),
    (lambda: deep.fit(I3, [2.5], [0.5, 0.0]), "widths must be whole numbers"),
    (lambda: deep.fit(I3, [2], [0.5]), "2 expected, 1 received"),
    (lambda: deep.fit(np.zeros((3, 3)), [2], [0.5, 0.0]), "nothing to learn from"),
)
