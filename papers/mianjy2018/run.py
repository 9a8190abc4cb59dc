"""Mianjy, Arora & Vidal (2018) made again: python papers/mianjy2018/run.py [--size small]; results beside this file."""

import argparse
from pathlib import Path

from offdiag.papers import mianjy2018, page

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--size", choices=["small", "paper"], default="paper")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
options = parser.parse_args()
found = mianjy2018.run(size=options.size, seed=options.seed)
page.write(found, options.out)
for claim in found.claims:
    print(f"{claim.verdict:<20}  {claim.where}: {claim.measured}")
unmet = [check.name for check in page.checks(found) if not check.ok]
print(f"{len(found.numbers)} numbers, not as expected: {', '.join(unmet) or 'none'}")
print(f"page: {options.out / 'index.html'}")
raise SystemExit(bool(unmet))
