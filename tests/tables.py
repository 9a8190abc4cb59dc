"""Interactions as a file that a user would have."""


def write_table(inter, path):
    """A CSV of user,item."""
    lines = ["user,item"]
    for row in range(inter.n_users):
        lo, hi = inter.matrix.indptr[row : row + 2]
        lines += [f"{inter.user_ids[row]},{inter.item_ids[i]}" for i in inter.matrix.indices[lo:hi]]
    path.write_text("\n".join(lines) + "\n")
