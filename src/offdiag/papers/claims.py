"""The parts of a reproduction: chapters of claims and figures, numbers, and the checks that decide on them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from offdiag.errors import OffdiagError
from offdiag.measured import SURE as SURE
from offdiag.measured import decide

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["small", "paper"]
Verdict = Literal[
    "holds",
    "holds when corrected",
    "within error",
    "barely",
    "depends on the gauge",
    "does not hold",
    "not run",
]
AHEAD: dict[str, Verdict] = {"better": "holds", "worse": "does not hold", "within error": "within error"}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in plain words, and what was measured here."""

    where: str  # "Theorem 2.4", "Figure 3", …, or a short name: "edlae_best"
    says: str  # one or two sentences for someone who has not read the paper
    measured: str  # a sentence with the figures that decide
    verdict: Verdict
    erratum: str = ""  # what is wrong in print, and what holds instead
    code: str = ""  # the function that implements it, e.g. "lab.dropout.optimum"

    def as_row(self) -> dict[str, str]:
        """A row with the keys of figure1.json and table1.json, whose claims have neither erratum nor code."""
        return {"name": self.where, "text": self.says, "verdict": self.verdict, "evidence": self.measured}


def verdict(true: bool, *, corrected: bool = False) -> Verdict:
    """The verdict on a claim that can be decided without error bars."""
    if not true:
        return "does not hold"
    return "holds when corrected" if corrected else "holds"


class Gap(NamedTuple):
    """A difference between two models, user by user: its mean, and the standard error of the mean."""

    mean: float
    sem: float  # 0 if there are too few users for one

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.sem:.4f}"


def gap(mean: float, sem: float) -> Gap:
    return Gap(mean, sem if math.isfinite(sem) else 0.0)


def ahead(gap: Gap) -> Verdict:
    """A claim that one model is more accurate, judged by its paired difference to the other."""
    return AHEAD[decide(*gap)]


def never_behind(gaps: Iterable[Gap]) -> Verdict:
    """A claim that one model is at least as accurate wherever both were measured."""
    gaps = list(gaps)
    if any(decide(*gap) == "worse" for gap in gaps):
        return "does not hold"
    return "within error" if any(mean < 0 for mean, _ in gaps) else "holds"


def alike(gap: Gap) -> Verdict:
    """A claim that two models are equally accurate. Pairing is sharper than the error of a mean, which papers quote."""
    return verdict(decide(*gap) == "within error")


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure, its file name without suffix, and its caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Chapter:
    """One question of the paper."""

    paper: str  # the package: "mianjy2018"
    title: str
    text: str  # plain words: the question, and how it is answered; paragraphs separated by blank lines
    numbers: dict[str, float] = field(default_factory=dict)  # what ``expected`` is compared with
    claims: list[Claim] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)

    def claim(self, name: str, measured: str, true: bool | None, **words: str) -> None:
        """Judge a claim of expected.json by a truth value, or None if it was not run.

        A claim with a correction holds only when corrected. ``words`` are those that depend on what was measured.
        """
        words = {"where": name} | read_expected(self.paper)["claims"].get(name, {}) | words
        correction = words.pop("correction", "")
        found = "not run" if true is None else verdict(true, corrected=bool(correction))
        self.claims.append(Claim(measured=measured, verdict=found, **{"erratum": correction} | words))

    def judge(self, name: str, measured: str, found: Verdict) -> None:
        """A claim of expected.json with a verdict by error bars: ``ahead``, ``alike`` or ``never_behind``."""
        self.claims.append(Claim(measured=measured, verdict=found, **read_expected(self.paper)["claims"][name]))

    def draw(self, name: str, caption: str, figure: Figure) -> None:
        self.drawings.append(Drawing(name, caption, figure))


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The reproduction of a whole paper."""

    paper: str  # "mianjy2018"
    title: str
    authors: str
    size: Size
    seed: int
    summary: str  # what the paper is about and the outcome, for someone who has not read it
    chapters: list[Chapter]
    data: str  # which data was used
    folders: list[str]  # options that named a folder of images
    seconds: float
    part: str = ""  # of the command, if a paper has several: "figure1"

    @property
    def claims(self) -> list[Claim]:
        return [claim for chapter in self.chapters for claim in chapter.claims]

    @property
    def numbers(self) -> dict[str, float]:
        return {name: value for chapter in self.chapters for name, value in chapter.numbers.items()}


@dataclass(frozen=True)
class Check:
    """One number and its expected value; without a value if this part of the paper was not run."""

    name: str
    value: float | None
    expected: str
    why: str
    ok: bool

    @property
    def shown(self) -> str:
        return "–" if self.value is None else f"{self.value:.6g}"

    @property
    def verdict(self) -> str:
        return "not run" if self.value is None else "yes" if self.ok else "NO"


@cache
def read_expected(paper: str) -> dict[str, Any]:
    """expected.json: what the paper says, and what our numbers should be."""
    text = resources.files("offdiag.papers").joinpath(paper, "expected.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def expected(paper: str, size: Size) -> dict[str, dict[str, Any]]:
    """What the numbers of a paper should be: {"value", "tolerance"}, {"at_most"} or {"at_least"}, each with a "why".

    An entry may hold {"small": …, "paper": …} instead of one bound for both sizes.
    """
    entries = read_expected(paper)["numbers"]
    return {name: {"why": entry.get("why", ""), **entry.get(size, entry)} for name, entry in entries.items()}


def check(numbers: dict[str, float], bounds: dict[str, dict[str, Any]]) -> list[Check]:
    """Each expected number and its bound; a number that was not computed is marked, an unexpected one is an error."""
    unknown = sorted(set(numbers) - set(bounds))
    if unknown:
        raise OffdiagError(f"no expectation is written down for {', '.join(unknown)}")
    return [_check(name, numbers.get(name), bound) for name, bound in bounds.items()]


def _check(name: str, found: float | None, bound: dict[str, Any]) -> Check:
    value = math.nan if found is None else found
    if "value" in bound:
        text = f"{bound['value']:g} ± {bound['tolerance']:g}"
        ok = abs(value - bound["value"]) <= bound["tolerance"]
    elif "at_most" in bound:
        text, ok = f"≤ {bound['at_most']:g}", value <= bound["at_most"]
    else:
        text, ok = f"≥ {bound['at_least']:g}", value >= bound["at_least"]
    return Check(name, found, text, bound["why"], found is None or (bool(ok) and math.isfinite(value)))
