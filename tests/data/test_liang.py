"""The Liang protocol against a slow, independent reading of its description, draw for draw."""

import numpy as np
import pandas as pd
import pytest

from offdiag.data import prepare, split
from offdiag.data.read import read


def slow_liang(events: pd.DataFrame, held_out: int, seed: int):
    """Row by row on the filtered table: (train pairs, columns, per part {user: (history, targets)})."""
    users = sorted(set(events["user"]))
    shuffled = [users[k] for k in np.random.RandomState(seed).permutation(len(users))]
    test = set(shuffled[-held_out:])
    validation = set(shuffled[-2 * held_out : -held_out])
    columns, train = [], []
    for user, item in zip(events["user"], events["item"], strict=True):
        if user not in test and user not in validation:
            train.append((user, item))
            if item not in columns:
                columns.append(item)
    parts = []
    for members in (validation, test):
        generator = np.random.RandomState(seed)
        held = {}
        for user in sorted(members):
            mine = [i for u, i in zip(events["user"], events["item"], strict=True) if u == user and i in columns]
            targets = []
            if len(mine) >= 5:
                drawn = generator.choice(len(mine), size=int(0.2 * len(mine)), replace=False)
                targets = [mine[k] for k in drawn]
            held[user] = (sorted(set(mine) - set(targets)), sorted(targets))
        parts.append(held)
    return train, columns, parts


def table(seed: int, names: bool) -> pd.DataFrame:
    """Ratings in random order, each pair once."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(70 * 50)[:1800]
    frame = pd.DataFrame({"user": cells // 50 * 3 + 1, "item": cells % 50 * 7, "rating": rng.integers(1, 6, 1800)})
    return frame.astype({"user": str, "item": str}) if names else frame


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("seed", [98765, 0, 7])
def test_every_draw_equals_the_slow_protocol(seed, names):
    frame = table(seed, names)
    kept = frame[frame["rating"] >= 4]
    kept = kept[kept.groupby("user")["item"].transform("size") >= 5]
    train, columns, parts = slow_liang(kept, held_out=12, seed=seed)

    inter = read(frame, value="rating")
    inter = prepare.min_counts(prepare.binarize(inter, at_least=4), users=5, items=0)
    ours = split.liang(inter, held_out_users=12, seed=seed)

    assert ours.train.item_ids.tolist() == columns
    coo = ours.train.matrix.tocoo()
    pairs = zip(ours.train.user_ids[coo.row].tolist(), ours.train.item_ids[coo.col].tolist(), strict=True)
    assert sorted(pairs) == sorted(train)
    targets = 0
    for part, expected in zip((ours.validation, ours.test), parts, strict=True):
        assert part.user_ids.tolist() == sorted(expected)
        assert part.histories.shape == part.targets.shape == (12, len(columns))
        for row, user in enumerate(part.user_ids.tolist()):
            history = sorted(ours.train.item_ids[part.histories[[row]].indices].tolist())
            target = sorted(ours.train.item_ids[part.targets[[row]].indices].tolist())
            assert (history, target) == expected[user]
            targets += len(target)
    assert targets > 20  # the comparison is not vacuous


def test_the_order_of_the_table_decides_the_draws():
    frame = table(3, False)
    shuffled = frame.sample(frac=1, random_state=1)
    one, two = (split.liang(read(f), 12) for f in (frame, shuffled))
    assert one.test.user_ids.tolist() == two.test.user_ids.tolist()
    assert one.train.item_ids.tolist() != two.train.item_ids.tolist()
    back = np.argsort(one.train.item_ids), np.argsort(two.train.item_ids)
    assert not np.array_equal(one.test.targets.toarray()[:, back[0]], two.test.targets.toarray()[:, back[1]])


def test_users_without_interactions_are_not_counted():
    frame = table(4, False)
    frame.loc[frame["user"] < 30, "rating"] = 1
    inter = read(frame, value="rating")
    with_empty = prepare.binarize(inter, at_least=5)  # leaves empty users in place
    without = prepare.min_counts(with_empty, users=1, items=0)
    assert without.n_users < with_empty.n_users
    one, two = split.liang(with_empty, 12), split.liang(without, 12)
    assert one.test.user_ids.tolist() == two.test.user_ids.tolist()
    assert np.array_equal(one.test.targets.toarray(), two.test.targets.toarray())


def test_storage_order_does_not_matter_only_ids_do():
    frame = table(5, False)
    inter = read(frame)
    moved = inter.select_users(positions=slice(None, None, -1)).select_items(positions=slice(None, None, -1))
    one, two = split.liang(inter, 12), split.liang(moved, 12)
    assert one.train.item_ids.tolist() == two.train.item_ids.tolist()
    assert np.array_equal(one.test.targets.toarray(), two.test.targets.toarray())
