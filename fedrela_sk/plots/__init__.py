"""One Display each, drawn from plain numbers; matplotlib is imported when something is drawn.

=====================  ============================================================================
display                what it shows
=====================  ============================================================================
`FedReLaStepsDisplay`  one client, one target class: from posterior to z to rho to label
`RelabelingDisplay`    which rows of which client were relabeled, into what, at which posterior
`TauCurveDisplay`      scores over tau with their spread over folds, other models as lines
=====================  ============================================================================

A display stores the numbers it draws; `plot` may be called again, with other axes.
"""

from fedrela_sk.plots._relabeling import RelabelingDisplay
from fedrela_sk.plots._steps import FedReLaStepsDisplay
from fedrela_sk.plots._tau_curve import TauCurveDisplay

__all__ = ["FedReLaStepsDisplay", "RelabelingDisplay", "TauCurveDisplay"]
