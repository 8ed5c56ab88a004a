"""DaskLanguageModel on local clusters."""

import asyncio
import filecmp
import gc
import gzip
import io
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from _callbacks import StopAfter, needs_callbacks
from _clusters import HANGS, here, local_client, new_client, on_cluster, until
from _loglinear import loglinear
from _oracles import wikitext
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklstruct import (
    AdditiveLM,
    HierarchicalClassifier,
    KneserNeyLM,
    StructuredLogLinearLM,
    SuffixTreeVectorizer,
)
from sklstruct.backoff import count_text
from sklstruct.context_tree._shards import prefix_keys, prefixes_of_keys
from sklstruct.distributed import (
    DaskLanguageModel,
    _client,
    _driver,
    _tasks,
)
from sklstruct.distributed._client import SchedulerLost
from sklstruct.distributed._parts import text_parts
from sklstruct.distributed._sharded_fit import ShardedFit
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import Checkpoint
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import AbsoluteDiscountLM, WittenBellLM
from sklstruct.symbols import Labels, TextFile, number_sentences
from sklstruct.symbols._sentences import VocabularyRules

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
bag = pytest.importorskip("dask.bag")

pytestmark = pytest.mark.processes


def sentences(n=400, seed=0):
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(60)]
    out = []
    for _ in range(n):
        x, sentence = rng.randrange(60), []
        for _ in range(rng.randrange(12)):
            x = (x * 7 + rng.choice([1, 1, 2, 5])) % 60
            sentence.append(words[x])
        out.append(" ".join(sentence))
    return out


def with_one_word(n=400, seed=0):
    """Sentences in which half of all words are one word."""
    rng = random.Random(seed)
    return [
        " ".join("the" if rng.random() < 0.5 else word for word in line.split())
        for line in sentences(n, seed)
    ]


def longest_prefix(model):
    """Most symbols by which the shards of a model are divided."""
    return max(len(first) for first, _ in model._remote.driver.bounds)


def same_model(a, b, exact):
    a, b = here(a).backoff_model_, here(b).backoff_model_
    assert a.pairs == b.pairs
    assert a.labels.classes.tolist() == b.labels.classes.tolist()
    for name in ("log_prob", "log_backoff"):
        x, y = getattr(a, name), getattr(b, name)
        if exact:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, atol=1e-7)


MODELS = [
    (KneserNeyLM(), True),
    (WittenBellLM(), True),
    (KneserNeyLM(min_count=[1, 1, 2, 9]), True),
    (AbsoluteDiscountLM(discount=0.5, min_count=2, interpolate=False), True),
    (StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.7), False),
    (StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9), False),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator, exact", MODELS, ids=str)
def test_equal_to_one_process(client, estimator, exact):
    text = sentences()
    one = LanguageModel(estimator, max_depth=3, min_count=2).fit(text)
    many = on_cluster(estimator, max_depth=3, min_count=2, n_shards=3).fit(text)
    same_model(one, many, exact)
    lm = many.compute()
    assert lm.vocabulary_.tolist() == one.vocabulary_.tolist()
    test = sentences(20, seed=1)
    assert lm.perplexity(test) == pytest.approx(one.perplexity(test), rel=1e-8)
    if not exact:
        a, b = one.estimator_, lm.estimator_
        np.testing.assert_allclose(b.objective_, a.objective_, rtol=1e-8)
        np.testing.assert_allclose(b.coef_, a.coef_, atol=1e-7)
    assert len(many.shard_sizes_) == 3
    pairs = sum(n for _, _, n in many.shard_sizes_)
    V = lm.vocabulary_.size
    counted = one.count(text)
    assert pairs == counted.pairs.n_pairs + 2 * V
    if np.max(getattr(estimator, "min_count", 1)) > 1:
        assert lm.backoff_model_.n_pairs < 0.7 * counted.pairs.n_pairs
    assert many.n_lost_shards_ == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "n_shards, estimator, exact",
    [(6, *model) for model in MODELS] + [(40, *MODELS[0]), (40, *MODELS[-1])],
    ids=str,
)
def test_a_large_branch_is_divided(client, estimator, exact, n_shards):
    text = with_one_word()
    one = LanguageModel(estimator, max_depth=3, start=None).fit(text)
    many = on_cluster(estimator, max_depth=3, start=None, n_shards=n_shards).fit(text)
    assert longest_prefix(many) == (3 if exact else 1)
    sizes = [n for _, _, n in many.shard_sizes_]
    n_pairs, V = one.count(text).pairs.n_pairs, one.vocabulary_.size
    if exact:
        # Each shard has the pairs of the contexts above its own.
        assert max(sizes) < 1.7 * n_pairs / n_shards + 3 * V
        # A lost shard is restored by the answers that it needs.
        driver = many._remote.driver
        k = max(range(n_shards), key=lambda k: len(driver.bounds[k][0]))
        driver._actors[k] = None
    else:
        assert max(sizes) > n_pairs / 3
    same_model(one, many, exact)
    assert many.n_lost_shards_ == int(exact)


def test_prefixes_are_counted_in_pieces(monkeypatch):
    """Words before a word, up to the start of its sentence."""
    text = with_one_word(60) + ["the", "the the"]
    numbered = number_sentences(text)
    for start, n_tokens in (("<s>", 1 << 18), (None, 7)):
        monkeypatch.setattr(_tasks, "_TOKENS", n_tokens)
        labels = VocabularyRules(start, "</s>", unknown=None).find_labels(numbered)
        n, code = labels.n_symbols, labels.token_code
        lines = [[code[w] for w in line.split()] for line in text]
        if start is not None:
            lines = [[code[start], *line] for line in lines]
        for prefix in ((code["the"],), (code["the"], code["the"])):
            width, wanted = len(prefix), Counter()
            for line in lines:
                for i in range(len(line)):
                    newest = (*line[i::-1], -1, -1)[: width + 1]
                    if newest[:-1] == prefix:
                        wanted[newest] += 1
            known = prefix_keys(np.array([prefix]), width, n)
            keys, counts = _tasks.count_prefixes(numbered, labels, known, width)
            rows = map(tuple, prefixes_of_keys(keys, width + 1, n).tolist())
            assert dict(zip(rows, counts.tolist())) == wanted


def mixed():
    return MixtureLM([("kn", KneserNeyLM(discount=0.5)), ("wb", WittenBellLM())])


def test_bag_files_and_sentences_are_one_text(client, tmp_path):
    text = sentences(300)
    path = tmp_path / "text.txt"
    path.write_text("\n".join(text) + "\n")
    estimator = WittenBellLM()
    model = on_cluster(estimator, max_depth=2, n_shards=2)
    one = LanguageModel(estimator, max_depth=2).fit(text)
    for X in (
        text,
        [line.split() for line in text],
        bag.from_sequence(text, npartitions=5),
        bag.read_text(str(path), blocksize=1000),
        TextFile(path, skip_blank_lines=False),
    ):
        same_model(one, model.fit(X), exact=True)
    one.fit(TextFile(path))
    same_model(one, model.fit(TextFile(path)), exact=True)


def test_other_collections_of_dask(client):
    text = sentences(100)
    array = pytest.importorskip("dask.array")
    frame = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    estimator = WittenBellLM()
    model = on_cluster(estimator, max_depth=2, n_shards=2)
    one = LanguageModel(estimator, max_depth=2).fit(text)
    table = pandas.DataFrame({"text": text, "n": range(len(text))})
    table = frame.from_pandas(table, npartitions=3)
    delayed = [dask.delayed(list)(text[:30]), dask.delayed(list)(text[30:])]
    numbers = array.from_array(np.array(text, dtype=object), chunks=40)
    for X in (table["text"], table["text"].to_bag(), delayed, numbers):
        same_model(one, model.fit(X), exact=True)
    with pytest.raises(TypeError, match="one dimension, got 2; pass one column"):
        model.fit(table)
    with pytest.raises(TypeError, match="X must have one dimension, got 2"):
        model.fit(numbers[:, None])


def test_collections_of_dask_are_not_gathered_in_silence():
    X = bag.from_sequence(sentences(30), npartitions=2)
    model = LanguageModel(WittenBellLM(), max_depth=2).fit(sentences(30))
    first = LanguageModel(WittenBellLM(), max_depth=2).partial_fit
    for answer in (model.fit, first, model.perplexity, model.score_samples):
        with pytest.raises(TypeError, match=r"Dask.*X\.map_partitions\(model\.score_s"):
            answer(X)
    scores = X.map_partitions(model.score_samples).compute(scheduler="sync")
    np.testing.assert_array_equal(scores, model.score_samples(sentences(30)))


