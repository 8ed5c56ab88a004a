"""Names of python-crfsuite over our model: the same answers, errors, and messages."""

import io
import itertools
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from sklstruct.compat import pycrfsuite as ours
from sklstruct.factor_graph import ConditionalRandomField
from sklstruct.factor_graph._crfsuite import ChainWeights, model_bytes

LABELS = ["B-é", "I", "O"]


def item(rng):
    """An item of one of the forms that python-crfsuite takes."""
    word = rng.choice(["cat", "é=:", "", "the", "a\nb "])
    return rng.choice(
        [
            {"w": word, "n": rng.random(), "flag": rng.random() < 0.5},
            {b"w": word.encode(), "in": {"a": {"b": word}, "n": -1}, "n": 2},
            {"w": [word, "x", "x"], "in": {"a": {"b", "c"}}, "deep": {"w": [b"y"]}},
            ["w:" + word, b"n", "n", "unknown"],
            ("bias",),
            {},
        ]
    )


def sequences(seed, n=20):
    rng = random.Random(seed)
    X = [[item(rng) for _ in range(rng.randrange(7))] for _ in range(n)]
    y = [[LABELS[len(str(x)) % 3] for x in row] for row in X]
    return X, y


def trained(path, seed=0, **params):
    trainer = ours.Trainer(params={"c2": 0.1} | params, verbose=False)
    for row, labels in zip(*sequences(seed)):
        trainer.append(row, labels)
    trainer.train(path)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("model") / "m.crfsuite")


@pytest.fixture
def tagger(path):
    tagger = ours.Tagger()
    tagger.open(path)
    return tagger


# ------------------------------------------------------------------------ the tagger


def test_tagger_is_the_model(path, tagger):
    model = ConditionalRandomField.load(path)
    X, _ = sequences(1)
    assert [tagger.tag(row) for row in X] == model.predict(X)
    for row, proba in zip(X, model.predict_proba(X)):
        labels = tagger.tag(row)
        assert tagger.tag() == labels
        found = [
            [tagger.marginal(label, t) for label in tagger.labels()]
            for t in range(len(row))
        ]
        np.testing.assert_array_equal(np.reshape(found, proba.shape), proba)
        if row:
            wanted = np.exp(model.target_log_proba([row], [labels])[0])
            assert tagger.probability(labels) == pytest.approx(wanted, rel=1e-12)
    assert tagger.labels() == LABELS


def test_probabilities_of_all_paths_sum_to_one(tagger):
    tagger.set([{"w": "cat"}, ["bias"], {"n": 2.5}])
    every = itertools.product(LABELS, repeat=3)
    assert sum(map(tagger.probability, every)) == pytest.approx(1, abs=1e-12)


def test_equal_to_python_crfsuite(path, tagger):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    theirs = pycrfsuite.Tagger()
    theirs.open(str(path))
    assert tagger.labels() == theirs.labels()
    for row in [*sequences(0)[0], *sequences(1)[0]]:
        labels = theirs.tag(row)
        for given in (row, iter(row), ours.ItemSequence(row)):
            assert tagger.tag(given) == labels
        assert ours.ItemSequence(row).items() == pycrfsuite.ItemSequence(row).items()
        other = [LABELS[t % 3] for t in range(len(row))]
        for path_ in (labels, other):
            assert tagger.probability(path_) == pytest.approx(
                theirs.probability(path_), abs=1e-12
            )
        for t, label in itertools.product(range(len(row)), LABELS):
            assert tagger.marginal(label, t) == pytest.approx(
                theirs.marginal(label, t), abs=1e-12
            )


