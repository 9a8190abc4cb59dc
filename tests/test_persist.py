"""A saved model comes back bit for bit, a bad file never does, and a failed save changes nothing."""

import contextlib
import errno
import hashlib
import json
import os
import pickle
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag import persist
from offdiag.files import container
from offdiag.weights import LowRank, Packed

TITLES = np.array(["Brazil", "Amélie", "千と千尋", "", "a\nb", "🎬", "Z", "x" * 40])


def matrix(n_items: int = 8) -> sp.csr_array:
    rng = np.random.default_rng(1)
    return sp.csr_array((rng.random((40, n_items)) < 0.4).astype(np.float32))


def small(item_ids: Any = None, **params: Any) -> Any:
    model = od.EDLAE(**({"dropout": 0.3, "l2": 5.0} | params)).fit(matrix())
    model.item_ids_ = model.item_ids_ if item_ids is None else item_ids
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "model.od"
    small(TITLES).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "model.od"


def assert_refused(path: Path, *words: str) -> None:
    """The file is rejected, in one line that names it."""
    with pytest.raises(od.OffdiagError) as caught:
        persist.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    assert all(word in message for word in words), message


def rebuilt(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with its header changed and every checksum of the header corrected: a forgery."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    header["__metadata__"]["header_sha256"] = "0" * 64
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    text = text.replace(b"0" * 64, hashlib.sha256(text).hexdigest().encode(), 1)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


# Loading


@pytest.mark.parametrize(
    "ids",
    [
        TITLES,
        TITLES.astype("U60"),  # wider than needed: the type is kept too
        np.array([-(2**63), -5, 0, 1, 7, 2**40, 9, 2**63 - 1]),
        np.arange(8, dtype=np.int32),
        np.arange(8, dtype=np.uint64) + 2**63,
    ],
)
def test_item_ids_of_every_kind_come_back(ids: np.ndarray, tmp_path: Path) -> None:
    small(ids).save(tmp_path / "m")
    back = od.load(tmp_path / "m").item_ids_
    assert back.dtype == ids.dtype
    assert back.tolist() == ids.tolist()


@given(st.lists(st.text(), min_size=8, max_size=8))
@settings(max_examples=12, deadline=None)
def test_any_text_is_an_item_id(scratch: Path, texts: list[str]) -> None:
    small(np.array(texts)).save(scratch)
    assert od.load(scratch).item_ids_.tolist() == np.array(texts).tolist()


def test_numpy_numbers_in_settings_are_kept_as_numbers(tmp_path: Path) -> None:
    model = small(l2=np.float32(0.1), dropout=np.float64(0.25))
    model.save(tmp_path / "m")
    assert od.load(tmp_path / "m").get_params() == model.get_params()


def test_weights_in_any_memory_order_are_saved_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "CHUNK", 100)  # many chunks, none of which ends where a row or a tensor does
    model = small(storage="dense")
    expected = model.weights_.toarray()
    for array in (np.asfortranarray(expected), expected.astype(">f4"), np.repeat(expected, 2, axis=1)[:, ::2]):
        object.__setattr__(model.weights_, "B", array)
        model.save(tmp_path / "m")
        assert od.load(tmp_path / "m").weights_.toarray().tobytes() == expected.tobytes()


def test_loaded_weights_are_mapped_aligned_and_read_only(tmp_path: Path) -> None:
    small(TITLES).save(tmp_path / "m")
    weights = od.load(tmp_path / "m").weights_
    for array in weights.arrays().values():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert type(array) is np.ndarray


def test_any_safetensors_reader_opens_the_file(tmp_path: Path) -> None:
    from safetensors import safe_open

    model = small(TITLES)
    model.save(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="np") as file:
        assert set(file.keys()) == {
            "item_ids.offsets", "item_ids.utf8", "popularity",
            "weights.C", "weights.scale", "weights.diagonal",
        }  # fmt: skip
        assert file.get_tensor("weights.C").tobytes() == model.weights_.C.tobytes()
        assert file.metadata()["format"] == "offdiag"


