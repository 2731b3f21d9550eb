"""Many updates to one."""

from fedrela_sk.aggregation._mean import WeightedMean
from fedrela_sk.aggregation._signed import SignedMean

__all__ = ["SignedMean", "WeightedMean"]
