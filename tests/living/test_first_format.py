"""Files of the first format, which held everything in one: they load, can be changed, and are converted on saving."""

import csv
import os
import warnings

import numpy as np
import pytest

import offdiag as od
from offdiag import cli, persist
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import atomic, container
from offdiag.living import certificate, events, past
from offdiag.living.first_format import FirstHashes
from offdiag.living.ledger import Ledger


@pytest.fixture
def inter():
    return od.synthetic.interactions(80, 40, 900, seed=3)


@pytest.fixture
def model(inter):
    return od.EDLAE(dropout=0.3, l2=3.0).fit(inter)


def first_format(folder, model, *, ledger):
    """A file of the previous version: everything in one file, 8-byte words, the key inside."""
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
def test_a_file_of_the_first_format_is_converted_with_a_warning(tmp_path, model, inter, ledger):
    first_format(tmp_path, model, ledger=ledger)
    old = od.load(tmp_path / "old.od", verify=True)
    assert np.array_equal(old.recommend(inter, k=5).items, model.recommend(inter, k=5).items)
    with pytest.raises(OffdiagError, match="no user in it has the history"):
        old.forget(od.Interactions(inter.matrix[[0, 0]], inter.user_ids[:2], inter.item_ids))
    old.forget(inter.select_users(np.array([4])))
    with pytest.warns(EarlierFormatWarning, match="could reveal users' histories.*destroy older copies"):
        old.save(tmp_path / "old.od", updatable=True)
    assert sorted(os.listdir(tmp_path)) == ["old.od", "old.od.living"]
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
    first_format(tmp_path, model, ledger=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EarlierFormatWarning)
        od.load(tmp_path / "old.od").save(tmp_path / "old.od", updatable=True)
    ledger = past.ledger_of(od.load(tmp_path / "old.od"))
    assert events.plan_update(ledger, events.table_of(inter)).new_events == 0
    plan = events.plan_forget(ledger, events.table_of(inter.select_users(np.array([7]))))
    assert plan.ledger.n_users == 79


def test_the_command_warns_of_what_a_first_format_file_revealed(tmp_path, model, inter, monkeypatch, capsys):
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


def test_a_catalogue_for_a_first_format_file_converts_it_with_a_warning(tmp_path, model, inter, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first_format(tmp_path, model, ledger=True)
    (tmp_path / "films.csv").write_text(f"item,title\n{inter.item_ids[3]},Alien\n")
    assert cli.main(["catalogue", "old.od", "films.csv"]) == 0
    assert "could reveal users' histories" in capsys.readouterr().err
    found = od.load("old.od")
    assert found.catalogue_.title(inter.item_ids[3]) == "Alien"
    found.forget(inter.select_users([7]))
    assert found.n_users_ == 79