def test_the_number_of_workers_does_not_matter(client):
    text = sentences()
    estimator = StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9)
    model = on_cluster(estimator, max_depth=3, n_shards=3)
    lm = model.fit(text).compute()
    first = lm.estimator_.coef_
    assert model.n_exchanges_ > 10
    V = lm.vocabulary_.size
    most = 2 * 3 * 8 * (3 * V + 3) * model.n_exchanges_
    assert 0 < model.n_bytes_exchanged_ <= most
    worker = next(iter(client.cluster.workers.values()))
    with local_client(1, n_threads=2, direct_to_workers=True) as other:
        again = model.set_params(client=other).fit(text).compute().estimator_.coef_
    assert worker.status.name == "running"
    np.testing.assert_array_equal(first, again)


def test_tasks_grow_with_parts_and_shards_not_with_their_product(client, monkeypatch):
    from sklstruct.distributed._cluster import Cluster

    submit, names = Cluster.submit, []

    def counted(self, function, *arguments, **options):
        names.append(function.__name__)
        return submit(self, function, *arguments, **options)

    monkeypatch.setattr(Cluster, "submit", counted)
    n_parts, n_shards, text = 37, 5, sentences(200)
    parts = bag.from_sequence(text, npartitions=n_parts)
    n_parts = parts.npartitions
    model = on_cluster(WittenBellLM(), n_shards=n_shards).fit(parts)
    assert names.count("PartCounts") == n_parts > 5 * n_shards
    # Prefixes of one symbol, and of two, are divided.
    assert names.count("count_prefixes") <= 2 * n_parts
    assert len(names) <= 5 * n_parts + 4
    same_model(LanguageModel(WittenBellLM()).fit(text), model, exact=True)


def test_parameters_of_the_text(client):
    text = sentences()
    for params in (
        {"vocabulary": ["w1", "w2", "w3"]},
        {"max_vocabulary": 20},
        {"min_count": 5, "start": None},
        {"end": None, "unknown": None},
    ):
        one = LanguageModel(WittenBellLM(), max_depth=2, **params).fit(text)
        many = on_cluster(WittenBellLM(), max_depth=2, n_shards=3, **params)
        same_model(one, many.fit(text), exact=True)


def with_memory(monkeypatch, memory, least):
    """Workers have so many bytes for counting, and a shard at least `least`."""
    from sklstruct.distributed import _cluster, _language_model

    monkeypatch.setattr(
        _language_model, "text_parts", lambda *given: (text_parts(*given)[0], memory)
    )
    monkeypatch.setattr(_cluster, "_LEAST_ROOM", least)


@pytest.mark.parametrize(("memory", "least"), [(8_000.0, 1), (0.0, 16_000)])
def test_shards_fit_into_the_memory_of_the_workers(client, monkeypatch, memory, least):
    """There are more shards than workers; one at a time is in memory."""
    text, loaded, sizes = with_one_word(), [], []
    load = _tasks.ShardCounts.load

    def loading(counts):
        # Two workers are threads of this process.
        assert sum(count() is not None for count in loaded) <= 1
        found = load(counts)
        loaded.append(weakref.ref(found.count))
        sizes.append(found.count.size)
        return found

    monkeypatch.setattr(_tasks.ShardCounts, "load", loading)
    with_memory(monkeypatch, memory, least)
    estimator = KneserNeyLM(discount=0.5)
    many = on_cluster(estimator, max_depth=3).fit(text)
    one = LanguageModel(estimator, max_depth=3).fit(text)
    n_shards, n_pairs = len(many.shard_sizes_), one.backoff_model_.n_pairs
    bytes_per_pair = ShardedFit.bytes_per_pair
    assert n_shards > n_pairs * bytes_per_pair / 16_000 > 5
    assert len(loaded) >= n_shards
    # And the contexts above those of the shard.
    width, room = longest_prefix(many), 16_000 / bytes_per_pair
    assert width > 1 and max(sizes) < room + width * one.vocabulary_.size
    same_model(one, many, exact=True)


def test_a_fit_stays_in_memory_until_another_needs_it(client, monkeypatch):
    """Of three shards on two workers, two at least take turns, at each of two sums."""
    loaded, load = [], _tasks.ShardCounts.load

    def loading(counts):
        loaded.append(counts)
        return load(counts)

    monkeypatch.setattr(_tasks.ShardCounts, "load", loading)
    on_cluster(KneserNeyLM(), max_depth=2, n_shards=1).fit(sentences(50))
    assert len(loaded) == 1
    on_cluster(KneserNeyLM(), max_depth=2, n_shards=3).fit(sentences(50))
    assert len(loaded) >= 1 + 3 + 2 * 2


def test_arrays_of_a_log_linear_fit_fit_into_the_memory(client, monkeypatch):
    """One shard at a time is in memory, and all others are in files."""
    rng, seen = np.random.default_rng(0), set()
    lines = [" ".join(map(str, rng.integers(300, size=20))) for _ in range(2000)]
    make_room = _tasks.make_room

    def making(arrays, room):
        make_room(arrays, room)
        assert len(_tasks._in_memory) == 1 and 2 * arrays.size > room
        seen.add(id(arrays))

    monkeypatch.setattr(_tasks, "make_room", making)
    with_memory(monkeypatch, 2e6, 1)
    estimator = loglinear(penalty="l2", lam=0.1)
    many = on_cluster(estimator, max_depth=2).fit(lines)
    one = LanguageModel(estimator, max_depth=2).fit(lines)
    assert len(many.shard_sizes_) == len(seen) > 4
    assert max(pairs for *_, pairs in many.shard_sizes_) > 1 << 13  # in files
    gc.collect()
    assert not [ref() for ref in _tasks._in_memory if ref() is not None]
    same_model(one, many, exact=False)


def test_few_requests_are_at_the_client_at_once(client, monkeypatch):
    """Also of shards that are lost in the middle of a sum, one or several at once."""
    text, n_shards = sentences(), 25
    estimator = KneserNeyLM()
    one = LanguageModel(estimator, max_depth=3).fit(text)
    driver = _driver.ShardDriver
    advance, wait, alive = driver._advance, driver._wait, driver._alive
    begun, most, arrays = set(), [0, 0], []
    lost = {3: {3, 5, 6}, 20: {20}, 24: {24}}  # when it is noticed, and which

    def advancing(self, k, answers):
        begun.add(k)
        return advance(self, k, answers)

    def waiting(self, k, call):
        most[0] = max(most[0], len(begun))
        found = wait(self, k, call)
        begun.discard(k)
        if getattr(found, "kind", None) == "total":
            most[1] = max(most[1], sum(ref() is not None for ref in arrays))
            if k in lost and self.n_exchanges == 1:
                self.gone = lost.pop(k)
                return _driver._LOST
            arrays.extend(map(weakref.ref, found.value.values()))
        return found

    def living(self, k):
        return k not in getattr(self, "gone", ()) and alive(self, k)

    for name, method in [("advance", advancing), ("wait", waiting), ("alive", living)]:
        monkeypatch.setattr(driver, f"_{name}", method)
    many = on_cluster(estimator, max_depth=3, n_shards=n_shards).fit(text)
    n_workers = len(client.nthreads())
    assert 1 < most[0] <= _driver._AHEAD * n_workers < n_shards
    assert most[1] <= 4 < len(arrays)
    assert many.n_lost_shards_ == 5 and not lost
    same_model(one, many, exact=True)


def test_workers_keep_one_answer_while_a_model_is_copied(client, monkeypatch):
    many = on_cluster(KneserNeyLM(discount=0.5), n_shards=4).fit(sentences())
    model, sent, alive = _tasks.ShardFit.model, [], []

    def sending(fit, name):
        # Two workers are threads of this process.
        found = model(fit, name)
        if name == "log_prob":
            sent.append(weakref.ref(found))
        if name == "fitted":  # the last answer
            alive.append(sum(array() is not None for array in sent))
        return found

    monkeypatch.setattr(_tasks.ShardFit, "model", sending)
    many.compute()
    assert len(sent) == 4 and alive == [0] * 4


def test_more_shards_than_words(client):
    text = ["a b", "b a", "a"]
    one = LanguageModel(WittenBellLM(), max_depth=2).fit(text)
    many = on_cluster(WittenBellLM(), max_depth=2, n_shards=9).fit(text)
    same_model(one, many, exact=True)
    one = LanguageModel(StructuredLogLinearLM(penalty="l2"), max_depth=5).fit(text)
    many = on_cluster(StructuredLogLinearLM(penalty="l2"), max_depth=5, n_shards=4).fit(
        text
    )
    same_model(one, many, exact=False)


def test_warnings_reach_the_caller(client):
    with pytest.warns(UserWarning, match="KneserNeyLM: counts of counts do not give"):
        on_cluster(KneserNeyLM(), max_depth=2, n_shards=2).fit(["a b c"] * 3)
    with pytest.warns(UserWarning, match="the solver stopped at max_iter=1"):
        on_cluster(loglinear(tol=1e-9, max_iter=1), max_depth=2, n_shards=2).fit(
            sentences(50)
        )


