"""What a fitted language model asks its estimator, in tokens.

Four kinds of estimator answer the same questions: one that has a back-off model, whose
kernels run over the text; one that has such a model over refined contexts, whose
kernels run over the refined windows; one that is composed of models, which ranks and
draws along them; and any other classifier, which is asked for its rows.

============================  ======================================================
``score(sentences)``          (log_prob, token, depth) of every predicted position
``best(history, k)``          (classes, probabilities) of one history
``draw(history, u, skip)``    one class a history, by inversion
``group_log_proba(s, g, w)``  ln of the sum over one group of classes a position
============================  ======================================================

Log-probabilities are NaN for words that have no class. A history is a row of tokens,
the last one the most recent, -1 where there is none.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .._compat import BaseEstimator
from .._likelihood import target_log_proba
from .._parallel import row_blocks, rows_per_block
from ..backoff import BackoffModel
from ..backoff._groups import log_group_proba
from ..symbols._sentences import SentenceEncoder
from ..word_classes import ContextRefiner

# Windows that are refined at a time.
_BLOCK = 1 << 16


class _Windows:
    """Windows of tokens, as an estimator was trained on them."""

    encoder: SentenceEncoder
    max_depth: int

    def windows(self, sentences: list) -> tuple[np.ndarray, np.ndarray]:
        """(windows, next token) of every predicted position, as in training."""
        width = self.max_depth
        tokens = self.encoder.encode(sentences, front=width - 1)
        if tokens.size <= width:
            return np.empty((0, width), np.int32), np.empty(0, np.int32)
        target = tokens[width:]
        scored = self.encoder.is_target(target)
        windows = np.lib.stride_tricks.sliding_window_view(self.known(tokens), width)
        return windows[:-1][scored], target[scored]

    def recent(self, history: np.ndarray) -> np.ndarray:
        """The windows of histories of any length."""
        width = self.max_depth
        windows = np.full((history.shape[0], width), -1, dtype=np.int32)
        take = min(width, history.shape[1])
        if take:
            windows[:, width - take :] = history[:, history.shape[1] - take :]
        return self.known(windows)

    def known(self, tokens: np.ndarray) -> np.ndarray:
        """Tokens with -1 for words that no context holds."""
        # To the estimator a word without class is missing history.
        return np.where(tokens == self.encoder.lost, np.int32(-1), tokens)

    def groups(self) -> np.ndarray | None:
        """The group of each class in the estimator's own grouping; None: none."""
        return None


