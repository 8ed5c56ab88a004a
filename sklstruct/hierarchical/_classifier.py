"""HierarchicalClassifier: multinomial classifiers along a taxonomy of classes."""

from __future__ import annotations

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
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .._checks import check_squares, is_frozen
from .._compat import (
    N_JOBS,
    BaseEstimator,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _align_api_if_sparse,
    _fit_context,
    _routing_enabled,
    available_if,
    check_weights,
    with_callbacks,
)
from .._docs import names_of, shared_docs
from .._likelihood import log_other
from .._parallel import ThreadMap
from .._progress import Progress
from ..linear import LinearClassifier
from ..linear._labels import check_threshold, read_rows, read_training
from ..linear._samples import check_class_weight
from ..linear._targets import Targets
from ..symbols import encode
from ..taxonomy import TAXONOMY_BUILDERS, Forest, Taxonomy, TaxonomyBuilder
from ..taxonomy._labels import as_labels
from ._chain_nodes import ChainNodes, of_one_solver, too_wide
from ._dual_nodes import DualNodes
from ._estimator_nodes import EstimatorNodes
from ._inner_labels import InnerLabels
from ._node_answers import NodeAnswersMixin
from ._nodes import NodeModels, Run, TrainingSet
from ._problems import mark_known, problems_of
from ._searches import StrengthSearch, is_chain, plain_logistic
from ._trees import Limits, flat_pays, shape_for, tree_sources

# weight_threshold of the default node model of sparse X.
_SPARSE_THRESHOLD = 0.02

# Largest n_taxonomies; more trees hardly change the mean.
_MOST_TREES = 10_000


def _learns_batches(model: HierarchicalClassifier) -> bool:
    """True if the parameters allow `partial_fit`; AttributeError if they do not."""
    node = LinearClassifier() if model.estimator is None else model.estimator
    given = not isinstance(model.taxonomy, str | tuple) and not hasattr(
        model.taxonomy, "build"
    )
    nodes = getattr(model, "nodes_", None)
    if not (
        isinstance(node, LinearClassifier)
        and not of_one_solver(node)
        and (given or model.max_depth == 0)
        and model.n_taxonomies == 1
        and not isinstance(model.class_weight, str)
        and (nodes is None or nodes.learns_batches)
    ):
        raise AttributeError(
            "partial_fit needs one given tree, or max_depth=0; "
            "class_weight=None or a dict; one label per sample; "
            "and estimator=None or a LinearClassifier whose solver is not "
            '"quasi_newton" and whose intercept_scaling is finite. An earlier fit '
            "must have used such an estimator, too"
        )
    return True


def _is_foreign(node: Any) -> bool:
    """Whether a node model is a classifier of another package."""
    return not isinstance(node, LinearClassifier | StrengthSearch | None)


def _has_scores(model: HierarchicalClassifier) -> bool:
    """True if the nodes have scores; AttributeError if not."""
    node = model.estimator
    if hasattr(model, "nodes_"):  # the fitted models answer, not the parameter
        node = next(iter(getattr(model.nodes_, "estimators", [])), None)
    if _is_foreign(node) and not hasattr(node, "decision_function"):
        # such probabilities may be 0, and meta-estimators refuse or misread scores of
        # -inf; without decision_function they use predict_proba
        raise AttributeError(
            f"decision_function needs an estimator with decision_function, which "
            f"{type(node).__name__} does not have: use predict_log_proba"
        )
    return True


