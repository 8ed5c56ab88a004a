"""Cut-offs by depth: against shares handed down by hand, counts of n-grams, lmplz."""

import os
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest
from _cases import all_pairs
from _oracles import wikitext
from sklearn.base import clone

from sklstruct import exchange
from sklstruct.context_tree import Pairs
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AbsoluteDiscountLM, KneserNeyLM
from sklstruct.symbols import TextFile


def cut_off_by_hand(model, X, y, least):
    """P of every window and class: shares of all pairs, the rare ones handed down."""
    whole = clone(model).set_params(min_count=1).fit(X, y)
    pairs = whole.backoff_model_.pairs
    tree, V = pairs.tree, pairs.n_classes
    _, counts = Pairs.count(tree, tree.find_windows(X), y, V)
    used = whole._used_counts(pairs, counts.copy())
    first = 0
    own, held = whole._shares(pairs, used.copy(), first)
    depth = tree.depths()[pairs.nodes()]
    rare = (counts < np.asarray(least)[depth]) & (depth > 0)
    held = held + pairs.node_sums(np.where(rare, own, 0.0))
    own[rare] = 0.0
    rows = np.empty((tree.n_nodes, V))
    for n in range(tree.n_nodes):
        above = np.full(V, 1.0 / V) if n == 0 else rows[tree.parent[n]]
        rows[n] = held[n] * above
        here = slice(pairs.ptr[n], pairs.ptr[n + 1])
        rows[n, pairs.target[here]] += own[here]
    return rows[tree.find_windows(X)], int(rare.sum()), pairs, counts, rare


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize(
    *all_pairs(
        discount=["modified", "single", 0.6],
        kind=[KneserNeyLM, AbsoluteDiscountLM],
        least=[[1, 1, 2, 2], [1, 2, 3, 5]],
    )
)
def test_min_count_hands_down_what_is_rare(kind, discount, least):
    rng = np.random.default_rng(5)
    tokens = (rng.random(700) ** 2 * 6).astype(np.int32)
    X, y = np.lib.stride_tricks.sliding_window_view(tokens, 3)[:-1], tokens[3:]
    model = kind(discount=discount, min_count=least, classes=np.arange(6)).fit(X, y)
    # Ids are the symbols themselves: all six occur.
    expected, n_rare, pairs, counts, rare = cut_off_by_hand(
        kind(discount=discount, classes=np.arange(6)), X, y, least
    )
    assert n_rare > 20
    fitted = model.backoff_model_
    assert fitted.n_pairs == pairs.n_pairs - n_rare
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    assert fitted.check_normalized() < 1e-12
    one = kind(discount=discount, min_count=least[-1], classes=np.arange(6)).fit(X, y)
    assert one.backoff_model_.n_pairs <= fitted.n_pairs
    # The same from a running text and in batches.
    grown = kind(discount=discount, min_count=least, classes=np.arange(6))
    for rows in np.array_split(np.arange(y.size), 3):
        grown.partial_fit(X[rows], y[rows])
    np.testing.assert_array_equal(grown.backoff_model_.log_prob, fitted.log_prob)


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize("interpolate", [True, False])
def test_min_count_of_a_text(interpolate, tmp_path):
    rng = np.random.default_rng(6)
    text = [
        " ".join("abcdefgh"[i] for i in (rng.random(9) ** 2 * 8).astype(int))
        for _ in range(300)
    ]
    inner = KneserNeyLM(min_count=[1, 1, 2, 3], interpolate=interpolate)
    lm = LanguageModel(inner, max_depth=3).fit(text)
    parts = LanguageModel(inner, max_depth=3)
    for i in range(0, 300, 100):
        parts.partial_fit(text[i : i + 100])
    a, b = lm.backoff_model_, parts.backoff_model_
    assert a.pairs == b.pairs
    np.testing.assert_array_equal(a.log_prob, b.log_prob)
    assert a.check_normalized() < 1e-12
    counted = Counter()
    for line in text:
        words = ["<s>", *line.split(), "</s>"]
        for end in range(1, len(words)):
            for start in range(max(0, end - 3), end + 1):
                counted[tuple(words[start : end + 1])] += 1
    kept = [g for g, n in counted.items() if n >= [1, 1, 2, 3][len(g) - 1]]
    of_unigrams = a.n_classes  # <unk> as well
    assert a.n_pairs == of_unigrams + sum(len(g) > 1 for g in kept)
    path = tmp_path / "model.arpa"
    lm.save(path)
    again = LanguageModel.load(path)
    assert again.perplexity(text) == pytest.approx(lm.perplexity(text), rel=1e-5)


def lmplz(text, folder, *options):
    program = shutil.which(os.environ.get("LMPLZ", "lmplz"))
    if program is None:
        pytest.skip("LMPLZ names no lmplz of KenLM")
    path = folder / "lmplz.arpa"
    command = [program, "-S", "100M", "-T", str(folder), "--arpa", str(path), *options]
    command += ["--skip_symbols", "--text", str(text)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return exchange.read(path)


@pytest.mark.slow
def test_min_count_is_prune_of_lmplz(tmp_path):
    """The n-grams, probabilities and back-off weights of lmplz --prune 0 0 1 2."""
    lines = [" ".join(words) for words in wikitext("train")]
    # lmplz takes <unk> in a text for white space.
    lines = [line.replace("<unk>", "unknown") for line in lines]
    text = tmp_path / "text"
    text.write_text("\n".join(lines) + "\n")
    peer = lmplz(text, tmp_path, "-o", "4", "--prune", "0", "0", "1", "2")
    inner = KneserNeyLM(min_count=[1, 1, 2, 3])
    ours = LanguageModel(inner, max_depth=3).fit(TextFile(text))
    path = tmp_path / "ours.arpa"
    ours.save(path)
    ours = exchange.read(path)
    assert ours.n_pairs == peer.n_pairs and ours.n_nodes == peer.n_nodes

    def table(model):
        symbols, pairs = model.labels.symbols, model.pairs
        contexts = [tuple(symbols[c]) for c in model.tree.contexts()]
        keys = [
            (*contexts[n], model.labels.classes[t])
            for n, t in zip(pairs.nodes().tolist(), pairs.target.tolist())
        ]
        return (
            dict(zip(keys, model.log_prob.tolist())),
            dict(zip(contexts, model.log_backoff.tolist())),
        )

    (mine, my_backoff), (other, other_backoff) = table(ours), table(peer)
    assert mine.keys() == other.keys()
    for key in mine:
        if key != ("<unk>",):
            assert mine[key] == pytest.approx(other[key], abs=2e-5)
    for key in my_backoff.keys() & other_backoff.keys():
        assert my_backoff[key] == pytest.approx(other_backoff[key], abs=2e-5)


@pytest.mark.parametrize(
    "min_count", [0, [], [2, 1], [[1, 2]], "a", [1, np.nan], [0, 1], 0.5]
)
def test_bad_min_count(min_count):
    X, y = np.array([[0], [1]]), np.array([1, 0])
    with pytest.raises(ValueError, match="min_count"):
        KneserNeyLM(min_count=min_count).fit(X, y)
