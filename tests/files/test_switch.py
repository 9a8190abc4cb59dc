"""A model and its living state change together, whatever happens in between."""

import json
import os
import shutil
import stat
import warnings

import numpy as np
import pytest

import offdiag as od
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import atomic, keys, sealed, switch
from offdiag.living import certificate, past


@pytest.fixture
def inter():
    return od.synthetic.interactions(80, 40, 900, seed=3)


@pytest.fixture
def model(inter):
    return od.EDLAE(dropout=0.3, l2=3.0).fit(inter)


def names(folder):
    return sorted(os.listdir(folder))


def test_serving_and_living_part_ways(tmp_path, model):
    model.save(tmp_path / "m.od", updatable=True)
    assert names(tmp_path) == ["m.od", "m.od.living"]
    assert stat.S_IMODE((tmp_path / "m.od.living").stat().st_mode) == 0o600
    serving = od.persist.describe(tmp_path / "m.od")
    assert set(serving["tensors"]) == {"item_ids.offsets", "item_ids.utf8", "popularity", *serving["tensors"]} & {
        name for name in serving["tensors"] if not name.startswith(("gram", "ledger", "roll", "peaks"))
    }
    model.save(tmp_path / "plain.od")
    strip = lambda path: {k: v for k, v in od.persist.describe(path).items() if k not in ("created", "living")}  # noqa: E731
    assert strip(tmp_path / "m.od") == strip(tmp_path / "plain.od")


def test_a_model_is_served_without_its_living_state_and_without_its_key(tmp_path, model, inter):
    model.save(tmp_path / "m.od", updatable=True, key=tmp_path / "keys")
    os.unlink(tmp_path / "keys")
    loaded = od.load(tmp_path / "m.od")
    assert np.array_equal(loaded.recommend(inter, k=5).items, model.recommend(inter, k=5).items)
    with pytest.raises(OffdiagError, match="encrypted with the key .* which is not in"):
        loaded.forget(inter.select_users(np.array([0])))
    os.unlink(tmp_path / "m.od.living")
    with pytest.raises(OffdiagError, match="updatable=True"):
        od.load(tmp_path / "m.od").forget(inter.select_users(np.array([0])))


def test_files_that_do_not_belong_together_are_refused(tmp_path, model, inter):
    model.save(tmp_path / "m.od", updatable=True)
    shutil.copyfile(tmp_path / "m.od", tmp_path / "old.od")
    model.forget(inter.select_users(np.array([0])))
    model.save(tmp_path / "m.od", updatable=True)
    shutil.copyfile(tmp_path / "old.od", tmp_path / "m.od")
    with pytest.raises(OffdiagError, match="belongs to another state of the model.*restore both"):
        od.load(tmp_path / "m.od").forget(inter.select_users(np.array([1])))


def test_a_plain_save_in_its_place_removes_what_belonged_to_the_old_one(tmp_path, model):
    model.save(tmp_path / "m.od", updatable=True)
    model.save(tmp_path / "m.od")
    assert names(tmp_path) == ["m.od"]


def test_each_model_has_a_key_of_its_own_and_keeps_it(tmp_path, model, inter):
    model.save(tmp_path / "a.od", updatable=True, key=tmp_path / "keys")
    model.save(tmp_path / "b.od", updatable=True, key=tmp_path / "keys")
    a, b = (sealed.key_id(tmp_path / f"{name}.od.living") for name in "ab")
    assert a != b
    loaded = od.load(tmp_path / "a.od", key=tmp_path / "keys")
    loaded.forget(inter.select_users(np.array([0])))
    loaded.save(tmp_path / "a.od", updatable=True, key=tmp_path / "keys")
    assert sealed.key_id(tmp_path / "a.od.living") == a


def test_a_save_that_is_stopped_before_the_switch_leaves_no_key(tmp_path, model, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    for stage in ("finish", "move"):
        monkeypatch.setattr(atomic.Pending, stage, stop)
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "m.od", updatable=True, key=tmp_path / "keys")
        monkeypatch.undo()
        assert names(tmp_path) == []


