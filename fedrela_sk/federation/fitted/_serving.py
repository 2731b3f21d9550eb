"""A fitted federation without its rows: what answers, small enough to send, and its form on disk."""

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fedrela_sk.federation.fitted._answers import Answers
from fedrela_sk.training.runtime._replica import independent_net

# Fitted attributes that answers need; names of features only where there are such.
_NEEDED = (
    "classes_", "net_", "client_names_", "n_features_in_", "_row_shape", "_takes_integers", "_own_models",
    "_algorithm",
)  # fmt: skip


class ServedClassifier(Answers, ClassifierMixin, BaseEstimator):
    """Predicts as a fitted `FederatedClassifier` does, and holds nothing of the rows that it was fitted on.

    Made by `FederatedClassifier.for_serving` and `fedrela_sk.federation.load_model`; it is not fitted by itself.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    net_ : skorch.NeuralNetClassifier or None
        Initialized net with the global weights; None where the method never averages.
    client_names_ : list
        Names of the clients that have models of their own; else empty.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had string column names.

    Examples
    --------
    >>> import pickle
    >>> from sklearn.datasets import make_classification
    >>> from fedrela_sk import FederatedClassifier
    >>> X, y = make_classification(10_000, random_state=0)
    >>> fed = FederatedClassifier(clients=5, n_rounds=2, random_state=0).fit(X, y)
    >>> served = fed.for_serving()
    >>> bool((served.predict(X) == fed.predict(X)).all())
    True
    >>> len(pickle.dumps(served)) < len(pickle.dumps(fed)) / 5
    True
    """

    @classmethod
    def _of(cls, fitted):
        """What answers of a fitted federation."""
        own = fitted._own_models
        names = fitted.client_names_ if own is not None else []
        attributes = {name: getattr(fitted, name) for name in _NEEDED} | {"client_names_": list(names)}
        net = independent_net(fitted.net_ if own is None else own.net)
        attributes["net_"] = None if fitted.net_ is None else net
        if own is not None:
            attributes["_own_models"] = own.with_net(net)
        if hasattr(fitted, "feature_names_in_"):
            attributes["feature_names_in_"] = fitted.feature_names_in_
        return cls._with(attributes)

    @classmethod
    def _with(cls, attributes):
        served = cls()
        for name, value in attributes.items():
            setattr(served, name, value)
        return served

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Not available.

        Raises
        ------
        AttributeError
            Always: fit a `FederatedClassifier`, and call its `for_serving`.
        """
        raise AttributeError(
            "A ServedClassifier is not fitted: fit a FederatedClassifier and call for_serving(), or use "
            "load_model(folder)."
        )

    def for_serving(self) -> Any:
        """Itself."""
        check_is_fitted(self)
        return self
