"""What a method's author need not state: it follows from the hooks; what contradicts them is refused."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk.algorithms import ALGORITHMS, MOON, Algorithm, FedAvg, FedLC, Query
from fedrela_sk.algorithms._derived import FORMER_HOOKS
from fedrela_sk.exceptions import ClientError, NetError
from fedrela_sk.losses import FocalLoss
from fedrela_sk.participation import ClusteredSampling
from tests.algorithms.helpers import TwoLayers, engines_of, fit, three_classes

DATA = three_classes()
BOTH = pytest.mark.parametrize("engine", ["loop", "stacked"])

# (personal, own_loss, bare_loss, sends_model), typed by hand; what is derived of methods added later needs no line
PLAIN = (False, False, False, True)
FACTS = {
    "balancefl": (False, True, True, True),
    "climb": (False, False, False, False),
    "feddyn": (False, False, False, False),
    "fedetf": (False, True, True, True),
    "fedgrab": (False, True, True, True),
    "fedir": (False, True, False, True),
    "fedlc": (False, True, True, True),
    "fedlf": (False, True, True, True),
    "fedloge": (True, True, True, True),
    "fedmix": (False, True, False, True),
    "fednova": (False, False, False, False),
    "fedrod": (True, True, True, True),
    "fedyoyo": (False, True, True, True),
    "moon": (False, True, False, True),
    "ratio_loss": (False, True, True, True),
    "scaffold": (False, False, False, False),
}
FACTS |= dict.fromkeys(
    ["creff", "fedadagrad", "fedadam", "fedavg", "fedavgm", "fednpc", "fedprox", "fedyogi", "local_only"],
    PLAIN,
)
IN_TURN = {"balancefl", "fedgrab", "fedmix", "fedyoyo"}
NAMES = ("personal", "own_loss", "bare_loss", "sends_model")


class Doubled(Algorithm):
    """A loss from logits."""

    def client_row_losses(self, logits, y, local):
        return 2 * F.cross_entropy(logits, y, reduction="none")


class DoubledBatch(Algorithm):
    """The same from the model."""

    def client_loss(self, model, batch, local):
        return batch.mean(2 * F.cross_entropy(model(batch.x), batch.y, reduction="none"))


class ByCriterion(Algorithm):
    """A loss that goes by the criterion, and says so."""

    bare_loss = False

    def client_loss(self, model, batch, local):
        return 2 * batch.criterion_loss(model(batch.x))


class OwnHead(Algorithm):
    """The last layer stays at its client."""

    def shared(self, names):
        return tuple(name for name in names if not name.startswith("2."))


class MergedHead(OwnHead):
    def personal_params(self, params, own):
        return params | {name: 2 * tensor for name, tensor in own.items()}


class Noisy(Algorithm):
    """Draws in a hook of training."""

    def client_correct(self, grads, params, local):
        return {name: grad * local.stream.random() for name, grad in grads.items()}


def scaled(grads, local):
    return {name: grad * local.stream.random() for name, grad in grads.items()}


class NoisyBelow(Algorithm):
    """Draws in a function that a hook calls through another."""

    def client_correct(self, grads, params, local):
        return self._scaled(grads, local)

    def _scaled(self, grads, local):
        return (lambda part: scaled(part, local))(grads)


class NoisyDecorated(Algorithm):
    @torch.no_grad()
    def client_correct(self, grads, params, local):
        return scaled(grads, local)


class NoisyByName(Algorithm):
    """Nobody can see that it draws."""

    def client_correct(self, grads, params, local):
        return {name: grad * getattr(local, "str" + "eam").random() for name, grad in grads.items()}


class Reporting(Algorithm):
    """Draws in its report, where every engine has a stream."""

    needs_model = True

    def server_query(self, round):
        return Query(self.client_report, self.server_gather, whom="all", needs_model=self.needs_model)

    def server_gather(self, reports, server_state, facts):
        return server_state

    def client_report(self, model, data, local):
        return {"draw": torch.tensor(local.stream.random())}

    def client_begin(self, model, data, local):
        return {}


class Counting(Algorithm):
    """A loss that remembers its batches."""

    def client_init(self, params):
        return {"n": torch.zeros(())}

    def client_loss(self, model, batch, local):
        return batch.mean(F.cross_entropy(model(batch.x), batch.y, reduction="none")), {
            "n": local.state["n"] + 1
        }


class Halved(Algorithm):
    """Sends half of what it learned."""

    def client_finish(self, params, local, run):
        return {name: (tensor + local.anchor[name]) / 2 for name, tensor in params.items()}, local.state


@pytest.mark.parametrize("name", FACTS)
def test_the_methods_of_the_table(name):
    kind = ALGORITHMS[name]
    assert tuple(getattr(kind(), fact) for fact in NAMES) == FACTS[name]
    assert kind.averages is (name != "local_only")
    assert (kind().loop_only is not None) == (name in IN_TURN)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_class_says_what_its_instances_say(name):
    kind = ALGORITHMS[name]
    assert [getattr(kind, fact) for fact in NAMES] == [getattr(kind(), fact) for fact in NAMES]


@pytest.mark.parametrize("name", sorted(FACTS.keys() - IN_TURN))
def test_no_method_in_both_engines_reads_the_stream_in_training(name):
    assert Algorithm.loop_only is None
    assert "stacked" in engines_of(name)


@BOTH
@pytest.mark.parametrize("method", [Doubled(), DoubledBatch(), ByCriterion()], ids=repr)
def test_a_loss_is_known_by_its_hook(method, engine):
    assert method.own_loss
    doubled = fit(method, TwoLayers, DATA, engine=engine, lr=0.1)
    plain = fit(FedAvg(), TwoLayers, DATA, engine=engine, lr=0.2)
    np.testing.assert_allclose(doubled.predict_proba(DATA[0]), plain.predict_proba(DATA[0]), atol=1e-12)
    with pytest.raises(NetError, match="criterion=FocalLoss would not be used"):
        fit(method, TwoLayers, DATA, engine=engine, net={"criterion": FocalLoss})


@BOTH
@pytest.mark.parametrize("method", [Doubled(), DoubledBatch()], ids=repr)
@pytest.mark.parametrize(
    ("setting", "value"),
    [("weight", torch.tensor([1.0, 1.0, 2.0])), ("label_smoothing", 0.1), ("ignore_index", 1)],
)
def test_what_a_loss_may_leave_out_of_the_criterion_is_refused(method, engine, setting, value):
    with pytest.raises(NetError, match=f"criterion__{setting}=.* would not be used"):
        fit(method, TwoLayers, DATA, engine=engine, net={f"criterion__{setting}": value})


@BOTH
def test_a_loss_that_goes_by_the_criterion_says_so(engine):
    weight = torch.tensor([0.2, 1.0, 5.0], dtype=torch.float64)
    doubled = fit(ByCriterion(), TwoLayers, DATA, engine=engine, lr=0.1, net={"criterion__weight": weight})
    plain = fit(FedAvg(), TwoLayers, DATA, engine=engine, lr=0.2, net={"criterion__weight": weight})
    np.testing.assert_allclose(doubled.predict_proba(DATA[0]), plain.predict_proba(DATA[0]), atol=1e-12)


def test_a_loss_that_is_switched_off_is_none():
    """MOON(mu=0) trains by the criterion, whatever it is."""
    assert not MOON(mu=0.0).own_loss
    moon = fit(MOON(0.0, projection=None), TwoLayers, DATA, net={"criterion": FocalLoss})
    plain = fit(FedAvg(), TwoLayers, DATA, net={"criterion": FocalLoss})
    np.testing.assert_array_equal(moon.predict_proba(DATA[0]), plain.predict_proba(DATA[0]))


@BOTH
@pytest.mark.parametrize("method", [OwnHead(), MergedHead()], ids=repr)
def test_personal_models_are_known_by_what_stays(method, engine):
    X, _, groups = DATA
    fed = fit(method, TwoLayers, DATA, engine=engine, n_rounds=2)
    own = fed.predict_proba(X, groups=groups)
    assert abs(own - fed.predict_proba(X)).max() > 1e-3
    assert (
        abs(
            own[groups == 0] - fed.predict_proba(X[groups == 0], groups=np.full((groups == 0).sum(), 1))
        ).max()
        > 0
    )


def test_tensors_that_stay_without_a_personal_model_are_a_statement():
    class Global(OwnHead):
        personal = False

    fed = fit(Global(), TwoLayers, DATA, n_rounds=2)
    np.testing.assert_array_equal(fed.predict_proba(DATA[0], groups=DATA[2]), fed.predict_proba(DATA[0]))


@pytest.mark.parametrize("method", [Noisy(), NoisyBelow(), NoisyDecorated()], ids=repr)
def test_a_method_that_draws_in_training_runs_in_the_loop(method):
    assert "local.stream in its client_correct" in method.loop_only
    auto, loop = (fit(method, TwoLayers, DATA, engine=engine) for engine in ("auto", "loop"))
    assert auto.engine_.startswith("loop")
    np.testing.assert_array_equal(auto.predict_proba(DATA[0]), loop.predict_proba(DATA[0]))
    with pytest.raises(NetError, match=re.escape(method.loop_only)):
        fit(method, TwoLayers, DATA, engine="stacked")


@BOTH
def test_draws_that_nobody_can_see_are_an_error(engine):
    with pytest.raises(ClientError, match=r"local\.stream has no draws here: .* loop_only = 'draws"):
        fit(NoisyByName(), TwoLayers, DATA, engine=engine)

    class Stated(NoisyByName):
        loop_only = "draws"

    assert fit(Stated(), TwoLayers, DATA, engine="auto").engine_.startswith("loop")


@BOTH
def test_draws_in_a_report_need_no_loop(engine):
    assert Reporting().loop_only is None
    assert fit(Reporting(), TwoLayers, DATA, engine=engine).engine_.startswith(engine)


class CountingBelow(Counting):
    """Nobody can see that it returns a state."""

    def client_loss(self, model, batch, local):
        result = super().client_loss(model, batch, local)
        return result


def test_a_loss_with_a_state_runs_in_the_loop():
    assert "keeps a state" in Counting.loop_only
    assert fit(Counting(), TwoLayers, DATA, engine="auto").engine_.startswith("loop")
    fit(CountingBelow(), TwoLayers, DATA, engine="loop")
    with pytest.raises(NetError, match=re.escape(Counting.loop_only)):
        fit(Counting(), TwoLayers, DATA, engine="stacked")
    with pytest.raises(ClientError, match=r"CountingBelow.client_loss returns a state .* loop_only = 'keeps"):
        fit(CountingBelow(), TwoLayers, DATA, engine="stacked")


@BOTH
def test_what_is_sent_is_a_model_where_nothing_changes_it(engine):
    rule = ClusteredSampling(share=0.7)
    with pytest.raises(ValueError, match="does not go with Halved, whose clients do not send their model"):
        fit(Halved(), TwoLayers, DATA, engine=engine, participation=rule)

    class Stated(Halved):
        sends_model = True

    for method in (Stated(), Doubled()):
        fit(method, TwoLayers, DATA, engine=engine, participation=rule)


@BOTH
def test_a_report_without_the_model_cannot_use_it(engine):
    class Asking(Reporting):
        def client_report(self, model, data, local):
            return {"loss": model(data.X).sum()}

    class Unsent(Asking):
        needs_model = False

    class Cheap(Reporting):
        needs_model = False

    down = [
        fit(method, TwoLayers, DATA, engine=engine, participation=0.4).history_.bytes_down
        for method in (Asking(), Cheap())
    ]
    assert down[0] == 3 * down[1]  # one of three clients trains
    with pytest.raises(ClientError, match="states needs_model = False: no model is sent"):
        fit(Unsent(), TwoLayers, DATA, engine=engine)


@BOTH
def test_a_method_that_averages_shares_and_the_other_way_round(engine):
    class Nothing(Algorithm):
        def shared(self, names):
            return ()

    class Alone(Algorithm):
        averages = False

    with pytest.raises(ValueError, match=r"Nothing.shared gives no tensor.* State averages = False"):
        fit(Nothing(), TwoLayers, DATA, engine=engine)
    with pytest.raises(ValueError, match=r"Alone states averages = False, but its shared sends '0.weight'"):
        fit(Alone(), TwoLayers, DATA, engine=engine)


def test_flags_of_old_go_on():
    class Old(Doubled):
        own_loss, bare_loss, personal, sends_model = True, True, False, True

    class OldPlain(Algorithm):
        own_loss = True

    old = fit(Old(), TwoLayers, DATA).predict_proba(DATA[0])
    np.testing.assert_array_equal(old, fit(Doubled(), TwoLayers, DATA).predict_proba(DATA[0]))
    with pytest.raises(NetError, match="would not be used"):
        fit(OldPlain(), TwoLayers, DATA, net={"criterion": FocalLoss})


@pytest.mark.parametrize(
    ("base", "stated", "message"),
    [
        (Doubled, {"own_loss": False}, "states own_loss = False, but its client_row_losses takes the place"),
        (DoubledBatch, {"own_loss": False}, "states own_loss = False, but its client_loss takes the place"),
        (
            Doubled,
            {"bare_loss": False},
            "states bare_loss = False, but its client_row_losses sees no criterion",
        ),
        (MergedHead, {"personal": False}, "states personal = False, but its personal_params gives"),
        (
            FedLC,
            {"client_loss": DoubledBatch.client_loss},
            "overrides both client_loss and client_row_losses",
        ),
    ],
)
def test_what_contradicts_the_hooks_is_refused(base, stated, message):
    with pytest.raises(ValueError, match=f"^Own {message}"):
        fit(type("Own", (base,), stated)(), TwoLayers, DATA)


def test_a_hook_of_a_mixin_counts():
    class Mixin:
        def client_row_losses(self, logits, y, local):
            return 2 * F.cross_entropy(logits, y, reduction="none")

    class Mixed(Mixin, Algorithm):
        pass

    class Hidden(Algorithm, Mixin):
        """The base's hooks come first."""

    assert Mixed.own_loss
    assert Mixed().own_loss
    assert not Hidden().own_loss
    assert not Algorithm.own_loss
    assert isinstance(fit(Hidden(), TwoLayers, DATA).net_.criterion_, nn.CrossEntropyLoss)


@pytest.mark.parametrize(("old", "new"), FORMER_HOOKS.items())
def test_a_hook_under_its_former_name_is_refused_with_the_new_one(old, new):
    """Also where a parent or a mixin defines it; it is never ignored."""
    mixin = type("Mixin", (), {old: lambda self, *args: None})
    for kind in (type("Own", (Algorithm,), {old: vars(mixin)[old]}), type("Own", (mixin, Algorithm), {})):
        with pytest.raises(ValueError, match=rf"^Own defines '{old}', a hook .* It is now {re.escape(new)};"):
            fit(kind(), TwoLayers, DATA)
    assert hasattr(Algorithm, new.split(",")[0])
