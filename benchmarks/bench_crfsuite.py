"""Programs and files of CRFsuite, with sklstruct.compat.pycrfsuite in its place.

    PYTHON_CRFSUITE_SOURCE=... SKLEARN_CRFSUITE_SOURCE=... USADDRESS_SOURCE=...
    PROBABLEPEOPLE_SOURCE=... python benchmarks/bench_crfsuite.py --peer --out FILE

The variables name checkouts of the repositories: two with test suites, two with
addresses and names. A `judge` runs twice, each time in its own process: with
python-crfsuite, and with `sklstruct.compat.pycrfsuite.install()`.

- Suites: `cases` are the tests that pass with python-crfsuite, `differences` those that
  do not pass with ours, `refused` how many of these train with an algorithm that ours
  refuses with an error.
- usaddress, probablepeople: outputs of `parse` and `tag` for 10 000 strings each, a
  half from the repository, a half of pieces of several of them.
- nltk: its `CRFTagger` trained with both, the lines of its docstring, and sentences.
- files: the four published models, read and written; differences in bytes.
- damaged: files with cuts and changed bytes; differences are results other than a
  ValueError or a model that answers. `peer_crashes` of 40 end python-crfsuite.

`tag` is the speed on usaddress's model, one sequence per call or all: CPU, in turns.
"""

from __future__ import annotations

import html
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from _common import fastest, main

STRINGS = 10_000
SUITES = {
    "python-crfsuite": "PYTHON_CRFSUITE_SOURCE",
    "sklearn-crfsuite": "SKLEARN_CRFSUITE_SOURCE",
}
PLUGIN = """
from sklstruct.compat import pycrfsuite

pycrfsuite.install()
"""


def cases():
    judges = [*SUITES, "usaddress", "probablepeople", "nltk", "files", "damaged"]
    found = [{"judge": name, "needs": "python-crfsuite"} for name in judges]
    return [*found, {"judge": "tag", "needs": "python-crfsuite"}]


def source(variable):
    folder = os.environ.get(variable) or sys.exit(f"set {variable} to a checkout")
    return Path(folder)


def in_a_child(function, ours, *arguments):
    """The result of a function in another process, None if the process dies."""
    receive, send = multiprocessing.Pipe(duplex=False)

    def work():
        if ours:
            from sklstruct.compat import pycrfsuite

            pycrfsuite.install()
        send.send(function(*arguments))

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return None
    finally:
        child.join()


# ------------------------------------------------------------------ test suites


def outcomes(name, ours):
    """Test -> whether it passes; and whether it fails for the algorithm."""
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in_its_place.py").write_text(PLUGIN)
        if ours:
            command += ["-p", "in_its_place"]
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            # beside the installed package, not in the folder of its source
            command, cwd=source(SUITES[name]) / "tests", capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "300"},
        )  # fmt: skip
    lines = re.findall(r"(?m)^(PASSED|XPASS|XFAIL|FAILED|ERROR) (\S+)(.*)", done.stdout)
    if all(result == "ERROR" for result, _, _ in lines):
        raise RuntimeError(done.stdout[-1000:] + done.stderr[-1000:])
    return {test: (result, "CRFSuiteError" in why) for result, test, why in lines}


def suite(name):
    theirs, ours = outcomes(name, False), outcomes(name, True)
    passed = [test for test, (result, _) in theirs.items() if result == "PASSED"]
    fails = [ours[test] for test in passed if ours.get(test, ("", 0))[0] != "PASSED"]
    return {
        "version": metadata.version(name),
        "what": "its tests",
        "cases": len(passed),
        "differences": len(fails),
        "refused": sum(refused for _, refused in fails),
    }


# ----------------------------------------------------------- addresses and names