def test_a_rotated_key_makes_older_copies_unreadable_and_no_others(tmp_path, model, inter):
    for name in "ab":
        model.save(tmp_path / f"{name}.od", updatable=True, key=tmp_path / "keys")
    backup = tmp_path / "backup"
    shutil.copytree(tmp_path, backup, ignore=shutil.ignore_patterns("keys"))
    loaded = od.load(tmp_path / "a.od", key=tmp_path / "keys")
    loaded.forget(inter.select_users(np.array([0])))
    loaded.save(tmp_path / "a.od", updatable=True, key=tmp_path / "keys", rotate_key=True)
    assert od.load(tmp_path / "a.od", key=tmp_path / "keys").gram_.n_users == 79
    assert od.load(tmp_path / "b.od", key=tmp_path / "keys").gram_.n_users == 80
    assert od.load(backup / "b.od", key=tmp_path / "keys").gram_.n_users == 80
    with pytest.raises(OffdiagError, match="which is not in"):
        _ = od.load(backup / "a.od", key=tmp_path / "keys").gram_
    od.load(tmp_path / "a.od", key=tmp_path / "keys").forget(inter.select_users(np.array([1])))  # ids are still known


def test_an_error_before_the_switch_leaves_everything_as_it_was(tmp_path, model, monkeypatch):
    model.save(tmp_path / "m.od", updatable=True)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    replace = os.replace

    def fails(at):
        def call(*args):
            calls.append(args)
            if len(calls) == at:
                raise OSError(5, "Input/output error")
            replace(*args)

        return call

    for at in (1, 2, 3):
        calls = []
        monkeypatch.setattr(os, "replace", fails(at))
        with pytest.raises(OffdiagError, match="cannot save"):
            model.save(tmp_path / "m.od", updatable=True)
        assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_a_reader_without_the_key_finishes_the_renames(tmp_path, model, inter, monkeypatch):
    model.save(tmp_path / "m.od", updatable=True, key=tmp_path / "keys")
    model.forget(inter.select_users(np.array([0])))
    with monkeypatch.context() as patch:
        patch.setattr(switch, "_rename", lambda target: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "m.od", updatable=True, key=tmp_path / "keys")
    assert names(tmp_path) == ["keys", "m.od", "m.od.change", "m.od.living", "m.od.living.next", "m.od.next"]
    assert od.load(tmp_path / "m.od").n_users_ == 79
    assert names(tmp_path) == ["keys", "m.od", "m.od.change", "m.od.living"]
    assert od.load(tmp_path / "m.od", key=tmp_path / "keys").gram_.n_users == 79
    assert names(tmp_path) == ["keys", "m.od", "m.od.living"]


def test_a_note_that_was_tampered_with_is_refused(tmp_path, model, inter):
    model.save(tmp_path / "m.od", updatable=True)
    (tmp_path / "m.od.change").write_bytes(b"x" * 200)
    with pytest.raises(OffdiagError, match="not the living state"):
        switch.complete(tmp_path / "m.od", keys.keys_of())
    assert od.load(tmp_path / "m.od").n_users_ == 80


def first_format(folder, model, *, ledger):
    """A file of the previous version: everything in one file, 8-byte words, the key inside."""
    from offdiag import persist
    from offdiag.files import container
    from offdiag.living import events
    from offdiag.living.first_format import FirstHashes
    from offdiag.living.ledger import Ledger

    about, tensors = persist._contents(model, None)
    G = past.gram_of(model)
    about["gram"] = {"kind": G.kind, "user_power": G.user_power}
    tensors |= {f"gram.{name}": array for name, array in G.arrays().items()}
    salt = bytes(range(16))
    X, item_ids, user_ids = model._past.source, model.item_ids_, model._past.user_ids
    hashes = FirstHashes(bytes(32), salt)
    histories = hashes.history_words(X, item_ids)
    if not ledger:
        tensors |= {"roll.salt": np.frombuffer(salt, np.uint8), "roll.histories": np.sort(histories)}
    else:
        table = events.table_of(od.Interactions(X, user_ids, item_ids))
        rows = np.repeat(np.arange(len(user_ids)), np.diff(X.indptr))
        words = hashes.event_words(table, user_ids, rows, "once")
        users = hashes.user_words(user_ids)
        order = np.argsort(users)
        about["ledger"] = Ledger.empty(events.recipe_of(table)).about()
        lists = [np.sort(words[X.indptr[u] : X.indptr[u + 1]]) for u in order]
        tensors |= {
            "ledger.salt": np.frombuffer(salt, np.uint8),
            "ledger.users": users[order],
            "ledger.histories": histories[order],
            "ledger.sizes": np.diff(X.indptr)[order].astype(np.int64),
            "ledger.starts": np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64),
            "ledger.events": np.concatenate(lists),
        }
    with atomic.replacing(folder / "old.od") as file:
        container.write(file, about, dict(sorted(tensors.items(), key=lambda pair: -pair[1].dtype.itemsize)), None)


