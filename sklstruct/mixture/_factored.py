"""FactoredLM: the class of the next word, then the word in its class, to any depth."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from .._checkpoint import Checkpoint
from .._compat import N_JOBS, BaseEstimator, HasMethods, Interval, StrOptions
from .._likelihood import check_probabilities
from ..backoff import Distribution
from ..backoff._distribution import take
from ..loglinear import StructuredLogLinearLM
from ..symbols import Labels
from ..taxonomy import Forest, Taxonomy, as_taxonomy
from ..word_classes import ExchangeClustering
from ..word_classes._refiner import clustering_cache, clustering_key, fit_clustering
from ._base import ModelClassifier
from ._history import LEAST, find_concentrations, history_of
from ._models import FactoredModel, paths
from ._sources import TokenSources
from ._sub_models import (
    ComposedSubModel,
    GroupFit,
    SubModel,
    sub_model_of,
)
from ._transforms import GroupedSamples, TransformCache


class FactoredSubModel(ComposedSubModel):
    """The sub-model of a `FactoredLM`: a tree, and sub-models for groups and words.

    The first estimator is for nodes with groups below them, the second for nodes with
    words only. With `for_gate`, a gate needs features of the contexts. `classes` are
    the labels of the outcomes; the other parameters are as in `FactoredLM`.
    """

    def __init__(
        self,
        taxonomy: Any,
        classes: np.ndarray,
        estimators: list[BaseEstimator],
        for_gate: bool,
        concentration: float | str | None = None,
        padding: Any = None,
    ) -> None:
        self.taxonomy, self.classes = taxonomy, classes
        self.estimators, self.for_gate = estimators, for_gate
        self.concentration, self.padding = concentration, padding
        super().__init__([sub_model_of(estimator, classes) for estimator in estimators])
        self.reads_history |= concentration is not None

    def learn(self, reading: TransformCache) -> Any:
        with clustering_cache(reading.clusterings):
            self.taxonomy = group_words(
                self.taxonomy, reading.X, reading.y, self.classes
            )
        self.tree = Forest.from_taxonomies([self.taxonomy])
        n_child = self.tree.n_child
        self.of_words = np.zeros(self.tree.n_nodes, dtype=bool)
        inner = np.flatnonzero(n_child)
        ended = np.concatenate([[0], np.cumsum(self.tree.node_class >= 0)])
        first = self.tree.first_child[inner]
        n_words = ended[first + n_child[inner]] - ended[first]
        self.of_words[inner] = n_words == n_child[inner]
        reading.report(
            f"{self.taxonomy.n_classes} words are in {self.taxonomy.n_leaves} classes"
        )
        n_top = np.arange(n_child[0])
        self.parts = [
            sub_model_of(model, n_top, self.for_gate) for model in self.estimators
        ]
        if any(isinstance(part, FactoredSubModel) for part in self.parts):
            raise ValueError(
                "class_estimator and word_estimator cannot be a FactoredLM; give a "
                "taxonomy with more levels"
            )
        return (*super().learn(reading), *self._histories(reading))

    def read(self, reading: TransformCache) -> Any:
        return (*super().read(reading), *self._histories(reading))

    def source(self, sources: TokenSources) -> Any:
        if self.concentration is None:
            return super().source(sources)
        words = history_of(sources.tokens[:, None], self.classes, self.padding).tokens
        same = words[: self.classes.size] == sources.tokens[: self.classes.size]
        return (*super().source(sources), None if same.all() else words)

    def _histories(self, reading):
        if self.concentration is None:
            return []
        return [history_of(reading.text, self.classes, self.padding)]

    def fit(self, task: GroupFit) -> list[Distribution]:
        if task.sizes.size > 1:
            raise ValueError(
                "class_estimator and word_estimator cannot hold a FactoredLM; give a "
                "taxonomy with more levels"
            )
        tree = self.tree
        path = paths(tree)
        models: list[Distribution | None] = [None] * tree.n_nodes
        for p, (part, what) in enumerate(zip(self.parts, ("classes", "words"))):
            nodes = np.flatnonzero((self.of_words == bool(p)) & (tree.n_child >= 2))
            if nodes.size == 0:
                continue
            number = np.full(tree.n_nodes + 1, -1, dtype=np.int32)  # the last: no node
            number[nodes] = np.arange(nodes.size)
            before: Any = None
            if task.reuse_weights_of is not None:
                earlier = cast(FactoredModel, task.reuse_weights_of[0])
                # Models of another taxonomy, which was learned without the held-out
                # samples.
                of_words = earlier.of_words.tolist()
                before = [m for m, w in zip(earlier.models, of_words) if m and w == p]
            held_out = task.held_out
            own = task._replace(
                samples=_steps(task.samples, p, path, number),
                sizes=tree.n_child[nodes].astype(np.int64),
                held_out=held_out and _steps(held_out, p, path, number),
                reuse_weights_of=before,
            )
            for v, model in zip(nodes.tolist(), part.fit(own)):
                models[v] = model
            task.report(f"{nodes.size} model(s) of {what} are fitted")
        if self.concentration is None:
            return [FactoredModel(tree, models, self.of_words)]
        found = self._concentrations(task.samples, path)
        return [FactoredModel(tree, models, self.of_words, *found)]

    def _concentrations(self, samples, path):
        """(concentration of each node, its share of the samples of its parent)."""
        tree, (_, _, history) = self.tree, samples.contexts
        n_nodes = tree.n_nodes
        concentration, share = np.full(n_nodes, np.inf), np.zeros(n_nodes)
        for node_of, child_of in zip(*path):
            # The node of each word on this level, or n_nodes if the word has no such
            # node.
            there = node_of >= 0
            node = np.where(there, tree.first_child[node_of] + child_of, n_nodes)
            node = np.append(node, n_nodes).astype(np.int32)
            known = np.minimum(history.tokens, there.size)
            tokens = np.where(known < 0, np.int32(-1), node[known])
            rows = np.flatnonzero(there[samples.outcome])
            found, shares = find_concentrations(
                history.with_tokens(tokens)[rows], node[samples.outcome[rows]],
                samples.weight[rows], tree.parent, n_nodes,
            )  # fmt: skip
            here = np.unique(node_of[there])
            concentration[here] = found[here]
            share += shares
        if self.concentration != "auto":
            concentration[:] = self.concentration
        return concentration, share


def _steps(samples, p, path, number):
    """The steps of the samples' paths that begin at the nodes with a `number`, in the
    order of the samples."""
    index, groups, outcomes = [], [], []
    for node_of, child_of in zip(*path):
        group = number[node_of[samples.outcome]]
        rows = np.flatnonzero(group >= 0)
        index.append(rows)
        groups.append(group[rows])
        outcomes.append(child_of[samples.outcome[rows]])
    index, group, outcome = map(np.concatenate, (index, groups, outcomes))
    if len(groups) > 1:
        # Samples keep their order, because a mixture holds out the last samples.
        order = np.argsort(index, kind="stable")
        index, group, outcome = index[order], group[order], outcome[order]
    contexts = samples.contexts[p]
    picked = GroupedSamples(contexts, group, outcome, samples.weight)
    if index.size == samples.outcome.size and (np.diff(index) == 1).all():
        return picked
    return GroupedSamples(take(contexts, index), group, outcome, samples.weight[index])


class FactoredLM(ModelClassifier):
    r"""Language model that is factored along a tree of the words.

    .. math::
        P(y \mid x) = P(g(y) \mid x)\, P(y \mid g(y), x)

    with g(y) the class of word y and, for a tree of words of any depth with the path
    :math:`v_0, v_1, \ldots, y` from its root,

    .. math::
        P(y \mid x) = \prod_j P(v_{j+1} \mid v_j, x) .

    Each node of the tree has a model over its children, so the probabilities of all
    words sum to 1. The probability of one word needs one look-up per level of the tree,
    and the probabilities of all words need one look-up per node.

    Parameters
    ----------
    taxonomy : clusterer, array-like, mapping or Taxonomy, default=None
        The classes of words.

        - a clusterer of words with `fit` and `classes_of`, such as
          `sklstruct.word_classes.ExchangeClustering`; a clone is fitted to X and y. The
          clone reads each sample of positive weight once, without its weight. A
          clusterer inside a `sklearn.frozen.FrozenEstimator` is not fitted again.
          `classes_of` also gives the class of unknown words;
        - a list of such clusterers, from coarse to fine;
        - array-like of int of shape (n_classes,): the class of each of ``classes_``;
        - a mapping from words to classes, a `sklstruct.taxonomy.Taxonomy`, or another
          form of `sklstruct.taxonomy.as_taxonomy`, of any depth.

        None: ``ExchangeClustering(100, offsets=(-1, 1))``, or half as many classes as
        words if there are fewer than 200 words.

    class_estimator : classifier, default=None
        The model of each node whose children are not all words. Any classifier with
        probabilities, or a pipeline that ends in one; the transforming steps are fitted
        once, to X and the words y. None:
        ``StructuredLogLinearLM(penalty="l2", lam=0.3, alpha=0.87)``.

    word_estimator : classifier, default=None
        The model of each node whose children are words. A clone is fitted for each
        node, to the samples of the words below the node. None: as `class_estimator`.

    concentration : float, "auto" or None, default=None
        :math:`\theta`, at least 1e-6: raises the probability of words of the history.
        Let a(y) be the number of times that word y occurs in the history, a(g) the
        number of words of class g in the history, and r(g) the share of class g in the
        training samples. The probabilities of a word within its class and of the class
        (with the normaliser Z) become

        .. math::
            \frac{a(y) + \theta_g\, P(y \mid g, x)}{a(g) + \theta_g}, \qquad
            \frac{P(g \mid x)}{Z(x)}
            \sqrt{\frac{a(g) + \theta\, r(g)}{r(g) \sum_h (a(h) + \theta\, r(h))}} .

        "auto": for each node of the tree the maximum likelihood of the training
        samples, with shares instead of P; infinite for classes whose words do not occur
        again more often than by chance [3]_ [4]_. None: the history is not used. The
        history is the window. In a :class:`~sklstruct.language_model.LanguageModel` the
        history is the sentence so far, up to 256 symbols.

    padding : object, default=None
        The symbol that marks missing history, for the default estimators and the counts
        of `concentration`; given estimators have their own parameter `padding`.

    checkpoint : str, os.PathLike or Checkpoint, default=None
        A folder (a name without a suffix) for the fits of the default models, so only
        with ``class_estimator=None``. Estimators that you pass have a separate
        parameter. See `sklstruct.StructuredLogLinearLM`.

    classes : array-like of shape (n_classes,), default=None
        All symbols that can be predicted, in any order. None: the symbols of y.

    n_jobs : int, default=None
        Number of threads over the models of the nodes. Results do not depend on it.

    verbose : int, default=0
        Print progress at every `verbose`-th step; 0 is silent.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted.

    taxonomy_ : Taxonomy
        The tree over ``classes_``.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    MixtureLM : Can be a factor, and can contain factored models.
    sklstruct.HierarchicalClassifier : Classification of features along a tree.

    Notes
    -----
    With one class, the model is the model of `word_estimator`.

    References
    ----------
    .. [1] J. Goodman, "Classes for fast maximum entropy training", ICASSP 2001.
    .. [2] A. Nelakanti, "Structured sequential models for language", thesis,
       2014, chapter 5 (a structured model at each node of a tree of words).
    .. [3] R. E. Madsen, D. Kauchak, C. Elkan, "Modeling word burstiness using the
       Dirichlet distribution", ICML 2005.
    .. [4] R. Kneser, J. Peters, D. Klakow, "Language model adaptation using dynamic
       marginals", Eurospeech 1997 (the root).

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.mixture import FactoredLM
    >>> text = ["the cat sat", "the dog sat", "a cat ran", "a dog ran"] * 5
    >>> groups = [["a", "the"], ["cat", "dog"], ["ran", "sat"], ["</s>"], ["<unk>"]]
    >>> model = LanguageModel(FactoredLM(groups), max_depth=2).fit(text)
    >>> [word for word, _ in model.predict_next("the", 2)]
    ['cat', 'dog']
    """

    _parameter_constraints: dict = {
        "taxonomy": "no_validation",
        "class_estimator": [HasMethods(["fit"]), None],
        "word_estimator": [HasMethods(["fit"]), None],
        "concentration": [
            Interval(numbers.Real, LEAST, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "padding": "no_validation",
        "checkpoint": [str, os.PathLike, Checkpoint, None],
        "classes": ["array-like", None],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        taxonomy: Any = None,
        class_estimator: BaseEstimator | None = None,
        word_estimator: BaseEstimator | None = None,
        *,
        concentration: float | str | None = None,
        padding: Any = None,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.taxonomy = taxonomy
        self.class_estimator = class_estimator
        self.word_estimator = word_estimator
        self.concentration = concentration
        self.padding = padding
        self.checkpoint = checkpoint
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklstruct_sub_model__(self, classes: np.ndarray, for_gate: bool) -> SubModel:
        self._validate_params()
        if self.checkpoint is not None and not self.__sklstruct_resumable__():
            raise ValueError(
                "checkpoint is for the default models, and "
                "class_estimator is given; set checkpoint of the given "
                "estimators, and leave checkpoint None here"
            )
        default = StructuredLogLinearLM(
            penalty="l2",
            lam=0.3,
            alpha=0.87,
            padding=self.padding,
            checkpoint=Checkpoint.of(self.checkpoint, self, folder=True),
        )
        of_classes = default if self.class_estimator is None else self.class_estimator
        of_words = of_classes if self.word_estimator is None else self.word_estimator
        check_probabilities("class_estimator", of_classes)
        check_probabilities("word_estimator", of_words)
        taxonomy = self.taxonomy
        if taxonomy is None:
            taxonomy = ExchangeClustering(
                max(1, min(100, classes.size // 2)),
                offsets=(-1, 1),
                padding=self.padding,
            )
        estimators = [of_classes, of_words]
        return FactoredSubModel(
            taxonomy, classes, estimators, for_gate, self.concentration, self.padding
        )

    def __sklstruct_resumable__(self) -> bool:
        return self.class_estimator is None

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters with which the estimator learns from class ids."""
        settings = {**super().__sklstruct_ids__(labels), "padding": -1}
        taxonomy = self.taxonomy
        clusterers = _clusterers(taxonomy)
        if clusterers and all(isinstance(c, FrozenEstimator) for c in clusterers):
            # Frozen clusterers were fitted to words, and do not know ids.
            columns = [np.asarray(c.classes_of(labels.classes)) for c in clusterers]
            settings["taxonomy"] = _nested(columns, np.arange(labels.n_classes))
        elif _of_labels(taxonomy):
            tree = as_taxonomy(taxonomy, labels.classes)
            ids = labels.encode_targets(tree.classes)
            settings["taxonomy"] = Taxonomy(
                tree.parent, tree.leaf_of_class, ids, names=tree.names
            )
        return settings

    def _fitted(self):
        self.taxonomy_ = self.part_.taxonomy