def varied(strings, n):
    """n strings: as they are, and pieces of two or three of them."""
    rng = random.Random(0)
    strings = sorted(set(strings))
    rng.shuffle(strings)
    found = strings[: n // 2]
    while len(found) < n:
        parts = [rng.choice(strings).split() for _ in range(rng.randrange(1, 4))]
        words = [w for p in parts for w in p[: rng.randrange(1, 6)]]
        if rng.random() < 0.3:
            rng.shuffle(words)
        text = " ".join(words)
        how = rng.choice([str, str, str.upper, str.lower, str.title])
        found.append(how(text.replace(",", "") if rng.random() < 0.2 else text))
    return found


def addresses():
    folder = source("USADDRESS_SOURCE")
    found = []
    for path in sorted(folder.glob("*/**/*.xml")):
        text = path.read_text(encoding="utf-8")
        for line in re.findall(r"(?s)<AddressString>(.*?)</AddressString>", text):
            found.append(html.unescape(re.sub("<.*?>", "", line)))
    for path in sorted(folder.glob("raw/*.raw")):
        found += path.read_text(encoding="utf-8").splitlines()
    return varied(found, STRINGS)


def names():
    folder = source("PROBABLEPEOPLE_SOURCE") / "name_data" / "unlabeled"
    rng, found = random.Random(1), []
    for path in sorted(folder.glob("unlabeled_*.csv")):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = [
            line.strip().strip('"').replace('""', '"') for line in text.split("\n")
        ]
        lines = [line for line in lines if 0 < len(line) < 80]
        found += rng.sample(lines, min(1500, len(lines)))
    return varied(found, STRINGS)


def outputs(module, strings, *kinds):
    """The answers of the functions of a parser; a refusal is an answer as well."""
    parser, found = __import__(module), []
    for kind in kinds or [None]:
        more = [] if kind is None else [kind]
        for text in strings:
            found.append(parser.parse(text, *more))
            try:
                found.append(parser.tag(text, *more))
            except parser.RepeatedLabelError as exc:
                found.append(str(exc))
    return found


def parser(module, strings, *kinds):
    theirs = in_a_child(outputs, False, module, strings, *kinds)
    ours = in_a_child(outputs, True, module, strings, *kinds)
    if not theirs or not ours:
        raise RuntimeError(f"{module} does not run")
    what = "parse and tag of " + ("addresses" if module == "usaddress" else "names")
    return {
        "version": metadata.version(module),
        "what": what + (f", models {', '.join(kinds)}" if kinds else ""),
        "cases": len(theirs),
        "differences": sum(a != b for a, b in zip(ours, theirs)),
    }


# -------------------------------------------------------------------------- nltk


def nltk_tagger(folder, train, test):
    import doctest

    import nltk.data
    from nltk.tag import crf

    os.makedirs(folder, mode=0o700)
    nltk.data.path.insert(0, folder)
    os.chdir(folder)
    tagger = crf.CRFTagger(training_opt={"c2": 0.1})
    path = os.path.join(folder, "model")
    tagger.train(train, path)
    words = [[word for word, _ in sentence] for sentence in test]
    answers = tagger.tag_sents(words)
    accuracy = tagger.accuracy(test)
    # its docstring, whose lines it skips
    text = (crf.CRFTagger.__doc__ or "").replace("# doctest: +SKIP", "")
    text = text.replace("'model.crf.tagger'", repr(path))
    examples = doctest.DocTestParser().get_doctest(text, {}, "CRFTagger", None, 0)
    failed, tried = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE
    ).run(examples)
    return answers, accuracy, failed, tried


def tagged(n, seed):
    """Sentences of a small grammar, some of whose words have two tags."""
    rng = random.Random(seed)
    words = {
        "D": ["the", "a", "this", "No"],
        "A": ["old", "light", "9th", "U.S."],
        "N": ["light", "cats", "walk", "Rome", "1999"],
        "V": ["walk", "light", "saw", "sees"],
    }
    after = {"D": "AN", "A": "AN", "N": "VD", "V": "DN"}
    found = []
    for _ in range(n):
        tag, sentence = "D", []
        for _ in range(rng.randrange(1, 9)):
            sentence.append((rng.choice(words[tag]), tag))
            tag = rng.choice(after[tag])
        found.append(sentence)
    return found


def nltk_judge():
    train, test = tagged(300, 0), tagged(2000, 1)
    with tempfile.TemporaryDirectory() as folder:
        theirs = in_a_child(nltk_tagger, False, f"{folder}/theirs", train, test)
        ours = in_a_child(nltk_tagger, True, f"{folder}/ours", train, test)
    if not theirs or not ours:
        raise RuntimeError("nltk's CRFTagger does not run")
    return {
        "version": metadata.version("nltk"),
        "what": "CRFTagger: its docstring, and sentences tagged after training",
        "cases": ours[3] + len(test),
        "differences": sum(a != b for a, b in zip(ours[0], theirs[0]))
        + ours[2]
        + (ours[1] != theirs[1]),
    }


