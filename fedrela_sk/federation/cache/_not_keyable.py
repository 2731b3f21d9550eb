"""The one way to say that a state cannot be found again."""


class NotKeyable(Exception):
    """A thing has no stable description; the message says which and why."""
