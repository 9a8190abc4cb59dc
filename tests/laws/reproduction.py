"""What holds for every theory paper, reproduced at its small size."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from offdiag import lab
from offdiag.errors import OffdiagError
from offdiag.papers import claims, page

DOCS = Path(__file__).resolve().parents[2] / "docs" / "papers"


class Reproduced:
    """A subclass names the paper and what its reproduction must contain."""

    paper: str
    stages: tuple[str, ...]  # reported, up to the first " · "
    covers: tuple[str, ...] = ()  # parts of the paper that some claim is about
    figures: tuple[str, ...]
    refuted: tuple[str, ...]  # claims that do not hold
    corrected: tuple[str, ...]  # claims that hold when corrected
    folders: tuple[str, ...] = ()  # options that name a folder of images
    empirical: tuple[str, ...] = ()  # claims about accuracy, whose verdicts belong to the data

    @classmethod
    def run(cls, **words):
        return import_module(f"offdiag.papers.{cls.paper}").run(size="small", seed=0, **words)

    def test_every_number_is_computed_and_as_expected(self, found):
        checks = page.checks(found)
        assert [f"{c.name}: {c.value} is not {c.expected}" for c in checks if not c.ok] == []
        assert set(found.numbers) == set(claims.expected(self.paper, "small"))

    def test_the_verdicts_are_those_that_the_figures_give(self, found):
        judged = [c for c in found.claims if c.where not in self.empirical]
        wheres = {kind: tuple(c.where for c in judged if c.verdict == kind) for kind in page.VERDICTS}
        assert wheres["does not hold"] == self.refuted
        assert wheres["holds when corrected"] == self.corrected
        assert len(wheres["holds"]) == len(judged) - len(self.refuted) - len(self.corrected)

    def test_every_claim_has_evidence_and_every_correction_an_erratum(self, found):
        for claim in found.claims:
            assert any(letter.isdigit() for letter in claim.measured), claim.where
            assert "nan" not in claim.measured, claim.where
            assert claim.erratum or claim.verdict == "holds" or claim.where in self.empirical, claim.where
            for module, name in re.findall(r"lab\.(\w+)\.(\w+)", claim.code):
                assert callable(getattr(getattr(lab, module), name)), claim.code

    def test_every_claim_in_the_file_is_judged(self, found):
        known = claims.read_expected(self.paper)["claims"]
        assert {claim.says for claim in found.claims} == {entry["says"] for entry in known.values()}

    def test_the_readme_lists_every_verdict_of_the_committed_run(self):
        committed = json.loads((DOCS / self.paper / "numbers.json").read_text())["claims"]
        table = [line.split(" | ") for line in (DOCS / self.paper / "README.md").read_text().splitlines()]
        rows = [{cell.strip("| ") for cell in row} for row in table]
        assert [c["where"] for c in committed if not any({c["where"], c["verdict"]} <= row for row in rows)] == []
        known = claims.read_expected(self.paper)["claims"]
        assert {claim["says"] for claim in committed} == {entry["says"] for entry in known.values()}

    def test_every_part_of_the_paper_is_covered(self, found):
        text = " ".join(claim.where for claim in found.claims)
        assert [part for part in self.covers if part not in text] == []

    def test_no_text_shows_the_quotes_of_its_source(self, found):
        texts = [text for chapter in found.chapters for text in (chapter.title, chapter.text)]
        texts += [text for claim in found.claims for text in (claim.says, claim.measured, claim.erratum)]
        texts += [drawing.caption for chapter in found.chapters for drawing in chapter.drawings]
        assert [text for text in texts if '"' in text] == []

    def test_page_numbers_and_figures_are_written(self, found, tmp_path):
        image = pytest.importorskip("matplotlib.image")
        files = page.write(found, tmp_path)
        assert {path.stem for path in (tmp_path / "figures").glob("*.png")} == set(self.figures)
        assert len(files) == 2 + 2 * len(self.figures)
        for name in self.figures:
            assert (image.imread(tmp_path / "figures" / f"{name}.png")[..., :3].std(axis=(0, 1)) > 0.02).any(), name
            assert (tmp_path / "figures" / f"{name}.svg").read_text().startswith("<?xml")
        text = (tmp_path / "index.html").read_text()
        assert text.count('<figure class="drawn">') == text.count("<img") == len(self.figures)
        assert text.count('<p class="where">') >= len(found.claims)
        assert "/tmp/" not in text
        numbers = json.loads((tmp_path / "numbers.json").read_text())
        assert numbers["paper"] == self.paper
        assert [claim["where"] for claim in numbers["claims"]] == [claim.where for claim in found.claims]
        assert len(numbers["checks"]) == len(found.numbers)

    def test_progress_names_every_stage(self, reported, found):
        assert {stage.split(" · ")[0] for stage, _ in reported} == set(self.stages)
        assert all(0 <= fraction <= 1 for _, fraction in reported)
        assert found.seconds > 0

    def test_a_wrong_folder_is_reported_before_anything_is_computed(self):
        reported = []
        for folder in self.folders:
            with pytest.raises(OffdiagError, match="there is no 'nowhere'"):
                self.run(progress=lambda *stage: reported.append(stage), **{folder: "nowhere"})
        assert reported == []
