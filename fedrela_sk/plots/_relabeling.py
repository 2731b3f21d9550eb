"""Which rows of which client were relabeled, into what, at which posterior."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedrela_sk.plots._axes import color_of, make_axes, tidy

_GOLDEN = 0.6180339887498949  # spreads equal heights evenly, the same way every time


class RelabelingDisplay:
    """Relabeled rows of every client at the posterior of their new class, one dot each.

    Make it with `from_estimator`.

    Parameters
    ----------
    client : array-like of shape (n_changed,)
        Client of every relabeled row.
    old, new : array-like of shape (n_changed,)
        Original and new label.
    posterior : array-like of shape (n_changed,)
        Of the new class, as the client's relabeler saw it.
    n_rows : dict of client to int, or None, default=None
        Rows of every client, those without a change included. None: only clients with changes are known.
    class_names : dict of label to str, or None, default=None
        None: the labels themselves.

    Attributes
    ----------
    ax_ : matplotlib Axes
    dots_ : dict of label to matplotlib PathCollection
        New label to its dots.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from fedrela_sk.plots import RelabelingDisplay
    >>> display = RelabelingDisplay(client=["a", "a", "b"], old=[0, 0, 0], new=[1, 1, 1], posterior=[0.2, 0.4, 0.3])
    >>> display.counts()
    {'a': 2, 'b': 1}
    """

    def __init__(
        self,
        *,
        client: ArrayLike,
        old: ArrayLike,
        new: ArrayLike,
        posterior: ArrayLike,
        n_rows: Any = None,
        class_names: Any = None,
    ) -> None:
        self.client = client
        self.old = old
        self.new = new
        self.posterior = posterior
        self.n_rows = n_rows
        self.class_names = class_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, class_names: Any = None, max_clients: Any = 20, ax: Any = None
    ) -> Any:
        """From a fitted `FederatedClassifier`, or any estimator with a `relabel_report`.

        Parameters
        ----------
        estimator : fitted estimator
        class_names : dict of label to str, or None, default=None
        max_clients, ax
            As in `plot`.

        Returns
        -------
        display : RelabelingDisplay
            Drawn. Without clients, all rows are one client, "all rows".
        """
        check_is_fitted(estimator)
        report = estimator.relabel_report()
        client = getattr(report, "client", None)
        client = np.full(len(report.row), "all rows") if client is None else client
        n_rows = None
        if hasattr(estimator, "clients_"):
            sizes = [len(rows) for rows in estimator.clients_]
            n_rows = dict(zip(estimator.client_names_, sizes, strict=True))
        display = cls(
            client=client,
            old=report.old,
            new=report.new,
            posterior=report.posterior,
            n_rows=n_rows,
            class_names=class_names,
        )
        return display.plot(ax, max_clients=max_clients)

    def counts(self) -> Any:
        """Relabeled rows of every client, most first, then in the order of the clients' names.

        Returns
        -------
        counts : dict of client to int
        """
        names, counts = np.unique(np.asarray(self.client), return_counts=True)
        found = dict.fromkeys(self.n_rows or (), 0) | dict(zip(names.tolist(), counts.tolist(), strict=True))
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def plot(self, ax: Any = None, *, max_clients: int = 20) -> Any:
        """Draw one line per client, those with most relabeled rows on top.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None: a new figure.
        max_clients : int, default=20
            Clients drawn on a line of their own; the others share the last line.

        Returns
        -------
        self : RelabelingDisplay
        """
        counts = self.counts()
        lines, own_figure = self._lines(counts, max_clients), ax is None
        ax = make_axes(type(self).__name__, ax, 1, 1, (7.0, 1.4 + 0.26 * max(len(lines), 3)))[0]
        heights = self._heights(lines)
        self.dots_ = {}
        for position, label in enumerate(np.unique(np.asarray(self.new)).tolist()):
            rows = np.asarray(self.new) == label
            self.dots_[label] = ax.scatter(
                np.asarray(self.posterior)[rows], heights[rows], s=14, alpha=0.6, linewidths=0,
                color=color_of(position + 1), label=self._change(label, rows),
            )  # fmt: skip
        self._label_lines(ax, lines, counts)
        where = f"at {sum(n > 0 for n in counts.values())} of {len(counts)} clients"
        what = f", {next(iter(self.dots_.values())).get_label()}" if len(self.dots_) == 1 else ""
        ax.set(
            xlabel="posterior of the new class before relabeling",
            title=f"{np.size(self.client)} rows relabeled {where}{what}",
        )
        if len(self.dots_) > 1 and own_figure:
            ax.figure.legend(loc="outside lower center", ncols=2, frameon=False)
        elif len(self.dots_) > 1:
            ax.legend(frameon=False, fontsize="small")
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _lines(self, counts, max_clients):
        """Name of a line to its clients, from the top."""
        names = list(counts)
        lines = {name: [name] for name in names[:max_clients]}
        others = names[max_clients:]
        return lines | ({f"{len(others)} others": others} if others else {})

    def _heights(self, lines):
        """Height of every dot: the line of its client, and a little off it."""
        line = {client: height for height, clients in enumerate(lines.values()) for client in clients}
        height = np.array([line[client] for client in np.asarray(self.client).tolist()], dtype=float)
        return height + 0.6 * ((np.arange(len(height)) * _GOLDEN) % 1 - 0.5)

    def _label_lines(self, ax, lines, counts):
        ax.set_yticks(range(len(lines)), [str(name) for name in lines])
        ax.set_ylim(len(lines) - 0.4, -0.6)
        for height, clients in enumerate(lines.values()):
            n_changed = sum(counts[client] for client in clients)
            text = f" {n_changed}"
            if self.n_rows is not None:
                text += f" of {sum(self.n_rows[client] for client in clients)}"
            ax.text(1.0, height, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small")

    def _change(self, label, rows):
        """Text of the legend: to which class, and from which where it is one."""
        olds = np.unique(np.asarray(self.old)[rows]).tolist()
        origin = f"{self._name(olds[0])} " if len(olds) == 1 else ""
        return f"{origin}→ {self._name(label)}"

    def _name(self, label):
        return str((self.class_names or {}).get(label, label))