def test_verbose_prints_here(client, capsys):
    model = loglinear(penalty="l2", verbose=1)
    on_cluster(model, max_depth=2, n_shards=2).fit(sentences(50))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[StructuredLogLinearLM] iteration 0: objective")
    assert len(lines) == len(set(lines))


@needs_callbacks
def test_a_callback_stops_the_fit(client):
    stop = StopAfter("iteration", 2)
    stop.max_propagation_depth = None
    estimator = loglinear(penalty="l2", tol=1e-12)
    model = on_cluster(estimator, max_depth=2, n_shards=2)
    model.set_callbacks(stop)
    assert model.fit(sentences(50)).compute().estimator_.n_iter_ <= 3


@needs_callbacks
def test_every_task_that_begins_ends(client):
    class Ledger(StopAfter):
        max_propagation_depth = None

        def on_fit_task_end(self, estimator, context):
            self.ended.append(context.task_name)

    ledger = Ledger("none")
    ledger.ended = []
    estimator = loglinear(penalty="l2", max_iter=3, tol=0.5)
    model = on_cluster(estimator, max_depth=2, n_shards=2)
    model.set_callbacks(ledger)
    model.fit(sentences(50))
    assert sorted(ledger.tasks) == sorted(ledger.ended)
    assert {"fit", "iteration"} <= set(ledger.tasks)


# ------------------------------------------------------------------- losses


class Chaos:
    """Does something at the n-th answer that the shards get."""

    def __init__(self, patch, at, what):
        from sklstruct.distributed._driver import ShardDriver

        answer, self.n = ShardDriver._answer, 0
        self.reports = []

        def counted(driver, kind, value, report):
            self.n += 1
            if kind == "report":
                self.reports.append(value[0][0])
            if self.n == at:
                what(driver)
            return answer(driver, kind, value, report)

        patch.setattr(ShardDriver, "_answer", counted)


def lose_actor(driver):
    """As if the worker of a shard were gone; its tasks stay."""
    driver._actors[1] = None


@pytest.mark.parametrize("at", [1, 7, 40])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_lost_shard_is_made_again(client, monkeypatch, tmp_path, at, checkpoint):
    text = sentences()
    estimator = StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9)
    model = on_cluster(estimator, max_depth=3, n_shards=3)
    want = model.fit(text).compute().estimator_
    if checkpoint:
        path = Checkpoint(tmp_path / "fit.ckpt", interval=0)
        model.set_params(model__estimator__checkpoint=path)
    Chaos(monkeypatch, at, lose_actor)
    got = model.fit(text).compute().estimator_
    assert model.n_lost_shards_ == 1
    np.testing.assert_array_equal(got.coef_, want.coef_)
    np.testing.assert_array_equal(got.objective_, want.objective_)


def test_a_shard_that_is_lost_before_its_fit_is_made_again(client, monkeypatch):
    from sklstruct.distributed._driver import ShardDriver

    ask_all, text = ShardDriver.ask_all, sentences()

    def losing(driver, method, *arguments):
        if method == "n_levels":
            lose_actor(driver)
        return ask_all(driver, method, *arguments)

    monkeypatch.setattr(ShardDriver, "ask_all", losing)
    model = on_cluster(WittenBellLM(), n_shards=2).fit(text)
    assert model.n_lost_shards_ == 1
    same_model(LanguageModel(WittenBellLM()).fit(text), model, exact=True)


def test_a_lost_shard_is_merged_without_the_text(client, monkeypatch, tmp_path):
    path, text = tmp_path / "text.txt", [s for s in sentences(50) if s]
    path.write_text("\n".join(text))

    def lose_text_and_actor(driver):
        path.unlink()
        lose_actor(driver)

    Chaos(monkeypatch, 1, lose_text_and_actor)
    kn = KneserNeyLM(discount=0.5)  # needs sums over the shards; Witten-Bell does not
    lm = LanguageModel(kn)
    model = on_cluster(kn, n_shards=2).fit(TextFile(path))
    assert model.n_lost_shards_ == 1
    same_model(lm.fit(text), model, exact=True)


def test_a_lost_part_is_counted_again(client, monkeypatch):
    """The part is lost while a shard is merged. Only this part is counted again."""
    from sklstruct.distributed._cluster import Cluster

    count, counted = Cluster.submit, []
    shard, text = Cluster.shard, sentences()

    def submit(cluster, function, *arguments, **options):
        counted.append(function.__name__)
        return count(cluster, function, *arguments, **options)

    def losing(cluster, k):
        found = shard(cluster, k)
        if k == 1 and "lost" not in counted:
            client.cancel([cluster._counted[3]])
            until(lambda: cluster._counted[3].key not in stored(client))
            counted.append("lost")
        return found

    monkeypatch.setattr(Cluster, "submit", submit)
    monkeypatch.setattr(Cluster, "shard", losing)
    parts = bag.from_sequence(text, npartitions=5)
    model = on_cluster(WittenBellLM(), n_shards=2).fit(parts)
    assert counted.count("PartCounts") == 6
    assert model.n_lost_shards_ >= 1
    same_model(LanguageModel(WittenBellLM()).fit(text), model, exact=True)


def test_a_part_on_a_worker_that_is_gone(client):
    """It is lost when the scheduler has noticed, not when Dask stops to call it."""

    def merge(address):
        with pytest.raises(_client.PartLost, match=address):
            _tasks.merge_parts([(address, "gone")], 0, 5)
        return address

    # Nothing answers, as if the machine of the worker were off.
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1h"}),
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert client.submit(merge, address).result(timeout=HANGS) == address


def test_answers_are_repeated_a_few_at_a_time(monkeypatch):
    log, answers = _driver.AnswerLog(), [np.full(n, 0.5) for n in (0, 3, 40, 1, 2, 50)]
    for answer in answers:
        log.add(answer)
    monkeypatch.setattr(_driver, "_PIECE", 300)
    batches = list(log)
    assert 1 < len(batches) < len(answers)
    for got, want in zip([x for some in batches for x in some], answers, strict=True):
        np.testing.assert_array_equal(got, want)
    log.close()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("status", ["finished", "pending", "lost", "error"])
def test_a_shard_lives_while_its_worker_and_its_fit_do(known, status):
    from sklstruct.distributed._driver import ShardDriver

    driver = object.__new__(ShardDriver)
    driver.client = SimpleNamespace(
        status="running", nthreads=lambda: {"tcp://one": 1, "tcp://three": 1}
    )
    driver._addresses = ["tcp://one" if known else "tcp://two"]
    driver._futures = [SimpleNamespace(status=status)]
    assert driver._alive(0) == (known and status in ("finished", "pending"))


def test_a_shard_that_is_lost_again_and_again(client, monkeypatch):
    from sklstruct.distributed._driver import ShardDriver

    place = ShardDriver._place
    monkeypatch.setattr(
        ShardDriver, "_place", lambda self, k: None if k else place(self, k)
    )
    with pytest.raises(RuntimeError, match="the worker of shard 1 was lost 4 times"):
        on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"])


# ----------------------------------------------------- errors that are not losses


def break_method(patch, name, error):
    """A method of the shards raises."""
    from sklstruct.distributed._tasks import ShardFit

    def broken(self, *arguments):
        raise type(error)(*error.args)

    patch.setattr(ShardFit, name, broken)


class Unsendable(Exception):
    """Pickles, and cannot be made again."""

    def __init__(self, a, b):
        super().__init__(a)


