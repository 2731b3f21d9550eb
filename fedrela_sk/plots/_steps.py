"""The steps of one relabeling at one client: from posterior to z to rho to label."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._typing import Array, Label
from fedrela_sk.plots._axes import GRAY, color_of, make_axes, tidy
from fedrela_sk.relabel import FedReLaRelabeler
from fedrela_sk.relabel.formulas._normalization import NORMALIZATIONS, standardize

_GOLDEN = 0.6180339887498949  # spreads equal heights evenly, the same way every time


class FedReLaStepsDisplay:
    """How rows of one client get their new labels, for one target class.

    Four panels: the posterior of the target class by own label; the same as z-scores inside the own class,
    with the threshold; rho, the probability with which the draw for the target succeeds; the labels after
    the draw. Figure 1 of the paper, from numbers. Make it with `from_predictions` or `from_estimator`.

    Parameters
    ----------
    label, new_label : array-like of shape (n_rows,)
        Before and after.
    posterior : array-like of shape (n_rows,)
        Of the target class.
    z : array-like of shape (n_rows,)
        The posterior, normalized inside the row's own class.
    rho : array-like of shape (n_rows,)
        Of the target class.
    threshold : float
        Of z; +inf where nothing can be relabeled.
    target : label
    class_names : dict of label to str, or None, default=None
        None: the labels themselves.

    Attributes
    ----------
    axes_ : ndarray of 4 matplotlib Axes
    figure_ : matplotlib Figure

    References
    ----------
    "FedReLa: Imbalanced Federated Learning via Re-Labeling", ICML 2026, arXiv 2606.26037, Figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.plots import FedReLaStepsDisplay
    >>> p = np.linspace(0.05, 0.6, 12)
    >>> Q, y = np.column_stack([1 - p, p]), np.array([0] * 9 + [1] * 3)
    >>> display = FedReLaStepsDisplay.from_predictions(Q, y)
    >>> display.target, len(display.axes_)
    (1, 4)
    """

    def __init__(
        self,
        *,
        label: ArrayLike,
        new_label: ArrayLike,
        posterior: ArrayLike,
        z: ArrayLike,
        rho: ArrayLike,
        threshold: float,
        target: Label,
        class_names: Any = None,
    ) -> None:
        self.label = label
        self.new_label = new_label
        self.posterior = posterior
        self.z = z
        self.rho = rho
        self.threshold = threshold
        self.target = target
        self.class_names = class_names

    @classmethod
    def from_predictions(
        cls,
        Q: ArrayLike,
        y: ArrayLike,
        relabeler: Any = None,
        *,
        target: Label | None = None,
        uniforms: ArrayLike | None = None,
        class_names: Any = None,
        ax: Any = None,
    ) -> Any:
        """From posteriors and labels of one client.

        Parameters
        ----------
        Q : array-like of shape (n_rows, n_classes)
            What the relabeler takes: posteriors, or scores.
        y : array-like of shape (n_rows,)
        relabeler : FedReLaRelabeler or None, default=None
            A copy is fitted. None: `FedReLaRelabeler()`.
        target : label or None, default=None
            None: the class with the most relabeled rows or, if there is none, the rarest.
        uniforms : array-like of shape (n_rows, n_classes) or None, default=None
            Draws of the relabeling; None: from the relabeler's `random_state`.
        class_names : dict of label to str, or None, default=None
        ax : array-like of 4 matplotlib Axes or None, default=None

        Returns
        -------
        display : FedReLaStepsDisplay
            Drawn.

        Raises
        ------
        ValueError
            `target` is not one of the classes.
        """
        own = FedReLaRelabeler() if relabeler is None else clone(relabeler)
        Q, y = _two_columns(np.asarray(Q, dtype=np.float64), own.input), np.asarray(y)
        own.fit(Q, y)
        new = own.relabel(Q, y, uniforms=uniforms)
        column = _column_of(target, own, new[new != y])
        rows = np.searchsorted(own.classes_, y)
        rule = NORMALIZATIONS[own.normalization]
        return cls(
            label=y,
            new_label=new,
            posterior=Q[:, column],
            z=standardize(Q[:, column], own.mean_[rows, column], own.scale_[rows, column], rule.unit),
            rho=own.relabel_proba(Q, y)[:, column],
            threshold=float(own.threshold_[column]),
            target=own.classes_[[column]].tolist()[0],
            class_names=class_names,
        ).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        relabeler: Any = None,
        *,
        target: Any = None,
        uniforms: Any = None,
        class_names: Any = None,
        ax: Any = None,
    ) -> Any:
        """From a fitted classifier and the rows of one client; parameters as in `from_predictions`.

        The posteriors are those of the model as it is now: of a federation, take one that was fitted without
        relabeling, or for as many rounds as passed before it.
        """
        check_is_fitted(estimator)
        return cls.from_predictions(
            estimator.predict_proba(X),
            y,
            relabeler,
            target=target,
            uniforms=uniforms,
            class_names=class_names,
            ax=ax,
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the four panels.

        Parameters
        ----------
        ax : array-like of 4 matplotlib Axes or None, default=None
            None: a new figure.

        Returns
        -------
        self : FedReLaStepsDisplay
        """
        axes = make_axes(type(self).__name__, ax, 4, 4, (3.4, 3.3))
        self.labels_ = np.unique(np.asarray(self.label)).tolist()
        target = self._name(self.target)
        self._draw_histogram(axes[0], self.posterior)
        axes[0].set(title="1  posterior", xlabel=f"posterior of {target!r}", ylabel="rows, log scale")
        axes[0].legend(frameon=False, fontsize="small", title="own label", title_fontsize="small")
        self._draw_histogram(axes[1], self.z)
        axes[1].set(title="2  z inside the own class", xlabel="z", ylabel="rows, log scale")
        axes[1].legend(handles=self._draw_threshold(axes[1]), frameon=False, fontsize="small")
        self._draw_rho(axes[2])
        self._draw_labels(axes[3])
        axes[3].set(title="4  label after the draw", xlabel=f"posterior of {target!r}")
        for axis in axes:
            tidy(axis)
        axes[3].grid(visible=False, axis="y")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw_histogram(self, ax, values):
        """Counts by own label, all labels over the same bins."""
        values, label = np.asarray(values), np.asarray(self.label)
        bins = np.linspace(values.min(), values.max(), 31)
        for own in self.labels_:
            ax.hist(values[label == own], bins, color=self._color(own), alpha=0.6, label=self._name(own))
        ax.set_yscale("log")

    def _draw_threshold(self, ax):
        """The line, in a list; an empty list where the threshold is infinite."""
        if not np.isfinite(self.threshold):
            return []
        label = f"threshold {self.threshold:.2f}"
        return [ax.axvline(self.threshold, color="black", linestyle="--", label=label)]

    def _draw_rho(self, ax):
        """rho over z, one dot per row; a ring around those that got the target as their label."""
        z, rho, label = np.asarray(self.z), np.asarray(self.rho), np.asarray(self.label)
        for own in self.labels_:
            rows = label == own
            ax.scatter(z[rows], rho[rows], s=12, alpha=0.6, linewidths=0, color=self._color(own))
        drawn = self._moved()
        ax.scatter(
            z[drawn], rho[drawn], s=40, facecolors="none", edgecolors=self._color(self.target), label="drawn"
        )
        self._draw_threshold(ax)
        ax.set(title="3  rho", xlabel="z", ylabel="probability of the new label", ylim=(-0.04, 1.04))
        ax.legend(frameon=False, fontsize="small", loc="upper left")

    def _draw_labels(self, ax):
        """One line for each own label as it was kept, one for the rows that changed."""
        posterior, label, moved = np.asarray(self.posterior), np.asarray(self.label), self._moved()
        kept = label == np.asarray(self.new_label)
        others = [own for own in self.labels_ if own != self.target]
        origin = self._name(others[0]) if len(others) == 1 else "other"
        lines = [(self._name(own), (label == own) & kept, self._color(own)) for own in others]
        lines.append((f"{origin}\n→ {self._name(self.target)}", moved, self._color(self.target)))
        if self.target in self.labels_:
            lines.append((self._name(self.target), (label == self.target) & kept, self._color(self.target)))
        for height, (_, rows, color) in enumerate(lines):
            jitter = 0.5 * ((np.arange(rows.sum()) * _GOLDEN) % 1 - 0.5)
            ax.scatter(posterior[rows], height + jitter, s=12, alpha=0.6, linewidths=0, color=color)
        ax.set_yticks(range(len(lines)), [f"{name}\n({rows.sum()})" for name, rows, _ in lines])
        ax.set_ylim(len(lines) - 0.4, -0.6)

    def _moved(self):
        """Rows that got the target as their new label."""
        label, new = np.asarray(self.label), np.asarray(self.new_label)
        return (label != new) & (new == self.target)

    def _color(self, own):
        others = [label for label in self.labels_ if label != self.target]
        if own == self.target:
            return color_of(1)
        return GRAY if len(others) == 1 else color_of(others.index(own) + 2)

    def _name(self, own):
        return str((self.class_names or {}).get(own, own))


def _two_columns(Q, kind) -> Array:
    """One column p or s as the pair that it stands for."""
    if Q.ndim == 2 and Q.shape[1] == 1:
        return np.hstack([-Q if kind == "score" else 1 - Q, Q])
    return Q


def _column_of(target, relabeler, changed):
    """Column of the target class."""
    classes = relabeler.classes_
    if target is None:
        if not len(changed):
            return int(relabeler.class_count_.argmin())
        names, counts = np.unique(changed, return_counts=True)
        target = names[counts.argmax()]
    found = np.flatnonzero(classes == target)
    if not len(found):
        raise ValueError(f"target must be one of the classes {classes.tolist()}, got {target!r}.")
    return int(found[0])
