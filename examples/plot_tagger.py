"""
A tagger of any order
=====================

A hidden Markov model of order n predicts each label from the n - 1 labels before it.
:class:`~sklstruct.hmm.HighOrderHMM` finds the most probable labels exactly for every
order, so ``GridSearchCV`` can choose the order. A high order is useful if the
observations contain little information about the labels. This page shows data with much
and with little information.

The sentences are lines of Python's standard library, which is part of every Python. The
labels are the roles of the names in a line, which the module ``ast`` finds.
"""

# %%
# Lines of code and the roles of their names
# ------------------------------------------

import ast
import io
import json
import keyword
import tokenize
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

from sklstruct.hmm import HighOrderHMM, SuffixEmission


def roles(tree):
    """(line, column) -> what the name that begins there is used for."""
    found, called = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called.add(id(node.func))
        if isinstance(node, ast.Name):
            use = "store" if isinstance(node.ctx, ast.Store) else "load"
            use = "call" if id(node) in called else use
            found[node.lineno, node.col_offset] = use
        elif isinstance(node, ast.Attribute):
            use = "method" if id(node) in called else "attribute"
            found[node.end_lineno, node.end_col_offset - len(node.attr)] = use
        elif isinstance(node, ast.arg):
            found[node.lineno, node.col_offset] = "parameter"
        elif isinstance(node, ast.keyword) and node.arg:
            found[node.lineno, node.col_offset] = "argument"
    return found


