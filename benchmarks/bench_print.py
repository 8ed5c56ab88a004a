"""Print to text: what a recogniser of lines reads, with and without a language model.

    SKLSTRUCT_DATA=... python benchmarks/bench_print.py

Lines of WikiText-2's validation text are drawn in three fonts of matplotlib, made small
and blurred, and enlarged again; the recogniser of rapidocr-onnxruntime, whose wheel has
its weights, gives the probabilities of the letters at each place. `errors` is the
character error rate of what is made of these: by the most probable letter of each place
(`none`), or by pyctcdecode with its own weights of the language model, of which it asks
one word after one state. The models learn from WikiText-2's training text: modified
Kneser-Ney as KenLM's binary, the same by the states of `LanguageModel`, and "better",
from the first 2 000 sentences, beside Kneser-Ney from the same.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
from _common import edits, main, spoken_sentences, timed

LINES = 60
FONTS = ("DejaVuSerif.ttf", "DejaVuSans.ttf", "DejaVuSerif-Italic.ttf")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
FEW = 2000


def cases():
    return [
        {"model": "none"},
        {"model": "Kneser-Ney, KenLM's binary"},
        {"model": "Kneser-Ney, states"},
        {"model": "Kneser-Ney, states", "sentences": FEW},
        {"model": "better, states", "sentences": FEW},
    ]


def letters_only(word):
    """Words of letters as they are; others are the unknown word."""
    return word if word.isascii() and word.isalpha() else "<unk>"


def printed():
    """Lines of 4 to 6 words, from the beginnings of sentences spread over the text."""
    found = [
        " ".join(words[:6])
        for words in spoken_sentences("valid", letters_only)
        if len(words) > 3 and "<unk>" not in words[:6]
    ]
    return found[:: len(found) // LINES][:LINES]


def image_of(text, font, rng):
    """The line in grey, 48 pixels high, with what small print loses."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    size = ImageFont.truetype(font, 32)
    left, _, right, _ = size.getbbox(text)
    image = Image.new("L", (right - left + 24, 48), 255)
    ImageDraw.Draw(image).text((12 - left, 4), text, fill=0, font=size)
    small = image.resize((image.width * 9 // 48, 9), Image.Resampling.BILINEAR)
    image = small.resize(image.size, Image.Resampling.BICUBIC)
    image = image.filter(ImageFilter.GaussianBlur(1.0))
    pixels = np.asarray(image, dtype=np.float64) + rng.normal(
        scale=12, size=(48, image.width)
    )
    return np.clip(pixels, 0, 255)


def posteriors():
    """(labels, lines, log-probabilities of the labels at the places of each line)."""
    import matplotlib
    import onnxruntime
    import rapidocr_onnxruntime

    weights = next(
        Path(rapidocr_onnxruntime.__file__).parent.glob("models/*_rec_infer.onnx")
    )
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(
        str(weights), providers=["CPUExecutionProvider"]
    )
    listed = session.get_modelmeta().custom_metadata_map["character"].splitlines()
    listed = ["", *listed, " "]
    labels = ["", " ", *LETTERS]
    columns = [listed.index(label) for label in labels]
    fonts = [Path(matplotlib.get_data_path(), "fonts", "ttf", name) for name in FONTS]
    rng = np.random.default_rng(0)
    lines, rows = printed(), []
    for i, line in enumerate(lines):
        pixels = image_of(line, str(fonts[i % len(fonts)]), rng) / 127.5 - 1.0
        given = np.repeat(pixels[None, None], 3, axis=1).astype(np.float32)
        (found,) = session.run(None, {session.get_inputs()[0].name: given})
        found = found[0][:, columns].astype(np.float64) + 1e-12
        rows.append(np.log(found / found.sum(axis=1, keepdims=True)))
    return labels, lines, rows


def best_path(labels, rows):
    """The most probable label of each place, without repetitions and blanks."""
    best = rows.argmax(axis=1)
    best = best[np.append(True, best[1:] != best[:-1])]
    return "".join(labels[i] for i in best)


def over_states(lm, words):
    """A `LanguageModel` where pyctcdecode asks KenLM: one word after one state."""
    import pyctcdecode

    class OverStates(pyctcdecode.LanguageModel):
        def get_start_state(self):
            return lm.begin()

        def _get_raw_end_score(self, state):
            return lm.advance(state, "</s>")[0] / math.log(10)

        def score(self, prev_state, word, is_last_word=False):
            log_prob, state = lm.advance(prev_state, word)
            log10 = log_prob / math.log(10)
            if word not in self._unigram_set:
                log10 += self.unk_score_offset
            if is_last_word:
                log10 += self._get_raw_end_score(state)
            return self.alpha * log10 * math.log(10) + self.beta, state

    known = type("Known", (frozenset,), {"order": 5})(words)
    return OverStates(known, words)


def language_model(case, labels, folder):
    from sklstruct import KneserNeyLM, LanguageModel
    from sklstruct.compat import kenlm
    from sklstruct.exchange import write

    kenlm.install()
    from pyctcdecode import Alphabet, BeamSearchDecoderCTC
    from pyctcdecode import LanguageModel as OfKenLM

    train = list(spoken_sentences("train", letters_only))
    train = train[: case.get("sentences")]
    estimator = "better" if case["model"].startswith("better") else KneserNeyLM()
    lm = LanguageModel(estimator, max_depth=4).fit(train)
    marks = {"<unk>", "</s>"}
    words = [word for word in lm.vocabulary_.tolist() if word not in marks]
    if case["model"].endswith("states"):
        model = over_states(lm, words)
    else:
        path = str(Path(folder, "m.bin"))
        write(lm.backoff_model_, path, format="kenlm")
        model = OfKenLM(kenlm.Model(path), words)
    return BeamSearchDecoderCTC(Alphabet.build_alphabet(labels), model)


def run(case):
    labels, lines, rows = posteriors()
    if case["model"] == "none":
        decode = lambda one: best_path(labels, one)  # noqa: E731
    else:
        with tempfile.TemporaryDirectory() as folder:
            decode = language_model(case, labels, folder).decode
    found = timed(lambda: [decode(one) for one in rows], repeats=1)
    wrong = sum(edits(line, text) for line, text in zip(lines, found.result))
    n = sum(map(len, lines))
    words = sum(len(line.split()) for line in lines)
    wrong_words = sum(
        edits(line.split(), text.split()) for line, text in zip(lines, found.result)
    )
    return {
        "characters": n, "errors": wrong / n, "word_errors": wrong_words / words,
        "seconds": found.cpu,
    }  # fmt: skip


if __name__ == "__main__":
    main(cases, run)
