"""NAME=PATH → a split: the published protocol for ML-20M, Netflix and MSD, held-out users for the smaller sets."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from offdiag.data import datasets, prepare, read, split, synthetic
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError
from offdiag.papers.steck2020.rows import PAPER_RANK, expected

HELD_OUT = 0.1
INVENTED = "invented"
STAND_IN = "ml-20m-shape"
SHAPE_OF = "ml-20m"  # whose published counts the stand-in has
STAND_IN_INTERACTIONS = 10_000_000
STAND_IN_HELD_OUT = 10_000  # users for validation and as many for test, as published
NO_ACCURACY = (
    "synthetic data with the published shape of ML-20M: it shows that every row runs, its time and its memory. The "
    "accuracies mean nothing; those of the real data appear with --data ml-20m=PATH"
)
_LASTFM = datasets.Counts(92_834, 1_892, 17_632)


@dataclass(frozen=True)
class Source:
    """A data set by name, and its path (None: the folder of downloads); or a synthetic catalogue of that size."""

    name: str
    path: Path | None = None
    users: int = 6000
    items: int = 1000
    interactions: int = 0  # of a stand-in


@dataclass(frozen=True, eq=False)
class Data:
    """A split, and a description of how it was made."""

    name: str
    title: str
    protocol: str
    split: split.Split
    notes: list[str]
    stand_in: bool = False  # only time and memory count: no tuning, no claims


def _movielens(name: str, at_least: float | None) -> Callable[[Path | None], Interactions]:
    return lambda path: prepare.binarize(datasets.complete(name, path), at_least)


def _lastfm(path: Path | None) -> Interactions:
    if path is None:
        raise OffdiagError("expected --data lastfm=PATH, received no path; give the folder that holds user_artists.dat")
    file = path / "user_artists.dat" if path.is_dir() else path
    if not file.exists():
        raise OffdiagError(f"expected user_artists.dat in {path.name!r}, received no such file; give its folder")
    inter = read.read(file, user=0, item=1)
    datasets.check_counts("lastfm", inter, _LASTFM)
    return prepare.binarize(inter)


# name → title, reader, least number of users of an item
_SMALL: dict[str, tuple[str, Callable[[Path | None], Interactions], int]] = {
    "ml-1m": ("MovieLens 1M", _movielens("ml-1m", None), 1),
    "ml-100k": ("MovieLens 100K, ratings ≥ 4", _movielens("ml-100k", 4), 1),
    "lastfm": ("Last.fm (HetRec 2011), artists with 5 users or more", _lastfm, 5),
    "citeulike-a": (
        "CiteULike, articles with 10 users or more",
        lambda path: prepare.binarize(datasets.complete("citeulike-a", path)),
        10,
    ),
}
_PUBLISHED = {"ml-20m": "MovieLens 20M", "netflix": "Netflix Prize", "msd": "Million Song taste profile"}
NAMES = (*_PUBLISHED, *_SMALL)


def parse(texts: list[str]) -> list[Source]:
    """NAME=PATH as typed, or NAME alone for downloaded data; all are checked before any is read."""
    found: list[Source] = []
    for text in texts:
        name, equals, place = text.partition("=")
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            advice = f"did you mean {near[0]}={place or 'PATH'}?" if near else "write NAME=PATH"
            raise OffdiagError(f"--data knows {', '.join(NAMES)}, received {name!r}; {advice}")
        if equals and not place:
            raise OffdiagError(f"expected a path after --data {name}=, received none; write {name}=PATH")
        path = Path(place).expanduser() if equals else None
        if path is not None and not path.exists():
            raise OffdiagError(f"expected {name} at {str(path)!r}, received a path that does not exist; check it")
        if any(other.name == name for other in found):
            raise OffdiagError(f"expected each data set once, received {name} twice; give it once")
        found.append(Source(name, path))
    return found


def stand_in() -> Source:
    """A synthetic catalogue with the published counts of ML-20M."""
    known = expected()["data"][SHAPE_OF]
    return Source(STAND_IN, users=known["users"], items=known["items"], interactions=STAND_IN_INTERACTIONS)


def load(source: Source, seed: int) -> Data:
    """Read, check, prepare and split."""
    name = source.name
    if name == INVENTED:
        nnz = int(source.users * min(30, source.items / 8))
        inter = synthetic.interactions(source.users, source.items, nnz, names=False, seed=seed)
        return _strong(name, f"a synthetic catalogue (seed {seed})", inter, seed)
    if name == STAND_IN:
        inter = synthetic.interactions(source.users, source.items, source.interactions, names=False, seed=seed)
        parts = split.strong(inter, held_out=min(STAND_IN_HELD_OUT, source.users // 10), seed=seed)
        protocol = f"{len(parts.test.user_ids):,} users held out for validation and as many for test (seed {seed})"
        title = "Stand-in with the shape of ML-20M (synthetic)"
        return Data(name, title, protocol, parts, [NO_ACCURACY, *_notes(parts)], stand_in=True)
    if name in _SMALL:
        title, reader, least = _SMALL[name]
        return _strong(name, title, prepare.min_counts(reader(source.path), items=least), seed)
    parts = datasets.published(name, source.path)
    known = expected()["data"][name]
    train, held = parts.train, parts.test
    n_users = train.n_users + 2 * len(held.user_ids)
    notes = []
    if (n_users, train.n_items) != (known["users"], known["items"]):
        notes.append(
            f"{n_users:,} users and {train.n_items:,} items remain after preparation; "
            f"published are {known['users']:,} and {known['items']:,}"
        )
    protocol = f"of Liang et al. (2018), {len(held.user_ids):,} users held out for validation and as many for test"
    return Data(name, _PUBLISHED[name], protocol, parts, notes + _notes(parts))


def _strong(name: str, title: str, inter: Interactions, seed: int) -> Data:
    parts = split.strong(inter, held_out=HELD_OUT, seed=seed)
    protocol = (
        f"a tenth of the users held out for validation and a tenth for test, 80 % of their items shown (seed {seed})"
    )
    return Data(name, title, protocol, parts, _notes(parts))


def _notes(parts: split.Split) -> list[str]:
    """What readers need to know about the held-out users."""
    notes = []
    for what, part in (("validation", parts.validation), ("test", parts.test)):
        if part is None:
            raise OffdiagError("expected a split with validation users, received none; tuning needs them")
        n = int(np.count_nonzero(np.diff(part.targets.indptr) == 0))
        if n == len(part.user_ids):
            raise OffdiagError(
                f"expected {what} users with something to predict, received {n:,} users without a target; "
                "give data whose users have several items"
            )
        if n:
            notes.append(f"{n:,} of {len(part.user_ids):,} {what} users have no target and are left out")
    return notes


def choose_rank(name: str, n_items: int, rank: int | None) -> int:
    """The given rank; by default 1,000 on the paper's data and elsewhere a twentieth of the items, as there."""
    if rank is not None:
        if not 1 <= rank < n_items:
            raise OffdiagError(
                f"expected a rank from 1 to below the {n_items:,} items of {name}, received {rank}; change --rank"
            )
        return rank
    if name in _PUBLISHED or name == STAND_IN:
        return min(PAPER_RANK, n_items - 1)
    return max(1, min(PAPER_RANK, n_items - 1, max(10, round(n_items / 200) * 10)))
