"""`offdiag datasets`, and data sets that other commands read by name."""

import pytest

import offdiag as od


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "offdiag"


def test_datasets_are_listed_with_licence_and_address(text_of, json_of):
    out = text_of("datasets")
    assert all(name in out for name in od.datasets.names())
    about = json_of("datasets", "ml-1m")
    assert about["here"] == "no"
    assert about["licence"]
    assert about["addresses"][0].startswith("https://")
    assert "od.datasets.load('ml-1m')" in text_of("datasets", "ml-1m")


def test_a_data_set_on_this_machine_is_read_by_its_name(json_of, cache):
    place = cache / "ml-100k"
    place.mkdir(parents=True)
    rows = [f"{u}\t{i}\t{1 + (u + i) % 5}\t88125094{u}" for u in range(1, 9) for i in range(1, 12) if (u + 2 * i) % 3]
    (place / "u.data").write_text("\n".join(rows) + "\n")
    assert json_of("fit", "ml-100k", "--out", "set.od", "--model", "ease", "--at-least", "3")["users"] == 8


def test_a_wrong_call_is_one_line(fails):
    assert "ml-3m" in fails("datasets", "ml-3m")
    assert "name it" in fails("datasets", "--download")
