"""Reading mentions, and the candidates that are made of them."""

import gzip
import json
import os
from pathlib import Path

import pytest

from sklstruct.datasets import grec_instances, load_grec
from sklstruct.factor_graph import FactorGraphVectorizer, SampleRankClassifier


def mention(i, refex, form, referent="Ada_Lovelace", role="subj", sentence=1, **more):
    return {
        "pos": i,
        "sentence": sentence,
        "referent": referent,
        "form": form,
        "refex": refex,
        "role": role,
        "semcat": "person",
        "dist_sent": "same",
        "dist_word": "short",
        "competitor_between": "no",
        "left": "",
        "right": "wrote programs .",
    } | more


def text(name="ada"):
    return {
        "doc": name,
        "type": "inventor",
        "mentions": [
            mention(5, "Her", "pronoun", role="subj-det", sentence=2),
            mention(1, "Ada  Lovelace", "name"),
            mention(2, "Babbage", "name", "Charles_Babbage", role="obj"),
            mention(9, "The countess", "description", sentence=4),
        ],
    }


def written(folder, lines, name="texts.jsonl"):
    path = folder / name
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz"])
def test_reading(tmp_path, name):
    path = written(tmp_path, [json.dumps(text("a")), "", json.dumps(text("b"))], name)
    assert load_grec(path) == [text("a"), text("b")]
    assert load_grec(str(path)) == load_grec(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: "{", "no JSON"),
        (lambda t: "[]", "must have the keys"),
        (lambda t: json.dumps({"doc": "a"}), "must have the keys"),
        (lambda t: json.dumps(t | {"mentions": 3}), "mentions must be a list"),
        (lambda t: json.dumps(t | {"mentions": [3]}), "mention 0 must be an object"),
        (
            lambda t: json.dumps(t | {"mentions": [{}]}),
            "'referent' of mention 0 must be a string",
        ),
        (
            lambda t: json.dumps(t | {"mentions": [mention(1, "x", "verb")]}),
            "mention 0 has the form 'verb'",
        ),
        (
            lambda t: json.dumps(t | {"mentions": [mention(1, " ", "name")]}),
            "mention 0 has no expression",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path, change, message):
    path = written(tmp_path, [json.dumps(text()), change(text())])
    with pytest.raises(ValueError, match=rf"texts\.jsonl, line 2: .*{message}"):
        load_grec(path)


def test_candidates_and_edges():
    (x,), (y,) = grec_instances([text()])
    assert y == ["Ada Lovelace", "Babbage", "her", "the countess"]
    variables = x["variables"]
    assert all(e in v["candidates"] for v, e in zip(variables, y))
    assert variables[0]["candidates"] == [
        "Ada Lovelace", "her", "the countess", "she", "who",
    ]  # fmt: skip
    assert variables[1]["candidates"] == [
        "Charles Babbage", "Babbage", "him", "her", "whom",
    ]  # fmt: skip
    kinds = dict(zip(variables[2]["candidates"], variables[2]["kinds"]))
    assert kinds["her"] == "pronoun gen" and kinds["Ada Lovelace"] == "name full"
    assert "whose" in kinds and "she" not in kinds
    ends = [edge[:3] for edge in x["edges"]]
    assert ends == [
        (0, 1, "next"), (1, 2, "next"), (0, 2, "entity 1"), (2, 3, "next"),
        (2, 3, "entity 1"), (0, 3, "entity 2"),
    ]  # fmt: skip
    assert {e[2] for e in grec_instances([text()], edges=("next",))[0][0]["edges"]} == {
        "next"
    }
    assert grec_instances([text()], edges=())[0][0]["edges"] == []
    with pytest.raises(ValueError, match="edges must be of"):
        grec_instances([text()], edges=("first",))


def test_features_do_not_know_the_answer():
    """Another expression at one mention changes candidates only, not features."""
    one, other = text(), text()
    other["mentions"][0] |= {"refex": "Ada Lovelace", "form": "name"}
    (a,), _ = grec_instances([one])
    (b,), _ = grec_instances([other])
    for v, w in zip(a["variables"], b["variables"]):
        assert v["features"] == w["features"]
    assert [e[:4] for e in a["edges"]] == [e[:4] for e in b["edges"]]


@pytest.mark.slow
@pytest.mark.skipif("SKLSTRUCT_DATA" not in os.environ, reason="SKLSTRUCT_DATA not set")
@pytest.mark.parametrize("task", ["neg", "msr"])
def test_the_corpora(task):
    folder = Path(os.environ["SKLSTRUCT_DATA"]) / "grec"
    if not folder.is_dir():
        pytest.skip("SKLSTRUCT_DATA holds no folder grec")
    train, test = (load_grec(folder / f"{task}_{s}.jsonl.gz") for s in ("dev", "test"))
    X, y = grec_instances(train)
    vectorizer = FactorGraphVectorizer()
    model = SampleRankClassifier(random_state=0).fit(vectorizer.fit_transform(X), y)
    X, y = grec_instances(test)
    for x, chosen in zip(X, y):
        assert all(e in v["candidates"] for v, e in zip(x["variables"], chosen))
    # more than one candidate in three, from a few dozen texts
    assert model.score(vectorizer.transform(X), y) > 0.5
