"""Tells a loss how far training has come, where skorch trains by itself."""

from typing import Any

from skorch.callbacks import Callback


class Progress(Callback):
    """A skorch callback: sets `progress` of the criterion at the beginning of every epoch.

    Progress is the number of epochs done, of this call of `fit` or `partial_fit`, over ``max_epochs``; never
    above 1. It is for nets of one site: `FederatedClassifier` tells the criterion itself, in rounds.

    Examples
    --------
    ``NeuralNetClassifier(module, criterion=LDAMLoss, criterion__defer=0.8, criterion__counts=counts,
    callbacks=[Progress()])``
    """

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        """Count epochs from here."""
        self.n_epochs_ = 0

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """Tell the criterion.

        Raises
        ------
        ValueError
            If the criterion is not one of `fedrela_sk.losses`.
        """
        if not hasattr(net.criterion_, "use"):
            raise ValueError(
                f"Progress tells a loss of fedrela_sk.losses how far training has come; "
                f"{type(net.criterion_).__name__} does not ask. Leave the callback out."
            )
        net.criterion_.use(None, min(1.0, self.n_epochs_ / net.max_epochs))
        self.n_epochs_ += 1
