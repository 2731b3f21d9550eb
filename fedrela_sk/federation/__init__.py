"""A federation simulated on one machine behind one scikit-learn classifier.

A round, `Round` in `_round`, is: sample -> relabel -> query -> train -> aggregate -> validate -> record.

===============  ===================================================================================
step             where
===============  ===================================================================================
before round 0   `setup/`: the data checked, the clients made, the net built, rows set aside
sample           `clients/_sampling`: who takes part
relabel          `relabeling/`: when, from which posteriors, and what became of the labels
query            `clients/_reports`: small tensors that a method asks clients for
train            `clients/_training`: local training by an engine of `fedrela_sk.training`
aggregate        `_server`: weights, aggregation, the method's step
validate         `setup/_validation`: loss and score on rows set aside
record           `fedrela_sk.report`: one `RoundRecord`, with the round's traffic
after a fit      `fitted/`: attributes, answers, models to store and to serve
===============  ===================================================================================

Around the rounds: `_classifier` (the estimator), `_fit` (all rounds, with callbacks, log lines and `memory`),
`_state` (what changes from round to round: the server's part and the clients'), `cache/` (rounds kept on disk),
`_progress` (log lines), `_files` (files replaced as a whole).
"""

from fedrela_sk.federation._classifier import FederatedClassifier
from fedrela_sk.federation.fitted._model_files import load_model, save_model
from fedrela_sk.federation.fitted._serving import ServedClassifier

__all__ = ["FederatedClassifier", "ServedClassifier", "load_model", "save_model"]