def test_info_and_dump_are_those_of_python_crfsuite(tmp_path, tagger, path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    theirs = pycrfsuite.Tagger()
    theirs.open(str(path))
    theirs.dump(str(tmp_path / "theirs"))
    tagger.dump(tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    # theirs cannot parse names with line feeds
    X, y = [[{"a": "x", "b": 2}, {"b": 1}], [{"a": "y"}]], [["p", "q"], ["q"]]
    trainer = pycrfsuite.Trainer(verbose=False)
    for row, labels in zip(X, y):
        trainer.append(row, labels)
    trainer.train(str(tmp_path / "m"))
    theirs.open(str(tmp_path / "m"))
    tagger.open_inmemory((tmp_path / "m").read_bytes())
    found, wanted = tagger.info(), theirs.info()
    for name in ("header", "labels", "attributes"):
        assert vars(found)[name] == vars(wanted)[name]
    for name in ("transitions", "state_features"):
        assert list(vars(found)[name]) == list(vars(wanted)[name])
        assert vars(found)[name] == pytest.approx(vars(wanted)[name], abs=1e-6)


def test_info_has_the_weights(path, tagger):
    model, info = ConditionalRandomField.load(path), tagger.info()
    names, labels = model.feature_names_.tolist(), model.classes_.tolist()
    assert "w:a\nb " in info.attributes
    for (name, label), weight in info.state_features.items():
        column = labels.index(label)
        assert model.feature_coef_[names.index(name), column] == weight
    assert len(info.state_features) == np.count_nonzero(model.feature_coef_)
    assert info.header["size"] == str(os.path.getsize(path))


def test_dump_to_the_standard_output(tagger, capsys):
    tagger.dump()
    text = capsys.readouterr().out
    assert text.startswith("FILEHEADER = {\n  magic: lCRF\n")
    assert "\nLABELS = {\n      0: B-é\n      1: I\n" in text


def test_changed_items_do_not_change_the_sequence_of_the_tagger(tagger):
    row = [{"w": "cat"}, {"w": "the"}]
    labels = tagger.tag(row)
    before = tagger.probability(labels), tagger.marginal("O", 1)
    row[0]["w"] = "é=:"
    row[1] = {"n": 100.0}
    row.append({})
    assert tagger.tag() == labels
    assert (tagger.probability(labels), tagger.marginal("O", 1)) == before


def test_bytes_in_memory_need_not_be_kept(path, tagger):
    other, (X, _) = ours.Tagger(), sequences(1)
    with other.open_inmemory(path.read_bytes()) as opened:
        assert opened is other
        noise = [bytes(len(path.read_bytes())) for _ in range(100)]
        assert [other.tag(row) for row in X] == [tagger.tag(row) for row in X]
        del noise
    with pytest.raises(ValueError, match=r"closed: call open\(name\)"):
        other.tag(X[0])


def test_one_and_no_item(tagger):
    assert tagger.tag([]) == []
    assert tagger.probability([]) == 0.0 == tagger.marginal("O", 0)
    assert len(tagger.tag([{}])) == 1
    total = sum(tagger.marginal(label, 0) for label in tagger.labels())
    assert total == pytest.approx(1, abs=1e-12)


def test_long_sequences(tagger):
    rng = random.Random(0)
    row = rng.choices([item(rng) for _ in range(5000)], k=100_000)
    labels = tagger.tag(row)
    short = [tagger.tag(row[t : t + 40]) for t in range(0, 4000, 40)]
    middle = [labels[t + 5 : t + 35] for t in range(0, 4000, 40)]
    # far from the cuts the labels are those of the parts
    assert [part[5:35] for part in short] == middle
    tagger.set(row)
    for t in (0, 50_000, 99_999):
        total = sum(tagger.marginal(label, t) for label in LABELS)
        assert total == pytest.approx(1, abs=1e-12)
    assert 0 <= tagger.probability(labels) < 1


def test_more_labels_than_attributes():
    rng = np.random.default_rng(0)
    labels = [f"l{i}" for i in range(300)]
    weights = ChainWeights(labels, ["a"], rng.normal(size=(1, 300)), np.eye(300))
    tagger = ours.Tagger()
    tagger.open_inmemory(model_bytes(weights))
    best = labels[int(weights.state.argmax())]
    assert tagger.tag([["a"], ["a", "b"]]) == [best] * 2
    assert len(tagger.info().state_features) == 300


def test_threads_share_a_tagger(tagger):
    X, _ = sequences(1, 60)
    wanted, wrong = [tagger.tag(row) for row in X], []

    def work():
        for row, labels in zip(X * 20, wanted * 20):
            if tagger.tag(row) != labels:
                wrong.append(row)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "given, message",
    [
        ([{"a": float("nan")}], "xseq, item 0: feature 'a' is NaN or infinite"),
        ([{}, {"a": {"b": -np.inf}}], "xseq, item 1: feature 'a:b' is NaN or infinite"),
        ([{"a": None}], "xseq, item 0: .*the value of 'a' is None"),
        ([{1: 2.0}], "xseq, item 0: .*the name 1 is not a string"),
        ([[1]], "xseq, item 0: .*the name 1 is not a string"),
        ([[["a"]]], "xseq, item 0: must be a mapping"),
        (["foo"], r"xseq, item 0: .*make it \[string\]"),
        ("foo", "xseq must be a sequence of observations"),
        ({"a": 1}, "xseq must be a sequence of observations"),
        (5, "xseq must be a FactorGraph or a sequence"),
        ([5], "xseq, item 0: must be a mapping"),
        ([{"a": 10**400}], "xseq, item 0: must be a mapping"),
    ],
)
def test_bad_items_are_named(given, message, tagger):
    before = tagger.tag([["bias"]])
    for call in (tagger.tag, tagger.set):
        with pytest.raises(ValueError, match=message):
            call(given)
    assert tagger.tag() == before
    for call in (ours.ItemSequence, lambda x: ours.Trainer().append(x, ["O"])):
        with pytest.raises(ValueError, match=message.removeprefix("xseq")):
            call(given)


def test_bad_questions(tagger):
    tagger.set([["bias"]])
    with pytest.raises(RuntimeError, match="does not have the label 'zz'"):
        tagger.probability(["zz"])
    with pytest.raises(RuntimeError, match="does not have the label 1"):
        tagger.marginal(1, 0)
    with pytest.raises(ValueError, match="each of the 1 items, got 2"):
        tagger.probability(["O", "O"])
    for pos in (-1, 1):
        with pytest.raises(ValueError, match=f"pos must be from 0 to 0, got {pos}"):
            tagger.marginal("O", pos)
    for pos in ("0", None, 0.5, np.nan):
        with pytest.raises(TypeError, match=f"pos must be an integer, got {pos!r}"):
            tagger.marginal("O", pos)
    assert tagger.marginal("O", 0.0) == tagger.marginal("O", False)


def test_a_closed_tagger():
    tagger = ours.Tagger()
    for call in (
        tagger.labels, tagger.tag, lambda: tagger.tag([["a"]]),
        lambda: tagger.set([]), lambda: tagger.probability([]),
        lambda: tagger.marginal("O", 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="the tagger is closed"):
            call()
    for call in (tagger.info, tagger.dump):
        with pytest.raises(RuntimeError, match="the tagger is closed"):
            call()
    tagger.close()


def test_files_that_are_not_models(tmp_path, path, tagger):
    before = tagger.tag([["bias"]])
    data = path.read_bytes()
    for content, message in (
        (b"", "does not begin with"),
        (b"foo", "does not begin with"),
        (b"\x7fELF" + data[4:], "does not begin with"),
        (b"lCRFfoo" * 100, "type b'"),
        (data[:40], "the header"),
        (data[:-7], "the file is cut"),
    ):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match=f"name='.*bad': .*{message}"):
            tagger.open(tmp_path / "bad")
        with pytest.raises(ValueError, match=f"value: .*{message}"):
            tagger.open_inmemory(content)
    with open(tmp_path / "large", "wb") as file:  # holes: takes no room on the disk
        file.truncate(2**40)
    with pytest.raises(ValueError, match="does not begin with"):
        tagger.open(tmp_path / "large")
    with pytest.raises(FileNotFoundError):
        tagger.open("not there")
    with pytest.raises(TypeError, match="value must be bytes, got str"):
        tagger.open_inmemory("lCRF")
    assert tagger.tag([["bias"]]) == before  # the model before stays


@pytest.mark.parametrize("seed", [0, 3, 4, 5, 13, 17])
def test_damaged_files(seed, path):
    rng, data = random.Random(seed), path.read_bytes()
    for _ in range(20):
        broken = bytearray(data[: rng.randrange(len(data))])
        if rng.random() < 0.7:
            broken = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                at = rng.randrange(len(data) if rng.random() < 0.5 else 64)
                broken[at] = rng.choice([0, 1, 255, rng.randrange(256)])
        tagger = ours.Tagger()
        try:
            tagger.open_inmemory(bytes(broken))
        except ValueError as exc:
            assert str(exc).startswith("value: ")
        else:
            assert len(tagger.tag([{"w": "cat"}, ["bias"]])) == 2


# ----------------------------------------------------------------------- the trainer


def test_trainer_finds_the_minimum_of_python_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    X, y = sequences(0)
    rows = [(row, labels) for row, labels in zip(X, y) if row]
    for params in (
        {"c1": 0.1, "c2": 0.1},
        {"c2": 0.5, "feature.possible_transitions": True},
        {"c2": 0.5, "feature.possible_states": True},
    ):
        found = []
        for module in (pycrfsuite, ours):
            trainer = module.Trainer("lbfgs", params, verbose=False)
            for row, labels in rows:
                trainer.append(row, labels)
            trainer.train(str(tmp_path / "m"))
            model = ConditionalRandomField.load(tmp_path / "m")
            weights = model.coef_
            objective = -model.target_log_proba(*zip(*rows)).sum()
            objective += params.get("c1", 0) * abs(weights).sum()
            objective += params["c2"] * (weights**2).sum()
            last = trainer.logparser.last_iteration
            assert last["loss"] == pytest.approx(objective, abs=1e-5)
            found.append((objective, model))
        (theirs, _), (mine, model) = found
        # at most 1e-3 nats for each item above the minimum
        assert mine <= theirs + 1e-3 * sum(len(row) for row, _ in rows)
        assert mine == pytest.approx(theirs, rel=0.03)


def test_parameters():
    trainer = ours.Trainer(params={"c2": 100, "feature.possible_states": True})
    assert trainer.get("c2") == 100.0
    assert trainer.get_params()["feature.possible_states"] is True
    trainer.set("max_iterations", "7.0")
    assert trainer.get("max_iterations") == 7
    trainer.select("AP")
    assert trainer.params()[-2:] == ["max_iterations", "epsilon"]
    for call, message in (
        (lambda: trainer.set("foo", 1), "Parameter not found: foo = 1"),
        (lambda: trainer.get("foo"), "Parameter not found: foo"),
        (lambda: trainer.help("c1"), "Parameter not found: c1"),
        (lambda: trainer.set("epsilon", "x"), "epsilon must be a number, got 'x'"),
        (lambda: trainer.select("foo"), "algorithm='foo'"),
        (lambda: trainer.select("lbfgs", "crf2d"), "type='crf2d'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_parameters_are_those_of_python_crfsuite():
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    for algorithm in ("lbfgs", "l2sgd", "ap", "pa", "arow"):
        theirs, trainer = pycrfsuite.Trainer(algorithm), ours.Trainer(algorithm)
        assert trainer.params() == theirs.params()
        assert trainer.get_params() == theirs.get_params()
        assert all(map(trainer.help, trainer.params()))


@pytest.mark.parametrize("algorithm", ["l2sgd", "ap", "pa", "arow"])
def test_other_algorithms_name_the_remedy(algorithm, tmp_path):
    trainer = ours.Trainer(algorithm, verbose=False)
    trainer.append([["a"]], ["x"])
    with pytest.raises(ours.CRFSuiteError, match=r"select\('lbfgs'\)"):
        trainer.train(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_bad_training_data(tmp_path):
    trainer = ours.Trainer(verbose=False)
    with pytest.raises(ValueError, match="each of the 1 items, got 2"):
        trainer.append([["a"]], ["x", "y"])
    with pytest.raises(TypeError, match="yseq must be strings, got 1 at item 1"):
        trainer.append([["a"], ["b"]], ["x", 1])
    with pytest.raises(ValueError, match="yseq has a null character in 'x"):
        trainer.append([["a"]], ["x\0"])
    with pytest.raises(ValueError, match="xseq has a null character in 'a:x"):
        trainer.append([{"a": "x\0"}], ["x"])
    trainer.append([["a"], ["b"]], ["x", b"y"])
    with pytest.raises(OSError, match="model cannot be written"):
        trainer.train(tmp_path / "no" / "m")
    trainer.set("c1", -1)
    with pytest.raises(ValueError, match="'c1' parameter"):
        trainer.train(tmp_path / "m")
    trainer.set("c1", 0)
    for value in (np.nan, np.inf):
        trainer.set("feature.minfreq", value)
        with pytest.raises(ValueError, match="'feature.minfreq' parameter must be a f"):
            trainer.train(tmp_path / "m")
    for group in ("1", None):
        with pytest.raises(TypeError, match="holdout must be an integer"):
            trainer.train(tmp_path / "m", holdout=group)
        with pytest.raises(TypeError, match="group must be an integer"):
            trainer.append([["a"]], ["x"], group=group)
    assert not list(tmp_path.iterdir())


def test_items_are_those_at_the_call(tmp_path):
    trainer = ours.Trainer(params={"c2": 0.1}, verbose=False)
    shared = {"in": {}}
    for word, label in zip("abab", "xyxy"):
        shared["w"] = shared["in"]["v"] = word
        trainer.append(iter([shared, map(str, [word])]), [label, label])
    trainer.train(tmp_path / "m")
    tagger = ours.Tagger()
    tagger.open(tmp_path / "m")
    assert sorted(tagger.info().attributes) == [
        "a", "b", "in:v:a", "in:v:b", "w:a", "w:b",
    ]  # fmt: skip
    assert tagger.tag([{"w": "b"}]) == ["y"]


def test_nothing_to_train_on(tmp_path):
    for rows in ([], [[]]):
        trainer = ours.Trainer(verbose=False)
        for row in rows:
            trainer.append(row, [])
        trainer.train(tmp_path / "m")
        data = (tmp_path / "m").read_bytes()
        assert len(data) == 4236
        with pytest.raises(ValueError, match="the model has no labels"):
            ours.Tagger().open(tmp_path / "m")
        theirs = pytest.importorskip("pycrfsuite").Trainer(verbose=False)
        theirs.train(str(tmp_path / "theirs"))
        assert (tmp_path / "theirs").read_bytes() == data


class Told(ours.Trainer):
    """Leaves out `__init__` of its base, as those of tutorials do."""

    def __init__(self):
        self.told = []

    def message(self, message):
        self.told.append(message)
        super().message(message)


def test_messages_and_held_out_data(tmp_path):
    X, y = sequences(0)
    trainer = Told()
    trainer.set_params({"c2": 0.1, "max_iterations": 4})
    for i, (row, labels) in enumerate(zip(X, y)):
        trainer.append(row, labels, i % 2)
    trainer.train(tmp_path / "m", holdout=1)
    assert trainer.told[0] == "Holdout group: 2\n"
    assert "type: CRF1d\n" in trainer.told
    assert trainer.told == trainer.logparser.log
    assert [info["num"] for info in trainer.logparser.iterations] == [1, 2, 3, 4]
    losses = [info["loss"] for info in trainer.logparser.iterations]
    assert losses == sorted(losses, reverse=True)
    last = trainer.logparser.last_iteration
    tagger = ours.Tagger()
    tagger.open(tmp_path / "m")
    found = [(tagger.tag(row), labels) for row, labels in zip(X[1::2], y[1::2])]
    pairs = [pair for row in found for pair in zip(*row)]
    right = sum(a == b for a, b in pairs)
    assert last["item_accuracy_float"] == right / len(pairs)
    assert last["instance_accuracy_float"] == sum(a == b for a, b in found) / len(found)
    for label, score in last["scores"].items():
        assert score.match == sum(a == b == label for a, b in pairs)
        assert score.ref == sum(b == label for _, b in pairs)
        assert score.precision == pytest.approx(score.match / score.model, abs=1e-4)
        assert score.recall == pytest.approx(score.match / score.ref, abs=1e-4)
        mean = 2 * score.precision * score.recall / (score.precision + score.recall)
        assert score.f1 == pytest.approx(mean, abs=2e-4)
    for i, name in enumerate(("precision", "recall", "f1"), 3):
        every = [score[i] for score in last["scores"].values()]
        assert last[f"avg_{name}"] == pytest.approx(np.mean(every), abs=1e-4)
    weights = [*tagger.info().state_features.values()]
    weights += tagger.info().transitions.values()
    assert last["active_features"] == len(weights)
    assert last["feature_norm"] == pytest.approx(np.linalg.norm(weights), abs=1e-6)
    events = [event for event, _, _ in trainer.logparser.events]
    iterations = ["iteration"] * 4
    begin, end = ["start", "featgen_end", "prepared"], ["optimization_end", "end"]
    assert events == [*begin, *iterations, *end]
    log = trainer.logparser
    ends = [0, *(end for _, _, end in log.events)]
    assert [(a, b) for _, a, b in log.events] == list(itertools.pairwise(ends))
    assert ends[-1] == len(log.log)
    assert log.last_log.startswith("Storing the model\nSeconds required: ")
    assert 0 <= log.storing_seconds and log.featgen_seconds <= log.training_seconds
    tell = itertools.chain.from_iterable(log.log[a:b] for _, a, b in log.events)
    assert "".join(tell) == "".join(trainer.told)


def test_python_crfsuite_reads_our_messages(tmp_path):
    """The parser of python-crfsuite finds the rounded figures of our log."""
    parser = pytest.importorskip("pycrfsuite._logparser", reason="python-crfsuite")
    trainer = ours.Trainer("lbfgs", {"max_iterations": 4}, verbose=False)
    for i, (row, labels) in enumerate(zip(*sequences(0))):
        trainer.append(row, labels, i % 2)
    trainer.train(tmp_path / "m", holdout=1)
    mine, theirs = trainer.logparser, parser.TrainLogParser()
    for line in mine.log:
        theirs.feed(line)
    assert len(mine.iterations) == len(theirs.iterations) == 4
    for info, read in zip(mine.iterations, theirs.iterations):
        assert info.keys() == read.keys()
        for name in info.keys() - {"scores"}:
            assert info[name] == pytest.approx(read[name], abs=6e-4)
        assert info["scores"].keys() == read["scores"].keys()
        for label, score in info["scores"].items():
            assert score == pytest.approx(read["scores"][label], abs=6e-5)
    wanted = theirs.training_seconds, theirs.storing_seconds
    assert (mine.training_seconds, mine.storing_seconds) == pytest.approx(
        wanted, abs=6e-4
    )


def test_an_exception_of_a_message_ends_the_training(tmp_path):
    class Bad(ours.Trainer):
        def on_iteration(self, log, info):
            raise KeyError("mine")

    trainer = Bad()
    trainer.append([["a"], ["b"]], ["x", "y"])
    with pytest.raises(KeyError, match="mine"):
        trainer.train(tmp_path / "m")
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------- in its place

CLIENT = """
import sys, types
sys.modules["pycrfsuite"] = types.ModuleType("pycrfsuite")
from sklstruct.compat import pycrfsuite as ours
try:
    ours.install()
except RuntimeError as exc:
    print(exc)
del sys.modules["pycrfsuite"]
ours.install()
ours.install()
import pycrfsuite
from pycrfsuite._logparser import TrainLogParser
assert pycrfsuite is ours and pycrfsuite.CRFSUITE_VERSION
trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.1}, verbose=True)
trainer.append([{"w": "the"}, {"w": "cat"}], ["D", "N"])
trainer.train(PATH)
with pycrfsuite.Tagger().open(PATH) as tagger:
    print(tagger.tag([{"w": "the"}, {"w": "cat"}]))
"""


@pytest.mark.processes
def test_programs_that_import_pycrfsuite(tmp_path):
    code = CLIENT.replace("PATH", repr(str(tmp_path / "m")))
    options = {"capture_output": True, "text": True, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "-c", code], **options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "a module named pycrfsuite is loaded already" in lines[0]
    assert lines[-1] == "['D', 'N']"
    assert "***** Iteration #1 *****\nLoss: " in done.stdout


def test_addresses():
    usaddress = pytest.importorskip("usaddress", reason="needs usaddress")
    tagger, theirs = ours.Tagger(), usaddress.TAGGER
    tagger.open(usaddress.MODEL_PATH)
    rng = random.Random(0)
    words = "12 1/2 N Main St. Apt #5 Chicago, IL 60601 PO Box and 5th Ave Suite B-2"
    for _ in range(300):
        text = " ".join(rng.choices(words.split(), k=rng.randrange(1, 10)))
        items = list(usaddress.tokens2features(usaddress.tokenize(text)))
        labels = theirs.tag(items)
        assert tagger.tag(items) == labels
        assert tagger.probability(labels) == pytest.approx(
            theirs.probability(labels), abs=1e-12
        )
    file = io.BytesIO()
    ConditionalRandomField.load(usaddress.MODEL_PATH).save(file)
    with open(usaddress.MODEL_PATH, "rb") as original:
        assert file.getvalue() == original.read()
    assert len(tagger.info().state_features) > 1000  # names with line feeds
