"""FedReLa proper: priors, z-scores, thresholds, rho, draw and expectation; relabeler, sampler, classifier."""

from fedrela_sk.relabel._answer import check_answer
from fedrela_sk.relabel._classifier import RelabelingClassifier
from fedrela_sk.relabel._relabeler import FedReLaRelabeler
from fedrela_sk.relabel._report import RelabelReport
from fedrela_sk.relabel._sampler import FedReLaSampler

__all__ = ["FedReLaRelabeler", "FedReLaSampler", "RelabelReport", "RelabelingClassifier", "check_answer"]
