"""Slow and obviously correct: the twins that the fast code is compared with. Everything is dense float64 NumPy."""

import itertools

import numpy as np

# Relative error allowed for a result of the given precision on the well-conditioned problems of these tests
# (hypothesis keeps cond(H) below about 1e4): a few hundred roundings times the condition of the solve.
TOLERANCE = {"float32": 2e-4, "float64": 1e-10}


GRID = 2.0 ** (np.arange(-12_800, 12_801) / 64)  # from 2^-200 to 2^200, 64 steps for each doubling


def user_weights(n_u, user_power=0.0):
    """n_u^-power times the factor on the grid that brings the mean weight of an interaction nearest to 1."""
    w = np.array([float(np.float32(float(n) ** -user_power)) if n else 0.0 for n in n_u])  # 24 binary digits
    if not np.sum(n_u):
        return w
    mean = (n_u * w).sum() / np.sum(n_u)
    return w * GRID[np.argmin(np.abs(np.log(GRID * mean)))]


def on_grid(factor):
    """The nearest point of the grid."""
    return GRID[np.argmin(np.abs(np.log(GRID / factor)))]


def gram(X, user_power=0.0):
    """G = Xᵀ diag(w) X."""
    X = np.asarray(X, dtype=np.float64)
    return X.T @ np.diag(user_weights((X != 0).sum(axis=1), user_power)) @ X


def penalty(G, dropout, l2):
    return dropout / (1 - dropout) * np.diag(G) + l2


def mean_weight(dropout, b):
    """w, the mean weight of an entry, and s = b/w."""
    w = dropout + b * (1 - dropout)
    return w, b / w if w else 0.0


def objective(G, B, dropout, l2, b):
    """The deterministic objective of docs/models.md with a = 1; l2 is added to Λ everywhere."""
    lam, (w, s), diag = penalty(G, dropout, l2), mean_weight(dropout, b), np.diag(B)
    off = B - np.diag(diag)
    Bp = off + s * np.diag(diag)
    fit = np.trace(G) - 2 * np.trace(G @ Bp) + np.trace(Bp.T @ G @ Bp)
    return fit + (lam[:, None] * off**2).sum() + ((b / w**2 * lam * diag**2).sum() if w else 0)


def gradient(G, B, dropout, l2, b):
    """dJ/dB by hand from the same definition."""
    lam, (w, s), diag = penalty(G, dropout, l2), mean_weight(dropout, b), np.diag(B)
    off = B - np.diag(diag)
    base = 2 * (G @ (off + s * np.diag(diag)) - G)
    out = base + 2 * lam[:, None] * off
    np.fill_diagonal(out, s * np.diag(base) + (2 * b / w**2 * lam * diag if w else 0))
    return out


def weights(G, dropout, l2, b):
    """The optimum, column by column, from the normal equations of J in B' coordinates: no formula of ours is used."""
    m, lam, (w, s) = len(G), penalty(G, dropout, l2), mean_weight(dropout, b)
    B = np.zeros((m, m))
    for i in range(m):
        if G[i, i] == 0:
            continue
        live = np.array([j for j in range(m) if G[j, j] > 0 and (j != i or b > 0)], dtype=int)
        if not len(live):
            continue
        K = G[np.ix_(live, live)] + np.diag(lam[live])
        if b > 0:
            at = int(np.flatnonzero(live == i)[0])
            K[at, at] += b / w**2 * lam[i] / s**2 - lam[i]  # the diagonal's own penalty, in B' = s·B
        B[live, i] = np.linalg.solve(K, G[live, i])
        if b > 0:
            B[i, i] /= s
    return B


def expected_stochastic_loss(X, B, dropout, a, b):
    """E‖A^½ ∘ (X − Z B/q)‖² by enumerating every mask of every row: 2^m terms per row."""
    X = np.asarray(X, dtype=np.float64)
    m = X.shape[1]
    q = 1 - dropout
    total = 0.0
    for x in X:
        for mask in itertools.product([0.0, 1.0], repeat=m):
            kept = np.array(mask)
            chance = np.prod(np.where(kept == 1, q, dropout))
            emphasis = np.where(kept == 1, b, a)
            total += chance * float((emphasis * (x - (x * kept) @ B / q) ** 2).sum())
    return total


def same_group(group):
    """1 within a group, 0 elsewhere."""
    group = np.asarray(group)
    return (group[:, None] == group[None, :]).astype(np.float64)


def grouped_weights(G, group, dropout, l2):
    """Column i regressed on the items outside its group, whose noise drops whole groups: no formula of ours is used."""
    group, B = np.asarray(group), np.zeros(G.shape)
    H = G + dropout / (1 - dropout) * same_group(group) * G + l2 * np.eye(len(G))
    for i in range(len(G)):
        others = np.flatnonzero((group != group[i]) & (np.diag(G) > 0))
        if G[i, i] > 0 and len(others):
            B[others, i] = np.linalg.solve(H[np.ix_(others, others)], G[others, i])
    return B