@pytest.mark.parametrize("name", ["advance", "describe", "model"])
@pytest.mark.parametrize(
    "error",
    [
        AttributeError("no such thing"),
        ValueError("bad value"),
        MemoryError("too much"),
        OSError(28, "no space left"),
        RuntimeError("The program's own"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_program_reach_the_caller(client, monkeypatch, name, error):
    from sklstruct.distributed._driver import ShardDriver

    def lose(self, lost):
        raise AssertionError("taken for the loss of a worker")

    monkeypatch.setattr(ShardDriver, "_lose", lose)
    break_method(monkeypatch, name, error)
    with pytest.raises(type(error), match=str(error.args[-1])[:9]) as info:
        on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"]).compute()
    # With where it comes from.
    note = "".join(info.value.__notes__)
    assert "On the worker of a shard" in note
    assert "in broken" in note


def test_errors_inside_a_fit_reach_the_caller(client, monkeypatch):
    """On one shard only, in the thread of the fit, with a cause; and odd ones."""

    def fit_tree(self, shard, count):
        shard.total(np.zeros(2))
        if shard.tree.symbol[-1:].max() > 0:
            try:
                np.zeros(2)[3]
            except IndexError as exc:
                raise MemoryError("not enough for the shard") from exc
        shard.total(np.zeros(2))

    monkeypatch.setattr(WittenBellLM, "_fit_tree", fit_tree)
    model = on_cluster(WittenBellLM(), n_shards=2)
    with pytest.raises(MemoryError, match="not enough for the shard") as info:
        model.fit(["a b", "b a"])
    assert "IndexError" in "".join(info.value.__notes__)

    def odd(self, shard, count):
        raise Unsendable("cannot be sent", 1)

    monkeypatch.setattr(WittenBellLM, "_fit_tree", odd)
    with pytest.raises(RuntimeError, match="Unsendable: cannot be sent"):
        model.fit(["a b", "b a"])


def test_an_error_of_a_repeated_fit_reaches_the_caller(client, monkeypatch):
    """A fit that restarts fails earlier than before, as if the memory were full now."""
    runs, n_shards = [], 4  # on two workers

    def fit_tree(self, shard, count):
        runs.append(shard)
        if len(runs) > n_shards:
            raise MemoryError("not enough for a repetition")
        shard.total(np.zeros(2))
        shard.total(np.zeros(2))

    monkeypatch.setattr(WittenBellLM, "_fit_tree", fit_tree)
    with pytest.raises(MemoryError, match="not enough for a repetition"):
        on_cluster(WittenBellLM(), n_shards=n_shards).fit(["a b", "b a"])


class Never:
    """An answer that was given and does not arrive."""

    def result(self, timeout):
        raise TimeoutError


def lose_answers(patch, methods, what=lambda answer: Never()):
    """The answers to some methods of the shards do not arrive at the client."""

    patch.setattr(_driver, "_DOUBT", 0.01)
    begin, lost = _driver.ShardDriver.begin, []

    def losing(driver, k, method, *arguments):
        call = begin(driver, k, method, *arguments)
        if method in methods:
            lost.append(method)
            call = call._replace(answer=what(call.answer))
        return call

    patch.setattr(_driver.ShardDriver, "begin", losing)
    return lost


def test_answers_that_do_not_arrive_are_asked_for_again(client, monkeypatch):

    text = sentences(50)
    one = LanguageModel(WittenBellLM()).fit(text)
    monkeypatch.setattr(_driver, "_PIECE", 100)
    lost = lose_answers(monkeypatch, {"describe", "model"})
    many = on_cluster(WittenBellLM(), n_shards=2).fit(text)
    same_model(one, many, exact=True)
    assert sorted(lost) == ["describe"] * 2 + ["model"] * 12
    assert many.n_lost_shards_ == 0


def test_errors_that_do_not_arrive_are_asked_for_again(client, monkeypatch):
    lose_answers(monkeypatch, {"describe"})
    break_method(monkeypatch, "describe", MemoryError("too much"))
    with pytest.raises(MemoryError, match="too much") as info:
        on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"])
    assert "in broken" in "".join(info.value.__notes__)


def test_answers_that_are_too_large_for_the_client(client, monkeypatch):
    """The error is there, and not in a log."""
    from sklstruct.distributed._tasks import ShardFit

    lose_answers(monkeypatch, {"describe"})
    monkeypatch.setattr(ShardFit, "pack", lambda self: 1 << 60)
    with pytest.raises(MemoryError) as info:
        on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"])
    assert "receiving an answer of shard 0" in "".join(info.value.__notes__)


def test_calls_that_take_long_are_waited_for(client, monkeypatch):
    """Questions about a call come behind its end."""
    from sklstruct.distributed._tasks import ShardFit

    begin, ask_about = _driver.ShardDriver.begin, _driver.ShardDriver._ask_about
    describe, limits = ShardFit.describe, (_driver._DOUBT, _driver._NEVER_ARRIVED)
    begun, asked = threading.Event(), threading.Event()

    def beginning(driver, k, method, *arguments):
        # Other calls may be slow, too, on a busy machine.
        doubt, never = (0.01, 0.0) if method == "describe" else limits
        monkeypatch.setattr(_driver, "_DOUBT", doubt)
        monkeypatch.setattr(_driver, "_NEVER_ARRIVED", never)
        return begin(driver, k, method, *arguments)

    def asking(driver, k, call, *arguments):
        assert begun.wait(HANGS)
        asked.set()
        return ask_about(driver, k, call, *arguments)

    def slow(self):
        begun.set()
        assert asked.wait(HANGS)
        time.sleep(0.1)  # the question arrives
        return describe(self)

    monkeypatch.setattr(_driver.ShardDriver, "begin", beginning)
    monkeypatch.setattr(_driver.ShardDriver, "_ask_about", asking)
    monkeypatch.setattr(ShardFit, "describe", slow)
    model = on_cluster(WittenBellLM(), n_shards=3).fit(sentences(50))
    assert asked.is_set()
    assert model.n_lost_shards_ == 0


def test_calls_that_do_not_arrive(client, monkeypatch):
    from sklstruct.distributed._tasks import ShardFit

    do = ShardFit.do

    def deaf(self, number, method, *arguments):
        if method != "describe":
            return do(self, number, method, *arguments)

    monkeypatch.setattr(ShardFit, "do", deaf)
    lose_answers(monkeypatch, {"describe"})
    monkeypatch.setattr(_driver, "_NEVER_ARRIVED", 0.2)
    with pytest.raises(RuntimeError, match="a call to shard 0 did not arrive at its w"):
        on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"])


def test_errors_of_counting_again_reach_the_caller(client, monkeypatch, tmp_path):
    """Counts of parts are lost, and the text was removed, but every worker lives."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(s for s in sentences(50) if s))

    def lose_text_and_actor(driver):
        path.rename(tmp_path / "elsewhere.txt")
        driver._shards._address[0] = None
        lose_actor(driver)

    Chaos(monkeypatch, 1, lose_text_and_actor)
    with pytest.raises(FileNotFoundError, match=r"text\.txt"):
        on_cluster(KneserNeyLM(discount=0.5), n_shards=2).fit(TextFile(path))


def test_a_file_that_a_worker_does_not_have(client, monkeypatch, tmp_path):
    from sklstruct.distributed import _tasks

    path = tmp_path / "text.txt"
    path.write_text("a b\n")

    def gone(part, **options):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(_tasks, "number_sentences", gone)
    with pytest.raises(FileNotFoundError, match=r"text\.txt") as info:
        on_cluster(WittenBellLM()).fit(TextFile(path))
    assert "files must be there, under the same names" in "".join(info.value.__notes__)


# ------------------------------------------------------- waits for the cluster


class HeldRequests:
    """Requests for results wait in the client, as if five others were under way."""

    def __init__(self, client):
        self._client, self._n = client, 0

    def hold(self):
        async def take():
            while not self._client._gather_semaphore.locked():
                await self._client._gather_semaphore.acquire()
                self._n += 1

        self._client.sync(take)

    def let_go(self):
        while self._n:
            self._n -= 1
            self._client.loop.add_callback(self._client._gather_semaphore.release)

    def waiting(self):
        return self._n > 0 and self._client._gather_future is not None


def hold_requests(patch, client, method, then):
    """Hold them from the first task of a name on; `then` is called when one waits."""

    held, look = HeldRequests(client), _client.WorkersWatch.look
    submit, begun = client.submit, []

    def submitting(function, *arguments, **options):
        if function.__name__ == method and not begun:
            begun.append(method)
            held.hold()
        return submit(function, *arguments, **options)

    def looking(watch):
        if held.waiting():
            then(held)
        look(watch)

    patch.setattr(client, "submit", submitting)
    patch.setattr(_client.WorkersWatch, "look", looking)
    patch.setattr(_client, "PATIENCE", 0.001)
    return held


def results_of_the_user(client):
    return [client.submit(abs, -i, pure=False).result() for i in range(3)]


@pytest.mark.parametrize("method", ["read_part", "ShardFit"])
def test_results_that_wait_for_their_turn(client, monkeypatch, method):
    """A time-out of such a wait would cancel the request of all results, for ever."""
    seen = []

    def then(held):
        seen.append(method)
        if len(seen) == 9:
            held.let_go()

    text = sentences(40)
    one = LanguageModel(WittenBellLM()).fit(text)
    held = hold_requests(monkeypatch, client, method, then)
    try:
        model = on_cluster(WittenBellLM(), n_shards=3).fit(text)
    finally:
        held.let_go()
    same_model(one, model, exact=True)
    assert len(seen) >= 9
    assert results_of_the_user(client) == [0, 1, 2]


@pytest.mark.parametrize("method", ["read_part", "ShardFit"])
def test_an_interrupt_leaves_the_client_usable(client, monkeypatch, method):
    def then(held):
        raise KeyboardInterrupt

    before = stored(client)
    with monkeypatch.context() as patch:
        held = hold_requests(patch, client, method, then)
        try:
            with pytest.raises(KeyboardInterrupt):
                on_cluster(WittenBellLM(), n_shards=3).fit(sentences(40))
        finally:
            held.let_go()
    assert results_of_the_user(client) == [0, 1, 2]
    until(lambda: gc.collect() >= 0 and not stored(client) - before)
    on_cluster(WittenBellLM(), n_shards=3).fit(["a b", "b a"])


def test_many_results_and_a_busy_loop(client, monkeypatch):
    """The event loop of the client has much else to do, as on a busy machine."""

    monkeypatch.setattr(_client, "PATIENCE", 0.003)
    futures = client.map(abs, range(300), pure=False)
    over = threading.Event()

    def work():
        if not over.is_set():
            time.sleep(0.004)
            client.loop.call_later(0.001, work)

    client.loop.add_callback(work)
    try:
        for _ in range(3):
            on_cluster(WittenBellLM(), n_shards=3).fit(sentences(40))
    finally:
        over.set()
    assert client.gather(futures) == list(range(300))
    assert results_of_the_user(client) == [0, 1, 2]


def test_a_client_that_is_broken_already(client):
    """By a time-out of the user's own; the error says what to do."""
    held = HeldRequests(client)
    held.hold()

    async def wait():
        await client.submit(abs, -1, pure=False)

    waits = asyncio.run_coroutine_threadsafe(wait(), client.loop.asyncio_loop)
    until(held.waiting)
    waits.cancel()  # as a time-out does
    until(lambda: client._gather_future.cancelled())
    held.let_go()
    with pytest.raises(RuntimeError, match=r"client: .* make a new distributed.Client"):
        on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"])


def test_partitions_that_are_empty(client):
    text = sentences(80)
    halves = [text[:30], text[30:]]
    for estimator, exact in MODELS[:4]:
        one = LanguageModel(estimator, max_depth=3).fit(text)
        model = on_cluster(estimator, max_depth=3, n_shards=3)
        for parts in (
            [text],  # fewer than there are workers and shards
            [[], halves[0], [], [], halves[1], []],
        ):
            X = bag.from_delayed([dask.delayed(part) for part in parts])
            same_model(one, model.fit(X), exact)
        with pytest.raises(ValueError, match="X is empty"):
            model.fit(bag.from_delayed([dask.delayed([]), dask.delayed([])]))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("max_depth", [1, 2, 3])
@pytest.mark.parametrize(
    "estimator, exact",
    [MODELS[0], MODELS[2], (mixed(), False)],
    ids=["KN", "l2", "mix"],
)
def test_an_empty_part_anywhere(client, estimator, exact, max_depth):
    text = [s for s in sentences(60) if s]
    one = LanguageModel(estimator, max_depth=max_depth).fit(text)
    test = sentences(20, seed=1)
    want = one.perplexity(test)
    model = on_cluster(estimator, max_depth=max_depth, n_shards=2)
    for at in range(3):
        parts = [text[:20], text[20:]]
        parts.insert(at, [])
        model.fit(bag.from_delayed([dask.delayed(part) for part in parts]))
        if exact:
            same_model(one, model, exact)
        assert model.compute().perplexity(test) == pytest.approx(want, rel=1e-8)


@pytest.mark.parametrize("max_depth", [1, 2])
def test_fewer_sentences_than_threads(client, max_depth, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a b a\n")
    model = on_cluster(WittenBellLM(), max_depth=max_depth, n_shards=2)
    one = LanguageModel(WittenBellLM(), max_depth=max_depth).fit(["a b a"])
    for X in (["a b a"], TextFile(path), bag.read_text(str(path), blocksize=2)):
        same_model(one, model.fit(X), exact=True)


def test_errors_of_the_client_reach_the_caller(client, monkeypatch):
    from sklstruct.distributed._driver import ShardDriver

    def broken(driver):
        driver._actors[0] = object()  # without the methods of an actor

    Chaos(monkeypatch, 1, broken)
    with pytest.raises(AttributeError, match="do"):
        on_cluster(KneserNeyLM(discount=0.5), n_shards=2).fit(["a b", "b a"])
    monkeypatch.undo()

    def refuse(*_):
        raise ValueError("odd")

    monkeypatch.setattr(client, "nthreads", lambda: {"there": 1})
    monkeypatch.setattr(ShardDriver, "_place", refuse)
    with pytest.raises(ValueError, match="odd"):
        on_cluster(KneserNeyLM(discount=0.5), n_shards=2).fit(["a b", "b a"])


# ------------------------------------------------------------- files of all shards


@pytest.fixture
def saved(tmp_path):
    """The bytes of the file of a model."""

    def saved(model, name="model.arpa", **options):
        model.save(tmp_path / name, **options)
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        assert not list(tmp_path.iterdir())  # nothing else is left in the folder
        return data

    return saved


@pytest.fixture
def small_pieces(monkeypatch):
    """Many pieces of weights, of lines, of copies, of hashes and of tables."""
    from sklstruct.exchange import _arpa_shards, _container, _probing, _trie

    monkeypatch.setattr(_arpa_shards, "_MOST_WEIGHTS", 23)
    monkeypatch.setattr(_arpa_shards, "_MOST_LINES", 17)
    monkeypatch.setattr(_arpa_shards, "_COPIED", 100)
    monkeypatch.setattr(_container, "BLOCK", 1 << 10)
    monkeypatch.setattr(_probing, "_PART", 250)
    monkeypatch.setattr(_probing, "_WINDOW", 2)
    monkeypatch.setattr(_trie, "_PART", 5000)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "n_shards, estimator, exact",
    [(5, *model) for model in MODELS]
    + [(1, *MODELS[0]), (30, *MODELS[0]), (30, *MODELS[-1])],
    ids=str,
)
def test_files_from_the_workers(
    client, estimator, exact, n_shards, saved, small_pieces
):
    """The files of the computed model, byte by byte."""
    text = with_one_word(150)
    model = on_cluster(estimator, max_depth=3, n_shards=n_shards, min_count=2).fit(text)
    if exact and n_shards == 30:
        assert longest_prefix(model) == 3
    files = [
        ("model.arpa", {}), ("model.arpa", {"precision": 15}), ("model.arpa.gz", {}),
        ("model.sklm", {}), ("model.sklm", {"dtype": "float32"}),
        ("model.bin", {}), ("model.bin", {"multiplier": 1.001}),
        ("model.trie", {}), ("model.trie", {"prob_bits": 5, "pointer_bits": 9}),
    ]  # fmt: skip
    got = [saved(model, name, **options) for name, options in files]
    assert not hasattr(model, "model_")
    lm = model.compute()
    want = [saved(lm, name, **options) for name, options in files]
    assert gzip.decompress(got.pop(2)) == gzip.decompress(want.pop(2)) == want[0]
    assert got == want
    assert len(got[0].splitlines()) > 400
    if exact:
        one = LanguageModel(estimator, max_depth=3, min_count=2).fit(text)
        assert got[0] == saved(one)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "params",
    [
        {"max_depth": 1},
        {"start": None},
        {"end": None, "unknown": None},
        {"vocabulary": ["w1", "w2", "never"]},
        {"n_shards": 20, "max_depth": 5, "max_vocabulary": 12},
    ],
    ids=str,
)
def test_files_of_other_vocabularies(client, params, saved):
    """Also with more shards than words."""
    params = {"max_depth": 2, "n_shards": 3} | params
    model = on_cluster(WittenBellLM(), **params).fit(sentences(40))
    files = "model.arpa", "model.sklm", "model.bin", "model.trie"
    got = [saved(model, name) for name in files]
    lm = model.compute()
    assert got == [saved(lm, name) for name in files]


@pytest.mark.parametrize("suffix", ["bz2", "xz", "gz"])
def test_packed_files_from_the_workers(client, suffix, tmp_path):
    model = on_cluster(WittenBellLM(), n_shards=3).fit(sentences(60))
    path = tmp_path / f"model.arpa.{suffix}"
    model.save(path)
    lm = model.compute()
    again = LanguageModel.load(path)
    text = sentences(30, seed=1)
    np.testing.assert_allclose(
        again.score_samples(text), lm.score_samples(text), rtol=1e-6
    )


def test_a_model_on_its_workers(client, tmp_path):
    before = stored(client)
    text = sentences(60)
    model = on_cluster(WittenBellLM(), n_shards=2).fit(text)
    assert stored(client) - before
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(model)
    with pytest.raises(ValueError, match="precision must be an integer from 1 to 15"):
        model.save(tmp_path / "bad.arpa", precision=16)
    with pytest.raises(ValueError, match="dtype must be one of float64, float32, got "):
        model.save(tmp_path / "bad.sklm", dtype="int8")
    for name in ("model.sklm.gz", "model.bin.xz"):
        with pytest.raises(ValueError, match=f"{name}'.* leave the suffix out"):
            model.save(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "model.arpa")
    with pytest.raises(ValueError, match="format must not be 'att' while the model is"):
        model.save(tmp_path / "model.att")
    with pytest.raises(ValueError, match="backoff_bits needs prob_bits"):
        model.save(tmp_path / "model.trie", backoff_bits=8)
    with pytest.raises(ValueError, match="multiplier must be a number in .1, 100."):
        model.save(tmp_path / "model.bin", multiplier=1)
    with pytest.raises(ValueError, match="path must be a path"):
        model.save(io.BytesIO())
    with pytest.raises(ValueError, match="must be a regular file"):
        model.save("/dev/null", format="arpa")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "model.sklm")
    again = LanguageModel.load(tmp_path / "model.sklm")
    one = LanguageModel(WittenBellLM()).fit(text)
    np.testing.assert_array_equal(again.score_samples(text), one.score_samples(text))
    lm = model.compute()
    same_model(lm, one, exact=True)
    assert lm is model.compute() is model.model_
    model.fit(text)
    assert not hasattr(model, "model_")
    del model
    until(lambda: gc.collect() >= 0 and not stored(client) - before)


@pytest.mark.parametrize("shard, begun", [(0, False), (1, True)])
@pytest.mark.parametrize(
    "name, step",
    [("model.arpa", step) for step in ("give", "write", "put")]
    + [("model.bin", step) for step in ("give", "write", "fill")]
    + [("model.trie", step) for step in ("sample", "write", "fill")]
    + [("model.sklm", step) for step in ("sizes", "put", "hashes")],
)
def test_files_while_a_shard_is_lost(
    client, monkeypatch, shard, name, step, begun, saved
):
    """Before the step, or when the step has been done and no answer has come."""
    from sklstruct.distributed._driver import ShardDriver

    model = on_cluster(WittenBellLM(), max_depth=3, n_shards=3).fit(sentences(60))
    want = saved(model, name)
    begin, seen = ShardDriver.begin, []

    class Never:
        def result(self, timeout):
            raise OSError("gone")

    def losing(driver, k, *question):
        lost = k == shard and step in question and not seen
        if lost:
            seen.append(k)
            if not begun:
                driver._actors[shard] = None
        call = begin(driver, k, *question)
        if lost and begun:
            call.answer.result(timeout=HANGS)
            call = call._replace(answer=Never())
        return call

    monkeypatch.setattr(ShardDriver, "begin", losing)
    assert saved(model, name) == want
    assert seen == [shard]
    assert model._remote.driver.n_losses == 1


def test_a_cluster_that_is_gone_has_no_model(saved):
    with local_client(1) as client:
        model = on_cluster(WittenBellLM(), client=client, n_shards=2)
        model.fit(["a b", "b a"])
    for use in (model.compute, lambda: saved(model)):
        with pytest.raises(SchedulerLost, match="the scheduler of the cluster is gone"):
            use()


@pytest.mark.parametrize("name", ["model.arpa", "model.sklm", "model.bin"])
def test_a_file_that_fails_leaves_the_old_one(client, tmp_path, monkeypatch, name):
    """A worker's disk is full, or it does not see the folder."""
    from sklstruct.distributed import _tasks
    from sklstruct.exchange import _arpa_shards, _kenlm_shards, _native_shards

    path = tmp_path / name
    path.write_text("old")
    model = on_cluster(WittenBellLM(), n_shards=2).fit(["a b"])

    def full(*_):
        raise OSError(28, "No space left on device")

    for broken in (
        (_arpa_shards.ArpaPlan, "put", full),
        (_native_shards.NativeShard, "put", full),
        (_kenlm_shards.KenlmPlan, "on_file", full),
    ):
        monkeypatch.setattr(*broken)
    with pytest.raises(OSError, match="No space left") as caught:
        model.save(path)
    assert "On the worker of a shard" in caught.value.__notes__[0]
    monkeypatch.setattr(_tasks, "PLAN", "elsewhere")
    with pytest.raises(FileNotFoundError) as caught:
        model.save(path)
    assert "all workers see under the same name" in str(caught.value.__notes__)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [name]
    monkeypatch.undo()
    model.save(path)
    written = path.read_bytes()
    model.compute().save(path)
    assert path.read_bytes() == written


# ------------------------------------------------------------------- checkpoints


class Halt(Exception):
    pass


def halt(driver):
    raise Halt


@pytest.mark.parametrize("name", ["l2", "tree_l2"])
def test_a_fit_goes_on_from_its_checkpoint(client, tmp_path, name):
    text = sentences()
    estimator = loglinear(penalty=name, lam=0.3, alpha=0.9, tol=1e-3)
    model = on_cluster(estimator, max_depth=3, n_shards=3)
    want = model.fit(text).compute().estimator_
    path = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    model.set_params(model__estimator__checkpoint=path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Halt):
        before = Chaos(patch, 60, halt)
        model.fit(text)
    with pytest.MonkeyPatch.context() as patch:
        after = Chaos(patch, -1, None)
        got = model.fit(text).compute().estimator_
    # At most the iteration that was under way is computed again.
    assert before.reports[-1] > 1
    assert after.reports[0] in (before.reports[-1], before.reports[-1] + 1)
    np.testing.assert_array_equal(got.coef_, want.coef_)
    np.testing.assert_array_equal(got.objective_, want.objective_)


def test_checkpoints_of_other_fits_are_refused(client, tmp_path):
    text = sentences(60)
    path = tmp_path / "fit.ckpt"
    estimator = StructuredLogLinearLM(
        penalty="l2", lam=0.3, checkpoint=Checkpoint(path, interval=0)
    )
    model = on_cluster(estimator, max_depth=2, n_shards=2).fit(text)
    again, lm = clone(model).fit(text).compute(), model.compute()
    np.testing.assert_array_equal(again.estimator_.coef_, lm.estimator_.coef_)
    with pytest.raises(ValueError, match="another fit .n_shards: 2 there, 3 here"):
        clone(model).set_params(n_shards=3).fit(text)
    with pytest.raises(ValueError, match="checkpoint: .* belongs to another fit .lam"):
        clone(model).set_params(model__estimator__lam=0.4).fit(text)
    with pytest.raises(
        ValueError, match=r"belongs to another fit \(cont|belongs to an"
    ):
        clone(model).fit(text[:-9])
    remedy = f"^checkpoint: '{path}' belongs .*, or remove this one to fit anew\n"
    with pytest.raises(ValueError, match=remedy):
        clone(model).set_params(model__estimator__lam=0.4).fit(text)
    states = list(tmp_path.glob("fit.ckpt.shard1.*"))
    for state in states:
        state.write_bytes(b"x")
    with pytest.raises(ValueError, match=f"shard1.*remove '{path}' to fit anew"):
        clone(model).fit(text)
    for state in states:
        state.unlink()
    with pytest.raises(FileNotFoundError, match="the state of a shard is gone") as info:
        clone(model).fit(text)
    assert f"remove '{path}' to fit anew" in str(info.value)
    path.write_bytes(b"\x00 not json")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        clone(model).fit(text)


def test_a_short_fit_leaves_its_checkpoint(client, tmp_path):
    text, path = sentences(60), tmp_path / "fit.ckpt"
    estimator = StructuredLogLinearLM(penalty="l2", lam=0.3, checkpoint=path)
    model = on_cluster(estimator, n_shards=2).fit(text)  # once a minute
    with pytest.raises(ValueError, match="belongs to another fit"):
        clone(model).fit(text[:-9])
    path.unlink()
    clone(model).fit(text[:-9])


# ------------------------------------------------------------------ refusals


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_counts_choose_from_a_given_vocabulary(client):
    text = sentences()
    words = [f"w{i}" for i in range(40)] + ["never"]
    rules = {"max_depth": 2, "vocabulary": words, "max_vocabulary": 20}
    one = LanguageModel(WittenBellLM(), **rules).fit(text)
    many = on_cluster(WittenBellLM(), n_shards=3, **rules).fit(text).compute()
    assert many.vocabulary_.tolist() == one.vocabulary_.tolist()
    assert one.vocabulary_.size == 22
    assert many.perplexity(text) == pytest.approx(one.perplexity(text), rel=1e-9)


def test_refusals_name_the_parameter_and_the_remedy(client):
    text = ["a b", "b a"]
    model = on_cluster(WittenBellLM(), n_shards=2)
    with pytest.raises(
        TypeError, match=r"^X must be a bag.* got a Delayed.*pass \[X\]"
    ):
        model.fit(dask.delayed(list)(text))
    for last, error in [(["b", None], ValueError), (3, TypeError)]:
        X = bag.from_sequence([["a"], ["b"], ["a"], last], npartitions=2)
        with pytest.raises(error, match="^X: partition 1[,:] sentence 1 "):
            model.fit(X)
    with pytest.raises(
        ValueError, match="occurs in partition 1, sentence 0; the model"
    ):
        model.fit(bag.from_sequence(["a", "b </s>"], npartitions=2))
    with pytest.raises(ValueError, match="^path must be a path while .* compute()"):
        model.fit(text).save(io.BytesIO())
    with pytest.raises(ValueError, match="^client='nowhere' must be the address of a"):
        on_cluster(client="nowhere").fit(text)
    with new_client(client.cluster) as closed:
        pass
    with pytest.raises(
        SchedulerLost, match="^client: .* or the client is closed; make"
    ):
        on_cluster(client=closed).fit(text)


def test_refusals(client, tmp_path):
    text = ["a b", "b a"]
    with pytest.raises(TypeError, match="estimator: AdditiveLM cannot be fitted on"):
        on_cluster(AdditiveLM()).fit(text)
    with pytest.raises(TypeError, match="estimator: Pipeline cannot be fitted on the"):
        on_cluster(make_pipeline(SuffixTreeVectorizer(), StructuredLogLinearLM())).fit(
            text
        )
    with pytest.raises(TypeError, match="client must be a distributed.Client"):
        on_cluster(client=3).fit(text)
    with pytest.raises(ValueError, match="^model: checkpoint of the LanguageModel is"):
        on_cluster("fast", checkpoint=tmp_path / "fit.ckpt").fit(text)
    with pytest.raises(ValueError, match="'model' parameter of DaskLanguageModel must"):
        DaskLanguageModel(WittenBellLM()).fit(text)
    with pytest.raises(ValueError, match="X is empty"):
        on_cluster(WittenBellLM()).fit([])
    with pytest.raises(ValueError, match="the end mark '</s>' occurs in sentence 3"):
        on_cluster(WittenBellLM(), n_shards=2).fit(["a"] * 3 + ["b </s>"] * 9)
    with pytest.raises(ValueError, match="sentence 1 holds the missing value None"):
        on_cluster(WittenBellLM()).fit([["a"], ["b", None]])
    with pytest.raises(ValueError, match="word 'b' of sentence 0 is not in the vocab"):
        on_cluster(WittenBellLM(), vocabulary=["a"], unknown=None).fit(text)
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written"):
        on_cluster(StructuredLogLinearLM(checkpoint=tmp_path / "no" / "fit.ckpt")).fit(
            text
        )
    with pytest.raises(ValueError, match="alpha"):
        on_cluster(StructuredLogLinearLM(alpha=[1.0, 1.0])).fit(text)
    with pytest.raises(ValueError, match="^gap_tol is not possible on the shards"):
        on_cluster(loglinear(gap_tol=0.1)).fit(text)
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"a b\n\xff\n")
    with pytest.raises(ValueError, match="bad.txt, line 2: invalid UTF-8"):
        on_cluster(WittenBellLM()).fit(TextFile(bad))


