"""Many regularisation strengths from one eigendecomposition, for when scores are needed but weights are not.

Problem   C(c) = (G + c·dMat(d))⁻¹ for one d > 0 and every c > 0: d = 1 is EASE with l2 = c; d = g + κ is dropout with
          odds c and l2 = c·κ, so that a ray of (dropout, l2) shares the work [Steck20 Eq. 7].
Cost      one eigendecomposition, then two products of rows·m² per c; forming C would cost m³.
Equals    ``inv(G + c * diag(d))`` applied to rows of data.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offdiag.solvers import Doubles, Floats


@dataclass(frozen=True, eq=False)
class Ray:
    """The eigendecomposition of dMat(d)^-½ G dMat(d)^-½ = Q θ Qᵀ."""

    d: Doubles  # (m,) the direction of the penalty
    theta: Doubles  # (m,)
    Q: NDArray[np.float32]  # (m, m)
    Q2: Floats  # (m, m) squares of Q, in the precision of G
    root: Doubles  # (m,) d^-½

    def project(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows of data in the eigenbasis; once for all c."""
        return (X * self.root.astype(np.float32)) @ self.Q

    def diagonal(self, c: float) -> Doubles:
        """C_ii for every i."""
        C_ii: Doubles = (self.Q2 @ (1 / (self.theta + c)).astype(self.Q2.dtype)).astype(np.float64)
        return C_ii * self.root**2

    def apply(self, Z: NDArray[np.float32], c: float) -> NDArray[np.float32]:
        """Rows y = C x from projected rows."""
        Y: NDArray[np.float32] = (Z * (1 / (self.theta + c)).astype(np.float32)) @ self.Q.T
        Y *= self.root.astype(np.float32)
        return Y

    def quadratic(self, Z: NDArray[np.float32], c: float) -> Doubles:
        """xᵀ C x of each row."""
        return np.asarray(np.einsum("ij,ij,j->i", Z, Z, 1 / (self.theta + c), dtype=np.float64))


def ray(G: Floats, d: Doubles) -> Ray:
    """Decompose once; G is symmetric and positive semi-definite, d positive."""
    from scipy.linalg import eigh

    root = 1 / np.sqrt(d)
    theta, Q = eigh(G * np.outer(root, root).astype(G.dtype), driver="evd", overwrite_a=True, check_finite=False)
    return Ray(d, np.maximum(theta.astype(np.float64), 0.0), np.ascontiguousarray(Q, dtype=np.float32), Q * Q, root)


def left_out(x: NDArray[np.float32], y: Floats, C_ii: Doubles, quadratic: Doubles, weight: Doubles) -> Doubles:
    """For rows x of the training data, ‖e‖²/‖x‖², where e are the errors with that row left out and Λ fixed.

    y = C x, quadratic = x·y; ``weight`` is the weight of each row in G. Item i's regression on the others is one row
    shorter without it: its residual y_i/C_ii grows by 1/(1 − leverage).
    """
    residual = y / C_ii.astype(np.float32)
    leverage = weight[:, None] * (quadratic[:, None] - y * residual)
    residual /= np.maximum(1 - leverage, 1e-6)
    size = np.maximum(np.einsum("ij,ij->i", x, x, dtype=np.float64), 1e-30)
    return np.asarray(np.einsum("ij,ij->i", residual, residual, dtype=np.float64) / size)
