"""The errors a user can act on: each message is one line with what was expected, what was received and what to do."""

from __future__ import annotations

from collections.abc import Callable


class OffdiagError(ValueError):
    """A mistake in the input or the settings, not a bug; the command line prints it without a traceback.

    Example:
        >>> try:
        ...     od.EASE(l2=-1.0).fit(np.eye(3))
        ... except od.OffdiagError as error:
        ...     print(error)
        l2 must be a number in [0, inf) or 'auto', received -1.0
    """


class NotFittedError(OffdiagError, AttributeError):
    """A model was asked before its fit. With scikit-learn installed, what is raised is its NotFittedError as well.

    Example:
        >>> try:
        ...     od.EASE().recommend([[0]])
        ... except od.NotFittedError as error:
        ...     print(error)
        this EASE is not fitted yet; call fit(X) first
    """

    def __reduce__(self) -> tuple[Callable[[str], NotFittedError], tuple[str]]:
        return not_fitted, (str(self),)  # the class that is raised has no name by which a pickle could find it


def not_fitted(message: str) -> NotFittedError:
    """The error to raise. scikit-learn is imported only here: it takes a second, and most programs never need it."""
    try:
        from sklearn.exceptions import NotFittedError as Theirs
    except ImportError:
        return NotFittedError(message)
    both: type[NotFittedError] = type("NotFittedError", (NotFittedError, Theirs), {"__module__": __name__})
    return both(message)


class WrongTypeError(OffdiagError, TypeError):
    """A value in the data is of a type that is not a number."""


class MissingColumnsError(OffdiagError):
    """A table does not have the columns that were asked for."""


class NotEnoughMemory(OffdiagError, MemoryError):  # noqa: N818
    """The work cannot fit in this machine's memory; the message gives the amount needed and an alternative.

    Example:
        >>> issubclass(od.NotEnoughMemory, od.OffdiagError)
        True
    """


class BudgetTooShortError(OffdiagError):
    """The time for a search ended before its first fit did."""


class UnknownItemsWarning(UserWarning):
    """Some ids of a history are not in the model's catalogue; they are also listed in the result.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", od.UnknownItemsWarning)
        ...     od.Popularity().fit(np.eye(3)).recommend([[0, 7]]).unknown
        [[7]]
    """


class FeaturesWarning(UserWarning):
    """Some items were left out because nothing that is known about them says which others they are like.

    Example:
        >>> issubclass(od.FeaturesWarning, UserWarning)
        True
    """


class InterruptedFitWarning(UserWarning):
    """Ctrl-C ended an iterative fit early; the model holds the best weights found so far.

    Example:
        >>> issubclass(od.InterruptedFitWarning, UserWarning)
        True
    """


class NoMinimiserWarning(UserWarning):
    """The problem that was given has no minimum: the longer it is minimised, the larger one of its numbers becomes.

    Example:
        >>> issubclass(od.NoMinimiserWarning, UserWarning)
        True
    """


class FutureLeakWarning(UserWarning):
    """A model that uses the order of events is measured on targets that are older than the history it is given.

    Example:
        >>> import warnings
        >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, times=True, seed=0), held_out=0.2)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     result = od.evaluate(od.MarkovChain().fit(split.train), split.test, "ndcg@10")
        >>> [warning.category.__name__ for warning in caught]
        ['FutureLeakWarning']
    """


class EarlierFormatWarning(UserWarning):
    """A file of an earlier version was converted; the message states what that file could reveal."""