# ------------------------------------------------------------------------- files


def published():
    """The model files of usaddress and probablepeople."""
    found = []
    for name in ("usaddress", "probablepeople"):
        for file in metadata.files(name) or []:
            if file.suffix == ".crfsuite":
                found.append(Path(file.locate()).read_bytes())
    return found


def files():
    from io import BytesIO

    from sklstruct.factor_graph import ConditionalRandomField

    differences, every = 0, published()
    for data in every:
        file = BytesIO()
        ConditionalRandomField.load(BytesIO(data)).save(file)
        differences += file.getvalue() != data
    return {
        "version": "",
        "what": "published model files, read and written byte for byte",
        "cases": len(every),
        "differences": differences,
    }


def broken(data, rng):
    """A cut file, or one with some changed bytes, often among the first."""
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        # the header, the reference chunks at the end, or anywhere
        where = rng.randrange(3)
        at = rng.randrange(48 if where == 0 else len(data))
        at = len(data) - 1 - at % 4096 if where == 1 else at
        changed[at] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
    return bytes(changed)


ITEMS = [{"word": "main", "length": "w:4"}, ["word:st", "digits"], {"next": {"a": "b"}}]


def opened(path):
    """The end of a damaged file in a tagger: an error, or labels."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    try:
        tagger.open(path)
    except ValueError as exc:
        return "error" if len(str(exc)) > 10 else "no reason"
    return "model" if len(tagger.tag(ITEMS)) == len(ITEMS) else "wrong"


def ends(paths):
    found = []
    for path in paths:
        try:
            found.append(opened(path))
        except Exception as exc:  # what a damaged file must not raise
            found.append(f"{type(exc).__name__}: {exc}")
    return found


def damaged():
    rng, every = random.Random(0), published()
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i in range(7500):
            path = Path(folder, str(i))
            path.write_bytes(broken(rng.choice(every), rng))
            paths.append(str(path))
        found = in_a_child(ends, True, paths) or ["the process died"] * len(paths)
        peer = [in_a_child(ends, False, [path]) for path in paths[:40]]
    return {
        "version": "",
        "what": "damaged files in Tagger.open",
        "cases": len(paths),
        "differences": sum(end not in ("error", "model") for end in found),
        "errors": found.count("error"),
        "models": found.count("model"),
        "peer_crashes": peer.count(None),
    }


# ------------------------------------------------------------------------- speed


def tag():
    import pycrfsuite
    import usaddress

    from sklstruct.compat.pycrfsuite import Tagger
    from sklstruct.factor_graph import ConditionalRandomField

    texts = [usaddress.tokenize(text) for text in addresses()[:5000]]
    X = [list(usaddress.tokens2features(tokens)) for tokens in texts if tokens]
    path = usaddress.MODEL_PATH
    theirs, ours = pycrfsuite.Tagger(), Tagger()
    theirs.open(path)
    ours.open(path)
    model = ConditionalRandomField.load(path)
    times = fastest(
        theirs=lambda: [theirs.tag(x) for x in X],
        ours=lambda: [ours.tag(x) for x in X],
        one=lambda: [model.predict([x])[0] for x in X],
        batch=lambda: model.predict(X),
        marginals=lambda: model.predict_proba(X),
    )
    wanted = times["theirs"].result
    rate = {name: len(X) / time.cpu for name, time in times.items()}
    return {
        "version": metadata.version("usaddress"),
        "what": "sequences per second on the model of usaddress",
        "cases": len(X),
        "differences": sum(
            labels != other
            for name in ("ours", "one", "batch")
            for labels, other in zip(times[name].result, wanted)
        ),
        **{f"{name}_per_second": value for name, value in rate.items()},
        "ratio": rate["ours"] / rate["theirs"],
        "ratio_one": rate["one"] / rate["theirs"],
        "ratio_batch": rate["batch"] / rate["theirs"],
    }


def run(case):
    judge = case["judge"]
    if judge in SUITES:
        return suite(judge)
    if judge == "usaddress":
        return parser("usaddress", addresses())
    if judge == "probablepeople":
        return parser("probablepeople", names(), "generic", "person", "company")
    jobs = {"nltk": nltk_judge, "files": files, "damaged": damaged, "tag": tag}
    return jobs[judge]()


if __name__ == "__main__":
    main(cases, run, peers=("python-crfsuite",))
