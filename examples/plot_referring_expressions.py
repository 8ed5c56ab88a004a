"""
Referring expressions: who is called what
=========================================

A writer who mentions the same people again and again chooses each time between a full
name, a short one and a pronoun, and looks at the choices before. Here every mention is
a variable, its candidates are the expressions for that person, and the choices of a
text are made together, by `SampleRankClassifier`.

With the environment variable ``SKLSTRUCT_DATA`` set, the page learns from the GREC-NEG
corpus (``$SKLSTRUCT_DATA/grec``, read by `load_grec`); else from the ten small texts
below, which are enough to see how it works and far too few to measure anything.
"""

# %%
import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklstruct.datasets import grec_instances, load_grec
from sklstruct.factor_graph import FactorGraphVectorizer, SampleRankClassifier

# In braces: referent | role | form | expression.
SMALL_TEXTS = """
{Ada|subj|name|Ada Lovelace} was the daughter of {Byron|obj|name|Lord Byron}. {Ada|subj|pronoun|She} never knew {Byron|obj|pronoun|him}. {Ada|subj-det|pronoun|Her} notes on an engine made {Ada|obj|pronoun|her} famous. {Ada|subj|name|Lovelace} died young.
{Curie|subj|name|Marie Curie} studied in Paris. {Curie|subj|pronoun|She} met {Pierre|obj|name|Pierre} there, and {Pierre|subj|pronoun|he} became {Curie|subj-det|pronoun|her} husband. {Curie|subj|name|Curie} won two prizes.
{Gauss|subj|name|Carl Gauss} was born in Brunswick. {Gauss|subj-det|pronoun|His} father was a gardener. {Gauss|subj|pronoun|He} found a sum as a child. {Gauss|subj|name|Gauss} later led an observatory, and {Gauss|subj|pronoun|he} seldom left it.
{Noether|subj|name|Emmy Noether} taught without pay. {Hilbert|subj|name|David Hilbert} spoke for {Noether|obj|pronoun|her}. {Noether|subj-det|pronoun|Her} theorem joins symmetry and conservation. {Noether|subj|name|Noether} left in 1933.
{Turing|subj|name|Alan Turing} described a machine. {Turing|subj|pronoun|He} broke codes in the war. {Turing|subj-det|pronoun|His} test came later. {Church|subj|name|Alonzo Church} had taught {Turing|obj|pronoun|him}. {Turing|subj|name|Turing} ran well.
{Euler|subj|name|Leonhard Euler} wrote more than anyone. {Euler|subj|pronoun|He} lost {Euler|subj-det|pronoun|his} sight and went on. {Euler|subj|name|Euler} had pupils who wrote for {Euler|obj|pronoun|him}.
{Hopper|subj|name|Grace Hopper} wrote a compiler. {Hopper|subj|pronoun|She} served in the navy. {Aiken|subj|name|Howard Aiken} was {Hopper|subj-det|pronoun|her} chief, and {Aiken|subj|pronoun|he} asked {Hopper|obj|pronoun|her} for a manual. {Hopper|subj|name|Hopper} wrote it.
{Boole|subj|name|George Boole} was a teacher. {Boole|subj|pronoun|He} made logic a calculus. {Boole|subj-det|pronoun|His} wife taught as well. {Boole|subj|name|Boole} died of a cold.
{Germain|subj|name|Sophie Germain} wrote under a man's name. {Legendre|subj|name|Legendre} praised {Germain|obj|pronoun|her}. {Germain|subj-det|pronoun|Her} letters are kept. {Germain|subj|pronoun|She} worked on a theorem of Fermat's.
{Napier|subj|name|John Napier} invented logarithms. {Napier|subj|pronoun|He} was the son of {Archibald|obj|name|Archibald Napier}. {Briggs|subj|name|Henry Briggs} visited {Napier|obj|pronoun|him}, and {Briggs|subj|pronoun|he} computed tables. {Napier|subj|name|Napier} also made rods, and {Napier|subj-det|pronoun|his} rods were sold for centuries.
"""  # noqa: E501


def small_corpus():
    """The texts above in the form of `load_grec`."""
    documents = []
    for number, line in enumerate(SMALL_TEXTS.strip().split("\n")):
        full, last, mentions = {}, {}, []
        for i, found in enumerate(re.finditer(r"\{([^}]*)\}", line)):
            key, role, form, refex = found[1].split("|")
            full.setdefault(key, refex.replace(" ", "_"))
            sentence = line[: found.start()].count(". ") + 1
            before = last.get(key)
            apart = "first_mention" if before is None else ("same", "short", "long")
            if before is not None:
                apart = apart[min(sentence - before["sentence"], 2)]
            plain = re.sub(r"\{([^|]*)\|[^}]*\}", r"\1", line[: found.start()])
            rest = re.sub(r"\{([^|]*)\|[^}]*\}", r"\1", line[found.end() :])
            others = before is not None and mentions[-1] is not before
            last[key] = {
                "pos": i,
                "sentence": sentence,
                "referent": full[key],
                "form": form,
                "refex": refex,
                "role": role,
                "semcat": "person",
                "dist_sent": apart,
                "dist_word": apart,
                "competitor_between": "yes" if others else "no",
                "left": " ".join(re.findall(r"\w+|[.,]", plain)[-5:]),
                "right": " ".join(re.findall(r"\w+|[.,]", rest)[:5]),
            }
            mentions.append(last[key])
        documents.append({"doc": f"text {number}", "type": "x", "mentions": mentions})
    return documents


