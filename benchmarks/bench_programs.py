"""Programs that call KenLM, with KenLM and with sklstruct in its place.

    SKLSTRUCT_DATA=... KENLM_BIN=build/bin python benchmarks/bench_programs.py --peer

A case is a program of others, asked for by name: ``--peer pyctcdecode monocleaner``.
Each is run twice on one model of WikiText-2, each time in its own process: with
``sklstruct.compat.kenlm.install()`` and our three commands on the ``PATH``, and with
KenLM's module and its programs, which `KENLM_BIN` names. `result` compares what came
out. Programs that only read files have one run, on files that we wrote, and their
scores are compared with ours.
"""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
from _common import first_words, main, wikitext

SENTENCES = 60
LETTERS = "abcdefghijklmnopqrstuvwxyz'"


def cases():
    return [{"program": name, "needs": name} for name in PROGRAMS]


# ------------------------------------------------------------------ what is run


def texts():
    """Sentences of small letters, without marks and punctuation."""
    for line in wikitext("valid"):
        words = [w.lower() for w in line if w.isalpha() and w.isascii()]
        if 5 <= len(words):
            yield words[:7]


def some_texts():
    found = [" ".join(words) for _, words in zip(range(SENTENCES), texts())]
    assert len(found) == SENTENCES
    return found


def logits(text, rng):
    """Noisy logits of the letters of a text, with a blank after each."""
    symbols = ["", " ", *LETTERS]
    rows = []
    for letter in text:
        for symbol in (letter, ""):
            row = rng.normal(size=len(symbols))
            row[symbols.index(symbol)] += 3.0
            rows.append(row)
    rows = np.array(rows)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def pyctcdecode(files):
    from pyctcdecode import build_ctcdecoder

    decoder = build_ctcdecoder(["", " ", *LETTERS], files["bin"], files["words"])
    rng = np.random.default_rng(0)
    return [
        [(beam[0], beam[-1]) for beam in decoder.decode_beams(logits(text, rng))[:5]]
        for text in some_texts()[:6]
    ]


def transformers(files):
    import json

    from pyctcdecode import build_ctcdecoder
    from transformers import (
        Wav2Vec2CTCTokenizer,
        Wav2Vec2FeatureExtractor,
        Wav2Vec2ProcessorWithLM,
    )

    symbols = ["<pad>", "|", *LETTERS, "<s>", "</s>", "<unk>"]
    path = Path(files["folder"], "vocab.json")
    path.write_text(json.dumps({s: i for i, s in enumerate(symbols)}))
    decoder = build_ctcdecoder(
        ["", " ", *LETTERS, "<s>", "</s>", "⁇"], files["bin"], files["words"]
    )
    processor = Wav2Vec2ProcessorWithLM(
        Wav2Vec2FeatureExtractor(), Wav2Vec2CTCTokenizer(path), decoder
    )
    rng = np.random.default_rng(0)
    out = []
    for text in some_texts()[:4]:
        rows = logits(text, rng)
        rows = np.column_stack([rows, np.full((len(rows), 3), -20.0)])
        found = processor.decode(rows)
        out.append((found.text, found.lm_score))
    return out


def monocleaner(files):
    from monocleaner.lm import LMFluencyFilter, LMType

    filter = LMFluencyFilter(LMType.CHARACTER, "en", None)
    # Two shell lines: lmplz with order 7, and build_binary.
    filter.train_lm(files["text"])
    return [filter.raw_score(text) for text in some_texts()]


def hardrules(files):
    from hardrules.lm import LMFluencyFilter, LMType

    filter = LMFluencyFilter(LMType.CHARACTER, "en", None)
    filter.train_lm(files["text"])
    return [filter.score(text) for text in some_texts()]


