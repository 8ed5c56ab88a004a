"""A prior: the model is the prior times exp(scores), and scores are penalised."""

import numpy as np
import pytest
from _cases import each_value
from _loglinear import loglinear
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils._param_validation import InvalidParameterError

from sklstruct import KneserNeyLM, LanguageModel, StructuredLogLinearLM
from sklstruct.backoff import prune
from sklstruct.loglinear import ElasticNet, StructuredLogLinearLMCV, lam_path

BASE = ["the cat sat", "a dog ran", "the cat ran down", "the dog sat down", "a cat"]
TEXT = ["the dog ran", "the dog ran down", "the sat", "the dog ran", "cat sat"]


def base(max_depth=2, discount=0.5):
    return LanguageModel(KneserNeyLM(discount=discount), max_depth=max_depth).fit(BASE)


def adapted(prior, max_depth=2, **params):
    params = {"tol": 1e-9, "max_iter": 5000} | params
    model = loglinear(prior=prior.backoff_model_, **params)
    lm = LanguageModel(model, max_depth=max_depth, vocabulary=prior.vocabulary_)
    return lm.fit(TEXT)


def samples(lm, text, max_depth):
    """(history, class) of all words of a text, by hand."""
    classes = lm.backoff_model_.labels.classes.tolist()
    for sentence in text:
        history = ["<s>"]
        for word in [*sentence.split(), "</s>"]:
            yield tuple(history[-max_depth:]), classes.index(word)
            history.append(word)


@pytest.mark.parametrize(*each_value(prior_depth=[0, 1, 2], alpha=[1.0, 0.7]))
def test_against_the_definition(prior_depth, alpha):
    """Dense: log P0 of every history plus indicators of the suffixes, by L-BFGS."""
    prior, depth, lam = base(prior_depth), 2, 0.3
    found = adapted(prior, depth, penalty="l2", lam=lam, alpha=alpha)
    data = list(samples(prior, TEXT, 3))
    features = sorted(
        {(h[len(h) - k :], y) for h, y in data for k in range(min(depth, len(h)) + 1)}
    )
    column = {f: i for i, f in enumerate(features)}
    model = prior.backoff_model_
    n_classes = model.n_classes

    def terms(history):
        """log P0 of each class, and the factors of w in its score."""
        width = max(model.max_depth, 1)
        pad = [None] * width + list(history)
        window = model.labels.encode_contexts([pad[-width:]])
        factors = np.zeros((n_classes, len(features)))
        for k in range(min(depth, len(history)) + 1):
            for y in range(n_classes):
                i = column.get((history[len(history) - k :], y))
                if i is not None:
                    factors[y, i] = alpha**k
        return model.rows(model.locate(window))[0], factors

    def log_proba(history, w):
        of_prior, factors = terms(history)
        return log_softmax(of_prior + factors @ w)

    of_prior, factors = map(np.array, zip(*(terms(h) for h, _ in data)))
    at = np.arange(len(data)), [y for _, y in data]

    def objective(w):
        loss = -log_softmax(of_prior + factors @ w, axis=1)[at].sum()
        return loss + 0.5 * lam * w @ w

    best = minimize(
        objective, np.zeros(len(features)), method="BFGS", options={"gtol": 1e-7}
    )
    assert found.estimator_.objective_[-1] == pytest.approx(objective(best.x), abs=1e-7)
    for history in [
        ("<s>",),
        ("<s>", "the"),
        ("the", "dog"),
        ("a", "dog"),
        ("sat",),
        ("cat", "ran"),
        ("dog", "ran"),
        ("down", "down"),
    ]:
        model_after = found.backoff_model_
        window = [([None, *history])[-2:]]
        at = model_after.locate(model_after.labels.encode_contexts(window))
        got = model_after.rows(at)[0]
        np.testing.assert_allclose(got, log_proba(history, best.x), atol=1e-5)
    assert found.backoff_model_.check_normalized() < 1e-9


@pytest.mark.parametrize("solver", ["diagonal", "fista"])
def test_solvers_agree_and_the_gap_bounds_them(solver):
    prior = base()
    best = adapted(prior, penalty="l2", lam=0.2).estimator_.objective_[-1]
    model = adapted(prior, penalty="l2", lam=0.2, solver=solver, tol=1e-4).estimator_
    assert best - 1e-9 <= model.objective_[-1] <= best + model.gap_ + 1e-9
    assert model.gap_ < 1e-3


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic_net", "tree_l2", "tree_linf"])
def test_strengths_without_bound_leave_the_prior(penalty):
    prior = base()
    model = adapted(prior, penalty=penalty, lam=1e6, tol=1e-6).backoff_model_
    known = prior.backoff_model_
    windows = [[a, b] for a in ("<s>", "the", "dog") for b in ("the", "dog", "ran")]
    rows = [m.rows(m.locate(m.labels.encode_contexts(windows))) for m in (model, known)]
    np.testing.assert_allclose(*rows, atol=1e-4)


