"""The errors that this package raises on purpose.

SyndicatedError
├── InputError (also a ValueError)   an argument is not what it must be; nothing was changed
├── StateError                       a saved state has another version, is of another agent, or is damaged
├── DataError                        a data set could not be loaded, or is not what it must be
├── TaskError                        a task of an experiment failed; the message names it
├── MissingExtraError (an ImportError too)   what is asked for needs an extra; the message names it
├── StoreError                       store._base: the journal cannot be used (see there for its kinds)
└── Problem                          service.bandits.problems: a request is refused with a problem document

Every message says what must hold and what came.
"""


class SyndicatedError(Exception):
    """The root of the errors that this package raises on purpose."""


class InputError(SyndicatedError, ValueError):
    """An argument is not what it must be."""


class StateError(SyndicatedError):
    """A saved state cannot be restored here."""


class DataError(SyndicatedError):
    """A data set could not be loaded, or is not what it must be."""


class TaskError(SyndicatedError):
    """A task of an experiment failed."""


class MissingExtraError(SyndicatedError, ImportError):
    """What is asked for needs an extra that is not installed."""
