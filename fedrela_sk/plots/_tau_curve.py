"""Scores over tau, with their spread over folds."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedrela_sk.plots._axes import color_of, make_axes, tidy

_LINES = ("--", ":", "-.")


class TauCurveDisplay:
    """Scores over tau with their spread over folds; other models as horizontal lines.

    Make it with `from_cv_results` or `from_estimator`.

    Parameters
    ----------
    tau : array-like of shape (n_taus,)
        Ascending.
    scores : dict of str to array-like of shape (n_taus,)
        Metric to its mean over folds.
    spread : dict of str to array-like of shape (n_taus,)
        Metric to its standard deviation over folds (divisor n - 1).
    chosen : float or None, default=None
        The tau that was chosen; marked by a vertical line.
    references : dict of str to (dict of str to float), default=None
        Model to (metric to its mean score).

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, one per metric
    lines_ : list of matplotlib Line2D
        The curve of each metric.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from fedrela_sk.plots import TauCurveDisplay
    >>> display = TauCurveDisplay(tau=[0, 0.1], scores={"recall": [0.1, 0.4]}, spread={"recall": [0, 0.02]})
    >>> display.plot().lines_[0].get_ydata().tolist()
    [0.1, 0.4]
    """

    def __init__(
        self, *, tau: ArrayLike, scores: Any, spread: Any, chosen: float | None = None, references: Any = None
    ) -> None:
        self.tau = tau
        self.scores = scores
        self.spread = spread
        self.chosen = chosen
        self.references = references

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Any,
        *,
        param: str | None = None,
        metrics: list[str] | None = None,
        chosen: Any = None,
        references: Any = None,
        ax: Any = None,
    ) -> Any:
        """From the results of a grid search over tau.

        Parameters
        ----------
        cv_results : dict
            `cv_results_` of `GridSearchCV` or the like.
        param : str or None, default=None
            Name of the parameter in the grid; None: the one that ends in "tau".
        metrics : list of str or None, default=None
            Which ones, in this order; None: all. A search with one metric calls it "score".
        chosen, references
            As in the constructor.
        ax : matplotlib Axes, array-like of Axes or None, default=None
            One per metric; None: a new figure.

        Returns
        -------
        display : TauCurveDisplay
            Drawn. Candidates that differ in other parameters than tau count for their best mean.
        """
        values = _tau_values(cv_results, param)
        folds = _fold_scores(cv_results)
        unknown = [name for name in metrics or () if name not in folds]
        if unknown:
            raise ValueError(f"cv_results has no metric {unknown[0]!r}; it has {sorted(folds)}.")
        tau = np.unique(values)
        scores, spread = {}, {}
        for name in metrics or folds:
            means = folds[name].mean(axis=1)
            best = [np.flatnonzero(values == t)[means[values == t].argmax()] for t in tau]
            scores[name] = means[best]
            spread[name] = folds[name][best].std(axis=1, ddof=1)
        return cls(tau=tau, scores=scores, spread=spread, chosen=chosen, references=references).plot(ax)

    @classmethod
    def from_estimator(
        cls, search: Any, *, param: Any = None, metrics: Any = None, references: Any = None, ax: Any = None
    ) -> Any:
        """From a fitted search; its own choice of tau is marked. Parameters as in `from_cv_results`."""
        check_is_fitted(search, "cv_results_")
        chosen = None
        if hasattr(search, "best_index_"):
            chosen = float(_tau_values(search.cv_results_, param)[search.best_index_])
        return cls.from_cv_results(
            search.cv_results_, param=param, metrics=metrics, chosen=chosen, references=references, ax=ax
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw one panel per metric.

        Parameters
        ----------
        ax : matplotlib Axes, array-like of Axes or None, default=None
            One per metric; None: a new figure.

        Returns
        -------
        self : TauCurveDisplay
        """
        axes = make_axes(type(self).__name__, ax, len(self.scores), 2, (5.0, 3.4))
        self.lines_ = [self._draw_metric(axis, name) for axis, name in zip(axes, self.scores, strict=True)]
        self.axes_, self.figure_ = axes, axes[0].figure
        if ax is None:
            handles = axes[0].get_legend_handles_labels()
            self.figure_.legend(*handles, loc="outside lower center", ncols=2, frameon=False)
        else:
            axes[0].legend(frameon=False, fontsize="small")
        return self

    def _draw_metric(self, ax, name):
        bars = ax.errorbar(
            self.tau, self.scores[name], self.spread[name], color=color_of(0), marker="o", capsize=3,
            label="over tau: mean and standard deviation over folds",
        )  # fmt: skip
        for position, (model, scores) in enumerate((self.references or {}).items()):
            ax.axhline(
                scores.get(name, np.nan), color=color_of(position + 1), label=model,
                linestyle=_LINES[position % len(_LINES)],
            )  # fmt: skip
        if self.chosen is not None:
            ax.axvline(self.chosen, color=color_of(0), alpha=0.15, linewidth=10, zorder=0, label="chosen tau")
        ax.set(title=name.replace("_", " "), xlabel="tau")
        ax.locator_params(axis="x", nbins=6)
        tidy(ax)
        return bars.lines[0]


def _tau_values(cv_results, param):
    """The tau of every candidate, ndarray of float."""
    names = [name.removeprefix("param_") for name in cv_results if name.startswith("param_")]
    if param is None:
        found = [name for name in names if name.split("__")[-1] == "tau"]
        if len(found) != 1:
            raise ValueError(
                f"Expected one parameter that ends in 'tau' in cv_results, got {found} of {names}. Pass param=."
            )
        param = found[0]
    if param not in names:
        raise ValueError(f"cv_results has no parameter {param!r}; it has {names}.")
    return np.asarray(cv_results[f"param_{param}"], dtype=np.float64)


def _fold_scores(cv_results):
    """Metric to ndarray of shape (n_candidates, n_folds)."""
    folds = {}
    for key, values in cv_results.items():
        head, _, metric = key.partition("_test_")
        if metric and head.startswith("split") and head[5:].isdigit():
            folds.setdefault(metric, []).append((int(head[5:]), values))
    if not folds:
        raise ValueError(
            f"cv_results has no key like 'split0_test_score'; its keys are {sorted(cv_results)}. "
            "Pass cv_results_ of a fitted search."
        )
    return {name: np.column_stack([v for _, v in sorted(splits)]) for name, splits in folds.items()}