def test_no_client():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "get_client", raise_no_client)
        with pytest.raises(ValueError, match="client: a Dask client was not found"):
            on_cluster().fit(["a"])


def raise_no_client(*_, **__):
    raise ValueError("no client")


def test_workers_with_other_versions(client, monkeypatch):
    from sklstruct.distributed import _cluster

    own = _cluster.tasks.versions()
    monkeypatch.setattr(
        client, "run", lambda _: {"tcp://there:1": {**own, "sklstruct": "0.0.1"}}
    )
    with pytest.raises(
        RuntimeError, match="worker tcp://there:1 has sklstruct 0.0.1, but the client"
    ):
        on_cluster(WittenBellLM()).fit(["a"])

    for error in (
        ModuleNotFoundError("No module named 'sklstruct'"),
        AttributeError("Can't get attribute 'versions'"),
    ):

        def missing(_, error=error):
            raise error

        monkeypatch.setattr(client, "run", missing)
        with pytest.raises(RuntimeError, match="a worker cannot import sklstruct"):
            on_cluster(WittenBellLM()).fit(["a"])
    # A worker that comes later is asked again.
    monkeypatch.setattr(client, "run", lambda _: {})
    tokens = np.array([-1, 0, 1], np.int32)
    counted = count_text(tokens, Labels.of_ids(2, 2), 1)
    with pytest.raises(RuntimeError, match="a worker has sklstruct"):
        _cluster.tasks.ShardFit(
            counted, [], WittenBellLM(), 0, ((), (2,)), None,
            {**own, "sklstruct": "9"}, 0.0,
        )  # fmt: skip


