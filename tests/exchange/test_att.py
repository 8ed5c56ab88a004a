"""Automata of back-off models: every sentence has the same probability on its path."""

import io
from collections import Counter
from itertools import product

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.backoff import prune
from sklstruct.exchange import read, write
from sklstruct.smoothing import GrownLM, JelinekMercerLM

TEXT = ["the cat sat", "the dog ran", "a cat ran", "the dog sat down", "a a a cat"]
WORDS = ["the", "a", "cat", "dog", "sat", "ran"]


def written(model, **options):
    file = io.BytesIO()
    write(model, file, format="att", **options)
    return file.getvalue().decode()


def walk(text, sentence, backoff="<epsilon>"):
    """Log-probability of a sentence by the definition of the format, from the arcs."""
    arcs, lower, final, start = {}, {}, {}, None
    for line in text.splitlines():
        parts = line.split()
        start = parts[0] if start is None else start
        if len(parts) == 2:
            final[parts[0]] = float(parts[1])
        elif parts[2] == backoff:
            lower[parts[0]] = parts[1], float(parts[3])
        else:
            arcs[parts[0], parts[2]] = parts[1], float(parts[3])
    state, total = start, 0.0
    for word in [*sentence, None]:
        while (word is None and state not in final) or (
            word is not None and (state, word) not in arcs
        ):
            state, cost = lower[state]
            total += cost
        if word is None:
            return -(total + final[state])
        state, cost = arcs[state, word]
        total += cost


def models():
    yield LanguageModel(KneserNeyLM(discount=0.5), max_depth=2)
    yield LanguageModel(KneserNeyLM(discount=0.5), max_depth=0)
    yield LanguageModel(JelinekMercerLM(), max_depth=3, min_count=2)
    yield LanguageModel(GrownLM(lam=0.5), max_depth=3)


def pruned():
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=3).fit(TEXT)
    return prune(lm.backoff_model_, 0.02)


def sentences():
    """All of three words."""
    return [list(s) for s in product(sorted(WORDS), repeat=3)]


@pytest.mark.parametrize("lm", list(models()), ids=repr)
def test_paths_have_the_probabilities_of_the_model(lm):
    lm = lm.fit(TEXT)
    text = written(lm.backoff_model_)
    classes = set(lm.backoff_model_.labels.classes.tolist())
    scores = lm.score_samples(sentences())
    for sentence, score in zip(sentences(), scores):
        spelt = [w if w in classes else "<unk>" for w in sentence]
        assert walk(text, spelt) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("backoff", ["<epsilon>", "#0"])
def test_pruned_models_come_back(backoff):
    model = pruned()
    text = written(model, backoff=backoff)
    again = read(io.BytesIO(text.encode()), format="att", backoff=backoff)
    lms = [
        LanguageModel.from_backoff(m, out_of_vocabulary="exclude")
        for m in (model, again)
    ]
    scores = [lm.score_samples(sentences()) for lm in lms]
    np.testing.assert_allclose(*scores, atol=1e-6)
    for sentence, score in zip(sentences(), scores[0]):
        assert walk(text, sentence, backoff) == pytest.approx(score, abs=1e-6)


def test_the_target_of_an_arc_is_the_longest_history():
    """Each state is one history: read it from the paths, not from the names."""
    model = (
        LanguageModel(KneserNeyLM(discount=0.5), max_depth=3).fit(TEXT).backoff_model_
    )
    text = written(model)
    n_arcs = sum(
        "<epsilon>" not in line and line.count("\t") == 3 for line in text.splitlines()
    )
    n_back = text.count("<epsilon>")
    # Every context of a text of sentences is reached; every pair but those of </s> is
    # an arc, and every context but the empty one backs off.
    end = model.labels.end_id
    assert n_arcs == int((model.pairs.target != end).sum())
    assert n_back == model.n_nodes - 1


def test_fields_as_other_tools_print_them():
    """Five columns, a weight of one left out, states in any order."""
    text = (
        "7 5 a a 0.5\n7 2 <epsilon> <epsilon> 0.25\n2 5 a a 1\n"
        "5 2 <epsilon> <epsilon>\n2 1.5\n5\n"
    )
    model = read(io.BytesIO(text.encode()), format="att")
    lm = LanguageModel.from_backoff(model, out_of_vocabulary="exclude")
    got = lm.score_samples([["a"], [], ["a", "a"]])
    np.testing.assert_allclose(got, [-0.5, -1.75, -0.5 - 1.0], atol=1e-9)


ROOT = "1 2 a 1\n1 0 <epsilon> 0.5\n0 2 a 1\n2 0 <epsilon> 1\n0 1\n"


