"""The programs of benchmarks/ have one form, and the documented results are theirs."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from _toy_problems import make_problem, problem_of

from sklstruct.loglinear import L1, L2, DiagonalSolver, ElasticNet
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._solvers import Job

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "results"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("bench_*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_cases_are_plain_and_different(load_program, name):
    program = load_program(name)
    assert program.__doc__ and callable(program.run)
    cases = program.cases()
    assert cases and json.loads(json.dumps(cases)) == cases
    texts = [json.dumps(case, sort_keys=True) for case in cases]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("draw_*.py")), ids=lambda p: p.stem)
def test_programs_of_pictures_have_what_they_import(load_program, path):
    pytest.importorskip("matplotlib", reason="the pictures are drawn by Matplotlib")
    assert callable(load_program(path.stem).main)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_documented_results_belong_to_a_case(load_program, path):
    """A figure of the pages can be made again: the program has the case."""
    book = json.loads(path.read_text(encoding="utf-8"))
    cases = load_program(book["program"]).cases()
    marks = ("slow", "needs")
    known = [{k: v for k, v in case.items() if k not in marks} for case in cases]
    for result in book["results"]:
        assert result["case"] in known, result["case"]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_documented_results_have_a_run_record(path):
    """A program wrote them: nothing was typed in by hand."""
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (FOLDER / f"{book['program']}.py").exists()
    for result in book["results"]:
        assert result["figures"], result["case"]
        assert min(result["cpu_seconds"], result["wall_seconds"]) >= 0, result["case"]
        assert result["peak_mb"] > 0 and result["repeats"] >= 1, result["case"]
        here = book["environments"][result["environment"]]
        assert here["machine"] and here["date"] and here["threads"]
        assert re.fullmatch(r"[0-9a-f]{12}\+?", here["commit"]), result["case"]
        assert here["versions"].keys() >= {
            "sklstruct",
            "scikit-learn",
            "numpy",
            "scipy",
        }


PAGES = sorted(RESULTS.parents[1].rglob("*.rst"))


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda p: p.relative_to(RESULTS.parents[1]).as_posix()
)
def test_figures_in_sentences_are_results(page, monkeypatch):
    """Each refers to one result; measured figures are not typed in by hand."""
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "_ext"))
    from benchmark_results import figure

    text = page.read_text(encoding="utf-8")
    for content in re.findall(r":figure:`([^`]*)`", text):
        file = RESULTS / content.partition("|")[0].strip()
        figure(json.loads(file.read_text(encoding="utf-8"))["results"], content)
    if page.parent == RESULTS.parent:
        prose = [line for line in text.splitlines() if line[:1].isalnum()]
        typed = [line for line in prose if re.search(r"(?<![\d.])\d?\.\d{3,}\b", line)]
        assert not typed, "write these figures with the role `figure`"


def tables(text):
    """(file, conditions, fields) of the tables of a page."""
    for block in re.split(r"(?m)^\.\. benchmark-table:: ", text)[1:]:
        head, *lines = block.splitlines()
        lines = itertools.takewhile(lambda line: not line[:1].strip(), lines)
        lines = [line.strip() for line in lines if line.strip()]
        options = [line for line in lines if line.startswith(":")]
        where = [o.removeprefix(":where:") for o in options if o.startswith(":where:")]
        yield (
            head,
            "".join(where),
            [line.split("|")[0].strip() for line in lines if line not in options],
        )


@pytest.mark.parametrize(
    "page", sorted(RESULTS.parent.glob("*.rst")), ids=lambda p: p.stem
)
def test_tables_show_what_the_results_hold(page, monkeypatch):
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "_ext"))
    from benchmark_results import selects

    for file, where, fields in tables(page.read_text(encoding="utf-8")):
        book = json.loads((RESULTS / file).read_text(encoding="utf-8"))
        found = {
            key
            for r in book["results"]
            if selects(where, r["case"])
            for key in (*r["case"], *r["figures"], "peak_mb")
        }
        assert fields and set(fields) <= found, (file, where, set(fields) - found)


def test_splits_are_shown_as_mean_and_deviation(monkeypatch):
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "_ext"))
    from benchmark_results import figure, is_best, selects, summary

    splits = [{"a": 1.0}, {"a": 3.0}, {"a": 8.0}, {"b": 9.0}]
    deviation = (((1 - 4) ** 2 + (3 - 4) ** 2 + (8 - 4) ** 2) / 3) ** 0.5
    assert summary(splits, "a", ".3f") == f"4.000 ± {deviation:.3f}"
    assert summary(splits[:1], "a", ".1f") == "1.0" and summary(splits, "c", "") == ""
    case = {"split": 0, "model": "cut", "C": 0.5}
    assert selects("split = 0, 1; model = cut; C = 0.5", case)
    assert not selects("split = 1; model = cut", case)
    assert not selects("missing = 1", case)
    assert selects("peer = a, b", {"peer": "a, b"}) and selects(
        "peer = a, b", {"peer": "a"}
    )
    assert not selects("peer == a, b", {"peer": "a"})
    assert selects("peer == a, b; split = 1", {"peer": "a, b", "split": 1})
    rivals = [splits[:2], splits[2:3], splits[3:]]  # means 2 and 8, and no figure
    judged = [
        [is_best(r, rivals, "a", ".0f", best) for r in rivals] for best in (min, max)
    ]
    assert judged == [[True, False, False], [False, True, False]]
    assert is_best([{"a": 2.04}], [[{"a": 2.04}], [{"a": 2.0}]], "a", ".1f", min)
    book = [{"case": {"split": i}, "figures": f} for i, f in enumerate(splits[:3])]
    assert figure(book, "f.json | split = 1 | a | .1f") == "3.0"
    assert figure(book, "f.json | | a | .1f | mean") == "4.0"
    for wrong in (
        "| a |",
        "split = 9 | a |",
        "split = 9 | a | | mean",
        "split = 0 | b |",
    ):
        with pytest.raises(ValueError, match=re.escape(wrong)):
            figure(book, f"f.json | {wrong}")


def results(file, **case):
    """Figures of the results whose cases hold these values."""
    book = json.loads((RESULTS / file).read_text(encoding="utf-8"))
    return [
        result["figures"]
        for result in book["results"]
        if case.items() <= result["case"].items()
    ]


def test_readme_states_what_the_results_hold():
    """The table of the first screen, figure by figure, means over the splits."""
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "**" in line]
    rows = [row[1:] for row in rows if len(row) == 3]
    shown = [[re.findall(r"\d*\.?\d+", cell) for cell in row] for row in rows]

    def language_model(model):
        (found,) = results("word_classes.json", section="models", model=model)
        seconds = found["fit_seconds"]
        digits = 1 if seconds < 10 else 0
        return [f"{found['test']:.0f}", f"{seconds:.{digits}f}"]

    def tagger(peer):
        (found,) = results("hmm.json", section="peers", split="EWT", peer=peer)
        return [f"{found['accuracy']:.1%}".strip("%")]

    def classifier(model, digits):
        found = results("sparse_classes.json", section="text1000", model=model)
        assert len(found) == 3
        accuracy, fit = (mean(f[key] for f in found) for key in ("accuracy", "fit"))
        return [f"{accuracy:.1%}".strip("%"), f"{fit:.{digits}f}"]

    better, best = '"better"', '"best"'
    windows, fast = '"better" by windows alone', "modified Kneser-Ney"
    assert shown == [
        [language_model(windows) + language_model(fast), language_model("KenLM lmplz")],
        [language_model(best) + language_model(better), []],
        [tagger("sklstruct, hybrid"), tagger("sklearn-crfsuite") + tagger("nltk")],
        [classifier("tree", 1), classifier("omikuji", 1) + classifier("LinearSVC", 0)],
    ]


def test_first_page_shows_the_readme():
    """docs/index.rst includes the parts of README.md that have marks; none is empty."""
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    page = (RESULTS.parents[1] / "index.rst").read_text(encoding="utf-8")
    marks = r":start-after: (<!-- begin (\w+) -->)\n   :end-before: (<!-- end \2 -->)"
    for begin, name, end in re.findall(marks, page):
        assert readme.count(begin) == readme.count(end) == 1, name
        assert len(readme.split(begin)[1].split(end)[0]) > 300, name
    assert len(re.findall(marks, page)) == readme.count("<!-- begin") == 3


def test_network_passes_our_models_when_the_page_says():
    page = (RESULTS.parent / "word_classes.rst").read_text(encoding="utf-8")
    (lstm,) = results("neural.json", model="LSTM", seconds=900)
    curve, minutes = lstm["curve"], []
    for model in ("modified Kneser-Ney", '"better"', '"best"'):
        (found,) = results("word_classes.json", section="models", model=model)
        at = sum(p > found["test"] for p in curve["test_sample"])
        minutes.append([round(s / 60) for s in curve["seconds"][at - 1 : at + 1]])
    assert minutes == [[1, 2], [8, 15], [8, 15]]
    words = " ".join(page.split())
    assert 'passes ``"fast"`` between one and two minutes of training' in words
    assert '``"better"`` and ``"best"`` between eight and 15 minutes' in words


def run_here(load_program, capsys, argv, cases, run):
    common = load_program("_common")
    run.__module__ = "_common"
    common.main(cases, run, peers=("other",), argv=[*argv, "--same-process"])
    return capsys.readouterr().out


def test_chosen_strengths_of_the_orders_are_the_best_of_the_record(load_program):
    program = load_program("bench_orders")
    results = json.loads((RESULTS / "orders.json").read_text())["results"]
    best = {}
    for result in results:
        case = result["case"]
        if case["section"] == "choose":
            found = result["figures"]["validation"], (case["lam"], case["alpha"])
            key = case["penalty"], case["alpha"] == 1.0
            best[key] = min(found, best.get(key, found))
    for penalty, (lam, weighted) in program.CHOSEN.items():
        assert best[penalty, True][1] == (lam, 1.0)
        assert best[penalty, False][1] == weighted


def test_main_chooses_prints_and_writes(load_program, capsys, tmp_path):
    def cases():
        return [{"n": 1}, {"n": 2, "slow": True}, {"n": 30}]

    def run(case):
        return {"square": case["n"] ** 2, "seconds": 0.25}

    out = tmp_path / "results.json"
    printed = run_here(load_program, capsys, ["--quick", "--out", str(out)], cases, run)
    assert "square" in printed and "900" in printed
    book = json.loads(out.read_text())
    assert [r["case"] for r in book["results"]] == [{"n": 1}, {"n": 30}]
    assert book["results"][1]["figures"] == {"square": 900, "seconds": 0.25}
    assert book["results"][0]["repeats"] == 2
    # another run replaces its own cases and keeps the others
    run_here(
        load_program,
        capsys,
        ["--case", "2", "30", "--out", str(out)],
        cases,
        lambda c: c,
    )
    book = json.loads(out.read_text())
    assert [r["case"]["n"] for r in book["results"]] == [1, 30, 2]
    assert book["results"][1]["figures"] == {"n": 30}
    assert not list(tmp_path.glob("*.part"))
    # words of several flags add up
    both = ["--list", "--case", "2", "--case", "30"]
    assert run_here(load_program, capsys, both, cases, run).split() == ["2", "30"]
    assert run_here(load_program, capsys, ["--list"], cases, run).split()[0] == "1"


def test_a_list_into_a_closed_pipe_ends_quietly():
    read, write = os.pipe()
    os.close(read)
    program = [sys.executable, str(FOLDER / "bench_prox.py"), "--list"]
    with os.fdopen(write) as closed:
        ended = subprocess.run(program, stdout=closed, stderr=subprocess.PIPE)
    assert ended.stderr == b"" and ended.returncode


def test_record_keeps_the_environments_in_use(load_program):
    record = load_program("_common").record
    book = {"environments": [], "results": []}
    for n, here in [(1, "old"), (2, "old"), (1, "new"), (3, "old"), (2, "new")]:
        book = record(book, {"commit": here}, {"case": {"n": n}})
    of = {
        r["case"]["n"]: book["environments"][r["environment"]]["commit"]
        for r in book["results"]
    }
    assert of == {1: "new", 2: "new", 3: "old"} and len(book["environments"]) == 2
    book = record(book, {"commit": "new"}, {"case": {"n": 3}})
    assert book["environments"] == [{"commit": "new"}]


def test_main_goes_on_after_a_failure(load_program, capsys):
    def cases():
        return [{"n": 0}, {"n": 1}]

    def run(case):
        return {"inverse": 1 / case["n"]}

    with pytest.raises(SystemExit, match="1 of 2"):
        run_here(load_program, capsys, [], cases, run)
    captured = capsys.readouterr()
    assert "ZeroDivisionError" in captured.err and "inverse" in captured.out


def test_calls_in_turns(load_program):
    common, order = load_program("_common"), []
    times = common.fastest(
        a=lambda: order.append("a"), b=lambda: order.append("b") or 7, repeats=3
    )
    assert order == ["a", "b"] * 3
    assert times["b"].result == 7 and 0 <= times["a"].wall < 60


def test_cases_of_other_tools_are_left_out_unless_asked_for(load_program, capsys):
    common = load_program("_common")
    cases = [{"name": "ours"}, {"name": "theirs", "needs": "other"}]
    run = (lambda: cases), (lambda case: {"x": 1})
    argv = ["--same-process"]
    common.main(*run, peers=("other",), argv=argv)
    assert "theirs" not in capsys.readouterr().out
    common.main(*run, peers=("other",), argv=[*argv, "--peer", "other"])
    assert "theirs" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="add --peer"):
        common.main(*run, peers=("other",), argv=[*argv, "--case", "theirs"])


@pytest.mark.parametrize("penalty", [ElasticNet(gamma=0.7), L1(), L2()], ids=repr)
def test_older_solvers_end_at_the_optimum(penalty, load_program):
    """Iterative scaling, coordinate descent and L-BFGS-B, which only programs use."""
    problem = make_problem(3, 0, depth_weight=1.1)
    job = Job(LogLinearLoss(problem), penalty.bind(problem))
    best = DiagonalSolver(1e-8, 100_000).solve(job, np.zeros(problem.n_pairs))
    passes = {}
    for name, solver in load_program("_scaling").SCALING.items():
        r = solver(1e-4, 5000).solve(job, np.zeros(problem.n_pairs))
        assert r.objective == pytest.approx(best.objective, rel=1e-6)
        assert (np.diff(r.history) <= 1e-12 * r.objective).all()
        passes[name] = len(r.history)
    # The nearer a bound is to the loss, the fewer are the passes.
    assert passes["cd"] < passes["scis"] < passes["iis"] < passes["gis"] < 5000


def test_contexts_of_any_length_are_those_of_a_deep_model(load_program):
    """The collapsed tree beside Kneser-Ney with contexts as long as the sentences."""
    import numpy as np

    from sklstruct import KneserNeyLM, LanguageModel

    kit, rng = load_program("_collapsed"), np.random.RandomState(0)
    train, test = (
        [rng.choice(list("abcd"), rng.randint(1, 12)).tolist() for _ in range(n)]
        for n in (30, 20)
    )
    test += train[:3]  # whole contexts, to the start of the sentence
    discount = np.array([0.6, 0.7, 0.8, 0.9])
    lm = LanguageModel(KneserNeyLM(discount=discount[:, None]), max_depth=13).fit(train)
    number = {w: i for i, w in enumerate(lm.vocabulary_.tolist())}
    ids = [[[number[w] for w in s] for s in text] for text in (train, test)]
    places = kit.Positions(ids, len(number), number["</s>"])
    tree = kit.CollapsedTree(places)
    assert tree.depth.size <= 2 * (places.text == 0).sum() + 1
    assert tree.n_pairs < lm.backoff_model_.pairs.n_pairs
    at = np.flatnonzero(places.text == 1)
    queries = [kit.Queries(tree, at, np.full(at.size, y)) for y in range(len(number))]
    model = kit.PowerLaw(tree, discount, np.full(4, 1e-100))
    proba = np.array([model.proba(q) for q in queries])
    own = proba[places.target[at], np.arange(at.size)]
    assert np.exp(-np.log(own).mean()) == pytest.approx(lm.perplexity(test), rel=1e-9)
    power = kit.PowerLaw(tree, discount, np.array([0.9, 0.5, 0.2, 0.6]))
    sums = np.sum([power.proba(q) for q in queries], axis=0)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)


def mention(i, refex, form, referent="Ada_Lovelace", role="subj", sentence=1):
    return {
        "pos": i, "sentence": sentence, "referent": referent, "form": form,
        "refex": refex, "role": role, "semcat": "person", "dist_sent": "same",
        "dist_word": "short", "competitor_between": "no", "left": "",
        "right": "wrote programs .",
    }  # fmt: skip


def test_mentions_of_grec(load_program):
    """The candidates and the edges; features do not know the answer."""
    grec_instances = load_program("_grec").grec_instances
    mentions = [
        mention(5, "Her", "pronoun", role="subj-det", sentence=2),
        mention(1, "Ada  Lovelace", "name"),
        mention(2, "Babbage", "name", "Charles_Babbage", role="obj"),
        mention(9, "The countess", "description", sentence=4),
    ]
    text = {"doc": "ada", "type": "inventor", "mentions": mentions}
    (x,), (y,) = grec_instances([text])
    assert y == ["Ada Lovelace", "Babbage", "her", "the countess"]
    assert x["variables"][0]["candidates"] == [
        "Ada Lovelace", "her", "the countess", "she", "who",
    ]  # fmt: skip
    kinds = dict(zip(x["variables"][2]["candidates"], x["variables"][2]["kinds"]))
    assert kinds["her"] == "pronoun gen" and kinds["Ada Lovelace"] == "name full"
    assert [edge[:3] for edge in x["edges"]] == [
        (0, 1, "next"), (1, 2, "next"), (0, 2, "entity 1"), (2, 3, "next"),
        (2, 3, "entity 1"), (0, 3, "entity 2"),
    ]  # fmt: skip
    assert grec_instances([text], edges=())[0][0]["edges"] == []
    mentions[0] = mentions[0] | {"refex": "Ada Lovelace", "form": "name"}
    (other,), _ = grec_instances([text])
    for v, w in zip(x["variables"], other["variables"]):
        assert v["features"] == w["features"]
    assert [e[:4] for e in x["edges"]] == [e[:4] for e in other["edges"]]


def test_penalty_of_prefixes_is_its_definition(load_program):
    """The norm of the n-grams that begin with each n-gram, by plain loops."""
    program = load_program("bench_growing")
    text = np.random.default_rng(0).integers(0, 4, 60)
    padded = np.concatenate([[-1, -1, -1], text])
    windows = np.lib.stride_tricks.sliding_window_view(padded[:-1], 3)
    problem = problem_of(windows, text, 0.8 ** np.arange(4), 0.4 * 1.3 ** np.arange(4))
    contexts = problem.tree.contexts(problem.pairs.nodes())
    target = problem.pairs.target.tolist()
    grams = [(*context.tolist(), y) for context, y in zip(contexts, target)]
    w = np.random.default_rng(0).standard_normal(len(grams))
    total = 0.0
    for gram in grams:
        below = [other[: len(gram)] == gram for other in grams]
        total += 0.4 * 1.3 ** (len(gram) - 1) * np.linalg.norm(w[below])
    bound = program.PrefixL2().bind(problem)
    assert bound.value(w) == pytest.approx(total, rel=1e-12)
    # The operator lowers its objective as far as any small change of its result does.
    near = bound.prox(w.copy(), np.ones_like(w), np.empty_like(w))
    least = 0.5 * np.sum((near - w) ** 2) + bound.value(near)
    rng = np.random.default_rng(1)
    for _ in range(200):
        other = near + 1e-3 * rng.standard_normal(w.size) * (rng.random(w.size) < 0.1)
        assert 0.5 * np.sum((other - w) ** 2) + bound.value(other) > least
