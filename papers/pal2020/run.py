"""Pal et al. (2020) made again: python papers/pal2020/run.py [--size small] [--mnist FOLDER --cifar10 FOLDER]."""

import argparse
from pathlib import Path

from offdiag.papers import page, pal2020

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--size", choices=["small", "paper"], default="paper")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--mnist", help="folder with the IDX files; without it, invented pictures")
parser.add_argument("--cifar10", help="folder with the binary version; without it, invented pictures")
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
options = parser.parse_args()
found = pal2020.run(size=options.size, seed=options.seed, mnist=options.mnist, cifar10=options.cifar10)
page.write(found, options.out)
for claim in found.claims:
    print(f"{claim.verdict:<20}  {claim.where}: {claim.measured}")
unmet = [check.name for check in page.checks(found) if not check.ok]
print(f"{len(found.numbers)} numbers, not as expected: {', '.join(unmet) or 'none'}")
print(f"page: {options.out / 'index.html'}")
raise SystemExit(bool(unmet))
