"""MixtureLM: a mixture of models, with weights learned from held-out samples."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator

from .._checks import as_shares
from .._compat import N_JOBS, BaseEstimator, Interval, StrOptions
from .._likelihood import check_probabilities, innermost
from .._members import NamedMembers
from ..backoff import Distribution, DistributionClassifier
from ..backoff._distribution import by_group, count_rows, take
from ..symbols import Labels
from ._base import ModelClassifier
from ._gates import GATES, ConstantGate, Gate
from ._models import MixtureModel, UniformModel
from ._sub_models import (
    ComposedSubModel,
    FrozenSubModel,
    GroupFit,
    SubModel,
    sub_model_of,
)


class MixtureSubModel(ComposedSubModel):
    """The sub-models of a mixture, and one gate for the models of all groups.

    weights: the gate's name, or constant weights.
    validation_fraction: share of the samples, the last ones, that weights are learnt
    from where none are held out.
    refit: whether models are then fitted to all samples. If all models are fitted
    already, all samples serve for the weights.
    """

    def __init__(
        self,
        names: list[str],
        parts: list[SubModel],
        weights: str | np.ndarray,
        validation_fraction: float,
        refit: bool,
    ) -> None:
        self.names, self.parts, self.weights = names, parts, weights
        super().__init__(parts)
        if isinstance(weights, str):
            self.holds_out = True
            frozen = all(isinstance(part, FrozenSubModel) for part in parts)
            self.validation_fraction = 0.0 if frozen else validation_fraction
            self.refit = refit

    def fit(self, task: GroupFit) -> list[Distribution]:
        if not isinstance(self.weights, str):
            return self._mix(self._fit_parts(task), ConstantGate(self.weights))
        if task.samples.outcome.size == 0:
            # Classes whose words do not occur have uniform models.
            return [UniformModel(int(n)) for n in task.sizes]
        fitted = self._fit_parts(task)
        # The gate if no held-out sample belongs to this factor.
        gate: Gate = ConstantGate(np.full(len(fitted), 1.0 / len(fitted)))
        if task.reuse_weights_of is not None:
            gate = next((m.gate for m in _mixtures(task.reuse_weights_of)), gate)
        else:
            # If all models are frozen, the samples themselves are held-out samples.
            held_out = task.samples if task.held_out is None else task.held_out
            if held_out.outcome.size:
                gate = self._fit_gate(fitted, held_out, task.report)
        return self._mix(fitted, gate)

    def _fit_parts(self, task):
        """(n_models, n_groups) nested lists."""
        fitted, earlier = [], task.reuse_weights_of
        for k, (name, part) in enumerate(zip(self.names, self.parts)):
            own = task._replace(
                samples=task.samples.of_part(k),
                held_out=task.held_out and task.held_out.of_part(k),
                reuse_weights_of=earlier and [m.models[k] for m in _mixtures(earlier)],
            )
            fitted.append(part.fit(own))
            task.report(f"{name} is fitted to {task.samples.outcome.size} samples")
        return fitted

    def _mix(self, fitted, gate):
        return [MixtureModel(list(models), gate) for models in zip(*fitted)]

    def _fit_gate(self, fitted, held_out, report) -> Gate:
        """One gate for the models of all groups: each group has few held-out
        samples."""
        gate = GATES[str(self.weights)]()
        n = held_out.outcome.size
        mixed = self._mix(fitted, gate)
        depths = tuple(np.max([m.gate_depths for m in mixed], axis=0).astype(int))
        if gate.reads_features and not depths:
            raise ValueError(
                f"weights={self.weights!r} depends on the contexts that match a "
                "history, but none of models has a tree of contexts; use 'em'"
            )
        log_prob = np.empty((n, len(fitted)))
        features = np.zeros((n, 2 * len(depths)))
        for g, rows in by_group(held_out.group, len(fitted[0])):
            model = mixed[g]
            at = model.locate(take(held_out.contexts, rows))
            log_prob[rows] = model.targets(at, held_out.outcome[rows])
            if gate.reads_features:
                features[rows] = model.gate_features(at)
        if not (log_prob.max(axis=1, initial=-np.inf) > -np.inf).any():
            raise ValueError(
                "no held-out sample has a positive probability in any of models; give "
                "more held-out samples, or models that smooth"
            )
        gate = gate.fit(log_prob, features, held_out.weight, depths)
        report(f"weights of {', '.join(self.names)} are learned from {n} samples")
        return gate


def _mixtures(models):
    """The mixtures among the models; groups without samples have uniform models."""
    return [model for model in models if isinstance(model, MixtureModel)]


class MixtureLM(NamedMembers, ModelClassifier):
    r"""Linear mixture of language models, with weights that may depend on the history.

    .. math::
        P(y \mid x) = \sum_k \pi_k(x)\, P_k(y \mid x), \qquad
        \pi_k(x) \ge 0,\ \sum_k \pi_k(x) = 1 .

    The weights maximise the likelihood of held-out samples. The weights depend only on
    the history x and not on y, so the mixture is a distribution.

    Parameters
    ----------
    models : list of (str, classifier)
        Names and models. Any classifier with probabilities, or a pipeline that ends in
        one, such as ``make_pipeline(ContextRefiner(), StructuredLogLinearLM())``. A
        fitted model inside a `sklearn.frozen.FrozenEstimator` is not fitted again. If
        this mixture is the estimator of a `LanguageModel`, a frozen model can also be a
        fitted `LanguageModel` or a model from a file, and all words of the frozen model
        must be in the vocabulary.

    weights : {"em", "by_depth", "by_count", "logistic"} or array-like, default="em"
        - ``"em"``: constants, by expectation-maximisation [1]_.
        - ``"by_depth"``: constants for each depth that the history matches in the first
          context tree of the models.
        - ``"by_count"``: constants for the training weight of the matched context, in
          powers of 2 [1]_.
        - ``"logistic"``: a multinomial logistic gate on matched depths and training
          weights in all context trees.
        - array-like of shape (n_models,): given weights, non-negative, which are
          divided by their sum. No samples are held out.

    validation_fraction : float, default=0.1
        The last share of the samples, from which the weights are learned; between 0 and
        1. Not used if `fit` gets held-out samples or if weights are given. If all
        models are frozen, the weights are learned from all samples. Held-out samples
        whose class does not occur in the other samples are ignored. If no held-out
        sample is left, an error is raised.

    refit : bool, default=True
        True: after the weights are learned, the models are fitted to all samples.
        False: the models are fitted only to the samples that are not held out.

    classes : array-like of shape (n_classes,), default=None
        All symbols that can be predicted, in any order. None: those of y.

    n_jobs : int, default=None
        Number of threads that fit the models of groups, inside a `FactoredLM`.
        Results do not depend on it.

    verbose : int, default=0
        Print what is done at every `verbose`-th step; 0 is silent.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted.

    weights_ : ndarray of shape (n_models,) or None
        Constant weights; None if they depend on the history, see `predict_weights`.

    weight_gap_ : float or None
        For ``"em"``: upper bound of the increase of the mean log-likelihood of a
        held-out sample by any other constants, in nats,

        .. math::
            \max_k \frac{1}{n} \sum_i \frac{P_k(y_i \mid x_i)}{P(y_i \mid x_i)} - 1,

        because the likelihood is concave. None for other weights.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    FactoredLM : Models of classes and of words in classes; mixtures can be its factors.
    sklstruct.language_model.interpolate : A mixture of fitted language models.

    Notes
    -----
    The matched depth of a frozen model is known, but its training weights are not:
    ``"logistic"`` uses 0, and ``"by_count"`` raises an error if the first tree is
    frozen.

    Transformers, such as word classes, are not fitted to held-out samples while the
    weights are learned. Otherwise models of their contexts would get too much weight.
    With `refit` the transformers are then fitted to all samples.

    Inside a `FactoredLM` the mixtures for classes and for the words of a class have
    separate weights. The gate for words may depend on the class, because the class is
    given. Outside of a `FactoredLM`, a gate that depends on the class would not give a
    distribution.

    References
    ----------
    .. [1] F. Jelinek, R. L. Mercer, "Interpolated estimation of Markov source
       parameters from sparse data", Pattern Recognition in Practice, 1980.

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.mixture import MixtureLM
    >>> from sklstruct.smoothing import AdditiveLM, WittenBellLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"] * 5
    >>> mixture = MixtureLM([("add", AdditiveLM(delta=0.1)), ("wb", WittenBellLM())])
    >>> model = LanguageModel(mixture, max_depth=2).fit(text)
    >>> float(model.estimator_.weights_.sum().round(12))
    1.0
    """

    distribution_: MixtureModel
    members_in = "models"

    _parameter_constraints: dict = {
        "models": [list],
        "weights": [StrOptions(set(GATES)), "array-like"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "refit": ["boolean"],
        "classes": ["array-like", None],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        models: list[tuple[str, BaseEstimator]],
        *,
        weights: str | ArrayLike = "em",
        validation_fraction: float = 0.1,
        refit: bool = True,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.models = models
        self.weights = weights
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklstruct_sub_model__(
        self, classes: np.ndarray, for_gate: bool
    ) -> MixtureSubModel:
        names = self._check_models()
        weights = self.weights
        if not isinstance(weights, str):
            n = len(self.models)
            what = f"a name or one number for each of the {n} models"
            weights = as_shares(weights, n, what)
            weights = weights / weights.sum()
        by_name = isinstance(weights, str)
        reads = for_gate or (by_name and GATES[weights]().reads_features)
        models = [model for _, model in self.models]
        return MixtureSubModel(
            names,
            [sub_model_of(model, classes, reads) for model in models],
            weights,
            self.validation_fraction,
            self.refit,
        )

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters with which the estimator learns from class ids."""
        # Check names before any parameter is set: a model must not have a parameter's
        # name.
        self._check_models()
        return super().__sklstruct_ids__(labels)

    def _check_models(self):
        self._validate_params()
        for name, model in self._check_members("classifier", "there is nothing to mix"):
            if isinstance(model, type) or not hasattr(model, "fit"):
                raise TypeError(
                    f"models: {name!r} must be a classifier (an object with fit), got "
                    f"{model!r:.60}"
                )
            hint = ""
            if hasattr(model, "__sklstruct_over_ids__"):
                if isinstance(model, FrozenEstimator):
                    continue
                hint = (
                    "; a fitted model of sentences is mixed as FrozenEstimator("
                    f"{name}) inside a LanguageModel, or by interpolate"
                )
            check_probabilities(f"models: {name!r}", model, hint)
        if isinstance(self.weights, str) and self.weights == "by_count":
            self._check_counts()
        return [name for name, _ in self.models]

    def _check_counts(self):
        """ValueError if the first model with a tree of contexts has no training
        weights."""
        for name, model in self.models:
            fitted = isinstance(model, FrozenEstimator)
            last = innermost(model.estimator if fitted else model)
            if isinstance(last, DistributionClassifier) and fitted:
                raise ValueError(
                    f"weights='by_count' needs the training weight of contexts in "
                    f"{name!r}, which a fitted model does not have; use 'by_depth', or "
                    "list a model that is not frozen before it"
                )
            if isinstance(last, DistributionClassifier):
                return

    def _fitted(self):
        gate = self.distribution_.gate
        constant = isinstance(gate, ConstantGate)
        self.weights_ = gate.weights if constant else None
        self.weight_gap_ = gate.gap if constant else None

    def predict_weights(self, X: Any) -> np.ndarray:
        r"""The weights :math:`\pi_k(x)` after each context.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        Returns
        -------
        weights : ndarray of shape (n_samples, n_models)
            Rows sum to 1.
        """
        at = self.locate(X)
        weights = np.exp(self.distribution_.log_weights(at))
        return np.broadcast_to(weights, (count_rows(at), len(self.models))).copy()

    def model_log_proba(self, X: Any, y: ArrayLike) -> np.ndarray:
        r"""Natural logarithm of :math:`P_k(y_i \mid x_i)` by model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_models)
            NaN where y is not in ``classes_``.
        """
        at, target, known = self._locate_known(X, y)
        out = np.full((target.size, len(self.models)), np.nan)
        out[known] = self.distribution_.targets(at, target[known])
        return out
