"""Errata of the papers that no other test shows, each by a small example; docs/theory/errata.md lists them all."""

import itertools

import numpy as np
import pytest

import offdiag as od
from benchmarks.peers import admm
from offdiag.lab import dropblock, dropout, dynamics, equalizer, landscape, montecarlo


def off(B):
    return B - np.diag(np.diag(B))


def test_e4_the_optimum_of_eq_10_has_negative_diagonal_entries():
    """The author's notebook clips them at 0."""
    inter = od.synthetic.interactions(600, 30, 6_000, seed=0)
    model = od.LowRankEDLAE(rank=8, dropout=0.3, l2=5.0, user_power=0.0, dtype="float64", iterations=300).fit(inter)
    assert np.sum(model.encoder_ * model.decoder_, axis=1).min() < -0.01


def test_e4_the_notebook_diverges_where_the_printed_admm_does_not():
    """Its U step inverts G + Λ, its V step G + Λ + Ω."""
    G = od.gram(od.synthetic.interactions(600, 30, 6_000, seed=0), dtype="float64").toarray()
    lam, g = admm.penalty(G, 0.1, 5.0), np.diag(G)
    Omega = lam + 50.0
    V = 1e-2 * np.random.default_rng(0).standard_normal((30, 8))
    beta, gamma, values = np.zeros(30), np.zeros(30), []
    for _ in range(40):
        shift, scaled = (Omega * (beta - gamma))[:, None], (1 + beta)[:, None]
        U = np.linalg.solve(G + np.diag(lam), G @ (scaled * V) + shift * V) @ np.linalg.inv(V.T @ V)
        V = (scaled * (G @ U) + shift * U) @ np.linalg.inv(U.T @ (G + np.diag(lam + Omega)) @ U)
        own = admm.row_dots(U, V)
        beta = np.maximum((admm.row_dots(G @ U, V) - g + Omega * (own + gamma)) / (g + Omega - lam), 0)
        gamma = gamma + own - beta
        values.append(admm.objective(G, lam, U, V))
    printed = admm.minimise(G, 8, dropout=0.1, l2=5.0, omega=50.0, iterations=40).objectives
    assert values[-1] > 100 * min(values)
    assert printed[-1] < 1.01 * min(printed)


def test_e7_without_dropout_and_with_full_emphasis_the_noisy_loss_is_zero():
    """EASE is the limit p → 0 of EDLAE, not p = 0: nothing is dropped, and what is kept does not count."""
    inter = od.synthetic.interactions(200, 12, 900, seed=0)
    kept, weight = montecarlo.emphasised(0.0, inter.matrix.shape, draws=3, rng=0, kept_weight=0.0)
    assert kept.all()
    assert not weight.any()
    same = {"l2": 5.0, "user_power": 0.0, "dtype": "float64"}
    ease, nearly = od.EASE(**same).fit(inter), od.EDLAE(dropout=1e-9, **same).fit(inter)
    assert np.allclose(ease.weights_.toarray(), nearly.weights_.toarray(), atol=1e-8)


def test_e9_the_threshold_of_the_theorem_needs_the_whole_denominator():
    sigma, width, lam = np.array([5.0, 3.0, 2.0, 1.0]), 4, 1.0
    best = dropout.optimum(np.diag(sigma), width, 0.5)
    rank = best.rank
    printed = np.maximum(sigma - lam * sigma[:rank].sum() / width, 0)  # only r below the line
    U, V = equalizer.balanced(np.eye(4), printed, np.eye(4), width)
    assert best.value == pytest.approx(15.29, abs=0.005)
    assert dropout.objective(np.diag(sigma), U, V, 0.5) == pytest.approx(19.75, abs=0.005)


def test_e9_the_shrunken_matrix_must_be_cut_to_the_width():
    sigma = np.array([5.0, 4.9, 4.8, 4.7])
    best = dropout.optimum(np.diag(sigma), 2, 0.5)
    assert best.rank == 2
    assert sigma[3] > best.threshold  # thresholding alone would leave all four


