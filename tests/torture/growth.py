"""One program that loads, ranks, updates, forgets and saves for hours must not grow."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

from tests.torture import forks
from tests.torture.found import Campaign

ALLOWED = 6 << 20  # bytes, from the first fifth to the end


def campaign(start: Path, work: Path, rounds: int) -> Campaign:
    found = Campaign("growth", "one program that loads, ranks, updates, forgets and saves over and over")
    work.mkdir(parents=True, exist_ok=True)

    def live() -> list[int]:
        import offdiag as od

        inter = od.synthetic.interactions(200, 90, 3_000, names=False, seed=2)
        od.EASE(l2=20.0).fit(inter.select_users(range(190))).save("growing.od", updatable=True, key="keys")
        late, sizes = inter.select_users(range(190, 200)), []
        for n in range(rounds):
            model = od.load("growing.od", key="keys", verify=True)
            model.recommend(inter, k=10)
            model.update(late) if n % 2 == 0 else model.forget(late)
            model.save("growing.od", updatable=True, key="keys")
            if n % max(1, rounds // 20) == 0:
                gc.collect()
                sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
        return sizes

    try:
        sizes = forks.ask(live, work, timeout=7_200)
    except RuntimeError as error:
        found.wrong(f"{error}")
        return found
    warm, last = sizes[len(sizes) // 5], sizes[-1]
    found.count("rounds", rounds)
    found.figures |= {"resident after warm-up, bytes": warm, "resident at the end, bytes": last}
    if last > warm + ALLOWED:
        found.wrong(f"memory grew from {warm:,} to {last:,} bytes in {rounds:,} rounds")
    return found
