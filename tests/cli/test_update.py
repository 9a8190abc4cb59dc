"""`offdiag update`: the model of a fit to the whole log, and no event counted twice."""

import pytest

import offdiag as od
from offdiag import persist
from offdiag.files import switch
from offdiag.living import certificate
from tests.fixtures.event_logs import KINDS, N_USERS, SETTINGS, check_same_model, write_log


@pytest.fixture
def folder(log_folder):
    return log_folder


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_growing_log_gives_the_model_of_the_whole_log(text_of, json_of, fit, folder, kind):
    fit("half.csv", "model.od", *kind)
    found = json_of("update", "model.od", "log.csv")
    assert found["events"]["new"] > 0
    assert found["users"]["changed"] > 0
    fit("log.csv", "whole.od", *kind)
    check_same_model("model.od", "whole.od")
    before = (folder / "model.od").read_bytes()
    assert "nothing new" in text_of("update", "model.od", "log.csv")
    assert (folder / "model.od").read_bytes() == before


def test_items_appear_with_a_user_and_vanish_with_them(text_of, fit, folder, rows):
    fit("log.csv", "model.od")
    write_log(folder / "new.csv", [("zoe", "A brand new thing"), ("zoe", rows[0][1])], ("user", "item"))
    assert "1 new items" in text_of("update", "model.od", "new.csv")
    assert "A brand new thing" in od.load("model.od").item_ids_
    assert "1 items gone" in text_of("forget", "model.od", "--users", "new.csv")
    fit("log.csv", "fresh.od")
    check_same_model("model.od", "fresh.od")


def test_every_user_may_change_at_once(text_of, fit, folder):
    write_log(folder / "a.csv", [(u, i) for u in range(6) for i in range(4) if i != u % 4], ("user", "item"))
    write_log(folder / "b.csv", [(u, i) for u in range(6) for i in range(4)], ("user", "item"))
    fit("a.csv", "model.od")
    text_of("update", "model.od", "b.csv")
    fit("b.csv", "whole.od")
    check_same_model("model.od", "whole.od")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparse", "low-rank-edlae", "spectral", "rdlae", "popularity"])
def test_other_models_follow_the_log_too(text_of, json_of, name):
    more = {"popularity": [], "sparse": ["--neighbours", "8"], "rdlae": []}.get(name, ["--rank", "5"])
    text_of("fit", "half.csv", "--out", "model.od", "--updatable", "--model", name, *more)
    text_of("update", "model.od", "log.csv")
    assert "nothing new" in text_of("update", "model.od", "log.csv")
    found = json_of("forget", "model.od", "--users", "ids.txt", "--events", "log.csv")
    assert found["n_users"] == N_USERS - 3 == od.load("model.od", verify=True).n_users_


def test_the_settings_of_the_first_fit_stay(text_of):
    text_of("fit", "half.csv", "--out", "model.od", "--updatable")
    settings = od.load("model.od").settings_
    text_of("update", "model.od", "log.csv")
    assert od.load("model.od").settings_ == settings


def test_a_plain_fit_and_an_updatable_one_give_the_same_weights(text_of, fit, folder):
    fit("log.csv", "model.od", "--value", "rating")
    text_of("fit", "log.csv", "--out", "plain.od", *SETTINGS, "--value", "rating")
    assert certificate.difference(od.load("model.od").weights_, od.load("plain.od").weights_) == 0
    assert persist.describe("plain.od")["bytes"] == persist.describe("model.od")["bytes"]
    assert not switch.living_path(folder / "plain.od").exists()


def test_a_tuned_model_can_be_updated_and_forget(text_of, folder):
    search = ["--trials", "2", "--metric", "ndcg@10", "--held-out", "0.2"]
    text_of("tune", "half.csv", *search, "--out", "tuned.od", "--updatable", "--event", "id")
    assert persist.describe(folder / "tuned.od")["metrics"] is not None
    text_of("update", "tuned.od", "log.csv")
    text_of("forget", "tuned.od", "--users", "three.csv")
    found = od.load("tuned.od")
    settings = {name: found.settings_[name] for name in ("dropout", "l2", "user_power")}
    assert certificate.difference(found.weights_, od.EDLAE(**settings).fit(od.read("others.csv")).weights_) <= 1e-5