def test_a_pruned_prior_may_lack_pairs_of_its_contexts():
    """Pruned, so that parents of pairs are missing: closed without a change."""
    lm = base()
    smaller = LanguageModel.from_backoff(
        prune(lm.backoff_model_, 0.05), out_of_vocabulary="error"
    )
    model = adapted(smaller, lam=1e6, penalty="l2", tol=1e-6)
    np.testing.assert_allclose(
        model.score_samples(BASE), smaller.score_samples(BASE), atol=1e-4
    )


def test_the_differences_have_either_sign():
    lm = adapted(base(), penalty="l2", lam=0.2, positive=True, solver="auto")
    coef = lm.estimator_.coef_
    assert coef.min() < 0.0 < coef.max()


def test_training_on_the_text_beats_the_prior_on_it():
    prior = base()
    lms = [adapted(prior, penalty="l2", lam=lam) for lam in (10.0, 1.0, 0.1)]
    scores = [prior.score(TEXT), *(lm.score(TEXT) for lm in lms)]
    assert scores == sorted(scores)
    # The fit starts there, without a penalty.
    start = lms[0].estimator_.objective_[0]
    assert start == pytest.approx(-prior.score_samples(TEXT).sum())


@pytest.mark.parametrize(
    "params, match",
    [
        (
            {"solver": "tree_metric", "penalty": "l2"},
            "and a prior: it knows the loss",
        ),
        ({"solver": "active_set", "penalty": "tree_l2"}, "and a prior: it knows the"),
        ({"penalty": ElasticNet(count_weight=[1.0, 2.0])}, "and a prior: count_weight"),
    ],
)
def test_parameters_that_exclude_a_prior_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        adapted(base(), **params)


@pytest.mark.parametrize("prior", [KneserNeyLM(), base(), "model", 3], ids=repr)
def test_a_prior_of_another_type_is_refused(prior):
    model = StructuredLogLinearLM(prior=prior)
    for fit in (lambda: LanguageModel(model).fit(TEXT), lambda: model.fit([[0]], [0])):
        with pytest.raises(InvalidParameterError, match="'prior' parameter .*Backoff"):
            fit()


def test_other_words_and_longer_contexts_are_refused():
    model = StructuredLogLinearLM(prior=base().backoff_model_)
    with pytest.raises(ValueError, match="prior: its classes"):
        LanguageModel(model, max_depth=2).fit(TEXT)
    with pytest.raises(ValueError, match="set max_depth to that of the prior"):
        adapted(base(3), max_depth=2)
    assert not hasattr(model, "partial_fit")
    lm = LanguageModel(model, max_depth=2, vocabulary=base().vocabulary_)
    with pytest.raises(ValueError, match="prior: a path of strengths uses only"):
        lam_path(lm, TEXT)
    lm = LanguageModel(StructuredLogLinearLMCV(model), max_depth=2)
    with pytest.raises(ValueError, match="prior: a search uses only the tree"):
        lm.set_params(vocabulary=base().vocabulary_).fit(TEXT)


def test_clones_share_the_prior():
    model = StructuredLogLinearLM(prior=base().backoff_model_)
    assert clone(model).prior is model.prior
    search = GridSearchCV(
        LanguageModel(model, max_depth=2, vocabulary=base().vocabulary_),
        {"estimator__lam": [0.1, 10.0]},
        cv=2,
    ).fit(TEXT * 2)
    assert search.best_params_ == {"estimator__lam": 0.1}


def test_the_prior_is_part_of_the_checkpoint(tmp_path):
    path = str(tmp_path / "fits") + "/"
    first = adapted(base(), penalty="l2", checkpoint=path)
    other = adapted(base(discount=0.2), penalty="l2", checkpoint=path)
    again = adapted(base(), penalty="l2", checkpoint=path)
    np.testing.assert_array_equal(first.estimator_.coef_, again.estimator_.coef_)
    assert first.score(TEXT) != other.score(TEXT)
