"""Lists in files: the same as in memory, whatever the batches, and whole or not at all."""

import os
import signal
import subprocess
import sys
import threading
import time

import polars as pl
import pytest

import offdiag as od
from offdiag import list_files
from offdiag.weights import heaps

READERS = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".ndjson": pl.read_ndjson}


@pytest.fixture(scope="module")
def inter():
    return od.synthetic.interactions(300, 40, 3_000, seed=0)


@pytest.fixture(scope="module")
def model(inter):
    return od.EASE(l2=10.0).fit(inter)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(heaps, "USERS_PER_PASS", 7)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("ending", READERS)
def test_a_file_holds_the_table_of_the_lists_to_the_last_digit(model, inter, tmp_path, ending):
    expected = model.recommend(inter, k=5, reasons=True).to_polars()
    done = model.recommend_to(tmp_path / f"top{ending}", inter, k=5, reasons=True)
    assert (done.n_lists, done.n_rows, done.n_short, done.n_popular) == (300, 1500, 0, 0)
    more = {} if ending == ".parquet" else {"schema": expected.schema}
    assert READERS[ending](tmp_path / f"top{ending}", **more).equals(expected)
    assert os.listdir(tmp_path) == [f"top{ending}"]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_folder_of_files_holds_the_same_rows(model, inter, tmp_path, ending):
    target = tmp_path / f"top{ending}"
    done = model.recommend_to(target, inter, k=5, rows_per_file=400)
    assert done.files == [str(target / f"part-{n:05}{ending}") for n in range(4)]
    parts = [READERS[ending](file) for file in done.files]
    assert [part.height for part in parts] == [400, 400, 400, 300]
    expected = model.recommend(inter, k=5).to_polars()
    assert pl.concat(parts).cast(dict(expected.schema)).equals(expected)
    with pytest.raises(od.OffdiagError, match="not an empty folder"):
        model.recommend_to(target, inter, k=5, rows_per_file=400)


@pytest.mark.usefixtures("small_batches")
def test_positions_titles_unknown_ids_and_short_lists_are_kept(model, inter, tmp_path):
    histories = [[inter.item_ids[n % 40], "new"] if n % 3 else [] for n in range(20)]
    histories[4] = inter.item_ids[:38].tolist()
    with pytest.warns(od.UnknownItemsWarning, match="1 id is unknown to the model and was left out: 'new'"):
        done = model.recommend_to(tmp_path / "top.csv", histories, k=5, titles={inter.item_ids[3]: "Three, the film"})
    assert done.unknown == {"new": sum("new" in history for history in histories)}
    assert (done.n_popular, done.n_short) == (sum(not history for history in histories), 1)
    table = pl.read_csv(tmp_path / "top.csv")
    assert table["user"].unique().sort().to_list() == list(range(20))
    titled = table.filter(pl.col("title").is_not_null())
    assert set(titled.select("item", "title").rows()) <= {(inter.item_ids[3], "Three, the film")}
    with pytest.raises(od.OffdiagError, match="histories hold ids"):
        model.recommend_to(tmp_path / "strict.csv", histories, strict=True)
    assert os.listdir(tmp_path) == ["top.csv"], "nothing is left of the failed one"


def test_no_history_gives_a_file_with_columns_only(model, inter, tmp_path):
    none = inter.select_users(slice(0, 0))
    for name in ("top.parquet", "top.csv"):
        model.recommend_to(tmp_path / name, none, k=5)
        table = READERS[name[3:]](tmp_path / name)
        assert (table.height, table.columns) == (0, ["user", "rank", "item", "score"])


def test_users_are_chosen_by_id(model, inter, tmp_path):
    lists = model.recommend(users=[7, 3], data=inter, k=2)
    assert lists.user_ids.tolist() == [7, 3]
    assert list(lists) == list(model.recommend(inter.select_users(ids=[7, 3]), k=2))
    model.recommend_to(tmp_path / "top.csv", users=[7, 3], data=inter, k=2)
    assert pl.read_csv(tmp_path / "top.csv")["user"].to_list() == [7, 7, 3, 3]
    with pytest.raises(od.OffdiagError, match=r"ids of users in the data, such as 0, received 999"):
        model.recommend(users=[999], data=inter)
    for words in ({"users": [7]}, {"histories": [[]], "users": [7], "data": inter}, {}, {"data": [[1]]}):
        with pytest.raises(od.OffdiagError, match="expected"):
            model.recommend(**words)