def read(path):
    """Lines of a file as tokens, and the label of each token."""
    source = path.read_text(encoding="utf-8")
    role = roles(ast.parse(source))
    X, y, tokens, labels = [], [], [], []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            X.append(tokens)
            y.append(labels)
            tokens, labels = [], []
        elif token.type == tokenize.NAME:
            tokens.append(token.string)
            used = "keyword" if keyword.iskeyword(token.string) else "definition"
            labels.append(role.get(token.start, used))
        elif token.type in (tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            kind = tokenize.tok_name[token.type].lower()
            tokens.append(token.string if kind == "op" else kind)
            labels.append(kind)
    return X, y


library = Path(json.__file__).parents[1]
X, y = [], []
for name in ("argparse", "ast", "json/decoder", "json/encoder", "textwrap", "random"):
    lines, labels = read(library / f"{name}.py")
    X += lines
    y += labels
print(" ".join(f"{a}/{b}" for a, b in zip(X[150], y[150])))

# %%
# The order by cross-validation
# -----------------------------
# Sequences are lists of any lengths, and scikit-learn can divide them into folds. The
# grid also contains a parameter of the emission model.

grid = {"order": [2, 3, 4, 5, 6], "emission__max_count": [3, 10]}
folds = KFold(3, shuffle=True, random_state=0)
search = GridSearchCV(HighOrderHMM(emission=SuffixEmission()), grid, cv=folds)
search.fit(X, y)
print(search.best_params_)
print(f"labels right, held out: {search.best_score_:.4f}")

# %%
# The example predicts the labels of all lines by cross-validation, and prints the most
# frequent errors:

found = np.concatenate(cross_val_predict(search.best_estimator_, X, y, cv=folds))
true = np.concatenate([np.array(row) for row in y])
wrong = found != true
pairs, counts = np.unique(
    [f"{a} taken for {b}" for a, b in zip(true[wrong], found[wrong])],
    return_counts=True,
)
for i in np.argsort(-counts)[:4]:
    print(f"{counts[i]:4d}  {pairs[i]}")

# %%
# When is a high order useful?
# ----------------------------
# Every second token of a line of code is an operator, and all operators have the same
# label. A model of order 3 therefore remembers about one name. In both pictures the
# accuracy rises at higher orders. The accuracy rises most if every name is hidden. The
# observation then only shows that a name is at this position, and the role of the name
# has to be found from the labels around it.
#
# In general, a high order is useful if the observations contain little information, or
# if labels depend on labels some positions before, *and* if the text is large enough to
# contain long contexts more than once. For part-of-speech tags of a tree bank, the
# words contain nearly all information. On the :ref:`benchmark page <benchmark_hmm>` the
# tags of orders above 4 are less accurate than the tags of order 4. A high order takes
# little additional time in both cases, so choose the order by cross-validation.


def hide(lines):
    return [
        ["name" if t.isidentifier() and not keyword.iskeyword(t) else t for t in line]
        for line in lines
    ]


order_grid = {"order": [2, 3, 4, 5, 6, 7]}
axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")[1]
for axis, title, lines in ((axes[0], "names", X), (axes[1], "names hidden", hide(X))):
    curve = GridSearchCV(HighOrderHMM(), order_grid, cv=folds).fit(lines, y)
    scores = curve.cv_results_["mean_test_score"]
    axis.plot(order_grid["order"], scores, marker="o")
    axis.set(title=title, xlabel="order", ylabel="share of right labels")
    print(title, np.round(scores, 4), "order", curve.best_params_["order"])

# %%
# Few labels, many lines
# ----------------------
# ``None`` is an unknown label, at one token or in a whole line.
# Expectation-maximisation replaces unknown labels by the expected labels. A line
# without labels has 0.02 times its ``sample_weight``. Here a quarter of the lines is
# held out, and a small share of the other lines has labels. The lines without labels
# are left out, have weight 0.02, or have the whole weight. Lines without
# labels increase the accuracy if very few lines have labels. With some dozens of
# labelled lines, they decrease the accuracy, and more so with a larger weight: the
# classes that explain the lines best are then not the classes of the labels. On tree
# banks the gain is larger (:ref:`hmm`). Choose the weight on held-out lines, and
# include the weight 0.

rng = np.random.default_rng(0)
order = rng.permutation(len(X))
held_out, rest = order[: len(X) // 4], order[len(X) // 4 :]
roles_there = sorted({label for row in y for label in row})
shares = [0.003, 0.01, 0.03, 0.1]
curves = {"left out": [], "0.02": [], "whole": []}
for share in shares:
    labelled = rest[: int(share * len(rest))]
    hidden = rest[len(labelled) :]
    some = [y[i] for i in labelled] + [[None] * len(y[i]) for i in hidden]
    for name, weight in zip(curves, (None, 1, 50)):
        model = HighOrderHMM(order=2, emission=SuffixEmission(), classes=roles_there)
        if weight is None:
            model.fit([X[i] for i in labelled], [y[i] for i in labelled])
        else:
            weights = np.repeat([1, weight], [len(labelled), len(hidden)])
            model.fit([X[i] for i in (*labelled, *hidden)], some, weights)
        score = model.score([X[i] for i in held_out], [y[i] for i in held_out])
        curves[name].append(score)
for name, scores in curves.items():
    print(f"{name:22s}", np.round(scores, 3))

axis = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
for name, scores in curves.items():
    axis.plot(np.multiply(shares, 100), scores, marker="o", label=name)
axis.set(
    xscale="log", xlabel="lines with labels, percent", ylabel="share of right labels"
)
axis.legend(title="weight of lines without labels")

# %%
# Probabilities of labels
# -----------------------
# Marginal probabilities are exact sums over all labellings. The n best labellings and
# the samples are also exact. ``decode`` reports the size of the search.

tagger = search.best_estimator_
line = ["self", ".", "frob", "(", "x", ",", "key", "=", "value", ")"]
for token, row in zip(line, tagger.predict_proba([line])[0]):
    best = np.argsort(-row)[:2]
    print(f"{token:6s}", ", ".join(f"{tagger.classes_[k]} {row[k]:.3f}" for k in best))
for labels, log_proba in tagger.predict_k([line], 2)[0]:
    print(f"{log_proba:.2f}", " ".join(labels))
decoding = tagger.decode([line])
print(f"states: {decoding.n_states[0]}, gap: {decoding.gap[0]:g}")