def data_juicer(files):
    """Its filter, with pieces and their trigram model in its cache of models."""
    import sentencepiece

    folder = files["folder"]
    sentencepiece.SentencePieceTrainer.train(
        input=files["text"], model_prefix=f"{folder}/en.sp", vocab_size=120,
        minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/en.sp.model")
    lines = [" ".join(pieces.encode_as_pieces(text)) for text in some_texts()]
    Path(folder, "pieces").write_text("\n".join(lines) + "\n")
    shell(
        "lmplz -o 3 --discount_fallback --text pieces --arpa pieces.arpa\n"
        "build_binary pieces.arpa en.arpa.bin",
        folder,
    )
    os.environ["DATA_JUICER_MODELS_CACHE"] = folder
    filter = importlib.import_module("data_juicer.ops.filter.perplexity_filter")
    step = filter.PerplexityFilter(lang="en", max_ppl=30)
    stats = filter.Fields.stats
    rows = {"text": some_texts(), stats: [{} for _ in range(SENTENCES)]}
    rows = step.compute_stats_batched(rows)
    return [*(row["perplexity"] for row in rows[stats]), *step.process_batched(rows)]


def datatrove(files):
    import kenlm
    from datatrove.utils.perplexity import KenlmModel

    model = KenlmModel.from_pretrained("here", "en")
    model._model = kenlm.Model(files["bin"])
    model._tokenizer = type("Plain", (), {"tokenize": staticmethod(str)})
    return [model.get_perplexity(text) for text in some_texts()]


def espnet(files):
    """The two lines of stage 9 of its recipe."""
    folder = files["folder"]
    Path(folder, "lm_train.txt").write_text(
        "".join(f"{i} {t.split()[0]}\n" for i, t in enumerate(some_texts()))
    )
    shell(
        'cut -f 2 -d " " lm_train.txt | '
        'lmplz -S "20%" --discount_fallback -o 4 - >4gram.arpa\n'
        "build_binary -s 4gram.arpa 4gram.bin",
        folder,
    )
    return scores(str(Path(folder, "4gram.bin")))


def nemo(files):
    """The two commands of its train_kenlm.py, whose text is characters."""
    folder = files["folder"]
    characters = "\n".join(" ".join(t.replace(" ", "_")) for t in some_texts())
    Path(folder, "characters").write_text(characters + "\n")
    shell(
        "lmplz -o 6 --arpa m.tmp.arpa --discount_fallback --prune 0 < characters\n"
        "build_binary trie m.tmp.arpa m.bin",
        folder,
    )
    return scores(str(Path(folder, "m.bin")))


def shell(commands, folder):
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def scores(path):
    import kenlm

    model = kenlm.Model(path)
    return [model.score(text) for text in some_texts()]


# ------------------------------------------------- programs that read our files


def arpa(files):
    module = importlib.import_module("arpa")
    (model,) = module.loadf(files["arpa"])
    return [model.log_s(text) for text in known_texts(files)]


def pynlpl(files):
    from pynlpl.lm.lm import ARPALanguageModel

    model = ARPALanguageModel(files["arpa"], base_e=False)
    return [model.score([*t.split(), "</s>"], ("<s>",)) for t in known_texts(files)]


def pocketsphinx(files):
    from pocketsphinx import Config, LogMath, NGramModel

    model = NGramModel(Config(), LogMath(), files["arpa"])
    out = []
    for text in known_texts(files):
        words = ["<s>", *text.split(), "</s>"]
        total = 0.0
        for i in range(1, len(words)):
            context = words[max(0, i - 2) : i + 1][::-1]
            total += model.prob(context) * math.log10(1.0001)
        out.append(total)
    return out


def kaldilm(files):
    module = importlib.import_module("kaldilm")
    text = module.arpa2fst(
        files["arpa"], disambig_symbol="#0", max_order=3, bos_symbol="<s>",
        eos_symbol="</s>", write_symbol_table=str(Path(files["folder"], "words")),
    )  # fmt: skip
    return len(text.splitlines())


def flashlight(files):
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    words = Dictionary()
    for word in [*files["words"], "<unk>"]:
        words.add_entry(word)
    words.set_default_index(words.get_index("<unk>"))
    model = KenLM(files["bin"], words)
    out = []
    for text in known_texts(files):
        state, total = model.start(False), 0.0
        for word in text.split():
            state, score = model.score(state, words.get_index(word))
            total += score
        out.append(total + model.finish(state)[1])
    return out


def known_texts(files):
    known = set(files["words"])
    return [t for t in some_texts() if known.issuperset(t.split())]


# name: what is called, whether it calls KenLM's module or programs, what it does
PROGRAMS = {
    "pyctcdecode": (pyctcdecode, True, "6 texts, five beams each"),
    "transformers": (transformers, True, "Wav2Vec2ProcessorWithLM.decode of 4 texts"),
    "monocleaner": (monocleaner, True, "its lmplz and build_binary lines, 60 scores"),
    "bicleaner-hardrules": (hardrules, True, "its lmplz and build_binary, 60 scores"),
    "py-data-juicer": (data_juicer, True, "perplexity_filter of 60 texts"),
    "datatrove": (datatrove, True, "KenlmModel.get_perplexity of 60 texts"),
    "espnet": (espnet, True, "stage 9 of its recipe, 60 scores"),
    "nemo-toolkit": (nemo, True, "commands of train_kenlm.py, 60 scores"),
    "flashlight-text": (flashlight, False, "KenLM state by state"),
    "arpa": (arpa, False, "log_s of an ARPA file"),
    "pynlpl": (pynlpl, False, "ARPALanguageModel"),
    "pocketsphinx": (pocketsphinx, False, "NGramModel of an ARPA file"),
    "kaldilm": (kaldilm, False, "ARPA file to FST"),
}


# --------------------------------------------------------------------- one case


def answer(function, who, files, pipe):
    """The output of a program in this process, with our module or with KenLM's."""
    try:
        if who == "sklstruct":
            from sklstruct.compat import kenlm

            kenlm.install()
        os.environ["PATH"] = files[who] + os.pathsep + os.environ["PATH"]
        pipe.send((True, function(files)))
    except (Exception, SystemExit) as exc:
        pipe.send((False, f"{type(exc).__name__} {exc}".splitlines()[0][:200].strip()))


def in_a_child(function, who, files):
    receive, send = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=answer, args=(function, who, files, send)
    )
    child.start()
    send.close()
    try:
        found = receive.recv()
    except EOFError:
        found = False, "the process died"
    child.join()
    return found