@pytest.mark.parametrize("name", ["top", "top.xlsx", "top.csv.gz"])
def test_an_unknown_ending_is_one_line(model, inter, tmp_path, name):
    with pytest.raises(od.OffdiagError, match=r"ending in \.parquet, \.csv"):
        model.recommend_to(tmp_path / name, inter)


def test_progress_counts_the_lists(model, inter, tmp_path, monkeypatch):
    monkeypatch.setattr(heaps, "USERS_PER_PASS", 100)
    seen = []
    model.recommend_to(tmp_path / "top.csv", inter, progress=lambda *words: seen.append(words))
    assert seen == [("recommending", pytest.approx(n / 3)) for n in (1, 2, 3)]


class Sink:
    """A writer that waits for the next batch in its first call and fails in its ``fail``-th."""

    def __init__(self, next_batch, fail=0):
        self.next_batch, self.fail, self.calls = next_batch, fail, 0

    def write(self, frame):
        self.calls += 1
        assert self.next_batch.wait(60), "the next batch is ranked only after this one is written"
        if self.calls == self.fail:
            raise OSError("no space left")

    def close(self):
        pass


def test_a_batch_is_ranked_while_the_one_before_is_written(model, inter, tmp_path, monkeypatch):
    begun = threading.Event()
    monkeypatch.setitem(list_files.FORMATS, ".csv", lambda file: Sink(begun))
    lists = [model.recommend(inter, k=5)] * 3

    def batches():
        yield lists[0]
        begun.set()
        yield from lists[1:]

    assert list_files.write(batches(), tmp_path / "top.csv").n_lists == 900


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("fail", [1, 3, 43])
def test_a_failed_write_ends_the_run_and_leaves_nothing(model, inter, tmp_path, monkeypatch, fail):
    begun = threading.Event()
    begun.set()
    monkeypatch.setitem(list_files.FORMATS, ".csv", lambda file: Sink(begun, fail))
    with pytest.raises(od.OffdiagError, match="no space left"):
        model.recommend_to(tmp_path / "top.csv", inter)
    assert os.listdir(tmp_path) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("offdiag-lists")]


@pytest.mark.usefixtures("small_batches")
def test_an_interrupted_run_ends_its_thread_and_leaves_nothing(model, inter, tmp_path):
    def interrupt(stage, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        model.recommend_to(tmp_path / "top.csv", inter, progress=interrupt)
    assert caught.tb is not None, "the frames of the run are still alive"
    assert os.listdir(tmp_path) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("offdiag-lists")]


def test_batches_stay_small_when_lists_are_long():
    assert list_files.batch_size(10, 16_384) == 16_384
    assert list_files.batch_size(1_000, 16_384) == 1_000
    assert list_files.batch_size(10**9, 16_384) == 1


SLOW_RUN = """
import sys, time
import offdiag as od
from offdiag.weights import heaps
heaps.USERS_PER_PASS = 10
inter = od.synthetic.interactions(300, 40, 3_000, seed=0)
def wait(stage, fraction):
    print("begun", flush=True)
    time.sleep(0.2)
rows = int(sys.argv[2]) or None
od.EASE(l2=10.0).fit(inter).recommend_to(sys.argv[1], inter, k=5, rows_per_file=rows, progress=wait)
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 40])
def test_a_killed_run_leaves_no_half_file(tmp_path, rows):
    target = tmp_path / "top.csv"
    target_before = None
    if not rows:
        target.write_text(target_before := "what was there before")
    run = subprocess.Popen([sys.executable, "-c", SLOW_RUN, target, str(rows)], stdout=subprocess.PIPE)
    for _ in range(4):
        run.stdout.readline()
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["top.csv"] * (not rows)
    if not rows:
        assert target.read_text() == target_before
    time.sleep(0.1)
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)
    od.EASE(l2=10.0).fit(X).recommend_to(target, X, k=5, rows_per_file=rows or None)
    assert os.listdir(tmp_path) == ["top.csv"], "the next run sweeps what the killed one left"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_users(model, tmp_path, monkeypatch):
    import tracemalloc

    monkeypatch.setattr(heaps, "USERS_PER_PASS", 256)
    peaks = []
    for n in (2_000, 16_000):
        X = od.synthetic.interactions(n, 40, 5 * n, seed=0).matrix
        model.recommend_to(tmp_path / "warm.csv", X[:300])
        tracemalloc.start()
        model.recommend_to(tmp_path / "top.csv", X)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
