"""Masks: each sampler against its probabilities, enumeration against sampling, and what is rejected."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag import lab
from offdiag.errors import OffdiagError
from offdiag.lab import montecarlo as mc
from tests.fixtures.mistakes import rejects

DRAWS = 40_000
keeps = st.sampled_from([0.1, 0.5, 0.8, 1.0])


def assert_mean(samples, truth):
    """Every entry of the mean over axis 0 within 4 standard errors of the truth."""
    error = np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - truth) <= 4 * error + 1e-12).all()


def products(masks):
    return masks[:, :, None] * masks[:, None, :]


@pytest.mark.parametrize("keep", [0.2, 0.7])
def test_dropout_keeps_units_independently(keep):
    masks = mc.dropout(5, DRAWS, 1, drop=1 - keep)
    assert masks.shape == (DRAWS, 5)
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert_mean(products(masks), np.where(np.eye(5) == 1, keep, keep**2))


def test_dropblock_drops_whole_blocks_and_only_those():
    masks = mc.dropblock(6, 3, DRAWS, np.random.default_rng(2), drop=0.4)
    assert (masks[:, [0, 0, 3, 3]] == masks[:, [1, 2, 4, 5]]).all()
    block = np.repeat([0, 1], 3)
    assert_mean(products(masks), np.where(block[:, None] == block, 0.6, 0.36))


@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_overlapping_blocks_keep_each_unit_with_the_given_chance(block):
    keep, width = 0.6, 6
    masks = mc.overlapping(width, block, DRAWS, 3, drop=1 - keep)
    apart = np.abs(np.subtract.outer(np.arange(width), np.arange(width)))
    # units at distance a have block + min(a, block) seeds between them
    assert_mean(products(masks), keep ** (1 + np.minimum(apart, block) / block))


def test_without_padding_edge_units_have_fewer_seeds():
    keep, width, block = 0.5, 5, 3
    masks = mc.overlapping(width, block, DRAWS, 4, padded=False, drop=1 - keep)
    seeds = np.array([1, 2, 3, 2, 1])  # blocks begin at 0, 1 and 2
    assert_mean(masks, keep ** (seeds / block))
    whole = mc.overlapping(3, 3, DRAWS, 4, padded=False, drop=1 - keep)
    assert (np.ptp(whole, axis=1) == 0).all()


def test_dropconnect_masks_weights_one_by_one():
    masks = mc.dropconnect((2, 3), DRAWS, 5, drop=0.7)
    assert masks.shape == (DRAWS, 2, 3)
    assert_mean(products(masks.reshape(DRAWS, 6)), np.where(np.eye(6) == 1, 0.3, 0.09))


def test_gaussian_noise_has_mean_zero_and_the_variance():
    noise = mc.gaussian(2.5, (2, 2), DRAWS, 6)
    assert noise.shape == (DRAWS, 2, 2)
    assert_mean(noise, 0.0)
    assert_mean(noise**2, 2.5)
    assert not mc.gaussian(0.0, (3,), 2, 0).any()


def test_emphasised_weights_follow_the_masks():
    kept, weights = mc.emphasised(0.3, (2, 3), DRAWS, 7, kept_weight=0.25)
    assert_mean(kept, 0.7)
    assert (weights == np.where(kept == 1, 0.25, 1.0)).all()
    both = mc.mean_loss(lambda pair: float(pair[1].sum()), zip(kept, weights, strict=True))
    assert abs(both.mean - 6 * (0.3 + 0.25 * 0.7)) < 4 * both.standard_error


def test_a_seed_gives_the_same_masks_and_a_generator_moves_on():
    assert (mc.dropout(4, 9, 1, drop=0.5) == mc.dropout(4, 9, np.random.default_rng(1), drop=0.5)).all()
    rng = np.random.default_rng(1)
    assert (mc.dropout(40, 9, rng, drop=0.5) != mc.dropout(40, 9, rng, drop=0.5)).any()


@given(keeps, st.integers(1, 4), st.integers(1, 3))
def test_the_enumeration_holds_every_mask_with_its_chance(keep, blocks, block):
    masks, chances = mc.enumerate_masks(blocks * block, block, drop=1 - keep)
    truth = {}
    for bits in itertools.product([0.0, 1.0], repeat=blocks):
        truth[tuple(np.repeat(bits, block))] = float(np.prod(np.where(np.array(bits) == 1, keep, 1 - keep)))
    assert len(masks) == len(truth)
    for mask, chance in zip(masks, chances, strict=True):
        assert chance == pytest.approx(truth.pop(tuple(mask)), abs=1e-15)
    assert not truth


def test_sampled_and_exact_means_agree():
    rng = np.random.default_rng(8)
    Y, U, A = rng.standard_normal((3, 5)), rng.standard_normal((3, 4)), rng.standard_normal((4, 5))

    def loss(z):
        return float(np.sum((Y - U @ (z[:, None] / 0.7 * A)) ** 2))

    exact = mc.exact_mean(loss, *mc.enumerate_masks(4, drop=0.3))
    sampled = mc.mean_loss(loss, mc.dropout(4, 4000, rng, drop=0.3))
    assert sampled.draws == 4000
    assert abs(sampled.mean - exact) < 4 * sampled.standard_error
    assert sampled.standard_error < 0.05 * exact


def test_the_loss_of_impossible_masks_is_not_computed():
    masks, chances = mc.enumerate_masks(3, drop=0)
    seen = []
    assert mc.exact_mean(lambda z: seen.append(z) or float(z.sum()), masks, chances) == 3
    assert len(seen) == 1


@given(keeps, st.integers(1, 3), st.integers(1, 3))
def test_moments_of_the_enumeration_are_those_of_the_mask(keep, blocks, block):
    mean, cov = mc.moments(*mc.enumerate_masks(blocks * block, block, drop=1 - keep))
    assert np.allclose(mean, keep, atol=1e-14)
    expected = keep * (1 - keep) * np.kron(np.eye(blocks), np.ones((block, block)))
    assert np.allclose(cov, expected, atol=1e-14)


def test_moments_of_a_sample_weigh_all_masks_alike():
    masks = mc.dropout(3, 100, 9, drop=0.5)
    mean, cov = mc.moments(masks)
    assert np.allclose(mean, masks.mean(axis=0))
    assert np.allclose(cov, np.cov(masks.T, bias=True))


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: mc.dropout(3, 2, 0, drop=1), r"drop.*\[0, 1\).*1"),
    (lambda: mc.dropout(3, 2, 0, drop=-0.5), r"drop.*-0.5"),
    (lambda: mc.dropout(3, 2, 0, drop=float("nan")), r"drop.*nan"),
    (lambda: mc.dropout(3, 2, 0, drop=True), r"drop.*True"),
    (lambda: mc.dropout(3, 2, 0), r"drop.*is missing"),
    (lambda: mc.dropout(3, 2, 0, drop=0.4, keep=0.6), r"give drop or keep, not both"),
    (lambda: mc.dropout(3, 2, 0, keep=0.0), r"keep.*\(0, 1\].*0.0"),
    (lambda: mc.dropout(0, 2, 0, drop=0.5), r"width.*at least 1.*0"),
    (lambda: mc.dropout(3, 0, 0, drop=0.5), r"draws.*at least 1.*0"),
    (lambda: mc.dropout(2.5, 1, 0, drop=0.5), r"width.*2.5"),
    (lambda: mc.dropblock(7, 3, 2, 0, drop=0.5), r"multiple of the block.*7.*3"),
    (lambda: mc.overlapping(2, 3, 2, 0, padded=False, drop=0.5), r"block of 3.*width of 2"),
    (lambda: mc.gaussian(-1.0, (2,), 2, 0), r"variance.*-1"),
    (lambda: mc.gaussian(float("nan"), (2,), 2, 0), r"variance.*nan"),
    (lambda: mc.emphasised(1.0, (2,), 2, 0, 0.5), r"drop.*\[0, 1\).*1.0"),
    (lambda: mc.emphasised(0.5, (2,), 2, 0, -1), r"kept_weight.*-1"),
    (lambda: mc.enumerate_masks(21, drop=0.5), r"2\^21 masks"),
    (lambda: mc.enumerate_masks(5, 2, drop=0.5), r"multiple of the block"),
    (lambda: mc.mean_loss(np.sum, np.ones((1, 2))), r"at least 2 masks.*1"),
    (lambda: mc.exact_mean(np.sum, np.ones((2, 2)), np.array([0.5, 0.4])), r"add up to 1.*0.9"),
    (lambda: mc.moments(np.ones((2, 2)), np.ones(3) / 3), r"one number per mask"),
    (lambda: mc.moments([]), r"masks must be a matrix.*\(0,\)"),
    (lambda: mc.moments([[1.0], [1.0, 0.0]]), r"masks must be a matrix.*equal length"),
    (lambda: mc.estimate([1.0]), r"at least 2 samples.*\(1,\)"),
    (lambda: mc.estimate([]), r"at least 2 samples"),
    (lambda: mc.estimate(["a", "b"]), r"samples must be a list of numbers"),
    (lambda: mc.dropout(3, 2, -1, drop=0.5), r"rng must be.*seed.*-1"),
    (lambda: mc.dropout(3, 2, "a", drop=0.5), r"rng must be.*'a'"),
    (lambda: mc.gaussian(1.0, (2,), 2, None), r"rng must be.*None"),
    (lambda: mc.gaussian("a", (2,), 2, 0), r"variance.*'a'"),
    (lambda: mc.gaussian(10**400, (2,), 2, 0), r"variance.*in \[0, 1e\+100\]"),
    (lambda: mc.gaussian(1.0, "ab", 2, 0), r"shape must be a list.*'ab'"),
    (lambda: mc.dropconnect(None, 2, 0, drop=0.5), r"shape must be a list.*None"),
    (lambda: mc.dropconnect((2, 0), 2, 0, drop=0.5), r"shape.*at least 1.*0"),
    (lambda: mc.dropconnect((2,), 2, 0, keep=1e-320), r"keep must be at least 1e-100"),
    (lambda: mc.emphasised(0.5, (2,), 2, 0, "a"), r"kept_weight.*'a'"),
    (lambda: mc.moments(np.ones((2, 2)), np.array([1.5, -0.5])), r"one number per mask"),
)


def test_one_number_is_a_shape_of_one_axis():
    assert np.array_equal(mc.dropconnect(3, 4, 1, drop=0.5), mc.dropconnect((3,), 4, 1, drop=0.5))
    assert mc.gaussian(1.0, np.int64(3), 4, 1).shape == (4, 3)


def test_every_module_of_the_lab_is_an_attribute():
    for name in ("descent", "frames", "resnet", "montecarlo"):
        assert name in dir(lab)
        assert getattr(lab, name).__name__ == f"offdiag.lab.{name}"


OLDER = {
    "dropout": (4, 9, 1),
    "dropblock": (6, 3, 9, 1),
    "overlapping": (6, 3, 9, 1),
    "dropconnect": ((2, 3), 9, 1),
    "enumerate_masks": (4, 2),
}


@pytest.mark.parametrize("name", OLDER)
def test_keep_is_an_older_name_that_warns_at_the_line_of_the_caller(name):
    draw = getattr(mc, name)
    with pytest.warns(FutureWarning, match=r"keep=0.25 is the older name; use drop=0.75") as caught:
        older = draw(*OLDER[name], keep=0.25)
    assert caught[0].filename == __file__
    for one, other in zip(older, draw(*OLDER[name], drop=0.75), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", OLDER)
def test_a_call_of_the_older_form_is_an_error_not_another_rate(name):
    with pytest.raises((TypeError, OffdiagError)):
        getattr(mc, name)(0.25, *OLDER[name])
