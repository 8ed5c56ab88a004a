"""
============================================
A tagger of any order, and when order pays
============================================

A hidden Markov model of order n predicts each label from the n - 1 labels before it.
:class:`~sklstruct.hmm.HighOrderHMM` decodes exactly at every order, so the order is a
parameter like any other: ``GridSearchCV`` picks it. Whether a high one is worth
anything depends on what the observations say, and this page shows both cases.

The sentences are lines of Python's own standard library, which every machine has; the
labels are the parts that names play in them, which the ``ast`` module knows.
"""

# %%
# Lines of code and the roles of their names
# ------------------------------------------

import ast
import io
import json
import keyword
import tokenize
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
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
# Sequences are plain lists of any lengths, and so are folds of them. Parameters of the
# emission model are searched in the same grid.

grid = {"order": [2, 3, 4, 5, 6], "emission__max_count": [3, 10]}
folds = KFold(3, shuffle=True, random_state=0)
search = GridSearchCV(HighOrderHMM(emission=SuffixEmission()), grid, cv=folds)
search.fit(X, y)
print(search.best_params_)
print(f"labels right, held out: {search.best_score_:.4f}")

# %%
# The labels of all lines by models that have not seen them: what is confused?

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
# When order pays
# ---------------
# Every second token of a line of code is an operator, and all operators bear one label:
# a model of order 3 remembers about one name. Both curves rise well beyond that. They
# rise furthest where every name is hidden: an observation then says only that some name
# stands there, and what stands around it has to tell its role.
#
# That is the rule. A high order pays where observations say little, or where labels
# depend on labels some way back, *and* where there is text enough to see long contexts
# more than once. The part-of-speech tags of a treebank are the other case: the words
# say nearly everything, and the benchmark page shows accuracy falling from order 5 on.
# A high order costs little in either case, so let cross-validation decide.


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
    axis.set(title=title, xlabel="order", ylabel="labels right")
    print(title, np.round(scores, 4), "order", curve.best_params_["order"])

# %%
# Few labels, many lines
# ----------------------
# ``None`` stands for a label that is not known, at a token or in a whole line.
# Expectation-maximisation fills them with what the model expects. A line without
# labels counts a tenth of its ``sample_weight``. Here one line in four is held
# out, a small share of the others is labelled, and the rest is left out, or counts a
# tenth, or whole. The rest helps while labels are very few. With some dozens of lines
# it hurts, the more the more it counts: the most likely classes of tokens are then not
# those that the labels mean. Treebanks gain more (see the guide). Choose the weight on
# held-out lines, 0 among the values.

rng = np.random.default_rng(0)
order = rng.permutation(len(X))
held_out, rest = order[: len(X) // 4], order[len(X) // 4 :]
roles_there = sorted({label for row in y for label in row})
shares = [0.003, 0.01, 0.03, 0.1]
curves = {"labelled lines alone": [], "a tenth": [], "whole": []}
for share in shares:
    labelled = rest[: int(share * len(rest))]
    hidden = rest[len(labelled) :]
    some = [y[i] for i in labelled] + [[None] * len(y[i]) for i in hidden]
    for name, weight in zip(curves, (None, 1, 10)):
        model = HighOrderHMM(order=2, emission=SuffixEmission(), classes=roles_there)
        if weight is None:
            model.fit([X[i] for i in labelled], [y[i] for i in labelled])
        else:
            model.set_params(max_iter=10)
            weights = np.repeat([1, weight], [len(labelled), len(hidden)])
            with warnings.catch_warnings():  # ten steps, converged or not
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit([X[i] for i in (*labelled, *hidden)], some, weights)
        score = model.score([X[i] for i in held_out], [y[i] for i in held_out])
        curves[name].append(score)
for name, scores in curves.items():
    print(f"{name:22s}", np.round(scores, 3))

axis = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
for name, scores in curves.items():
    axis.plot(np.multiply(shares, 100), scores, marker="o", label=name)
axis.set(xscale="log", xlabel="lines with labels, percent", ylabel="labels right")
axis.legend(title="lines without labels count")

# %%
# How sure is it?
# ---------------
# Marginal probabilities are exact sums over all labellings, the n best labellings and
# samples as exact. ``decode`` says what an answer cost.

tagger = search.best_estimator_
line = ["self", ".", "frob", "(", "x", ",", "key", "=", "value", ")"]
for token, row in zip(line, tagger.predict_proba([line])[0]):
    best = np.argsort(-row)[:2]
    print(f"{token:6s}", ", ".join(f"{tagger.classes_[k]} {row[k]:.3f}" for k in best))
for labels, log_proba in tagger.predict_k([line], 2)[0]:
    print(f"{log_proba:.2f}", " ".join(labels))
decoding = tagger.decode([line])
print(f"states: {decoding.n_states[0]}, gap: {decoding.gap[0]:g}")
