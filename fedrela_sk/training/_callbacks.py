"""The user's own skorch callbacks around local training."""

from skorch.callbacks import Callback


class LocalTrainingStopped(Exception):
    """A callback ended a client's local training, as `skorch.callbacks.EarlyStopping` does."""


class Notifier:
    """Calls the user's callbacks; does nothing where there are none.

    skorch's way to stop training from a callback is to raise `KeyboardInterrupt`. Here it ends the local
    training of the client; a `KeyboardInterrupt` from anywhere else is the user's and goes on up.

    Parameters
    ----------
    net : initialised skorch net
    callbacks : sequence of skorch callbacks
    """

    def __init__(self, net, callbacks):
        self.net = net
        self.callbacks = tuple(callbacks)

    def __bool__(self):
        return bool(self.callbacks)

    def __call__(self, event, **arguments):
        for callback in self.callbacks:
            if getattr(type(callback), event) is getattr(Callback, event):
                continue
            try:
                getattr(callback, event)(self.net, **arguments)
            except KeyboardInterrupt as stop:
                raise LocalTrainingStopped(f"{type(callback).__name__} stopped training in {event}") from stop

    def epoch_begin(self):
        """Open an epoch in the net's history and tell the callbacks."""
        if self.callbacks:
            self.net.history.new_epoch()
            self.net.history.record("epoch", len(self.net.history))
            self("on_epoch_begin", dataset_train=None, dataset_valid=None)

    def batch_begin(self, batch):
        """Open a batch."""
        if self.callbacks:
            self("on_batch_begin", batch=batch, training=True)
            self.net.history.new_batch()

    def batch_end(self, batch, loss, output):
        """Record the loss of a batch and tell the callbacks."""
        if self.callbacks:
            self.net.history.record_batch("train_loss", float(loss))
            self.net.history.record_batch("train_batch_size", len(batch[1]))
            self("on_batch_end", batch=batch, training=True, loss=loss, y_pred=output)

    def epoch_end(self):
        """Record the mean loss of the epoch and tell the callbacks."""
        if self.callbacks:
            batches = self.net.history[-1]["batches"]
            rows = sum(batch["train_batch_size"] for batch in batches)
            mean = sum(batch["train_loss"] * batch["train_batch_size"] for batch in batches) / rows
            self.net.history.record("train_loss", mean)
            self("on_epoch_end", dataset_train=None, dataset_valid=None)