def _clusterers(taxonomy):
    """The clusterers of the parameter `taxonomy`, an empty list for other values."""
    items = taxonomy if isinstance(taxonomy, list) else [taxonomy]
    if items and all(hasattr(item, "classes_of") for item in items):
        return items
    return []


def _of_labels(taxonomy):
    """True if the parameter `taxonomy` contains words."""
    if taxonomy is None or _clusterers(taxonomy):
        return False
    if isinstance(taxonomy, Taxonomy | Mapping):
        return True
    try:
        given = np.asarray(taxonomy)
        if not given.ndim:
            raise TypeError(
                "taxonomy must be a clustering of words, such as ExchangeClustering(2),"
                " a class for each word, or a tree as Taxonomy or as_taxonomy take it, "
                f"got {taxonomy!r}"
            )
        return given.ndim != 1 or given.dtype.kind not in "iu"
    except ValueError:  # nested lists of unequal lengths
        return True


def group_words(
    taxonomy: Any, X: Any, y: np.ndarray | None, classes: np.ndarray
) -> Taxonomy:
    """The tree over `classes` that the parameter `taxonomy` of `FactoredLM` describes.

    X, y: the samples that clusterers are fitted to.
    """
    clusterers = _clusterers(taxonomy)
    if clusterers:
        columns = []
        for clusterer in clusterers:
            if not isinstance(clusterer, FrozenEstimator):
                clusterer = clone(clusterer)
                clusterer = fit_clustering(clustering_key(clusterer), clusterer, X, y)
            columns.append(np.asarray(clusterer.classes_of(classes)))
        return _nested(columns, classes)
    if not _of_labels(taxonomy):
        labels = np.asarray(taxonomy)
        if labels.shape != classes.shape:
            raise ValueError(
                f"taxonomy must give the class of each of the {classes.size} symbols "
                f"that can be predicted, in the order of classes_, got shape "
                f"{labels.shape}"
            )
        return _nested([labels], classes)
    return as_taxonomy(taxonomy, classes)


def _nested(columns, classes):
    """The tree of clusterings from coarse to fine; a class is split by the next
    clustering."""
    parents = [np.array([-1])]
    node, n_nodes = np.zeros(classes.size, dtype=np.int64), 1
    for labels in columns:
        if labels.shape != classes.shape:
            raise ValueError(
                f"taxonomy: classes_of of the clusterer gave shape {labels.shape} for "
                f"{classes.size} symbols"
            )
        found, label = np.unique(labels, return_inverse=True)
        key, inverse = np.unique(node * found.size + label, return_inverse=True)
        parents.append(key // found.size)
        node = n_nodes + inverse
        n_nodes += key.size
    return Taxonomy(np.concatenate(parents), node, classes)
