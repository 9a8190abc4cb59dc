"""`offdiag update`: the model of a fit to the whole log, and no event counted twice."""

import pytest

import offdiag as od
from offdiag import persist
from offdiag.files import switch
from offdiag.living import certificate
from tests.fixtures.event_logs import KINDS, N_USERS, ORDERS, SETTINGS, check_same_model, write_log


@pytest.fixture
def folder(log_folder):
    return log_folder


@pytest.mark.parametrize("kind", (KINDS | ORDERS).values(), ids=KINDS | ORDERS)
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


@pytest.mark.parametrize("repeats", [True, False], ids=["events", "pairs"])
def test_a_model_of_order_saved_in_python_follows_a_log(text_of, folder, repeats):
    keep = {"keep": "events" if repeats else "pairs"}
    settings = {"l2": 8.0, "mix": 0.3, "decay": 0.7, "history_decay": 0.8, "dropout": 0.4, "dtype": "float64"}
    for name in ("half", "log"):
        inter = od.read(folder / f"{name}.csv", time="at", **keep)
        od.NextItem(**settings, user_power=0.0).fit(inter).save(folder / f"{name}.od", updatable=True)
    text_of("update", "half.od", "log.csv", "--time", "at")
    a, b = od.load("half.od", verify=True), od.load("log.od", verify=True)
    assert {n: x.tobytes() for n, x in a.gram_.arrays().items()} == {
        n: x.tobytes() for n, x in b.gram_.arrays().items()
    }
    assert certificate.difference(a.weights_, b.weights_) <= 1e-12
    text_of("forget", "half.od", "--users", "three.csv", "--time", "at")


def test_a_model_of_order_needs_an_order_and_all_columns(fit, fails, untouched, folder, rows):
    order = ["--model", "next-item"]
    assert "in-order" in fails("fit", "log.csv", "--out", "m.od", "--updatable", *order)
    neighbours = fails("fit", "log.csv", "--out", "m.od", "--updatable", *order, "--time", "at", "--neighbours", "5")
    assert "a NextItem with neighbours cannot be updated" in neighbours
    assert not (folder / "m.od").exists()
    fit("half.csv", "model.od", *ORDERS["half-life"])
    write_log(folder / "new.csv", [(*row[:2], *row[3:]) for row in rows[-40:]], ("user", "item", "at", "id"))
    assert "who are in the model already" in untouched("update", "model.od", "new.csv")
    write_log(folder / "untimed.csv", rows, ("user", "item"))
    for call in (["update", "model.od", "untimed.csv"], ["forget", "model.od", "--users", "untimed.csv"]):
        assert "'at'" in untouched(*call)


def test_lines_of_ids_are_followed_and_forgotten_in_their_order(text_of, fails, folder):
    settings = ["--mix", "0.2", "--l2", "2", "--dropout", "0.2", "--decay", "0.7", "--history-decay", "0.8"]
    (folder / "log.txt").write_text("1 4 5 6\n2 5 6\n3 6 5 4\n")
    (folder / "gone.txt").write_text("3 6 5 4\n")
    lines = ["--format", "sequence"]
    text_of("fit", "log.txt", "--out", "model.od", "--model", "next-item", "--updatable", *settings, *lines)
    assert "--format 'sequence'" in fails("forget", "model.od", "--users", "gone.txt")  # a table has no order
    text_of("forget", "model.od", "--users", "gone.txt", *lines)
    assert od.load("model.od").n_users_ == 2


def test_a_model_with_features_follows_the_log(text_of, fit, folder, rows):
    items = sorted({item for _, item, *_ in rows})
    lines = [f"{item},kind {place % 3}" for place, item in enumerate([*items, "A brand new thing"])]
    (folder / "products.csv").write_text("\n".join(["item,kind", *lines, ""]))
    more = ("--features", "products.csv", "--feature-columns", "categories=kind", "--feature-weight", 0.5)

    def fitted(log, name):
        text_of("fit", log, "--out", name, "--updatable", *more, *SETTINGS, notes=True)

    fitted("half.csv", "model.od")
    write_log(folder / "new.csv", [("zoe", "A brand new thing"), ("zoe", rows[0][1])], ("user", "item"))
    text_of("update", "model.od", "log.csv")
    text_of("update", "model.od", "new.csv")
    assert "A brand new thing" in od.load("model.od").item_ids_
    text_of("forget", "model.od", "--users", "new.csv", "--prove")
    fitted("log.csv", "whole.od")
    check_same_model("model.od", "whole.od")
    assert od.load("model.od").settings_["feature_weight"] == 0.5
