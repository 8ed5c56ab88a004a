"""NoisyChannelDecoder: the sentence behind noisy observations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._checks import validate_parts
from .._compat import HasMethods, Interval, _fit_context
from ..backoff import BackoffModel
from ..symbols import is_unknown, object_array
from ._beam import BeamSearch, CursorAutomaton
from ._candidates import check_candidates
from ._inference import SequenceInference
from ._sequence_model import with_unknown


def _unknown_share(n_words: int) -> float:
    """Share of the words of a text that are not among the n most frequent words.

    A rule of thumb for English: with the vocabulary of WikiText-2, cut to 100 to 29 000
    words, the error is at most a factor of 1.2 on the texts of UD English EWT. The
    probability of unknown words in a model is not used for this share: with
    ``min_count=1`` it depends only on smoothing, and a closed vocabulary has no unknown
    word.
    """
    return min(0.5, 10 / np.sqrt(n_words))


class NoisyChannelDecoder(SequenceInference):
    r"""Decoding of noisy words with a language model and a channel.

    .. math::
        \hat x = \arg\max_x\; P(x_1 \ldots x_L)\, \prod_{i=1}^{L} p(o_i \mid x_i)

    The language model gives the probability of a sentence, and the channel the
    probability of an observation given a word. Every observation stands for one word.

    Parameters
    ----------
    language_model : LanguageModel or BackoffModel
        An unfitted `LanguageModel` (or anything that has a `backoff_model_` after
        ``fit(sentences)``) is cloned and fitted. A fitted model inside a
        :class:`~sklearn.frozen.FrozenEstimator` and a `BackoffModel` are not changed.
        Without `beam_width`, the model must be, or fit, a back-off model.

    channel : KeypadChannel, EditDistanceChannel or an object like them
        ``bind(words)`` returns an object whose method ``candidates(observation)``
        returns two arrays of the same length: indices of words, each at most once, and
        log-likelihoods less than infinity. If the object has a method
        ``log_unknown(observation)``, an observation that is not among the words can
        also be an unknown word, with the log-likelihood that the method returns.

    n_candidates : int or None, default=None
        Number of candidates per observation, at least 1. The candidates with the
        largest probability under the channel are kept. If a candidate is left out,
        results are reported as approximate, because the error is not bounded. None: all
        candidates.

    beam_width : int or None, default=None
        None: exact decoding. An int, at least 1: after each position this number of
        states with the most probable histories is kept, and `language_model` can be any
        `LanguageModel` or `CacheLM`; 1 is greedy. The result is reported as approximate
        if a history was left out. A beam does not give sums over labellings:
        `predict_proba`, `sample_posterior`, `log_likelihood`, `inspect` and `score`
        without y raise an error. `max_states` is not used. Changing None to a number
        or back needs a new `fit`.

    transition_weight : float, default=1.0
        As in `HighOrderHMM`.

    max_states : int, default=1_000_000
        As in `HighOrderHMM`.

    n_jobs : int, default=None
        As in `HighOrderHMM`.

    Attributes
    ----------
    transition_model_ : BackoffModel or automaton
        The language model, with a class for unknown words. With `beam_width`, an object
        with the `labels` and the states of the language model.

    language_model_ : estimator or BackoffModel
        The fitted clone.

    classes_ : ndarray of shape (n_words,)
        The words that the decoder can return.

    See Also
    --------
    HighOrderHMM : Emissions learned from labelled sequences.

    Notes
    -----
    An unknown word is returned as it was observed, and `given` names the word in the
    same way. A word without any candidate is always unknown. The model's probability of
    unknown words is scaled to :math:`\min(1/2, 10 / \sqrt{V})` after the empty context,
    for V words: about the share of English words that are not among the V most frequent
    words. A model without an unknown word gets such a word.

    A missing observation (None) allows every word, so that the lattice has the whole
    vocabulary, which is exact but slow.

    With `beam_width`, one call per position computes the rows of all kept histories.
    Histories with equal states are merged. If the model does not have an unknown word,
    unknown words have the same probability after all histories, and end the history.
    Each sentence is decoded alone, with an empty cache if the model is a `CacheLM`.

    References
    ----------
    .. [1] S. Carter, M. Dymetman, G. Bouchard, "Exact Sampling and Decoding in
       High-Order Hidden Markov Models", EMNLP 2012, section 3.1.

    Examples
    --------
    >>> from sklstruct import LanguageModel
    >>> from sklstruct.hmm import KeypadChannel, NoisyChannelDecoder
    >>> from sklstruct.smoothing import AdditiveLM
    >>> text = ["the dog ran home", "the fog came in", "the dog sat"]
    >>> channel = KeypadChannel()
    >>> model = LanguageModel(AdditiveLM(delta=0.1), max_depth=2)
    >>> decoder = NoisyChannelDecoder(model, channel).fit(text)
    >>> keys = [[channel.encode(word) for word in "the dog ran home".split()]]
    >>> decoder.predict(keys)[0]
    ['the', 'dog', 'ran', 'home']

    A mixture has no table of n-grams, and is decoded by a beam:

    >>> from sklstruct.mixture import MixtureLM
    >>> parts = [("short", AdditiveLM(max_depth=1)), ("long", AdditiveLM(delta=0.1))]
    >>> mixture = LanguageModel(MixtureLM(parts, weights=[0.2, 0.8]), max_depth=2)
    >>> decoder = NoisyChannelDecoder(mixture, channel, beam_width=20).fit(text)
    >>> decoder.predict(keys)[0]
    ['the', 'dog', 'ran', 'home']
    """

    language_model_: Any

    _parameter_constraints: dict = {
        "language_model": [HasMethods(["fit"]), BackoffModel],
        "channel": [HasMethods(["bind"])],
        "n_candidates": [None, Interval(Integral, 1, None, closed="left")],
        "beam_width": [None, Interval(Integral, 1, None, closed="left")],
        **SequenceInference._parameter_constraints,
    }

    def __init__(
        self,
        language_model: Any,
        channel: Any,
        *,
        n_candidates: int | None = None,
        beam_width: int | None = None,
        transition_weight: float = 1.0,
        max_states: int = 1_000_000,
        n_jobs: int | None = None,
    ):
        super().__init__(transition_weight, max_states, n_jobs)
        self.language_model = language_model
        self.channel = channel
        self.n_candidates = n_candidates
        self.beam_width = beam_width

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Iterable | None = None, y: Iterable | None = None
    ) -> NoisyChannelDecoder:
        """Fit the language model, and bind the channel to its words.

        Parameters
        ----------
        X : iterable of sentences, default=None
            Clean text, as `LanguageModel` reads it. Ignored if `language_model` is
            already fitted.

        y : list of sentences, default=None
            The clean sentences if X holds noisy sentences, so that cross-validation
            can score the decoder: used as text instead of X.

        Returns
        -------
        self : NoisyChannelDecoder

        Raises
        ------
        ValueError
            If X is None and `language_model` is to be fitted; if `language_model` was
            read from a file and is not inside a FrozenEstimator.
        TypeError
            If `language_model` has no back-off model, or with `beam_width` no states.
        """
        validate_parts(self.channel)
        text = X if y is None else y
        fitted = model = self.language_model
        beam = self.beam_width is not None
        if beam and not hasattr(fitted, "advance"):
            raise TypeError(
                "beam_width needs a language_model with states, such as LanguageModel, "
                f"got {type(fitted).__name__}; use "
                "FrozenEstimator(LanguageModel.from_backoff(language_model)) for a "
                "BackoffModel, or beam_width=None"
            )
        if not isinstance(fitted, BackoffModel):
            frozen = isinstance(fitted, FrozenEstimator)
            if not frozen and getattr(fitted, "from_file", False):
                raise ValueError(
                    "language_model was read from a file, and fit would train another "
                    "model in its place; give FrozenEstimator(language_model), "
                    "or give its backoff_model_"
                )
            if not frozen and text is None:
                raise ValueError(
                    "X is None: pass the sentences that language_model is trained on; "
                    "a model that is fitted already is given as "
                    "FrozenEstimator(language_model), or as its backoff_model_"
                )
            fitted = clone(fitted).fit(text, None)
            model = getattr(fitted, "backoff_model_", None)
            if model is None and not beam:
                raise TypeError(
                    f"language_model: {self.language_model!r:.80} does not have a "
                    "back-off model; use a model such as LanguageModel('fast'), or set "
                    "beam_width, such as beam_width=20"
                )
        if beam:
            model = CursorAutomaton(fitted)
        else:
            model = with_unknown(model, np.log(_unknown_share(model.n_classes)))
        labels = model.labels
        if labels.analyzer == "char" and getattr(self.channel, "of_words", False):
            raise ValueError(
                "language_model is a model of characters (analyzer='char'), and "
                f"{type(self.channel).__name__} corrects words; use a model of words "
                "(analyzer='word')"
            )
        marks = (labels.end, labels.unknown, labels.start)
        words = [
            i for i, word in enumerate(labels.classes.tolist()) if word not in marks
        ]
        if not words:
            raise ValueError("language_model does not predict any word")
        classes = labels.classes[words]
        return self._set_fitted(
            language_model_=fitted,
            transition_model_=model,
            classes_=classes,
            _class_of_label=np.array(words, dtype=np.int32),
            _words=set(map(str, classes.tolist())),
            _bound=self.channel.bind(classes.tolist()),
        )

    @property
    def _automaton(self):
        return super()._automaton if self.beam_width is None else self.transition_model_

    def _new_solvers(self, automaton):
        if self.beam_width is None:
            return super()._new_solvers(automaton)
        return BeamSearch(automaton, self.transition_weight, self.beam_width), None

    def _sentences(self, X, given=None, sums=True):
        check_is_fitted(self, "transition_model_")
        beam = isinstance(self.transition_model_, CursorAutomaton)
        if beam == (self.beam_width is None):
            raise ValueError(
                f"beam_width={self.beam_width} was changed after fit; call fit again"
            )
        if beam and sums:
            raise ValueError(
                f"beam_width={self.beam_width} keeps only some labellings, and "
                "predict_proba, sample_posterior, log_likelihood, inspect and score "
                "without y need all of them; use beam_width=None and a model such as "
                "LanguageModel('fast')"
            )
        return super()._sentences(X, given)

    def _read(self, X):
        unknown = self.transition_model_.labels.unknown_id
        found, read = {}, []
        for i, sequence in enumerate(X):
            positions, approximate = [], False
            for j, o in enumerate(sequence):
                o = None if is_unknown(o) else o
                # 1 and 1.0 are equal, but a channel may use their spelling.
                key = o, repr(o)
                try:
                    known = key in found
                except TypeError as exc:
                    raise TypeError(
                        f"X[{i}][{j}] must be hashable, such as a string, got {o!r:.60}"
                    ) from exc
                if not known:
                    found[key] = self._candidates(o, unknown)
                ids, factor, dropped = found[key]
                positions.append((ids, factor))
                approximate |= dropped
            read.append((positions, approximate))
        return read

    def _candidates(self, observation, unknown):
        """(class ids, log-factors, whether candidates were dropped)."""
        if observation is None:
            return self._class_of_label, np.zeros(len(self._class_of_label)), False
        found = self._bound.candidates(observation)
        index, factor = check_candidates(
            "channel", observation, found, len(self._class_of_label)
        )
        dropped = self.n_candidates is not None and len(index) > self.n_candidates
        if dropped:
            best = np.argsort(-factor, kind="stable")[: self.n_candidates]
            best.sort()
            index, factor = index[best], factor[best]
        ids = self._class_of_label[index]
        spelt = None
        if str(observation) not in self._words:
            spelt = getattr(self._bound, "log_unknown", None)
        if spelt is None and len(ids):
            return ids, factor, dropped
        own = 0.0 if spelt is None else spelt(observation)
        if not own < np.inf:
            raise ValueError(
                f"channel: log_unknown of {observation!r:.60} must be finite or -inf, "
                f"got {own}"
            )
        # The first values of `log_prob` are for the empty context.
        empty = self.transition_model_.log_prob[unknown]
        scale = np.log(_unknown_share(len(self._words))) - empty
        own += scale * self.transition_weight
        return np.append(ids, np.int32(unknown)), np.append(factor, own), dropped

    def _labels(self, ids, sequence):
        labels = self.transition_model_.labels.classes[ids]
        unknown = self.transition_model_.labels.unknown_id
        if unknown >= 0 and (ids == unknown).any():
            labels = labels.astype(object)
            observed = object_array(sequence)
            labels = np.where(ids == unknown, observed, labels)
        return labels

    def predict_proba(self, X: Sequence, given: Sequence | None = None) -> list:
        """Exact marginal probabilities of the candidates of each observation.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        given : list of sequences, default=None
            Known words. Each observation has None (unknown), a word, or a set or list
            of words of which one is right. The probabilities are exact given this
            condition.

        Returns
        -------
        proba : list of list of (words, proba)
            The candidates of every observation and their probabilities, most probable
            first; all 0 if no decoding of the sentence is possible.

        Raises
        ------
        ValueError
            If a sentence needs more than `max_states` states.
            If `given` does not fit X, or leaves a sequence no possible labelling.
        """
        X, sentences, _ = self._sentences(X, given)
        found = self._marginals(sentences, given)
        out = []
        for x, c, marginals in zip(X, sentences, found):
            rows = []
            for i in range(c.length):
                at = slice(int(c.ptr[i]), int(c.ptr[i + 1]))
                order = np.argsort(-marginals[at], kind="stable")
                words = self._labels(c.ids[at], [x[i]] * (at.stop - at.start))
                rows.append((words[order], marginals[at][order]))
            out.append(rows)
        return out