def test_a_worker_that_is_lost_while_it_is_asked_for_its_versions(client, monkeypatch):
    run, asked = client.run, []

    def losing(function):
        asked.append(function)
        if len(asked) < 3:
            raise distributed.comm.CommClosedError("stream is closed")
        return run(function)

    monkeypatch.setattr(client, "run", losing)
    on_cluster(WittenBellLM(), n_shards=2).fit(["a b", "b a"])
    assert len(asked) == 3


@pytest.mark.parametrize("method", ["read_part", "ShardFit"])
def test_workers_that_are_paused(monkeypatch, method):
    """As Dask does where memory is short: what is not begun then waits."""

    monkeypatch.setattr(_client, "PATIENCE", 0.05)
    monkeypatch.setattr(_client, "PAUSED", 0.3)
    with local_client(n_workers=1, memory_limit=0) as client:
        submit = client.submit

        def set_status(status):  # in the event loop of the worker, as Dask does
            client.run(lambda dask_worker: setattr(dask_worker, "status", status))

        def pausing(function, *arguments, **options):
            if function.__name__ == method:
                set_status(distributed.Status.paused)
                until(lambda: "paused" in str(client.scheduler_info()))
            return submit(function, *arguments, **options)

        monkeypatch.setattr(client, "submit", pausing)
        model = on_cluster(WittenBellLM(), n_shards=2, client=client)
        with pytest.raises(RuntimeError, match="all workers have been paused for"):
            model.fit(["a b", "b a"])
        set_status(distributed.Status.running)
        until(lambda: "paused" not in str(client.scheduler_info()))
        monkeypatch.setattr(client, "submit", submit)
        model.fit(["a b", "b a"])


