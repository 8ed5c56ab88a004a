"""HierarchicalClassifier: multinomial classifiers along a taxonomy of classes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from .._checks import (
    check_sparse,
    check_squares,
)
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _align_api_if_sparse,
    _check_sample_weight,
    _fit_context,
    _routing_enabled,
    available_if,
    with_callbacks,
)
from .._docs import shared_docs
from .._parallel import ThreadMap
from .._progress import Progress
from ..linear import LinearClassifier
from ..linear._labels import check_fold, check_threshold, read_training
from ..linear._samples import check_class_weight
from ..linear._targets import Targets
from ..symbols import encode
from ..taxonomy import TAXONOMY_BUILDERS, Forest, Taxonomy, TaxonomyBuilder
from ..taxonomy._labels import as_labels
from ._chain_nodes import ChainNodes, is_chain, too_wide
from ._dual_nodes import DualNodes
from ._estimator_nodes import EstimatorNodes
from ._inner_labels import InnerLabels
from ._label_problems import LabelProblems
from ._node_answers import NodeAnswersMixin
from ._nodes import NodeModels, TrainingSet
from ._problems import NodeProblems, outcome_bounds
from ._searches import StrengthSearch, plain_logistic
from ._trees import Limits, flat_pays, tree_sources

# weight_threshold of the default node model of sparse X.
_SPARSE_THRESHOLD = 0.02

# Largest n_taxonomies; more trees hardly change the mean.
_MOST_TREES = 10_000


def _learns_batches(model: HierarchicalClassifier) -> bool:
    """True if the parameters allow `partial_fit`; AttributeError if they do not."""
    to_learn = isinstance(model.taxonomy, str | tuple) or hasattr(
        model.taxonomy, "build"
    )
    fault = None
    if not isinstance(model.estimator, LinearClassifier | None):
        fault = "estimator=None or a LinearClassifier"
    elif model.estimator is not None and not (
        model.estimator.solver != "quasi_newton" and model.estimator.penalize_intercept
    ):
        fault = (
            'a LinearClassifier with solver="auto" or "dual" and '
            "penalize_intercept=True: batches are learned in the dual"
        )
    elif model.n_taxonomies > 1:
        fault = "n_taxonomies=1"
    elif model.prediction == "greedy":
        fault = 'another prediction than "greedy"'
    elif isinstance(model.class_weight, str):
        fault = "class_weight=None or a dict"
    elif to_learn and model.max_depth != 0:
        fault = "a given taxonomy; that of a fitted model is its taxonomy_"
    elif not hasattr(model, "nodes_"):
        pass
    elif not isinstance(model.nodes_, DualNodes) or model.nodes_.several:
        fault = "a model whose nodes are calibrated, with one label"
    elif len(model.taxonomies_) > 1:
        fault = "a model of one tree"
    if fault is not None:
        raise AttributeError(f"partial_fit needs {fault}")
    return True


@shared_docs(
    builders=textwrap.fill(
        ", ".join(f'"{name}" (`{b.__name__}`)' for name, b in TAXONOMY_BUILDERS.items())
        + ".",
        width=76,
    )
)
class HierarchicalClassifier(CallbackSupportMixin, NodeAnswersMixin, BaseEstimator):
    r"""Classification along a taxonomy of classes, learned from the data or given.

    With :math:`v_0, v_1, \dots, y` the path from the root of the tree to class y,

    .. math::
        P(y \mid x) = \prod_j P(v_{j+1} \mid v_j, x),

    every factor the model of a node over its children, by default a multinomial
    logistic regression,

    .. math::
        \min_{W, b}\ C \sum_i s_i \bigl(-\ln P(v_{j+1}(y_i) \mid v_j, x_i)\bigr)
        + \tfrac12 \|W\|^2 ,

    fitted to the samples whose class is below the node; nodes are independent. A
    node with two children has one weight vector. With `n_taxonomies` T > 1,
    :math:`P(y \mid x)` is the mean over T trees. Prediction computes about
    :math:`\log_2 K` dot products instead of K.

    With several labels a sample (y an indicator matrix) every child of a node is a
    yes/no question, "does the sample have a label below this child?", fitted to the
    samples with a label below the node, and

    .. math::
        P(y \mid x) = \prod_j \frac{1}{1 + e^{-t_j}},
        \qquad t_j = w\,(g(z_j) - g(-z_j)) + b,

    over the nodes on the path to label y, with the scores z of a
    `LinearClassifier`, its evidence g, and one (w, b) for routing nodes and one for
    leaves. This is the marginal probability of each label, a probabilistic label tree
    [3]_. Rows do not sum to 1.

    Parameters
    ----------
    taxonomy : str, builder, Taxonomy, list, dict or tuple of these, default="auto"
        The tree.

        - "auto": the tree of "cut". With calibrated nodes (`estimator`) its shape is
          that of `sklstruct.taxonomy.choose_shape`, and up to 100 classes it is flat.
          With plain nodes, one tree is flat up to 100 classes, and for more classes if
          K classes and m values of X (stored ones, if sparse) have
          :math:`m K \le 10^9`. It is not flat with `max_depth`, `max_leaf`, a search
          as `estimator` or ``prediction="greedy"``.
        - The name of a builder: see the table of :ref:`taxonomy`.
          With calibrated nodes its tree has the shape of "auto", and "kmeans" makes
          balanced splits by direction. The names are

          {builders}
        - A builder with its own parameters; it is cloned.
        - A given tree: a `Taxonomy`; nested lists of labels, ``[["dog", "cat"],
          ["bus"]]``; nested dicts that name the groups, ``{"animal": ["dog", "cat"],
          "vehicle": {"road": ["bus"]}}``; a map to parents, ``{"dog": "animal"}``; or
          a table of paths, ``{"bus": ("vehicle", "road")}``. See
          `sklstruct.taxonomy.as_taxonomy`. It must hold every class of y; classes that
          y lacks are left out. Lists and dicts may be nested 200 deep. With several
          labels a sample a map to parents may have columns of y as inner nodes: labels
          above a positive one are positive, whatever y says, and the probability of
          such a label is that of its node. If the label is above all others, or
          `max_depth` or `max_leaf` has merged its node, the label is a question of the
          root or of the merged leaf, and its probability is the largest of its own
          and of those below it. No label is less probable than a label below it.
        - A tuple of these: tree t is made by entry t modulo the number of entries,
          which is at most `n_taxonomies`.

    max_depth : int, default=None
        Largest depth of the tree, at least 0. Deeper nodes are merged into leaves with
        a multinomial model over their classes; 0 is the flat model. None: no limit.

    max_leaf : int, default=None
        Nodes of at most so many classes become leaves with a multinomial model over
        them, at least 1. None: the shape of "auto", or the leaves of the tree.

    estimator : classifier, search or None, default=None
        Model of a node.

        - A `LinearClassifier`: that model, with its parameters, at all nodes; its
          solver is chosen node by node. Nodes are *plain* with ``loss="log_loss"``,
          `calibration` None and `weight_threshold` 0: the probability of a class is the
          product along its path, all weights are stored, and searches need few of the
          scores. All others are *calibrated*, made for sparse X and leaves of many
          classes: the scores of the classes of a leaf enter the probability of the leaf
          (see Notes). Sparse X of more than :math:`2^{24}` classes times columns has
          calibrated nodes unless `solver` is "quasi_newton", or the intercepts are not
          penalised.
        - `PerNodeC` or `GammaPrior`: plain nodes, with a search for C of each node.
        - Another classifier with `predict_proba`: cloned for each node. NaN in X is
          passed on to the classifier, if the tree is given: builders need finite X.
        - None: ``LinearClassifier("auto", weight_threshold=0.02)`` for sparse X, and
          with threshold 0 for dense X and several labels a sample. For dense X and one
          label ``LinearClassifier("log_loss", solver="quasi_newton",
          penalize_intercept=False, calibration=None)``, or, if the
          taxonomy is "auto" without limits and the data are too large for a flat tree,
          ``LinearClassifier("log_loss")`` whose `intercept_scaling` is the length of a
          row (root mean square): classes of different sizes need large intercepts.
          The former for every X if `prediction` is "greedy".

    n_leaves : int, default=None
        Leaves that are evaluated for each sample with calibrated nodes, at least 1.
        None: the smallest of 2, 3, 5 and 8 whose log-loss on a fold is within 1.5 % of
        the best; 2 without a fold. It must be None for other node models, and with
        several labels a sample, when all leaves that may hold an answer are evaluated.

    prediction : {"joint", "greedy", "best_first"}, default="joint"
        How `predict` finds its class. "joint": the most probable of all classes.
        "best_first": the same class, by a best-first search that evaluates few
        branches. With a `LinearClassifier` both search. With another `estimator`,
        "joint" evaluates all nodes, and so does "best_first" if there are several
        trees. "greedy": the class at the end of the path of most probable children,
        which may not be the most probable class; for one tree and not for calibrated
        nodes.

    n_taxonomies : int, default=1
        Number of trees whose probabilities are averaged, 1 to 10 000. A builder that
        is used again (same class and parameters) gets another seed, a bootstrap sample
        of the data and a random half of the features. Different builders in a tuple
        give trees that differ more.

    threshold : float or "f1", default=0.5
        With several labels, labels of a larger probability are predicted; in (0, 1).
        "f1": the threshold of largest micro-averaged F1 on the fold, at least .01. It
        must be 0.5 with one label a sample.

    class_weight : dict or "balanced", default=None
        Weight >= 0 of each class, as in scikit-learn; multiplies `sample_weight`.
        Weight 0 removes the class. None with several labels.

    n_jobs : int, default=None
        Threads over nodes in `fit` and over samples in prediction. None is 1 unless
        in a `joblib.parallel_config` context. Results do not depend on it.

    random_state : int, RandomState instance or None, default=None
        Seed of bootstrap samples and folds, and of builders and node models whose own
        `random_state` is None.

    verbose : int, default=0
        If positive, print a line for each tree and each solve of its nodes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels; with several labels a sample the numbers of the columns of y.

    multilabel_ : bool
        Whether y was an indicator matrix.

    label_columns_ : LabelColumns or None
        With several labels the columns of y: ``known`` are those with a positive, the
        classes of the trees; others have probability 0.

    threshold_ : float
        Threshold of `predict` with several labels.

    taxonomies_ : list of Taxonomy
        The trees, cut at `max_depth`; fewer than `n_taxonomies` if a callback asked
        to stop after one.

    builders_ : list
        The builder of each tree, with its own attributes (such as
        ``n_random_splits_`` of "conf"); None for a given tree.

    taxonomy_ : Taxonomy
        The first of ``taxonomies_``.

    coef_ : ndarray of shape (n_rows, n_features)
        Weight vectors of all nodes, in the order of ``forest_.row``; with several
        labels one for each child of ``model_nodes_``. Sparse (CSR, float32) with
        calibrated nodes; with plain ones of the dtype of X if all are fitted by L-BFGS,
        else float32. ``coef_`` and the next five attributes exist for the nodes of a
        `LinearClassifier` only.

    intercept_ : ndarray of shape (n_rows,)
        Intercepts.

    C_ : ndarray of shape (n_models,)
        C of each node that has a model.

    searches_ : list
        The search that is `estimator` as fitted to each tree; empty without.

    n_iter_ : int
        Largest of ``node_n_iter_``.

    node_n_iter_ : ndarray of shape (n_models,)
        L-BFGS iterations or epochs of each node, without the folds of `PerNodeC`; with
        `GammaPrior` the sum over all rounds.

    estimators_ : list of classifiers
        Node models, for another `estimator`.

    model_nodes_ : ndarray of shape (n_models,)
        Node of ``forest_`` of each model.

    n_leaves_ : int
        Leaves that are evaluated for each sample, with calibrated nodes.

    nodes_ : ChainNodes, DualNodes or EstimatorNodes
        The models of all nodes; the arrays and estimators above are theirs.

    forest_ : sklstruct.taxonomy.Forest
        The nodes of all trees as flat arrays.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    sklstruct.taxonomy.Taxonomy : The tree.
    sklearn.linear_model.LogisticRegression : The flat model.

    Notes
    -----
    The product along the path suffers from label bias: the classifier of a leaf
    distributes all of the probability of the leaf, even for samples of other leaves.
    With calibrated nodes the ``n_leaves_`` leaves of largest :math:`R_l` are
    evaluated for each sample, and

    .. math::
        P(l \mid x) &= \mathrm{softmax}_l\bigl(w_r R_l(x)
        + (\eta E_l(x) \text{ if evaluated, else } c)\bigr), \\
        P(y \mid x) &= P(l \mid x)\, e^{a_y - E_l},
        \qquad a_y = w_l\, g(z_y),\ E_l = \ln \sum_{y \in l} e^{a_y},

    with :math:`R_l` the sum of the evidence g of the outcomes on the path to leaf l
    (log-probabilities for log_loss; g as in `LinearClassifier`). The four numbers
    minimise the log-loss of a fold of the training samples; the models are then fitted
    to all samples. :math:`\eta = c = 0` is the product along the path. Leaves of one
    class have the evidence c. If a level has more than 4 ``n_leaves_`` routing nodes,
    the best 4 ``n_leaves_`` are expanded; each of the others has a constant c' in place
    of the evidence of the leaves below it. ``nodes_`` has ``loss``, ``numbers`` (w_r,
    w_l, eta, c, c' of each tree) and ``fold_log_loss``.

    In a Pipeline, `predict_top_k` and `target_log_proba` are methods of the last step:
    ``pipe[-1].predict_top_k(pipe[:-1].transform(X))``.

    Probabilities sum to 1 for any depth of the leaves and do not depend on the other
    samples of a call, up to the rounding of scores in the precision of X. With one
    class in y the model predicts it with probability 1.

    References
    ----------
    .. [1] A. Nelakanti, "Modélisation du langage à l'aide de pénalités structurées",
       thesis, Université Pierre et Marie Curie, 2014, chapter 4.
    .. [2] R. Fagin, A. Lotem, M. Naor, "Optimal aggregation algorithms for
       middleware", PODS 2001 (best_first with several trees).
    .. [3] K. Jasinska et al., "Extreme F-measure maximization using sparse probability
       estimates", ICML 2016 (several labels).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct import HierarchicalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HierarchicalClassifier().fit(X[:1200] / 16, y[:1200])
    >>> model.predict_proba(X[1200:] / 16).sum(axis=1).round(12).min()
    np.float64(1.0)
    >>> flat = HierarchicalClassifier([[0, 6], [1, 2, 3, 8], [4, 5, 7, 9]])
    >>> flat.fit(X[:1200] / 16, y[:1200]).taxonomy_.depth
    1

    Several labels a sample:

    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, Y = make_multilabel_classification(n_classes=5, random_state=0)
    >>> model = HierarchicalClassifier([[0, 1], [2, 3, 4]], random_state=0)
    >>> model.fit(X / 50, Y).predict_proba(X / 50).shape
    (100, 5)
    >>> model.predict_top_k(X / 50, k=2).nnz
    200
    """

    _parameter_constraints: dict = {
        "taxonomy": [
            StrOptions({"auto", *TAXONOMY_BUILDERS}),
            HasMethods("build"),
            Taxonomy,
            list,
            tuple,
            Mapping,
        ],
        "max_depth": [Interval(Integral, 0, None, closed="left"), None],
        "max_leaf": [Interval(Integral, 1, None, closed="left"), None],
        "estimator": [
            LinearClassifier,
            StrengthSearch,
            HasMethods(["fit", "predict_proba"]),
            None,
        ],
        "n_leaves": [Interval(Integral, 1, None, closed="left"), None],
        "prediction": [StrOptions({"joint", "greedy", "best_first"})],
        "n_taxonomies": [Interval(Integral, 1, _MOST_TREES, closed="both")],
        "threshold": [Interval(Real, 0, 1, closed="neither"), StrOptions({"f1"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        taxonomy: str | TaxonomyBuilder | Taxonomy | Sequence | Mapping = "auto",
        *,
        max_depth: int | None = None,
        max_leaf: int | None = None,
        estimator: BaseEstimator | None = None,
        n_leaves: int | None = None,
        prediction: Literal["joint", "greedy", "best_first"] = "joint",
        n_taxonomies: int = 1,
        threshold: float | Literal["f1"] = 0.5,
        class_weight: dict | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.taxonomy = taxonomy
        self.max_depth = max_depth
        self.max_leaf = max_leaf
        self.estimator = estimator
        self.n_leaves = n_leaves
        self.prediction = prediction
        self.n_taxonomies = n_taxonomies
        self.threshold = threshold
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        known_levels: ArrayLike | None = None,
        **fit_params: Any,
    ) -> HierarchicalClassifier:
        """Build the taxonomies and fit the model of every node.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features; float32 stays float32.

        y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
            Labels; several a sample as a dense or sparse matrix of 0 and 1. A sample
            may have none. A label without a positive is never predicted, with a
            warning.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; weight 0 is as if absent.

        known_levels : array-like of int of shape (n_samples,), default=None
            For samples of which only a group of classes is known: the level of the
            given `taxonomy` (without nodes of a single child) down to which the path
            to y is known, at least 0. The sample trains the nodes above that level
            only, and `y` may be any class of the group. The class is known if the
            level is below the leaf of y, or is that of the leaf and the leaf holds y
            alone. Each class of y needs a sample whose class is known. None: all are
            known.

        **fit_params : dict
            Parameters of the `fit` of `estimator`; those with one entry per sample
            are split over the nodes. With metadata routing, what `estimator` requests.

        Returns
        -------
        self : HierarchicalClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If a given taxonomy lacks a class of y, names one twice or is nested too
            deep; if X is not finite, a malformed sparse matrix or so large that squares
            overflow; if weights are negative, all 0 or beyond the range of floats; if
            there are `known_levels` without exactly one given tree, or a class without
            a known sample; if a y of several columns is no indicator matrix or has no
            positive; or if parameters contradict each other.
        TypeError
            If there are `fit_params` without an `estimator`.
        MemoryError
            If `n_taxonomies` trees have more weights than this machine's memory.
        FloatingPointError
            If the weights of a node diverge.
        """
        self._check_params(fit_params)
        data, factor, inner = self._read_training(X, y, sample_weight)
        if data.several:
            nodes: Any = self._label_nodes(data.X, known_levels)
        else:
            nodes = self._node_models(data, sample_weight, factor, fit_params)
        rng = check_random_state(self.random_state)
        flat = isinstance(nodes, ChainNodes) and self._is_free() and flat_pays(data)
        limits = Limits.of(data, self.max_depth, self.max_leaf, nodes.wide, flat)
        sources = tree_sources(
            self.taxonomy if inner is None else inner.parents,
            self.n_taxonomies,
            self._tree_classes(),
            limits,
            rng,
        )
        if any(source.builder is not None for source in sources):
            _check_finite(data.X)
        n_below = None if inner is None else inner.sizes(self._tree_classes())
        if known_levels is not None:
            given = sources[0].given if self.n_taxonomies == 1 else None
            data = self._mark_known(data, given, known_levels)
        data = nodes.prepare(data, self.n_taxonomies)
        with (
            Progress.of_fit(self, self.n_taxonomies) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):
            taxonomies: list[Taxonomy] = []
            for t, source in enumerate(sources):
                task = progress.task("taxonomy", nodes.n_steps, f"tree {t + 1}: ")
                with task:
                    taxonomy = source.tree(data, self._tree_classes())
                    task.step(repr(taxonomy), "build")
                    problems, rows = _problems_of(taxonomy, data, n_below)
                    nodes.fit(problems, rows, data, rng, task, parallel)
                    if inner is not None and not problems.keeps_nodes:
                        nodes.raised = inner.raised(self._tree_classes())
                    taxonomies.append(taxonomy)
                if task.stopped:
                    break
            builders = [source.builder for source in sources[: len(taxonomies)]]
            self._keep_trees(taxonomies, builders, nodes)
        nodes.warn(stacklevel=4)
        return self

    @available_if(_learns_batches)
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> HierarchicalClassifier:
        r"""Learn one batch of samples, with the nodes of a `LinearClassifier`.

        With :math:`W_{t-1}` the weights of a node after the batches before, those of
        its samples in batch :math:`B_t` lead to

        .. math::
            W_t = \arg\min_W \tfrac12 \|W - W_{t-1}\|^2
            + C \sum_{i \in B_t} s_i\, \ell(W x_i, y_i) :

        block coordinate ascent on the dual problem of all samples, with one visit of
        each block. The dual variables of earlier samples are fixed: the result is close
        to that of one `fit`, closer for large batches, and depends on the order of the
        batches. Samples of each batch are scored before they are learned; the last 2000
        of them calibrate the probabilities.

        `taxonomy` must be a given tree, or `max_depth` 0. After a `fit` or a
        `partial_fit` the model goes on from its tree and weights; where `fit` learned
        the tree, ``model.set_params(taxonomy=model.taxonomy_)`` gives it.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Labels, one a sample.

        classes : array-like of shape (n_classes,), default=None
            All labels that any batch will have; needed in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; weight 0 is as if absent.

        Returns
        -------
        self : HierarchicalClassifier

        Raises
        ------
        AttributeError
            If the parameters do not allow batches: another `estimator`, several trees,
            a tree that is still to be learned.
        ValueError
            If the first call has no `classes`, or a later one others; if y has another
            label than these; and as in `fit`.

        Notes
        -----
        No weights are dropped while batches come: `weight_threshold` is for `fit`, and
        the weights of a node take 4 bytes for each of its classes and of the features
        that its samples had. ``loss="auto"`` and the number of leaves are chosen by
        the first batch and by the window of scored samples.

        Examples
        --------
        >>> from sklstruct import HierarchicalClassifier
        >>> from sklstruct.datasets import make_sparse_classes
        >>> X, y = make_sparse_classes(3000, 20, 2000, random_state=0)
        >>> groups = [list(range(10)), list(range(10, 20))]
        >>> model = HierarchicalClassifier(groups, random_state=0)
        >>> for start in range(0, 2000, 500):
        ...     batch = slice(start, start + 500)
        ...     model = model.partial_fit(X[batch], y[batch], classes=range(20))
        >>> model.score(X[2000:], y[2000:]) > 0.8
        True
        """
        first = not hasattr(self, "nodes_")
        known = self._batch_classes(classes, first)
        self._check_params({})
        check_threshold(self.threshold, False, True)
        if sp.issparse(y) or np.ndim(y) > 1:
            raise ValueError(
                "partial_fit is for one label a sample, y of shape (n_samples,): for "
                "several labels use fit"
            )
        X, labels, weight, factor, index, _ = read_training(
            self, X, y, sample_weight, batch=True, reset=first
        )
        check_squares(X)
        _check_weight(weight, X)
        code = encode(labels, known)
        if (code < 0).any():
            label = labels[code < 0].tolist()[0]
            raise ValueError(
                f"y has the label {label!r}, which is not among the classes of the "
                "first call: name all classes there"
            )
        self.classes_ = known
        targets = Targets.one_each(code, known.size)
        data = TrainingSet(X, targets, weight, index, factor.size)
        estimator: Any = self.estimator
        if estimator is None:
            estimator = LinearClassifier("auto")
        nodes: Any = (
            DualNodes(estimator, self.n_leaves, in_batches=True)
            if first
            else self.nodes_
        )
        rng = check_random_state(self.random_state)
        data = nodes.prepare(data, 1)
        with (
            Progress.of_fit(self, None) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):
            if first:
                taxonomy = Taxonomy.flat(known)
                if self.max_depth != 0:
                    limits = Limits(self.max_depth, self.max_leaf, None)
                    sources = tree_sources(self.taxonomy, 1, known, limits, rng)
                    taxonomy = sources[0].tree(data, known)
                problems, rows = _problems_of(taxonomy, data)
                nodes.fit(problems, rows, data, rng, progress, parallel)
                self._keep_trees([taxonomy], [None], nodes)
            else:
                problems, rows = _problems_of(self.taxonomy_, data)
                nodes.learn(estimator, problems, rows, data, rng, parallel)
                progress.step(f"learned {weight.size} samples", "solve")
        nodes.warn(stacklevel=4)
        return self

    def _batch_classes(self, classes, first):
        """The classes of all batches."""
        if not first:
            if classes is not None and not np.array_equal(
                np.unique(as_labels(classes)), self.classes_
            ):
                raise ValueError(
                    "classes differ from those of the first call, or of fit: leave "
                    "classes None, or fit a new model"
                )
            return self.classes_
        if classes is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit: all labels "
                "that any batch will have"
            )
        return np.unique(as_labels(classes))

    def _keep_trees(
        self, taxonomies: list[Taxonomy], builders: list, nodes: NodeModels
    ) -> None:
        """Set the attributes of the fit; `nodes` have learned."""
        self.taxonomies_, self.taxonomy_ = taxonomies, taxonomies[0]
        self.builders_ = builders
        self.forest_ = Forest.from_taxonomies(taxonomies)
        self.model_nodes_ = self.forest_.model_nodes
        nodes.join(self.forest_)
        self.nodes_ = nodes

    def _node_models(self, data, sample_weight, factor, fit_params) -> NodeModels:
        """The unfitted node models for `estimator` and the kind of X."""
        check_threshold(self.threshold, False, True)
        estimator: Any = self.estimator
        if estimator is None:
            estimator = self._default_estimator(data)
        search = None
        if isinstance(estimator, StrengthSearch):
            search, estimator = estimator, estimator.node()
        linear = isinstance(estimator, LinearClassifier)
        free = linear and search is None and self.prediction != "greedy"
        if free and (not is_chain(estimator) or too_wide(estimator, data)):
            return DualNodes(estimator, self.n_leaves)
        if self.n_leaves is not None:
            raise ValueError(
                f"n_leaves={self.n_leaves} needs calibrated nodes: leave it None, or "
                "set estimator=LinearClassifier()"
            )
        if linear:
            return ChainNodes(estimator, search)
        params = self._routed(sample_weight, factor, fit_params)
        return EstimatorNodes(estimator, params, self.n_jobs)

    def refusal_of_labels(self) -> str | None:
        estimator, refusal = self.estimator, None
        if isinstance(estimator, LinearClassifier):
            refusal = estimator.refusal_of_labels()
        elif estimator is not None:
            return (
                "estimator: with several labels a sample the nodes are those of a "
                "LinearClassifier: leave it None or set it to one"
            )
        if refusal is not None:
            return f"estimator: {refusal}"
        if self.n_leaves is not None:
            return (
                "n_leaves is for one label a sample, and y has several: leave it None"
            )
        if self.prediction == "greedy":
            return (
                'prediction="greedy" is for one label a sample, and y has several: '
                'use "joint"'
            )
        return super().refusal_of_labels()

    def _label_nodes(self, X, known_levels) -> NodeModels:
        """The unfitted node models for several labels a sample."""
        estimator: Any = self.estimator
        if estimator is None:
            threshold = _SPARSE_THRESHOLD if sp.issparse(X) else 0.0
            estimator = LinearClassifier("auto", weight_threshold=threshold)
        if known_levels is not None:
            raise ValueError(
                "known_levels is for one label a sample, and y has several: leave it "
                "None"
            )
        check_threshold(self.threshold, True, estimator.calibration is not None)
        return DualNodes(estimator, None, True, self.threshold)

    def implied_labels(self, n_labels: int) -> InnerLabels | None:
        return InnerLabels.of(self.taxonomy, n_labels)

    def _tree_classes(self):
        """The classes of the trees."""
        columns = self.label_columns_
        return self.classes_ if columns is None else columns.known

    def _default_estimator(self, data):
        if self.prediction == "greedy":
            return plain_logistic()
        if sp.issparse(data.X):
            return LinearClassifier("auto", weight_threshold=_SPARSE_THRESHOLD)
        if self._is_free() and not flat_pays(data):
            square = np.einsum("ij,ij->", data.X, data.X, dtype=np.float64)
            length = float(np.sqrt(square / data.X.shape[0]))
            # the penalty of an intercept has no natural size: that of one feature is
            # too large beside a long row
            return LinearClassifier("log_loss", intercept_scaling=max(length, 1e-15))
        return plain_logistic()

    def _is_free(self):
        """Whether no parameter limits the shape that "auto" may choose."""
        bounds = self.max_depth, self.max_leaf
        auto = isinstance(self.taxonomy, str) and self.taxonomy == "auto"
        bound = isinstance(self.estimator, StrengthSearch) or bounds != (None, None)
        return auto and self.prediction != "greedy" and not bound

    def _is_users(self):
        """Whether `estimator` is a classifier of another package."""
        ours = LinearClassifier | StrengthSearch | None
        return not isinstance(self.estimator, ours)

    def _check_params(self, fit_params):
        if isinstance(self.estimator, LinearClassifier):
            self._check_linear(self.estimator)
        elif isinstance(self.estimator, StrengthSearch):
            self.estimator.check()
            node = self.estimator.node()
            self._check_linear(node)
            if not is_chain(node):
                raise ValueError(
                    f"estimator of {type(self.estimator).__name__} must have "
                    'loss="log_loss", calibration=None and weight_threshold=0, got '
                    f"{node!r}"
                )
        if not self._is_users() and fit_params:
            raise TypeError(
                f"fit got unexpected arguments {sorted(fit_params)}; they need an "
                "estimator whose fit takes them"
            )
        check_class_weight(self.class_weight)
        if isinstance(self.taxonomy, tuple) and not (
            0 < len(self.taxonomy) <= self.n_taxonomies
        ):
            raise ValueError(
                f"taxonomy is a tuple of {len(self.taxonomy)} entries, one for a "
                f"tree, but n_taxonomies={self.n_taxonomies}. Write nested labels "
                "as lists, or increase n_taxonomies"
            )
        self._check_prediction(self.n_taxonomies)

    def _check_linear(self, estimator):
        estimator._validate_params()
        check_fold(estimator.loss, estimator.calibration)
        estimator.check_solver()
        if estimator.calibration is None and estimator.loss == "squared_hinge":
            raise ValueError(
                "calibration=None of the estimator gives no probabilities with "
                'squared_hinge; use calibration="fold" or loss="log_loss"'
            )
        if estimator.class_weight is not None:
            raise ValueError(
                "class_weight of the estimator would weigh the outcomes of each node; "
                "set class_weight of HierarchicalClassifier"
            )
        if self.prediction == "greedy" and not is_chain(estimator):
            raise ValueError(
                'prediction="greedy" follows best children; calibrated nodes evaluate '
                "the n_leaves best leaves: use n_leaves=1, or calibration=None of the "
                "estimator"
            )

    def _check_prediction(self, n_trees):
        if self.prediction == "greedy" and n_trees > 1:
            raise ValueError(
                'prediction="greedy" follows the best children of one tree, and '
                f'there are {n_trees}. Use "best_first", or n_taxonomies=1'
            )

    def _read_training(self, X, y, sample_weight):
        """(TrainingSet, class weight of every sample passed, InnerLabels or None)."""
        X, y, weight, factor, index, inner = read_training(
            self, X, y, sample_weight, allow_nan=self._is_users()
        )
        check_squares(X)
        _check_weight(weight, X)
        columns = self.label_columns_
        if columns is None:
            self.classes_, code = np.unique(y, return_inverse=True)
            targets = Targets.one_each(code, self.classes_.size)
        else:
            self.classes_, targets = np.arange(columns.n_labels), columns.targets(y)
        return TrainingSet(X, targets, weight, index, factor.size), factor, inner

    def _mark_known(self, data, taxonomy, known_levels):
        """The data with `n_candidates`."""
        levels = column_or_1d(known_levels)
        if levels.dtype.kind not in "iu" or (levels < 0).any():
            raise ValueError("known_levels must be integers >= 0")
        if levels.size != data.n_passed:
            raise ValueError(
                f"known_levels has {levels.size} entries for {data.n_passed} samples"
            )
        if taxonomy is None or isinstance(self.taxonomy, str):
            raise ValueError(
                "known_levels are levels of one given tree: set taxonomy to it (a "
                "Taxonomy, nested lists or mappings), and n_taxonomies=1"
            )
        levels = levels[data.position].astype(np.int64)
        data = data._replace(n_candidates=_candidates(taxonomy, data.code, levels))
        absent = np.ones(self.classes_.size, dtype=bool)
        absent[data.code[data.known]] = False
        if absent.any():
            label = self.classes_[absent].tolist()[0]
            raise ValueError(
                f"known_levels leave the class {label!r} without a sample of which it "
                "is known; use other classes of the group as y"
            )
        return data

    def _routed(self, sample_weight, factor, fit_params):
        """Parameters of the `fit` of `estimator`, for all samples."""
        takes_weight = has_fit_parameter(self.estimator, "sample_weight")
        name = type(self.estimator).__name__
        params = dict(fit_params)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if _routing_enabled():
            params = dict(process_routing(self, "fit", **params).estimator.fit)
        elif sample_weight is not None and not takes_weight:
            raise ValueError(f"the estimator {name} takes no sample_weight")
        if self.class_weight is not None:
            if not takes_weight:
                raise ValueError(
                    f"class_weight needs an estimator that takes sample_weight, and "
                    f"{name} does not"
                )
            # metadata routing may pass the estimator another array of weights
            routed = params.get("sample_weight")
            params["sample_weight"] = factor * _check_sample_weight(
                routed, factor, dtype=np.float64
            )
        return params

    # --------------------------------------------------------------- prediction

    coef_ = property(lambda self: _align_api_if_sparse(self.nodes_.coef))
    intercept_ = property(lambda self: self.nodes_.intercept)
    C_ = property(lambda self: self.nodes_.C)
    searches_ = property(lambda self: self.nodes_.searches)
    node_n_iter_ = property(lambda self: self.nodes_.n_iter)
    n_iter_ = property(lambda self: int(self.nodes_.n_iter.max(initial=0)))
    estimators_ = property(lambda self: self.nodes_.estimators)
    n_leaves_ = property(lambda self: self.nodes_.n_leaves)
    threshold_ = property(lambda self: self.nodes_.threshold)

    def _read(self, X):
        check_is_fitted(self, "nodes_")
        check_sparse(X)
        dtype = self.nodes_.dtype
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=list(dtype) if isinstance(dtype, tuple) else dtype,
            order="C",
            ensure_all_finite="allow-nan" if self._is_users() else True,
            reset=False,
        )

    def _log_proba_blocks(self, X, use):
        self.nodes_.rows(X, use, self.n_jobs)

    def _target(self, X, code):
        return self.nodes_.target(X, code, self.n_jobs)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """`predict_log_proba`, as scores.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. For two classes the difference of
            the log-probabilities of the second and the first, of shape (n_samples,).
            With several labels the log-odds of each; those without a positive in `fit`
            have the least float.

        Raises
        ------
        MemoryError
            As `predict_log_proba`.
        """
        log_proba = self.predict_log_proba(X)
        if self.label_columns_ is not None:
            with np.errstate(divide="ignore"):
                odds = log_proba - np.log(-np.expm1(log_proba))
            return np.nan_to_num(odds)
        if self.classes_.size != 2:
            return log_proba
        return log_proba[:, 1] - log_proba[:, 0]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class of each sample, found by the method `prediction`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels. Ties go to the class that comes first in ``classes_``. With several
            labels an indicator matrix of the kind of the y of `fit`: the labels of a
            probability above ``threshold_``.

        Raises
        ------
        ValueError
            If a score of a sample is not a number, or if ``prediction="greedy"`` and
            there are several trees.
        """
        samples, columns = self._read(X), self.label_columns_
        if columns is not None:
            sample, code = self.nodes_.labels(samples, self.n_jobs)
            return columns.indicator(sample, code, samples.shape[0])
        return self.classes_[self._predict_code(samples)[0]]

    def _predict_code(self, X):
        """(class numbers, dot products)."""
        self._check_prediction(len(self.taxonomies_))
        return self.nodes_.best(X, self.prediction, self.n_jobs)

    def _find_top_k(self, X, k):
        return self.nodes_.search(self._read(X), k, self.n_jobs)

    def decision_path(self, X: ArrayLike) -> sp.csr_matrix:
        """The nodes of the taxonomies above the predicted class of each sample.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        indicator : CSR matrix of shape (n_samples, n_nodes)
            1 at the nodes, root and leaf included, that hold a predicted class. The
            columns are the nodes of the trees of ``taxonomies_``, one tree after the
            other.
        """
        samples = self._read(X)
        if self.label_columns_ is None:
            code, _ = self._predict_code(samples)
            who = np.arange(code.size)
        else:
            who, code = self.nodes_.labels(samples, self.n_jobs)
        offset, blocks = 0, []
        for taxonomy in self.taxonomies_:
            node, sample = taxonomy.leaf_of_class[code].astype(np.int64), who
            while sample.size:
                blocks.append((sample, node + offset))
                node = taxonomy.parent[node].astype(np.int64)
                sample, node = sample[node >= 0], node[node >= 0]
            offset += taxonomy.n_nodes
        sample, column = np.unique(np.hstack([*map(np.stack, blocks)]), axis=1)
        path = sp.csr_matrix(
            (np.ones(sample.size, dtype=np.int64), (sample, column)),
            shape=(samples.shape[0], offset),
        )
        return _align_api_if_sparse(path)

    def n_dot_products(self, X: ArrayLike) -> np.ndarray:
        """Number of dot products with weight vectors that `predict` makes per sample.

        A node with two children counts 1, one with m > 2 children m; the flat model of
        K classes K. The average over test samples is the usual measure of cost. Models
        of another `estimator` are counted in the same way. If there are fewer samples
        than an eighth of the weight vectors, the search makes no table of bounds and
        the numbers are slightly larger. So are those of the few samples that are
        searched again in double precision.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        n_dots : ndarray of shape (n_samples,)
        """
        return self._predict_code(self._read(X))[1]

    # ------------------------------------------------------------ scikit-learn

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing: `sample_weight` here, the rest to `estimator`.

        Returns
        -------
        routing : MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        if self._is_users():
            router.add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        return router

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self._is_users():  # which says itself what it makes of NaN and sparse X
            theirs = get_tags(self.estimator).input_tags
            tags.input_tags.allow_nan = theirs.allow_nan
            tags.input_tags.sparse = theirs.sparse
        return tags


def _problems_of(taxonomy, data, n_below=None):
    """(problems of the nodes of a tree, the numbers of their rows).

    n_below: as in `LabelProblems`.
    """
    if data.several:
        problems = LabelProblems(taxonomy, data.X, data.weight, data.targets, n_below)
        return problems, np.arange(data.weight.size)
    known, K = data.known, taxonomy.n_classes
    counts = np.bincount(data.code[known], minlength=K)
    position = np.empty(K, dtype=np.int64)
    position[taxonomy.leaf_order()] = np.arange(K)
    code, stopped = data.code, None
    if data.n_candidates is None:
        rows = np.argsort(position[code], kind="stable")
    else:
        # samples whose class is not known follow all others of their node
        node = taxonomy.lowest_node(code, data.n_candidates)
        end, level = taxonomy.class_sets.stop[node], taxonomy.level_of_node[node]
        end[known], level[known] = position[code[known]] + 1, taxonomy.n_nodes
        rows = np.lexsort((-level, end))
        other = data.n_candidates > 1
        stopped = np.bincount(node[other], minlength=taxonomy.n_nodes)
        code = code + K * other  # folds are stratified without them
    problems = NodeProblems(
        data.X[rows],
        data.weight[rows],
        outcome_bounds(taxonomy, counts, stopped),
        code[rows],
    )
    return problems, rows


def _candidates(taxonomy, code, levels):
    """Classes below the node above each class at a level of the tree."""
    _, start, stop = taxonomy.class_sets
    node = taxonomy.leaf_of_class[code].astype(np.int64)
    found = np.ones(code.size, dtype=np.int64)  # 1: levels below the leaf
    level = taxonomy.level_of_node
    at = np.flatnonzero(level[node] >= levels)
    while at.size:
        here = node[at]
        found[at] = stop[here] - start[here]
        at = at[level[here] > levels[at]]
        node[at] = taxonomy.parent[node[at]]
    return found


def _check_finite(X):
    """Raise ValueError if X, which a builder is to read, holds NaN."""
    if np.isnan(X.data if sp.issparse(X) else X).any():
        raise ValueError(
            "Input X contains NaN, and the builder of the tree needs finite X: give "
            "the tree as taxonomy, or fill NaN in"
        )


def _check_weight(weight, X):
    """Raise ValueError if sums of weighted squares leave the range of float64."""
    data = X.data if sp.issparse(X) else X
    # fmax and fmin pass over NaN, which the user's estimator may take
    high, low = (f.reduce(data, axis=None, initial=0) for f in (np.fmax, np.fmin))
    top = max(1.0, float(high), -float(low))
    with np.errstate(over="ignore"):
        total = float(weight.sum())
        # a margin for sums over features, and against denormal numbers
        good = total >= 1e-280 and total * top**2 <= 1e290
    if not good:
        raise ValueError(
            f"sample_weight, times class_weight, has the total {total:.2g}; with X of "
            f"entries up to {top:.2g}, weighted squares leave the range of float64. "
            "Scale the weights to a mean of 1, and C by the same factor, or scale X"
        )
