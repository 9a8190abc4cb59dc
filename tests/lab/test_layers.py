"""Torch layers: their noise has the right moments, and the exact term is the mean over their draws."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from offdiag.lab import dropblock, dropconnect, layers
from tests.fixtures.mistakes import rejects

torch = pytest.importorskip("torch")


def moments(module, width, draws=40_000):
    torch.manual_seed(0)
    with torch.no_grad():
        z = module(torch.ones((draws, width), dtype=torch.float64)).numpy()
    return z.mean(0), np.cov(z.T), np.sqrt(draws)


def cov_errors(found, truth):
    """Entry by entry, in units of the spread of z."""
    return np.abs(found - truth) / np.sqrt(np.outer(np.diag(truth), np.diag(truth)))


@pytest.mark.parametrize("overlap", [False, True])
def test_dropblock_has_the_mean_and_covariance_of_the_theory(overlap):
    mean, cov, root = moments(layers.DropBlock1d(3, 0.4, overlap=overlap), 6)
    truth = dropblock.overlapping(0.6, 3).cov(6) / 0.36 if overlap else dropblock.characteristic(6, 3, 0.4)
    assert mean == pytest.approx(np.ones(6), abs=4 * np.sqrt(truth[0, 0]) / root)
    assert cov_errors(cov, truth).max() < 6 / root


def test_dropblock_drops_whole_blocks_and_nothing_in_evaluation():
    layer = layers.DropBlock1d(2, 0.5)
    x = torch.randn((50, 3, 8))
    y = layer(x)
    ratio = (y / x).reshape(50, 3, 4, 2)
    assert torch.allclose(ratio[..., 0], ratio[..., 1])
    assert set(ratio.round(decimals=3).unique().tolist()) == {0.0, 2.0}
    assert layer.eval()(x) is x
    assert layers.DropBlock1d(2, 0.0)(x) is x
    assert "block=2, drop=0.5" in repr(layer)


def random_cov(seed, d):
    A = np.random.default_rng(seed).standard_normal((d, d))
    return A @ A.T / d + 0.2 * np.eye(d)


def test_structured_dropout_has_the_moments_it_was_given():
    cov, mean = random_cov(0, 4), np.array([1.0, -0.5, 2.0, 0.8])
    found_mean, found_cov, root = moments(layers.StructuredDropout(cov, mean), 4)
    truth = cov / np.outer(mean, mean)
    assert (np.abs(found_mean - 1) < 4 * np.sqrt(np.diag(truth)) / root).all()
    assert cov_errors(found_cov, truth).max() < 6 / root
    layer = layers.StructuredDropout(np.ones((3, 3)), 1.0)  # of rank 1: all units move together
    y = layer(torch.ones((5, 3)))
    assert torch.allclose(y, y[:, :1].expand_as(y), atol=1e-6)
    assert torch.equal(layer.eval()(y), y)


def test_structured_dropout_takes_a_sampler():
    keep = 0.7
    layer = layers.StructuredDropout(
        0.21 * np.eye(3), keep, sampler=lambda rows: (torch.rand((rows, 3)) < keep).double()
    )
    found_mean, found_cov, root = moments(layer, 3)
    assert found_mean == pytest.approx(np.ones(3), abs=4 * 0.7 / root)
    assert cov_errors(found_cov, np.eye(3) * 0.3 / 0.7).max() < 6 / root


def test_the_exact_penalty_is_the_mean_over_every_mask():
    rng = np.random.default_rng(1)
    X, V, U, Y = (rng.standard_normal(s) for s in ((5, 7), (5, 6), (4, 6), (4, 7)))
    A = V.T @ X
    cov = dropblock.characteristic(6, 2, 0.3)
    found = layers.exact_penalty(torch.tensor(U), torch.tensor(A.T), cov * 0.49, 0.7)
    plain = np.sum((Y - U @ A) ** 2)
    assert float(found) == pytest.approx(dropblock.expected_loss(Y, U, V, X, 2, 0.3) - plain, rel=1e-10)
    total = 0.0
    for mask in itertools.product([0, 1], repeat=3):
        chance = np.prod(np.where(mask, 0.7, 0.3))
        total += chance * np.sum((Y - (U * np.repeat(mask, 2) / 0.7) @ A) ** 2)
    assert float(found) == pytest.approx(total - plain, rel=1e-10)


def test_the_exact_penalty_takes_a_mean_per_unit():
    rng = np.random.default_rng(2)
    W, A, masks, chances = rng.random((3, 4)), rng.random((5, 4)), rng.random((9, 4)), rng.dirichlet(np.ones(9))
    mean = chances @ masks
    cov = (masks * chances[:, None]).T @ masks - np.outer(mean, mean)
    spread = sum(c * np.sum((A * (z / mean) @ W.T - A @ W.T) ** 2) for c, z in zip(chances, masks, strict=True))
    found = layers.StructuredDropout(cov, mean).penalty(torch.tensor(W), torch.tensor(A))
    assert found.item() == pytest.approx(spread, rel=1e-10)


def test_gradients_of_the_exact_penalty_pass_gradcheck():
    torch.manual_seed(1)
    weight, rows = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (5, 4)))
    cov, mean = random_cov(2, 4), np.array([1.0, 0.5, 2.0, -1.0])
    assert torch.autograd.gradcheck(lambda w, a: layers.exact_penalty(w, a, cov, mean), (weight, rows))


def hidden_net(seed):
    torch.manual_seed(seed)
    body = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh()).double()
    return body, torch.nn.Linear(6, 3).double()


@pytest.mark.parametrize("kind", ["gaussian", "block"])
def test_the_exact_gradient_is_the_mean_gradient_of_many_draws(kind):
    """In any network: tanh before, linear and biased after; the gradient reaches the layers before the noise."""
    body, head = hidden_net(3)
    x, y = torch.randn((4, 5), dtype=torch.float64), torch.randn((4, 3), dtype=torch.float64)
    cov = torch.tensor(random_cov(4, 6)) if kind == "gaussian" else torch.tensor(dropblock.characteristic(6, 3, 0.4))
    noise = layers.StructuredDropout(cov) if kind == "gaussian" else layers.DropBlock1d(3, 0.4)
    parameters = [*body.parameters(), *head.parameters()]
    loss = torch.sum((head(body(x)) - y) ** 2) + layers.exact_penalty(head.weight, body(x), cov)
    exact = torch.cat([g.ravel() for g in torch.autograd.grad(loss, parameters)])
    draws, samples = 3000, []
    for _ in range(20):  # means of 3,000 draws each
        hidden = body(x).expand(draws, -1, -1)
        drawn = torch.sum((head(noise(hidden)) - y) ** 2) / draws
        samples.append(torch.cat([g.ravel() for g in torch.autograd.grad(drawn, parameters)]))
    samples = torch.stack(samples)
    error = samples.std(0) / np.sqrt(20)
    assert bool(((samples.mean(0) - exact).abs() < 5 * error + 1e-12).all())
    assert float(((samples.mean(0) - exact) / (error + 1e-12)).abs().mean()) < 2


def test_dropconnect_is_unbiased_and_its_mean_loss_that_of_the_lab():
    torch.manual_seed(5)
    layer = layers.DropConnectLinear(4, 3, 0.4, bias=False).double()
    X, Y = torch.randn((4, 6), dtype=torch.float64), torch.randn((2, 6), dtype=torch.float64)
    U = torch.randn((2, 3), dtype=torch.float64)
    with torch.no_grad():
        losses = np.array([float(torch.sum((Y - U @ layer(X.T).T) ** 2)) for _ in range(20_000)])
    truth = dropconnect.expected_loss(Y.numpy(), U.numpy(), layer.weight.detach().numpy().T, X.numpy(), 0.4)
    assert abs(losses.mean() - truth) < 4 * losses.std() / np.sqrt(len(losses))
    assert torch.equal(layer.eval()(X.T), X.T @ layer.weight.T)
    assert "drop=0.4" in repr(layer)


def test_dropconnect_passes_gradients_to_what_was_kept_only():
    torch.manual_seed(6)
    layer = layers.DropConnectLinear(6, 5, 0.5)
    layer(torch.ones((1, 6))).sum().backward()
    slopes = set(layer.weight.grad.unique().tolist())
    assert slopes == {0.0, 2.0}
    assert bool((layer.bias.grad == 1).all())


@pytest.mark.parametrize(("dropped", "kept_weight"), [(1.0, 0.0), (1.0, 0.4), (1.0, 1.0), (0.5, 2.0)])
def test_the_emphasized_loss_of_a_linear_net_is_w_times_the_objective(dropped, kept_weight):
    """Its mean over every mask is w·J with w = a·p + b·q and s = b/w, the formula of docs/theory/diagonal.md."""
    rng = np.random.default_rng(7)
    X, B, p = rng.integers(0, 2, (3, 3)).astype(float), rng.standard_normal((3, 3)), 0.3
    q = 1 - p
    w = dropped * p + kept_weight * q
    total = 0.0
    for mask in itertools.product([0, 1], repeat=3):
        kept = np.tile(np.array(mask, dtype=bool), (3, 1))  # all rows at once: rows add up, so one mask serves all
        out = (X * kept / q) @ B
        chance = np.prod(np.where(mask, q, p))
        arrays = (torch.tensor(v) for v in (X, out, kept))
        total += chance * float(layers.emphasized_loss(*arrays, dropped, kept_weight)) * len(X)
    g = np.diag(X.T @ X)
    diagonal = np.diag(np.diag(B))
    off, odds = B - diagonal, p / q * g
    s = kept_weight / w
    J = np.sum((X - X @ (off + s * diagonal)) ** 2) + np.sum(odds[:, None] * off**2)
    J += dropped * kept_weight / w**2 * np.sum(odds * np.diag(B) ** 2)
    assert total == pytest.approx(w * J, rel=1e-10)


def test_the_emphasized_loss_is_a_mean_over_rows_and_differentiable():
    x, kept = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[True, False], [False, True]])
    out = torch.zeros((2, 2), requires_grad=True)
    assert layers.emphasized_loss(x, out, kept, 3, 0.5).item() == pytest.approx(0.5)
    assert layers.emphasized_loss(x, out, ~kept, 3, 0.5).item() == pytest.approx(3)
    layers.emphasized_loss(x, out, kept, 3, 0.5).backward()
    assert torch.equal(out.grad, torch.tensor([[-0.5, 0.0], [0.0, -0.5]]))


def test_names_resolve_on_first_use_and_importing_needs_no_torch():
    assert issubclass(layers.DropBlock1d, torch.nn.Module)
    assert layers.DropBlock1d is layers.DropBlock1d
    assert set(dir(layers)) >= {"DropBlock1d", "DropConnectLinear", "StructuredDropout", "exact_penalty"}
    with pytest.raises(AttributeError, match="nonsense"):
        layers.nonsense  # noqa: B018
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from offdiag.lab import layers\n"
        "try: layers.DropBlock1d(2, 0.5)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "OffdiagError the layers need torch" in ran.stdout
    assert "offdiag[neural]" in ran.stdout


def test_a_layer_survives_saving(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(layers.DropConnectLinear(3, 4, 0.2), layers.DropBlock1d(2, 0.1), torch.nn.Linear(4, 2))
    torch.save(net, tmp_path / "net.pt")
    again = torch.load(tmp_path / "net.pt", weights_only=False).eval()
    assert torch.equal(again(torch.ones((1, 3))), net.eval()(torch.ones((1, 3))))


X2 = torch.ones((2, 2))


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: layers.DropBlock1d(0, 0.5), "block must be a whole number of at least 1, received 0"),
    (lambda: layers.DropBlock1d(2, 1.0), r"must be a number in \[0, 1\), received 1.0"),
    (lambda: layers.DropBlock1d(3, 0.5)(torch.ones((1, 4))), "received width 4 and block 3"),
    (lambda: layers.DropConnectLinear(3, 0, 0.5), "out_features must be a whole number"),
    (lambda: layers.DropConnectLinear(3, 2, -0.1), "received -0.1"),
    (lambda: layers.StructuredDropout(np.ones(3)), "cov must be square and symmetric"),
    (lambda: layers.StructuredDropout(-np.eye(3)), "no negative eigenvalue"),
    (lambda: layers.StructuredDropout(np.eye(3), 0.0), "mean must not be 0"),
    (lambda: layers.StructuredDropout(np.full((2, 2), np.nan)), "cov holds NaN"),
    (lambda: layers.StructuredDropout(np.eye(3), np.ones(2)), "hold 3 of them"),
    (lambda: layers.StructuredDropout(np.eye(3))(X2), r"3 wide, as cov is, received \(2, 2\)"),
    (lambda: layers.StructuredDropout(np.eye(2), 1.0, lambda rows: torch.ones(3))(X2), r"sampler\(2\) must be 2×2"),
    (lambda: layers.exact_penalty(torch.ones((3, 3)), X2, np.eye(2)), r"weight must be \(out, 2\)"),
    (lambda: layers.exact_penalty(X2, X2, np.eye(3)), "cov must be 2×2"),
    (lambda: layers.emphasized_loss(X2, X2, torch.ones(2), 1, 0), "must have one shape"),
    (lambda: layers.emphasized_loss(X2, X2, X2, -1, 0), "dropped_weight must be a number"),
    (lambda: layers.emphasized_loss(X2, X2, X2, 1, "a"), "kept_weight must be a number .* received 'a'"),
    (lambda: layers.emphasized_loss(X2[:0], X2[:0], X2[:0], 1, 0), r"at least one entry, received \(0, 2\)"),
    (lambda: layers.emphasized_loss(X2[:, :0], X2[:, :0], X2[:, :0], 1, 0), "at least one entry"),
    (lambda: layers.exact_penalty(X2, X2[:0], np.eye(2)), r"at least one entry, received \(0, 2\)"),
    (lambda: layers.exact_penalty(X2[:, :0], X2[:, :0], np.eye(2)), "at least one entry"),
    (lambda: layers.exact_penalty(X2, "a", np.eye(2)), "activations must be an array of numbers"),
    (lambda: layers.exact_penalty([[1.0], [1.0, 2.0]], X2, np.eye(2)), "weight must be an array .* equal length"),
    (lambda: layers.exact_penalty(X2 * 1j, X2, np.eye(2)), "weight must be real"),
    (lambda: layers.StructuredDropout("a"), "cov must be an array of numbers"),
    (lambda: layers.StructuredDropout(np.eye(0)), r"cov must be square .* \(0, 0\)"),
    (lambda: layers.DropBlock1d(2, 0.5)(torch.tensor(1.0)), "at least one axis"),
    (lambda: layers.StructuredDropout(np.eye(2))(torch.tensor(1.0)), r"2 wide, as cov is, received \(\)"),
)


def test_arrays_lists_and_layers_are_accepted_and_gradients_flow():
    rng = np.random.default_rng(3)
    W, A, C = rng.standard_normal((2, 3)), rng.standard_normal((5, 3)), random_cov(4, 3)
    truth = float(layers.exact_penalty(torch.tensor(W), torch.tensor(A), C))
    assert float(layers.exact_penalty(W, A, C)) == truth
    assert float(layers.exact_penalty(W.tolist(), A.tolist(), C.tolist())) == truth
    linear = torch.nn.Linear(3, 2)
    loss = layers.exact_penalty(linear, A, C)
    assert loss.item() == pytest.approx(layers.exact_penalty(linear.weight, A, C).item(), rel=1e-6)
    loss.backward()
    assert linear.weight.grad.abs().sum() > 0
    kept = rng.random((5, 3)) < 0.5
    found = layers.emphasized_loss(A, np.zeros((5, 3)), kept, np.float32(1), np.float32(0.25))
    assert float(found) == pytest.approx(np.sum(np.where(kept, 0.25, 1.0) * A**2) / 5)
