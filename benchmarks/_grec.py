"""The GREC corpora: how the people and places of a text are mentioned.

A. Belz, E. Kow, J. Viethen, A. Gatt, "Generating referring expressions in context: The
GREC task evaluation challenges", in Empirical Methods in Natural Language Generation,
Springer, 2010.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Pronouns by gender and case; "her" is two of them.
_PRONOUNS = {
    "he": {"nom": "he", "acc": "him", "gen": "his", "refl": "himself"},
    "she": {"nom": "she", "acc": "her", "gen": "her", "refl": "herself"},
    "it": {"nom": "it", "acc": "it", "gen": "its", "refl": "itself"},
    "they": {"nom": "they", "acc": "them", "gen": "their", "refl": "themselves"},
}
_RELATIVE = {
    "person": {"nom": "who", "acc": "whom", "gen": "whose"},
    "thing": {"nom": "which", "acc": "which", "gen": "whose"},
}
_GENDER = {
    form: gender for gender, cases in _PRONOUNS.items() for form in cases.values()
}
_CASE = {form: case for cases in _PRONOUNS.values() for case, form in cases.items()}
_CASE |= {
    "who": "rel",
    "which": "rel",
    "that": "rel",
    "whom": "rel",
    "whose": "rel gen",
}
_CASE["it's"] = "gen"
# Earlier mentions of the same referent that an edge leads to.
_REACH = 3


def load_grec(path: Path) -> list[dict[str, Any]]:
    """Texts with every mention of their referents, from a file of JSON lines.

    A text has the keys ``doc`` (name), ``type`` and ``mentions``. A mention has ``pos``
    (a number that orders the mentions), ``sentence`` (number), ``referent``, ``form``
    ("pronoun", "name" or "description"), ``refex`` (the expression that the writer
    chose), ``role`` (grammatical), ``semcat`` (semantic category), ``dist_sent`` and
    ``dist_word`` (binned distance to the previous mention of the referent),
    ``competitor_between``, ``left`` and ``right`` (words around it).
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def grec_instances(
    documents: Iterable[Mapping[str, Any]], *, edges: Sequence[str] = ("next", "entity")
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Texts as instances: a variable for each mention, its candidate expressions.

    The candidates of a mention are all expressions of its referent in the text, the
    referent's name, and the personal and relative pronouns of its gender and case. So
    the right one is always among them, and expressions that are used once may give
    themselves away: the lists of the shared tasks have the same property. Expressions
    other than names lose the capital of a sentence's first word.

    The kind of a candidate is its form with its case or length, such as "pronoun nom",
    "name full" or "name short gen".

    Features of a mention, for each kind: role, semantic category, distance to the
    previous mention of the referent and whether others came between, position in the
    text and among the referent's mentions, sentence start, the words beside it, and
    some pairs of these. Features of a candidate: its length, and whether it is
    the longest or the shortest name, the referent's name, or which pronoun.

    Parameters
    ----------
    documents : iterable of mappings
        As `load_grec` returns them.

    edges : sequence of {"next", "entity"}, default=("next", "entity")
        "next" joins neighbouring mentions of whomever (with their distance, and
        whether the referent is the same). "entity" joins a mention with the last
        three of the same referent (types "entity 1" to "entity 3", with their
        distance): so the model can see how long ago the name was used.

    Returns
    -------
    X : list of dict
        Instances for `FactorGraphVectorizer`.

    y : list of list of str
        The expressions that the writers chose.
    """
    X, y = [], []
    for document in documents:
        mentions = sorted(document["mentions"], key=lambda m: m["pos"])
        X.append(_instance(document, mentions, edges))
        y.append([_expression(m) for m in mentions])
    return X, y


def _expression(mention: Mapping[str, Any]) -> str:
    text = " ".join(mention["refex"].split())
    if mention["form"] == "name":
        return text
    return text[0].lower() + text[1:]


def _instance(
    document: Mapping[str, Any], mentions: list, edges: Sequence[str]
) -> dict[str, Any]:
    used: dict[str, dict[str, str]] = {}  # referent -> expression -> form
    for m in mentions:
        expressions = used.setdefault(m["referent"], {})
        expressions.setdefault(_expression(m), m["form"])
    seen: dict[str, list[int]] = {}
    variables: list[dict[str, Any]] = []
    joined: list[tuple] = []
    for i, m in enumerate(mentions):
        before = seen.setdefault(m["referent"], [])
        variables.append(_variable(document, mentions, i, before, used[m["referent"]]))
        if "next" in edges and i:
            joined.append((i - 1, i, "next", _between(mentions[i - 1], m)))
        if "entity" in edges:
            for back, j in enumerate(before[::-1][:_REACH], 1):
                features = _between(mentions[j], m) | {"between": min(i - j - 1, 5)}
                same = _repeats(variables[j], variables[i]) if back == 1 else None
                joined.append((j, i, f"entity {back}", features, same))
        before.append(i)
    return {"variables": variables, "edges": joined, "name": document["doc"]}


def _variable(
    document: Mapping[str, Any],
    mentions: list,
    i: int,
    before: list[int],
    used: Mapping[str, str],
) -> dict[str, Any]:
    m = mentions[i]
    case = _case_of_role(m["role"])
    name = m["referent"].replace("_", " ")
    expressions = {name: "name", **used}
    for pronoun in _pronouns(m, case, used):
        expressions.setdefault(pronoun, "pronoun")
    names = [e for e, form in expressions.items() if form == "name"]
    lengths = [len(e.split()) for e in names]
    own = []
    for e, form in expressions.items():
        features: dict[str, Any] = {
            "length": len(e.split()) if form != "pronoun" else 0
        }
        if form == "pronoun":
            features["pronoun"] = e
            features["pronoun and role"] = f"{e} {m['role']}"
        else:
            features["name of the referent"] = e == name
            features["first word"] = e.split()[0] if form == "description" else ""
        if form == "name":
            n = len(e.split())
            place = {
                "longest": n == max(lengths),
                "shortest": n == min(lengths),
                "as in the list": e == name,
            }
            features |= place
            features |= {
                f"{k}, first mention": v and not before for k, v in place.items()
            }
        own.append(features)
    return {
        "candidates": list(expressions),
        "kinds": [_kind(e, form, case, name) for e, form in expressions.items()],
        "features": _features(document, mentions, i, before),
        "candidate_features": own,
    }


def _case_of_role(role: str) -> str:
    if "det" in role:
        return "gen"
    return "nom" if "subj" in role else "acc"


def _pronouns(m: Mapping[str, Any], case: str, used: Mapping[str, str]) -> list[str]:
    genders = {_GENDER[e] for e in used if e in _GENDER}
    person = m["semcat"] == "person"
    if not genders:
        genders = {"he", "she"} if person else {"it"}
    found = [_PRONOUNS[gender][case] for gender in sorted(genders)]
    if "refl" in m["role"]:
        found += [_PRONOUNS[gender]["refl"] for gender in sorted(genders)]
    return [*found, _RELATIVE["person" if person else "thing"][case]]


def _kind(expression: str, form: str, case: str, name: str) -> str:
    if form == "pronoun":
        known = _CASE.get(expression, "other")
        return f"pronoun {case if expression in ('her', 'it') else known}"
    gen = " gen" if expression.endswith(("'s", "s'", "’s")) else ""
    if form == "description":
        return f"description{gen}"
    full = len(expression.split()) >= len(name.split())
    return f"name {'full' if full else 'short'}{gen}"


def _features(
    document: Mapping[str, Any], mentions: list, i: int, before: list[int]
) -> dict[str, Any]:
    m = mentions[i]
    left, right = m["left"].split(), m["right"].split()
    previous = mentions[i - 1] if i else None
    near = "none" if previous is None else str(previous["referent"] == m["referent"])
    start = not left or left[-1] in {".", "!", "?"}
    return {
        "bias": 1,
        "role": m["role"],
        "category": m["semcat"],
        "text": document["type"],
        "sentences": m["dist_sent"],
        "words": m["dist_word"],
        "competitor": m["competitor_between"],
        "mention": str(min(i, 5)),
        "of the referent": str(min(len(before), 5)),
        "sentence": str(min(m["sentence"], 5)),
        "previous is the same": near,
        "sentence start": start,
        "before": left[-1].lower() if left else "",
        "after": right[0].lower() if right else "",
        "second after": right[1].lower() if len(right) > 1 else "",
        "role and sentences": f"{m['role']} {m['dist_sent']}",
        "role and words": f"{m['role']} {m['dist_word']}",
        "role and competitor": f"{m['role']} {m['competitor_between']}",
        "sentences and competitor": f"{m['dist_sent']} {m['competitor_between']}",
        "sentences and start": f"{m['dist_sent']} {start}",
        "category and sentences": f"{m['semcat']} {m['dist_sent']}",
    }


def _between(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    apart = b["sentence"] - a["sentence"]
    same = a["referent"] == b["referent"]
    return {
        "any": 1,
        "sentences": str(min(apart, 3)),
        "same referent": same,
        "same referent, sentences": f"{same} {min(apart, 3)}",
    }


def _repeats(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[tuple, dict]:
    """Pairs of values that are one expression."""
    form = dict(zip(b["candidates"], b["kinds"]))
    return {
        (e, e): {"repeated": form[e].split()[0]} for e in a["candidates"] if e in form
    }
