"""A run on disk: it continues as if never interrupted, and any other file is refused and left as it is."""

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.nets import SMALL, Stop, every_watched_net


@every_watched_net
def test_a_run_that_was_interrupted_twice_ends_like_one_that_was_not(make, split, tmp_path, monkeypatch):
    monkeypatch.setattr("offdiag.baselines.nets.checkpoints.QUIET", 0)
    whole = make(epochs=7).fit(split.train, validation=split.validation)
    model, path = make(epochs=7), tmp_path / "run"
    for after in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            model.fit(split.train, validation=split.validation, checkpoint=path, progress=Stop(after))
        assert not hasattr(model, "weights_")
    seen = []
    model.fit(split.train, validation=split.validation, checkpoint=path, progress=lambda stage, done: seen.append(done))
    assert len(seen) == 2
    np.testing.assert_equal(model.weights_.arrays(), whole.weights_.arrays())
    for name in ("losses_", "validation_", "best_epoch_"):
        assert getattr(model, name) == getattr(whole, name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_finished_run_is_read_and_may_be_prolonged(split, tmp_path):
    path = tmp_path / "run"
    short = SMALL["MultVAE"](epochs=3).fit(split.train, checkpoint=path)
    again = SMALL["MultVAE"](epochs=3).fit(split.train, checkpoint=path)
    np.testing.assert_array_equal(again.weights_.layers[0][0], short.weights_.layers[0][0])
    longer, whole = SMALL["MultVAE"](epochs=5).fit(split.train, checkpoint=path), SMALL["MultVAE"](epochs=5)
    np.testing.assert_array_equal(longer.weights_.layers[0][0], whole.fit(split.train).weights_.layers[0][0])


def test_a_checkpoint_of_another_run_is_refused_and_left(split, tmp_path):
    path = tmp_path / "run"
    SMALL["MultDAE"]().fit(split.train, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(od.OffdiagError, match=r"of another run: rank=8 instead of 9"):
        SMALL["MultDAE"](rank=9).fit(split.train, checkpoint=path)
    with pytest.raises(od.OffdiagError, match="other data"):
        SMALL["MultDAE"]().fit(split.train.matrix[:500], checkpoint=path)
    with pytest.raises(od.OffdiagError, match="other data"):
        SMALL["MultDAE"]().fit(split.train, validation=split.validation, checkpoint=path)
    with pytest.raises(od.OffdiagError, match="of another run"):
        SMALL["CDAE"]().fit(split.train, checkpoint=path)
    assert path.read_bytes() == before


def test_damaged_checkpoints_and_other_files_are_refused_and_left(split, tmp_path):
    make = SMALL["MultDAE"]
    path, model = tmp_path / "run", tmp_path / "m.od"
    make().fit(split.train, checkpoint=path).save(model)
    broken = bytearray(path.read_bytes())
    broken[len(broken) // 2] ^= 1
    for content, message in (
        (path.read_bytes()[:-9], "damaged"),
        (bytes(broken), "damaged"),
        (b"my notes", "not an offdiag model"),
        (model.read_bytes(), "expected a checkpoint, received the model file"),
    ):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(od.OffdiagError, match=message):
            make().fit(split.train, checkpoint=tmp_path / "other")
        assert (tmp_path / "other").read_bytes() == content
    with pytest.raises(od.OffdiagError, match="takes a file name"):
        make().fit(split.train, checkpoint=tmp_path)
    with pytest.raises(od.OffdiagError, match="does not exist"):
        make().fit(split.train, checkpoint=tmp_path / "nowhere" / "run")
    with pytest.raises(od.OffdiagError, match="makes no sense"):
        od.load(path)
