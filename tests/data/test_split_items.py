"""Splits by item: what is hidden from train, and what remains to be predicted."""

import numpy as np
import pytest

import offdiag as od


@pytest.fixture
def inter():
    return od.synthetic.interactions(200, 50, 1_800, seed=1, times=True)


def test_hidden_items_are_the_targets_and_nothing_is_lost(inter):
    split = od.split.cold_items(inter, share=0.1, seed=3)
    assert (len(split.validation_items), len(split.test_items)) == (5, 5)
    assert not np.isin(split.hidden_items, split.train.item_ids).any()
    assert np.array_equal(split.test.item_ids, np.concatenate([split.train.item_ids, split.hidden_items]))
    assert split.train.nnz + split.validation.targets.nnz + split.test.targets.nnz == inter.nnz
    for part, items in ((split.validation, split.validation_items), (split.test, split.test_items)):
        assert np.isin(part.item_ids[part.targets.indices], items).all()
        assert (part.histories[:, : split.train.n_items] != split.train.matrix).nnz == 0
        assert part.histories.nnz == split.train.nnz
    whole = {(row["user"], row["item"]) for row in inter.to_dicts()}
    assert {(row["user"], row["item"]) for row in split.to_dicts() if row["role"] != "history"} == whole


def test_with_held_out_warm_items_are_targets_too(inter):
    split = od.split.cold_items(inter, share=0.1, held_out=0.2)
    warm, new = split.test.only(split.train.item_ids), split.test.only(split.test_items)
    assert warm.targets.nnz + new.targets.nnz == split.test.targets.nnz
    assert 0.05 < warm.targets.nnz / inter.nnz < 0.12  # half of the held-out ones; the others are for validation
    assert not split.test.histories.multiply(split.test.targets).nnz
    assert not split.train.matrix.multiply(warm.targets[:, : split.train.n_items]).nnz


def test_the_seed_decides_and_ids_of_any_order_are_accepted(inter):
    one, again, other = (od.split.cold_items(inter, seed=seed).test_items.tolist() for seed in (1, 1, 2))
    assert one == again != other
    mixed = inter.select_items(positions=np.random.default_rng(0).permutation(50))
    split = od.split.cold_items(mixed)
    assert split.hidden_items.tolist() == sorted(split.hidden_items.tolist())


@pytest.mark.parametrize(("words", "message"), [({"share": 0.5}, "share"), ({"held_out": 1.0}, "held_out")])
def test_shares_that_leave_nothing_are_refused(inter, words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.split.cold_items(inter, **words)


def test_too_few_items_are_refused():
    with pytest.raises(od.OffdiagError, match="left for train"):
        od.split.cold_items(od.read(np.array([[1, 1], [1, 0]])), share=0.4)
    sparse_columns = od.read(np.array([[1, 0, 1, 0, 1], [1, 0, 0, 1, 0]]))
    hidden = od.split.cold_items(sparse_columns, share=0.2).hidden_items
    assert 1 not in hidden  # nobody has it, so it is no target


def test_evaluation_among_some_items_lists_only_these(inter):
    split = od.split.strong(inter, held_out=0.2)
    model = od.EASE(l2=10.0).fit(split.train)
    some = inter.item_ids[:10]
    among = od.evaluate(model, split.test, ["recall@10", "coverage@10"], among=some)
    assert among.mean["recall@10"] == 1.0  # lists of all ten
    assert among.mean["coverage@10"] <= 0.2
    assert among.n_users == od.evaluate(model, split.test.only(some), "recall@10").n_users


def test_with_features_only_items_that_can_be_placed_are_hidden():
    inter = od.synthetic.interactions(200, 40, 1500, names=False, seed=0)
    known = [item for item in inter.item_ids.tolist() if item % 5]  # a fifth has no row
    tags = [f"own {item}" if item % 2 else f"shared {item % 3}" for item in known]  # odd ones share theirs with nobody
    features = od.read_features({"item": known, "tag": tags}, categories="tag")
    split = od.split.cold_items(inter, share=0.2, features=features)
    assert len(split.validation_items)
    assert len(split.test_items)
    assert all(item % 5 and not item % 2 for item in split.hidden_items.tolist())
    whole = np.concatenate([split.train.item_ids, split.hidden_items])
    assert np.array_equal(np.sort(whole), inter.item_ids)  # what cannot be placed stays in train
    model = od.EASE(l2=5.0).fit(split.train).add_items(features.select(whole))
    assert od.evaluate(model, split.test, ["recall@3"], among=split.test_items).n_users > 0
    alone = od.read_features({"item": known, "tag": [f"own {item}" for item in known]}, categories="tag")
    with pytest.raises(od.OffdiagError, match="received none to hide"):
        od.split.cold_items(inter, share=0.2, features=alone)
