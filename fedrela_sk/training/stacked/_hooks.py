"""A method's hooks for the clients of a stack: each hook is written for one client and mapped over all of them."""

import torch
from torch.func import vmap

from fedrela_sk.algorithms import Local
from fedrela_sk.training._client_round import check_gradients, check_shape
from fedrela_sk.training._model import Batch


class StackedHooks:
    """Calls a method's hooks for many clients at once, by `torch.func.vmap`.

    Parameters
    ----------
    engine : StackedEngine
    instructions : Instructions
    """

    def __init__(self, engine, instructions):
        self.engine = engine
        self.algorithm = engine.algorithm
        self.instructions = instructions

    def local(self, facts):
        """One client's `Local` from its entries of ``Stack.facts``."""
        given = self.instructions
        return Local(
            anchor=facts["anchor"],
            state=facts["state"],
            server=given.server,
            counts=facts.get("counts"),
            start=facts["start"],
            round=given.round,
        )

    def losses(self, stack, X, y, shares):
        """The method's own loss of every client's batch, tensor of shape (n_clients,)."""
        losses = vmap(self._own_loss, randomness="different")(
            stack.params | stack.buffers, stack.facts, X, y, shares
        )
        return check_shape(losses, shares.shape[:1], "client_loss, for each client,")

    def _own_loss(self, params, facts, x, y, share):
        """The method's own loss of one client's batch."""
        engine = self.engine
        batch = Batch(x, y, share, engine.net.criterion_)
        loss = self.algorithm.client_loss(engine.model.with_params(params), batch, self.local(facts))
        if isinstance(loss, tuple):
            raise TypeError(
                f"{type(self.algorithm).__name__}.client_loss returns a state with its loss, which clients that "
                "train together have no place for. State in the method why it trains one client after the other, "
                "loop_only = 'keeps ...'."
            )
        return loss

    def row_losses(self, stack, logits, y):
        """Loss of every row by the method's own formula, else by that of a criterion of ours."""
        if self.algorithm.uses("client_row_losses"):
            rows = vmap(lambda z, y, facts: self.algorithm.client_row_losses(z, y, self.local(facts)))
            return check_shape(rows(logits, y, stack.facts), y.shape, "client_row_losses, for each client,")
        criterion, progress = self.engine.net.criterion_, self.instructions.progress
        rows = vmap(lambda z, y, facts: criterion.row_losses(z, y, facts.get("counts"), progress))
        return rows(logits, y, stack.facts)

    def penalty(self, stack):
        """The method's penalty of every client, tensor of shape (n_clients,)."""
        live = {name: stack.params[name] for name in self.engine.trainable}
        penalty = vmap(lambda params, facts: self.algorithm.client_penalty(params, self.local(facts)))
        return check_shape(
            penalty(live, stack.facts), (len(stack.frozen_norm),), "client_penalty, for each client,"
        )

    @torch.no_grad()
    def correct(self, stack):
        """Replace the gradients by what the method makes of them."""
        live = self._values(stack)
        grads = {name: stack.params[name].grad for name in live if stack.params[name].grad is not None}
        new = vmap(lambda g, p, facts: self.algorithm.client_correct(g, p, self.local(facts)))(
            grads, live, stack.facts
        )
        for name, grad in check_gradients(new, live).items():
            stack.params[name].grad = grad

    @torch.no_grad()
    def decoupled(self, stack):
        """What the step takes beside the optimizer, from the parameters before it."""
        rule = vmap(lambda params, facts: self.algorithm.client_decoupled(params, self.local(facts)))
        return rule(self._values(stack), stack.facts)

    @torch.no_grad()
    def take_off(self, stack, beside, lr):
        """The part of a step that goes past the optimizer."""
        for name, direction in beside.items():
            where = f"client_decoupled of {name!r}, for each client,"
            check_shape(direction, stack.params[name].shape, where)
            stack.params[name].sub_(lr * direction)

    def _values(self, stack):
        return {name: stack.params[name].detach() for name in self.engine.trainable}
