"""All rounds of one fit: with callbacks, log lines, and the part before the relabel round from memory."""

from contextlib import nullcontext

import numpy as np
import torch
from sklearn.callback import ProgressBar

from fedrela_sk.federation._progress import logger, logging_to_stderr, round_line
from fedrela_sk.federation.cache._key import moved
from fedrela_sk.federation.cache._rounds import CachedRounds, key_or_warning, warn_unused
from fedrela_sk.federation.fitted._attributes import chosen_model, fitted_attributes, snapshot
from fedrela_sk.training._net import tensors_of


class FitMetadata(dict):
    """What `fit` was given beside X and y, as scikit-learn hands it to callbacks.

    The dictionary is unpacked into scorers, most of which take no groups. So groups are there for callbacks that ask,
    ``metadata["groups"]``, and are not among the items that are unpacked.
    """

    def __init__(self, groups, **items):
        super().__init__(items)
        self._groups = groups

    def __missing__(self, key):
        if key == "groups":
            return self._groups
        raise KeyError(key)

    def get(self, key, default=None):
        """As in any dictionary; "groups" is known too."""
        return self._groups if key == "groups" else super().get(key, default)


class Run:
    """Runs the rounds of one fit.

    Parameters
    ----------
    estimator : FederatedClassifier
        Whose callbacks, `memory` and `verbose` count.
    simulation : Simulation
    given : dict
        What callbacks are shown of the data.
    """

    def __init__(self, estimator, simulation, given):
        self.estimator = estimator
        self.simulation = simulation
        self.given = given

    def all_rounds(self):
        """Run them all; the fitted attributes by name."""
        simulation, shown = self.simulation, {"estimator": self.estimator, **self.given}
        n_rounds = simulation.plan.n_rounds
        state = simulation.start(tensors_of(simulation.net.module_))
        context = self.estimator._init_callback_context(max_subtasks=n_rounds, sequential_subtasks=False)
        context.call_on_fit_task_begin(**shown)
        with logging_to_stderr() if self.estimator.verbose else nullcontext():
            state, done = self._before_relabeling(state, context)
            self._rounds(state, range(done, n_rounds), context)
        simulation.engine.forget()
        fitted = fitted_attributes(simulation, state, simulation.net, *chosen_model(simulation, state))
        context.call_on_fit_task_end(**shown, reconstruction_attributes=self._shown(fitted))
        return fitted

    def _shown(self, fitted):
        """Fitted attributes for callbacks, to which rows of the fit are those of their own clients."""
        specs = self.simulation.plan.specs
        positions = np.full(len(self.simulation.plan.codes), -1)
        for spec in specs:
            positions[spec.rows] = spec.position
        return {**fitted, "_rows_of_fit": (self.given["X"], positions)}

    def _before_relabeling(self, state, context):
        """(state, rounds done) up to the relabel round, from `memory` or kept there; (state, 0) without it."""
        key = self._key()
        if key is None:
            return state, 0
        first = self.simulation.plan.first_relabel
        with CachedRounds(self.estimator.memory).entry(key) as entry:
            stored = None if entry is None else entry.read(state, first)
            if stored is not None:
                if self.estimator.verbose:
                    logger.info("rounds 1 to %d from memory", first)
                return stored, first
            self._rounds(state, range(first), context)
            if entry is not None and self._can_be_stored(key):
                entry.write(state)
        return state, first

    def _key(self):
        """What the state at the relabel round depends on, None where nothing is kept."""
        estimator, simulation = self.estimator, self.simulation
        if estimator.memory is None or simulation.plan.first_relabel is None:
            return None
        for callback in getattr(estimator, "_skl_callbacks", ()):
            if not (type(callback) is ProgressBar or getattr(callback, "only_shows", False) is True):
                warn_unused(
                    f"the callback {type(callback).__name__} watches every round and may stop the fit, and would see "
                    "no round that comes from memory"
                )
                return None
        params, n_threads = estimator.get_params(deep=False), torch.get_num_threads()
        return key_or_warning(params, simulation.plan, simulation.net, simulation.engine, n_threads)

    def _can_be_stored(self, key):
        """Whether the caller's objects are as they were before the rounds; a warning where they are not."""
        simulation = self.simulation
        changed = moved(self.estimator.get_params(deep=False), simulation.plan, simulation.engine, key)
        if changed:
            warn_unused(
                f"training changed what {', '.join(changed)} holds, which a state from memory would not bring back"
            )
        return not changed

    def _rounds(self, state, rounds, context):
        """Run some rounds in place; whether a callback stopped the fit."""
        simulation, shown = self.simulation, {"estimator": self.estimator, **self.given}
        for round in rounds:
            task = context.subcontext(task_name="round", task_id=round)
            task.call_on_fit_task_begin(**shown)
            simulation.run_round(state, round)
            if self.estimator.verbose:
                logger.info(round_line(state.history[-1], simulation.plan.n_rounds))
            stop = task.call_on_fit_task_end(
                **shown, reconstruction_attributes=lambda: self._shown(snapshot(simulation, state))
            )
            if stop:
                state.history.notes.append(f"A callback stopped the fit after round {round}.")
                return True
        return False
