"""LanguageModel: a language model over sentences."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._checkpoint import Checkpoint, refuse_in_batches
from .._checks import need_weights, require_method, validate_parts
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    DensityMixin,
    HasMethods,
    Interval,
    MetaEstimatorMixin,
    StrOptions,
    TextEstimator,
    _fit_context,
    with_callbacks,
)
from .._description import Description, pickled_bytes
from .._likelihood import check_probabilities, innermost
from .._warnings import warn
from ..backoff import (
    BackoffClassifier,
    BackoffModel,
    Batches,
    Counted,
    add_batch,
    check_forgetting,
    read_settings,
    refuse_held_out,
)
from ..backoff._estimator import vectorized_model
from ..backoff._targets import BackoffMixin
from ..context_tree import ContextTree, SuffixTreeVectorizer
from ..symbols import (
    DEEPEST,
    Labels,
    NumberedText,
    SentenceEncoder,
    TextFile,
    prepare_for_ids,
)
from ..symbols._text import ANALYZERS, Analyzer
from ._encode import count, encode, number, vocabulary_rules
from ._generation import CursorMixin
from ._names import QUALITIES, Quality
from ._predictors import TextPredictor, TreePredictor, WindowClassifier
from ._quality import (
    check_depths,
    check_fitted_depths,
    give_checkpoint,
    merge_warnings,
    named_estimator,
    read_no_context,
)
from ._saving import FilesMixin
from ._scoring import ScoringMixin
from ._unknown import UnknownWords

# Parameters that change the counts of a batch.
_COUNTED_BY = ("max_depth", "start", "end", "unknown", "vocabulary", "analyzer")


class LanguageModel(
    ScoringMixin,
    CursorMixin,
    FilesMixin,
    CallbackSupportMixin,
    MetaEstimatorMixin,
    DensityMixin,
    TextEstimator,
):
    r"""Language model over sentences, from any classifier of context windows.

    .. math::
        P(w_1 \ldots w_L) = \prod_{i=1}^{L+1}
        P(w_i \mid w_{i-m}, \ldots, w_{i-1}), \qquad
        w_0 = \langle s\rangle,\ w_{L+1} = \langle /s\rangle .

    `fit` turns sentences into windows of ids and next symbols, and fits a clone of
    `estimator` to the windows. Contexts end at the start of the sentence. The start
    mark is a context symbol and never predicted; the end mark is predicted like a word.

    Parameters
    ----------
    estimator : classifier or {"fast", "better", "best"}, default=None
        The model of the next symbol. None is ``StructuredLogLinearLM()``. "fast",
        "better" and "best" are presets (:ref:`presets`): modified Kneser-Ney smoothing,
        and two mixtures with a lower perplexity and a longer training time. Their
        weights are learned on held-out sentences: `X_val` of `fit`, or the last tenth
        of the text. Set ``max_depth=6`` for "best".

        Any classifier with `predict_log_proba` or `predict_proba` is allowed, or a
        pipeline that ends in such a classifier. The classifier is fitted to windows of
        int32 ids, in which -1 is missing history. If a part of the estimator has a
        method ``__sklstruct_ids__(labels)``, as the estimators of this package do, the
        parameters that this method returns are set before the part is fitted.

    max_depth : int, default=4
        Longest context m, in symbols, from 0 to 2^24; the order of the n-gram model is
        m + 1: ``lmplz -o 5`` is ``max_depth=4``. The estimator gets the same
        `max_depth`; another value in the estimator is an error. A model inside a
        mixture may have shorter contexts. ``max_depth=0``, for unigrams, needs a
        smoother or a log-linear model. A :class:`~sklstruct.mixture.FactoredLM` with
        `concentration` also uses earlier words of the sentence.

    min_count : int, default=1
        Words that occur less often in training become `unknown`; at least 1. With a
        `vocabulary` the rule is for its words.

    unknown : object, default="<unk>"
        The symbol that stands for words outside the vocabulary. The symbol may occur in
        the text. If no word of the training text is unknown, the symbol is still a
        class, with the small probability of a class without counts. None: no symbol.

    start, end : object, default="<s>" and "</s>"
        Marks around each sentence, which must not occur in it. None: no mark.

    max_vocabulary : int, default=None
        Number of the most frequent words that are kept (of the words of `vocabulary`,
        if it is given), at least 1; others become `unknown`. Ties are kept in sorted
        order. None: no limit.

    vocabulary : array-like of shape (n_words,) or TextFile, default=None
        The words that can be predicted (without marks); others become `unknown`. A
        TextFile stands for the words in the file. None: the words of the training text.

    analyzer : {"word", "kenlm", "char"}, default="word"
        The rule by which strings and lines of files are split, in training and
        prediction: "word" at white space, as ``str.split()``; "kenlm" at space, tab,
        line feed, carriage return and NUL only, as KenLM does; "char" into characters,
        including blanks, for text without spaces; a line feed at the end of a string,
        or a carriage return and a line feed, is left out. Sentences that are not
        strings are not split.

    out_of_vocabulary : {"error", "exclude"}, default="error"
        The treatment of words outside the vocabulary if ``unknown=None``. "error": an
        error names the word. "exclude": the position is not counted in scoring and in
        learning from windows, and the history of the next words begins after the word.
        Smoothers and log-linear models raise an error for such words in training.

    checkpoint : str, os.PathLike or Checkpoint, default=None
        A folder, or a file if the estimator is fitted once. Every part of the estimator
        with a parameter `checkpoint` stores its state there, so that `fit` can continue
        after the process was stopped. See :class:`~sklstruct.loglinear.Checkpoint`. The
        text is read and counted again.

    Attributes
    ----------
    estimator_ : classifier or None
        The fitted clone. None for a model read by `load`.

    backoff_model_ : BackoffModel
        The back-off model, if the estimator fits one, alone or in a pipeline after a
        SuffixTreeVectorizer. Arrays are shared. After a ContextRefiner the attribute is
        missing, because the contexts are not histories of words.

    vocabulary_ : object ndarray of shape (n_classes,)
        The symbols that are predicted: words in sorted order, `unknown`, `end`.

    See Also
    --------
    sklstruct.StructuredLogLinearLM : Log-linear model, the default.
    sklstruct.smoothing.KneserNeyLM : Count-based model.
    sklstruct.metrics.perplexity : Perplexity of any classifier.

    Notes
    -----
    `score` is the mean natural log-likelihood per token, unknown words and end marks
    counted, so a search over ``estimator__lam`` or `max_depth` needs no `scoring`. Do
    not tune `min_count` or `vocabulary` by `score`: the fewer words are known, the
    easier the task.

    Estimators that fit a BackoffModel are scored in compiled code. Other estimators
    predict rows in blocks of about 64 MB.

    References
    ----------
    .. [1] S. F. Chen, J. Goodman, "An Empirical Study of Smoothing Techniques for
       Language Modeling", Computer Speech & Language 13(4), 1999 (perplexity).

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import AdditiveLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran"]
    >>> model = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    >>> [(word, round(p, 3)) for word, p in model.predict_next("the", 2)]
    [('cat', 0.568), ('dog', 0.297)]
    >>> round(model.perplexity(["the cat sat"]), 3)
    1.681
    """

    _so_far: Batches | None

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"]), StrOptions(set(QUALITIES)), None],
        "max_depth": [Interval(numbers.Integral, 0, DEEPEST, closed="both")],
        "min_count": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_vocabulary": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "unknown": "no_validation",
        "start": "no_validation",
        "end": "no_validation",
        "vocabulary": "no_validation",
        "analyzer": [StrOptions(set(ANALYZERS))],
        "out_of_vocabulary": [StrOptions({"error", "exclude"})],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
    }

    def __init__(
        self,
        estimator: BaseEstimator | Quality | None = None,
        *,
        max_depth: int = 4,
        min_count: int = 1,
        max_vocabulary: int | None = None,
        unknown: Any = "<unk>",
        start: Any = "<s>",
        end: Any = "</s>",
        vocabulary: ArrayLike | TextFile | None = None,
        analyzer: Analyzer = "word",
        out_of_vocabulary: str = "error",
        checkpoint: str | os.PathLike | Checkpoint | None = None,
    ):
        self.estimator = estimator
        self.max_depth = max_depth
        self.min_count = min_count
        self.max_vocabulary = max_vocabulary
        self.unknown = unknown
        self.start = start
        self.end = end
        self.vocabulary = vocabulary
        self.analyzer = analyzer
        self.out_of_vocabulary = out_of_vocabulary
        self.checkpoint = checkpoint

    # ------------------------------------------------------------- training

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Iterable | Counted,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        X_val: Iterable | None = None,
    ) -> LanguageModel:
        """Fit the estimator on the contexts and next symbols of sentences.

        Parameters
        ----------
        X : TextFile, iterable of sentences, or Counted
            A sentence is an iterable of hashable symbols, or a string, which is
            split by `analyzer`. Sentences may be empty. Strings and files are read by
            compiled code. A model over contexts also takes the result of `count`.

        y : None
            Ignored.

        sample_weight : array-like of shape (n_sentences,), default=None
            Non-negative weight of each sentence. Words are counted with these weights
            for `min_count`, unless `min_count` is 1. A sentence of weight 0 is left
            out.

        X_val : iterable of sentences, default=None
            Held-out sentences, for an estimator that learns parameters on them, such as
            ``KneserNeyLM(discount="tuned")`` or a
            :class:`~sklstruct.mixture.MixtureLM`. The vocabulary is learnt without
            them. None: such an estimator holds out part of X.

        Returns
        -------
        self : LanguageModel
            Fitted model.

        Raises
        ------
        ValueError
            If X is empty, a mark occurs in a sentence (the message says where), or
            a word has no class because `unknown` is None.
        TypeError
            If X is one string or not an iterable of sentences.
        """
        estimator = self._check_parameters()
        if self.from_file:
            warn(
                "this model was read from a file, which does not say how the model was "
                f"trained: fit replaces the model by a {type(estimator).__name__}. Set "
                "estimator to fit another model",
                UserWarning,
            )
        context = self._init_callback_context(max_subtasks=1)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        inner = context.subcontext(task_name="fit-estimator")
        fit = self._fit_windows
        if isinstance(estimator, BackoffClassifier):
            fit = self._fit_contexts
        with merge_warnings(self.estimator, self.analyzer):
            fitted = fit(estimator, X, sample_weight, X_val, inner)
        self._set_fitted(*fitted)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _fit_contexts(self, estimator, X, sample_weight, X_val, context):
        """(the estimator, labels), for a model over contexts, fitted to counts."""
        if X_val is not None and estimator.held_out_share is None:
            refuse_held_out(estimator)
        counted = count(self, estimator, X, sample_weight, X_val)
        labels = counted.labels
        prepare_for_ids(estimator, labels)
        with context.propagate_callback_context(estimator):
            context.call_on_fit_task_begin(estimator=self, X=None, y=None)
            # Counts that were made here are not used again.
            made_here = not isinstance(X, Counted)
            estimator.fit_counted(counted.with_ids(), overwrite=made_here)
            context.call_on_fit_task_end(estimator=self, X=None, y=None)
        return estimator, labels

    def _fit_windows(self, estimator, X, sample_weight, X_val, context):
        """(the estimator, labels), for any classifier, fitted to windows."""
        if isinstance(X, Counted):
            raise TypeError(
                f"X: a {type(estimator).__name__} learns from windows, not from "
                "counts; give the sentences"
            )
        from ..mixture import ModelClassifier

        if X_val is not None and not isinstance(estimator, ModelClassifier):
            refuse_held_out(estimator)
        keyword = None if sample_weight is None else need_weights(estimator)
        encoder, tokens, weight, held_out = encode(self, X, sample_weight, X_val)
        labels = encoder.labels
        # A word without class is not a target, and ends the history of the next words.
        tokens = np.where(tokens == encoder.lost, np.int32(-1), tokens)
        windows, targets = encoder.windows(tokens, self.max_depth)
        if not isinstance(estimator, ModelClassifier):
            windows = windows.array  # other estimators read no history
        options = {}
        if held_out is not None:
            windows_val, targets_val = encoder.windows(held_out, self.max_depth)
            options |= {"X_val": windows_val, "y_val": targets_val}
        if isinstance(self.estimator, str):
            estimator = self._check_parameters(labels.n_classes)
        prepare_for_ids(estimator, labels)
        if keyword is not None:
            options[keyword] = weight[encoder.is_target(tokens)]
        del tokens, weight, held_out
        with context.propagate_callback_context(estimator):
            context.call_on_fit_task_begin(estimator=self, X=windows, y=targets)
            estimator.fit(windows, targets, **options)
            context.call_on_fit_task_end(estimator=self, X=windows, y=targets)
        return estimator, labels

    @_fit_context(prefer_skip_nested_validation=False)
    def count(
        self,
        X: Iterable,
        sample_weight: ArrayLike | None = None,
        X_val: Iterable | None = None,
    ) -> Counted:
        """Count the n-grams of sentences once, for several fits.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            As in `fit`.

        sample_weight : array-like of shape (n_sentences,), default=None
            As in `fit`.

        X_val : iterable of sentences, default=None
            Held-out sentences, for an estimator that learns parameters on them. None:
            such an estimator holds out the last part of X.

        Returns
        -------
        counted : Counted
            Can be given as X to `fit` of this model, or of another model with the same
            marks and no longer contexts. `fit` refuses counts of words that its
            `min_count`, `max_vocabulary` or `vocabulary` would leave out; words that
            were left out when X was counted stay unknown. For an estimator with
            ``solver="active_set"`` the object stores the words and the counts of the
            unigrams; `fit` counts the contexts that it builds.

        Raises
        ------
        ValueError
            As `fit`.
        TypeError
            If X is one string or not an iterable of sentences, or the estimator learns
            from windows.
        """
        estimator = self._check_parameters()
        if not isinstance(estimator, BackoffClassifier):
            raise TypeError(
                f"estimator: {type(estimator).__name__} learns from windows, not "
                "from counts; count needs a model over contexts, such as KneserNeyLM"
            )
        return count(self, estimator, X, sample_weight, X_val).freeze()

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: Iterable | Counted,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        decay: float | None = None,
        window: int | None = None,
    ) -> LanguageModel:
        """Learn from more sentences.

        New words are added to the vocabulary (unless `vocabulary` is given), and new
        contexts to the model. A count-based model equals the model of one `fit` on all
        sentences; see `partial_fit` of the estimator. The time of a call grows with the
        size of the model so far, so use large batches.

        Parameters
        ----------
        X : TextFile, iterable of sentences, or Counted
            As in `fit`.

        y : None
            Ignored.

        sample_weight : array-like of shape (n_sentences,), default=None
            Non-negative weight of each sentence.

        decay : float, default=None
            Factor of all earlier counts, above 0 and at most 1. The model equals the
            model of one `fit` in which sentences of the previous batch have weight
            `decay`, sentences of the batch before that ``decay ** 2``, and so on.
            N-grams with a count below 1e-9 are removed; words stay in the vocabulary.

        window : int, default=None
            The model equals the model of one `fit` on the last `window` batches,
            including this batch. Words that occur only in older batches are removed.
            Give `window` from the first batch on, and not together with `decay`.

        Returns
        -------
        self : LanguageModel
            Fitted model.

        Raises
        ------
        ValueError
            As `fit`; if `min_count` or `max_vocabulary` is set, because both need the
            whole text; if the model was fitted by `fit` or read from a file; or if
            `max_depth`, `vocabulary`, `analyzer` or a mark was changed after the first
            batch.
        TypeError
            If the estimator is not a model over contexts with `partial_fit`.
        """
        estimator = self._check_parameters()
        if vocabulary_rules(self).by_count:
            raise ValueError(
                f"min_count={self.min_count}, max_vocabulary={self.max_vocabulary}: "
                "the kept words are known only after the last batch; give only a "
                "vocabulary to partial_fit"
            )
        before = None
        if self.__sklearn_is_fitted__():
            before = self._so_far
            if before is None:
                raise ValueError(
                    "this model was fitted by fit or read from a file, and has no "
                    "counts; partial_fit continues only models that it has fitted"
                )
        settings = read_settings(self, _COUNTED_BY, before)
        if before is not None and type(self.estimator_) is type(estimator):
            parameters = estimator.get_params(deep=False)
            estimator = self.estimator_.set_params(**parameters)
        if not isinstance(estimator, BackoffClassifier):
            raise TypeError(
                "estimator: partial_fit needs a model over contexts, such as "
                f"KneserNeyLM, not {type(estimator).__name__}; use fit"
            )
        check_forgetting(decay, window)
        refuse_in_batches(self.checkpoint)
        require_method(estimator, "partial_fit")
        batch = count(self, estimator, X, sample_weight)
        counted, so_far = add_batch(before, batch, settings, decay=decay, window=window)
        prepare_for_ids(estimator, counted.labels)
        estimator.fit_counted(counted.with_ids())
        self._set_fitted(estimator, counted.labels)
        self._so_far = so_far
        return self

    def _check_parameters(self, n_words=1000):
        """A clone of the estimator, or the estimator of a preset; checks all
        parameters.

        n_words: number of words that can be predicted. It only sets the numbers of word
        classes, so any value serves for checks before the words are counted.
        """
        vocabulary_rules(self).check()
        if self.estimator is None:
            from ..loglinear import StructuredLogLinearLM

            estimator = StructuredLogLinearLM()
        elif isinstance(self.estimator, str):
            estimator = named_estimator(
                self.estimator, n_words=n_words, max_depth=self.max_depth
            )
        else:
            estimator = clone(self.estimator)
        check_probabilities("estimator", estimator)
        validate_parts(estimator)
        if not isinstance(self.estimator, str):
            check_depths(estimator, self.max_depth)
            check_fitted_depths(estimator, self.max_depth)
        if self.max_depth == 0:
            read_no_context(estimator)
        if self.checkpoint is not None:
            give_checkpoint(estimator, self.checkpoint)
        return estimator

    def number_text(self, X: Iterable, name: str = "X") -> NumberedText:
        """Number the symbols of sentences, split by the analyzer of this model.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        name : str, default="X"
            The name of X in messages.

        Returns
        -------
        text : NumberedText
            Accepted as X by all methods, so that X is read once.
        """
        if not self.__sklearn_is_fitted__():
            return number(X, self.analyzer, name)
        text = number(X, self._labels.analyzer, name)
        if text is not X:
            encoder = self.predictor.encoder
            UnknownWords.of(text, encoder).warn(encoder, name)
        return text

    def _set_fitted(self, estimator, labels, model=None):
        self.estimator_ = estimator
        self._labels = labels
        self._read_model, self._from_file = model, model is not None
        if estimator is not None:
            # Mixtures of fitted models compare these labels.
            estimator.sentence_labels_ = labels
        self._so_far = None
        vars(self).pop("predictor", None)

    # Not pickled: the model of the predictor shares arrays with the model of the
    # estimator, and the arrays would be written twice.
    @cached_property
    def predictor(self) -> TextPredictor:
        """The distribution and its cursor in ids, for models that contain this
        model."""
        check_is_fitted(self)
        if (model := self._read_model) is not None:
            # Kept in the BackoffModel, which copies of a mapped model share in a
            # process.
            if "predictor" not in vars(model):
                encoder = SentenceEncoder(self._labels)
                vars(model)["predictor"] = TreePredictor(model, encoder)
            return vars(model)["predictor"]
        encoder = SentenceEncoder(self._labels)
        model = _tree_model(self.estimator_, self._labels)
        if model is None:
            return TextPredictor(self.estimator_, encoder, self.max_depth)
        return TreePredictor(model, encoder)

    @property
    def vocabulary_(self) -> np.ndarray:
        """The words that are predicted."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("vocabulary_ is available after fit")
        return self._labels.classes

    @property
    def backoff_model_(self) -> BackoffModel:
        """The model over the symbols themselves, if the estimator has one."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("backoff_model_ is available after fit")
        predictor = self.predictor
        if isinstance(predictor, TreePredictor):
            return predictor.distribution
        if isinstance(predictor.distribution, BackoffModel):
            raise AttributeError(
                "backoff_model_ needs contexts that are histories of words. The "
                "contexts of this model are paths of words and classes, computed by a "
                "transformer such as a ContextRefiner. Readers of n-grams cannot "
                "follow them; the table itself is estimator_[-1].backoff_model_"
            )
        raise AttributeError(
            "backoff_model_ needs an estimator that fits a BackoffModel, such as "
            "StructuredLogLinearLM or KneserNeyLM (alone, or after a "
            "SuffixTreeVectorizer), not "
            f"{type(innermost(self.estimator_)).__name__}"
        )

    def __getstate__(self):
        state = super().__getstate__()
        # The labels of a loaded model are stored in the model.
        if state.get("_read_model") is not None:
            del state["_labels"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if state.get("_read_model") is not None:
            self._labels = self._read_model.labels

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_labels")

    def __sklstruct_over_ids__(self, labels: Labels, name: str) -> WindowClassifier:
        """This fitted model as a classifier of windows of the ids of other labels."""
        return WindowClassifier(self, labels, name)

    def __sklearn_clone__(self):
        copy = super().__sklearn_clone__()
        if self.from_file:
            copy._from_file = True
        return copy

    def heaviest_ngrams(
        self, k: int = 20, *, depth: int | None = None
    ) -> list[tuple[tuple, Any, float]]:
        """The n-grams with the largest weights of a log-linear model.

        Parameters
        ----------
        k : int, default=20
            Number of n-grams, at least 1.

        depth : int, default=None
            Length of the context. None: all lengths.

        Returns
        -------
        ngrams : list of (context, word, weight)
            Sorted by the absolute value of the weight, an entry of ``coef_``. The
            context is a tuple, the oldest word first. After a `ContextRefiner` the
            context names steps of the path, such as ``"c50(1)=7"``, the first step
            last.

        Raises
        ------
        AttributeError
            If the estimator does not have such weights.

        Examples
        --------
        >>> from sklstruct.language_model import LanguageModel
        >>> model = LanguageModel(max_depth=1).fit(["a b", "a b", "c d"])
        >>> sorted((*context, word) for context, word, _ in model.heaviest_ngrams(3))
        [('<s>', 'a'), ('a', 'b'), ('b', '</s>')]
        """
        check_is_fitted(self)
        from ._reports import heaviest

        return heaviest(self, k, depth)

    def describe(self) -> Description:
        """Estimator, order, numbers of n-grams, marks, discounts and size, by name.

        Returns
        -------
        description : dict
            ``model``, the estimator; ``order``; ``n_words``, the classes; ``start``,
            ``end`` and ``unknown``, the marks; ``analyzer``. A model with a table of
            n-grams adds the entries of `sklstruct.backoff.BackoffModel.describe`; other
            models add ``bytes``, the size of the pickle, or None if the model cannot be
            pickled. A model with discounts adds ``discounts``, a list for each depth.
            ``print`` writes an entry per line.

        Examples
        --------
        >>> from sklstruct import KneserNeyLM, LanguageModel
        >>> text = ["the cat sat", "the dog sat"]
        >>> lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=1).fit(text)
        >>> description = lm.describe()
        >>> description["model"], description["n_2_grams"], description["discounts"]
        ('KneserNeyLM', 6, [[0.5], [0.5]])
        """
        predictor, labels = self.predictor, self._labels
        model = innermost(self.estimator_)  # None for a file
        description = Description(
            model="a file" if model is None else type(model).__name__
        )
        if isinstance(predictor, TreePredictor):
            description |= predictor.distribution.describe()
        else:
            description["order"] = self.max_depth + 1
            description |= {"n_words": labels.n_classes, **labels.settings}
            description["bytes"] = pickled_bytes(predictor.distribution)
        discounts = getattr(model, "discounts_", None)
        if discounts is not None:
            description["discounts"] = discounts.round(4).tolist()
        return description


def _tree_model(estimator, labels):
    """The estimator's BackoffModel under the labels of the text, or None.

    After a SuffixTreeVectorizer the model's context symbols are columns of the path
    matrix, and the vectorizer knows which ids the columns are contexts of.
    """
    if isinstance(estimator, BackoffMixin):
        model, tree = estimator.backoff_model_, None
        if model.n_nodes == 1:  # of unigrams, whose symbols are the classes
            tree = ContextTree(
                model.tree.parent, model.tree.symbol, labels.symbols.size
            )
        return model.relabel(labels, tree)
    if not (
        isinstance(estimator, Pipeline)
        and len(estimator.steps) == 2
        and isinstance(estimator.steps[0][1], SuffixTreeVectorizer)
        and isinstance(estimator.steps[1][1], BackoffClassifier)
    ):
        return None
    vectorizer, classifier = estimator.steps[0][1], estimator.steps[1][1]
    return vectorized_model(
        classifier, vectorizer.tree_, vectorizer.categories_, labels
    )
