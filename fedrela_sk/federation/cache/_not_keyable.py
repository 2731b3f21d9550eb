"""The error of whatever has no stable description: a state that depends on it cannot be kept and found again."""


class NotKeyable(Exception):
    """A thing has no stable description; the message says which and why."""
