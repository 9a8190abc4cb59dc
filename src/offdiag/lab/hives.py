"""Horn's problem for projections: which spectra can a sum of k projections of rank s have?

The spectra of A + B for symmetric A and B of given spectra are described by *hives* [Knutson99]: numbers on a
triangular grid whose border steps are the three spectra; at every small rhombus, the obtuse corners have at least the
sum of the acute ones. These conditions are linear in the numbers *and* in the three spectra, so that sums of several
matrices are chains of hives and their spectra form a polytope. For k equal summands few hives suffice: swapping A and
B changes nothing and the set is convex, so that a sum of 2j projections can be cut into two halves of equal spectrum.
About 2·log₂ k hives of n²/2 numbers make one linear program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.lab.checks import Matrix

LARGEST = 64  # eigenvalues; the program has about LARGEST² · log2 k numbers and takes some seconds
Terms = list[tuple[int, float]]  # variable, coefficient
Affine = tuple[Terms, float]  # Σ coefficient · variable + constant


def violation(spectrum: Matrix, s: int, k: int) -> float:
    """By how much the rhombi of the best hives fail; 0 exactly if k projections of rank s can sum to this spectrum.

    Example:
        >>> two = od.lab.hives.violation
        >>> two(np.array([1.6, 1.2, 0.8, 0.4]), s=2, k=2), round(two(np.array([1.6, 1.1, 0.8, 0.5]), s=2, k=2), 6)
        (0.0, 0.025)
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    n = len(spectrum)
    if n > LARGEST:
        raise OffdiagError(f"the program is made for at most {LARGEST} eigenvalues, received {n}")
    spectrum = np.sort(spectrum)[::-1]
    if abs(spectrum.sum() - k * s) > 1e-9 * k * s:
        raise OffdiagError(f"{k} projections of rank {s} have the trace {k * s}, received a sum of {spectrum.sum():g}")
    if k == 1:
        return float(np.abs(spectrum - (np.arange(n) < s)).max())
    program = _Program(n)
    program.sum_of_projections(k, s, [([], float(value)) for value in spectrum])

    def rows(lines: Sequence[Terms]) -> Any:
        at = [row for row, line in enumerate(lines) for _ in line]
        flat = [term for line in lines for term in line]
        return csr_array(([c for _, c in flat], (at, [v for v, _ in flat])), shape=(len(lines), program.size))

    cost = np.zeros(program.size)
    cost[0] = 1.0
    found = linprog(
        cost,
        A_ub=rows(program.at_most_zero),
        b_ub=np.zeros(len(program.at_most_zero)),
        A_eq=rows([terms for terms, _ in program.equal]),
        b_eq=np.array([value for _, value in program.equal]),
        bounds=[(0, None)] + [(None, None)] * (program.size - 1),
        method="highs-ipm",
    )
    if found.status != 0 or found.fun is None:
        raise OffdiagError(f"the linear program of {n} eigenvalues was not solved: {found.message}")
    return float(found.fun)


class _Program:
    """Variable 0 is the violation that is minimised; spectra and hives follow."""

    def __init__(self, n: int) -> None:
        self.n, self.size = n, 1
        self.equal: list[tuple[Terms, float]] = []
        self.at_most_zero: list[Terms] = []

    def sum_of_projections(self, k: int, s: int, spectrum: list[Affine] | None = None) -> list[Affine]:
        """The spectrum, given or as new variables, of a sum of k projections of rank s."""
        if k == 1:
            return [([], float(i < s)) for i in range(self.n)]
        if spectrum is None:
            spectrum = [([(int(v), 1.0)], 0.0) for v in self._new(self.n)]
        if k % 2:
            self._add(self.sum_of_projections(k - 1, s), self.sum_of_projections(1, s), spectrum)
        else:
            half = self.sum_of_projections(k // 2, s)
            self._add(half, half, spectrum)
        return spectrum

    def _new(self, count: int) -> NDArray[np.int64]:
        self.size += count
        return np.arange(self.size - count, self.size)

    def _add(self, left: list[Affine], right: list[Affine], total: list[Affine]) -> None:
        """A hive on the points 0 ≤ i ≤ j ≤ n with these border steps."""
        n = self.n
        h = np.full((n + 3, n + 3), -1)  # framed, so that neighbours outside are found as −1
        inner = h[1:-1, 1:-1]
        inner[np.triu_indices(n + 1)] = self._new((n + 1) * (n + 2) // 2)
        self.equal.append(([(int(inner[0, 0]), 1.0)], 0.0))
        for i in range(n):
            for begin, end, (terms, constant) in (
                (inner[0, i], inner[0, i + 1], left[i]),
                (inner[i, n], inner[i + 1, n], right[i]),
                (inner[i, i], inner[i + 1, i + 1], total[i]),
            ):
                self.equal.append(([(int(end), 1.0), (int(begin), -1.0), *((v, -c) for v, c in terms)], constant))
        for i, j in zip(*np.nonzero(h >= 0), strict=True):
            for obtuse, acute in (  # two small triangles that share the edge between the obtuse corners
                ((h[i, j], h[i + 1, j + 1]), (h[i, j + 1], h[i + 1, j])),
                ((h[i, j], h[i, j + 1]), (h[i - 1, j], h[i + 1, j + 1])),
                ((h[i, j], h[i + 1, j]), (h[i, j - 1], h[i + 1, j + 1])),
            ):
                if min(*obtuse, *acute) >= 0:
                    line = [*((int(v), 1.0) for v in acute), *((int(v), -1.0) for v in obtuse), (0, -1.0)]
                    self.at_most_zero.append(line)
