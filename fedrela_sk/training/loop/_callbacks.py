"""The user's own skorch callbacks around local training."""

from contextlib import suppress

from skorch.callbacks import Callback
from skorch.history import History

from fedrela_sk.training.loop._step import Listener, LocalTrainingStopped
from fedrela_sk.training.runtime._interrupts import Interrupts


class Notifier(Listener):
    """Calls the user's skorch callbacks.

    skorch's way to stop training from a callback is to raise `KeyboardInterrupt`. Here it ends the local
    training of the client. A `KeyboardInterrupt` from anywhere else, and Ctrl-C while a callback runs, is the
    user's and goes on up.

    Parameters
    ----------
    net : initialized skorch net
    callbacks : sequence of skorch callbacks
    """

    def __init__(self, net, callbacks):
        self.net = net
        self.callbacks = tuple(callbacks)
        self._interrupts = Interrupts()
        self._dataset = None  # the rows of the client that trains, as skorch shows them

    def __call__(self, event, **arguments):
        for callback in self.callbacks:
            if getattr(type(callback), event) is getattr(Callback, event):
                continue
            self._interrupts.came = False
            try:
                getattr(callback, event)(self.net, **arguments)
            except KeyboardInterrupt as stop:
                if self._interrupts.came:
                    raise
                raise LocalTrainingStopped(f"{type(callback).__name__} stopped training in {event}") from stop

    def listening(self):
        """A block in which Ctrl-C is told from a callback that stops training."""
        return self._interrupts.listening()

    def train_begin(self, X, task):
        """Start the net's history afresh, as `fit` does, and show the callbacks only this client's rows.

        A history that went on would grow without bound and let schedules run on from client to client.
        """
        self.net.history = History()
        self._dataset = self.net.get_dataset(X[task.rows], task.y)
        self("on_train_begin", X=X[task.rows], y=task.y)

    def train_end(self, X, task):
        """Tell the callbacks that local training is over; there is nothing left to stop."""
        with suppress(LocalTrainingStopped):
            self("on_train_end", X=X[task.rows], y=task.y)

    def epoch_begin(self):
        """Open an epoch in the net's history and tell the callbacks."""
        self.net.history.new_epoch()
        self.net.history.record("epoch", len(self.net.history))
        self("on_epoch_begin", dataset_train=self._dataset, dataset_valid=None)

    def batch_begin(self, batch):
        """Open a batch."""
        self.net.history.new_batch()
        self("on_batch_begin", batch=batch, training=True)

    def grad_computed(self, params, batch):
        """Show the gradients of named parameters before the optimizer sees them."""
        self("on_grad_computed", named_parameters=list(params.items()), batch=batch, training=True)

    def batch_end(self, batch, loss, output):
        """Record the loss of a batch and tell the callbacks."""
        self.net.history.record_batch("train_loss", float(loss))
        self.net.history.record_batch("train_batch_size", len(batch[1]))
        self("on_batch_end", batch=batch, training=True, loss=loss, y_pred=output)

    def epoch_end(self):
        """Record the mean loss of the epoch and tell the callbacks."""
        batches = self.net.history[-1]["batches"]
        rows = sum(batch["train_batch_size"] for batch in batches)
        mean = sum(batch["train_loss"] * batch["train_batch_size"] for batch in batches) / rows
        self.net.history.record("train_loss", mean)
        self.net.history.record("train_batch_count", len(batches))
        self("on_epoch_end", dataset_train=self._dataset, dataset_valid=None)
