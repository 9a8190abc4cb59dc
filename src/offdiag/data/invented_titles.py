"""Made-up titles for the synthetic catalogue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GENRES = (
    "space opera", "mystery", "western", "romance", "cookery", "gardening", "heist", "ghost story",
    "sea adventure", "war drama", "comedy", "fairy tale", "travel", "biography", "sports", "courtroom",
    "spy thriller", "musical", "nature", "history", "fantasy", "disaster", "family", "noir",
)  # fmt: skip
_FIRST = (
    "Amber", "Ancient", "Bitter", "Borrowed", "Brass", "Broken", "Burning", "Cobalt", "Copper", "Crimson",
    "Crooked", "Distant", "Drifting", "Eleventh", "Empty", "Endless", "Fading", "Fearless", "Forgotten", "Frozen",
    "Gentle", "Gilded", "Golden", "Hidden", "Hollow", "Hungry", "Iron", "Ivory", "Lonely", "Lost", "Lucky",
    "Midnight", "Northern", "Painted", "Paper", "Patient", "Quiet", "Restless", "Salted", "Scarlet", "Secret",
    "Silver", "Sleeping", "Stolen", "Velvet", "Wandering", "Wild", "Winter",
)  # fmt: skip
_SECOND = (
    "Anchor", "Archive", "Bakery", "Bridge", "Carousel", "Castle", "Clock", "Compass", "Court", "Desert", "Door",
    "Engine", "Feather", "Ferry", "Field", "Forest", "Garden", "Harbour", "Harvest", "Horizon", "Hotel", "House",
    "Island", "Jury", "Kingdom", "Lantern", "Letter", "Library", "Lighthouse", "Map", "Market", "Mirror",
    "Mountain", "Orchard", "Orchestra", "Parade", "Promise", "Queen", "River", "Road", "Shadow", "Ship", "Signal",
    "Station", "Stone", "Tower", "Valley", "Voyage",
)  # fmt: skip


def genre_names(n: int) -> list[str]:
    """n different genres; once the list is used up, they are numbered."""
    known = len(GENRES)
    return [GENRES[i % known] + (f" {i // known + 1}" if i >= known else "") for i in range(n)]


def invented_titles(
    saga_of: NDArray[np.int32], saga_genre: NDArray[np.int32], genres: list[str], rng: np.random.Generator
) -> list[str]:
    """A different title for every item, such as "The Quiet Harbour 2 (mystery)": saga, part and genre."""
    n_sagas = len(saga_genre)
    pairs = len(_FIRST) * len(_SECOND)
    shuffled = rng.permutation(pairs)
    names = []
    for saga in range(n_sagas):
        pair, again = int(shuffled[saga % pairs]), saga // pairs
        returns = "" if again == 0 else (" Returns" if again == 1 else f" Returns {again}")
        names.append(f"The {_FIRST[pair // len(_SECOND)]} {_SECOND[pair % len(_SECOND)]}{returns}")
    sizes = np.bincount(saga_of, minlength=n_sagas)
    part = np.arange(len(saga_of)) - (np.cumsum(sizes) - sizes)[saga_of]
    return [
        f"{names[saga]}{f' {part[item] + 1}' if sizes[saga] > 1 else ''} ({genres[saga_genre[saga]]})"
        for item, saga in enumerate(saga_of.tolist())
    ]