class TreePredictor(_Windows):
    """Answers from a `BackoffModel` over the labels of the text.

    Parameters
    ----------
    model : BackoffModel
        With the labels of `encoder`.

    encoder : SentenceEncoder
        Text to tokens.
    """

    def __init__(self, model: BackoffModel, encoder: SentenceEncoder):
        self.model, self.encoder = model, encoder
        self.max_depth = max(1, model.max_depth)

    def known(self, tokens: np.ndarray) -> np.ndarray:
        """Tokens with -1 for words that no context holds."""
        known = (tokens >= 0) & (tokens < self.model.n_symbols)
        return np.where(known, tokens, np.int32(-1))

    def log_rows(self, windows: np.ndarray) -> np.ndarray:
        """Log-probabilities of all classes after each window."""
        return self.model.predict_log_proba(self.model.find(windows))

    def score(self, sentences: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Natural log-probability, token and matched depth of every position."""
        tokens = self.encoder.encode(sentences)
        log_prob, depth = self.model.score_tokens(
            tokens, return_depth=True, unknown_log_prob=-np.inf
        )
        scored = self.encoder.is_target(tokens)
        tokens, log_prob = tokens[scored], log_prob[scored]
        log_prob[tokens == self.encoder.lost] = np.nan
        return log_prob, tokens, depth[scored]

    def group_log_proba(
        self, sentences: list, group: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """ln of the sum over a group of classes at every predicted position."""
        return log_group_proba(
            self.model, self.model.find(self.windows(sentences)[0]), group, wanted
        )

    def _find(self, history):
        return self.model.find(self.known(history))

    def best(self, history: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable classes and their probabilities."""
        classes, log_prob = self.model.top_k(self._find(history[None]), k)
        return classes[0], np.exp(log_prob[0])

    def draw(self, history: np.ndarray, uniform: np.ndarray, skip: int) -> np.ndarray:
        """One class for each history; never `skip` (-1: all may be drawn)."""
        return self.model.sample_at(self._find(history), uniform, skip)


class RefinedPredictor(_Windows):
    """Answers from a `BackoffModel` over refined contexts.

    Parameters
    ----------
    refiner : ContextRefiner
        Fitted on windows of `max_depth` ids.

    model : BackoffModel
        Over the symbols that the refiner gives, which its labels know.

    encoder : SentenceEncoder
        Text to tokens, which are class ids; the start mark and lost words follow.

    max_depth : int
        Columns of a window.
    """

    def __init__(
        self,
        refiner: ContextRefiner,
        model: BackoffModel,
        encoder: SentenceEncoder,
        max_depth: int,
    ):
        self.refiner, self.model = refiner, model
        self.encoder, self.max_depth = encoder, max_depth

    def log_rows(self, windows: np.ndarray) -> np.ndarray:
        """Log-probabilities of all classes after each window."""
        return self.model.predict_log_proba(self._find(windows))

    def _find(self, windows):
        refined = self.refiner.transform(windows)
        return self.model.find(self.model.labels.encode_contexts(refined))

    def score(self, sentences: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Natural log-probability, token and matched depth of every position.

        The depth is the number of symbols of the path.
        """
        windows, target = self.windows(sentences)
        log_prob = np.empty(target.size)
        depth = np.empty(target.size, dtype=np.int32)
        for rows in row_blocks(target.size, _BLOCK):
            lost = target[rows] == self.encoder.lost
            nodes = self._find(windows[rows])
            log_prob[rows], depth[rows] = self.model.log_proba(
                nodes,
                np.where(lost, np.int32(-1), target[rows]),
                return_depth=True,
                unknown_log_prob=-np.inf,
            )
            log_prob[rows][lost] = np.nan
        return log_prob, target, depth

    def group_log_proba(
        self, sentences: list, group: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """ln of the sum over a group of classes at every predicted position."""
        windows, _ = self.windows(sentences)
        return log_group_proba(self.model, self._find(windows), group, wanted)

    def best(self, history: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable classes and their probabilities."""
        classes, log_prob = self.model.top_k(self._find(self.recent(history[None])), k)
        return classes[0], np.exp(log_prob[0])

    def draw(self, history: np.ndarray, uniform: np.ndarray, skip: int) -> np.ndarray:
        """One class for each history; never `skip` (-1: all may be drawn)."""
        return self.model.sample_at(self._find(self.recent(history)), uniform, skip)


class RowPredictor(_Windows):
    """Answers from the rows of any classifier of windows of class ids.

    Parameters
    ----------
    estimator : classifier
        Fitted on windows of `max_depth` ids.

    encoder : SentenceEncoder
        Text to tokens, which are class ids; the start mark and lost words follow.

    max_depth : int
        Columns of a window.
    """

    def __init__(
        self, estimator: BaseEstimator, encoder: SentenceEncoder, max_depth: int
    ):
        self.estimator, self.encoder, self.max_depth = estimator, encoder, max_depth

    def score(self, sentences: list) -> tuple[np.ndarray, np.ndarray, None]:
        """Natural log-probability and token of every position; no depth."""
        windows, target = self.windows(sentences)
        log_prob = target_log_proba(self.estimator, windows, target)
        # A word of the vocabulary that the classifier never saw.
        log_prob[np.isnan(log_prob) & (target != self.encoder.lost)] = -np.inf
        return log_prob, target, None

    def group_log_proba(
        self, sentences: list, group: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """ln of the sum over a group of classes at every predicted position."""
        windows, _ = self.windows(sentences)
        out = np.empty(len(windows))
        n_groups = int(group.max()) + 1
        ones = np.ones(group.size)
        member = sp.csr_array(
            (ones, (group, np.arange(group.size))), shape=(n_groups, group.size)
        )
        for rows in row_blocks(out.size, rows_per_block(group.size)):
            mass = member @ self._rows(windows[rows]).T
            with np.errstate(divide="ignore"):
                out[rows] = np.log(mass[wanted[rows], np.arange(mass.shape[1])])
        return out

    def log_rows(self, windows: np.ndarray) -> np.ndarray:
        """Log-probabilities of all classes after each window."""
        rows = self._rows(windows)
        with np.errstate(divide="ignore"):
            return np.log(rows, out=rows)

    def _rows(self, windows):
        if hasattr(self.estimator, "predict_proba"):
            rows = self.estimator.predict_proba(windows)
        else:
            rows = np.exp(self.estimator.predict_log_proba(windows))
        proba = np.zeros((windows.shape[0], self.encoder.labels.n_classes))
        proba[:, self.estimator.classes_] = rows
        return proba

    def best(self, history: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable classes and their probabilities."""
        proba = self._rows(self.recent(history[None]))[0]
        classes = np.argsort(-proba, kind="stable")[:k]
        return classes, proba[classes]

    def draw(self, history: np.ndarray, uniform: np.ndarray, skip: int) -> np.ndarray:
        """One class for each history; never `skip` (-1: all may be drawn)."""
        rows = self._rows(self.recent(history))
        if skip >= 0:
            rows[:, skip] = 0.0
        cumulative = np.cumsum(rows, axis=1)
        # Dividing by the last entry would turn a row of zeros into NaN; scaling the
        # number instead keeps rows that do not quite sum to 1 proportional.
        at = (cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(axis=1)
        return np.minimum(at, cumulative.shape[1] - 1).astype(np.int32)


class ModelPredictor(RowPredictor):
    """Answers from a classifier that ranks and draws without whole rows."""

    def groups(self) -> np.ndarray | None:
        """The group of each class in the estimator's own grouping; None: none."""
        return self.estimator.model_.groups()

    def group_log_proba(
        self, sentences: list, group: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """ln of the sum over a group of classes at every predicted position."""
        windows, _ = self.windows(sentences)
        return self.estimator.group_log_proba(windows, group, wanted)

    def log_rows(self, windows: np.ndarray) -> np.ndarray:
        """Log-probabilities of all classes after each window."""
        return self.estimator.predict_log_proba(windows)

    def best(self, history: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable classes and their probabilities."""
        classes, log_prob = self.estimator.top_k(self.recent(history[None]), k)
        return classes[0], np.exp(log_prob[0])

    def draw(self, history: np.ndarray, uniform: np.ndarray, skip: int) -> np.ndarray:
        """One class for each history; never `skip` (-1: all may be drawn)."""
        return self.estimator.sample_at(self.recent(history), uniform, skip)