def flat(value):
    if isinstance(value, list | tuple):
        return [x for part in value for x in flat(part)]
    return [value]


def compared(ours, theirs):
    """The results that two runs have in common."""
    a, b = flat(ours), flat(theirs)
    if a == b:
        return "equal"
    if len(a) != len(b) or any(x != y for x, y in zip(a, b) if isinstance(x, str)):
        return "different"
    pairs = [(x, y) for x, y in zip(a, b) if not isinstance(x, str)]
    return f"differ by up to {max(abs(x - y) for x, y in pairs):.1g}"


def prepare(folder):
    """A trigram model as ARPA file and as binary, its words, and both sets of tools."""
    from sklstruct import KneserNeyLM, LanguageModel
    from sklstruct.exchange import write

    train = [[w.lower() for w in line] for line in first_words(wikitext("train"), 1e5)]
    lm = LanguageModel(KneserNeyLM(), max_depth=2).fit(train)
    files = {"folder": str(folder), "arpa": str(folder / "m.arpa")}
    files["bin"], files["text"] = str(folder / "m.bin"), str(folder / "text")
    write(lm.backoff_model_, files["arpa"])
    write(lm.backoff_model_, files["bin"], format="kenlm")
    Path(files["text"]).write_text("\n".join(some_texts()) + "\n")
    marks = {"<s>", "</s>", "<unk>"}
    files["words"] = [w for w in lm.vocabulary_.tolist() if w not in marks]
    files["sklstruct"] = str(folder / "tools")
    files["kenlm"] = os.path.abspath(os.environ.get("KENLM_BIN", ""))
    os.mkdir(files["sklstruct"])
    for name in ("lmplz", "build_binary", "query"):
        script = Path(files["sklstruct"], name)
        command = f'exec {sys.executable} -m sklstruct {name} "$@"'
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)
    return files, lm


def run(case):
    function, calls, what = PROGRAMS[case["program"]]
    try:
        version = metadata.version(case["program"])
    except metadata.PackageNotFoundError:
        version = "recipe" if case["program"] in ("espnet", "nemo-toolkit") else None
    if version is None:
        raise RuntimeError(f"{case['program']} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        files, lm = prepare(Path(folder))
        found, ours = in_a_child(function, "sklstruct", files)
        if not found:
            result = f"does not run: {ours}"
        elif calls:
            found, theirs = in_a_child(function, "kenlm", files)
            if found:
                result = compared(ours, theirs)
            else:
                result = f"runs; with KenLM: {theirs}"
        elif isinstance(ours, list):
            known = [text.split() for text in known_texts(files)]
            result = compared(ours, (lm.score_samples(known) / math.log(10)).tolist())
        else:
            result = f"runs: {ours} lines"
    return {"version": version, "what": what, "result": result}


if __name__ == "__main__":
    main(cases, run, peers=tuple(PROGRAMS))
