"""Files of this and earlier versions load, give the lists they gave, and can be changed where they could be."""

import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag import persist
from offdiag.errors import EarlierFormatWarning
from offdiag.weights import KINDS
from tests.fixtures import every_shape

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
FOLDERS = sorted(path for path in GOLDEN.iterdir() if (path / "lists.json").exists())
NEWEST = max((path for path in FOLDERS if not path.name.startswith("20")), key=lambda p: [*map(int, p.name.split("."))])
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.od"))]
UPDATABLE = [path for path in FILES if path.stem == "updatable"]
VOLATILE = ("created", "offdiag_version", "bytes", "living")


def label(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_golden_file_gives_the_lists_it_gave(path):
    wanted = json.loads((path.parent / "lists.json").read_text(encoding="utf-8"))[path.name]
    found = od.load(path, verify=True).recommend(wanted["histories"], k=4)
    assert found.items.tolist() == wanted["items"]
    np.testing.assert_allclose(found.scores, wanted["scores"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("path", UPDATABLE, ids=label)
def test_a_golden_file_can_still_be_changed_and_changed_back(path, tmp_path):
    for source in (path, path.with_name("updatable.od.living"), path.with_name("keys")):
        if source.exists():
            shutil.copy(source, tmp_path / source.name)
    key = None
    if (tmp_path / "keys").exists():
        key = tmp_path / "keys"
        key.chmod(0o600)  # which a checkout does not keep
    log = od.read(GOLDEN / "log.csv") if path.parent.name.startswith("20") else every_log()
    model = od.load(tmp_path / "updatable.od", key=key)
    before, n = model.gram_.toarray(), model.n_users_
    model.forget(log.select_users([3]))
    assert model.n_users_ == n - 1
    model.update(log.select_users([3]))
    assert np.array_equal(model.gram_.toarray(), before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EarlierFormatWarning)
        model.save(tmp_path / "now.od", updatable=True, key=tmp_path / "new keys")
    assert od.load(tmp_path / "now.od", key=tmp_path / "new keys").n_users_ == n


def every_log():
    return od.synthetic.interactions(60, 16, 400, seed=1)


def test_the_newest_folder_has_every_shape_that_a_file_can_hold():
    names = {persist.describe(path)["weights"] for path in NEWEST.glob("*.od")}
    assert names == KINDS.keys(), "python -m tests.fixtures.golden VERSION, for a new version"


@pytest.mark.parametrize("path", sorted(NEWEST.glob("*.od")), ids=label)
def test_a_golden_file_saved_again_has_the_same_layout(path, tmp_path):
    """Another layout needs a new folder, so that files of today are still read tomorrow."""
    od.load(path).save(tmp_path / path.name)
    assert layout(tmp_path / path.name) == layout(path)


@pytest.mark.parametrize("name", ["packed", "sparse"])
def test_a_new_fit_has_the_layout_of_the_newest_golden_file(name, tmp_path):
    every_shape.fit(name).save(tmp_path / "new.od")
    assert layout(tmp_path / "new.od") == layout(NEWEST / f"{name}.od")


def layout(path):
    """Everything in a header, with numbers that depend on the moment of saving left out."""
    return {name: part for name, part in persist.describe(path).items() if name not in VOLATILE}


def test_the_page_describes_every_kind_and_its_tensors():
    page = (Path(__file__).parents[1] / "docs" / "model-file.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page.partition("| `weights` | tensors")[2], re.M))
    assert rows.keys() == KINDS.keys()
    for path in NEWEST.glob("*.od"):
        about = persist.describe(path)
        if about["weights"] in ("network", "self_attention", "grown", "blended"):
            continue  # a tensor for each layer or part
        cell = rows[about["weights"]].replace("those of `sparse`", rows["sparse"])
        for name in about["tensors"]:
            if name.startswith("weights."):
                assert f"`{name.removeprefix('weights.')}`" in cell, f"{name} of {path.name}"
