"""Run the paper again and write page, figures and numbers beside this file: python papers/pretorius2018/run.py"""

import argparse
from pathlib import Path

from offdiag.papers import page, pretorius2018

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--size", choices=["small", "paper"], default="paper")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--mnist", metavar="FOLDER", help="MNIST in its IDX files; without it, invented pictures")
parser.add_argument("--cifar10", metavar="FOLDER", help="CIFAR-10, binary version; without it, invented pictures")
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
args = parser.parse_args()

found = pretorius2018.run(size=args.size, seed=args.seed, mnist=args.mnist, cifar10=args.cifar10)
print("\n".join(page.write(found, args.out)[:2]))
for check in page.checks(found):
    if not check.ok:
        print(f"NOT AS EXPECTED: {check.name} is {check.value:.6g}, expected {check.expected}")
