"""Public data sets for recommendation: where they are, how to check them, how to read them.

Nothing here touches the network except `download`. Every set can also be read from a local folder or archive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from offdiag.data import prepare, split
from offdiag.data._sets import parsers
from offdiag.data._sets.download import fetch, verify
from offdiag.data.interactions import Interactions
from offdiag.data.table import Table, assemble, concatenate
from offdiag.errors import OffdiagError
from offdiag.progress import Progress, reporter


@dataclass(frozen=True)
class Protocol:
    """The preparation and split of Liang et al. (2018) for one set.

    Example:
        >>> import offdiag as od
        >>> od.datasets.describe("ml-20m").protocol
        Protocol(at_least=4, user_count=5, item_count=0, held_out_users=10000)
    """

    at_least: float | None
    user_count: int
    item_count: int
    held_out_users: int


@dataclass(frozen=True)
class Counts:
    """Size of a complete set: interactions, and users and items that have any.

    Example:
        >>> import offdiag as od
        >>> print(od.datasets.Counts(interactions=900, users=100, items=50))
        900 interactions of 100 users with 50 items
    """

    interactions: int
    users: int
    items: int

    def __str__(self) -> str:
        return f"{self.interactions:,} interactions of {self.users:,} users with {self.items:,} items"


@dataclass(frozen=True)
class Dataset:
    """One public data set. `checksums` match `addresses`; None where the publisher gives none.

    `counts` are those of the version used in published results; None where the set changes over time.

    Example:
        >>> import offdiag as od
        >>> od.datasets.describe("citeulike-a").licence
        'research use; cite Wang, Chen and Li (2013)'
    """

    name: str
    about: str
    addresses: tuple[str, ...]
    checksums: tuple[str | None, ...]
    licence: str
    parse: Callable[[Path], Table]
    titles: Callable[[Path], dict[int, str] | dict[str, str] | None] | None = None
    protocol: Protocol | None = None
    counts: Counts | None = None


_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_RESEARCH = "research use; no redistribution, no commercial use without permission (GroupLens, see its README)"
_GOWALLA = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data/gowalla/"


def _movielens(name: str, title: str, checksum: str, parse: Callable[[Path], Table], counts: Counts) -> Dataset:
    about = f"MovieLens {title}: {counts.interactions:,} ratings, {counts.users:,} users, {counts.items:,} films"
    return Dataset(
        name, about, (f"{_GROUPLENS}{name}.zip",), (checksum,), _RESEARCH, parse, parsers.movie_titles, counts=counts
    )


_ALL = (
    Dataset(
        "ml-latest-small", "MovieLens latest small: 100,836 ratings, 610 users, 9,724 films; changes over time",
        (_GROUPLENS + "ml-latest-small.zip",), (None,),  # the file is replaced from time to time
        _RESEARCH, parsers.movielens_csv, parsers.movie_titles,
    ),
    _movielens("ml-100k", "100K", "md5:0e33842e24a9c977be4e0107933c0723", parsers.movielens_100k,
               Counts(100_000, 943, 1_682)),
    _movielens("ml-1m", "1M", "md5:c4d9eecfca2ab87c1945afe126590906", parsers.movielens_1m,
               Counts(1_000_209, 6_040, 3_706)),
    replace(
        _movielens("ml-20m", "20M", "md5:cd245b17a1ae2cc31bb14903e1204af3", parsers.movielens_csv,
                   Counts(20_000_263, 138_493, 26_744)),
        protocol=Protocol(at_least=4, user_count=5, item_count=0, held_out_users=10_000),
    ),
    Dataset(
        "netflix", "Netflix Prize: 100,480,507 ratings, 480,189 users, 17,770 films",
        ("https://archive.org/download/nf_prize_dataset.tar/nf_prize_dataset.tar.gz",),
        (None,),  # no published checksum; the set has been withdrawn
        "withdrawn by Netflix; research use under the terms of the Prize", parsers.netflix, parsers.netflix_titles,
        Protocol(at_least=4, user_count=5, item_count=0, held_out_users=40_000), Counts(100_480_507, 480_189, 17_770),
    ),
    Dataset(
        "msd", "Million Song taste profile: 48,373,586 play counts, 1,019,318 users, 384,546 songs",
        ("http://millionsongdataset.com/sites/default/files/challenge/train_triplets.txt.zip",),
        (None,),  # none published
        "research use, non-commercial (The Echo Nest Taste Profile Subset)", parsers.taste_profile, parsers.song_titles,
        Protocol(at_least=None, user_count=20, item_count=200, held_out_users=50_000),
        Counts(48_373_586, 1_019_318, 384_546),
    ),
    Dataset(
        "gowalla", "Gowalla check-ins as prepared for LightGCN: 1,027,370 pairs, 29,858 users, 40,981 places",
        (_GOWALLA + "train.txt", _GOWALLA + "test.txt"), (None, None),  # none published
        "public data of SNAP; cite Cho, Myers and Leskovec (2011)", parsers.gowalla,
        counts=Counts(1_027_370, 29_858, 40_981),
    ),
    Dataset(
        "citeulike-a", "CiteULike: 204,986 saved articles, 5,551 users, 16,980 articles",
        ("https://raw.githubusercontent.com/js05212/citeulike-a/master/users.dat",), (None,),  # none published
        "research use; cite Wang, Chen and Li (2013)", parsers.citeulike, parsers.article_titles,
        counts=Counts(204_986, 5_551, 16_980),
    ),
)  # fmt: skip
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
# Sets that are easily mistaken for another, by number of ratings.
_OTHER_VERSIONS = {10_000_054: "ml-10m", 25_000_095: "ml-25m", 32_000_204: "ml-32m", 100_836: "ml-latest-small"}


def names() -> list[str]:
    """The names `load` knows.

    Example:
        >>> import offdiag as od
        >>> od.datasets.names()[:3]
        ['ml-latest-small', 'ml-100k', 'ml-1m']
    """
    return list(DATASETS)


def describe(name: str) -> Dataset:
    """Address, checksum, licence and published protocol of one set.

    Example:
        >>> import offdiag as od
        >>> print(od.datasets.describe("ml-100k").counts)
        100,000 interactions of 943 users with 1,682 items
    """
    if name not in DATASETS:
        raise OffdiagError(f"expected one of {', '.join(DATASETS)}, received {name!r}; read other files with od.read")
    return DATASETS[name]


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Interactions:
    """The whole set as published: ratings or counts as values, and times if the set has them.

    `folder` is a folder or archive that holds the published files under their own names; without it, the
    place where `download` puts them. An incomplete set is read too; `complete` checks.

    Example:
        >>> import offdiag as od
        >>> with open("u.data", "w") as file:
        ...     _ = file.write("196\\t242\\t3\\t881250949\\n186\\t302\\t4\\t891717742\\n")
        >>> od.datasets.load("ml-100k", folder=".")
        Interactions(2 users x 2 items, 2 interactions, 50 % filled, with times)
    """
    dataset = describe(name)
    return assemble(dataset.parse(_source(dataset, folder)), None)


def complete(name: str, folder: str | os.PathLike[str] | None = None) -> Interactions:
    """Like `load`, but raises an error unless the set is the complete published version.

    An archive under its published name must have its published checksum, if there is one; the numbers of
    interactions, users and items must be as published. The error names the expected and the received value.

    Example:
        >>> import offdiag as od
        >>> with open("u.data", "w") as file:
        ...     _ = file.write("196\\t242\\t3\\t881250949\\n")
        >>> od.datasets.complete("ml-100k", folder=".")
        Traceback (most recent call last):
        offdiag.errors.OffdiagError: expected 100,000 interactions ... received 1 ...: the file is cut short; ...
    """
    dataset = describe(name)
    return _complete(dataset, _source(dataset, folder))


def _complete(dataset: Dataset, source: Path, otherwise: str = "") -> Interactions:
    for address, checksum in zip(dataset.addresses, dataset.checksums, strict=True):
        published_name = address.rpartition("/")[2]
        for archive in (source, source / published_name):
            if checksum is not None and archive.name == published_name and archive.is_file():
                verify(archive, checksum)
    inter = assemble(dataset.parse(source), None)
    if dataset.counts is not None:
        check_counts(dataset.name, inter, dataset.counts, f" ({dataset.addresses[0]}){otherwise}")
    return inter


def check_counts(name: str, inter: Interactions, expected: Counts, where: str = "") -> None:
    """Raise an error that names both counts if `inter` is not a complete published version.

    Example:
        >>> import offdiag as od
        >>> od.datasets.check_counts("mine", od.synthetic.interactions(9, 6, 20), od.datasets.Counts(30, 9, 6))
        Traceback (most recent call last):
        offdiag.errors.OffdiagError: expected 30 interactions of 9 users with 6 items for mine, received 20 ...
    """
    users = int(np.count_nonzero(np.diff(inter.matrix.indptr)))
    items = int(np.count_nonzero(np.bincount(inter.matrix.indices, minlength=inter.n_items)))
    received = Counts(inter.nnz, users, items)
    if received == expected:
        return
    known = {d.counts.interactions: n for n, d in DATASETS.items() if d.counts is not None} | _OTHER_VERSIONS
    other = known.get(received.interactions)
    if other is not None and other != name:
        guess = f"this is {other}"
    else:
        guess = "the file is cut short" if received.interactions < expected.interactions else "another version"
    raise OffdiagError(f"expected {expected} for {name}, received {received}: {guess}; give the published files{where}")


def titles(name: str, folder: str | os.PathLike[str] | None = None) -> dict[int, str] | dict[str, str]:
    """Item id → title, for the sets that publish titles with the interactions.

    Example:
        >>> import offdiag as od
        >>> with open("u.item", "w") as file:
        ...     _ = file.write("242|Kolya (1996)\\n")
        >>> od.datasets.titles("ml-100k", folder=".")
        {242: 'Kolya (1996)'}
    """
    dataset = describe(name)
    if dataset.titles is None:
        raise OffdiagError(f"expected a set with titles, received {name!r}, which has none; show its ids instead")
    source = _source(dataset, folder)
    found = dataset.titles(source)
    if found is None:
        raise OffdiagError(f"expected the titles of {name} in {source.name}, received no such file; add it there")
    return found


def published(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    held_out_users: int | None = None,
    validation: bool = False,
) -> split.Split:
    """The preparation and split used for published results on this set.

    ml-20m, netflix and msd follow Liang et al. (2018) and must be `complete`. With `held_out_users` the same is done
    to the data found, to try it on less data.
    gowalla is the fixed split of LightGCN: train.txt (with valid.txt, if it exists) and test.txt;
    `validation=True` keeps valid.txt apart for tuning.

    Example:
        >>> import offdiag as od
        >>> with open("train.txt", "w") as train, open("test.txt", "w") as test:
        ...     _ = train.write("0 5 6\\n1 5\\n"), test.write("0 7\\n")
        >>> od.datasets.published("gowalla", folder=".").test
        HeldOut(2 users, 3 in histories, 1 targets)
    """
    dataset = describe(name)
    source = _source(dataset, folder)
    if name == "gowalla":
        train, valid, test = parsers.gowalla_parts(source)
        if validation and valid is None:
            raise OffdiagError(
                "expected valid.txt next to train.txt for validation=True, received none; use validation=False"
            )
        if valid is not None and not validation:
            train, valid = concatenate([train, valid]), None
        middle = None if valid is None else assemble(valid, None)
        return split.given(assemble(train, None), assemble(test, None), middle)
    protocol = dataset.protocol
    if protocol is None:
        known = ", ".join(n for n, d in DATASETS.items() if d.protocol) + ", gowalla"
        raise OffdiagError(
            f"expected a set with a published split ({known}), received {name!r}; load it and use od.split"
        )
    if held_out_users is None:
        inter = _complete(dataset, source, ", or name held_out_users= to try the protocol on less")
    else:
        inter = load(name, folder)
    inter = prepare.binarize(inter, protocol.at_least)
    inter = prepare.min_counts(inter, users=protocol.user_count, items=protocol.item_count, first="items")
    return split.liang(inter, protocol.held_out_users if held_out_users is None else held_out_users)


def cache_folder() -> Path:
    """Where downloads are kept: $XDG_CACHE_HOME/offdiag, or ~/.cache/offdiag.

    Example:
        >>> import offdiag as od
        >>> od.datasets.cache_folder().name
        'offdiag'
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "offdiag"


