"""Relabeling at one site: estimators, and below them FedReLa's formulas and the pass over many clients.

=================  ==================================================================================
file or folder     what it does
=================  ==================================================================================
`_relabeler`       `FedReLaRelabeler`: posteriors and labels in, new labels out
`_sampler`         `FedReLaSampler`: relabels rows of features, for imbalanced-learn's pipelines
`_classifier`      `RelabelingClassifier`: trains any classifier on relabeled rows
`_one_site`        the steps that sampler and classifier share
`_out_of_fold`     posteriors of rows that a classifier was not trained on
`_coded`           classifiers that take no labels but 0..K-1
`_target`          labels in whatever container they come
`_report`          what a relabeling changed, and why
`_contract`        what a relabeler is told beside posteriors and labels, and what it may answer
`formulas/`        priors, z-scores, thresholds, rho, draw, expectation: functions of arrays
`many/`            the pass over the rows of many clients, in NumPy and in torch
=================  ==================================================================================
"""

from fedrela_sk.relabel._classifier import RelabelingClassifier
from fedrela_sk.relabel._contract import check_answer
from fedrela_sk.relabel._relabeler import FedReLaRelabeler
from fedrela_sk.relabel._report import RelabelReport
from fedrela_sk.relabel._sampler import FedReLaSampler

__all__ = ["FedReLaRelabeler", "FedReLaSampler", "RelabelReport", "RelabelingClassifier", "check_answer"]