def test_workers_that_are_paused_as_their_disk_is_full(monkeypatch, tmp_path):
    monkeypatch.setattr(_client, "PATIENCE", 0.05)
    monkeypatch.setattr(_client, "PAUSED_BY_DISK", 0.3)
    with local_client(n_workers=1, memory_limit=0) as client:
        submit, free = client.submit, [1 << 40]
        usage = lambda folder: SimpleNamespace(free=free[0])  # noqa: E731
        monkeypatch.setattr(_client.shutil, "disk_usage", usage)

        def pausing(function, *arguments, **options):
            if function.__name__ == "read_part":
                client.run(
                    lambda dask_worker: setattr(
                        dask_worker, "status", distributed.Status.paused
                    )
                )
                until(lambda: "paused" in str(client.scheduler_info()))
                threading.Timer(2.0, free.__setitem__, (0, 7)).start()
            return submit(function, *arguments, **options)

        monkeypatch.setattr(client, "submit", pausing)
        with pytest.raises(
            RuntimeError, match=r"the disk to which worker .* is full: 7 bytes are free"
        ):
            on_cluster(WittenBellLM(), n_shards=2, client=client).fit(["a b", "b a"])


def test_parts_are_cut_to_the_memory_of_the_workers(tmp_path):
    from sklstruct.distributed._parts import text_parts

    path = tmp_path / "text.txt"
    path.write_text("a b c d e f g h\n" * 300_000)  # 4.8 MB
    limits = {"x": (8e9, 1), "y": (0, 1)}

    def info(n_workers):
        return {
            "workers": {
                name: {"memory_limit": limit, "nthreads": n}
                for name, (limit, n) in limits.items()
            }
        }

    client = SimpleNamespace(scheduler_info=info, nthreads=lambda: {"x": 1, "y": 1})

    def sizes(**settings):
        text = TextFile(path, **settings)
        parts, memory = text_parts(text, client, "word")
        assert sum(len(list(part)) for part in parts()) == 300_000
        return len(parts()), memory

    assert sizes() == (2, (8e9 - 250e6) / 4)
    limits["x"] = 254e6, 1
    n, memory = sizes()
    assert memory == 1e6 and n == 10
    assert sizes(memory=10**5) == (74, 10**5)
    limits["x"] = 254e6, 4
    n, memory = sizes()
    assert memory == 250e3 and n == 40
    limits["x"] = 1e6, 1
    n, memory = sizes()
    assert memory == 0 and n <= 4.8e6 / 2**16 + 2


def test_a_part_in_another_encoding(client, tmp_path):
    (tmp_path / "0.txt").write_text("a b\n")
    (tmp_path / "1.txt").write_bytes("caf\xe9 b\n".encode("latin-1"))
    text = bag.read_text(str(tmp_path / "*.txt"))
    with pytest.raises(
        ValueError,
        match=r"X: partition 1 is not utf-8: b'\\xe9' after b'caf'.*encoding=",
    ):
        on_cluster(WittenBellLM(), n_shards=2).fit(text)
    right = bag.read_text(str(tmp_path / "*.txt"), encoding="latin-1")
    on_cluster(WittenBellLM(), n_shards=2).fit(right)


