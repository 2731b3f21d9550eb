"""What a fitted federation answers: posteriors and labels of rows, by clients' own models where there are such."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._checks import finite_posteriors
from fedrela_sk._labels import accuracy, check_groups, positions_in, python_values
from fedrela_sk._warnings import warn_user
from fedrela_sk.exceptions import FedReLaWarning
from fedrela_sk.federation.setup._inputs import check_new_rows, to_tensor
from fedrela_sk.training._posteriors import posteriors
from fedrela_sk.training._threads import threads_for, torch_threads
from fedrela_sk.training.runtime._autocast import fresh_casts


class Answers:
    """The predicting half of a classifier whose fit left `net_`, `classes_`, `client_names_` and `_own_models`."""

    # an outer splitter's groups need not be clients: only who asks for it scores by client
    __metadata_request__score = {"groups": False}
    __metadata_request__predict = {"groups": True}
    __metadata_request__predict_proba = {"groups": True}
    __metadata_request__predict_log_proba = {"groups": True}

    def predict_proba(self, X, groups=None):
        """Posteriors of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or array-like of shape (n_samples, ...)
        groups : array-like of shape (n_samples,) or None
            Each row's client, as in `client_names_`. Used where clients have models of their own: with
            personal heads ("fedrod", "fedloge") a client that is not known gets the global model, with
            "local_only" the mean of all clients. A global model serves all alike.

        Returns
        -------
        Q : ndarray of shape (n_samples, n_classes), float64
            Columns follow `classes_`.

        Raises
        ------
        NotFiniteError
            If the net gives a posterior that is not finite, with the row.
        """
        check_is_fitted(self)
        given, X = X, check_new_rows(self, X)
        own, n_classes = self._own_models, len(self.classes_)
        net = self.net_ if own is None else own.net
        with fresh_casts(), torch_threads(threads_for(net, X.shape[0])):
            if own is None:
                Q = posteriors(net, self._tensor(X, net), n_classes)
            else:
                positions = self._positions(given, groups, X.shape[0])
                Q = own.predict(self._tensor(X, net), positions, n_classes)
        return finite_posteriors(Q, "the net")

    def predict_log_proba(self, X, groups=None):
        """Natural logarithm of `predict_proba`, with the same parameters; of posterior 0 it is -inf.

        Returns
        -------
        log_Q : ndarray of shape (n_samples, n_classes), float64
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, groups))

    def predict(self, X, groups=None):
        """Most probable class of rows; parameters as in `predict_proba`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        Q = self.predict_proba(X, groups)
        return self.classes_[Q.argmax(axis=1)]

    def score(self, X, y, sample_weight=None, groups=None):
        """Mean accuracy.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
        groups : array-like of shape (n_samples,) or None
            As in `predict_proba`.

        Returns
        -------
        score : float
        """
        return accuracy(y, self.predict(X, groups), sample_weight)

    def _tensor(self, X, net):
        """Checked rows as the module takes them."""
        names = getattr(self, "feature_names_in_", None)
        return to_tensor(X, net, whole=self._takes_integers, names=names)

    def _positions(self, X, groups, n_rows):
        """Position of each row's client, -1 for unknown."""
        if groups is None:
            of_fit = getattr(self, "_rows_of_fit", None)  # what a callback is shown, with the rows of the fit
            if of_fit is not None and X is of_fit[0]:
                return of_fit[1]
            self._own_models.say_global()
            return np.full(n_rows, -1)
        groups = check_groups(groups, n_rows)
        positions = positions_in(self.client_names_, groups)
        if n_rows and (positions < 0).all():
            warn_user(
                f"None of the groups is a client that took part, got {python_values(groups)[0]!r} first, where "
                f"client_names_ begins with {self.client_names_[0]!r}: every row is predicted as one of an unknown "
                "client. Pass groups of the same kind as at fit.",
                FedReLaWarning,
            )
        return positions
