"""The published layouts of the data sets, from folders and archives."""

import gzip

import pytest

from offdiag.data import datasets
from offdiag.errors import OffdiagError
from tests.fixtures.tables import entries, tarred, zipped

RATINGS_CSV = "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,3.0,1260759179\n2,31,4.0,835355493\n"
MOVIES_CSV = 'movieId,title,genres\n31,"Wolf, The (1994)",Drama\n1029,Dumbo (1941),Children\n'
RATINGS_DAT = "1::1193::5::978300760\n2::661::3::978302109\n"
NETFLIX_1 = "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n"
NETFLIX_2 = "2:\n822109,4,2005-05-14\n"
TRIPLETS = (
    "b80344d063b5\tSOAKIMP12A8C130995\t1\nb80344d063b5\tSOAPDEY12A81C210A9\t7\n85c1f87fea95\tSOAKIMP12A8C130995\t2\n"
)


@pytest.mark.parametrize("name", ["ml-latest-small", "ml-20m"])
def test_movielens_csv_is_read_from_a_folder_and_from_its_zip(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "ratings.csv").write_text(RATINGS_CSV)
    (folder / "movies.csv").write_text(MOVIES_CSV)
    files = {f"{name}/ratings.csv": RATINGS_CSV, f"{name}/movies.csv": MOVIES_CSV}
    archive = zipped(tmp_path / "set.zip", files)
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
    movies = "661::Café (1996)::Drama\n".encode("latin-1")
    new = zipped(tmp_path / "ml-1m.zip", {"ml-1m/ratings.dat": RATINGS_DAT, "ml-1m/movies.dat": movies})
    assert entries(datasets.load("ml-1m", new)) == {(1, 1193): 5, (2, 661): 3}
    assert datasets.titles("ml-1m", new) == {661: "Café (1996)"}


def netflix_sources(folder):
    one, two = NETFLIX_1.encode(), NETFLIX_2.encode()
    for place, stem in (("mv", "mv_000000"), ("combined", "combined_data_")):
        (folder / place).mkdir()
        for number, content in enumerate((one, two), 1):
            (folder / place / f"{stem}{number}.txt").write_bytes(content)
    inner = tarred({"training_set/mv_0000001.txt": one, "training_set/mv_0000002.txt": two}, "w")
    titles = "1,2003,Dinosaur Planet\n2,1994,Isle, The\n".encode("latin-1")
    outer = tarred({"download/training_set.tar": inner, "download/movie_titles.txt": titles}, "w:gz")
    (folder / "nf_prize_dataset.tar.gz").write_bytes(outer)
    return folder / "mv", folder / "combined", folder / "nf_prize_dataset.tar.gz"


def test_netflix_is_read_from_files_archive_and_combined_files(tmp_path):
    for source in netflix_sources(tmp_path):
        inter = datasets.load("netflix", source)
        assert entries(inter) == {(822109, 1): 5, (822109, 2): 4, (1488844, 1): 3}
        days = inter.times.astype("datetime64[s]").astype("datetime64[D]").astype(str)
        assert days.tolist() == ["2005-05-13", "2005-05-14", "2005-09-06"]
    assert datasets.titles("netflix", source) == {1: "Dinosaur Planet", 2: "Isle, The"}
    with pytest.raises(OffdiagError, match="received no such file"):
        datasets.titles("netflix", tmp_path / "mv")


def test_the_taste_profile_is_read_with_text_ids(tmp_path):
    zipped(tmp_path / "train_triplets.txt.zip", {"train_triplets.txt": TRIPLETS})
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
