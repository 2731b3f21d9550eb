"""What happened, round by round and row by row."""

from fedrela_sk._deprecation import old_members
from fedrela_sk.relabel import RelabelReport
from fedrela_sk.report._history import History
from fedrela_sk.report._round import RoundRecord

__all__ = ["History", "RelabelReport", "RoundRecord"]

__getattr__ = old_members(__name__)
