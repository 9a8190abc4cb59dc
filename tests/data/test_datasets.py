"""Public data sets: small files in the published layouts, archives, downloads without a network, the real data."""

import gzip
import hashlib
import io
import re
import tarfile
import urllib.error
import zipfile

import numpy as np
import pytest

from offdiag.data import datasets
from offdiag.data._sets import download
from offdiag.errors import OffdiagError

RATINGS_CSV = "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,3.0,1260759179\n2,31,4.0,835355493\n"
MOVIES_CSV = 'movieId,title,genres\n31,"Wolf, The (1994)",Drama\n1029,Dumbo (1941),Children\n'
RATINGS_DAT = "1::1193::5::978300760\n2::661::3::978302109\n"
NETFLIX_1 = "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n"
NETFLIX_2 = "2:\n822109,4,2005-05-14\n"
TRIPLETS = (
    "b80344d063b5\tSOAKIMP12A8C130995\t1\nb80344d063b5\tSOAPDEY12A81C210A9\t7\n85c1f87fea95\tSOAKIMP12A8C130995\t2\n"
)


def tarred(files: dict, mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def entries(inter):
    coo = inter.matrix.tocoo()
    ids = zip(inter.user_ids[coo.row].tolist(), inter.item_ids[coo.col].tolist(), strict=True)
    return dict(zip(ids, coo.data.tolist(), strict=True))


@pytest.mark.parametrize("name", ["ml-latest-small", "ml-20m"])
def test_movielens_csv_is_read_from_a_folder_and_from_its_zip(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "ratings.csv").write_text(RATINGS_CSV)
    (folder / "movies.csv").write_text(MOVIES_CSV)
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr(f"{name}/ratings.csv", RATINGS_CSV)
        z.writestr(f"{name}/movies.csv", MOVIES_CSV)
    for source in (folder, archive, tmp_path):
        inter = datasets.load(name, source)
        assert entries(inter) == {(1, 31): 2.5, (1, 1029): 3, (2, 31): 4}
        assert inter.times.tolist() == [1260759144, 1260759179, 835355493]
        assert datasets.titles(name, source) == {31: "Wolf, The (1994)", 1029: "Dumbo (1941)"}


def test_movielens_1m_and_100k_have_layouts_of_their_own(tmp_path):
    old = tmp_path / "ml-100k"
    old.mkdir()
    (old / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t4\t891717742\n")
    (old / "u.item").write_bytes("242|Kolya (1996)|24-Jan-1997\n302|Café (1997)|x\n".encode("latin-1"))
    assert entries(datasets.load("ml-100k", old)) == {(196, 242): 3, (186, 302): 4}
    assert datasets.titles("ml-100k", old) == {242: "Kolya (1996)", 302: "Café (1997)"}
    new = tmp_path / "ml-1m.zip"
    with zipfile.ZipFile(new, "w") as z:
        z.writestr("ml-1m/ratings.dat", RATINGS_DAT)
        z.writestr("ml-1m/movies.dat", "661::Café (1996)::Drama\n".encode("latin-1"))
    assert entries(datasets.load("ml-1m", new)) == {(1, 1193): 5, (2, 661): 3}
    assert datasets.titles("ml-1m", new) == {661: "Café (1996)"}


def netflix_sources(folder):
    one, two = NETFLIX_1.encode(), NETFLIX_2.encode()
    (folder / "mv").mkdir()
    (folder / "mv" / "mv_0000001.txt").write_bytes(one)
    (folder / "mv" / "mv_0000002.txt").write_bytes(two)
    (folder / "combined").mkdir()
    (folder / "combined" / "combined_data_1.txt").write_bytes(one)
    (folder / "combined" / "combined_data_2.txt").write_bytes(two)
    inner = tarred({"training_set/mv_0000001.txt": one, "training_set/mv_0000002.txt": two}, "w")
    titles = "1,2003,Dinosaur Planet\n2,1994,Isle, The\n".encode("latin-1")
    outer = tarred({"download/training_set.tar": inner, "download/movie_titles.txt": titles}, "w:gz")
    (folder / "nf_prize_dataset.tar.gz").write_bytes(outer)
    return folder / "mv", folder / "combined", folder / "nf_prize_dataset.tar.gz"


def test_netflix_is_read_from_its_files_its_archive_and_the_combined_files(tmp_path):
    for source in netflix_sources(tmp_path):
        inter = datasets.load("netflix", source)
        assert entries(inter) == {(822109, 1): 5, (822109, 2): 4, (1488844, 1): 3}
        days = inter.times.astype("datetime64[s]").astype("datetime64[D]").astype(str)
        assert days.tolist() == ["2005-05-13", "2005-05-14", "2005-09-06"]
    assert datasets.titles("netflix", source) == {1: "Dinosaur Planet", 2: "Isle, The"}
    with pytest.raises(OffdiagError, match="received no such file"):
        datasets.titles("netflix", tmp_path / "mv")


def test_the_taste_profile_is_read_with_text_ids(tmp_path):
    archive = tmp_path / "train_triplets.txt.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("train_triplets.txt", TRIPLETS)
    (tmp_path / "unique_tracks.txt").write_text("TR1<SEP>SOAKIMP12A8C130995<SEP>Jack Johnson<SEP>The Cove\n")
    inter = datasets.load("msd", tmp_path)
    assert entries(inter)["b80344d063b5", "SOAPDEY12A81C210A9"] == 7
    assert datasets.titles("msd", tmp_path) == {"SOAKIMP12A8C130995": "The Cove (Jack Johnson)"}


def test_gowalla_is_read_from_the_lightgcn_files_and_from_snap(tmp_path):
    (tmp_path / "train.txt").write_text("0 5 6\n1 5\n")
    (tmp_path / "test.txt").write_text("0 7\n1\n")
    assert entries(datasets.load("gowalla", tmp_path)) == {(0, 5): 1, (0, 6): 1, (0, 7): 1, (1, 5): 1}
    parts = datasets.published("gowalla", tmp_path)
    assert parts.train.matrix.toarray().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert parts.test.targets.toarray().tolist() == [[0, 0, 1], [0, 0, 0]]
    with pytest.raises(OffdiagError, match=r"valid\.txt"):
        datasets.published("gowalla", tmp_path, validation=True)
    (tmp_path / "valid.txt").write_text("1 7\n")
    parts = datasets.published("gowalla", tmp_path)
    assert parts.train.matrix.toarray().tolist() == [[1, 1, 0], [1, 0, 1]]
    parts = datasets.published("gowalla", tmp_path, validation=True)
    assert parts.train.matrix.toarray().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert parts.validation.targets.toarray().tolist() == [[0, 0, 0], [0, 0, 1]]
    snap = tmp_path / "snap"
    snap.mkdir()
    lines = "0\t2010-10-19T23:55:27Z\t30.23\t-97.79\t22847\n0\t2010-10-18T22:17:43Z\t30.26\t-97.76\t420315\n"
    (snap / "loc-gowalla_totalCheckins.txt.gz").write_bytes(gzip.compress(lines.encode()))
    inter = datasets.load("gowalla", snap)
    assert entries(inter) == {(0, 22847): 1, (0, 420315): 1}
    assert inter.times.tolist() == [1287532527, 1287440263]
    with pytest.raises(OffdiagError, match="has none"):
        datasets.titles("gowalla", tmp_path)


def test_citeulike_counts_users_from_zero_and_titles_from_one(tmp_path):
    (tmp_path / "users.dat").write_text("2 0 4\n1 4\n")
    (tmp_path / "raw-data.csv").write_text('"doc.id","title"\n"1","First"\n"5","Fifth, the"\n')
    assert entries(datasets.load("citeulike-a", tmp_path)) == {(0, 0): 1, (0, 4): 1, (1, 4): 1}
    assert datasets.titles("citeulike-a", tmp_path) == {0: "First", 4: "Fifth, the"}


def test_the_published_split_prepares_as_the_paper_did(tmp_path):
    rng = np.random.default_rng(0)
    pairs = rng.permutation(60 * 40)[:1200]
    lines = [f"{p // 40},{p % 40},{rng.integers(1, 6)}.0,{k}" for k, p in enumerate(pairs)]
    (tmp_path / "ratings.csv").write_text("\n".join([RATINGS_CSV.split("\n")[0], *lines]))
    parts = datasets.published("ml-20m", tmp_path, held_out_users=10)
    assert (parts.train.matrix.data == 1).all()
    assert np.diff(parts.train.matrix.indptr).min() >= 5
    assert len(parts.test.user_ids) == len(parts.validation.user_ids) == 10
    with pytest.raises(OffdiagError, match="held_out_users between 1 and 26 for 53 users, received 30"):
        datasets.published("ml-20m", tmp_path, held_out_users=30)
    with pytest.raises(OffdiagError, match="held_out_users= to try"):
        datasets.published("ml-20m", tmp_path)  # 60 users are not the whole set
    with pytest.raises(OffdiagError, match="published split"):
        datasets.published("ml-100k", tmp_path)


def ratings(n_users, n_items, nnz, seed=0):
    pairs = np.random.default_rng(seed).permutation(n_users * n_items)[:nnz]
    lines = [f"{p // n_items},{p % n_items},{1 + p % 5}.0,{k}" for k, p in enumerate(pairs)]
    return "\n".join([RATINGS_CSV.split("\n")[0], *lines]) + "\n"


@pytest.fixture
def small_ml_20m(monkeypatch, tmp_path):
    """ml-20m as it would be with 40 users: its own archive, checksum and counts."""
    from dataclasses import replace

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        z.writestr("ml-20m/ratings.csv", ratings(40, 30, 600))
    archive = tmp_path / "ml-20m.zip"
    archive.write_bytes(buffer.getvalue())
    checksum = "md5:" + hashlib.md5(buffer.getvalue()).hexdigest()
    small = replace(
        datasets.DATASETS["ml-20m"], checksums=(checksum,), counts=datasets.Counts(600, 40, 30),
        protocol=datasets.Protocol(4, 5, 0, 6),
    )  # fmt: skip
    monkeypatch.setitem(datasets.DATASETS, "ml-20m", small)
    return archive


def test_a_complete_set_passes_from_its_archive_the_folder_of_it_and_its_files(small_ml_20m, tmp_path):
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


def test_a_set_that_is_another_known_set_is_called_by_its_name(monkeypatch, small_ml_20m, tmp_path):
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
    from dataclasses import replace

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


class Answer(io.BytesIO):
    def __init__(self, content: bytes, said: int | None = None):
        super().__init__(content)
        self.headers = {"Content-Length": str(len(content) if said is None else said)}


def test_a_download_is_checked_reported_and_kept(monkeypatch, tmp_path):
    content = b"x" * 3_000_000
    asked, stages = [], []

    def open_address(address, timeout):
        asked.append(address)
        return Answer(content)

    monkeypatch.setattr(download.urllib.request, "urlopen", open_address)
    checksum = "md5:" + hashlib.md5(content).hexdigest()
    target = tmp_path / "new" / "file.bin"
    download.fetch("https://example.org/file.bin", target, checksum, lambda stage, done: stages.append((stage, done)))
    assert target.read_bytes() == content
    assert stages[-1] == ("download file.bin", 1.0)
    assert [done for _, done in stages] == sorted(done for _, done in stages)
    download.fetch("https://example.org/file.bin", target, checksum)
    assert len(asked) == 1  # the second time it was already there
    target.write_bytes(b"changed")
    with pytest.raises(OffdiagError, match="delete it"):
        download.fetch("https://example.org/file.bin", target, checksum)


@pytest.mark.parametrize("trouble", ["wrong", "short", "offline", "interrupt"])
def test_a_failed_download_leaves_nothing_behind(trouble, monkeypatch, tmp_path):
    def open_address(address, timeout):
        if trouble == "offline":
            raise urllib.error.URLError("no route")
        return Answer(b"abc", said=5 if trouble == "short" else None)

    def stop(stage, done):
        if trouble == "interrupt":
            raise KeyboardInterrupt

    monkeypatch.setattr(download.urllib.request, "urlopen", open_address)
    checksum = "md5:" + "0" * 32 if trouble == "wrong" else None
    expected = KeyboardInterrupt if trouble == "interrupt" else OffdiagError
    words = {"wrong": f"md5 {'0' * 32} for file.bin, received {hashlib.md5(b'abc').hexdigest()}", "short": "5 bytes"}
    with pytest.raises(expected, match=words.get(trouble)):
        download.fetch("https://example.org/file.bin", tmp_path / "file.bin", checksum, stop)
    assert list(tmp_path.iterdir()) == []


def test_half_a_download_names_the_checksum_and_how_much_came(monkeypatch, tmp_path):
    monkeypatch.setattr(download.urllib.request, "urlopen", lambda address, timeout: Answer(b"abc", said=5))
    whole, part = (hashlib.md5(content).hexdigest() for content in (b"abcde", b"abc"))
    with pytest.raises(OffdiagError, match=f"md5 {whole} for file.bin, received {part}; only 3 of 5 bytes came"):
        download.fetch("https://example.org/file.bin", tmp_path / "file.bin", f"md5:{whole}")
    assert list(tmp_path.iterdir()) == []


def test_download_fills_the_cache_and_load_finds_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(OffdiagError, match=r"datasets\.download\('gowalla'\)"):
        datasets.load("gowalla")
    files = {"train.txt": b"0 1 2\n", "test.txt": b"0 3\n"}
    monkeypatch.setattr(
        download.urllib.request, "urlopen", lambda address, timeout: Answer(files[address.rpartition("/")[2]])
    )
    assert datasets.download("gowalla") == tmp_path / "offdiag" / "gowalla"
    assert datasets.load("gowalla").nnz == 3


def test_bad_sources_are_one_clear_line(tmp_path):
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "cut.tar.gz").write_bytes(tarred({"users.dat": bytes(999)}, "w:gz")[:40])
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,many,4\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for call in (
        lambda: datasets.load("ml-3m", tmp_path),
        lambda: datasets.load("ml-1m", tmp_path / "nowhere"),
        lambda: datasets.load("ml-1m", empty),
        lambda: datasets.load("netflix", empty),
        lambda: datasets.load("gowalla", empty),
        lambda: datasets.load("ml-20m", tmp_path / "cut.zip"),
        lambda: datasets.load("citeulike-a", tmp_path / "cut.tar.gz"),
        lambda: datasets.load("ml-20m", tmp_path / "ratings.csv"),
    ):
        with pytest.raises(OffdiagError, match=r"^expected .* received .*; .*$"):
            call()


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
