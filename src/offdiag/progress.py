"""How long work reports itself: a function that takes the name of the stage and the fraction done."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