@pytest.mark.parametrize("ledger", [True, False])
def test_a_file_of_the_first_format_loads_and_is_converted_with_a_word(tmp_path, model, inter, ledger):
    first_format(tmp_path, model, ledger=ledger)
    old = od.load(tmp_path / "old.od", verify=True)
    assert np.array_equal(old.recommend(inter, k=5).items, model.recommend(inter, k=5).items)
    with pytest.raises(OffdiagError, match="no user in it has the history"):
        old.forget(od.Interactions(inter.matrix[[0, 0]], inter.user_ids[:2], inter.item_ids))
    old.forget(inter.select_users(np.array([4])))
    with pytest.warns(EarlierFormatWarning, match="could reveal users' histories.*destroy older copies"):
        old.save(tmp_path / "old.od", updatable=True)
    assert names(tmp_path) == ["old.od", "old.od.living"]
    again = od.load(tmp_path / "old.od")
    again.update(inter.select_users(np.array([4])))
    again.forget(inter.select_users(np.array([4, 5])))
    with pytest.raises(OffdiagError, match="forgotten already"):
        again.forget(inter.select_users(np.array([5])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.save(tmp_path / "old.od", updatable=True)
    rest = inter.select_users(np.setdiff1d(np.arange(80), [4, 5]))
    expected = od.EDLAE(**{name: again.settings_[name] for name in ("dropout", "l2", "user_power")}).fit(rest)
    assert certificate.difference(again.weights_, expected.weights_) <= 1e-5


def test_the_log_of_a_first_format_file_continues(tmp_path, model, inter):
    from offdiag.living import events

    first_format(tmp_path, model, ledger=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EarlierFormatWarning)
        od.load(tmp_path / "old.od").save(tmp_path / "old.od", updatable=True)
    ledger = past.ledger_of(od.load(tmp_path / "old.od"))
    assert events.plan_update(ledger, events.table_of(inter)).new_events == 0
    plan = events.plan_forget(ledger, events.table_of(inter.select_users(np.array([7]))))
    assert plan.ledger.n_users == 79


def test_the_command_says_what_a_file_of_the_first_format_revealed(tmp_path, model, inter, monkeypatch, capsys):
    import csv

    from offdiag import cli

    monkeypatch.chdir(tmp_path)
    first_format(tmp_path, model, ledger=True)
    assert cli.main(["info", "old.od"]) == 0
    assert "first file format" in capsys.readouterr().out
    rows = [(int(u), inter.item_ids[i]) for u in (7, 9) for i in inter.matrix[[u]].indices]
    with open("leaving.csv", "w", newline="") as file:
        csv.writer(file).writerows([("user", "item"), *rows])
    assert cli.main(["forget", "old.od", "--users", "leaving.csv"]) == 0
    said = capsys.readouterr().err
    assert "could reveal users' histories" in said
    assert said.count("\n") == 1
    assert cli.main(["info", "old.od"]) == 0
    assert "by old.od.living" in capsys.readouterr().out
    assert od.load("old.od").n_users_ == 78


def test_certificates_of_the_same_change_share_nothing(tmp_path, model, inter):
    model.save(tmp_path / "m.od", updatable=True)
    ones = [od.load(tmp_path / "m.od").forget(inter.select_users(np.array([0]))).to_dict() for _ in range(2)]
    for name in ("nonce", "before", "after"):
        assert ones[0][name] != ones[1][name]
    assert json.dumps(ones[0])
