"""The compiled loop of ``dropout_sgd``: steps of dropout in place, without a temporary matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag._kernels.parallel import compiled
from offdiag.lab.checks import Matrix


@compiled
def _dot(a: Any, b: Any) -> Any:
    # Four independent sums: each addition to a single one would wait for the previous addition.
    s0 = s1 = s2 = s3 = 0.0
    whole = len(a) // 4 * 4
    for k in range(0, whole, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    for k in range(whole, len(a)):
        s0 += a[k] * b[k]
    return (s0 + s1) + (s2 + s3)


@compiled
def take_steps(
    Ut: Matrix, Vt: Matrix, X: Matrix, Y: Matrix, kept: NDArray[np.bool_], rates: Matrix, keep: float
) -> None:
    """Steps in place, one per row of X (steps, batch, d2); rows of Ut and Vt are units; dropped units cost nothing.

    With tied weights Ut and Vt are one array: both updates use its values before the step.
    """
    n, batch, d2 = X.shape
    r, d1 = Ut.shape
    h, g, e = np.empty((batch, r)), np.empty((batch, r)), np.empty((batch, d1))
    for t in range(n):
        for b in range(batch):
            e[b] = -Y[t, b]
            for i in range(r):
                if kept[t, b, i]:
                    h[b, i] = _dot(Vt[i], X[t, b]) / keep
                    for k in range(d1):
                        e[b, k] += h[b, i] * Ut[i, k]
            for i in range(r):
                if kept[t, b, i]:
                    g[b, i] = _dot(Ut[i], e[b]) / keep
        for b in range(batch):
            for i in range(r):
                if kept[t, b, i]:
                    for k in range(d1):
                        Ut[i, k] -= rates[t] * h[b, i] * e[b, k]
                    for k in range(d2):
                        Vt[i, k] -= rates[t] * g[b, i] * X[t, b, k]
