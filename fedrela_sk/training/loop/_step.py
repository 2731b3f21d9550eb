"""One optimizer step of one client: the batch's loss, the method's hooks around it, the user's callbacks."""

from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property

import torch

from fedrela_sk import _tree
from fedrela_sk.training._client_round import check_gradients, check_shape
from fedrela_sk.training._criterion import (
    batch_loss,
    check_output,
    divides_by_class_weights,
    log_input,
    row_losses,
    row_shares,
)
from fedrela_sk.training._model import Batch, Model
from fedrela_sk.training._net import forward


class Listener:
    """What a client's training tells of itself; this one listens to nothing, `Notifier` calls skorch's callbacks."""

    def listening(self):
        """A block around a client's training."""
        return nullcontext()

    def train_begin(self, X, task):
        """Training of a client begins."""

    def train_end(self, X, task):
        """It is over."""

    def epoch_begin(self):
        """A local epoch begins."""

    def epoch_end(self):
        """It is over."""

    def batch_begin(self, batch):
        """A step begins."""

    def batch_end(self, batch, loss, output):
        """It was taken."""

    def grad_computed(self, params, batch):
        """Gradients are there, before the optimizer sees them."""


class LocalTrainingStopped(Exception):
    """A callback ended a client's local training, as `skorch.callbacks.EarlyStopping` does."""


class Stepper:
    """Takes the steps of clients that train one after the other, on the net's own module.

    Parameters
    ----------
    net : initialized skorch net
    data : LocalData
        Its dtype and its mixing; rows come with every step.
    algorithm : Algorithm
    n_classes : int
    notify : Listener
        Told of batches and gradients.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
        Of the client that trains.
    mixing_stream : numpy.random.Generator or None
        Draws partners of rows for that client.
    """

    def __init__(self, net, data, algorithm, n_classes, notify):
        self.net = net
        self.algorithm = algorithm
        self.n_classes = n_classes
        self.optimizer = self.mixing_stream = None
        self._notify = notify
        self._mixing, self._dtype = data.mixing, data.dtype
        self._trainable = {name: p for name, p in net.module_.named_parameters() if p.requires_grad}
        self._own_loss = algorithm.uses("client_loss")
        self._row_losses = algorithm.uses("client_row_losses")
        self._output_checked = False

    @cached_property
    def model(self):
        """The module as the method's hooks see it."""
        return Model(self.net.module_, self.net.criterion_, self.n_classes)

    def step(self, batch, weights, local, see=None):
        """One step, in place.

        Parameters
        ----------
        batch : (tensor of shape (n_rows, ...), tensor of shape (n_rows,))
            Rows and their current labels.
        weights : tensor of shape (n_rows,) or None
        local : Local
        see : callable of the output, or None
            Called before the step, which moves an output that is a view of parameters.

        Returns
        -------
        loss : tensor
            The batch's loss before the step, without penalty.
        output : tensor of shape (n_rows, n_classes) or None
            The module's; None where the method's own loss ran it.
        local : Local
            With the state that the method's loss returned, if it did.
        """
        algorithm, seen = self.algorithm, {}
        self._notify.batch_begin(batch)

        def closure():
            self.optimizer.zero_grad()
            loss, output, state = self._batch_loss(batch, weights, local)
            if see is not None and not seen:
                see(output)
            seen.setdefault("loss", loss.detach())
            seen.setdefault("output", output)
            seen["state"] = state
            if algorithm.uses("client_penalty"):
                loss = loss + self._penalty(local)
            loss.backward()
            if algorithm.uses("client_decoupled"):
                seen["beside"] = self._decoupled(local)
            if algorithm.uses("client_correct"):
                self._correct(local)
            self._notify.grad_computed(self._trainable, batch)
            return loss

        self.optimizer.step(closure)
        if "beside" in seen:
            self._take_off(seen["beside"])
        if seen["state"] is not None:
            local = replace(local, state=_tree.detach(seen["state"]))
        return seen["loss"], seen["output"], local

    def _penalty(self, local):
        penalty = self.algorithm.client_penalty(self._trainable, local)
        return penalty if isinstance(penalty, float) else check_shape(penalty, (), "client_penalty")

    def _batch_loss(self, batch, weights, local):
        """(loss of a batch, the module's output or None, the method's new state or None)."""
        net, (x, y) = self.net, batch
        if self._mixing is not None:
            return *self._mixed_loss(x, y, weights, local), None
        if not (self._own_loss or self._row_losses):
            output = self._checked(forward(net, x))
            return batch_loss(net.criterion_, output, y, weights), output, None
        weights = torch.ones(len(y), dtype=self._dtype, device=y.device) if weights is None else weights
        share = row_shares(net.criterion_, y, weights)
        if self._row_losses:
            output = self._checked(forward(net, x))
            losses = self.algorithm.client_row_losses(log_input(net.criterion_, output), y, local)
            return (share * check_shape(losses, y.shape, "client_row_losses")).sum(), output, None
        return self._method_loss(Batch(x, y, share, net.criterion_), local)

    def _method_loss(self, batch, local):
        """What `_batch_loss` returns, by the method's `client_loss`."""
        if not self._output_checked:
            self._checked(self.model.raw(batch.x))
        result = self.algorithm.client_loss(self.model, batch, local)
        loss, state = result if isinstance(result, tuple) else (result, None)
        return check_shape(loss, (), "client_loss"), None, state

    def _mixed_loss(self, x, y, weights, local):
        """(loss of a batch whose rows are mixed with partners, the module's output)."""
        net, algorithm = self.net, self.algorithm
        mix = self._mixing.mix(y.cpu().numpy(), local.counts.cpu().numpy(), self.mixing_stream)
        partner = torch.from_numpy(mix.partner).to(y.device)
        output = self._checked(forward(net, mix.x_share * x + (1 - mix.x_share) * x[partner]))
        logits, share = log_input(net.criterion_, output), torch.from_numpy(mix.y_share).to(x)
        losses = [
            algorithm.client_row_losses(logits, labels, local)
            if self._row_losses
            else row_losses(net.criterion_, logits, labels)
            for labels in (y, y[partner])
        ]
        weights = torch.ones_like(share) if weights is None else weights
        shares = row_shares(net.criterion_, y, weights, divides_by_class_weights(net.criterion_, logits, y))
        return (shares * (share * losses[0] + (1 - share) * losses[1])).sum(), output

    def _checked(self, output):
        if not self._output_checked:
            check_output(output, self.net.criterion_, self.n_classes)
            self._output_checked = True
        return output

    def _decoupled(self, local):
        """What the step takes beside the optimizer, from the parameters before it."""
        with torch.no_grad():
            return self.algorithm.client_decoupled({n: p.detach() for n, p in self._trainable.items()}, local)

    @torch.no_grad()
    def _take_off(self, beside):
        """The part of a step that goes past the optimizer."""
        lr = self.optimizer.param_groups[0]["lr"]
        for name, direction in beside.items():
            check_shape(direction, self._trainable[name].shape, f"client_decoupled of {name!r}")
            self._trainable[name].sub_(lr * direction)

    def _correct(self, local):
        """Replace the gradients by what the method makes of them."""
        with torch.no_grad():
            grads = {name: p.grad for name, p in self._trainable.items() if p.grad is not None}
            params = {name: p.detach() for name, p in self._trainable.items()}
            new = self.algorithm.client_correct(grads, params, local)
            for name, grad in check_gradients(new, params).items():
                self._trainable[name].grad = grad
