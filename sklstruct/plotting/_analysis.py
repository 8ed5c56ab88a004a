"""Displays that compare language models by depth, word and frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._likelihood import innermost
from ..language_model import LanguageModel
from ..loglinear import StructuredLogLinearLM
from ..symbols import SentenceEncoder, number_sentences, stream_windows
from ._display import Display, by_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _finite_losses(name, log_proba):
    loss = -np.concatenate([np.empty(0), *log_proba])
    if not np.isfinite(loss).all():
        raise ValueError(
            f"the model {name!r} gives some token no probability, so that its mean "
            "log-loss is infinite"
        )
    return loss


def _check_models(models, baseline):
    for name, model in {**models, "baseline": baseline}.items():
        if not isinstance(model, LanguageModel):
            raise TypeError(
                f"{name}: a LanguageModel is needed, got {type(model).__name__}"
            )
        check_is_fitted(model)


def _read(X, lm):
    """The symbols of each sentence, split by the rule of a model."""
    sentences = lm.number_text(X).sentences()
    if not sentences:
        raise ValueError("X is empty: there is no sentence to score")
    return sentences


def _context_depths(lm, sentences):
    """Length of the longest suffix of each token's context that the model knows."""
    model = lm.backoff_model_
    encoder = SentenceEncoder(model.labels)
    width = max(model.max_depth, 1)
    tokens = encoder.encode(number_sentences(sentences), front=width - 1)
    windows, targets = stream_windows(tokens, width)
    windows = windows[encoder.is_target(targets)]
    known = (windows >= 0) & (windows < model.n_symbols)
    return model.depth(model.locate(np.where(known, windows, np.int32(-1))))


class DepthLossDisplay(Display):
    r"""Mean log-loss against a baseline, by the length of the known context.

    .. math::
        \Delta_k = \frac{1}{N_k} \sum_{i : d_i = k} \left[ \log P(w_i \mid x_i) -
        \log P_0(w_i \mid x_i) \right],

    with :math:`P_0` the baseline and :math:`d_i` the length of the longest suffix of
    the context :math:`x_i` that the baseline saw in training: all models are compared
    on the same :math:`N_k` tokens. Above 0 a model is better than the baseline.

    It is recommended to use `from_estimator`.

    Parameters
    ----------
    n_tokens : array-like of shape (n_depths,)
        Number of tokens of each depth.

    gain : mapping of str to array-like of shape (n_depths,)
        :math:`\Delta_k` of each model, in nats per token; NaN without tokens.

    baseline : str, default="baseline"
        Name of the model of comparison.

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
            Fitted, with a `backoff_model_`: its contexts are the known ones.

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
        sentences = _read(X, baseline)
        depth = _context_depths(baseline, sentences)
        reference = _finite_losses(baseline_name, baseline.token_log_proba(sentences))
        n = baseline.backoff_model_.max_depth + 1
        n_tokens = np.bincount(depth, minlength=n)
        gain = {}
        for name, model in models.items():
            loss = _finite_losses(name, model.token_log_proba(sentences))
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
            If there are no models, or a model does not have a value for each depth.
        """
        n_tokens = np.asarray(self.n_tokens)
        if not self.gain:
            raise ValueError("gain is empty: there is no model to plot")
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
        # The curves above the bars of the other axes.
        ax.set_zorder(self.count_ax_.get_zorder() + 1)
        ax.patch.set_visible(False)
        ax.axhline(0, color="0.4", linewidth=0.8)
        self._draw_curves(
            ax,
            {name: (depth, values) for name, values in self.gain.items()},
            xticks=depth,
            xlabel="symbols of the context that were seen together",
            ylabel=f"gain over {self.baseline}, nats per token",
        )
        return self


