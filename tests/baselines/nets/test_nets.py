"""Mult-DAE, Mult-VAE and CDAE: their losses and gradients, early stopping, checkpoints, and scoring without torch."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logsumexp

import offdiag as od
from offdiag.baselines.nets import cdae, early_stopping, mult, training
from offdiag.weights import Network
from offdiag.weights.networks import ACTIVATIONS
from tests.laws.strategies import interactions

torch = pytest.importorskip("torch")
FEW = {"epochs": 4, "batch_users": 100, "learning_rate": 1e-2}
SMALL = {
    "MultDAE": lambda **kw: od.MultDAE(**(FEW | {"rank": 8} | kw)),
    "MultDAE deep": lambda **kw: od.MultDAE(**(FEW | {"rank": 6, "width": 9, "depth": 2} | kw)),
    "MultVAE": lambda **kw: od.MultVAE(**(FEW | {"rank": 6, "width": 12} | kw)),
    "MultVAE flat": lambda **kw: od.MultVAE(**(FEW | {"rank": 6, "depth": 0} | kw)),
    "CDAE": lambda **kw: od.CDAE(**(FEW | {"width": 8} | kw)),
    "CDAE squared": lambda **kw: od.CDAE(**(FEW | {"width": 8, "activation": "sigmoid", "loss": "squared"} | kw)),
}
every_net = pytest.mark.parametrize("make", SMALL.values(), ids=SMALL.keys())


@pytest.fixture(scope="module")
def split():
    return od.split.strong(od.synthetic.interactions(900, 120, 20_000, seed=1), held_out=0.2, seed=0)


def data(n=9, m=7, seed=0, counts=False):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < 0.5).astype(np.float32) * (rng.integers(1, 5, (n, m)) if counts else 1)
    X[:, 0] = 1  # no empty user
    return sparse.csr_array(X.astype(np.float32))


# --- the losses, reimplemented in double precision ------------------------------------------------------------------


def forward(parameters, x, names):
    """The plain layers; the last matrix is stored item by item."""
    for at, name in enumerate(names, 1):
        a = x @ parameters[f"W{at}"] + parameters[f"b{at}"]
        x = {"tanh": np.tanh, "identity": lambda a: a, "sigmoid": expit}[name](a)
    last = len(names) + 1
    return x @ parameters[f"W{last}"].T + parameters[f"b{last}"]


def multinomial(logits, x):
    return -(x * (logits - logsumexp(logits, axis=1, keepdims=True))).sum(1).mean()


def matrices(parameters):
    return sum((W**2).sum() for name, W in parameters.items() if name.startswith("W"))


def dae_loss(parameters, x, seen, settings):
    names = ["tanh"] * (len(parameters) // 2 - 1)
    return multinomial(forward(parameters, seen, names), x) + settings.l2 * matrices(parameters)


def vae_loss(parameters, x, seen, settings, noise, beta):
    hidden = np.tanh(seen @ parameters["W1"] + parameters["b1"])
    both = hidden @ parameters["W2"] + parameters["b2"]
    mean, log_variance = both[:, : settings.rank], both[:, settings.rank :]
    z = mean + noise * np.exp(log_variance / 2)
    logits = np.tanh(z @ parameters["W3"] + parameters["b3"]) @ parameters["W4"].T + parameters["b4"]
    kl = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum(1).mean()
    return multinomial(logits, x) + beta * kl + settings.l2 * matrices(parameters)


def cdae_loss(parameters, x, seen, settings, users):
    entered = seen @ parameters["W1"] + parameters["users"][users] + parameters["b1"]
    hidden = np.tanh(entered) if settings.activation == "tanh" else expit(entered)
    s = hidden @ parameters["W2"].T + parameters["b2"]
    one, weight = x > 0, settings.positive_weight * x
    if settings.loss == "logistic":
        each = np.where(one, weight * np.logaddexp(0, -s), np.logaddexp(0, s))
    else:
        each = np.where(one, weight * (1 - s) ** 2, s**2)
    penalty = (parameters["W1"] ** 2).sum() + (parameters["W2"] ** 2).sum() + (parameters["users"][users] ** 2).sum()
    return each.sum(1).mean() + settings.l2 * penalty


def randomised(net, seed=0):
    """Random parameters, including biases, in the net and as float64 copies."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for tensor in net.parameters.values():
            tensor.copy_(torch.from_numpy(rng.normal(0, 0.5, tuple(tensor.shape)).astype(np.float32)))
    return {name: tensor.detach().numpy().astype(np.float64) for name, tensor in net.parameters.items()}


