"""Errors and warnings of the package; each is also the builtin that a caller would catch."""

__all__ = [
    "ClientError",
    "DatasetError",
    "FedReLaError",
    "FedReLaWarning",
    "GroupsError",
    "LabelError",
    "MemoryWarning",
    "ModelFileError",
    "NetError",
    "NotFiniteError",
    "PartitionError",
    "PosteriorError",
]


class FedReLaError(Exception):
    """Base of every error raised by the package itself."""


class PosteriorError(FedReLaError, ValueError):
    """Rows that were passed as posteriors are not posteriors."""


class LabelError(FedReLaError, ValueError):
    """Labels do not fit the classes or the columns they stand for."""


class PartitionError(FedReLaError, ValueError):
    """Clients overlap, leave rows out, are all empty, or the data cannot be cut as asked."""


class GroupsError(FedReLaError, ValueError):
    """`groups` are missing, lost on the way, or passed where they are not used."""


class ClientError(FedReLaError, ValueError):
    """Something went wrong at one client in one round; both are named."""


class NotFiniteError(ClientError, ArithmeticError):
    """A loss, an update or a posterior of a client is not finite."""


class NetError(FedReLaError, ValueError):
    """The net does not fit the data, the classes or the contract on its output."""


class DatasetError(FedReLaError, OSError):
    """A data file is missing, damaged or not what it should be, or could not be fetched."""


class ModelFileError(FedReLaError, ValueError):
    """A model cannot be written to files, or files hold none that can be read safely."""


class CheckError(FedReLaError, AssertionError):
    """A check of `fedrela_sk.testing` failed: the promise, what was seen, and how to mend it."""


class FedReLaWarning(UserWarning):
    """Base of every warning of the package: the result is right, but look at this."""


class MemoryWarning(FedReLaWarning):
    """`memory` could not be used or an entry of it was damaged; the result is the same, only slower."""
