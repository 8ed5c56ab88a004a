"""StructuredLogLinearLM: the log-linear language model with tree penalties."""

from __future__ import annotations

import numbers
import warnings

import numpy as np
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning

from .._compat import Interval, StrOptions
from .._parallel import ThreadMap
from .._progress import Progress
from ..backoff._estimator import BackoffClassifier
from ._loss import LogLinearLoss
from ._penalties import PENALTIES
from ._solvers import SOLVERS


class StructuredLogLinearLM(CallbackSupportMixin, BackoffClassifier):
    r"""Log-linear model over the suffixes of a context, with structured penalties.

    .. math::
        P(y \mid x) = \frac{\exp s(x, y)}{\sum_v \exp s(x, v)}, \qquad
        s(x, y) = \sum_{k=0}^{m} \beta_k\, w_{x_{(k)}, y},

    with :math:`x_{(k)}` the k most recent symbols of x and :math:`\beta_k =
    \alpha^k`, fitted by

    .. math::
        \min_w\ -\sum_i \omega_i \ln P(y_i \mid x_i) + \lambda\, \Omega(w),
        \qquad w \ge 0 .

    There is a weight for every pair (context, symbol that followed it in
    training), and no other. Loss and gradient are exact and cost O(number of
    pairs), whatever the number of classes. The fitted model is exactly a back-off
    model.

    Parameters
    ----------
    max_depth : int, default=None
        Longest context m, at least 0. None: as long as the windows, or the paths,
        of X.

    penalty : {"tree_l2", "tree_linf", "l1", "l2", "elastic_net"}, default="tree_l2"
        :math:`\Omega`. With q over the pairs and subtree(q) the pairs of the same
        symbol whose context extends that of q into the past, q included:

        - "tree_l2": :math:`\sum_q \|w_{subtree(q)}\|_2`,
        - "tree_linf": :math:`\sum_q \max w_{subtree(q)}`,
        - "l1": :math:`\sum_q |w_q|`,
        - "l2": :math:`\frac12 \sum_q w_q^2`,
        - "elastic_net": :math:`\sum_q |w_q| + \frac{\gamma}{2} \sum_q w_q^2`.

    lam : float, default=0.5
        Strength :math:`\lambda \ge 0`. The loss is a total over the samples, so `lam`
        is in counts, like an absolute discount: one value serves all
        corpus sizes. Papers that divide the loss by W tokens have lam / W.

    alpha : float or array-like of shape (depth + 1,), default=0.9
        Weight of the features by depth: :math:`\beta_k = \alpha^k` for a number, or
        the :math:`\beta_k` themselves, in order of depth; positive. 1 is
        unweighted. Smaller values charge deep contexts more.

    depth_weight : float or array-like of shape (depth + 1,), default=1.0
        Weight of the penalty's terms by depth: factor :math:`d^k` of `lam` for a
        number d, or the factors themselves; non-negative.

    gamma : float, default=1.0
        Share of the squared term of "elastic_net", :math:`\gamma \ge 0`; other
        penalties ignore it.

    positive : bool, default=True
        Whether weights are non-negative.

    penalize_root : bool, default=True
        Whether the weights of the empty context (the unigrams) are penalised.

    solver : {"auto", "fista"}, default="auto"
        "auto" is accelerated proximal gradient in a diagonal metric, for every
        penalty. "fista" has one step size for all weights: a slow reference.

    tol : float, default=1e-2
        Stop when the optimality residual, ``optimality_``, is at most `tol`. On text,
        1e-2 leaves the objective within 1e-3 of its minimum, relatively (measured:
        3e-4 for l2, 2e-5 for tree_l2 on 2 M words).

    max_iter : int, default=300
        Largest number of iterations; a ConvergenceWarning when it is reached.

    warm_start : bool, default=False
        Start from the weights of the previous `fit` when the pairs are the same
        (another `lam`, `alpha` or penalty on the same data), from 0 otherwise.

    padding : object, default=None
        The symbol that marks missing history in dense X; see
        `SuffixTreeVectorizer`.

    classes : array-like of shape (n_classes,), default=None
        All symbols that can be predicted, in any order; closes the vocabulary. None:
        those of y. Symbols that y lacks get the probability of score 0.

    n_jobs : int, default=None
        Number of threads for the sweeps. None is 1 unless in a
        `joblib.parallel_config` context. Results do not depend on it.

    random_state : int, RandomState instance or None, default=None
        Reserved for solvers that draw samples; "auto" and "fista" do not.

    verbose : int, default=0
        Print objective and residual every `verbose` iterations; 0 is silent.
        For a progress bar set scikit-learn's ``ProgressBar`` callback with
        `set_callbacks`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted.

    coef_ : ndarray of shape (n_pairs,)
        Weight of each pair, in the order of the context tree.

    n_parameters_ : int
        Number of non-zero weights.

    n_iter_ : int
        Evaluations of loss and gradient.

    objective_ : ndarray of shape (`n_iter_`,)
        Penalised loss at each iteration, in nats, total over the samples; the last
        is that of the fitted weights.

    optimality_ : float
        Optimality residual :math:`\sqrt{\sum_p r_p^2 / c_p \,/\, \sum_i \omega_i}`,
        with :math:`r_p` the distance of the negative gradient to the penalty's
        subdifferential (by the proximal mapping) and :math:`c_p` the count of the
        pair.

    backoff_model_ : BackoffModel
        The fitted model: queries, sampling, ARPA.

    depth_ : int
        Longest context of the fitted tree.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    sklstruct.smoothing.KneserNeyLM : Count-based model of the same form.
    sklstruct.language_model.LanguageModel : Sentences in, perplexity out.

    Notes
    -----
    With `collapse=True` in the vectorizer, merged suffixes share one weight. For
    "l1", "l2", "elastic_net" and "tree_linf" with alpha = 1 and depth_weight = 1 the
    optimum is that of the trie; "tree_l2" does not keep equal weights equal and is
    refused.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       Penalties for Log-linear Language Models", EMNLP 2013, equations 1, 2 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct import StructuredLogLinearLM
    >>> X = np.array([["", "a"], ["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]])
    >>> y = np.array(["b", "a", "b", "a", "c"])
    >>> model = StructuredLogLinearLM(lam=0.1, padding="").fit(X, y)
    >>> model.predict(np.array([["a", "b"], ["c", "a"]]))
    array(['a', 'b'], dtype='<U1')
    >>> model.predict_proba(X).sum(axis=1).round(12)
    array([1., 1., 1., 1., 1.])
    """

    _parameter_constraints: dict = {
        "max_depth": [Interval(numbers.Integral, 0, None, closed="left"), None],
        "penalty": [StrOptions(set(PENALTIES))],
        "lam": [Interval(numbers.Real, 0, None, closed="left")],
        "alpha": [Interval(numbers.Real, 0, None, closed="neither"), "array-like"],
        "depth_weight": [Interval(numbers.Real, 0, None, closed="left"), "array-like"],
        "gamma": [Interval(numbers.Real, 0, None, closed="left")],
        "positive": ["boolean"],
        "penalize_root": ["boolean"],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "padding": "no_validation",
        "classes": ["array-like", None],
        "n_jobs": [numbers.Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    _trains_collapsed = True

    def __init__(
        self,
        max_depth=None,
        *,
        penalty="tree_l2",
        lam=0.5,
        alpha=0.9,
        depth_weight=1.0,
        gamma=1.0,
        positive=True,
        penalize_root=True,
        solver="auto",
        tol=1e-2,
        max_iter=300,
        warm_start=False,
        padding=None,
        classes=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.max_depth = max_depth
        self.penalty = penalty
        self.lam = lam
        self.alpha = alpha
        self.depth_weight = depth_weight
        self.gamma = gamma
        self.positive = positive
        self.penalize_root = penalize_root
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.padding = padding
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None) -> StructuredLogLinearLM:
        """Fit the weights.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Dense: context windows, one symbol a column, the last column the most
            recent. Sparse: the path matrix that `SuffixTreeVectorizer` makes.
        y : array-like of shape (n_samples,)
            The symbol that followed each context.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, fractional or not; weight 0 is as if absent, weight
            2 as a repetition.

        Returns
        -------
        self : StructuredLogLinearLM
            Fitted estimator.
        """
        return self._fit(X, y, sample_weight)

    def _check_params(self):
        if not SOLVERS[self.solver].supports(PENALTIES[self.penalty]):
            raise ValueError(
                f"solver={self.solver!r} cannot fit penalty={self.penalty!r}; use "
                'solver="auto"'
            )
        for name in ("lam", "alpha", "depth_weight", "gamma"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite, got {getattr(self, name)!r}")

    def _by_depth(self, name, depth, positive):
        """The values of `alpha` or `depth_weight` for depths 0 ... depth."""
        value = np.asarray(getattr(self, name), dtype=np.float64)
        if value.ndim == 0:
            return float(value) ** np.arange(depth + 1, dtype=np.float64)
        if value.ndim != 1 or value.size <= depth:
            raise ValueError(
                f"{name} must be a number or give one value for each depth 0 ... "
                f"{depth} of the contexts, got shape {value.shape}"
            )
        if (value < 0).any() or (positive and (value == 0).any()):
            raise ValueError(
                f"{name} must be {'positive' if positive else 'non-negative'} at "
                f"every depth, got {value.tolist()}"
            )
        return np.ascontiguousarray(value[: depth + 1])

    def _fit_tree(self, tree):
        penalty_class = PENALTIES[self.penalty]
        if tree.span is not None and not penalty_class.collapsible:
            raise ValueError(
                f"penalty={self.penalty!r} does not keep the weights of merged "
                "suffixes equal, so it cannot be fitted on a collapsed tree; use "
                "SuffixTreeVectorizer(collapse=False), or penalty='tree_linf'"
            )
        beta = self._by_depth("alpha", self.depth_, positive=True)
        depth_weight = self._by_depth("depth_weight", self.depth_, positive=False)
        if not self.penalize_root:
            depth_weight[0] = 0.0
        w = self._start(tree)
        with (
            Progress.of_fit(self, max_subtasks=self.max_iter) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):

            def report(iteration, objective, optimality):
                return progress.step(
                    f"iteration {iteration}: objective {objective:.6g}, residual "
                    f"{optimality:.2g}"
                )

            loss = LogLinearLoss(tree, beta, parallel=parallel)
            extra = {"gamma": self.gamma} if self.penalty == "elastic_net" else {}
            penalty = penalty_class(
                loss, self.lam, depth_weight, self.positive, **extra
            ).prepare()
            solver = SOLVERS[self.solver](self.tol, self.max_iter)
            result = solver.solve(loss, penalty, w, report)
            if not np.isfinite(result.objective) or not np.isfinite(result.w).all():
                raise FloatingPointError(
                    "the weights diverged: the objective is no longer finite. The "
                    "penalty is too weak for the data; use a larger lam."
                )
            self.coef_ = result.w
            trie, index = tree.expand()
            if tree.span is not None:
                loss = LogLinearLoss(trie, beta, parallel=parallel)
            scores = _expand_weights(tree, trie, index, result.w)
            _, es, z = loss.value_and_scores(scores)
            log_prob = np.log(es) - np.repeat(np.log(z), np.diff(trie.pair_ptr))
            log_backoff = np.zeros(trie.n_nodes)
            log_backoff[1:] = np.log(z[trie.parent[1:]]) - np.log(z[1:])
        self.n_iter_ = len(result.history)
        self.objective_ = np.array(result.history)
        self.optimality_ = result.optimality
        self.n_parameters_ = int(np.count_nonzero(result.w))
        if result.status == "max_iter":
            warnings.warn(
                f"the solver stopped at max_iter={self.max_iter} with an optimality "
                f"residual of {result.optimality:.2g} > tol={self.tol:g}. Increase "
                "max_iter or tol"
                + (
                    ", or lam: unpenalised weights may have no finite optimum."
                    * (self.lam == 0)
                    or "."
                ),
                ConvergenceWarning,
                stacklevel=4,
            )
        return log_prob, log_backoff

    def _start(self, tree):
        """Zero, or the previous weights where their pairs are those of the tree."""
        previous = getattr(self, "coef_", None)
        if self.warm_start and previous is not None and previous.size == tree.n_pairs:
            old = self.backoff_model_
            trie, _ = tree.expand()
            if (
                np.array_equal(old.pair_ptr, trie.pair_ptr)
                and np.array_equal(old.target, trie.target)
                and np.array_equal(old.parent, trie.parent)
            ):
                return np.maximum(previous, 0.0) if self.positive else previous.copy()
        return np.zeros(tree.n_pairs)


def _expand_weights(tree, trie, index, w):
    """Weights of the trie's pairs: merged suffixes share theirs."""
    if tree.span is None:
        return w
    source = np.empty(trie.n_nodes, dtype=np.int32)
    source[index] = np.repeat(np.arange(tree.n_nodes, dtype=np.int32), tree.span)
    sizes = np.diff(trie.pair_ptr)
    shift = tree.pair_ptr[source] - trie.pair_ptr[:-1]
    return w[np.arange(trie.n_pairs) + np.repeat(shift, sizes)]
