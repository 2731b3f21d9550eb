"""Errors of the loop engine name the client, the round and the cause."""

import pytest
import torch
from torch import nn

from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from tests.training.helpers import OneWeight, make_loop, make_task, train, train_one


@pytest.mark.parametrize(("x", "loss"), [(1e200, "inf"), (float("nan"), "nan")])
def test_a_loss_that_is_not_finite(x, loss):
    loop = make_loop([1.0, x])
    tasks = [make_task(loop, [0], [0], key="fine"), make_task(loop, [1], [0], key="north")]
    with pytest.raises(
        NotFiniteError,
        match=rf"The loss of client 'north' in round 5 is {loss}\. Lower the learning rate, scale.*"
        r"skorch\.callbacks\.GradientNormClipping",
    ):
        train(loop, tasks, round=5)


class MinusInfinity(nn.CrossEntropyLoss):
    def forward(self, output, y):
        return output[:, 1].sum() * 0 - float("inf")


def test_a_loss_of_minus_infinity_is_not_finite_either():
    loop = make_loop([1.0], criterion=MinusInfinity)
    with pytest.raises(NotFiniteError, match="The loss of client 'a' in round 0 is -inf"):
        train_one(loop, [0], [0])


def test_an_update_that_is_not_finite():
    # the loss is 5e299, the gradient 1e300, the step 1e310
    loop = make_loop([1e150], lr=1e10)
    with pytest.raises(
        NotFiniteError,
        match=r"The update of client 'a' in round 2 is not finite in 'w'\. Lower the learning rate",
    ):
        train_one(loop, [0], [0], round=2)


def test_what_an_algorithm_sends_is_checked_too():
    class SendsNan(Algorithm):
        def client_finish(self, params, local, run):
            return params | {"extra": torch.tensor([float("nan")])}, local.state

    with pytest.raises(NotFiniteError, match="not finite in 'extra'"):
        train_one(make_loop([1.0], SendsNan()), [0], [0])


class Fails(OneWeight):
    def forward(self, X):
        raise ZeroDivisionError("no reason")


def test_whatever_goes_wrong_names_client_round_and_cause():
    with pytest.raises(
        ClientError, match="Client 'a' failed in round 4: ZeroDivisionError: no reason"
    ) as caught:
        train_one(make_loop([1.0], module=Fails), [0], [0], round=4)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_errors_about_a_client_go_up_as_they_are():
    class Refuses(Algorithm):
        def client_finish(self, params, local, run):
            raise ClientError("client 'a' does not want to")

    with pytest.raises(ClientError, match=r"^client 'a' does not want to$"):
        train_one(make_loop([1.0], Refuses()), [0], [0])


def test_a_net_that_does_not_fit_the_classes_names_the_client():
    loop = make_loop([1.0], n_classes=3)
    with pytest.raises(
        NetError, match=r"Client 'a', round 1: The module must return.*\(rows, 3\); got \(1, 2\)"
    ):
        train_one(loop, [0], [0], round=1)


def test_the_output_is_checked_once():
    loop = make_loop([1.0])
    train_one(loop, [0], [0])
    loop.n_classes = 3
    train_one(loop, [0], [0])
