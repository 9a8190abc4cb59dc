"""How large the experiments on [Mianjy18] are."""

from __future__ import annotations

from dataclasses import dataclass

from offdiag.papers.claims import Size


@dataclass(frozen=True)
class Sizes:
    """The paper gives sizes, λ and 50 runs for Figure 3, not the spectrum's rate, the steps or the start."""

    pairs: int  # of each width, for which a common rotation is sought
    problems: int  # whose level points are listed
    toy_steps: int  # of Figure 2
    inputs: int
    outputs: int
    widths: tuple[int, int]
    runs: int
    steps: int
    rate: float  # constant for half of the steps, then falling to 0
    fall: float  # σ_i = exp(−i/fall)


SIZES: dict[Size, Sizes] = {
    "small": Sizes(5, 4, 12_000, 16, 24, (4, 16), 8, 70_000, 0.012, 2.0),
    "paper": Sizes(40, 12, 20_000, 80, 120, (20, 80), 50, 120_000, 0.004, 10.0),
}
