"""The updates of a round: clients train side by side or in chains, and all or some of them send what they made."""

from dataclasses import replace

from fedrela_sk import _tree
from fedrela_sk.federation.clients._sampling import select_senders
from fedrela_sk.federation.relabeling._recorded import keep_recorded
from fedrela_sk.federation.relabeling._schedule import lr_factor
from fedrela_sk.training import Instructions


class Collecting:
    """Collects the updates of one round.

    Parameters
    ----------
    plan : Plan
    engine : engine of `fedrela_sk.training`
    parameters : set of str
        Names of the module's parameters, without its buffers.
    state : State
        What stays at clients is written back to it as updates come.
    round : int

    Attributes
    ----------
    receipts : list of Receipt
        One for every client that trained, in the order of folding; complete once the updates are used up.
    """

    def __init__(self, plan, engine, parameters, state, round):
        self.plan = plan
        self.engine = engine
        self.parameters = parameters
        self.state = state
        self.round = round
        self.receipts = []

    def updates(self, tasks, cohort):
        """What the server folds.

        Parameters
        ----------
        tasks : list of LocalTask
        cohort : Cohort

        Returns
        -------
        updates : iterable of ClientUpdate
            In the order in which they are folded.
        stretch : callable or None
            What becomes of the aggregated tensors, as in `server_round`.
        """
        if cohort.chained:
            return self._in_chains(tasks, cohort), self._stretch(cohort.total)
        if cohort.weights is not None:
            tasks = [replace(task, weight=cohort.weights[task.client.position]) for task in tasks]
        arriving = self._arriving(tasks)
        rule = self.plan.participation
        if not getattr(rule, "trains_all", hasattr(rule, "select")):
            return arriving, self._stretch(cohort.total)
        sent = self._select(arriving)
        return sent, self._stretch(sum(update.weight for update in sent))

    def _arriving(self, tasks):
        """Updates of side-by-side training as they come."""
        if not tasks:
            return ()
        plan, server = self.plan, self.state.server
        factor, progress = lr_factor(plan.lr_schedule, self.round), self.round / plan.n_rounds
        broadcast = plan.algorithm.server_broadcast(server)
        sent = broadcast.every_round | broadcast.first_time
        return self._keep_books(self.engine.train(tasks, Instructions(self.round, sent, factor, progress)))

    def _keep_books(self, arriving):
        """Pass updates on; what stays at a client is put back there, what was sent is then let go.

        Copies stay: a view of what clients trained together would hold the memory of them all.
        """
        for update in arriving:
            yield update
            self.receipts.extend(update.receipts())
            keep_recorded(self.state, update.recorded, self.round)
            for single in update.singles() if update.kept or update.state else ():
                if single.kept:
                    self.state.kept[single.client.position] = _tree.copy(single.kept)
                if single.state:
                    self.state.clients[single.client.position] = _tree.copy(single.state)

    def _in_chains(self, tasks, cohort):
        """The last update of every chain, in the order of the chains; models are handed on inside them."""
        by_position = {task.client.position: task for task in tasks}
        chains = [
            [by_position[s.position] for s in group if s.position in by_position] for group in cohort.groups
        ]
        handed, last = {}, {}
        for wave in range(max(map(len, chains), default=0)):
            here = {chain[wave].client.position: i for i, chain in enumerate(chains) if len(chain) > wave}
            training = [
                replace(by_position[p], params=by_position[p].params | handed.get(here[p], {}))
                for p in sorted(here)
            ]
            for update in self._arriving(training):
                for single in update.singles():
                    i = here[single.client.position]
                    handed[i], last[i] = single.tensors, single
        if cohort.weights is None:
            weights = [sum(task.weight for task in chain) for chain in chains]
        else:
            weights = [cohort.weights[group[-1].position] for group in cohort.groups]
        return [replace(last[i], weight=weights[i]) for i in sorted(last)]

    def _select(self, arriving):
        """Updates of the clients that a rule lets send, all having trained, with their absolute weights."""
        singles = [single for update in arriving for single in update.singles()]
        norms = self._displacements(singles)
        weights = [single.weight for single in singles]
        rule, seed = self.plan.participation, self.plan.seed
        senders, absolute = select_senders(rule, self.round, seed, weights, norms)
        kept = {singles[i].client.position for i in senders}
        self.receipts = [
            receipt if receipt.client.position in kept else replace(receipt, nbytes=0)
            for receipt in self.receipts
        ]
        return [replace(singles[i], weight=weight) for i, weight in zip(senders, absolute, strict=True)]

    def _displacements(self, singles):
        """Euclidean norm of what each client's training moved, a list of float."""
        started, norms = _as_double(self.state.params), []
        for single in singles:
            moved = {name: single.tensors[name] for name in self.parameters if name in single.tensors}
            norms.append(float(_tree.squared_distance(_as_double(moved), started).sqrt()))
        return norms

    def _stretch(self, total):
        """Multiplies the averaged displacement of parameters with `total`; None where that changes nothing."""
        if total == 1:
            return None
        params = self.state.params
        return lambda mean: {
            name: params[name] + total * (tensor - params[name]) if name in self.parameters else tensor
            for name, tensor in mean.items()
        }


def _as_double(tree):
    return {name: tensor.double() for name, tensor in tree.items()}
