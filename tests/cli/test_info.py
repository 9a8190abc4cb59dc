"""`offdiag info`: a table or a model file."""

import numpy as np
import pytest

import offdiag as od


def test_info_describes_a_table(text_of, json_of):
    assert "1 to 5" in text_of("info", "train.csv", "--value", "rating")
    about, inter = json_of("info", "train.csv"), od.read("train.csv")
    assert about["density"] == pytest.approx(inter.nnz / (inter.n_users * inter.n_items))
    assert about["most_popular"][0]["total"] == np.bincount(inter.matrix.indices).max()


def test_a_table_of_zeros_has_no_values(text_of, folder):
    (folder / "zeros.csv").write_text("user,item,rating\n1,2,0\n")
    assert "values          none\n" in text_of("info", "zeros.csv", "--value", "rating")


def test_info_describes_a_model(json_of, text_of):
    fitted = json_of("fit", "train.csv", "--out", "new.od", "--dropout", "0.3", "--validate")
    about = json_of("info", "new.od")
    assert about["metrics"]["mean"] == fitted["metrics"]["mean"]
    assert about["n_users"] == 300
    assert set(about["most_popular"][0]) == {"item", "total"}
    assert "updatable" not in text_of("info", "new.od")


def test_info_says_that_a_file_is_updatable(fit, text_of):
    fit("train.csv", "living.od")
    assert "by living.od.living" in text_of("info", "living.od")


def test_a_missing_file_is_one_line(fails):
    assert "nowhere" in fails("info", "nowhere")
