"""TextClassifier: texts to calibrated probabilities of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._checks import (
    as_indicator,
    check_count,
    check_samples,
    require_method,
    strings_as_objects,
    weight_keyword,
)
from .._compat import (
    N_JOBS,
    BaseEstimator,
    HasMethods,
    Interval,
    StrOptions,
    TextEstimator,
    _align_api_if_sparse,
    _fit_context,
    _safe_indexing,
    available_if,
    check_weights,
)
from .._likelihood import TopKMixin
from .._parallel import row_blocks, rows_per_block
from ..hierarchical import HierarchicalClassifier
from ..linear import LinearClassifier
from ..linear._labels import check_labels
from ..symbols import encode, object_array
from ..taxonomy import Taxonomy
from ._choice import NAMED, Draw, vectorizer_of
from ._prior import with_prior, without_ngrams
from ._reduced import ReducedMixin
from ._scores import text_scores
from ._second import answer_of, pays, second_stage
from ._targets import (
    are_several,
    label_columns,
    label_lists,
    label_shares,
    learn_names,
    rows_are_equal,
)
from ._texts import Texts, as_texts
from ._vectorizer import NgramVectorizer, equal_parts, names_of, rows_of

# Texts per block of a prediction.
_BLOCK = 1 << 14

_OURS = HierarchicalClassifier, LinearClassifier


def _has(method: str) -> Any:
    """A check for `available_if`: whether the classifier of the rows has a method."""

    def check(model: TextClassifier) -> bool:
        estimator = getattr(model, "estimator_", model.estimator)
        if estimator is not None:
            require_method(estimator, method)
        return True

    return check


class TextClassifier(ReducedMixin, TopKMixin, TextEstimator):
    r"""Classifier of texts: n-grams and a calibrated linear model.

    Each text is transformed to a row of tf-idf values of its n-grams (`NgramVectorizer`
    with ``sublinear_tf=True``). A `HierarchicalClassifier` computes the probabilities
    of the classes from this row.

    Parameters
    ----------
    features : {"auto", "letters", "words", "both"} or vectorizer, default="auto"
        The n-grams.

        - "letters": 1 to 4 letters inside words, for languages and short texts.
        - "words": 1 or 2 words.
        - "both": words and letters, for topics and intents. Both parts of a row have
          the length :math:`1/\sqrt2`.
        - "auto": "letters" or "both". At most 5000 texts, drawn at random, are divided
          into halves. A linear classifier learns one half. The n-grams with the smaller
          log-loss on the other half are chosen. If the difference is at most two
          standard errors, the halves also change their places. If there are more texts
          or labels than were compared, "both" is chosen unless "letters" is better by
          two standard errors: a model of more texts gains more from words. "letters" is
          chosen if there are too few texts, or no n-gram of "words".
        - An `NgramVectorizer`, or another transformer of texts, which may learn from
          the labels too; it is cloned.

    ngram_range : tuple (shortest, longest), default=None
        Lengths of the n-grams of "letters" or "words"; for "both" of the letters. 1 <=
        shortest <= longest. None: the lengths above. "auto" and a vectorizer need None.

    min_df : int or float, default=None
        Least number of training texts with an n-gram. An int of at least 1 is a number
        of texts; a float from 0 to 1 is a fraction. None: 1 for words if there are at
        most 100 000 texts, and for a single text; otherwise 2. Must be None with a
        vectorizer.

    estimator : classifier, default=None
        Classifier of the rows. None: a `HierarchicalClassifier` of
        ``LinearClassifier(C=C, weight_threshold=0.02, tol=0.05)``, which is flat up to
        100 classes. With ``threshold="f1"`` there may be a second stage (see Notes).
        With another classifier the model has `predict_proba` and `decision_function` if
        the classifier has them.

    C : float, default=1.0
        Inverse of the regularisation strength of the default estimator, positive.

    taxonomy : str, builder, Taxonomy, list, dict or tuple of these, default="auto"
        The tree of the default estimator, as for `HierarchicalClassifier`.

    threshold : float or "f1", default=0.5
        With several labels per text, labels with a probability above the threshold, in
        (0, 1), are predicted. "f1": the threshold of largest micro-averaged F1 on
        held-out texts. Only for the default estimator.

    n_jobs : int, default=None
        Threads over texts, and over nodes of the default estimator. None is 1 unless in
        a `joblib.parallel_config` context. The result does not depend on `n_jobs`.

    random_state : int, RandomState instance or None, default=None
        Seed of the texts that "auto" draws, and of the default estimator.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, or the numbers of the columns of y if y is an indicator matrix.

    features_ : transformer
        The fitted vectorizer; for "both" a `sklearn.pipeline.FeatureUnion` of two.

    estimator_ : classifier
        The fitted classifier of the rows (of two stages, the first stage).

    class_prior_ : ndarray of shape (n_classes,)
        The fraction of the training texts, by weight, that have each label.

    weight_threshold_ : float
        Only after `reduce` or `load`: every weight that was kept is larger than this
        fraction of the largest weight of its class.

    See Also
    --------
    NgramVectorizer : The rows alone.
    sklstruct.HierarchicalClassifier : The default classifier of the rows.

    Notes
    -----
    A text without any known n-gram (a space does not count) gets the probabilities
    ``class_prior_``, because few or no training texts have a row of zeros.

    With ``threshold="f1"``, at least 1000 texts with a label, 50 texts per label on
    average, at most 1000 labels and a `taxonomy` without labels as inner nodes, a
    second linear classifier learns each label from the probabilities of all labels
    [1]_. These probabilities come from three further fits with the trees of
    ``estimator_``, each for texts that it had not learned. The probabilities of the
    model are the mean of those of ``estimator_`` and of the second classifier.

    References
    ----------
    .. [1] S. Godbole and S. Sarawagi, "Discriminative methods for multi-labeled
       classification", PAKDD 2004.

    Examples
    --------
    >>> from sklstruct.text import TextClassifier
    >>> texts = ["the card was declined", "my card is blocked", "reset the password",
    ...          "password forgotten", "card payment failed", "new password please"]
    >>> labels = ["card", "card", "login", "login", "card", "login"]
    >>> model = TextClassifier("words", min_df=1, random_state=0).fit(texts, labels)
    >>> model.predict(["which card?", "lost my password"]).tolist()
    ['card', 'login']
    """

    _parameter_constraints: dict = {
        "features": [StrOptions({"auto", *NAMED}), HasMethods(["fit", "transform"])],
        "ngram_range": [tuple, None],
        "min_df": [*NgramVectorizer._parameter_constraints["min_df"], None],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "C": [Interval(Real, 0, None, closed="neither")],
        **{
            name: HierarchicalClassifier._parameter_constraints[name]
            for name in ("taxonomy", "threshold")
        },
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        features: Any = "auto",
        *,
        ngram_range: tuple[int, int] | None = None,
        min_df: float | None = None,
        estimator: BaseEstimator | None = None,
        C: float = 1.0,
        taxonomy: str | Taxonomy | Sequence | Mapping | Any = "auto",
        threshold: float | Literal["f1"] = 0.5,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.features = features
        self.ngram_range = ngram_range
        self.min_df = min_df
        self.estimator = estimator
        self.C = C
        self.taxonomy = taxonomy
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> TextClassifier:
        """Learn the n-grams and the classifier.

        Parameters
        ----------
        X : iterable of str
            Texts: a list, an array, a Series, an Arrow array.

        y : array-like of shape (n_texts,), or indicator of (n_texts, n_labels)
            Labels. Several labels per text as a list of lists, tuples or sets of
            strings, or as a dense or sparse matrix of 0 and 1.

        sample_weight : array-like of shape (n_texts,), default=None
            Non-negative weights of the texts for the classifier. Texts of weight 0 are
            left out; the n-grams and their idf do not depend on other weights.

        Returns
        -------
        self : TextClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is one string or has an entry that is not a string, if no n-gram is
            left, if parameters contradict each other, or as in the `fit` of the
            classifier.
        """
        self._check_params()
        texts = as_texts(X, least=1)
        if y is None:
            raise ValueError("y must hold the labels of the texts, got None")
        if isinstance(y, Iterator):
            y = list(y)
        lists, names = label_lists(y), None
        if lists is not None:
            y = lists
        elif not sp.issparse(y):
            y = check_labels(strings_as_objects(y))
            check_classification_targets(y)
        check_samples(len(texts), y.shape[0] if hasattr(y, "shape") else len(y))
        weight = check_weights(sample_weight, np.empty(len(texts)))
        if not weight.all():
            kept = np.flatnonzero(weight)
            texts, y = texts[kept], _safe_indexing(y, kept)
            sample_weight = weight = weight[kept]
        classifier = self._classifier()
        if lists is not None:  # many classifiers do not accept a sparse indicator
            y, names = learn_names(y, sparse=isinstance(classifier, _OURS))
        named = partial(
            vectorizer_of,
            n_texts=len(texts),
            ngram_range=self.ngram_range,
            min_df=self.min_df,
            n_jobs=self.n_jobs,
        )
        rows = None
        if not isinstance(self.features, str):
            features = clone(self.features)
        elif self.features == "auto":
            draw = Draw.of(y, weight, check_random_state(self.random_state))
            features, rows = draw.chosen(texts, named, self.C)
        else:
            features = named(self.features)
        if rows is None:
            rows = rows_of(features, texts, fit=True, y=y)
        if without_ngrams(features, rows).all():
            raise ValueError(
                "X holds no n-gram that is learned: each text is empty, or its n-grams "
                "are in fewer than min_df texts; set min_df=1 to learn all n-grams"
            )
        given = {}
        if sample_weight is not None:
            given[weight_keyword(classifier) or "sample_weight"] = sample_weight
        self.estimator_ = classifier.fit(rows, y, **given)
        self.features_ = features
        self.reduced_ = self.second_ = None
        if names is None and are_several(y):
            names = np.arange(y.shape[1])
        self.classes_ = self.estimator_.classes_ if names is None else names
        if isinstance(self.estimator_, _OURS) and self.estimator_.multilabel_:
            Y = as_indicator(y, "y")
            implied = self.estimator_._implied_labels(Y.shape[1])
            if implied is not None:
                y = implied.close(Y)
            elif self.threshold == "f1" and pays(Y):
                rng = check_random_state(self.random_state)
                self.second_ = second_stage(self.estimator_, rows, Y, weight, rng)
        self.class_prior_ = label_shares(y, self.classes_, weight)
        return self

    def _check_params(self) -> None:
        """ValueError for parameters that would have no effect."""
        named = isinstance(self.features, str)
        if self.ngram_range is not None and self.features not in NAMED:
            given = "a vectorizer: set ngram_range of the vectorizer"
            raise ValueError(
                f"ngram_range={self.ngram_range!r} needs features to be "
                f"{' or '.join(map(repr, NAMED))}, got "
                f"{repr(self.features) if named else given}"
            )
        if not named and self.min_df is not None:
            raise ValueError(
                f"min_df={self.min_df!r} is not used with a vectorizer: set min_df of "
                "the vectorizer"
            )
        if self.estimator is None:
            return
        default = {"C": 1.0, "taxonomy": "auto", "threshold": 0.5}
        for name, value in default.items():
            given = getattr(self, name)
            if not isinstance(given, type(value)) or given != value:
                raise ValueError(
                    f"{name}={given!r} is for the default estimator: set {name} of the "
                    "estimator instead"
                )

    def _classifier(self) -> Any:
        """The unfitted classifier of the rows."""
        if self.estimator is not None:
            return clone(self.estimator)
        # With tf-idf rows a smaller tol changes log-losses by less than 0.5 %. On
        # nearly all data sets the squared hinge has the larger accuracy, and on most
        # the smaller log-loss. loss="auto" would often choose wrong.
        linear = LinearClassifier(C=self.C, weight_threshold=0.02, tol=0.05)
        return HierarchicalClassifier(
            self.taxonomy,
            estimator=linear,
            threshold=self.threshold,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    # --------------------------------------------------------------- prediction

    def _rows(self, texts: Texts) -> tuple[Any, NDArray]:
        """(rows of texts, for `estimator_`; whether texts have no known n-gram)."""
        if self.reduced_ is None:
            rows = rows_of(self.features_, texts)
            return rows, without_ngrams(self.features_, rows)
        vectorizers = list(equal_parts(self.features_).values())
        return text_scores(vectorizers, self.reduced_.weights, texts, self.n_jobs)

    def _given(self, method: str, rows: Any, *args: Any, **options: Any) -> Any:
        """The result of a method for rows, by `estimator_` or by both stages."""
        model = self.estimator_
        if self.second_ is not None:
            log_proba = model.predict_log_proba(rows)
            return answer_of(self.second_, method, log_proba, self.n_jobs)
        with np.errstate(divide="ignore"):  # the logarithm of 0
            if method == "predict_log_proba" and not hasattr(model, method):
                return np.log(self._given("predict_proba", rows))
            found = getattr(model, method)(rows, *args, **options)
        if isinstance(found, list):
            return label_columns(found, model.classes_, method)
        return found

    def _answer(self, method: str, X: Any, *args: Any, **options: Any) -> Any:
        """The result of a method for texts, computed block by block."""
        check_is_fitted(self)
        texts = as_texts(X, least=1)
        found = []
        for i in range(0, len(texts), _BLOCK):
            rows, empty = self._rows(texts[i : i + _BLOCK])
            given = self._given(method, rows, *args, **options)
            found.append(with_prior(self, method, given, empty))
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*found))
        if len(found) > 1 and sp.issparse(found[0]):
            return _align_api_if_sparse(sp.vstack(found, format="csr"))
        return np.concatenate(found) if len(found) > 1 else found[0]

    def predict(self, X: Any) -> NDArray:
        """The most probable class of each text.

        Parameters
        ----------
        X : iterable of str
            Texts.

        Returns
        -------
        y : ndarray of shape (n_texts,)
            Labels. With several labels per text an indicator matrix with the columns of
            ``classes_``, with the labels whose probability is above the threshold.

        Raises
        ------
        ValueError
            If X is one string, or has an entry that is not a string.
        """
        return self._answer("predict", X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray:
        r""":math:`P(y \mid \text{text})` for every class.

        Parameters
        ----------
        X : iterable of str
            Texts.

        Returns
        -------
        proba : ndarray of shape (n_texts, n_classes)
            With one label per text rows sum to 1. Columns are in the order of
            ``classes_``.

        Raises
        ------
        ValueError
            As in `predict`.
        """
        return self._answer("predict_proba", X)

    @available_if(_has("predict_proba"))
    def predict_log_proba(self, X: Any) -> NDArray:
        """Natural logarithm of `predict_proba`.

        Parameters
        ----------
        X : iterable of str
            Texts.

        Returns
        -------
        log_proba : ndarray of shape (n_texts, n_classes)

        Raises
        ------
        ValueError
            As in `predict`.
        """
        return self._answer("predict_log_proba", X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray:
        """`decision_function` of the classifier of the rows, even for rows of zeros.

        With two stages these are the log-odds of `predict_proba`.

        Parameters
        ----------
        X : iterable of str
            Texts.

        Returns
        -------
        scores : ndarray of shape (n_texts, n_classes), or (n_texts,) for two classes

        Raises
        ------
        ValueError
            As in `predict`.
        """
        return self._answer("decision_function", X)

    def _find_top_k(self, X, k):
        model = self.estimator_
        if isinstance(model, _OURS) and not model.multilabel_:
            labels, log_proba = self._answer(
                "predict_top_k", X, k, return_log_proba=True
            )
            code = encode(labels.ravel(), self.classes_)
            return code.reshape(labels.shape), log_proba
        every = self._answer("predict_log_proba", X)
        best = np.argsort(-every, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(every, best, axis=1)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the fraction of the texts whose label is predicted.

        Parameters
        ----------
        X : iterable of str
            Texts.

        y : array-like of shape (n_texts,), or (n_texts, n_labels)
            True labels, in the form of the y of `fit`. With several labels per text all
            labels must be right. A label that `fit` has not seen counts as not
            predicted.

        sample_weight : array-like of shape (n_texts,), default=None
            Weights of the texts.

        Returns
        -------
        accuracy : float
        """
        check_is_fitted(self)
        lists = label_lists(y)
        if lists is None or self.classes_.dtype.kind in "iu":
            return super().score(X, y, sample_weight)
        found = self.predict(X)
        if found.ndim == 1:
            raise ValueError("y holds lists of labels, and y of fit held single labels")
        right = rows_are_equal(lists, found, self.classes_)
        return float(np.average(right, weights=check_weights(sample_weight, right)))

    def explain(
        self, text: str, label: Any = None, k: int = 10
    ) -> list[tuple[str, float]]:
        r"""The n-grams of a text that most change the log-probability of a label.

        The change by n-gram g is, in nats and for every classifier,

        .. math::
            \log P(y \mid x) - \log P(y \mid x \text{ with } x_g = 0).

        Parameters
        ----------
        text : str
            The text.

        label : object, default=None
            An entry of ``classes_``. None: the most probable label.

        k : int, default=10
            Largest number of positive, and of negative, changes; at least 1.

        Returns
        -------
        changes : list of tuple (n-gram, change)
            The k largest positive changes, then the k lowest negative changes (fewer if
            there are fewer); largest change first. The list is empty for a label of
            probability 0. With "both", n-grams have the prefix ``words__`` or
            ``letters__``.

        Raises
        ------
        ValueError
            If `text` is not a string, `label` is not in ``classes_`` or the vectorizer
            does not name its n-grams.
        """
        if not isinstance(text, str):
            raise ValueError(f"text must be one string, got {type(text).__name__}")
        k = check_count("k", k, 1)
        check_is_fitted(self, "estimator_")
        code = -1
        if label is not None:
            code = int(encode(object_array([label]), object_array(self.classes_))[0])
            if code < 0:
                raise ValueError(f"label={label!r:.60} is not in classes_")
        row = sp.csr_matrix(rows_of(self.features_, as_texts([text])))
        n, found = row.nnz, []
        # The row itself, then the row without its first entry, its second entry, ...
        for part in row_blocks(n + 1, rows_per_block(4 * n + self.classes_.size)):
            size = part.stop - part.start
            data = row.data * ~np.eye(size, n, part.start - 1, dtype=bool)
            columns, ends = np.tile(row.indices, size), np.arange(size + 1) * n
            shape = size, row.shape[1]
            rows = sp.csr_matrix((data.ravel(), columns, ends), shape=shape)
            rows.eliminate_zeros()
            empty = without_ngrams(self.features_, rows)
            if self.reduced_ is not None:
                rows = self.reduced_.weights.scores(rows)
            log_proba = self._given("predict_log_proba", rows)
            log_proba = with_prior(self, "predict_log_proba", log_proba, empty)
            if code < 0:
                code = int(log_proba[0].argmax())
            found.append(log_proba[:, code])
        log_proba = np.concatenate(found)
        with np.errstate(invalid="ignore"):
            change = log_proba[0] - log_proba[1:]
        order = np.argsort(-change, kind="stable")
        up, down = order[change[order] > 0][:k], order[change[order] < 0][-k:]
        chosen = np.concatenate([up, down])
        names = names_of(self.features_, row.indices[chosen])
        return list(zip(names, change[chosen].tolist()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
