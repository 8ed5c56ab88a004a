"""
Referring expressions
=====================

A writer who mentions the same people several times chooses each time between a full
name, a short name and a pronoun. Each choice depends on the choices before. Here every
mention of a person is a variable, and its candidates are the expressions for that
person. `SampleRankClassifier` makes all choices of a text together.

The ten short texts below show how the classifier works, but are too few for a
measurement. :ref:`benchmark_factor_graph` has the figures of two larger collections.
"""

# %%
# The data of a mention are in braces: person, grammatical role, kind of the expression,
# and the expression itself.
import re

import matplotlib.pyplot as plt
import numpy as np

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


PRONOUNS = {"nom": ("he", "she"), "acc": ("him", "her"), "gen": ("his", "her")}
CASES = {"subj": "nom", "obj": "acc", "subj-det": "gen"}


def read(line):
    """The mentions of a text, from left to right."""
    full, mentions = {}, []
    for found in re.finditer(r"\{([^}]*)\}", line):
        key, role, form, text = found[1].split("|")
        text = text if form == "name" else text.lower()
        mentions.append(
            {
                "person": full.setdefault(key, text),
                "role": role,
                "form": form,
                "text": text,
                "sentence": line[: found.start()].count(". ") + 1,
            }
        )
    return mentions


def between(a, b):
    """Features of two mentions."""
    same = a["person"] == b["person"]
    apart = min(b["sentence"] - a["sentence"], 2)
    return {"any": 1, "same person": same, "sentences": f"{same} {apart}"}


def instance(mentions):
    """A variable for each mention, and the edges between them."""
    variables, edges, last = [], [], {}
    for i, m in enumerate(mentions):
        known = {m["person"]: "name full"}
        for other in mentions:
            if other["person"] == m["person"] and other["form"] == "name":
                is_full = other["text"] == m["person"]
                known[other["text"]] = "name full" if is_full else "name short"
        case = CASES[m["role"]]
        # "he" and "she" are told apart by the other pronouns of the person
        used = {o["text"] for o in mentions if o["person"] == m["person"]}
        women = bool(used & {"she", "her"})
        known[PRONOUNS[case][women]] = f"pronoun {case}"
        before = last.get(m["person"])
        features = {
            "bias": 1,
            "role": m["role"],
            "first mention": before is None,
            "first of the sentence": not i
            or mentions[i - 1]["sentence"] < m["sentence"],
        }
        if before is not None:
            features["others between"] = i - before > 1
            apart = m["sentence"] - mentions[before]["sentence"]
            features["sentences since"] = str(min(apart, 2))
            edges.append((before, i, "person", between(mentions[before], m)))
        if i:
            edges.append((i - 1, i, "next", between(mentions[i - 1], m)))
        last[m["person"]] = i
        kinds = list(known.values())
        variables.append(
            {"candidates": list(known), "kinds": kinds, "features": features}
        )
    return {"variables": variables, "edges": edges}


*train, last_text = map(read, SMALL_TEXTS.strip().split("\n"))
print(f"{len(train)} texts to learn from")

# %%
# A text is transformed to a graph. Neighbouring mentions are joined by an edge, and
# each mention is joined with the previous mention of the same person. The features of a
# mention have one weight for each kind of expression, so the candidates "he" and "she"
# have the same weights.
vectorizer = FactorGraphVectorizer()
graphs = vectorizer.fit_transform([instance(text) for text in train])
y = [[m["text"] for m in text] for text in train]
model = SampleRankClassifier(random_state=0).fit(graphs, y)

shown = instance(last_text)
wanted = [m["text"] for m in last_text]
new = vectorizer.transform([shown])
[chosen] = model.predict(new)
print(f"expressions as the writer chose them: {model.score(new, [wanted]):.2f}")
print("candidates of the second mention:", shown["variables"][1]["candidates"])

# %%
# The picture shows one text, with one row per person and the mentions in order from
# left to right. An expression is green if the model chose the expression of the writer.
# Otherwise the expression of the writer is in brackets. Grey lines are edges between
# neighbours, and arcs are edges between mentions of one person.
mentions = last_text
people = list(dict.fromkeys(m["person"] for m in mentions))
height = {person: -i for i, person in enumerate(people)}
spot = [(i, height[m["person"]]) for i, m in enumerate(mentions)]
fig, ax = plt.subplots(
    figsize=(0.8 * len(mentions) + 1.5, 0.9 * len(people) + 0.8), layout="constrained"
)
for u, v, kind, *_ in shown["edges"]:
    if kind == "next":
        ax.plot(*zip(spot[u], spot[v]), color="0.7", zorder=0)
    elif kind == "person":
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
for (x, h), found, wrote in zip(spot, chosen, wanted):
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
    yticklabels=[person.replace(" ", "\n") for person in people],
    xlabel="mention",
    title="Expressions chosen together",
)
ax.spines[:].set_visible(False)

# %%
# The picture shows the learned weights of pairs of kinds, for two successive mentions
# of one person at any distance. Red pairs are preferred, and blue pairs are avoided.
# The weights rank the possible choices for a text and are not probabilities.
names = vectorizer.edge_feature_names_["person"].tolist()
weights = model.edge_coef_["person"][names.index("any")]
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
# The last picture shows the features of a single mention with the largest weights for
# and against a pronoun as the subject.
column = kinds.index("pronoun nom")
weights = model.feature_coef_[:, column]
order = np.argsort(weights)
fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.barh(
    range(len(order)),
    weights[order],
    color=np.where(weights[order] > 0, "#D55E00", "#0072B2"),
)
ax.set_yticks(range(len(order)), vectorizer.feature_names_[order], fontsize=8)
ax.set(xlabel='weight for "he" and "she"', title="Features of a mention")
plt.show()
