"""What is refused. Messages name an argument and the kind of its value, never anybody's data."""


class ContinualError(Exception):
    """The base of all exceptions of this package."""


class InputError(ContinualError, ValueError):
    """An argument outside its range, or an input outside the declared bounds. Nothing has changed."""


class KindError(ContinualError, TypeError):
    """An argument of the wrong kind. Nothing has changed."""


class HorizonError(ContinualError):
    """All planned steps are released; more noise would leave the guarantee."""


class NotApplicableError(ContinualError, ValueError):
    """A strategy that does not exist for this workload."""


class LimitError(ContinualError):
    """A computation that would be too large, or did not reach its tolerance."""


class StateError(ContinualError):
    """A saved state that cannot be used: damaged, of another plan, or in use by another process."""


class ClosedError(ContinualError):
    """An object that was closed, or that another process made."""


class DescriptionError(ContinualError, ValueError):
    """Mistakes in the file that describes a dashboard, each with its line."""


class FileError(ContinualError, OSError):
    """A file that cannot be read or written."""


class EntropyError(ContinualError, OSError):
    """The operating system gave no randomness."""


class InternalError(ContinualError):
    """A case that the library holds to be impossible. The object is closed."""


class NotPrivateWarning(UserWarning):
    """Noise that anybody can repeat and subtract."""
