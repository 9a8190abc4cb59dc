"""The errors a user can act on: each message is one line with what was expected, what was received and what to do."""


class OffdiagError(ValueError):
    """A mistake in the input or the settings, not a bug; the command line prints it without a traceback.

    Example:
        >>> try:
        ...     od.EASE(l2=-1.0).fit(np.eye(3))
        ... except od.OffdiagError as error:
        ...     print(error)
        l2 must be a number in [0, inf) or 'auto', received -1.0
    """


class NotEnoughMemory(OffdiagError, MemoryError):  # noqa: N818
    """The work cannot fit in this machine's memory; the message gives the amount needed and an alternative.

    Example:
        >>> issubclass(od.NotEnoughMemory, od.OffdiagError)
        True
    """


class UnknownItemsWarning(UserWarning):
    """Some ids of a history are not in the model's catalogue; they are also listed in the result.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", od.UnknownItemsWarning)
        ...     od.Popularity().fit(np.eye(3)).recommend([[0, 7]]).unknown
        [[7]]
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


class EarlierFormatWarning(UserWarning):
    """A file of an earlier version was converted; the message states what that file could reveal."""
