"""The errors a user can act on: each message is one line with what was expected, what was received and what to do."""


class OffdiagError(ValueError):
    """A mistake in the input or the settings, not a bug; the command line prints it without a traceback."""


class NotEnoughMemory(OffdiagError, MemoryError):  # noqa: N818
    """The work cannot fit in this machine's memory; the message gives the amount needed and an alternative."""


class UnknownItemsWarning(UserWarning):
    """Some ids of a history are not in the model's catalogue; they are also listed in the result."""


class InterruptedFitWarning(UserWarning):
    """Ctrl-C ended an iterative fit early; the model holds the best weights found so far."""


class EarlierFormatWarning(UserWarning):
    """A file of an earlier version was converted; the message states what that file could reveal."""
