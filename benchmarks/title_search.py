"""Titles with typing errors: the time of an index and of a query, and how often the title that was meant is found.

The titles are invented: one to six words out of 20,000, common ones often. A query is a title with one letter replaced.

    python benchmarks/title_search.py [20000 300000]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from offdiag.title_search import TitleIndex

QUERIES = 200
LETTERS = list("etaoinshrdlucmfw")


def measure(n: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    words = np.array(["".join(rng.choice(LETTERS, rng.integers(2, 10))) for _ in range(20_000)])
    common = 1 / np.arange(1, len(words) + 1)
    titles = [" ".join(rng.choice(words, rng.integers(1, 7), p=common / common.sum())).title() for _ in range(n)]
    begin = time.perf_counter()
    index = TitleIndex(titles)
    built = time.perf_counter() - begin
    seconds, found = [], 0
    for wanted in rng.integers(n, size=QUERIES):
        letters = list(titles[wanted])
        letters[rng.integers(len(letters))] = "x"
        begin = time.perf_counter()
        best = index.find("".join(letters), 10)
        seconds.append(time.perf_counter() - begin)
        found += any(titles[place] == titles[wanted] for place, _ in best)
    median, worst = 1e3 * np.median(seconds), 1e3 * np.quantile(seconds, 0.95)
    return (
        f"{n:,} titles: index {built:.2f} s; query {median:.1f} ms (median), {worst:.1f} ms (95 %); "
        f"{100 * found / QUERIES:.0f} % among the first ten"
    )


if __name__ == "__main__":
    for size in map(int, sys.argv[1:] or ["20000", "300000"]):
        print(measure(size))