# Describing


def test_describe_returns_the_header_without_the_weights(tmp_path: Path, real_result: Any) -> None:
    model = small(TITLES)
    model.save(tmp_path / "m", metrics=real_result)
    about = persist.describe(tmp_path / "m")
    json.dumps(about, allow_nan=False)
    assert about["model"] == "EDLAE"
    assert about["params"] == model.get_params()
    assert about["settings"] == model.settings_
    assert (about["weights"], about["n_users"], about["n_items"]) == ("packed", 40, 8)
    assert about["metrics"]["mean"] == real_result.mean
    assert about["metrics"]["sem"]["coverage@3"] is None
    assert about["offdiag_version"] == od.__version__
    assert about["created"].endswith("+00:00")
    assert about["bytes"] == (tmp_path / "m").stat().st_size
    assert about["tensors"]["weights.C"] == {"dtype": "float32", "shape": [36], "bytes": 144}


@pytest.fixture
def real_result() -> Any:
    part = type("Part", (), {"histories": matrix(), "targets": matrix()})
    return od.evaluate(small(), part, ["ndcg@3", "coverage@3"], exclude_seen=False)


def test_metrics_may_be_any_plain_dict(tmp_path: Path) -> None:
    small().save(tmp_path / "m", metrics={"ndcg@100": np.float64(0.5), "note": ["a", float("nan")]})
    assert persist.describe(tmp_path / "m")["metrics"] == {"ndcg@100": 0.5, "note": ["a", None]}


# Rejecting


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "none.od", "no model file")
    assert_refused(tmp_path, "folder")
    with pytest.raises(od.OffdiagError, match="no model file"):
        persist.describe(tmp_path / "none.od")


def test_files_of_others_are_refused_and_never_run(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "exploded",))

    path = tmp_path / "other"
    others = [b"", b"\0", b"{}", pickle.dumps(Bomb()), b"user,item\n1,2\n" * 1000, bytes(4096), b"\xff" * 4096]
    others += [np.random.default_rng(seed).bytes(5000) for seed in range(20)]
    for content in others:
        path.write_bytes(content)
        assert_refused(path, "not an offdiag model")
    assert not (tmp_path / "exploded").exists()
    for about in (None, {"format": "pt"}):
        save_file({"weights.C": np.ones(36, np.float32)}, path, about)
        assert_refused(path, "safetensors file from elsewhere")


