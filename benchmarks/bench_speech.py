"""Speech to text with models of ours, of KenLM and of the recogniser.

    SKLSTRUCT_DATA=... [LMPLZ=bin/lmplz] python benchmarks/bench_speech.py [--peer]

Voices of espeak-ng, a program on the PATH, read sentences of WikiText-2's validation
text; pocketsphinx, with the acoustic model and the dictionary of its wheel, writes them
down with one language model after the other: that of its wheel, and trigrams of
WikiText-2's training text, with the words of the dictionary as vocabulary. `errors` is
the word error rate: insertions, deletions and substitutions over the words read.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
from _common import edits, lmplz_program, main, spoken_sentences
from scipy.signal import resample_poly

VOICES = ("en-us", "en-gb")
SENTENCES = 20


def cases():
    return [
        {"model": "of pocketsphinx"},
        {"model": "lmplz", "needs": "lmplz"},
        {"model": "sklstruct lmplz"},
        {"model": "log-linear"},
    ]


def sentences(split, known):
    """In small letters; a word that is not known is None."""
    return spoken_sentences(
        split, lambda word: word.lower() if word.lower() in known else None
    )


def spoken(known):
    """Sentences of 6 to 14 words of the dictionary, spread over the text."""
    all_of_them = [
        words
        for words in sentences("valid", known)
        if None not in words and 6 <= len(words) <= 14
    ]
    step = len(all_of_them) // SENTENCES
    return all_of_them[::step][:SENTENCES]


def speech(voice, words):
    """16 bits, 16 000 samples per second."""
    done = subprocess.run(
        ["espeak-ng", "-v", voice, "-s", "140", "--stdout", " ".join(words)],
        capture_output=True, check=True,
    )  # fmt: skip
    # Of a stream, the header does not know the length.
    with wave.open(io.BytesIO(done.stdout)) as file:
        rate = file.getframerate()
        data = np.frombuffer(file.readframes(1 << 30), dtype="<i2")
    assert rate == 22050
    data = resample_poly(data.astype(float), 320, 441)
    silence = np.zeros(4000)
    data = np.concatenate([silence, data, silence])
    data += np.random.default_rng(0).normal(scale=30, size=data.size)
    return np.clip(data, -32768, 32767).astype("<i2").tobytes()


def command(*words):
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def model_file(name, folder, known):
    """An ARPA file of a model."""
    text = folder / "text"
    out = str(folder / f"{name}.arpa")
    lines = (" ".join(w or "<unk>" for w in s) for s in sentences("train", known))
    text.write_text("\n".join(lines) + "\n")
    ours = [sys.executable, "-m", "sklstruct"]
    plain = ["lmplz", "-o", "3", "--skip_symbols", "--text", str(text), "--arpa", out]
    if name == "lmplz":
        command(lmplz_program(), *plain[1:], "-S", "1G", "-T", str(folder))
    elif name == "sklstruct lmplz":
        command(*ours, *plain)
    else:
        train = [
            "train",
            str(text),
            "-n",
            "3",
            "--model",
            "structured-log-linear",
            "-o",
            out,
        ]
        command(*ours, *train)
    return out


def run(case):
    import pocketsphinx

    home = Path(pocketsphinx.get_model_path(), "en-us")
    dictionary = next(home.glob("*.dict"))
    known = {
        line.split()[0]
        for line in dictionary.read_text().splitlines()
        if line and "(" not in line.split()[0]
    }
    with tempfile.TemporaryDirectory() as folder:
        if case["model"] == "of pocketsphinx":
            file = str(home / "en-us.lm.bin")
        else:
            file = model_file(case["model"], Path(folder), known)
        decoder = pocketsphinx.Decoder(
            hmm=str(home / "en-us"), dict=str(dictionary), lm=file, loglevel="FATAL"
        )
    figures, wrong, total = {}, 0, 0
    texts = spoken(known)
    for voice in VOICES:
        of_voice = 0
        for words in texts:
            decoder.start_utt()
            decoder.process_raw(speech(voice, words), full_utt=True)
            decoder.end_utt()
            found = decoder.hyp()
            of_voice += edits(words, found.hypstr.split() if found else [])
        n = sum(map(len, texts))
        figures[f"errors_{voice}"] = of_voice / n
        wrong, total = wrong + of_voice, total + n
    return {"words": total, "errors": wrong / total, **figures}


if __name__ == "__main__":
    main(cases, run, peers=("lmplz",))