def download(
    name: str, folder: str | os.PathLike[str] | None = None, *, progress: Progress | bool | None = None
) -> Path:
    """Fetch the set into `folder` (default: the cache) and return that folder; existing files are kept.

    A file appears under its name only when complete and, if a checksum is published, verified.

    Example:
        >>> import offdiag as od
        >>> open("users.dat", "w").close()  # otherwise fetched from where the set is published
        >>> od.datasets.download("citeulike-a", folder=".").name == ""
        True
    """
    progress = reporter(progress)
    dataset = describe(name)
    place = Path(folder) if folder is not None else cache_folder() / name
    for address, checksum in zip(dataset.addresses, dataset.checksums, strict=True):
        fetch(address, place / address.rpartition("/")[2], checksum, progress)
    return place


def _source(dataset: Dataset, folder: str | os.PathLike[str] | None) -> Path:
    place = Path(folder) if folder is not None else cache_folder() / dataset.name
    if place.exists():
        return place
    if folder is None:
        raise OffdiagError(
            f"expected {dataset.name} on this machine, received nothing; call datasets.download({dataset.name!r}) "
            f"or give folder=<where its files are> ({dataset.addresses[0]})"
        )
    raise OffdiagError(
        f"expected a folder or archive with {dataset.name}, received {str(place)!r}, which does not exist; check it"
    )