@pytest.mark.parametrize("method", ["read_part", "ShardFit"])
def test_workers_that_do_not_come_back(monkeypatch, method):

    monkeypatch.setattr(_client, "PATIENCE", 0.05)
    monkeypatch.setattr(_client, "WORKERS_BACK", 0.3)
    with local_client(n_workers=1) as client:
        submit = client.submit

        def losing(function, *arguments, **options):
            if function.__name__ == method:
                client.cluster.scale(0)
                until(lambda: not client.nthreads())
            return submit(function, *arguments, **options)

        monkeypatch.setattr(client, "submit", losing)
        model = on_cluster(WittenBellLM(), n_shards=2, client=client)
        with pytest.raises(RuntimeError, match="the cluster has had no worker for"):
            model.fit(["a b", "b a"])


def fit_inside():
    on_cluster(WittenBellLM()).fit(["a"])


def test_fits_inside_a_task_are_refused(client):
    with pytest.raises(RuntimeError, match="client: a task of a cluster cannot train"):
        client.submit(fit_inside, pure=False).result()


def shard_threads():
    return [t for t in threading.enumerate() if t.name == "sklstruct-shard"]


def stored(client):
    return {key for keys in client.has_what().values() for key in keys}


def test_nothing_is_left_on_the_workers(client, monkeypatch):
    model = on_cluster(StructuredLogLinearLM(), max_depth=2, n_shards=3)
    before = stored(client)
    Chaos(monkeypatch, 9, lose_actor)
    model.fit(sentences(50))
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Halt):
        Chaos(patch, 9, halt)
        model.fit(sentences(50))
    until(lambda: gc.collect() >= 0 and not shard_threads())
    until(lambda: gc.collect() >= 0 and not stored(client) - before)


def test_dask_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'sklstruct\[distributed\]'"):
        on_cluster().fit(["a"])


def test_a_client_by_its_address(client):
    model = on_cluster(WittenBellLM(), client=client.scheduler.address)
    model.fit(["a b", "b a"]).compute()
    assert clone(model).client == client.scheduler.address
    assert pickle.loads(pickle.dumps(model)).client == client.scheduler.address


def test_dask_knows_how_large_counts_are():
    """The scheduler moves and spills by it."""
    from dask.sizeof import sizeof

    tokens = np.arange(-1, 999, dtype=np.int32)
    counted = count_text(tokens, Labels.of_ids(999, 999), 3)
    size = len(pickle.dumps(counted, protocol=5))
    assert 0.8 * size < sizeof(counted) < 1.2 * size


def test_clones_share_the_client_and_pickles_lack_it(client, saved):
    model = on_cluster(WittenBellLM(), client=client, n_shards=2)
    assert clone(model).client is client
    model.fit(["a b", "b a"])
    lm = model.compute()
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    assert again.compute().perplexity(["a b"]) == lm.perplexity(["a b"])
    assert len(pickle.dumps(model)) < 20_000
    assert saved(model).startswith(b"\\data\\")


# --------------------------------------------------------- joblib on the cluster


def test_searches_on_the_cluster(client):
    """Whole fits on the workers: the same answers as here."""
    text = sentences(120)
    search = GridSearchCV(
        LanguageModel(StructuredLogLinearLM(penalty="l2"), max_depth=2),
        {"estimator__lam": [0.1, 1.0]},
        cv=2,
    )
    here = clone(search).fit(text)
    with joblib.parallel_config("dask"):
        there = clone(search).fit(text)
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(there.cv_results_[name], here.cv_results_[name])
    assert there.best_params_ == here.best_params_


def test_node_models_on_the_cluster(client):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    here = HierarchicalClassifier(random_state=0).fit(X, y)
    with joblib.parallel_config("dask", n_jobs=2):
        there = HierarchicalClassifier(random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(there.predict_proba(X), here.predict_proba(X))


def test_scoring_on_the_cluster(client):
    text = sentences(200)
    model = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(text)
    here = model.score_samples(text)
    with joblib.parallel_config("dask"):
        there = joblib.Parallel()(
            joblib.delayed(model.score_samples)(text[a : a + 50])
            for a in range(0, 200, 50)
        )
    np.testing.assert_allclose(np.concatenate(there), here, rtol=1e-12)


# ------------------------------------------------------------- real processes


def kill_a_worker(driver):
    """SIGKILL the process of a shard."""
    pid = driver.client.run(os.getpid, workers=[driver._addresses[1]])
    os.kill(pid[driver._addresses[1]], signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_process_that_is_killed(monkeypatch):
    text = sentences()
    estimator = StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9)
    with local_client(processes=True) as client:
        model = on_cluster(estimator, max_depth=3, client=client, n_shards=2)
        want = model.fit(text).compute().estimator_
        one = LanguageModel(estimator, max_depth=3).fit(text)
        same_model(one, model, exact=False)
        Chaos(monkeypatch, 40, kill_a_worker)
        got = model.fit(text).compute().estimator_
        assert model.n_lost_shards_ >= 1
        np.testing.assert_array_equal(got.coef_, want.coef_)


@pytest.mark.slow
@pytest.mark.parametrize("name, step", [("model.arpa", "write"), ("model.sklm", "put")])
def test_a_worker_process_that_is_killed_while_it_writes(
    tmp_path, monkeypatch, name, step
):
    from sklstruct.distributed._driver import ShardDriver

    path, begin, seen = tmp_path / name, ShardDriver.begin, []

    def killing(driver, k, *question):
        call = begin(driver, k, *question)
        if k == 1 and step in question and not seen:
            seen.append(k)
            kill_a_worker(driver)
        return call

    monkeypatch.setattr(ShardDriver, "begin", killing)
    with local_client(processes=True) as client:
        model = on_cluster(WittenBellLM(), max_depth=3, client=client, n_shards=2)
        model.fit(sentences()).save(path)
        assert model._remote.driver.n_losses >= 1
    one = LanguageModel(WittenBellLM(), max_depth=3).fit(sentences())
    one.save(tmp_path / f"one-{name}")
    assert filecmp.cmp(path, tmp_path / f"one-{name}", shallow=False)


@pytest.mark.slow
def test_wikitext_on_two_processes(tmp_path):
    """A model of counts is equal bit by bit, and its file; an objective to 1e-8."""
    text = wikitext("train")
    l2 = StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.7)
    with local_client(processes=True) as client:
        counted = on_cluster(KneserNeyLM(), client=client)
        counted.fit(text).save(tmp_path / "shards.arpa")
        counted.compute()
        many = on_cluster(l2, client=client).fit(text).compute()
    one = LanguageModel(KneserNeyLM()).fit(text)
    same_model(one, counted, exact=True)
    one.save(tmp_path / "one.arpa")
    assert filecmp.cmp(tmp_path / "shards.arpa", tmp_path / "one.arpa", shallow=False)
    one = LanguageModel(l2).fit(text)
    np.testing.assert_allclose(
        many.estimator_.objective_, one.estimator_.objective_, rtol=1e-8
    )
    same_model(one, many, exact=False)


CLUSTER = """
import sys, distributed
with distributed.LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0",
    protocol="tcp",
) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()  # until the test ends
"""


@pytest.mark.slow
def test_a_scheduler_that_is_killed(tmp_path):
    text = sentences()
    estimator = StructuredLogLinearLM(
        penalty="tree_l2", lam=0.5, alpha=0.9,
        checkpoint=Checkpoint(tmp_path / "fit.ckpt", interval=0),
    )  # fmt: skip
    want = StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9)
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
        started.append(process)
        return process.stdout.readline().strip()

    # How long a client tries to find its scheduler again.
    with dask.config.set({"distributed.comm.timeouts.connect": "15s"}):
        try:
            address = start()
            with distributed.Client(address, set_as_default=False) as client:
                model = on_cluster(want, max_depth=3, client=client, n_shards=2).fit(
                    text
                )
                want = model.compute().estimator_
                model.set_params(model__estimator=estimator)
                with pytest.MonkeyPatch.context() as patch:
                    before = Chaos(patch, 60, lambda _: started[0].kill())
                    with pytest.raises(SchedulerLost, match="continues from"):
                        model.fit(text)
            address = start()
            with (
                distributed.Client(address, set_as_default=False) as client,
                pytest.MonkeyPatch.context() as patch,
            ):
                after = Chaos(patch, -1, None)
                got = model.set_params(client=client).fit(text).compute().estimator_
        finally:
            for process in started:
                process.kill()
                process.communicate()
    assert after.reports[0] in (before.reports[-1], before.reports[-1] + 1)
    np.testing.assert_array_equal(got.coef_, want.coef_)
