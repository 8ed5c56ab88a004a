"""The choice of C of `StructuredLogisticRegression` by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _num_samples

from .._compat import N_JOBS, Interval, MetaEstimatorMixin, _fit_context, with_callbacks
from .._docs import shared_docs
from .._parallel import ThreadMap, single_blas_thread, stop_flag
from .._progress import Progress
from ._structured import (
    FIT_ERRORS,
    SAMPLES,
    SparseFeatures,
    StructuredLogisticRegression,
    silent,
    strengths,
)


class StructuredLogisticRegressionCV(MetaEstimatorMixin, SparseFeatures):
    r"""`StructuredLogisticRegression` with C chosen by cross-validation.

    For each fold the models of all C are fitted, from the smallest C to the largest.
    Each fit starts from the fit before. Then a model with the chosen C is fitted to all
    samples. This model is ``best_estimator_``; its fitted attributes are also
    attributes of this estimator, and its predictions are the predictions of this
    estimator.

    Parameters
    ----------
    estimator : StructuredLogisticRegression
        The model; cloned. Its C is not used.

    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, positive and finite; or their number, at least 1. The values are
        then equally spaced on a logarithmic scale from 1 / `lam_max_`, the largest C
        with all weights 0, to 1000 / `lam_max_`.

    cv : int, cross-validation generator or iterable, default=None
        As in scikit-learn; None is 5 folds, stratified with one label per sample.

    scoring : str or callable, default=None
        Score of the held-out samples, larger is better, as in scikit-learn. It gets the
        `sample_weight` of `fit`. None: the weighted mean natural log-probability of the
        labels per sample; with several labels it is summed over the labels. Samples
        whose class is not in the training part of a fold are left out. A C whose mean
        score is not finite is not chosen.

    one_standard_error : bool, default=False
        Whether to choose the smallest C whose mean score is at most one standard error
        (over the folds) below the best mean score: fewer weights, at a score that is
        hardly worse.

    n_jobs : int, default=None
        Threads over folds. None is 1 unless in a `joblib.parallel_config` context.
        Results do not depend on it.

    Attributes
    ----------
    best_estimator_ : StructuredLogisticRegression
        The model with the chosen C, fitted to all samples.

    C_ : float
        The value chosen.

    Cs_ : ndarray of shape (n_Cs,)
        The values tried, ascending.

    scores_ : ndarray of shape (n_folds, n_Cs)
        Scores of the held-out samples.

    classes_ : ndarray of shape (n_classes,)
        Sorted labels; with several labels per sample the numbers of the columns of y.

    multilabel_ : bool
        Whether y was an indicator matrix.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    StructuredLogisticRegression : The model with a given C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.linear import StructuredLogisticRegression
    >>> from sklstruct.linear import StructuredLogisticRegressionCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = StructuredLogisticRegressionCV(
    ...     StructuredLogisticRegression("l1"), one_standard_error=True
    ... )
    >>> search.fit(X, y).coef_.nnz, round(search.C_, 2)
    (6, 4.04)
    """

    _parameter_constraints: dict = {
        "estimator": [StructuredLogisticRegression],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "one_standard_error": ["boolean"],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        estimator: StructuredLogisticRegression,
        Cs: int | ArrayLike = 10,
        cv: Any = None,
        scoring: str | Callable | None = None,
        *,
        one_standard_error: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs

    @property
    def class_weight(self) -> dict | str | None:
        """`class_weight` of the estimator."""
        return self.estimator.class_weight

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @shared_docs(samples=SAMPLES, errors=FIT_ERRORS)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StructuredLogisticRegressionCV:
        """Choose C, and fit the weights.

        Parameters
        ----------
        {samples}

        Returns
        -------
        self : StructuredLogisticRegressionCV
            Fitted estimator.

        {errors}
        """
        model = clone(self.estimator)
        model._validate_params()
        samples = model._read_samples(X, y, sample_weight)
        labels = model._labels_of(samples)
        if model.classes_.size == 1:
            raise ValueError("y has one class: choosing C needs two or more")
        folds = self._folds(X, y, samples, labels)
        weight = None
        if sample_weight is not None:  # without class weights
            weight = np.asarray(sample_weight, dtype=float)[samples.rows]
        with (
            Progress.of_fit(self, len(folds) + 1) as progress,
            stop_flag() as stop,
            single_blas_thread(),
            ThreadMap(self.n_jobs) as parallel,
        ):
            problem = model._problem(samples, stop)
            model._warn_uneven(problem)
            solver, term = model._solver(problem)
            lam_max = solver.largest_lam(term)
            Cs = strengths(self.Cs, lam_max)
            results = parallel(
                lambda fold: self._fold(samples, labels, weight, fold, Cs, stop), folds
            )
            scores = np.array([each for each, _ in results])
            for i, each in enumerate(scores):
                best = np.fmax.reduce(each)  # without NaN
                progress.step(f"fold {i}: best score {best:.4g}", "fold")
            C = float(Cs[self._choose(scores)])
            (found,) = model._solve(solver, term, [1 / C], silent)
            model._keep(found, lam_max)
        gaps = [(gap, 1.0) for _, gap in results] + [(found.gap, problem.total)]
        if any(gap > model.tol * total for gap, total in gaps):
            model._warn_gap(*zip(*gaps))
        # set at the end: if a fit fails, the attributes of the previous fit stay
        self.Cs_, self.scores_, self.C_ = Cs, scores, C
        self.best_estimator_ = model.set_params(C=C)
        fitted = {k: v for k, v in vars(model).items() if k.endswith("_")}
        self.__dict__.update(fitted)
        return self

    def _folds(self, X, y, samples, labels):
        """(training, held-out) samples of each fold, numbered as in `samples`."""
        if self.cv is None or isinstance(self.cv, Integral):
            cv = check_cv(self.cv, labels, classifier=True)
            return list(cv.split(samples.X, labels))
        # A splitter and given folds number all rows, also those of weight 0.
        number = np.full(_num_samples(X), -1)
        number[samples.rows] = np.arange(samples.rows.size)
        folds = []
        try:
            split = list(check_cv(self.cv, classifier=True).split(X, y))
        except ValueError as exc:
            remedy = ": pass the folds, cv=list(splitter.split(X, y, groups))"
            about_groups = "groups" in str(exc)
            raise ValueError(f"cv: {exc}{remedy if about_groups else ''}") from exc
        for parts in split:
            try:
                train, test = (number[part][number[part] >= 0] for part in parts)
            except IndexError as exc:
                raise ValueError(
                    f"cv: a fold is not a set of rows of X: {exc}"
                ) from exc
            if not (train.size and test.size):
                raise ValueError(
                    "cv: a part of a fold has no sample of positive weight"
                )
            folds.append((train, test))
        if not folds:
            raise ValueError("cv has no folds")
        return folds

    def _fold(self, samples, labels, weight, fold, Cs, stop):
        """(score of each C, largest gap per sample) of a fold.

        weight: of the samples, for the scorer; None if the user gave none.
        """
        train, test = fold
        # the weights of the samples already include the class weights
        model = clone(self.estimator).set_params(class_weight=None)
        part = model._read_samples(
            samples.X[train], labels[train], samples.weight[train]
        )
        if model.classes_.size == 1:
            raise ValueError("cv: a fold has training samples of one class only")
        X, y = samples.X[test], labels[test]
        scorer = None
        if self.scoring is not None:
            scorer = check_scoring(model, scoring=self.scoring)
        kwargs = {} if weight is None else {"sample_weight": weight[test]}
        problem = model._problem(part, stop)
        scores, worst = [], 0.0
        for found in model._solve(*model._solver(problem), 1 / Cs, silent):
            model._keep(found, np.nan)
            worst = max(worst, found.gap / problem.total)
            if scorer is None:
                scores.append(self._mean_log_proba(model, X, y, samples.weight[test]))
                continue
            try:
                scores.append(scorer(model, X, y, **kwargs))
            except TypeError as exc:
                if "sample_weight" not in str(exc):
                    raise
                raise ValueError(
                    "scoring: the function must take sample_weight, which was given"
                ) from exc
        return scores, worst

    @staticmethod
    def _mean_log_proba(model, X, y, weight):
        """The default score, without classes and labels that the model has not seen."""
        if model.label_columns_ is None:
            log_proba = model.target_log_proba(X, y)
        else:
            sign = 1 - 2 * y[:, model.label_columns_.known]
            scores = model.decision_function(X)[:, model.label_columns_.known]
            log_proba = log_expit(-sign * scores).sum(axis=1)
        known = ~np.isnan(log_proba)
        if not known.any():
            return np.nan
        return float(np.average(log_proba[known], weights=weight[known]))

    def _choose(self, scores):
        """The index of the chosen C."""
        unknown = np.isnan(scores).all(axis=1)
        if self.scoring is None and unknown.any():
            raise ValueError(
                f"cv: the test samples of fold {unknown.argmax()} have no class that "
                "its training samples have; use folds that are shuffled or stratified"
            )
        mean = scores.mean(axis=0)
        mean[~np.isfinite(mean)] = -np.inf
        best = int(mean.argmax())
        if mean[best] == -np.inf:
            raise ValueError("scoring: the mean score of no C is finite")
        if not self.one_standard_error or len(scores) == 1:
            return best
        error = scores[:, best].std(ddof=1) / np.sqrt(len(scores))
        return int(np.flatnonzero(mean >= mean[best] - error)[0])
