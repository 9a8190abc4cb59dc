"""A model and its living state change together, whatever happens in between."""

import json
import os
import shutil
import stat

import numpy as np
import pytest

import offdiag as od
from offdiag.errors import OffdiagError
from offdiag.files import atomic, keys, sealed, switch


@pytest.fixture
def inter():
    return od.synthetic.interactions(80, 40, 900, seed=3)


@pytest.fixture
def model(inter):
    return od.EDLAE(dropout=0.3, l2=3.0).fit(inter)


def names(folder):
    return sorted(os.listdir(folder))


def test_the_served_file_holds_nothing_of_the_living_state(tmp_path, model):
    model.save(tmp_path / "m.od", updatable=True)
    assert names(tmp_path) == ["m.od", "m.od.living"]
    assert stat.S_IMODE((tmp_path / "m.od.living").stat().st_mode) == 0o600
    model.save(tmp_path / "plain.od")
    ours, plain = (od.persist.describe(tmp_path / name) for name in ("m.od", "plain.od"))
    assert not [name for name in ours["tensors"] if name.startswith(("gram", "ledger", "roll", "peaks"))]
    assert ours | dict.fromkeys(("created", "living")) == plain | dict.fromkeys(("created", "living"))


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


def test_a_plain_save_removes_the_old_living_state(tmp_path, model):
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


def test_certificates_of_the_same_change_share_nothing(tmp_path, model, inter):
    model.save(tmp_path / "m.od", updatable=True)
    ones = [od.load(tmp_path / "m.od").forget(inter.select_users(np.array([0]))).to_dict() for _ in range(2)]
    for name in ("nonce", "before", "after"):
        assert ones[0][name] != ones[1][name]
    assert json.dumps(ones[0])
