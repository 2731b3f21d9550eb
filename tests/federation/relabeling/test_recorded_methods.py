"""Which methods and settings record posteriors in training, and which are refused with the way out."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS, Algorithm, FedDyn
from fedrela_sk.exceptions import NotFiniteError
from fedrela_sk.federation.setup._parameters import check_recording
from fedrela_sk.local_data import Mixup
from tests.federation.helpers import Logits, make_net
from tests.federation.recording import TRAINING, fit, rounds_of


@pytest.mark.parametrize(("key", "value"), [("augment", True), ("mode", "train")])
def test_settings_of_passes_have_no_meaning(key, value):
    with pytest.raises(
        ValueError, match=rf"relabel_posteriors\['{key}'\]={value!r} has no meaning with passes='training'"
    ):
        fit(relabel_posteriors=TRAINING | {key: value})
    fit(relabel_posteriors=TRAINING | {"augment": False, "mode": "eval"})


def test_methods_whose_logits_are_not_those_that_predict_are_refused():
    with pytest.raises(
        ValueError, match=r"MOON runs the net inside its own loss. Set 'passes' to 1, a forward"
    ):
        fit(algorithm="moon")
    with pytest.raises(ValueError, match=r"FedDyn predicts or re-?labels with other tensors than .* Set"):
        fit(algorithm=FedDyn(predicts="participants"))
    with pytest.raises(
        ValueError, match=r"but local_data=Mixup\(\) trains on mixtures of rows. Set 'passes'"
    ):
        fit(local_data=Mixup())
    fit(algorithm="moon", relabeler=None)  # nothing is recorded


# they run the net in a loss of their own, or predict with other tensors than clients train
REFUSED = {
    name for name, kind in ALGORITHMS.items() if kind().uses("client_loss") or kind().uses("predict_params")
}


def test_every_method_records_or_is_refused():
    full = TRAINING | {"late": "next"}
    for name, kind in ALGORITHMS.items():
        if name in REFUSED:
            with pytest.raises(ValueError, match=f"{kind.__name__} .*Set 'passes' to 1"):
                check_recording(full, kind(), None)
        else:
            check_recording(full, kind(), None)
    assert {"balancefl", "fedetf", "fedyoyo", "moon", "creff", "fednpc"} <= REFUSED
    assert not REFUSED & {"fedavg", "fedlc", "scaffold"}


class OtherTensors(Algorithm):
    """Predicts with what clients train, and relabels with something else."""

    def predict_params(self, params, server_state, model, relabeling=False):
        return {name: 2 * tensor for name, tensor in params.items()} if relabeling else params


def test_tensors_that_only_relabel_are_refused_too():
    with pytest.raises(ValueError, match=r"OtherTensors predicts or re-?labels with other tensors"):
        fit(algorithm=OtherTensors())


class Hidden(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        self.double()


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - REFUSED))
def test_it_composes_with_every_other_method(name):
    common = {"algorithm": name, "n_rounds": 3, "relabel_at": 2}
    recorded = fit(make_net(Hidden), relabeler=FedReLaRelabeler(0.3), **common)
    none = fit(make_net(Hidden), relabeler=None, **common)
    assert rounds_of(recorded) == {2: ("a", "b", "c", "d")}
    assert np.isfinite(recorded.relabel_report().posterior).all()
    np.testing.assert_array_equal(recorded.history_.column("bytes_up"), none.history_.column("bytes_up"))
    np.testing.assert_array_equal(recorded.history_.column("bytes_down"), none.history_.column("bytes_down"))


def test_posteriors_that_are_not_finite_name_the_client():
    class Overflows(Logits):
        """The third logit of some rows is infinite."""

        def forward(self, X):
            first, last = super().forward(X).split([2, 1], dim=1)
            return torch.cat([first, torch.where(X[:, :1] > 1, torch.inf, last)], dim=1)

    class Silent(Algorithm):
        """Its losses do not look at the third class, so that training goes well."""

        own_loss = True

        def client_row_losses(self, logits, y, local):
            return nn.functional.cross_entropy(logits[:, :2], y.clamp(max=1), reduction="none")

    with pytest.raises(
        NotFiniteError, match=r"client 'a' before round 3: the posterior of its row \d+ is not"
    ):
        fit(make_net(Overflows), algorithm=Silent())
