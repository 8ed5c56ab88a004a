"""Sparse log-linear models are written sparse: n-grams of weight 0 are left out."""

import io
import re

import numpy as np
import pytest
from _loglinear import loglinear
from _oracles import following_text

from sklstruct import (
    KneserNeyLM,
    LanguageModel,
    StructuredLogLinearLM,
    exchange,
)
from sklstruct.compat import kenlm
from sklstruct.exchange._formats import FORMATS
from sklstruct.loglinear import lam_path
from sklstruct.symbols import Labels

TEXT = following_text(0, n_words=15, n_sentences=150, spread=0.3, longest=9)
PENALTIES = {
    "l1": {"penalty": "l1", "lam": 1.4},
    "elastic_net": {"penalty": "elastic_net", "lam": 2.0},
    "tree_l2": {"penalty": "tree_l2", "lam": 3.0, "alpha": 1.2},
    "tree_linf": {"penalty": "tree_linf", "lam": 1.0, "alpha": 1.0},
    "l2": {"penalty": "l2", "lam": 1.0},
}


def fitted(penalty, max_depth=3, **options):
    model = loglinear(**PENALTIES[penalty], max_iter=60, **options)
    return LanguageModel(model, max_depth=max_depth).fit(TEXT)


def written(model, format, **options):
    file = io.BytesIO()
    exchange.write(model, file, format=format, **options)
    return io.BytesIO(file.getvalue())


def names(model):
    """{(context, class)} in words."""
    contexts = [tuple(model.labels.symbols[c]) for c in model.tree.contexts()]
    targets = model.labels.classes[model.pairs.target]
    return {(contexts[n], y) for n, y in zip(model.pairs.nodes(), targets)}


def needed(model, weight):
    """The n-grams that a file must have: those of a weight, and what leads to them."""
    contexts = [tuple(model.labels.symbols[c]) for c in model.tree.contexts()]
    nodes, classes = model.pairs.nodes(), model.labels.classes
    grams = {
        (*contexts[n], classes[y])
        for n, y, w in zip(nodes, model.pairs.target, weight)
        if n == 0 or w != 0.0
    }
    # A context whose back-off weight is not 1 is the beginning of some of these.
    todo = list(grams)
    while todo:
        gram = todo.pop()
        for part in (gram[1:], gram[:-1]):
            if part and part not in grams and part != ("<s>",):
                grams.add(part)
                todo.append(part)
    return {(g[:-1], g[-1]) for g in grams if g[-1] != "<s>"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "penalty, format",
    [("l1", format) for format in FORMATS] + [(p, "arpa") for p in PENALTIES][1:],
)
def test_ngrams_of_weight_zero_are_left_out(penalty, format):
    lm = fitted(penalty)
    model, weight = lm.backoff_model_, lm.estimator_.coef_
    options = {"precision": 15} if format == "arpa" else {}
    again = exchange.read(written(model, format, **options), format=format)
    sparse = names(again)
    assert sparse == needed(model, weight)
    if penalty in ("l1", "tree_l2", "elastic_net"):
        assert len(sparse) < 0.8 * model.n_pairs
    # The distribution is the same in every context, that of a context that is gone too.
    columns = again.labels.encode_targets(model.labels.classes)
    contexts = [model.labels.symbols[c] for c in model.tree.contexts()]
    width = model.max_depth
    windows = np.full((len(contexts), width), None, dtype=object)
    for row, context in zip(windows, contexts):
        row[width - len(context) :] = context
    got = again.rows(again.locate(again.labels.encode_contexts(windows)))[:, columns]
    want = model.rows(np.arange(model.n_nodes))
    atol = {"kenlm": 1e-5, "trie": 1e-5, "att": 1e-7}.get(format, 3e-13)
    if format == "att":  # states that no sentence reaches are left out
        seen = again.depth(again.locate(again.labels.encode_contexts(windows)))
        same = [i for i, c in enumerate(contexts) if seen[i] == len(c)]
        got, want = got[same], want[same]
    np.testing.assert_allclose(got, want, rtol=0, atol=atol)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_prior_keeps_its_ngrams():
    """With a prior a weight of 0 stands for the number of the prior."""
    prior = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(TEXT)
    model = StructuredLogLinearLM(
        penalty="l1", lam=1e6, prior=prior.backoff_model_, positive=False
    )
    lm = LanguageModel(model, max_depth=2).fit(TEXT)
    assert (lm.estimator_.coef_ == 0).all()
    again = exchange.read(written(lm.backoff_model_, "native"))
    assert again.n_pairs > again.n_classes
    nodes = np.arange(again.n_nodes)
    windows = again.tree.windows()
    np.testing.assert_allclose(
        again.rows(nodes),
        lm.backoff_model_.rows(lm.backoff_model_.locate(windows)),
        atol=1e-12,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tables_in_memory_are_those_of_the_file(tmp_path):
    model = fitted("l1").backoff_model_
    (tmp_path / "m.bin").write_bytes(written(model, "kenlm").getvalue())
    a, b = kenlm.Model.from_backoff(model), kenlm.Model(tmp_path / "m.bin")
    for text in [" ".join(map(str, sentence)) for sentence in TEXT[:40]]:
        assert list(a.full_scores(text)) == list(b.full_scores(text))


def test_models_of_counts_are_written_whole():
    model = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(TEXT)
    model = model.backoff_model_
    assert model.zero_weight is None
    counts = re.findall(rb"^ngram \d=(\d+)$", written(model, "arpa").getvalue(), re.M)
    assert sum(map(int, counts)) == model.n_pairs + 1  # and <s>


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_windows_of_features_without_names_of_classes():
    """The model does not know to which context a class leads."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (300, 3))
    y = (X[:, -1] + (rng.random(300) < 0.3)) % 4
    model = StructuredLogLinearLM(penalty="l1", lam=3.0, padding=-1).fit(X, y)
    model = model.backoff_model_
    unnamed = model.relabel(Labels(model.labels.classes))
    again = exchange.read(written(unnamed, "native"))
    assert again.n_pairs < model.n_pairs
    np.testing.assert_allclose(
        again.rows(again.locate(X)), model.rows(model.locate(X)), atol=1e-12
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_of_a_path_are_written_sparse():
    model = loglinear(penalty="l1", max_iter=60)
    path = lam_path(LanguageModel(model, max_depth=2), TEXT, lams=[4.0, 1.0])
    sizes = []
    for i in range(2):
        whole = path.model(i)
        sizes.append(exchange.read(written(whole, "native")).n_pairs)
        assert sizes[i] < whole.n_pairs
    assert sizes[0] < sizes[1]