class WordLossDisplay(Display):
    r"""Mean log-loss of each word under two models, and its frequency.

    With ``kind="scatter"`` each word w is a point at :math:`(\ell_0(w), \ell(w))`, the
    means of :math:`-\log P(w \mid x)` over the occurrences of w under the baseline and
    under the model. The colour is the frequency in training. Below the diagonal the
    model is better than the baseline. With ``kind="difference"`` each word is a point
    at :math:`(f(w), \ell_0(w) - \ell(w))`, with f(w) the frequency. Circles are the
    means of words with similar frequencies. Above 0 the model is better than the
    baseline.

    It is recommended to use `from_estimator`.

    Parameters
    ----------
    loss, baseline_loss : array-like of shape (n_words,)
        :math:`\ell(w)` and :math:`\ell_0(w)`, in nats.

    frequency : array-like of shape (n_words,)
        How often each word occurs in training, at least 0.

    name, baseline : str, default="model", "baseline"
        Names of the models.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the points, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    points_ : matplotlib PathCollection
        The words.

    means_ : matplotlib Line2D or None
        The means by frequency; None for ``kind="scatter"``.

    References
    ----------
    .. [1] A. Nelakanti, "Structured penalties for log-linear language models", PhD
       thesis, figures 3.9 and 3.10.

    Examples
    --------
    >>> from sklstruct.plotting import WordLossDisplay
    >>> display = WordLossDisplay([2.0, 7.5], [2.1, 8.0], [5000, 3])
    >>> display.plot(kind="difference").ax_.get_xscale()
    'log'
    """

    loss: ArrayLike
    baseline_loss: ArrayLike
    frequency: ArrayLike
    _: KW_ONLY
    name: str = "model"
    baseline: str = "baseline"

    @classmethod
    def from_estimator(
        cls,
        estimator: LanguageModel,
        X: Iterable,
        *,
        baseline: LanguageModel,
        train: Iterable,
        kind: str = "scatter",
        name: str = "model",
        baseline_name: str = "baseline",
        ax: Axes | None = None,
    ) -> WordLossDisplay:
        """Score two fitted models on sentences and plot their words.

        Parameters
        ----------
        estimator : LanguageModel
            Fitted.

        X : iterable of sentences
            Test text. End marks are a word like others; words that are in no model
            are its `unknown`.

        baseline : LanguageModel
            Fitted; the model to compare with.

        train : iterable of sentences
            The training text, whose frequencies are shown.

        kind : {"scatter", "difference"}, default="scatter"
            As in `plot`.

        name, baseline_name : str, default="model", "baseline"
            Names of the two.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        display : WordLossDisplay
        """
        model = estimator
        _check_models({name: model}, baseline)
        sentences = _read(X, model)
        loss = _finite_losses(name, model.token_log_proba(sentences))
        reference = _finite_losses(baseline_name, baseline.token_log_proba(sentences))
        if loss.size != reference.size:
            raise ValueError(
                "model and baseline do not predict the same tokens: only one has an "
                "end mark"
            )
        words = _words(model, sentences)
        number = {word: i for i, word in enumerate(dict.fromkeys(words))}
        at = np.fromiter((number[w] for w in words), np.int64, len(words))
        times = np.bincount(at)
        frequency = Counter(_words(model, _read(train, model)))
        return cls(
            np.bincount(at, loss) / times,
            np.bincount(at, reference) / times,
            np.array([frequency[w] for w in number]),
            name=name,
            baseline=baseline_name,
        ).plot(ax, kind=kind)

    def plot(self, ax: Axes | None = None, *, kind: str = "scatter") -> WordLossDisplay:
        """Draw one point per word.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        kind : {"scatter", "difference"}, default="scatter"
            Loss against loss, or the difference against the frequency.

        Returns
        -------
        self : WordLossDisplay

        Raises
        ------
        ValueError
            If `kind` is unknown or the arrays differ in length.
        """
        if kind not in ("scatter", "difference"):
            raise ValueError(f"kind must be 'scatter' or 'difference', got {kind!r}")
        loss, reference, frequency = (
            np.asarray(a, dtype=np.float64)
            for a in (self.loss, self.baseline_loss, self.frequency)
        )
        if loss.ndim != 1 or not loss.shape == reference.shape == frequency.shape:
            raise ValueError(
                "loss, baseline_loss and frequency must be of one length, got shapes "
                f"{loss.shape}, {reference.shape} and {frequency.shape}"
            )
        ax = self._axes(ax)
        self.means_ = None
        # A word that training lacks stands at half an occurrence.
        seen = np.maximum(frequency, 0.5)
        if kind == "scatter":
            order = np.argsort(seen, kind="stable")
            self.points_ = ax.scatter(
                reference[order], loss[order], c=np.log10(seen[order]), s=6,
                cmap="viridis", linewidths=0,
            )  # fmt: skip
            ends = np.ptp(np.append(loss, reference)) * np.arange(2) + min(
                loss.min(), reference.min()
            )
            ax.plot(ends, ends, color="0.4", linewidth=0.8)
            bar = ax.figure.colorbar(self.points_, ax=ax)
            bar.set_label("log10 of the frequency in training")
            ax.set(
                xlabel=f"log-loss of {self.baseline}, nats",
                ylabel=f"log-loss of {self.name}, nats",
            )
        else:
            gain = reference - loss
            self.points_ = ax.scatter(seen, gain, s=4, color="0.7", linewidths=0)
            # Half octaves; the lowest ones have one frequency each.
            part = np.floor(2 * np.log2(seen)).astype(np.int64)
            _, at = np.unique(part, return_inverse=True)
            size = np.bincount(at)
            x = np.exp(np.bincount(at, np.log(seen)) / size)
            (self.means_,) = ax.plot(
                x, np.bincount(at, gain) / size, "o", markersize=7, label="mean"
            )
            ax.axhline(0, color="0.4", linewidth=0.8)
            ax.set(
                xscale="log",
                xlabel="frequency in training",
                ylabel=f"gain of {self.name} over {self.baseline}, nats",
            )
            ax.legend()
        return self


def _words(lm, sentences):
    """The symbol that each predicted position counts as."""
    known = set(lm.vocabulary_.tolist())
    words: list[Any] = []
    for sentence in sentences:
        words.extend(w if w in known else lm.unknown for w in sentence)
        if lm.end is not None:
            words.append(lm.end)
    return words


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
            If there are no models, or a number is negative.
        """
        if not self.n_weights:
            raise ValueError("n_weights is empty: there is no model to plot")
        curves = {k: np.asarray(v, dtype=np.float64) for k, v in self.n_weights.items()}
        for name, curve in curves.items():
            if curve.ndim != 1 or not (curve >= 0).all():
                raise ValueError(
                    f"n_weights[{name!r}] must be numbers of at least 0, one per depth"
                )
        ax = self._axes(ax)
        self._draw_curves(
            ax,
            {name: (np.arange(y.size), y) for name, y in curves.items()},
            yscale="log",
            xticks=np.arange(max(c.size for c in curves.values())),
            xlabel="depth (length of the context)",
            ylabel="weights",
        )
        ax.grid(axis="y", alpha=0.3)
        return self
