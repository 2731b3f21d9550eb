"""The simulation: a federation simulated on one machine behind one scikit-learn classifier."""

from fedrela_sk.federation._classifier import FederatedClassifier
from fedrela_sk.federation.fitted._model_files import load_model, save_model
from fedrela_sk.federation.fitted._serving import ServedClassifier

__all__ = ["FederatedClassifier", "ServedClassifier", "load_model", "save_model"]
