"""Typos corrected and right words kept by `NoisyChannelDecoder`.

A Kneser-Ney model of order 3 of WikiText-2 (lower case) and the edit channel correct
other text: UD English EWT, lower case and split as WikiText-2 is ("ca n't" becomes
"can 't", hyphens stand apart), and the validation part of WikiText-2. Each word that
codespell's dictionary has misspellings of is replaced, with a probability of a fifth,
by one of them. The dictionary is read from the installed package: --peer codespell.

`choose`: error rates of the channel, on the development part of EWT.
`report`: the defaults, on other text; a model that knows WikiText-2's ``<unk>``
(open), and one trained without these tokens that has no unknown word (closed).
Shares are in percent: `changed` of the words of the clean text, `corrected` and `kept`
of the typos whose right word the model knows, `broken` of the right words beside typos.
`share`: words of EWT's train part that are not among the commonest of WikiText-2, and
what the decoder assumes. Milliseconds are of CPU time, a word.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from importlib import resources

import numpy as np
from _common import ewt, main, timed, wikitext

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.hmm import EditDistanceChannel, NoisyChannelDecoder

SHARE_OF_TYPOS = 0.2
N_WORDS = 30_000  # of each text


def cases():
    out = [
        {"section": "choose", "error_rate": rate, "needs": "codespell"}
        for rate in (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005)
    ]
    out += [
        {"section": "report", "text": text, "model": model, "needs": "codespell"}
        for text in ("EWT test", "WikiText-2 validation")
        for model in ("open", "closed")
    ]
    out += [
        {"section": "share", "n_words": n} for n in (100, 1000, 3000, 10_000, 28_900)
    ]
    return out


def split_ewt(split):
    """Sentences of UD English EWT as WikiText-2 would split them."""
    return [split_words(words) for words in ewt(split).form]


def split_words(words):
    out = []
    for word in words:
        word = word.strip().lower().replace("’", "'")
        if word == "n't" and out:
            out[-1] += "n"
            out.append("'t")
        elif "-" in word.strip("-"):
            parts = [part for part in word.split("-") if part]
            out += [*itertools.chain(*((p, "@-@") for p in parts))][:-1]
        else:
            out.append(word)
    return out


def lower(split, unknown=True):
    rows = ([w.lower() for w in x if unknown or w != "<unk>"] for x in wikitext(split))
    return [row for row in rows if row]


def sample(text):
    """The first sentences with `N_WORDS` words."""
    lengths = np.cumsum([len(words) for words in text])
    return text[: int(np.searchsorted(lengths, N_WORDS)) + 1]


@functools.cache
def misspellings():
    """word -> how it is misspelt, from the dictionary of codespell."""
    path = resources.files("codespell_lib") / "data" / "dictionary.txt"
    found = defaultdict(set)
    for line in path.read_text(encoding="utf-8").lower().splitlines():
        wrong, _, right = line.strip().partition("->")
        if right.replace("'", "").isalpha() and wrong != right:
            found[right].add(wrong)
    return {right: sorted(wrong) for right, wrong in found.items()}


def with_typos(text):
    rng = np.random.RandomState(0)
    table = misspellings()
    return [
        [
            table[word][rng.randint(len(table[word]))]
            if word in table and rng.rand() < SHARE_OF_TYPOS
            else word
            for word in words
        ]
        for words in text
    ]


def figures(decoder, clean):
    known = set(decoder.classes_.tolist())
    typed = with_typos(clean)
    same = timed(decoder.predict, clean, repeats=1)
    found = timed(decoder.predict, typed, repeats=1)
    changed = [a != b for x, y in zip(clean, same.result) for a, b in zip(x, y)]
    unknown = [word not in known for words in clean for word in words]
    corrected, kept, broken = [], [], []
    for right, seen, answer in zip(clean, typed, found.result):
        for a, b, c in zip(right, seen, answer):
            if a == b:
                broken.append(a != c)
            elif a in known:
                corrected.append(a == c)
                kept.append(b == c)
    return {
        "words": len(changed),
        "unknown": 100 * float(np.mean(unknown)),
        "changed": 100 * float(np.mean(changed)),
        "typos": len(corrected),
        "corrected": 100 * float(np.mean(corrected)),
        "kept": 100 * float(np.mean(kept)),
        "broken": 100 * float(np.mean(broken)),
        "milliseconds": 1e3 * (same.cpu + found.cpu) / (2 * len(changed)),
    }


def fitted(channel, kind="open"):
    """The decoder, its language model trained on WikiText-2."""
    marks = {} if kind == "open" else {"unknown": None}
    model = LanguageModel(KneserNeyLM(), max_depth=2, **marks)
    return NoisyChannelDecoder(model, channel).fit(lower("train", kind == "open"))


def choose(case):
    channel = EditDistanceChannel(case["error_rate"])
    return figures(fitted(channel), sample(split_ewt("dev")))


def report(case):
    text = split_ewt("test") if case["text"] == "EWT test" else lower("valid", False)
    return figures(fitted(EditDistanceChannel(), case["model"]), sample(text))


def share(case):
    count = Counter(itertools.chain.from_iterable(lower("train", False)))
    known = {word for word, _ in count.most_common(case["n_words"])}
    lost = [word not in known for words in split_ewt("train") for word in words]
    return {
        "unknown": 100 * float(np.mean(lost)),
        "assumed": 100 * min(0.5, 10 / case["n_words"] ** 0.5),
    }


def run(case):
    return globals()[case["section"]](case)


if __name__ == "__main__":
    main(cases, run, peers=("codespell",))
