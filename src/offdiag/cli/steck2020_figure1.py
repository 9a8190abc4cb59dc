"""Figure 1 of [Steck20] on the terminal."""

from __future__ import annotations

from offdiag.cli import console
from offdiag.papers.steck2020 import figure1_page as page
from offdiag.papers.steck2020.figure1 import Figure1, middle


def show(figure: Figure1, files: list[str]) -> None:
    """Print the figure on stdout."""
    train = figure.train
    console.say(f"Data: {figure.source}")
    console.say(
        f"{train.n_users:,} users to learn from, {train.n_items:,} items, {train.nnz:,} interactions; "
        f"measured on {figure.n_test:,} new users"
    )
    console.say(f"Full-rank model: {page.settings_text(figure)}\n")
    head = [page.HEAD[0], *(f">{name}" for name in (page.HEAD[1], figure.metric, *page.HEAD[3:]))]
    console.show_table(head, page.rows(figure))
    cosines = [
        [name, *(f"{middle(values):.3f}" for values in pair), f"{middle(figure.diagonals[name]):.3f}"]
        for name, pair in figure.cosines.items()
    ]
    console.say(f"\nAt rank {figure.rank:,}, the median item has")
    console.show_table(["model", ">median cosine, encoder", ">median cosine, decoder", ">diagonal of UVᵀ"], cosines)
    console.say("\nWhat the paper says, and what is seen here:")
    console.show_table(["verdict", "claim", "here"], [[c.verdict, c.says, c.measured] for c in figure.claims])
    for name in files:
        console.say(f"written: {console.printable(name)}")