@pytest.mark.parametrize(
    "text, match",
    [
        ("", "the file is empty"),
        ("\n \n", "holds no automaton"),
        (ROOT + "2 0 <epsilon> 1\n", "line 6: a second back-off arc"),
        (ROOT + "0 2 a 2\n", "line 6: a second arc of this state for 'a'"),
        (ROOT + "0 2\n", "line 6: the state is final twice"),
        (ROOT + "0 2 </s> 2\n", "line 6: an arc reads </s>"),
        (ROOT + "0 2 b x\n", "line 6: the weight 'x' is not a number"),
        (ROOT + "0 2 b -0.1\n", "line 6: the weight -0.1 is a probability above 1"),
        (ROOT + "2 -3\n", "line 6: the weight -3 is a probability above 1"),
        (ROOT + "0 2 b -inf\n", "line 6: the weight '-inf' is not a number"),
        (ROOT + "0 2 b\n", "two words or two states are in one place"),
        (ROOT + "2 2 b\n", "two words or two states are in one place"),
        (ROOT + "2 0 b\n", "'b' has no unigram arc"),
        (ROOT + "2 1 a\n", "two words or two states are in one place"),
        (ROOT + "3 0 a\n", "2 states have no back-off arc"),
        (ROOT + "0 1 <epsilon>\n", "0 states have no back-off arc"),
        (ROOT + "3 4 <epsilon>\n4 3 <epsilon>\n", "the back-off arcs form a cycle"),
        (
            ROOT.replace("1 2 a", "1 0 a"),
            "line 1: the arc does not lead to",
        ),
        (ROOT + "2 3 a\n3 2 <epsilon>\n3 3 b\n", "two words or two states"),
        ("1 3 a 1\n3 1 <epsilon>\n2 3 <epsilon>\n1 2 b\n1 1\n", "line 4: the target"),
        ("3 1 a 1\n3 2 <epsilon>\n2 1 <epsilon>\n", "the initial state backs off 2"),
        (ROOT.replace("0 1\n", ""), "unigrams is not final"),
        (ROOT.replace("<epsilon> 1", "<epsilon> inf"), "a back-off weight of zero"),
    ],
)
def test_malformed_files(text, match):
    with pytest.raises(ValueError, match=match):
        read(io.BytesIO(text.encode()), format="att")


def test_a_last_line_without_a_line_feed_is_a_warning():
    file = io.BytesIO()
    write(pruned(), file, format="att")
    with pytest.warns(
        UserWarning, match="the last line has no line feed; the file may"
    ):
        read(io.BytesIO(file.getvalue()[:-1]), format="att")


def test_models_that_cannot_be_written():
    model = pruned()
    with pytest.raises(ValueError, match="backoff='cat' is a word"):
        write(model, io.BytesIO(), format="att", backoff="cat")
    for bad in ("", "a b", 3):
        with pytest.raises(ValueError, match="backoff must be one word"):
            write(model, io.BytesIO(), format="att", backoff=bad)
    windows = KneserNeyLM(discount=0.5, padding=-1).fit([[0], [1], [1]], [1, 0, 1])
    with pytest.raises(ValueError, match=r"end: .* no end mark"):
        write(windows.backoff_model_, io.BytesIO(), format="att")


TRIGRAMS = (
    "0 2 a 1.5\n0 5 b 1.4\n0 3 c 1.3\n0 1.6\n"
    "2 0 <epsilon> 0.2\n2 8 b 0.1\n3 0 <epsilon> 0.3\n3 6 a 0.5\n5 0 <epsilon> 0.1\n"
    "6 2 <epsilon> 0.7\n6 7 b 0.6\n7 8 <epsilon> 0.4\n7 2 a Infinity\n"
    "8 5 <epsilon> 0.9\n8 3 c 0.8\n"
)


def test_weights_of_zero():
    model = read(io.BytesIO(TRIGRAMS.encode()), format="att")
    lm = LanguageModel.from_backoff(model, out_of_vocabulary="exclude")
    for sentence in product("abc", repeat=4):
        score = float(lm.score_samples([list(sentence)])[0])
        want = walk(TRIGRAMS, sentence)
        assert score == pytest.approx(want, abs=1e-9)


def test_histories_that_no_arc_reads_are_refused():
    """After "a b" the path is in the state "b", a back-off model in that of "a b"."""
    text = TRIGRAMS.replace("2 8 b 0.1\n", "")
    with pytest.raises(ValueError, match="history 'a b' is a state, and no arc reads"):
        read(io.BytesIO(text.encode()), format="att")


@pytest.mark.parametrize("text", ["0 1.5\n", '{"a":1}'])
def test_a_state_without_arcs_is_not_a_model(text):
    with pytest.raises(ValueError, match="the state of the unigrams has no arcs"):
        read(io.BytesIO(text.encode()), format="att")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_suffix_names_the_format(tmp_path, suffix):
    model = pruned()
    path = tmp_path / f"model.att{suffix}"
    write(model, path, format="att")
    np.testing.assert_array_equal(
        read(path).log_prob, read(path, format="att").log_prob
    )
    # First bytes that tell another format are believed.
    native = tmp_path / "native.att"
    write(model, native, format="native")
    assert read(native) == model


