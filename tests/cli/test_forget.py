"""`offdiag forget`: the model of a fit to the other users, and a certificate that gives nothing away."""

import errno
import json
import os

import pytest

import offdiag as od
from tests.fixtures.event_logs import KINDS, ORDERS, THREE, check_same_model, write_log

IDS = ["--users", "ids.txt", "--events", "log.csv"]


@pytest.fixture
def folder(log_folder):
    return log_folder


@pytest.mark.parametrize("kind", (KINDS | ORDERS).values(), ids=KINDS | ORDERS)
@pytest.mark.parametrize("given", [["--users", "three.csv"], IDS], ids=["rows", "ids"])
def test_forgetting_gives_the_model_of_the_others(json_of, untouched, fit, folder, kind, given):
    fit("log.csv", "model.od", *kind)
    found = json_of("forget", "model.od", *given, "--prove", "--certificate", "proof.json")
    assert found.items() > json.loads((folder / "proof.json").read_text()).items()
    assert found["action"] == "forget"
    assert found["users"] == 3
    assert found["proof"] <= 1e-12
    assert found["before"] != found["after"]
    assert not any(name in str(found) for name in THREE)
    fit("others.csv", "others.od", *kind)
    check_same_model("model.od", "others.od")
    assert "3 who are not in it" in untouched("forget", "model.od", *given)


def test_a_certificate_names_nothing_that_only_the_forgotten_had(text_of, json_of, fit, folder, rows):
    fit("log.csv", "model.od")
    write_log(folder / "lonely.csv", [("lonely", "her diary", *rows[0][2:]), ("lonely", rows[0][1], *rows[0][2:])])
    text_of("update", "model.od", "lonely.csv")
    found = json_of("forget", "model.od", "--users", "lonely.csv", "--certificate", "proof.json")
    kept = json.loads((folder / "proof.json").read_text())
    assert not {"gone_items", "new_items", "interactions", "events", "seconds"} & set(kept)
    assert found == kept | {"interactions": 2, "events": 2, "gone_items": 1, "method": "woodbury"}
    assert "diary" not in str(found)
    assert "her diary" not in od.load("model.od").item_ids_


def test_no_user_can_be_read_from_the_file(fit, folder):
    fit("log.csv", "model.od", "--event", "id")
    content = (folder / "model.od").read_bytes() + (folder / "model.od.living").read_bytes()
    assert b"user 3" not in content
    assert b"again0" not in content


def test_a_certificate_replaces_no_other_file(fit, untouched, folder):
    fit("log.csv", "model.od")
    forget = ["forget", "model.od", *IDS, "--certificate"]
    for name in ("log.csv", "ids.txt", "model.od"):
        for more in ([], ["--out", "other.od"]):
            assert "choose another name" in untouched(*forget, f"./{name}", *more)
    assert "choose two names" in untouched(*forget, "./new.od", "--out", "new.od")


def test_without_a_written_certificate_nobody_is_forgotten(fit, untouched, folder, monkeypatch):
    fit("log.csv", "model.od")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "gone.json'" in untouched("forget", "model.od", "--users", "three.csv", "--certificate", "gone.json")


def test_forgetting_the_wrong_rows_changes_nothing(fit, untouched, folder, rows):
    fit("log.csv", "model.od", "--value", "rating")
    theirs = [row for row in rows if row[0] in THREE]
    write_log(folder / "short.csv", theirs[:-1])
    write_log(folder / "other.csv", [*theirs[:-1], (*theirs[-1][:2], 1 + theirs[-1][2] % 5, *theirs[-1][3:])])
    write_log(folder / "stranger.csv", [*theirs, ("nobody", theirs[0][1], 3, 1, "e")])
    (folder / "none.txt").write_text("\n")
    for given, words in (
        (["short.csv"], "1 of 3 users"),
        (["other.csv"], "1 of 3 users"),
        (["stranger.csv"], "'nobody'"),
        (["ids.txt"], "received only ids"),
        (["ids.txt", "--events", "short.csv"], "1 of 3 users"),
        (["ids.txt", "--events", "others.csv"], "received no rows of 3 of 3 users"),
        (["none.txt", "--events", "log.csv"], "at least one user id"),
        (["three.csv", "--users-query", "select 1"], "goes with --events"),
    ):
        assert words in untouched("forget", "model.od", "--users", *given)


def test_the_last_users_cannot_all_be_forgotten(fit, untouched, folder):
    write_log(folder / "few.csv", [("a", "x"), ("a", "y"), ("b", "x")], ("user", "item"))
    fit("few.csv", "model.od")
    assert untouched("forget", "model.od", "--users", "few.csv")
