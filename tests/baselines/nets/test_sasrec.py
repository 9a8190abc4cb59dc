"""SASRec: what it learns, how it stops, and that it scores without torch as it was trained."""

import numpy as np
import pytest

import offdiag as od
from offdiag import ranking
from offdiag.baselines.nets import sasrec
from offdiag.data.sequences import sequences_of
from offdiag.weights.attention import padded
from tests.fixtures.ordered_logs import chains

pytest.importorskip("torch")
SMALL = {"width": 12, "blocks": 1, "length": 8, "dropout": 0.1, "batch_users": 50, "learning_rate": 0.01}


def test_scores_without_torch_are_those_of_the_trained_net():
    import torch

    rows = sasrec.coded(sequences_of(chains()), 12)
    net = sasrec.AttentionNet(12, od.SASRec(width=7, blocks=2, length=5, seed=3))
    with torch.no_grad():
        for name, tensor in net.parameters.items():
            tensor += 0.3 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(len(name)))
        expected = net.states(padded(rows, 5))[:, -1].numpy()
    np.testing.assert_allclose(net.network().encode(rows), expected, atol=1e-5)


def reference(net, histories, wrong):
    """The mean loss per prediction and its gradients, from torch's own layers, one history at a time.

    Blocks as in the paper, which normalises before attention ("norm first" in SASRec.pytorch), and its logistic loss.
    """
    import torch

    parts, settings = {name: x.detach().clone() for name, x in net.parameters.items()}, net.settings
    width, blocks = settings.width, range(settings.blocks)
    items = torch.nn.Embedding.from_pretrained(parts["items"], freeze=False)
    places = torch.nn.Embedding.from_pretrained(parts["places"].flip(0), freeze=False)  # of histories padded in front

    def normed(n):
        layer = torch.nn.LayerNorm(width, eps=1e-8)
        layer.weight.data, layer.bias.data = parts[f"scale{n}"], parts[f"offset{n}"]
        return layer

    attentions, firsts, seconds = [], [], []
    for n in blocks:
        attentions.append(torch.nn.MultiheadAttention(width, 1, bias=False, batch_first=True))
        attentions[n].in_proj_weight.data = torch.cat([parts[f"{kind}{n}"].T for kind in ("query", "key", "value")])
        attentions[n].out_proj.weight.data = torch.eye(width)  # the paper has none
        for layers, kind in ((firsts, "first"), (seconds, "second")):
            layers.append(torch.nn.Conv1d(width, width, 1))
            layers[n].weight.data, layers[n].bias.data = parts[f"{kind}{n}"].T[:, :, None], parts[f"{kind}_bias{n}"]
    before, between, last = [normed(n) for n in blocks], [normed(f"2{n}") for n in blocks], normed("")
    right_scores, wrong_scores = [], []
    for history in histories:
        *given, _ = history = history[-settings.length - 1 :]
        x = items(torch.tensor([given])) * width**0.5 + places(torch.arange(len(given)) - len(given) + settings.length)
        hidden = torch.ones(len(given), len(given)).triu(1).bool()
        for n in blocks:
            y = before[n](x)
            x = x + attentions[n](y, y, y, attn_mask=hidden)[0]
            x = x + seconds[n](torch.relu(firsts[n](between[n](x).transpose(1, 2)))).transpose(1, 2)
        states = last(x)[0]
        right_scores.append((states * items(torch.tensor(history[1:]))).sum(1))
        wrong_scores.append((states * items(torch.full((len(given),), wrong))).sum(1))
    right, wrong = torch.cat(right_scores), torch.cat(wrong_scores)
    error = torch.nn.BCEWithLogitsLoss()
    loss = error(right, torch.ones_like(right)) + error(wrong, torch.zeros_like(wrong))
    loss.backward()
    slopes = {"items": items.weight.grad, "places": places.weight.grad.flip(0)}
    slopes |= {"scale": last.weight.grad, "offset": last.bias.grad}
    for n in blocks:
        into = attentions[n].in_proj_weight.grad.chunk(3)
        slopes |= {f"{kind}{n}": x.T for kind, x in zip(("query", "key", "value"), into, strict=True)}
        for layer, kind in ((firsts[n], "first"), (seconds[n], "second")):
            slopes |= {f"{kind}{n}": layer.weight.grad[:, :, 0].T, f"{kind}_bias{n}": layer.bias.grad}
        for layer, number in ((before[n], f"{n}"), (between[n], f"2{n}")):
            slopes |= {f"scale{number}": layer.weight.grad, f"offset{number}": layer.bias.grad}
    return float(loss.detach()), len(right), slopes