def check_gradient(net, loss_of, users, x, step=0, seed=5):
    """Torch's value and its gradient in random directions, against central differences of the double-precision loss."""
    parameters = randomised(net)
    value = net.loss(users, x, np.random.default_rng(seed), step)
    value.backward()
    assert float(value.detach()) == pytest.approx(loss_of(parameters), rel=2e-5)
    rng = np.random.default_rng(1)
    for name, tensor in net.parameters.items():
        direction = rng.normal(size=tuple(tensor.shape))
        h = 1e-5
        ahead, behind = (loss_of(parameters | {name: parameters[name] + s * h * direction}) for s in (1, -1))
        numeric = (ahead - behind) / (2 * h)
        exact = float((tensor.grad.numpy() * direction).sum())
        assert exact == pytest.approx(numeric, rel=2e-3, abs=2e-4), name


def unit_and_dropped(x, p, seed):
    """The net's input, and the generator after the mask was drawn."""
    rng = np.random.default_rng(seed)
    dense = x.toarray().astype(np.float64)
    dense /= np.sqrt((dense**2).sum(1, keepdims=True))
    factors = np.zeros_like(dense)
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    factors[rows, x.indices] = (rng.random(x.nnz, dtype=np.float32) >= p) / (1 - p)
    return dense * factors, rng


@pytest.mark.parametrize(("depth", "counts"), [(0, False), (2, True)])
def test_the_gradient_of_the_denoising_loss_is_that_of_finite_differences(depth, counts):
    x = data(counts=counts)
    settings = od.MultDAE(rank=3, width=4, depth=depth, l2=0.02)
    seen, _ = unit_and_dropped(x, 0.5, 5)
    net = mult.DenoisingNet(7, settings)
    check_gradient(net, lambda w: dae_loss(w, x.toarray(), seen, settings), np.arange(9), x)


def test_the_gradient_of_the_variational_loss_is_that_of_finite_differences():
    x = data(counts=True)
    settings = od.MultVAE(rank=3, width=4, l2=0.02, beta=0.6)
    seen, rng = unit_and_dropped(x, 0.5, 5)
    noise = rng.standard_normal((9, 3), dtype=np.float32).astype(np.float64)
    net = mult.VariationalNet(7, settings, 10.0)
    check_gradient(net, lambda w: vae_loss(w, x.toarray(), seen, settings, noise, 0.6 * 0.4), np.arange(9), x, step=4)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_gradient_of_the_collaborative_loss_is_that_of_finite_differences(activation, loss):
    x = data(counts=True)
    settings = od.CDAE(width=3, activation=activation, loss=loss, positive_weight=1.7, l2=0.02)
    norms = np.sqrt((x.toarray() ** 2).sum(1, keepdims=True))
    seen = unit_and_dropped(x, 0.5, 5)[0] * norms  # CDAE does not normalise the history
    users = np.array([8, 2, 3, 0, 1, 4, 5, 6, 7])
    net = cdae.CollaborativeNet(11, 7, settings)
    check_gradient(net, lambda w: cdae_loss(w, x.toarray(), seen, settings, users), users, x)


# --- the pieces -----------------------------------------------------------------------------------------------------