# ------------------------------------------------------------- of other programs


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("space", ["\u00a0", "\u0085", "\u2028", "\u3000", "\x1c"])
def test_words_with_spaces_of_unicode_come_back(space):
    words = [f"7{space}7", f"a{space}a", f"0.5{space}0.5", "b"]
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=1)
    model = lm.fit([words, words[::-1], ["b", words[0]]]).backoff_model_
    file = io.BytesIO()
    write(model, file, format="att")
    file.seek(0)
    again = read(file, format="att")
    assert set(again.labels.classes) == set(model.labels.classes)
    columns = again.labels.encode_targets(model.labels.classes)
    np.testing.assert_allclose(
        again.rows([0])[:, columns], model.rows([0]), rtol=1e-7, atol=1e-7
    )


def kaldi_graph(model, table=None):
    """The graph of arpa2fst: five columns, #0 in and <eps> out where it backs off."""
    number = (lambda word: word) if table is None else table.__getitem__
    out = []
    for line in written(model, backoff="#0").splitlines():
        fields = line.split("\t")
        if len(fields) == 4:
            word = fields[2]
            output = "<eps>" if word == "#0" else word
            fields[2:3] = [str(number(word)), str(number(output))]
        out.append("\t".join(fields))
    return "\n".join(["", *out, "", ""]).encode()


def test_graphs_of_kaldi_are_read():
    model = pruned()
    plain = read(io.BytesIO(written(model).encode()), format="att")
    assert read(io.BytesIO(kaldi_graph(model)), format="att", backoff="#0") == plain
    words = ["<eps>", *model.labels.classes.tolist(), "<s>", "#0"]
    table = {word: i for i, word in enumerate(words)}
    graph = kaldi_graph(model, table)
    # If a graph holds numbers, the numbers are the words.
    numbers = read(io.BytesIO(graph), format="att", backoff=str(table["#0"]))
    assert numbers.n_pairs == plain.n_pairs
    assert set(numbers.labels.classes) <= {*map(str, table.values()), "</s>"}


@pytest.mark.parametrize("empty", ["<eps>", "<epsilon>"])
def test_back_off_weights_of_zero_may_be_left_out(empty):
    # fstprint leaves out weights of 0.
    whole = ROOT.replace("2 0 <epsilon> 1", f"2 0 #0 {empty} 0")
    whole = whole.replace("1 0 <epsilon>", f"1 0 #0 {empty}")
    short = whole.replace(f"{empty} 0\n", f"{empty}\n")
    assert short != whole
    models = [
        read(io.BytesIO(text.encode()), format="att", backoff="#0")
        for text in (whole, short)
    ]
    assert models[0] == models[1]


def test_the_message_names_the_option_of_the_arcs_that_back_off():
    text = ROOT.replace("<epsilon>", "<eps>").encode()
    with pytest.raises(ValueError, match="give backoff='<eps>'"):
        read(io.BytesIO(text), format="att")
    with pytest.raises(ValueError, match="line 2: .*if it backs off, give backoff='#0"):
        read(io.BytesIO(kaldi_graph(pruned())), format="att")
    with pytest.raises(ValueError, match="line 1: not an arc of an acceptor: it reads"):
        read(io.BytesIO(b"0 0 a b 1\n0 1\n"), format="att")


def test_the_fourth_of_four_fields_is_a_weight_unless_it_is_the_word():
    """The weight of an arc that reads a number should stand there."""
    text = "0 0 5 5\n0 0 6 6.5\n0 1\n"
    model = read(io.BytesIO(text.encode()), format="att")
    row = dict(zip(model.labels.classes.tolist(), model.rows([0])[0]))
    assert row == pytest.approx({"</s>": -1.0, "5": 0.0, "6": -6.5})


def test_an_arc_that_leaves_out_a_state_is_refused():
    """After "a b" the path is in the state "b", and "a b" is a state, too."""
    text = TRIGRAMS.replace("2 8 b 0.1", "2 5 b 0.1")
    with pytest.raises(ValueError, match="line 6: the arc does not lead to"):
        read(io.BytesIO(text.encode()), format="att")


def test_a_weight_of_infinity_stays():
    text = "0 0 a 0.5\n0 0 b Infinity\n0 1\n"
    model = read(io.BytesIO(text.encode()), format="att")
    again = written(model)
    assert "b\tInfinity" in again
    row = dict(zip(model.labels.classes.tolist(), model.rows([0])[0]))
    assert row["b"] == -np.inf


@pytest.mark.parametrize("text", [None, TRIGRAMS, ROOT])
def test_a_file_that_is_read_and_written_has_the_same_weights(text):
    text = written(pruned()) if text is None else text
    again = written(read(io.BytesIO(text.encode()), format="att"))
    assert "\t-0\n" not in again

    def weights(lines):
        """Of arcs by their words, and of final states."""
        fields = [line.split() for line in lines.splitlines()]
        return Counter(("".join(row[2:-1]), float(row[-1])) for row in fields)

    # Arcs that a back-off model also needs are added, with the weight of backing off.
    assert not weights(text) - weights(again)