folder = os.environ.get("SKLSTRUCT_DATA")
if folder and (Path(folder) / "grec").is_dir():
    train = load_grec(Path(folder) / "grec" / "neg_train.jsonl.gz")
    test = load_grec(Path(folder) / "grec" / "neg_test.jsonl.gz")
    # a text with several people, not too long for a picture
    shown = next(
        i
        for i, document in enumerate(test)
        if 9 <= len(document["mentions"]) <= 12
        and len({m["referent"] for m in document["mentions"]}) >= 3
    )
else:
    *train, last_text = small_corpus()
    test, shown = [last_text], 0
print(f"{len(train)} texts to learn from, {len(test)} to predict")

# %%
# A text becomes a graph: neighbouring mentions are joined, and each mention with
# the last ones of the same person. The candidates share their kind.
X, y = grec_instances(train)
vectorizer = FactorGraphVectorizer()
graphs = vectorizer.fit_transform(X)
model = SampleRankClassifier(random_state=0).fit(graphs, y)

X_test, y_test = grec_instances(test)
new = vectorizer.transform(X_test)
chosen = model.predict(new)
print(f"expressions as the writer chose them: {model.score(new, y_test):.2f}")
print("candidates of the second mention:", X_test[shown]["variables"][1]["candidates"])

# %%
# One text. A row for each person, the mentions in order from left to right; green where
# the model chose what the writer wrote, else the writer's choice stands in
# brackets. Grey lines are factors between neighbours, arcs those of one person.
mentions = sorted(test[shown]["mentions"], key=lambda m: m["pos"])
people = list(dict.fromkeys(m["referent"] for m in mentions))
height = {person: -i for i, person in enumerate(people)}
spot = [(i, height[m["referent"]]) for i, m in enumerate(mentions)]
fig, ax = plt.subplots(
    figsize=(0.8 * len(mentions) + 1.5, 0.9 * len(people) + 0.8), layout="constrained"
)
for u, v, kind, *_ in X_test[shown]["edges"]:
    if kind == "next":
        ax.plot(*zip(spot[u], spot[v]), color="0.7", zorder=0)
    elif kind == "entity 1":
        ax.annotate(
            "",
            spot[v],
            spot[u],
            arrowprops={
                "arrowstyle": "-",
                "color": "#0072B2",
                "connectionstyle": "arc3,rad=-0.3",
            },
            zorder=0,
        )
for (x, h), found, wrote in zip(spot, chosen[shown], y_test[shown]):
    right = found == wrote
    text = found if right else f"{found}\n[{wrote}]"
    ax.text(
        x,
        h,
        text.replace(" ", "\n"),
        ha="center",
        va="center",
        fontsize=9,
        bbox={
            "boxstyle": "round",
            "facecolor": "white" if right else "#FBE3D6",
            "edgecolor": "#009E73" if right else "#D55E00",
        },
    )
ax.set(
    xlim=(-0.7, len(mentions) - 0.3),
    ylim=(-len(people) + 0.4, 0.6),
    xticks=range(len(mentions)),
    yticks=list(height.values()),
    yticklabels=[person.replace("_", "\n") for person in people],
    xlabel="mention",
    title="Expressions chosen together",
)
ax.spines[:].set_visible(False)

# %%
# What was learned about two successive mentions of one person: the weight of each pair
# of kinds that always counts, whatever the distance. Red pairs are sought, blue ones
# avoided. Weights rank states; they are not probabilities.
names = vectorizer.edge_feature_names_["entity 1"].tolist()
weights = model.edge_coef_["entity 1"][names.index("any")]
kinds = [str(kind) for kind in model.kinds_]
used = np.flatnonzero(np.abs(weights).sum(axis=0) + np.abs(weights).sum(axis=1))
weights = weights[np.ix_(used, used)]
top = np.abs(weights).max()
fig, ax = plt.subplots(figsize=(6.5, 5.5), layout="constrained")
image = ax.imshow(weights, cmap="RdBu_r", vmin=-top, vmax=top)
fig.colorbar(image, label="weight")
ax.set(
    xticks=range(len(used)),
    yticks=range(len(used)),
    yticklabels=[kinds[j] for j in used],
    xlabel="this mention",
    ylabel="previous mention of the same person",
    title="Weights of pairs of kinds",
)
ax.set_xticklabels([kinds[j] for j in used], rotation=45, ha="right")

# %%
# And about single mentions: the features that speak most for and against a pronoun as
# the subject.
column = kinds.index("pronoun nom")
weights = model.feature_coef_[:, column]
order = np.argsort(weights)
order = np.concatenate([order[:8], order[-8:]])
fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.barh(
    range(len(order)),
    weights[order],
    color=np.where(weights[order] > 0, "#D55E00", "#0072B2"),
)
ax.set_yticks(range(len(order)), vectorizer.feature_names_[order], fontsize=8)
ax.set(xlabel='weight for "he" and "she"', title="Features of a mention")
plt.show()
