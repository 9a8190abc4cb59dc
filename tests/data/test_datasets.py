"""Public data sets: complete or not, their published splits, and the real data."""

import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest

from offdiag.data import datasets
from offdiag.errors import OffdiagError
from tests.fixtures.tables import refused, tarred, zipped


def ratings(n_users, n_items, nnz, rating=lambda p: 1 + p % 5):
    pairs = np.random.default_rng(0).permutation(n_users * n_items)[:nnz]
    lines = [f"{p // n_items},{p % n_items},{rating(p)}.0,{k}" for k, p in enumerate(pairs)]
    return "\n".join(["userId,movieId,rating,timestamp", *lines]) + "\n"


def test_the_published_split_prepares_as_the_paper_did(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "ratings.csv").write_text(ratings(60, 40, 1200, lambda p: rng.integers(1, 6)))
    parts = datasets.published("ml-20m", tmp_path, held_out_users=10)
    assert (parts.train.matrix.data == 1).all()
    assert np.diff(parts.train.matrix.indptr).min() >= 5
    assert len(parts.test.user_ids) == len(parts.validation.user_ids) == 10
    with pytest.raises(OffdiagError, match="held_out_users between 1 and 28 for 57 users, received 30"):
        datasets.published("ml-20m", tmp_path, held_out_users=30)
    with pytest.raises(OffdiagError, match="held_out_users= to try"):
        datasets.published("ml-20m", tmp_path)  # 60 users are not the whole set
    with pytest.raises(OffdiagError, match="published split"):
        datasets.published("ml-100k", tmp_path)


@pytest.fixture
def small_ml_20m(monkeypatch, tmp_path):
    """ml-20m as it would be with 40 users: its own archive, checksum and counts."""
    archive = zipped(tmp_path / "ml-20m.zip", {"ml-20m/ratings.csv": ratings(40, 30, 600)})
    checksum = "md5:" + hashlib.md5(archive.read_bytes()).hexdigest()
    small = replace(
        datasets.DATASETS["ml-20m"], checksums=(checksum,), counts=datasets.Counts(600, 40, 30),
        protocol=datasets.Protocol(4, 5, 0, 6),
    )  # fmt: skip
    monkeypatch.setitem(datasets.DATASETS, "ml-20m", small)
    return archive


def test_a_complete_set_passes_as_archive_folder_and_files(small_ml_20m, tmp_path):
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked" / "ratings.csv").write_text(ratings(40, 30, 600))
    for source in (small_ml_20m, tmp_path / "unpacked"):
        assert datasets.complete("ml-20m", source).nnz == 600
        assert len(datasets.published("ml-20m", source).test.user_ids) == 6
    (tmp_path / "unpacked" / "ratings.csv").rename(tmp_path / "other.csv")
    small_ml_20m.rename(tmp_path / "unpacked" / "ml-20m.zip")
    assert datasets.complete("ml-20m", tmp_path / "unpacked").nnz == 600


@pytest.mark.parametrize("damage", ["cut", "changed"])
@pytest.mark.parametrize("as_folder", [False, True])
def test_a_wrong_or_partial_archive_names_both_checksums(damage, as_folder, small_ml_20m):
    right = small_ml_20m.read_bytes()
    wrong = right[: len(right) // 2] if damage == "cut" else right.replace(b"ratings.csv", b"ratings.CSV")
    small_ml_20m.write_bytes(wrong)
    expected, received = (hashlib.md5(content).hexdigest() for content in (right, wrong))
    for call in (datasets.complete, datasets.published):
        with pytest.raises(OffdiagError, match=f"^expected md5 {expected} for ml-20m.zip, received {received}; delete"):
            call("ml-20m", small_ml_20m.parent if as_folder else small_ml_20m)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ratings(40, 30, 599), "received 599 interactions of 40 users with 30 items: the file is cut short"),
        (ratings(40, 30, 601), "received 601 interactions of 40 users with 30 items: another version"),
        (ratings(41, 30, 600), "received 600 interactions of 41 users"),
        (ratings(40, 31, 600), "40 users with 31 items"),
    ],
)
def test_another_version_of_a_set_names_both_counts(content, words, small_ml_20m, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "ratings.csv").write_text(content)
    assert datasets.load("ml-20m", folder).nnz in (599, 600, 601)  # reading a part is allowed
    with pytest.raises(OffdiagError, match=words) as caught:
        datasets.published("ml-20m", folder)
    assert str(caught.value).startswith("expected 600 interactions of 40 users with 30 items for ml-20m")
    assert len(datasets.published("ml-20m", folder, held_out_users=5).test.user_ids) == 5


