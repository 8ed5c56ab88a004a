"""Displays that compare language models by depth, word and frequency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._likelihood import innermost
from ..language_model import LanguageModel
from ..loglinear import StructuredLogLinearLM
from ._display import Display, by_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _finite_losses(name, log_proba):
    loss = -np.concatenate([np.empty(0), *log_proba])
    if not np.isfinite(loss).all():
        raise ValueError(
            f"the model {name!r} gives a token the probability 0, so that its mean "
            "log-loss is infinite; use a smoothed model"
        )
    return loss


def _check_models(models, baseline):
    for name, model in {**models, "baseline": baseline}.items():
        if not isinstance(model, LanguageModel):
            raise TypeError(
                f"{name}: a LanguageModel is needed, got {type(model).__name__}"
            )
        check_is_fitted(model)


class DepthLossDisplay(Display):
    r"""Mean log-loss against a baseline, by the length of the known context.

    .. math::
        \Delta_k = \frac{1}{N_k} \sum_{i : d_i = k} \left[ \log P(w_i \mid x_i) -
        \log P_0(w_i \mid x_i) \right],

    with :math:`P_0` the baseline and :math:`d_i` the length of the longest suffix of
    the context :math:`x_i` that the baseline saw in training. All models are compared
    on the same :math:`N_k` tokens. A model with :math:`\Delta_k > 0` is better than the
    baseline.

    It is recommended to use `from_estimator`.

    Parameters
    ----------
    n_tokens : array-like of shape (n_depths,)
        Number of tokens of each depth.

    gain : mapping of str to array-like of shape (n_depths,)
        :math:`\Delta_k` of each model, in nats per token; NaN without tokens.

    baseline : str, default="baseline"
        Name of the baseline.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the gains, after `plot`.

    count_ax_ : matplotlib Axes
        Axes with the number of tokens, to the right.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : list of matplotlib Line2D
        One line per model.

    References
    ----------
    .. [1] A. Nelakanti, "Structured penalties for log-linear language models", PhD
       thesis, figure 3.8.

    Examples
    --------
    >>> from sklstruct.plotting import DepthLossDisplay
    >>> display = DepthLossDisplay([50, 30, 20], {"tree_l2": [0.1, 0.05, -0.02]})
    >>> display.plot().ax_.get_xlabel()
    'symbols of the context that were seen together'
    """

    n_tokens: ArrayLike
    gain: Mapping[str, ArrayLike]
    _: KW_ONLY
    baseline: str = "baseline"

    @classmethod
    def from_estimator(
        cls,
        estimator: LanguageModel | Mapping[str, LanguageModel],
        X: Iterable,
        *,
        baseline: LanguageModel,
        baseline_name: str = "baseline",
        ax: Axes | None = None,
    ) -> DepthLossDisplay:
        """Score fitted models on sentences and plot them.

        Parameters
        ----------
        estimator : LanguageModel, list, or mapping of str to LanguageModel
            Fitted models by name.

        X : iterable of sentences
            Test text.

        baseline : LanguageModel
            Fitted model with a `backoff_model_`, whose contexts are the known contexts.

        baseline_name : str, default="baseline"
            Name of the baseline.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        display : DepthLossDisplay
        """
        models = by_name(estimator)
        _check_models(models, baseline)
        text = baseline.number_text(X)
        if not text.n_sentences:
            raise ValueError("X is empty: give at least one sentence")
        # length of the longest suffix of each token's context that the baseline knows
        windows, _ = baseline.predictor.windows(text)
        nodes = baseline.predictor.locate_text(windows)
        depth = baseline.backoff_model_.depth(nodes)
        reference = _finite_losses(baseline_name, baseline.token_log_proba(text))
        n = baseline.backoff_model_.max_depth + 1
        n_tokens = np.bincount(depth, minlength=n)
        gain = {}
        for name, model in models.items():
            loss = _finite_losses(name, model.token_log_proba(text))
            total = np.bincount(depth, reference - loss, minlength=n)
            gain[name] = np.where(n_tokens > 0, total / np.maximum(n_tokens, 1), np.nan)
        return cls(n_tokens, gain, baseline=baseline_name).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> DepthLossDisplay:
        """Draw one line per model, and the number of tokens as bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        self : DepthLossDisplay

        Raises
        ------
        ValueError
            If `gain` is empty, or a model does not have a value for each depth.
        """
        n_tokens = np.asarray(self.n_tokens)
        if not self.gain:
            raise ValueError("gain is empty: give at least one model")
        for name, values in self.gain.items():
            if np.shape(values) != n_tokens.shape or n_tokens.ndim != 1:
                raise ValueError(
                    f"gain[{name!r}] must have one value for each of the "
                    f"{n_tokens.size} depths, got shape {np.shape(values)}"
                )
        ax = self._axes(ax)
        depth = np.arange(n_tokens.size)
        self.count_ax_ = ax.twinx()
        self.count_ax_.bar(depth, n_tokens, width=0.6, color="0.88", zorder=0)
        self.count_ax_.set_ylabel("tokens")
        # Draw the curves above the bars of the other axes.
        ax.set_zorder(self.count_ax_.get_zorder() + 1)
        ax.patch.set_visible(False)
        ax.axhline(0, color="0.4", linewidth=0.8)
        self._draw_curves(
            {name: (depth, values) for name, values in self.gain.items()},
            xticks=depth,
            xlabel="symbols of the context that were seen together",
            ylabel=f"gain over {self.baseline}, nats per token",
        )
        return self


class WeightsByDepthDisplay(Display):
    """Number of parameters of language models, by the depth of their contexts.

    For a `StructuredLogLinearLM` the display counts non-zero weights. For other models
    it counts the stored probabilities of the back-off model.

    It is recommended to use `from_estimator`.

    Parameters
    ----------
    n_weights : mapping of str to array-like of shape (n_depths,)
        Number of weights at the depths 0, 1, ... of each model.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : list of matplotlib Line2D
        One line per model.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       penalties for log-linear language models", EMNLP 2013, figure 2c.

    Examples
    --------
    >>> from sklstruct.plotting import WeightsByDepthDisplay
    >>> display = WeightsByDepthDisplay({"l1": [90, 500, 80], "l2": [90, 800, 900]})
    >>> display.plot().ax_.get_yscale()
    'log'
    """

    n_weights: Mapping[str, ArrayLike]

    @classmethod
    def from_estimator(
        cls,
        estimator: LanguageModel | Mapping[str, LanguageModel],
        *,
        ax: Axes | None = None,
    ) -> WeightsByDepthDisplay:
        """Count the weights of fitted models and plot them.

        Parameters
        ----------
        estimator : LanguageModel, list, or mapping of str to LanguageModel
            Fitted models by name, with a `backoff_model_`.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        display : WeightsByDepthDisplay
        """
        counts = {}
        for name, lm in by_name(estimator).items():
            check_is_fitted(lm)
            model = lm.backoff_model_
            used = np.ones(model.n_pairs, dtype=bool)
            fitted = innermost(lm.estimator_) if lm.estimator_ is not None else None
            if isinstance(fitted, StructuredLogLinearLM):
                if fitted.coef_.size != model.n_pairs:
                    raise ValueError(
                        f"estimator: {name!r} was fitted on a collapsed tree, whose "
                        "weights belong to several depths; use collapse=False"
                    )
                used = fitted.coef_ != 0
            depth = model.tree.levels()[model.pairs.nodes()[used]]
            counts[name] = np.bincount(depth, minlength=model.max_depth + 1)
        return cls(counts).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> WeightsByDepthDisplay:
        """Draw one line per model.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        self : WeightsByDepthDisplay

        Raises
        ------
        ValueError
            If `n_weights` is empty, or a number is negative.
        """
        if not self.n_weights:
            raise ValueError("n_weights is empty: give at least one model")
        curves = {k: np.asarray(v, dtype=np.float64) for k, v in self.n_weights.items()}
        for name, curve in curves.items():
            if curve.ndim != 1 or not (curve >= 0).all():
                raise ValueError(
                    f"n_weights[{name!r}] must be numbers of at least 0, one per depth"
                )
        ax = self._axes(ax)
        self._draw_curves(
            {name: (np.arange(y.size), y) for name, y in curves.items()},
            yscale="log",
            xticks=np.arange(max(c.size for c in curves.values())),
            xlabel="depth (length of the context)",
            ylabel="weights",
        )
        ax.grid(axis="y", alpha=0.3)
        return self
