"""What happened, round by round."""

from fedrela_sk.report._history import History
from fedrela_sk.report._relabeling import RelabelingReport
from fedrela_sk.report._round import RoundRecord

__all__ = ["History", "RelabelingReport", "RoundRecord"]