def test_a_set_mistaken_for_another_known_set_is_named(monkeypatch, small_ml_20m, tmp_path):
    monkeypatch.setitem(datasets._OTHER_VERSIONS, 700, "ml-25m")
    (tmp_path / "ratings.csv").write_text(ratings(50, 30, 700))
    small_ml_20m.unlink()
    with pytest.raises(OffdiagError, match="this is ml-25m; give the published files"):
        datasets.complete("ml-20m", tmp_path)


def test_published_counts_are_those_of_the_descriptions():
    for name in datasets.names():
        entry = datasets.describe(name)
        figures = [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\d", entry.about.partition(":")[2])]
        if entry.counts is not None:
            assert figures == [entry.counts.interactions, entry.counts.users, entry.counts.items], name
    assert [n for n in datasets.names() if datasets.describe(n).counts is None] == ["ml-latest-small"]


def test_songs_are_filtered_before_users_in_the_taste_profile(monkeypatch, tmp_path):
    small = replace(datasets.DATASETS["msd"], protocol=datasets.Protocol(None, 2, 3, 1))
    monkeypatch.setitem(datasets.DATASETS, "msd", small)
    rows = [(u, s) for u in "abcd" for s in ("s1", "s2")] + [("e", "s1"), ("e", "rare")]
    (tmp_path / "train_triplets.txt").write_text("".join(f"{u}\t{s}\t1\n" for u, s in rows))
    parts = datasets.published("msd", tmp_path, held_out_users=1)
    users = np.concatenate([parts.train.user_ids, parts.validation.user_ids, parts.test.user_ids])
    assert sorted(users.tolist()) == ["a", "b", "c", "d"]  # users first would have kept e


def test_the_protocols_are_the_published_ones():
    settings = {n: d.protocol for n, d in datasets.DATASETS.items() if d.protocol}
    assert settings == {
        "ml-20m": datasets.Protocol(4, 5, 0, 10_000),
        "netflix": datasets.Protocol(4, 5, 0, 40_000),
        "msd": datasets.Protocol(None, 20, 200, 50_000),
    }


def test_every_set_has_an_address_and_a_well_formed_checksum_or_none():
    assert datasets.names() == [
        "ml-latest-small", "ml-100k", "ml-1m", "ml-20m", "netflix", "msd", "gowalla", "citeulike-a",
    ]  # fmt: skip
    for name in datasets.names():
        entry = datasets.describe(name)
        assert len(entry.addresses) == len(entry.checksums) >= 1
        assert all(a.startswith(("https://", "http://")) for a in entry.addresses)
        assert all(c is None or re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", c) for c in entry.checksums)
        assert entry.licence


def test_bad_sources_give_a_one_line_error(tmp_path):
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "cut.tar.gz").write_bytes(tarred({"users.dat": bytes(999)}, "w:gz")[:40])
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,many,4\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for name, source in (
        ("ml-3m", tmp_path), ("ml-1m", tmp_path / "nowhere"), ("ml-1m", empty), ("netflix", empty), ("gowalla", empty),
        ("ml-20m", tmp_path / "cut.zip"), ("citeulike-a", tmp_path / "cut.tar.gz"),
        ("ml-20m", tmp_path / "ratings.csv"),
    ):  # fmt: skip
        refused(lambda name=name, source=source: datasets.load(name, source), "expected ", " received ", "; ")


@pytest.mark.parametrize(
    ("name", "folder", "shape", "nnz"),
    [
        ("ml-100k", "ml-100k", (943, 1682), 100_000),
        ("ml-latest-small", "ml-latest-small", (610, 9724), 100_836),
        ("ml-1m", "ml-1m", (6040, 3706), 1_000_209),
        ("citeulike-a", "citeulike-a", (5551, 16980), 204_986),
        ("gowalla", "gowalla-lightgcn", (29858, 40981), 1_027_370),
    ],
)
def test_the_real_sets_have_their_published_sizes(name, folder, shape, nnz, shared_data):
    inter = datasets.complete(name, shared_data(folder))
    assert inter.matrix.shape == shape
    assert inter.nnz == nnz
    if name.startswith("ml-"):
        titles = datasets.titles(name, shared_data(folder))
        assert titles[1] == "Toy Story (1995)"
        assert set(inter.item_ids.tolist()) <= set(titles)


def test_the_real_gowalla_split_has_its_published_size(shared_data):
    parts = datasets.published("gowalla", shared_data("gowalla-lightgcn"))
    assert (parts.train.nnz, parts.test.targets.nnz) == (810_128, 217_242)
    assert parts.train.matrix.multiply(parts.test.targets).nnz == 0
