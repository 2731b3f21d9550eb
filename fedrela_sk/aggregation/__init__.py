"""Many updates to one."""

from fedrela_sk.aggregation._mean import WeightedMean

__all__ = ["WeightedMean"]
