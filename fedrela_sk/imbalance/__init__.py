"""Cutting any data to a long tail or to steps, with the exact counts of the literature.

`make_long_tailed` lets class sizes fall exponentially from head to tail, `make_step_wise` divides the sizes
of some classes by one ratio. Both take anything scikit-learn can index, return what came in (same
containers, rows in their old order), and cut further arrays (groups, weights) along. `long_tailed_counts`
and `step_wise_counts` are the same rules on class counts only.
"""

from fedrela_sk.imbalance._long_tailed import long_tailed_counts, make_long_tailed
from fedrela_sk.imbalance._step_wise import make_step_wise, step_wise_counts

__all__ = ["long_tailed_counts", "make_long_tailed", "make_step_wise", "step_wise_counts"]