def test_the_divergence_is_the_mean_of_the_log_ratio_of_densities():
    rng = np.random.default_rng(0)
    mean, log_variance = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    z = mean + rng.standard_normal((400_000, 3, 4)) * np.exp(log_variance / 2)
    log_q = -0.5 * ((z - mean) ** 2 / np.exp(log_variance) + log_variance)
    ratio = (log_q + 0.5 * z**2).sum(2).mean(1)
    sem = ratio.std() / np.sqrt(len(ratio))
    ours = float(mult.divergence(torch.from_numpy(mean), torch.from_numpy(log_variance)))
    assert abs(ours - ratio.mean()) < 4 * sem
    assert sem < 0.01 * ours
    assert float(mult.divergence(torch.zeros(2, 3), torch.zeros(2, 3))) == 0


def test_beta_rises_in_a_line_to_its_cap():
    assert [mult.annealed(0.2, step, 4) for step in (0, 1, 2, 4, 9)] == pytest.approx([0, 0.05, 0.1, 0.2, 0.2])
    assert mult.annealed(0.2, 0, 0) == 0.2
    X = data(50, 9)
    net = od.MultVAE(rank=2, width=3, batch_users=10, anneal_epochs=2.0)
    rows = net._net(X)
    assert rows.anneal_steps == 10  # 50 users in 5 batches, twice


def test_dropout_keeps_the_mean_and_drops_its_share():
    x = data(60, 40, seed=3, counts=True)
    rng = np.random.default_rng(0)
    draws = np.array([training.dropped(x, 0.3, rng).data for _ in range(3000)])
    share = (draws == 0).mean()
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / draws.size)
    error = draws.mean(0) - x.data
    assert np.abs(error / x.data).max() < 5 * np.sqrt(0.3 / 0.7 / 3000)
    assert training.dropped(x, 0.0, rng) is x


@given(interactions(values="counts"), st.integers(1, 5))
def test_gathered_rows_are_the_product(X, width):
    W = torch.from_numpy(np.random.default_rng(0).normal(size=(X.shape[1], width)).astype(np.float32)).requires_grad_()
    dense = X.toarray().astype(np.float32)
    out = training.gathered(X, W)
    np.testing.assert_allclose(out.detach().numpy(), dense @ W.detach().numpy(), rtol=1e-4, atol=1e-3)
    out.sum().backward()
    np.testing.assert_allclose(W.grad.numpy(), np.repeat(dense.sum(0)[:, None], width, 1), rtol=1e-4)


