"""The residual net: it learns, its seed decides, it has the published layers, and mistakes are rejected."""

import numpy as np
import pytest

from offdiag.lab import dropblock, resnet
from tests.fixtures.mistakes import rejects

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow


def test_the_residual_net_learns_and_depends_on_its_seed():
    rng = np.random.default_rng(0)
    pixels, Y = rng.integers(0, 256, (12, 16, 16, 3)), resnet.targets(np.arange(12) % 10)
    settings = {"stages": (1, 1), "width": 4, "hidden": 10, "steps": 12, "masks": 20, "learning_rate": 1e-2}
    before = torch.random.get_rng_state()
    once, again = (resnet.train(pixels, Y, seed=3, **settings) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.array_equal(once.losses, again.losses)
    assert once.losses[-1] < 0.7 * once.losses[0]
    assert once.predictions.shape == (10, 12)
    bound = dropblock.optimum(Y, np.eye(12), 10, 5, 0.5).bound
    assert once.losses.min() > bound
    assert resnet.train(pixels, Y, seed=4, **settings).losses[-1] != once.losses[-1]


def test_resnet_50_has_the_layers_of_resnet_50():
    net = resnet._classes()["ResNet"](3, resnet.RESNET50, 64, 1000)
    convolutions = sum(isinstance(m, torch.nn.Conv2d) for m in net.modules())
    assert convolutions == 53  # 49 in the path of the data, 4 shortcuts; the 50th layer is linear
    assert sum(p.numel() for p in net.parameters()) == 25_557_032  # as published for 1,000 outputs


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: resnet.train(np.ones((2, 3)), np.ones((1, 2))), "pixels must be"),
    (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 3))), "Y must be any×2"),
    (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), hidden=7), "received width 7 and block 5"),
    (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), steps=0), "steps must be a whole number"),
    (lambda: resnet.train(np.full((2, 8, 8), np.nan), np.ones((1, 2))), "pixels holds NaN"),
    (lambda: resnet.train("a", np.ones((1, 2))), "pixels must be"),
    (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), seed=-1), "seed"),
    (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), learning_rate="a"), "learning_rate"),
    (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), stages=(1, 0)), "stages"),
    (lambda: resnet.targets([11]), "labels must be whole numbers from 0 to 9, received 11"),
    (lambda: resnet.targets([-1]), "received -1"),
    (lambda: resnet.targets([0.5]), "received 0.5"),
    (lambda: resnet.targets([]), "labels must be a vector"),
)