def expected_loss_of_groups(X, B, group, dropout):
    """E‖A^½ ∘ (X − Z B/q)‖²/p, whole groups dropped and only dropped entries counted: every mask of groups, listed."""
    X, group = np.asarray(X, dtype=np.float64), np.asarray(group)
    kinds, q, total = np.unique(group), 1 - dropout, 0.0
    for mask in itertools.product([0.0, 1.0], repeat=len(kinds)):
        kept = np.array(mask)[np.searchsorted(kinds, group)]
        chance = np.prod(np.where(np.array(mask) == 1, q, dropout))
        total += chance * float(((1 - kept) * (X - (X * kept) @ B / q) ** 2).sum())
    return total / dropout


def top_k(scores, seen, k, allowed=None):
    """Ranked columns per row by a stable sort, -1 where none are left."""
    n, m = scores.shape
    out = np.full((n, k), -1)
    for u in range(n):
        left = [i for i in range(m) if not seen[u, i] and (allowed is None or allowed[i])]
        best = sorted(left, key=lambda i: (-scores[u, i], i))[:k]
        out[u, : len(best)] = best
    return out


def left_out_errors(H, X, weight):
    """‖e‖²/‖x‖² of each row of X, predicted by a zero-diagonal model whose inverse lacks that row with its weight."""
    errors = []
    for x, w in zip(X, weight, strict=True):
        C = np.linalg.inv(H - w * np.outer(x, x))
        B = -C / np.diag(C)
        np.fill_diagonal(B, 0)
        errors.append(((x - x @ B) ** 2).sum() / (x**2).sum())
    return errors


def order_sums(sequences, m, *, weights=None, decay=1.0, tau=None, window=None, later=False):
    """A = Σ sᵀs and K = Σ sᵀy, one example at a time: the source is what came before, the target what comes next.

    ``sequences`` holds a list of items per user or, with ``tau``, of pairs (item, time). ``weights``: one per user.
    """
    A, K = np.zeros((m, m)), np.zeros((m, m))
    for u, events in enumerate(sequences):
        items = [e if tau is None else e[0] for e in events]
        w = 1.0 if weights is None else weights[u]
        for at in range(len(items) - 1):
            source, target = np.zeros(m), np.zeros(m)
            for j in range(at + 1):
                if window is None or at - j < window:
                    age = at - j if tau is None else (events[at + 1][1] - events[j][1]) / tau
                    source[items[j]] += decay**age if tau is None else np.exp(-age)
            for t in range(at + 1, len(items) if later else at + 2):
                if window is None or t - 1 - at < window:
                    wait = t - 1 - at if tau is None else (events[t][1] - events[at + 1][1]) / tau
                    target[items[t]] += decay**wait if tau is None else np.exp(-wait)
            A += w * np.outer(source, source)
            K += w * np.outer(source, target)
    return A, K


def next_item_weights(A, K, dropout, l2, *, repeats=False):
    """The ridge of K on A, column by column; without repeats no item may predict itself."""
    H = A + np.diag(penalty(A, dropout, l2))
    B = np.zeros_like(K)
    for i in range(len(A)):
        live = np.array([j for j in range(len(A)) if H[j, j] > 0 and (repeats or j != i)], dtype=int)
        if len(live):
            B[live, i] = np.linalg.solve(H[np.ix_(live, live)], K[live, i])
    return B


def new_item(F, f, ridge):
    """How much of each known item (rows of F) a new one with the features f is made of, by both sides of the ridge."""
    known = np.linalg.solve(F @ F.T + ridge * np.eye(len(F)), F @ f)
    np.testing.assert_allclose(known, F @ np.linalg.solve(F.T @ F + ridge * np.eye(F.shape[1]), f), atol=1e-9)
    return known


def weights_near(G, W, weight, dropout, l2, bound=0.0):
    """The ridge with weight·‖B − W‖² added, column by column; |B_ii| ≤ bound by trying both ends, None: free."""
    m, lam = len(G), penalty(G, dropout, l2) + weight
    H, R = G + np.diag(lam), G + weight * W
    B = np.zeros((m, m))
    for i in range(m):
        b = np.linalg.solve(H, R[:, i])
        if bound is not None and abs(b[i]) > bound:
            others = np.array([j for j in range(m) if j != i], dtype=int)
            b[i] = np.clip(b[i], -bound, bound)  # the loss is convex in B_ii, so its best value is the nearest allowed
            b[others] = np.linalg.solve(H[np.ix_(others, others)], R[others, i] - H[others, i] * b[i])
        B[:, i] = b
    return B


def loss_near(G, B, W, weight, dropout, l2):
    """‖X − XB‖² + ‖Λ^½ B‖² + weight·‖B − W‖²."""
    fit = np.trace(G) - 2 * np.trace(G @ B) + np.trace(B.T @ G @ B)
    return fit + (penalty(G, dropout, l2)[:, None] * B**2).sum() + weight * ((B - W) ** 2).sum()