def test_a_file_cut_anywhere_is_refused(saved: bytes, scratch: Path) -> None:
    scratch.write_bytes(saved)
    for length in reversed(range(len(saved))):
        os.truncate(scratch, length)
        assert_refused(scratch)
    scratch.write_bytes(saved[: len(saved) // 2])
    assert_refused(scratch, "damaged")


def test_a_file_with_more_at_its_end_is_refused(saved: bytes, scratch: Path) -> None:
    scratch.write_bytes(saved + b"\0")
    assert_refused(scratch, "damaged", "bytes")


def test_a_flipped_bit_anywhere_is_refused(saved: bytes, scratch: Path) -> None:
    rng = np.random.default_rng(2)
    scratch.write_bytes(saved)
    for position in range(len(saved)):
        with open(scratch, "r+b") as file:
            if position:
                file.seek(position - 1)
                file.write(saved[position - 1 : position])
            file.write(bytes([saved[position] ^ 1 << int(rng.integers(8))]))
        assert_refused(scratch, *(["checksum"] if position > len(saved) - 100 else []))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_random_damage_is_refused(saved: bytes, scratch: Path, data: st.DataObject) -> None:
    lo = data.draw(st.integers(0, len(saved) - 1))
    hi = data.draw(st.integers(lo, min(len(saved), lo + 200)))
    changed = saved[:lo] + data.draw(st.binary(max_size=300)) + saved[hi:]
    scratch.write_bytes(changed)
    if changed != saved:
        assert_refused(scratch)


def test_a_header_that_claims_to_be_huge_is_not_read(saved: bytes, scratch: Path) -> None:
    scratch.write_bytes((container.MAX_HEADER + 1).to_bytes(8, "little") + saved[8:])
    os.truncate(scratch, container.MAX_HEADER + 10_000)  # sparse: takes no space
    tracemalloc.start()
    assert_refused(scratch, "damaged", "header claims")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6


def test_a_newer_format_asks_for_an_upgrade(saved: bytes, scratch: Path) -> None:
    scratch.write_bytes(rebuilt(saved, lambda header: header["__metadata__"].update(format_version="2")))
    assert_refused(scratch, "newer offdiag", "upgrade")


def test_the_forging_helper_makes_a_valid_file(saved: bytes, scratch: Path) -> None:
    scratch.write_bytes(rebuilt(saved, lambda header: None))
    assert persist.load(scratch).item_ids_.tolist() == TITLES.tolist()


def forged_about(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        about = json.loads(header["__metadata__"]["model"]) | changes
        header["__metadata__"]["model"] = json.dumps(about)

    return change


def forged_tensor(name: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header[name].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        forged_about(model="os.system"),
        forged_about(model=["EASE"]),
        forged_about(params={"__class__": 1}),
        forged_about(params=None),
        forged_about(settings=[]),
        forged_about(learned=[1]),
        forged_about(columns=[1]),
        forged_about(columns={"user": 1.5}),
        forged_about(columns={"usr": "a"}),
        forged_about(weights="sparse"),
        forged_about(weights="dense"),
        forged_about(n_items=9),
        forged_about(item_ids_dtype="O"),
        forged_about(item_ids_dtype="i8"),
        forged_about(item_ids_dtype="U0"),
        forged_about(item_ids_dtype="U2000000000"),
        forged_about(item_ids_dtype="U5000,U5"),
        forged_tensor("weights.C", shape=[72]),
        forged_tensor("weights.C", shape=[6, 6]),
        forged_tensor("weights.C", shape=[-36]),
        forged_tensor("weights.C", shape=[36.0]),
        forged_tensor("weights.C", dtype="I32"),
        forged_tensor("weights.C", dtype="PICKLE"),
        forged_tensor("weights.C", data_offsets=[0, 144]),
        forged_tensor("weights.C", data_offsets=[-8, 136]),
        forged_tensor("weights.C", data_offsets=None),
        lambda header: header.pop("weights.scale"),
        lambda header: header.pop("popularity"),
        lambda header: header.update(extra=1),
        lambda header: header["__metadata__"].update(chunk_sha256=""),
        lambda header: header["__metadata__"].update(model="[]"),
        lambda header: header["__metadata__"].update(model="[" * 100_000),
        lambda header: header["__metadata__"].update(format_version=None),
    ],
)
def test_a_forged_header_with_right_checksums_is_refused(
    saved: bytes, scratch: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    scratch.write_bytes(rebuilt(saved, change))
    assert_refused(scratch)


def test_a_file_without_columns_is_one_of_an_earlier_version(saved: bytes, scratch: Path) -> None:
    def earlier(header: dict[str, Any]) -> None:
        about = json.loads(header["__metadata__"]["model"])
        assert about.pop("columns") is None
        header["__metadata__"]["model"] = json.dumps(about)

    scratch.write_bytes(rebuilt(saved, earlier))
    assert persist.load(scratch).columns_ is None


def low_rank(U: np.ndarray, V: np.ndarray) -> Any:
    """A model of 8 items with any factors, as a forger would save it: the checksums are right."""
    model = od.LowRankEDLAE(rank=2, l2=1.0, iterations=1).fit(matrix())
    model.weights_ = LowRank(U, V)
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_factors_of_a_possible_rank_are_loaded(tmp_path: Path, rank: int, dtype: str) -> None:
    low_rank(np.ones((8, rank), dtype), np.ones((8, rank), dtype)).save(tmp_path / "m")
    assert od.load(tmp_path / "m").recommend(matrix(), k=3).indices.shape == (40, 3)


@pytest.mark.parametrize(
    ("U", "V"),
    [
        (np.ones((8, 3)), np.ones((8, 4))),
        (np.ones((8, 3)), np.ones((7, 3))),
        (np.ones((9, 3)), np.ones((9, 3))),
        (np.ones((3, 8)), np.ones((3, 8))),
        (np.ones((8, 9)), np.ones((8, 9))),
        (np.ones((8, 0)), np.ones((8, 0))),
        (np.ones(8), np.ones(8)),
        (np.ones(()), np.ones(())),
        (np.ones((8, 3, 1)), np.ones((8, 3, 1))),
        (np.ones((8, 3)), np.ones((8, 3), np.float32)),
        (np.ones((8, 3), np.float16), np.ones((8, 3), np.float16)),
        (np.ones((8, 3), np.int64), np.ones((8, 3), np.int64)),
    ],
)
def test_factors_that_do_not_fit_the_items_or_each_other_are_refused(
    tmp_path: Path, U: np.ndarray, V: np.ndarray
) -> None:
    low_rank(U, V).save(tmp_path / "m.od")
    assert_refused(tmp_path / "m.od", "makes no sense")


@pytest.mark.parametrize(
    "change",
    [
        forged_about(weights="dense"),
        forged_about(weights="packed"),
        forged_about(model="EASE"),
        forged_about(learned={"encoder_": [1]}),
        forged_tensor("weights.U", shape=[6, 4]),
        forged_tensor("weights.V", shape=[24]),
        forged_tensor("weights.V", shape=[24, 1]),
        lambda header: header.pop("weights.V"),
    ],
)
def test_a_forged_header_of_a_low_rank_model_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    path = tmp_path / "m.od"
    low_rank(np.ones((8, 3)), np.ones((8, 3))).save(path)
    path.write_bytes(rebuilt(path.read_bytes(), change))
    assert_refused(path)


def test_learned_names_in_a_file_cannot_replace_methods(saved: bytes, scratch: Path) -> None:
    names = {"recommend": 1, "__class__": 2, "_require_fit": 3, "objective_": 4.0}
    scratch.write_bytes(rebuilt(saved, forged_about(learned=names)))
    model = persist.load(scratch)
    assert model.objective_ == 4.0
    assert callable(model.recommend)
    assert callable(model._require_fit)


# Large files


def test_a_large_file_is_sampled_by_default_and_read_in_full_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "CHUNK", 64)
    monkeypatch.setattr(container, "FULL_CHECK_BYTES", 1000)
    monkeypatch.setattr(container, "SAMPLED_CHUNKS", 3)
    path = tmp_path / "m"
    od.EASE(l2=1.0).fit(matrix(40)).save(path)
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    accepted = {True: 0, False: 0, None: 0}
    chunks = range((len(data) - start) // 64)
    for chunk in chunks:
        changed = bytearray(data)
        changed[start + chunk * 64] ^= 1
        path.write_bytes(changed)
        for verify in accepted:
            with contextlib.suppress(od.OffdiagError):
                persist.load(path, verify=verify)
                accepted[verify] += 1
                assert chunk * 64 >= 40 * 16 or verify is False, "ids and popularity are always checked"
    assert accepted[True] == 0
    assert accepted[False] == len(chunks)
    assert 0 < accepted[None] < len(chunks) - 10
    path.write_bytes(data[:-1])
    with pytest.raises(od.OffdiagError, match="damaged"):
        persist.load(path, verify=False)


def test_saving_and_loading_make_no_copy_of_the_weights(tmp_path: Path) -> None:
    m = 3000
    model = small()
    model.weights_ = Packed(np.ones(m * (m + 1) // 2, np.float32), np.ones(m, np.float32), np.zeros(m, np.float32))
    model.item_ids_, model.popularity_ = np.arange(m), np.ones(m)
    assert model.weights_.nbytes > 18e6
    model.save(tmp_path / "m")  # imports and the like happen here, unmeasured
    tracemalloc.start()
    model.save(tmp_path / "m")
    od.load(tmp_path / "m")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3e6


def test_a_save_reports_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "CHUNK", 100)
    steps: list[tuple[str, float]] = []
    persist.save(small(), tmp_path / "m", progress=lambda stage, done: steps.append((stage, done)))
    assert {stage for stage, _ in steps} == {"save"}
    assert [done for _, done in steps] == sorted(done for _, done in steps)
    assert steps[-1][1] == 1.0


# Failing to save


@pytest.mark.parametrize("after", [0, 2])
def test_ctrl_c_during_a_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, after: int) -> None:
    path = tmp_path / "m"
    small().save(path)
    before = path.read_bytes()
    left = iter(range(after))

    def interrupt(stage: str, done: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        persist.save(small(TITLES), path, progress=interrupt)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES])
def test_a_failing_disk_leaves_the_old_file_and_the_error_has_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    path = tmp_path / "m"
    small().save(path)
    before = path.read_bytes()

    def fail(*args: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(container.os, call, fail)
    with pytest.raises(od.OffdiagError) as caught:
        small(TITLES).save(path)
    monkeypatch.undo()
    message = str(caught.value)
    assert message.startswith("cannot save to")
    assert "\n" not in message
    assert ("disk is full" in message) == (code in (errno.ENOSPC, errno.EDQUOT))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file size are a POSIX notion")
def test_running_out_of_room_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    code = """
import resource, sys
import numpy as np, offdiag as od
model = od.Popularity().fit(np.ones((2, 40_000), np.float32))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    model.save(sys.argv[1])
except od.OffdiagError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], capture_output=True, text=True, check=True)
    assert "the disk is full" in done.stdout
    assert (tmp_path / "m").read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_places_that_cannot_hold_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(od.OffdiagError, match="does not exist; create it first"):
        small().save(tmp_path / "no" / "m")
    with pytest.raises(od.OffdiagError, match="received the folder"):
        small().save(tmp_path)
    with pytest.raises(od.OffdiagError, match="ordinary file"):
        small().save(os.devnull)
    assert os.listdir(tmp_path) == []


def test_models_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    class EASE(od.EASE):
        """A foreign class with a known name."""

    wrong: list[tuple[str, Any]] = [
        ("not fitted", od.EASE()),
        ("expected one of EASE, DLAE", object()),
        ("expected one of EASE, DLAE", EASE().fit(matrix())),
        ("item ids of type object", small(np.array([1, "a"] * 4, dtype=object))),
        ("item ids of type float64", small(np.arange(8.0))),
    ]
    for message, model in wrong:
        with pytest.raises(od.OffdiagError, match=message):
            persist.save(model, tmp_path / "m")
    model = small()
    model.settings_ = {"l2": float("inf")}
    with pytest.raises(od.OffdiagError, match="cannot save the setting inf"):
        model.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")
def test_a_save_keeps_permissions_and_follows_links(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    (tmp_path / "m").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "m")
    small(TITLES).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640
    assert od.load(tmp_path / "m").item_ids_.tolist() == TITLES.tolist()


@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_a_file_knows_whether_popularity_counts_users(tmp_path, user_power):
    X = od.synthetic.interactions(60, 20, 500, seed=0)
    model = od.EASE(l2=5.0, user_power=user_power).fit(X)
    assert model.counts_users_
    model.save(tmp_path / "m.od", updatable=True)
    again = od.load(tmp_path / "m.od")
    again.save(tmp_path / "copy.od")  # without its living state
    assert od.load(tmp_path / "copy.od").counts_users_
    again.update(X.matrix[:1] * 3)
    assert not again.counts_users_
    again.forget(X.matrix[:1] * 3)
    assert again.counts_users_
