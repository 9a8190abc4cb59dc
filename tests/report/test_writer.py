"""The report: one page that is self-contained, correct and survives any id."""

import os
import re

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.cli import demo
from offdiag.report import writer
from tests.fixtures.html import Page

NASTY = ["<script>alert(1)</script>", '"quoted" & co', "</style><b>", "x" * 300, "日本語の題名", "'); --"]


class Quiet:
    def __call__(self, stage, fraction):
        assert 0 <= fraction <= 1

    def begin(self, what):
        pass


@pytest.fixture(scope="module")
def study():
    inter = od.synthetic.catalogue(500, 60, 7500, communities=5, seed=2).interactions
    names = inter.item_ids.astype("U300")
    names[np.argsort(-np.bincount(inter.matrix.indices))[: len(NASTY)]] = NASTY  # popular, so they will be shown
    return demo.run(od.Interactions(inter.matrix, inter.user_ids, names), "<i>source</i>", 0, Quiet())


@pytest.fixture(scope="module")
def text(study):
    return writer.render(study)


def test_the_page_is_well_formed_and_holds_no_script(text):
    page = Page(text)
    assert "script" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.tags.count("svg") >= 6


def test_the_page_needs_nothing_from_outside(text):
    page = Page(text)
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not [1 for name, _ in page.attributes if name in ("src", "href", "xlink:href")]
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_the_page_follows_light_and_dark_and_a_small_screen(text):
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "@media (max-width" in text


def test_any_id_is_shown_as_text(text, study):
    page = Page(text)
    words = "".join(page.text)
    assert "<i>source</i>" in words
    shown = {i for s in study.samples for i in s.history} | {i for s in study.samples for i, _, _ in s.picks}
    assert set(NASTY) & shown
    for item in shown:
        assert str(item) in words


def test_the_numbers_of_the_page_are_those_of_the_study(text, study):
    words = "".join(Page(text).text)
    for entry in study.entries:
        for metric in writer.METRICS:
            assert f"{entry.result.mean[metric]:.4f}" in words
            assert f"± {entry.result.sem[metric]:.4f}" in words
        for name, value in entry.settings.items():
            assert f"{name} {writer.setting_text(value)}" in words


def test_the_sample_users_are_new_and_their_reasons_sum_to_the_score(study):
    train, test = study.split.train, study.split.test
    assert len(study.samples) == demo.SAMPLES
    for sample in study.samples:
        assert sample.user in test.user_ids
        assert sample.user not in train.user_ids
        assert not {item for item, _, _ in sample.picks} & set(sample.history)
        row = test.targets[[int(np.flatnonzero(test.user_ids == sample.user)[0])]]
        hidden = set(train.item_ids[row.indices].tolist())
        for (item, score, chosen), reason in zip(sample.picks, sample.reasons, strict=True):
            assert reason.contributions.sum() == reason.score == pytest.approx(score, rel=1e-5, abs=1e-6)
            assert chosen == (item in hidden)


def test_the_summary_names_the_best_model_and_ties(study):
    lines = writer.summary(study)
    assert study.best.name in lines[0]
    assert len(lines) == len(study.entries)
    for line, entry in zip(lines[1:], [e for e in study.entries if e is not study.best], strict=True):
        p = study.best.result.compare(entry.result).p_value[writer.JUDGE]
        assert ("cannot be distinguished" in line) == (not p < 0.05)


def test_the_page_is_replaced_whole_or_not_at_all(study, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(od.OffdiagError, match="the disk is full"):
            writer.replace_text(path, writer.render(study))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]
    writer.replace_text(path, writer.render(study))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_reasons_are_shares_of_the_positive_contributions():
    from offdiag.ranking import Explanation

    reason = Explanation("t", 2.0, np.array(["a", "b", "c"]), np.array([3.0, -2.0, 1.0]), [])
    assert writer.reason_text(reason) == "75 % from a, 25 % from c"
    against = Explanation("t", -1.0, np.array(["a"]), np.array([-1.0]), [])
    assert writer.reason_text(against) == "nothing in the history supports it"


def test_users_with_one_item_each_leave_nothing_to_compare():
    matrix = sparse.csr_array(np.eye(40, 8, dtype=np.float32) + np.eye(40, 8, -8, dtype=np.float32))
    rows = np.flatnonzero(np.diff(matrix.indptr) > 0)
    inter = od.Interactions(matrix[rows], np.arange(len(rows)), np.arange(8))
    with pytest.raises(od.OffdiagError, match="nothing to hide"):
        demo.run(inter, "ones", 0, Quiet())


def test_a_tiny_catalogue_of_numbers_still_makes_a_page():
    rng = np.random.default_rng(0)
    inter = od.read((rng.random((40, 6)) < 0.5).astype(np.float32))
    text = writer.render(demo.run(inter, "tiny", 0, Quiet()))
    Page(text)
    assert not re.search(r"\bnan\b", "".join(Page(text).text))