def test_loss_and_gradients_are_those_of_a_reference(monkeypatch):
    import torch

    rng = np.random.default_rng(0)
    histories = [rng.permutation(59)[: rng.integers(2, 40)].tolist() for _ in range(20)] + [[3, 3], [4, 5]]
    rows, _ = ranking.encode(histories, np.arange(60), sasrec.BITS)
    net = sasrec.AttentionNet(60, od.SASRec(width=6, blocks=2, dropout=0, length=20))
    with torch.no_grad():
        for name, x in net.parameters.items():  # scales that are all 1 and offsets of 0 would hide mistakes
            x += 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(len(name)))
    expected, predictions, slopes = reference(net, histories, wrong=59)
    monkeypatch.setattr(sasrec, "draw_others", lambda x, at, m, rng: np.full(len(at), 59))
    per_prediction = net.loss(np.arange(len(histories)), rows, rng, 0) * len(histories) / predictions
    per_prediction.backward()
    assert float(per_prediction.detach()) == pytest.approx(expected, rel=1e-5)
    assert slopes.keys() == net.parameters.keys()
    for name, x in net.parameters.items():
        np.testing.assert_allclose(x.grad.numpy(), slopes[name].numpy(), atol=1e-5, err_msg=name)


@pytest.mark.parametrize("loss", ["sampled", "full"])
def test_it_learns_what_follows_what(loss):
    split = od.split.last_out(chains(n_users=600))
    net = od.SASRec(**SMALL, loss=loss, epochs=15, patience=15).fit(split.train, validation=split.validation)
    assert len(net.validation_) == net.epochs_ == 15
    found = od.evaluate(net, split.test, "hit@1").mean["hit@1"]
    chain = od.evaluate(od.MarkovChain().fit(split.train), split.test, "hit@1").mean["hit@1"]
    assert chain > 0.6
    assert found > chain - 0.1


def test_the_gradient_of_the_loss_ignores_what_comes_later():
    """The state at a place does not change with the items after it."""
    net = sasrec.AttentionNet(6, od.SASRec(width=4, blocks=2, length=6))
    rows, _ = ranking.encode([[0, 1, 2, 3], [0, 1, 2, 5]], np.arange(6), sasrec.BITS)
    states = net.states(padded(rows, 6)).detach().numpy()
    np.testing.assert_allclose(states[0, :3], states[1, :3], atol=1e-6)
    assert np.abs(states[0, 3] - states[1, 3]).max() > 1e-3


@pytest.mark.parametrize("loss", ["sampled", "full"])
def test_groups_of_similar_length_do_not_change_the_loss(monkeypatch, loss):
    rng = np.random.default_rng(0)
    histories = [rng.permutation(60)[: rng.integers(0, 40)].tolist() for _ in range(30)] + [[3, 3], [4]]
    rows, _ = ranking.encode(histories, np.arange(60), sasrec.BITS)
    net = sasrec.AttentionNet(60, od.SASRec(width=6, dropout=0, length=20, loss=loss))
    monkeypatch.setattr(sasrec, "draw_others", lambda x, at, m, rng: np.full(len(at), 59))

    def gradient():
        net.parameters["items"].grad = None
        value = net.loss(np.arange(len(histories)), rows, np.random.default_rng(0), 0)
        value.backward()
        return float(value.detach()), net.parameters["items"].grad.numpy().copy()

    value, slope = gradient()
    assert len(sasrec.of_similar_length(padded(rows, 21).filled)) == 3
    monkeypatch.setattr(sasrec, "LENGTHS", (100,))
    assert len(sasrec.of_similar_length(padded(rows, 21).filled)) == 1
    whole = gradient()
    assert value == pytest.approx(whole[0], rel=1e-5)
    np.testing.assert_allclose(slope, whole[1], atol=1e-5)


def test_a_stopped_run_resumes_to_the_same_numbers(tmp_path):
    X, path = chains(), tmp_path / "run.ckpt"

    def stop(stage, done):
        if done > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        od.SASRec(**SMALL, epochs=5).fit(X, checkpoint=path, progress=stop)
    again = od.SASRec(**SMALL, epochs=5).fit(X, checkpoint=path)
    whole = od.SASRec(**SMALL, epochs=5).fit(X)
    assert again.predict(X).tobytes() == whole.predict(X).tobytes()
    whole.save(tmp_path / "net.od")
    assert od.load(tmp_path / "net.od").predict(X).tobytes() == whole.predict(X).tobytes()


def test_users_set_aside_have_their_last_choice_as_target():
    histories = [[i % 6 for i in range(u, u + 5)] for u in range(40)]
    rows, _ = ranking.encode(histories, np.arange(6), sasrec.BITS)
    rest, watched = sasrec.set_aside(rows, seed=0)
    assert rest.shape[0] == 38
    for history, target in zip(watched.histories, watched.targets, strict=True):
        items = padded(history[None].tocsr(), 9).items[0].tolist()
        assert [*items, int(target.indices[0])] in histories


def test_other_items_are_none_of_the_user():
    rows, _ = ranking.encode([[0, 1, 2], [5]], np.arange(6), sasrec.BITS)
    drawn = sasrec.draw_others(rows, np.repeat([0, 1], 200), 6, np.random.default_rng(0))
    assert set(drawn[:200]) == {3, 4, 5}
    assert set(drawn[200:]) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: od.SASRec(length=51).fit(chains()), "length must be"),
        (lambda: od.SASRec(epochs=1).fit(np.eye(3)), "SASRec learns from the order of events"),
        (
            lambda: od.SASRec(epochs=1).fit(
                chains(), validation=od.split.strong(od.read(chains().matrix), held_out=0.2).validation
            ),
            "order|times",
        ),
    ],
)
def test_mistakes_are_named(fit, message):
    with pytest.raises(od.OffdiagError, match=message):
        fit()
