"""The compiled loop of a cluster: one rectangle of the Gram from two blocks of columns."""

from offdiag._kernels.parallel import compiled


@compiled
def gram_tile(col_ptr, rows, data, weight, place, ptr, columns, values, acc, out):
    """out[a, b] = Σ_u weight_u x_ua x_ub, summed in float64 (``acc``) and rounded once.

    Item a of the first block occurs in rows[col_ptr[a] : col_ptr[a + 1]]; such a row is row place[row] of the
    second block, or absent from it if that is -1.
    """
    for a in range(len(col_ptr) - 1):
        acc[:] = 0.0
        for q in range(col_ptr[a], col_ptr[a + 1]):
            u = rows[q]
            at = place[u]
            if at >= 0:
                scaled = weight[u] * data[q]
                for p in range(ptr[at], ptr[at + 1]):
                    acc[columns[p]] += scaled * values[p]
        for b in range(len(acc)):
            out[a, b] = acc[b]