def test_e9_tied_weights_count_negative_eigenvalues_as_zero():
    M = np.diag([2.0, -3.0])
    best = dropout.optimum(M, 2, 0.5, tied=True)
    assert best.rank == 1
    assert np.linalg.eigvalsh(best.product)[0] >= 0
    assert best.value > dropout.optimum(M, 2, 0.5).value  # singular values would promise less


def test_e9_factors_are_padded_with_zero_columns_before_they_are_equalised():
    M = np.diag([5.0, 3.0, 2.0, 1.0])
    best = dropout.optimum(M, 4, 0.5)
    root = np.diag(np.sqrt(best.singular_values))
    Q = equalizer.equalize(root)  # only as many columns as the rank
    U, V = np.zeros((4, 4)), np.zeros((4, 4))
    U[: best.rank, : best.rank] = V[: best.rank, : best.rank] = root @ Q
    assert np.allclose(U @ V.T, best.product)
    assert dropout.objective(M, U, V, 0.5) == pytest.approx(18.01, abs=0.005)
    assert best.value == pytest.approx(15.29, abs=0.005)


def test_e12_only_what_the_inputs_can_explain_is_shrunk():
    """X with more samples than features; the formula on Y itself gives a value below every net."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((4, 20)), rng.standard_normal((5, 20))
    best = dropblock.optimum(Y, X, 6, 1, 0.5)
    sigma = np.linalg.svd(Y, compute_uv=False)
    kept = dropblock.prox(sigma, 1, 1 / 6)
    assert np.sum((sigma - kept) ** 2) + kept.sum() ** 2 / 6 < 0.9 * best.value
    assert dropblock.expected_loss(Y, best.U, best.V, X, 1, 0.5) == pytest.approx(best.value)


def test_e14_corollary_3_2_needs_the_odds_of_dropping():
    rng = np.random.default_rng(0)
    Y, U, A, keep = rng.standard_normal((3, 5)), rng.standard_normal((3, 4)), rng.standard_normal((4, 5)), 0.3
    masks, chances = montecarlo.enumerate_masks(4, drop=1 - keep)
    mean = montecarlo.exact_mean(lambda z: np.sum((Y - U @ ((z / keep)[:, None] * A)) ** 2), masks, chances)
    fit, squares = np.sum((Y - U @ A) ** 2), np.sum(np.sum(U**2, axis=0) * np.sum(A**2, axis=1))
    assert mean == pytest.approx(fit + (1 - keep) / keep * squares)
    assert mean != pytest.approx(fit + squares, rel=0.05)


def test_e14_proposition_3_3_needs_one_over_the_width():
    Y, d = np.random.default_rng(0).standard_normal((5, 9)), 12
    sigma = np.linalg.svd(Y, compute_uv=False)
    values = []
    for beta in (1 / d, 1.0):
        kept = dropblock.prox(sigma, 1, beta)
        values.append(np.sum((sigma - kept) ** 2) + beta * kept.sum() ** 2)
    best = dropblock.optimum(Y, np.eye(9), d, 1, 0.5).value
    assert values[0] == pytest.approx(best)
    assert values[1] > 1.5 * best


def test_e15_the_noise_term_belongs_inside_the_factor():
    rng = np.random.default_rng(0)
    X, W1, W2 = rng.standard_normal((25, 4)), rng.standard_normal((3, 4)), rng.standard_normal((4, 3))
    drawn = dynamics.sample_loss(X, W1, W2, 0.5, draws=2000)
    fit = np.sum((X - X @ (W2 @ W1).T) ** 2) / (2 * len(X))
    noise = 0.5 * np.sum((W2 @ W1) ** 2)
    assert abs(drawn.mean - (fit + noise / 2)) < 4 * drawn.standard_error
    assert abs(drawn.mean - (fit + len(X) * noise)) > 100 * drawn.standard_error  # N·s²·tr outside 1/(2N)


def test_j3_eq_10_has_no_minimiser_on_a_hub_of_three_items():
    """Rank 1 comes as close to the full-rank optimum as one likes, with a diagonal entry that grows without bound."""
    C = np.array([[1.0, -0.4, -0.4], [-0.4, 1.0, 0.0], [-0.4, 0.0, 1.0]])
    H, l2 = np.linalg.inv(C), 0.3
    G = H - l2 * np.eye(3)

    def loss(B):
        return np.trace(G) - 2 * np.trace(G @ off(B)) + np.trace(off(B).T @ H @ off(B))

    best = np.sum(1 / np.diag(C) - l2)
    hub, leaf = np.array([1.0, 0, 0]), np.array([0.0, 0.4, 0.4])
    above = [loss(np.outer(hub + eps * leaf, leaf + hub / eps)) - best for eps in (1.0, 0.1, 0.01, 1e-3)]
    assert all(a > b > 0 for a, b in itertools.pairwise(above))
    assert above[-1] < 1e-6
    rng = np.random.default_rng(0)
    assert min(loss(np.outer(*rng.standard_normal((2, 3)))) for _ in range(1000)) > best


def test_lemma_d_1_needs_a_positive_semidefinite_target():
    M = np.diag([2.0, 1.0, -3.0])
    assert not landscape.gradient(M, np.zeros((3, 2)), 0.3).any()  # U = 0 is critical
    assert np.linalg.eigvalsh(M - 0)[0] < 0  # and UUᵀ ⪯ M is false


def test_lemma_d_2_lacks_lambda_before_its_quartic_terms():
    rng = np.random.default_rng(0)
    U, M, lam, t = rng.standard_normal((3, 2)), np.eye(3), 0.25, 0.3
    c = np.sqrt(1 - t**2)
    moved = np.column_stack([c * U[:, 0] + t * U[:, 1], c * U[:, 1] - t * U[:, 0]])
    change = np.sum(np.sum(moved**2, axis=0) ** 2) - np.sum(np.sum(U**2, axis=0) ** 2)
    rise = landscape.value(M, moved, lam / (1 + lam)) - landscape.value(M, U, lam / (1 + lam))
    assert rise == pytest.approx(lam * change)
    assert rise != pytest.approx(change, rel=0.1)


def test_lemma_d_3_case_2_starts_from_the_penalty_and_case_3_counts_once():
    sigma, lam, t, r = np.array([2.0, 1.0]), 0.5, 0.1, 2
    R = lam / r * np.sum(sigma**2) ** 2
    moved = lam / r * np.sum(sigma**2 + t**2) ** 2
    rest = lam * r * t**4 + 2 * lam * t**2 * np.sum(sigma**2)
    assert moved == pytest.approx(R + rest)  # in print: ℓ(U) + rest
    M, s = np.diag([3.0, 1.0]), 0.8
    U = np.array([[0.0], [np.sqrt(s)]])
    turned = np.sqrt(s) * np.array([[t], [np.sqrt(1 - t**2)]])
    fall = landscape.value(M, turned, 0.3) - landscape.value(M, U, 0.3)
    w = turned / np.sqrt(s)
    gain = float((w.T @ M @ w)[0, 0]) - 1.0  # already of order t²
    assert fall == pytest.approx(-2 * s * gain)
    assert fall != pytest.approx(-2 * s * t**2 * gain, rel=0.1)


def test_eq_37_squares_the_variable_not_the_entry():
    """Its second line prints a_ρ²; the third follows from x_ρ² only."""
    a, order, rho = np.array([5.0, 2.0, 1.5, 1.0]), 3, 2
    tail = a[rho - 1 :].sum()
    x = 2 * tail / (order - rho + 1)
    third = np.sum(a[: rho - 1] ** 2) + tail**2 / (order - rho + 1)

    def second(square):
        return np.sum(a[: rho - 1] ** 2) + x * tail - (order - rho + 1) / 4 * square

    assert second(x**2) == pytest.approx(third) == pytest.approx(dropblock.k_support_squared(a, order))
    assert second(a[rho - 1] ** 2) != pytest.approx(third, rel=0.1)