@given(interactions(values="counts"))
def test_the_likelihood_over_sparse_rows_is_that_over_dense_ones(X):
    X = X[np.flatnonzero(np.diff(X.indptr))]
    logits = np.random.default_rng(0).normal(size=X.shape).astype(np.float32)
    ours = float(mult.negative_log_likelihood(torch.from_numpy(logits), X))
    assert ours == pytest.approx(multinomial(logits.astype(np.float64), X.toarray()), rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(X=interactions(values="counts"), widths=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
def test_a_network_of_any_depth_scores_as_its_layers_say(dtype, X, widths, data):
    names = data.draw(st.lists(st.sampled_from(ACTIVATIONS), min_size=len(widths), max_size=len(widths)))
    normalise = data.draw(st.booleans())
    rng, m = np.random.default_rng(0), X.shape[1]
    shapes = [(m, widths[0]), *pairwise(widths), (m, widths[-1])]
    layers = tuple(
        (0.1 * rng.normal(size=shape).astype(dtype), rng.normal(size=size).astype(dtype))
        for shape, size in zip(shapes, [*widths, m], strict=True)
    )
    net = Network(layers, tuple(names), normalise)
    x = X.toarray().astype(np.float64)
    if normalise:
        x /= np.maximum(np.sqrt((x**2).sum(1, keepdims=True)), 1e-30)
    named = {name: array.astype(np.float64) for name, array in net.arrays().items()}
    expected = forward(named, x, names)
    tolerance = {"float32": 1e-4, "float64": 1e-10}[dtype] * max(1.0, np.abs(expected).max())
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(X @ net, expected, atol=tolerance)
    again = Network.from_arrays(net.arrays(), m)
    assert (again.activations, again.normalise) == (net.activations, net.normalise)
    np.testing.assert_array_equal(X @ again, X @ net)
    assert net.nbytes == sum(array.nbytes for array in net.arrays().values())


def sound():
    layers = [
        (np.ones((5, 3), np.float32), np.ones(3, np.float32)),
        (np.ones((3, 2), np.float32), np.ones(2, np.float32)),
    ]
    layers.append((np.ones((5, 2), np.float32), np.ones(5, np.float32)))
    return Network(tuple(layers), ("tanh", "identity"), True).arrays()


@pytest.mark.parametrize(
    "wrong",
    [
        {"W1": np.ones((4, 3), np.float32)},
        {"W2": np.ones((2, 3), np.float32)},
        {"W3": np.ones((5, 3), np.float32)},
        {"b2": np.ones(3, np.float32)},
        {"b3": np.ones((5, 1), np.float32)},
        {"b1": np.ones(3, np.float64)},
        {"form": np.array([1, 1, 3], np.uint8)},
        {"form": np.array([2, 1, 0], np.uint8)},
        {"form": np.array([1, 1, 0], np.int64)},
        {"form": np.array([1], np.uint8)},
        {"form": np.array([], np.uint8)},
        {"form": np.array([1, 1, 0, 0], np.uint8)},
        {"W9": np.ones(1, np.float32)},
    ],
)
def test_layers_that_do_not_fit_are_refused(wrong):
    assert Network.from_arrays(sound(), 5).shape == (5, 5)
    with pytest.raises((ValueError, TypeError, KeyError)):
        Network.from_arrays(sound() | wrong, 5)


# --- the models -----------------------------------------------------------------------------------------------------


@every_net
def test_scores_without_torch_are_those_of_torch(make, split, tmp_path, monkeypatch):
    model = make().fit(split.train)
    X = split.test.histories[:30]
    weights = model.weights_
    with torch.no_grad():
        x = torch.from_numpy(X.toarray().astype(np.float32))
        x = torch.nn.functional.normalize(x) if weights.normalise else x
        for (W, b), name in zip(weights.layers[:-1], weights.activations, strict=True):
            a = x @ torch.from_numpy(W) + torch.from_numpy(b)
            x = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "identity": lambda a: a}[name](a)
        W, b = weights.layers[-1]
        expected = (x @ torch.from_numpy(W).T + torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(model.predict(X), expected, atol=2e-5)
    model.save(tmp_path / "net.od")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    again = od.load(tmp_path / "net.od")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert (again.epochs_, again.best_epoch_, again.validation_) == (
        model.epochs_,
        model.best_epoch_,
        model.validation_,
    )
    with pytest.raises(od.OffdiagError, match=f"{type(model).__name__} needs torch"):
        make().fit(split.train)


@pytest.mark.parametrize("name", ["MultDAE", "MultVAE", "CDAE"])
def test_it_learns_and_beats_popularity(name, split):
    more = {"epochs": 60, "patience": 60} | (
        {"dropout": 0.3, "width": 40, "positive_weight": 1.0} if name == "CDAE" else {"rank": 20}
    )
    model = SMALL[name](**more).fit(split.train, validation=split.validation)
    assert model.losses_[-1] < model.losses_[0]
    popular = od.evaluate(od.Popularity().fit(split.train), split.test, ["ndcg@20"])
    test = od.evaluate(model, split.test, ["ndcg@20"]).compare(popular)
    assert test.difference["ndcg@20"] > 3 * test.sem["ndcg@20"]


@every_net
def test_the_best_epoch_on_validation_is_kept(make, split):
    model = make(epochs=8).fit(split.train, validation=split.validation)
    assert model.epochs_ == len(model.validation_) == len(model.losses_) == 8
    assert model.best_epoch_ == 1 + int(np.argmax(model.validation_))
    found = od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"]
    assert found == pytest.approx(max(model.validation_), abs=1e-12)


def test_training_stops_when_patience_is_over(split):
    model = od.MultDAE(rank=8, epochs=200, patience=3, learning_rate=0.05).fit(split.train, validation=split.validation)
    assert model.epochs_ == model.best_epoch_ + 3 < 200
    assert max(model.validation_) == model.validation_[model.best_epoch_ - 1]


@every_net
def test_the_seed_decides_everything(make, split):
    one, other = (make(epochs=2, seed=3).fit(split.train) for _ in range(2))
    for name, array in one.weights_.arrays().items():
        np.testing.assert_array_equal(array, other.weights_.arrays()[name])
    assert one.validation_ == other.validation_
    assert not np.array_equal(one.weights_.layers[0][0], make(epochs=2, seed=4).fit(split.train).weights_.layers[0][0])


class Stop:
    """Ctrl-C after this many epochs."""

    def __init__(self, after):
        self.left = after

    def __call__(self, stage, done):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@every_net
def test_a_run_that_was_interrupted_twice_ends_like_one_that_was_not(make, split, tmp_path, monkeypatch):
    monkeypatch.setattr("offdiag.baselines.nets.checkpoints.QUIET", 0)
    whole = make(epochs=7).fit(split.train, validation=split.validation)
    model, path = make(epochs=7), tmp_path / "run"
    for after in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            model.fit(split.train, validation=split.validation, checkpoint=path, progress=Stop(after))
        assert not hasattr(model, "weights_")
    seen = []
    model.fit(split.train, validation=split.validation, checkpoint=path, progress=lambda stage, done: seen.append(done))
    assert len(seen) == 2
    for name, array in whole.weights_.arrays().items():
        np.testing.assert_array_equal(array, model.weights_.arrays()[name])
    assert (model.losses_, model.validation_, model.best_epoch_) == (
        whole.losses_,
        whole.validation_,
        whole.best_epoch_,
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_finished_run_is_read_and_may_be_prolonged(split, tmp_path):
    path = tmp_path / "run"
    short = SMALL["MultVAE"](epochs=3).fit(split.train, checkpoint=path)
    again = SMALL["MultVAE"](epochs=3).fit(split.train, checkpoint=path)
    np.testing.assert_array_equal(again.weights_.layers[0][0], short.weights_.layers[0][0])
    longer, whole = SMALL["MultVAE"](epochs=5).fit(split.train, checkpoint=path), SMALL["MultVAE"](epochs=5)
    np.testing.assert_array_equal(longer.weights_.layers[0][0], whole.fit(split.train).weights_.layers[0][0])


def test_a_checkpoint_of_another_run_is_refused_and_left(split, tmp_path):
    path = tmp_path / "run"
    SMALL["MultDAE"]().fit(split.train, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(od.OffdiagError, match=r"of another run: rank=8 instead of 9"):
        SMALL["MultDAE"](rank=9).fit(split.train, checkpoint=path)
    with pytest.raises(od.OffdiagError, match="other data"):
        SMALL["MultDAE"]().fit(split.train.matrix[:500], checkpoint=path)
    with pytest.raises(od.OffdiagError, match="other data"):
        SMALL["MultDAE"]().fit(split.train, validation=split.validation, checkpoint=path)
    with pytest.raises(od.OffdiagError, match="of another run"):
        SMALL["CDAE"]().fit(split.train, checkpoint=path)
    assert path.read_bytes() == before


def test_a_damaged_checkpoint_and_files_of_other_kinds_are_refused_and_left(split, tmp_path):
    make = SMALL["MultDAE"]
    path, model = tmp_path / "run", tmp_path / "m.od"
    fitted = make().fit(split.train, checkpoint=path)
    fitted.save(model)
    broken = bytearray(path.read_bytes())
    broken[len(broken) // 2] ^= 1
    for name, content, said in (
        ("cut", path.read_bytes()[:-9], "damaged"),
        ("flipped", bytes(broken), "damaged"),
        ("notes.txt", b"my notes", "not an offdiag model"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(od.OffdiagError, match=said):
            make().fit(split.train, checkpoint=tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
    with pytest.raises(od.OffdiagError, match="expected a checkpoint, received the model file"):
        make().fit(split.train, checkpoint=model)
    with pytest.raises(od.OffdiagError, match="takes a file name"):
        make().fit(split.train, checkpoint=tmp_path)
    with pytest.raises(od.OffdiagError, match="does not exist"):
        make().fit(split.train, checkpoint=tmp_path / "nowhere" / "run")
    with pytest.raises(od.OffdiagError, match="makes no sense"):
        od.load(path)


def test_an_interrupted_fit_keeps_the_earlier_one(split):
    model = SMALL["MultVAE"]().fit(split.train)
    before = model.predict(split.test.histories)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(seed=9).fit(split.train, progress=Stop(2))
    np.testing.assert_array_equal(model.predict(split.test.histories), before)


def test_with_beta_0_and_no_variance_the_variational_net_is_a_denoising_one():
    """Only the mean is decoded, without divergence: the loss of the layers alone."""
    x = data()
    settings = od.MultVAE(rank=3, width=4, beta=0.0, dropout=0.0)
    net = mult.VariationalNet(7, settings, 0.0)
    randomised(net)
    with torch.no_grad():
        net.parameters["W2"][:, 3:] = 0
        net.parameters["b2"][3:] = -200.0  # e^-100: no noise
    value = float(net.loss(np.arange(9), x, np.random.default_rng(0), 0).detach())
    assert value == pytest.approx(multinomial((x @ net.network()).astype(np.float64), x.toarray()), rel=1e-5)


def test_a_new_user_has_the_mean_of_the_user_vectors():
    net = cdae.CollaborativeNet(6, 4, od.CDAE(width=3))
    parameters = randomised(net)
    expected = parameters["b1"] + parameters["users"].mean(0)
    np.testing.assert_allclose(net.network().layers[0][1], expected, atol=1e-6)
    assert not net.network().normalise


# --- users set aside ------------------------------------------------------------------------------------------------


def test_a_twentieth_is_set_aside_and_not_trained_on(split):
    X = split.train.matrix
    rest, watched = early_stopping.set_aside(X, 0)
    n = (np.diff(X.indptr) > 0).sum()
    assert watched.histories.shape[0] == n // 20
    assert rest.shape[0] == X.shape[0] - n // 20
    together = (watched.histories + watched.targets).tocsr()
    assert together.nnz == watched.histories.nnz + watched.targets.nnz
    assert rest.nnz + together.nnz == X.nnz
    lengths = np.diff(together.indptr)
    assert lengths.min() >= 5
    np.testing.assert_array_equal(np.diff(watched.targets.indptr), lengths // 5)
    rows = {row.tobytes() for row in X.toarray()}
    assert all(row.tobytes() in rows for row in together.toarray().astype(np.float32))
    other = early_stopping.set_aside(X, 1)[1]
    assert not np.array_equal(other.targets.toarray(), watched.targets.toarray())


def test_with_few_users_nobody_is_set_aside_and_the_last_epoch_is_kept():
    model = od.MultDAE(rank=2, epochs=3).fit(data(12, 6))
    assert (model.validation_, model.epochs_, model.best_epoch_) == ([], 3, 3)


@pytest.mark.parametrize("held_out", [0.05, 0.3])
def test_the_ndcg_watched_is_the_one_evaluate_reports(held_out):
    split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=2), held_out=held_out)
    model = od.EASE(l2=10.0).fit(split.train)
    watched = early_stopping.given(split.validation, split.train.item_ids)
    expected = od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"]
    assert watched.ndcg(model.weights_) == pytest.approx(expected, abs=1e-12)


def test_validation_of_other_columns_is_refused(split):
    make = SMALL["MultDAE"]
    other = od.split.strong(od.synthetic.interactions(100, 50, 2_000, seed=1), held_out=0.2)
    with pytest.raises(od.OffdiagError, match="columns of the training data"):
        make().fit(split.train, validation=other.validation)
    backwards = split.train.select_items(np.arange(split.train.n_items)[::-1])
    with pytest.raises(od.OffdiagError, match="in another order"):
        make().fit(backwards, validation=split.validation)
    import dataclasses

    nothing = dataclasses.replace(split.validation, targets=sparse.csr_array(split.validation.targets.shape))
    with pytest.raises(od.OffdiagError, match="no user with targets"):
        make().fit(split.train, validation=nothing)


# --- mistakes and edge cases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: od.MultDAE(dropout="auto"), "takes numbers"),
        (lambda: od.MultDAE(dropout=1.0), "dropout must be a number"),
        (lambda: od.MultDAE(depth=-1), "depth must be a whole number"),
        (lambda: od.MultDAE(patience=0), "patience must be a whole number"),
        (lambda: od.MultVAE(beta=-0.1), "beta must be a number"),
        (lambda: od.MultVAE(anneal_epochs=float("nan")), "anneal_epochs must be a number"),
        (lambda: od.MultVAE(learning_rate=0.0), r"learning_rate must be a number in \(0, 1000\]"),
        (lambda: od.CDAE(activation="relu"), "activation must be 'tanh' or 'sigmoid'"),
        (lambda: od.CDAE(loss="hinge"), "loss must be"),
        (lambda: od.CDAE(positive_weight=-1.0), "positive_weight must be a number"),
        (lambda: od.CDAE(width=0), "width must be a whole number"),
    ],
)
def test_mistakes_are_told(model, said):
    with pytest.raises(od.OffdiagError, match=said):
        model().fit(data())


@every_net
@given(X=interactions(values="counts"))
def test_any_data_can_be_learned_from(make, X):
    model = make(epochs=1).fit(X)
    assert np.isfinite(model.predict(X)).all()
    assert model.n_users_ == X.shape[0]


@every_net
def test_values_too_large_for_a_net_are_told(make):
    with pytest.raises(od.OffdiagError, match="received values up to 1e\\+30"):
        make().fit(np.eye(3) * 1e30)


def test_training_that_leaves_the_numbers_is_told():
    with pytest.raises(od.OffdiagError, match="training diverged at learning_rate=1000"):
        SMALL["MultVAE"](learning_rate=1e3, epochs=30).fit(data())


def test_what_does_not_fit_is_told_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr("offdiag.memory.available", lambda: 10_000)
    for model in (od.MultDAE(), od.MultVAE(), od.CDAE()):
        with pytest.raises(od.NotEnoughMemory, match=f"a {type(model).__name__} of 7 items needs"):
            model.fit(data())


def test_a_net_explains_nothing(split):
    model = SMALL["CDAE"](epochs=1).fit(split.train)
    with pytest.raises(od.OffdiagError, match="not linear"):
        model.explain([0], 1)


@pytest.mark.slow
def test_on_real_data_the_nets_stand_where_published_comparisons_put_them(shared_data):
    """Near EASE and far above popularity, on all ratings of ml-100k and with few epochs; so is WMF."""
    inter = od.prepare.binarize(od.datasets.load("ml-100k", shared_data("ml-100k")))
    split = od.split.strong(inter, held_out=0.1, seed=0)
    few = {"epochs": 30, "batch_users": 50, "learning_rate": 4e-3}
    nets = od.MultDAE(rank=100, **few), od.CDAE(width=100, **few)
    models = [net.fit(split.train, validation=split.validation) for net in nets] + [od.WMF(rank=32).fit(split.train)]
    ease, popular = (od.evaluate(model.fit(split.train), split.test) for model in (od.EASE(), od.Popularity()))
    for model in models:
        found = od.evaluate(model, split.test)
        assert found.mean["ndcg@100"] > 0.93 * ease.mean["ndcg@100"], type(model).__name__
        assert found.compare(popular).difference["ndcg@100"] > 10 * found.compare(popular).sem["ndcg@100"]