@shared_docs(builders=names_of(TAXONOMY_BUILDERS))
class HierarchicalClassifier(CallbackSupportMixin, NodeAnswersMixin, BaseEstimator):
    r"""Classification along a taxonomy of classes, learned from the data or given.

    With :math:`v_0, v_1, \dots, y` the path from the root of the tree to class y,

    .. math::
        P(y \mid x) = \prod_j P(v_{j+1} \mid v_j, x),

    where every factor is the model of a node: a classifier over the children of the
    node, fitted to the samples whose class is below the node. A node with two children
    has one weight vector. Calibrated nodes have another formula (see Notes). With
    several trees :math:`P(y \mid x)` is the mean over the trees.

    With several labels per sample (y an indicator matrix) a binary classifier predicts
    for every child of a node whether the sample has a label below the child. The
    product along the path is the probability that the sample has the label y [2]_.

    Parameters
    ----------
    taxonomy : str, builder, Taxonomy, list, array, dict or tuple, default="auto"
        The tree.

        - "auto": the tree of "cut". With calibrated nodes (see `estimator`) the tree
          has the shape of `sklstruct.taxonomy.choose_shape`. A single tree is flat up
          to 100 classes, and with plain nodes also if K classes and m (stored) values
          of X have :math:`m K \le 10^9` (exceptions: :ref:`hierarchical_classifier`).
        - The name of a builder of the table of :ref:`taxonomy`. With calibrated nodes
          the tree has the shape of "auto". The names are
          {builders}
        - A builder object, which is cloned.
        - A given tree, in any form that `sklstruct.taxonomy.as_taxonomy` takes: a
          `Taxonomy`, nested lists of labels, nested dicts, a map to parents or a table
          of paths. The tree must contain every class of y. Classes that do not occur in
          y are left out. If the only tree is a map to parents, columns of y can be
          parents: labels above a positive label are positive, and a label is at least
          as probable as each label below.
        - A tuple of these: a tree for each entry. If `n_taxonomies` is larger, the
          entries are used again from the first one.

    max_depth : int, default=None
        Largest depth of the tree, at least 0. Deeper nodes are merged into leaves with
        a multinomial model over their classes; 0 is the flat model. None: no limit.

    max_leaf : int, default=None
        Nodes with at most this number of classes, at least 1, are merged into leaves,
        too. None: the size of `choose_shape` for calibrated nodes and a builder that is
        given by name; else no limit.

    estimator : classifier, search or None, default=None
        Model of a node.

        - A `LinearClassifier` at all nodes; its solver is chosen node by node. Nodes
          are *plain* with ``loss="log_loss"``, `calibration` None and
          `weight_threshold` 0. All other nodes are *calibrated* (see Notes). So are all
          nodes of sparse X if classes times columns exceed :math:`2^{24}`, unless
          L-BFGS fits them.
        - `PerNodeC` or `GammaPrior`: plain nodes, with a search for C of each node.
        - Another classifier with `predict_proba`: cloned for each node. NaN in X is
          passed on to the classifier, if the tree is given: builders need finite X.
        - None: ``LinearClassifier("auto", weight_threshold=0.02)`` for sparse X, with
          threshold 0 for dense X and several labels. For dense X and one label
          ``LinearClassifier("log_loss", solver="quasi_newton", intercept_scaling=inf,
          calibration=None)``, a logistic regression; if "auto" may choose a tree and X
          is too large for a flat model, ``LinearClassifier("log_loss",
          intercept_scaling=root mean square length of the rows)``.

    n_taxonomies : int, default=1
        Number of trees whose probabilities are averaged, 1 to 10 000. Further uses of a
        builder have another seed, a bootstrap sample and half of the features.

    threshold : float or "f1", default=0.5
        With several labels per sample, labels with a probability above the threshold,
        in (0, 1), are predicted. "f1": the threshold with the largest micro-averaged F1
        on a held-out fold, at least 0.01. Must be 0.5 with one label per sample.

    class_weight : dict or "balanced", default=None
        Weight >= 0 of each class, as in scikit-learn; multiplies `sample_weight`.
        Weight 0 removes the class. Must be None with several labels per sample.

    n_jobs : int, default=None
        Threads over nodes in `fit` and over samples in prediction. None is 1 unless in
        a `joblib.parallel_config` context.

    random_state : int, RandomState instance or None, default=None
        Seed of bootstrap samples and folds, and of builders and node models whose
        `random_state` is None.

    verbose : int, default=0
        If positive, print a line for each tree and each solve of its nodes.

    Attributes
    ----------
    classes_, multilabel_ : ndarray of shape (n_classes,), bool
        Sorted labels, or the column numbers of an indicator y; True for an indicator y.

    label_columns_ : LabelColumns or None
        With several labels the columns of y: ``known``, with a positive value (other
        columns have probability 0), and ``leaves``, at least two, in the trees.

    taxonomy_, taxonomies_, builders_ : Taxonomy, list of Taxonomy, list
        The first tree, all trees, and the builder of each, None for a given tree.

    forest_, model_nodes_, nodes_ : Forest, ndarray, object
        The nodes of all trees as flat arrays; the nodes that have a model; the models.

    coef_, intercept_, C_, n_iter_, node_n_iter_ : ndarray or CSR matrix, int
        If the nodes are `LinearClassifier`: weights and intercepts in the order of
        ``forest_.row`` (with several labels, of the children of ``model_nodes_``), C of
        each model, the largest number of iterations, and the iterations of each model.

    estimators_, searches_, n_leaves_, threshold_ : list, list, int, float
        Node models of another `estimator`; the search that was fitted to each tree;
        leaves that a prediction evaluates (calibrated nodes); threshold of `predict`.

    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of columns of X, and their names if they were strings.

    Notes
    -----
    With calibrated nodes the scores of the classes of a leaf enter the probability of
    the leaf. Let :math:`R_l` be the sum of g (of `LinearClassifier`) over the path to
    leaf l. The ``n_leaves_`` leaves of largest :math:`R_l` are evaluated:

    .. math::
        P(l \mid x) &= \mathrm{softmax}_l\bigl(w_r R_l(x)
        + (\eta E_l(x) \text{ if evaluated, else } c)\bigr), \\
        P(y \mid x) &= P(l \mid x)\, e^{a_y - E_l},
        \qquad a_y = w_l\, g(z_y),\ E_l = \ln \sum_{y \in l} e^{a_y}.

    ``nodes_.numbers`` are w_r, w_l, :math:`\eta`, c and c' of each tree. These numbers
    and ``n_leaves_`` minimise the log-loss of a fold of the training samples. On each
    level at most 4 ``n_leaves_`` nodes are evaluated; leaves below the other nodes have
    the constant c' instead of c. If y has one class, its probability is 1.

    References
    ----------
    .. [1] A. Nelakanti, "Modélisation du langage à l'aide de pénalités structurées",
       thesis, Université Pierre et Marie Curie, 2014, chapter 4.
    .. [2] K. Jasinska et al., "Extreme F-measure maximization using sparse probability
       estimates", ICML 2016 (several labels).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct import HierarchicalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HierarchicalClassifier([[0, 6], [1, 2, 3, 8], [4, 5, 7, 9]])
    >>> model.fit(X[:1200] / 16, y[:1200]).taxonomy_.depth
    1
    >>> model.predict_proba(X[1200:] / 16).sum(axis=1).round(12).min()
    np.float64(1.0)
    """

    _parameter_constraints: dict = {
        "taxonomy": [
            StrOptions({"auto", *TAXONOMY_BUILDERS}),
            HasMethods("build"),
            Taxonomy,
            np.ndarray,
            list,
            tuple,
            Mapping,
        ],
        "max_depth": [Interval(Integral, 0, None, closed="left"), None],
        "max_leaf": [Interval(Integral, 1, None, closed="left"), None],
        "estimator": [HasMethods(["fit", "predict_proba"]), StrengthSearch, None],
        "n_taxonomies": [Interval(Integral, 1, _MOST_TREES, closed="both")],
        "threshold": [Interval(Real, 0, 1, closed="neither"), StrOptions({"f1"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": N_JOBS,
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
            Labels; several per sample as a dense or sparse matrix of 0 and 1. A sample
            may have no label. A column without a positive value gives a warning, and
            its label is never predicted.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Samples of weight 0 are left out.

        known_levels : array-like of int of shape (n_samples,), default=None
            Level of the given `taxonomy`, at least 0, down to which the path of each
            sample is known; nodes of a single child do not count as a level. If the
            known node has several classes, the sample trains only the nodes above it,
            and `y` may be any of these classes. The class is known if the level is
            larger than the level of the leaf of y, or equal and the leaf has no other
            class. Each class of y needs a sample whose class is known. None: all
            classes are known.

        **fit_params : dict
            Parameters of the `fit` of `estimator`; arrays with one entry per sample
            are split over the nodes. With metadata routing, the parameters that
            `estimator` requests.

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
            a known sample; if a y of several columns is not an indicator matrix or has
            no positive; or if parameters contradict each other.
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
            nodes = self._label_nodes(data.X, known_levels)
        else:
            nodes = self._node_models(data, sample_weight, factor, fit_params)
        entries = self.taxonomy if isinstance(self.taxonomy, tuple) else ()
        rng = check_random_state(self.random_state)
        n_trees = max(self.n_taxonomies, len(entries))
        shape = shape_for(data, self.max_leaf) if nodes.wide else None
        may_be_flat = isinstance(nodes, ChainNodes) and self._auto_shape_allowed()
        flat = shape.n_levels == 0 if shape else may_be_flat and flat_pays(data)
        limits = Limits(self.max_depth, self.max_leaf, shape, flat)
        taxonomy = self.taxonomy if inner is None else inner.parents
        columns = self.label_columns_
        classes = self.classes_ if columns is None else columns.leaves
        sources = tree_sources(taxonomy, n_trees, classes, limits, rng)
        if any(source.builder is not None for source in sources):
            _check_finite(data.X)
        n_below = None if inner is None else inner.sizes(classes)
        if known_levels is not None:
            single = n_trees == 1 and not isinstance(self.taxonomy, str)
            given = sources[0].given if single else None
            data = mark_known(data, given, known_levels, self.classes_)
        data = nodes.prepare(data, n_trees)
        with (
            Progress.of_fit(self, n_trees) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):
            taxonomies: list[Taxonomy] = []
            for t, source in enumerate(sources):
                task = progress.task("taxonomy", nodes.n_steps, f"tree {t + 1}: ")
                with task:
                    taxonomy = source.tree(data, classes)
                    task.step(repr(taxonomy), "build")
                    problems: Any = problems_of(taxonomy, data, n_below)
                    nodes.fit(problems, data, Run(rng, task, parallel))
                    if inner is not None and not problems.keeps_nodes:
                        nodes.raised = inner.raised(classes)
                    taxonomies.append(taxonomy)
                if task.stopped:
                    break
            builders = [source.builder for source in sources[: len(taxonomies)]]
            self._keep_trees(taxonomies, builders, nodes)
        nodes.warn()
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

        Let :math:`W_{t-1}` be the weights of a node after the earlier batches, and
        :math:`B_t` the samples of the node in this batch. The new weights are

        .. math::
            W_t = \arg\min_W \tfrac12 \|W - W_{t-1}\|^2
            + C \sum_{i \in B_t} s_i\, \ell(W x_i, y_i).

        This is block coordinate ascent on the dual problem of all samples, with one
        visit of each block. The dual variables of earlier samples are fixed: the result
        is close to the result of one `fit`, closer for large batches, and depends on
        the order of the batches. The samples of each batch are scored before they are
        learned; the last 2000 scored samples calibrate the probabilities.

        `estimator` None is ``LinearClassifier("auto")`` in a first batch, also for
        dense X; the default of `fit` for dense X does not learn batches.

        `taxonomy` must be a given tree, or `max_depth` 0. A fitted model keeps its tree
        and continues from its weights. If `fit` learned the tree, call
        ``model.set_params(taxonomy=model.taxonomy_)`` first. Other values of
        `taxonomy`, `max_depth` and `max_leaf` do not change the tree of a fitted model,
        and `estimator` None then stands for the parameters of the fitted model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Labels, one per sample.

        classes : array-like of shape (n_classes,), default=None
            All labels that any batch will have, without those whose `class_weight` is
            0; needed in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Samples of weight 0 are left out.

        Returns
        -------
        self : HierarchicalClassifier

        Raises
        ------
        AttributeError
            If the parameters do not allow batches: another `estimator`, several trees,
            a tree that is still to be learned.
        ValueError
            If the first call has no `classes`, or a later call has different classes;
            if y has a label that is not in `classes`; if `C`, `loss` or
            `intercept_scaling` of `estimator` differ from the earlier batches; and as
            in `fit`.

        Notes
        -----
        `partial_fit` does not drop small weights (`weight_threshold` is for `fit`): a
        node takes 4 bytes per child and feature of its samples. The first batch chooses
        ``loss="auto"``. The last scored samples choose the number of leaves.

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
        >>> round(model.score(X[2000:], y[2000:]), 3)
        0.89
        """
        first = not hasattr(self, "nodes_")
        known = _batch_classes(classes, None if first else self.classes_)
        self._check_params({})
        weights: Any = self.class_weight or {}
        gone = [k for k in known.tolist() if weights.get(k) == 0]
        if gone:
            raise ValueError(
                f"class_weight of {gone[0]!r:.60} is 0, which removes the class: leave "
                "it out of classes, or give it a weight above 0"
            )
        check_threshold(self.threshold, False, True)
        if sp.issparse(y) or np.ndim(y) > 1:
            raise ValueError(
                "partial_fit is for one label per sample, y of shape (n_samples,): for "
                "several labels use fit"
            )
        data, _, _ = self._read_training(X, y, sample_weight, known, reset=first)
        estimator: Any = self.estimator
        nodes = None if first else self.nodes_
        if nodes is None:
            nodes = DualNodes(estimator or LinearClassifier("auto"), in_batches=True)
        elif isinstance(nodes, ChainNodes):
            nodes = DualNodes.of_chain(nodes, LinearClassifier(**nodes.params))
        rng = check_random_state(self.random_state)
        data = nodes.prepare(data, 1)
        with (
            Progress.of_fit(self, None) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):
            run = Run(rng, progress, parallel)
            if first:
                taxonomy = Taxonomy.flat(known)
                if self.max_depth != 0:
                    limits = Limits(self.max_depth, self.max_leaf, None)
                    sources = tree_sources(self.taxonomy, 1, known, limits, rng)
                    taxonomy = sources[0].tree(data, known)
                nodes.fit(problems_of(taxonomy, data), data, run)
                self._keep_trees([taxonomy], [None], nodes)
            else:
                batch: Any = problems_of(self.taxonomy_, data)
                nodes.learn(estimator, batch, data, run)
                self.nodes_ = nodes
                progress.step(f"learned {data.weight.size} samples", "solve")
        nodes.warn()
        return self

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

    def _node_models(self, data, sample_weight, factor, fit_params) -> Any:
        """The unfitted node models for `estimator` and the kind of X."""
        check_threshold(self.threshold, False, True)
        estimator: Any = self.estimator
        if estimator is None:
            estimator = self._default_estimator(data)
        search = None
        if isinstance(estimator, StrengthSearch):
            search, estimator = estimator, estimator.node()
        if not isinstance(estimator, LinearClassifier):
            params = self._routed(sample_weight, factor, fit_params)
            return EstimatorNodes(estimator, params, self.n_jobs)
        wide = not is_chain(estimator) or too_wide(estimator, data)
        if search is None and wide:
            return DualNodes(estimator)
        return ChainNodes(estimator, search)

    def _label_nodes(self, X, known_levels) -> Any:
        """The unfitted node models for several labels per sample."""
        estimator: Any = self.estimator
        if estimator is None:
            threshold = _SPARSE_THRESHOLD if sp.issparse(X) else 0.0
            estimator = LinearClassifier("auto", weight_threshold=threshold)
        if known_levels is not None:
            raise ValueError(
                "known_levels is for one label per sample, and y has several: leave "
                "it None"
            )
        check_threshold(self.threshold, True, estimator.calibration is not None)
        return DualNodes(estimator, True, self.threshold)

    def _refusal_of_labels(self) -> str | None:
        estimator = self.estimator
        if isinstance(estimator, LinearClassifier):
            refusal = estimator._refusal_of_labels()
            if refusal is not None:
                return f"estimator: {refusal}"
        elif estimator is not None:
            return (
                "estimator: with several labels per sample the nodes must be "
                "LinearClassifier: leave estimator None or set it to a LinearClassifier"
            )
        return super()._refusal_of_labels()

    def _implied_labels(self, n_labels: int) -> InnerLabels | None:
        return InnerLabels.of(self.taxonomy, n_labels)

    def _default_estimator(self, data):
        if sp.issparse(data.X):
            return LinearClassifier("auto", weight_threshold=_SPARSE_THRESHOLD)
        if self._auto_shape_allowed() and not flat_pays(data):
            square = np.einsum("ij,ij->", data.X, data.X, dtype=np.float64)
            length = float(np.sqrt(square / data.X.shape[0]))
            # with intercept_scaling=1 the intercept is penalised as the weight of a
            # feature of value 1, which is too much if the rows are long
            return LinearClassifier("log_loss", intercept_scaling=max(length, 1e-15))
        return plain_logistic()

    def _auto_shape_allowed(self):
        """Whether the tree is "auto" and no parameter limits its shape."""
        bounds = self.max_depth, self.max_leaf
        auto = isinstance(self.taxonomy, str) and self.taxonomy == "auto"
        bound = isinstance(self.estimator, StrengthSearch) or bounds != (None, None)
        return auto and not bound

    def _check_params(self, fit_params):
        node = self.estimator
        if isinstance(node, StrengthSearch):
            node.check()
            node = node.node()
        if is_frozen(node):
            raise ValueError(
                "estimator must learn anew at each node, and a FrozenEstimator keeps "
                "its classes: give the classifier itself, unfitted"
            )
        if isinstance(node, LinearClassifier):
            node._validate_params()
            node._check_solver()
            if node.class_weight is not None:
                raise ValueError(
                    "class_weight of the estimator would weigh the outcomes of each "
                    "node; set class_weight of HierarchicalClassifier"
                )
        if not _is_foreign(self.estimator) and fit_params:
            raise TypeError(
                f"fit got unexpected arguments {sorted(fit_params)}; they need an "
                "estimator whose fit takes them"
            )
        check_class_weight(self.class_weight)
        if isinstance(self.taxonomy, tuple) and not self.taxonomy:
            raise ValueError("taxonomy is an empty tuple: give at least one tree")

    def _read_training(self, X, y, sample_weight, known=None, reset=True):
        """(TrainingSet, class weight of every sample passed, InnerLabels or None).

        known: for `partial_fit`, the classes of all batches.
        """
        X, y, weight, factor, index, inner = read_training(
            self, X, y, sample_weight, batch=known is not None, reset=reset,
            allow_nan=_is_foreign(self.estimator),
        )  # fmt: skip
        check_squares(X)
        _check_weight(weight, X)
        columns = self.label_columns_
        if columns is not None:
            self.classes_, targets = np.arange(columns.n_labels), columns.targets(y)
            return TrainingSet(X, targets, weight, index, factor.size), factor, inner
        if known is None:
            classes, code = np.unique(y, return_inverse=True)
        else:
            classes, code = known, encode(y, known)
        if (code < 0).any():
            label = y[code < 0].tolist()[0]
            raise ValueError(
                f"y has the label {label!r:.60}, which is not among the classes of the "
                "first call: pass all classes in the first call"
            )
        self.classes_, targets = classes, Targets.one_each(code, classes.size)
        return TrainingSet(X, targets, weight, index, factor.size), factor, inner

    def _routed(self, sample_weight, factor, fit_params):
        """Parameters of the `fit` of `estimator`, for all samples."""
        takes_weight = has_fit_parameter(self.estimator, "sample_weight")
        name = type(self.estimator).__name__
        params = dict(fit_params)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        ignored = sample_weight is not None and not takes_weight
        if _routing_enabled():
            params = dict(process_routing(self, "fit", **params).estimator.fit)
            # A pipeline passes the weights on to its steps.
            ignored &= "sample_weight" not in params
        if ignored:
            raise ValueError(
                f"sample_weight: the estimator {name} takes no sample_weight; leave "
                "sample_weight None. In a BaggingClassifier use make_pipeline(model), "
                "which gets no weights"
            )
        if self.class_weight is not None:
            if not takes_weight:
                raise ValueError(
                    f"class_weight needs an estimator that takes sample_weight, and "
                    f"{name} does not"
                )
            # metadata routing may pass the estimator another array of weights
            routed = params.get("sample_weight")
            params["sample_weight"] = factor * check_weights(routed, factor)
        return params

    # --------------------------------------------------------------- prediction

    coef_ = property(lambda self: _align_api_if_sparse(self._of_nodes("coef")))
    intercept_ = property(lambda self: self._of_nodes("intercept"))
    C_ = property(lambda self: self._of_nodes("C"))
    searches_ = property(lambda self: self._of_nodes("searches"))
    node_n_iter_ = property(lambda self: self._of_nodes("n_iter"))
    n_iter_ = property(lambda self: int(self._of_nodes("n_iter").max(initial=0)))
    estimators_ = property(lambda self: self._of_nodes("estimators"))
    n_leaves_ = property(lambda self: self._of_nodes("n_leaves"))
    threshold_ = property(lambda self: self._of_nodes("threshold"))

    def _of_nodes(self, name):
        nodes = self.nodes_
        try:
            return getattr(nodes, name)
        except AttributeError as exc:
            raise AttributeError(
                f"nodes of estimator={self.estimator!r:.60} have no {name}"
            ) from exc

    def _read(self, X):
        check_is_fitted(self, "nodes_")
        allow_nan = isinstance(self.nodes_, EstimatorNodes)
        return read_rows(self, X, self.nodes_.dtype, allow_nan)

    def _log_proba_blocks(self, X, use):
        self.nodes_.rows(X, use, self.n_jobs)

    def _target(self, X, code):
        return self.nodes_.target(X, code, self.n_jobs)

    @available_if(_has_scores)
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log-probabilities of `predict_log_proba` as scores.

        The method does not exist if `estimator` is a classifier of another package
        without `decision_function`, such as `RandomForestClassifier`: the probabilities
        of such a classifier may be 0.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. For two classes the difference of
            the log-probabilities of the second and the first, and for one class 0, of
            shape (n_samples,). With several labels the log-odds of each label; a label
            without a positive value in `fit` has the least finite float.

        Raises
        ------
        MemoryError
            As in `predict_log_proba`.
        """
        log_proba = self.predict_log_proba(X)
        if self.label_columns_ is not None:
            return np.nan_to_num(log_proba - log_other(log_proba))
        if self.classes_.size > 2:
            return log_proba
        return log_proba[:, -1] - log_proba[:, 0]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class of each sample, found by a search of few branches.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels. Ties go to the class that comes first in ``classes_``. With several
            labels an indicator matrix of the type of the y of `fit`, with the labels
            whose probability is above ``threshold_``.

        Raises
        ------
        ValueError
            If a score of a sample is not a number.
        """
        samples, columns = self._read(X), self.label_columns_
        if columns is not None:
            sample, code = self.nodes_.labels(samples, self.n_jobs)
            return columns.indicator(sample, code, samples.shape[0])
        return self.classes_[self.nodes_.best(samples, self.n_jobs)[0]]

    def _find_top_k(self, X, k):
        return self.nodes_.search(self._read(X), k, self.n_jobs)

    # ------------------------------------------------------------ scikit-learn

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing: `sample_weight` to this class, the rest to `estimator`.

        Returns
        -------
        routing : MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        if _is_foreign(self.estimator):
            router.add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        return router

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if _is_foreign(self.estimator):  # its tags say if it takes NaN and sparse X
            inner, mine = get_tags(self.estimator).input_tags, tags.input_tags
            mine.sparse, mine.allow_nan = inner.sparse, inner.allow_nan
        return tags


def _batch_classes(classes, known):
    """The classes of all batches; known: those of earlier calls, None in the first."""
    if known is not None:
        if classes is not None and not np.array_equal(
            np.unique(as_labels(classes)), known
        ):
            raise ValueError(
                "classes differ from those of the first call, or of fit: leave "
                "classes None, or fit a new model"
            )
        return known
    if classes is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit: all labels "
            "that any batch will have"
        )
    return np.unique(as_labels(classes))


def _check_finite(X):
    """Raise ValueError if X contains NaN, which builders do not accept."""
    if np.isnan(X.data if sp.issparse(X) else X).any():
        raise ValueError(
            "Input X contains NaN, and the builder of the tree needs finite X: give "
            "the tree as taxonomy, or impute the missing values"
        )


def _check_weight(weight, X):
    """Raise ValueError if sums of weighted squares leave the range of float64."""
    data = X.data if sp.issparse(X) else X
    # fmax and fmin ignore NaN, which the estimator may accept
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
