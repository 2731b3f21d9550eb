"""The conductor: a federation simulated on one machine behind one scikit-learn classifier."""

from fedrela_sk.federation._classifier import FederatedClassifier

__all__ = ["FederatedClassifier"]
