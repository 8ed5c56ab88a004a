"""Mixtures, pipelines and min_count on a cluster: the model of one process."""

import os
import pickle
import random
import signal
import warnings

import numpy as np
import pytest
from _clusters import local_client, on_cluster
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.context_tree import HistoryColumns
from sklstruct.distributed._cluster import Cluster
from sklstruct.distributed._driver import ShardDriver
from sklstruct.distributed._row_tasks import (
    PartSlice,
    count_shard,
    last_tokens,
    rows_of_part,
)
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import AdditiveLM, WittenBellLM
from sklstruct.symbols import Labels, SentenceEncoder, TextFile, number_sentences
from sklstruct.word_classes import (
    ContextRefiner,
    ExchangeClustering,
    TaxonomyClustering,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
bag = pytest.importorskip("dask.bag")

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:KneserNeyLM. counts of counts"),
]

PATH = "c5(1) c11(1) w(1) c5(2) w(2) w(3)"
L2 = StructuredLogLinearLM(penalty="l2", lam=0.3, alpha=0.88, min_count=2)


def sentences(n=400, seed=0):
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        x, sentence = rng.randrange(60), []
        for _ in range(rng.randrange(12)):
            x = (x * 7 + rng.choice([1, 1, 2, 5])) % 60
            sentence.append(f"w{x}")
        out.append(" ".join(sentence))
    return out


def refined(path=PATH, model=L2):
    return make_pipeline(ContextRefiner(path), model)


def mixture(weights="logistic", **params):
    models = [("refined", refined()), ("kn", KneserNeyLM())]
    return MixtureLM(models, weights=weights, **params)


def same_tree(a, b):
    """Back-off models over the same contexts."""
    assert a.pairs == b.pairs
    assert a.labels == b.labels
    np.testing.assert_allclose(b.log_prob, a.log_prob, atol=1e-8)
    np.testing.assert_allclose(b.log_backoff, a.log_backoff, atol=1e-8)
    assert (a.node_weight is None) == (b.node_weight is None)
    if a.node_weight is not None:
        np.testing.assert_array_equal(a.node_weight, b.node_weight)


def same_classes(a, b):
    """Refiners with the same words and classes."""
    np.testing.assert_array_equal(a.symbols_, b.symbols_)
    assert (a.path_, a.n_symbols_) == (b.path_, b.n_symbols_)
    assert a.n_features_in_ == b.n_features_in_
    assert len(a.clusterings_) == len(b.clusterings_)
    for x, y in zip(a.clusterings_, b.clusterings_):
        np.testing.assert_array_equal(x.symbols_, y.symbols_)
        np.testing.assert_array_equal(x.labels_, y.labels_)
        assert (x.objective_, x.n_iter_) == (y.objective_, y.n_iter_)


def same_mixture(one, many):
    many = many.compute()
    a, b = one.estimator_, many.estimator_
    assert many.vocabulary_.tolist() == one.vocabulary_.tolist()
    for x, y in zip(a.distribution_.models, b.distribution_.models):
        same_tree(x, y)
    for x, y in zip(a.part_.parts, b.part_.parts):
        np.testing.assert_array_equal(x.reader.symbols, y.reader.symbols)
        assert len(x.reader.steps) == len(y.reader.steps)
        for step, other in zip(x.reader.steps, y.reader.steps):
            same_classes(step, other)
    test = sentences(20, seed=1)
    assert many.perplexity(test) == pytest.approx(one.perplexity(test), rel=1e-9)
    windows = np.array([[5, -1, 62, 3], [1, 2, 3, 4]])[:, -one.max_depth :]
    np.testing.assert_allclose(
        a.predict_weights(windows), b.predict_weights(windows), atol=1e-7
    )


@pytest.mark.parametrize("n_shards", [1, 3, 9])
@pytest.mark.parametrize("held_out", [False, True])
def test_a_mixture_is_that_of_one_process(client, n_shards, held_out):
    text = sentences()
    options = {"X_val": sentences(60, seed=2)} if held_out else {}
    one = LanguageModel(mixture(), max_depth=3, min_count=2).fit(text, **options)
    many = on_cluster(mixture(), max_depth=3, min_count=2, n_shards=n_shards)
    same_mixture(one, many.fit(text, **options))
    # Two models, fitted without the held-out samples and again.
    assert len(many.shard_sizes_) == n_shards * (2 if held_out else 4)
    assert many.n_exchanges_ > 10 and many.n_bytes_exchanged_ > 0
    assert many.n_lost_shards_ == 0
    again = pickle.loads(pickle.dumps(many)).model_
    assert again.perplexity(text[:9]) == many.model_.perplexity(text[:9])


@pytest.mark.parametrize("weights", ["em", "by_depth", "by_count", [1.0, 3.0]])
def test_every_gate(client, weights):
    text = sentences()
    for refit in (False, True):
        estimator = mixture(weights, refit=refit)
        one = LanguageModel(estimator, max_depth=3).fit(text)
        same_mixture(one, on_cluster(estimator, max_depth=3).fit(text))


def test_a_gate_over_models_without_rare_ngrams(client):
    """The training weights of the contexts that stay."""
    text = sentences()
    models = [("kn", KneserNeyLM(min_count=[1, 2, 3])), ("wb", WittenBellLM())]
    estimator = MixtureLM(models, weights="logistic")
    one = LanguageModel(estimator, max_depth=3).fit(text)
    same_mixture(one, on_cluster(estimator, max_depth=3).fit(text))


def test_a_named_model(client):
    text = sentences()
    one, many = LanguageModel("fast").fit(text), on_cluster("fast").fit(text)
    same_tree(one.backoff_model_, many.compute().backoff_model_)


def test_other_members_and_classes(client):
    """Smoothers alone, classes by neighbours on both sides, classes known before."""
    text = sentences()
    classes = ExchangeClustering(7, offsets=(-1, 1), init="random", random_state=3)
    before = FrozenEstimator(ExchangeClustering(4).fit(text))
    path = [(classes, 1), ("word", 1), (before, 2)]
    models = [
        ("both", refined(path, WittenBellLM())),
        ("wb", WittenBellLM(max_depth=2)),
        ("l2", L2),
    ]
    estimator = MixtureLM(models, weights="em")
    one = LanguageModel(estimator, max_depth=3).fit(text)
    same_mixture_of_trees(one, on_cluster(estimator, max_depth=3).fit(text))


def same_mixture_of_trees(one, many):
    a, b = one.estimator_, many.compute().estimator_
    for x, y in zip(a.distribution_.models, b.distribution_.models):
        same_tree(x, y)
    np.testing.assert_allclose(a.weights_, b.weights_, atol=1e-8)
    np.testing.assert_allclose(a.weight_gap_, b.weight_gap_, atol=1e-8)


@pytest.mark.parametrize(
    "params",
    [
        {"max_depth": 3, "end": None},
        {"max_depth": 4, "start": None},
        {"max_depth": 3, "start": None, "end": None},
        {"max_depth": 3, "vocabulary": ["w1", "w2", "w3", "w5", "never"]},
        {"max_depth": 3, "vocabulary": [f"w{i}" for i in range(50)], "unknown": None,
         "out_of_vocabulary": "exclude"},
    ],
    ids=str,
)  # fmt: skip
def test_parts_of_any_size_are_one_text(client, params):
    """Windows reach into the sentences, and parts, before."""
    text = [line for line in sentences(30) if line]
    estimator = MixtureLM(
        [("refined", refined("c3(1) w(1) w(2)")), ("wb", WittenBellLM())],
        validation_fraction=0.3,
    )
    one = LanguageModel(estimator, **params).fit(text)
    for n in (4, len(text)):
        many = on_cluster(estimator, **params)
        same_mixture(one, many.fit(bag.from_sequence(text, npartitions=n)))


def test_windows_of_parts_are_those_of_the_text():
    labels = Labels(
        np.array(["a", "b", "</s>"], dtype=object),
        np.array(["a", "b", "</s>", "<s>"], dtype=object), start="<s>", end="</s>",
    )  # fmt: skip
    encoder, text = SentenceEncoder(labels), ["a b", "", "b", "a a b a", ""]
    whole = encoder.encode(number_sentences(text), front=4)
    windows, target = encoder.windows(whole, 5)
    before, found = np.full(5, -1, dtype=np.int32), []
    for sentence in text:
        tokens = encoder.encode(number_sentences([sentence]))
        found.append(rows_of_part(before, tokens, labels).first(99))
        before = last_tokens(before, tokens)
    np.testing.assert_array_equal(np.concatenate([w for w, _ in found]), windows.array)
    np.testing.assert_array_equal(np.concatenate([y for _, y in found]), target)


def test_a_pipeline(client):
    text = sentences()
    one = LanguageModel(refined(), max_depth=3).fit(text)
    many = on_cluster(refined(), max_depth=3, n_shards=3).fit(text).compute()
    same_classes(one.estimator_[0], many.estimator_[0])
    a, b = (lm.estimator_[1] for lm in (one, many))
    assert a.n_iter_ == b.n_iter_
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
    test = sentences(20, seed=1)
    assert many.perplexity(test) == pytest.approx(one.perplexity(test), rel=1e-9)


@pytest.mark.parametrize("n_shards, least", [(1, 2), (4, 5), (4, 1000), (20, 2)])
def test_contexts_of_few_samples_are_left_out(client, least, n_shards, tmp_path):
    text = sentences()
    model = StructuredLogLinearLM(penalty="l2", lam=0.1, min_count=least)
    one = LanguageModel(model).fit(text)
    many = on_cluster(model, n_shards=n_shards).fit(text)
    for suffix in ("arpa", "sklm"):
        many.save(tmp_path / f"shards.{suffix}")
    same_tree(one.backoff_model_, many.compute().backoff_model_)
    for suffix in ("arpa", "sklm"):
        many.save(tmp_path / f"here.{suffix}")
        shards, here = (tmp_path / f"{n}.{suffix}" for n in ("shards", "here"))
        assert shards.read_bytes() == here.read_bytes()


def test_shards_count_what_files_hold(client, tmp_path):
    """Against the counts of the same columns in memory; a shard has some of them."""
    from sklstruct.backoff import count_windows

    rng = np.random.default_rng(0)
    columns = rng.integers(0, 5, (4, 300)).astype(np.int32)  # the class, contexts
    columns[2, ::7] = -1
    order = np.argsort(columns[1], kind="stable")
    for k in range(4):
        columns[k, order].tofile(tmp_path / f"part.{k}")
    totals = np.bincount(columns[0], minlength=5)
    cut = int((columns[1] < 2).sum())
    for first, last in ((0, 300), (0, cut), (cut, 300), (9, 9)):
        piece = PartSlice(str(tmp_path / "part"), first, last)
        got = client.submit(count_shard, [piece], totals, 5, 3, 4).result().load()
        here = np.ascontiguousarray(columns[:, order[first:last]])
        want = count_windows(
            HistoryColumns(lambda k, here=here: here[k], last - first, 3), here[0],
            Labels.of_ids(5, 5), min_count=4,
        )  # fmt: skip
        assert got.pairs == want.pairs
        np.testing.assert_array_equal(got.count[5:], want.count[5:])
        np.testing.assert_array_equal(got.count[:5], totals)


@pytest.mark.parametrize("at", [1, 20])
def test_a_lost_shard_is_counted_again_from_the_files(client, monkeypatch, at):
    text, answer, n = sentences(), ShardDriver._answer, [0]
    want = on_cluster(mixture(), max_depth=3, n_shards=3).fit(text)

    def losing(driver, kind, value, report):
        n[0] += 1
        if n[0] == at:
            driver._actors[1] = None
        return answer(driver, kind, value, report)

    monkeypatch.setattr(ShardDriver, "_answer", losing)
    got = on_cluster(mixture(), max_depth=3, n_shards=3).fit(text)
    assert got.n_lost_shards_ == 1
    test = sentences(20, seed=1)
    assert got.compute().perplexity(test) == want.compute().perplexity(test)


def test_large_tables_do_not_give_a_warning_of_dask(client):
    """Words and classes of a large text are more than Dask likes in a task."""
    with (
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "20kB"}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        on_cluster(mixture(refit=False), max_depth=3).fit(sentences())
        client.submit(len, "x" * 100_000).result()
    large = [w for w in caught if "Sending large graph" in str(w.message)]
    assert len(large) == 1  # of this test itself


def test_files_are_removed(client, tmp_path, monkeypatch):
    model = on_cluster(mixture(), folder=tmp_path).fit(sentences())
    assert not list(tmp_path.iterdir())
    model = on_cluster(L2, folder=tmp_path).fit(sentences(99))
    assert list(tmp_path.iterdir())  # for lost shards
    model.compute()
    assert not list(tmp_path.iterdir())

    def fail(driver, report):
        raise MemoryError("too much")

    monkeypatch.setattr(ShardDriver, "run", fail)
    with pytest.raises(MemoryError, match="too much"):
        on_cluster(mixture(), folder=tmp_path).fit(sentences())
    assert not list(tmp_path.iterdir())


def test_a_folder_that_a_worker_does_not_see(client, tmp_path, monkeypatch):
    from sklstruct.distributed import _row_tasks

    model = on_cluster(L2, folder=tmp_path)
    monkeypatch.setattr(
        _row_tasks, "_column_path", lambda path, k: os.path.join(path, "gone", "x")
    )
    with pytest.raises(FileNotFoundError) as info:
        model.fit(sentences(50))
    assert "give DaskLanguageModel a shared folder" in "".join(info.value.__notes__)
    monkeypatch.setattr(Cluster, "read", None)  # no work
    with pytest.raises(
        FileNotFoundError, match="folder cannot be written.*no' does not"
    ):
        on_cluster(L2, folder=tmp_path / "no").fit(sentences(50))


def refusals():
    kn = ("kn", KneserNeyLM())
    fitted = FrozenEstimator(LanguageModel(WittenBellLM()).fit(["a b"]).estimator_)
    yield AdditiveLM(), TypeError, "models: 'other': AdditiveLM cannot be fitted on the"
    yield fitted, TypeError, "models: 'other' cannot be fitted on a cluster: a mixture"
    yield MixtureLM([kn]), TypeError, "models: 'other' cannot be fitted on a cluster"
    yield JointLogLinear(), TypeError, "models: 'other' cannot be fitted on a cluster"
    yield KneserNeyLM(discount="tuned"), ValueError, "discount='tuned' needs held-out"
    yield KneserNeyLM(discount="by_block"), ValueError, "needs the text in its order"
    yield (
        StructuredLogLinearLM(checkpoint="fit.ckpt"), ValueError,
        "models: 'other': checkpoint is not possible in a mixture",
    )  # fmt: skip
    yield (
        make_pipeline(FunctionTransformer(), WittenBellLM()), TypeError,
        "models: 'other': FunctionTransformer cannot be fitted on a cluster",
    )  # fmt: skip
    tree = ContextRefiner([(TaxonomyClustering(3), 1)])
    yield (
        make_pipeline(tree, WittenBellLM()), TypeError,
        "models: 'other': TaxonomyClustering cannot be fitted on a cluster",
    )  # fmt: skip
    yield refined("c2(9)"), ValueError, "path has position 9, but the windows of X have"


@pytest.mark.parametrize("other, error, match", list(refusals()), ids=range(10))
def test_estimators_are_refused_before_work(client, monkeypatch, other, error, match):
    monkeypatch.setattr(Cluster, "read", None)  # no work
    estimator = MixtureLM([("kn", KneserNeyLM()), ("other", other)])
    with pytest.raises(error, match=match):
        on_cluster(estimator).fit(["a b"])


def test_held_out_text_of_dask_is_refused_before_any_work(client, monkeypatch):
    monkeypatch.setattr(Cluster, "read", None)
    text = sentences(30)
    with pytest.raises(TypeError, match=r"^X_val is a Bag .*: pass X_val.compute\(\)$"):
        on_cluster(mixture()).fit(text, X_val=bag.from_sequence(text))


def test_other_refusals(client, monkeypatch):
    text = sentences(30)
    with pytest.raises(ValueError, match="y_val holds none|X_val is empty"):
        on_cluster(mixture()).fit(text, X_val=[])
    with pytest.raises(ValueError, match="X_val: a KneserNeyLM does not use held-out"):
        on_cluster(KneserNeyLM()).fit(text, X_val=text)
    with pytest.raises(ValueError, match="X_val: a Pipeline does not use held-out"):
        on_cluster(refined()).fit(text, X_val=text)
    with pytest.raises(ValueError, match="X_val: a MixtureLM does not use held-out"):
        on_cluster(mixture([1, 1])).fit(text, X_val=text)
    factored = FactoredLM(ExchangeClustering(3), WittenBellLM(), WittenBellLM())
    with pytest.raises(TypeError, match="estimator: FactoredLM cannot be fitted on"):
        on_cluster(factored).fit(text)
    with pytest.raises(ValueError, match="none of their classes occurs before them"):
        on_cluster(mixture(validation_fraction=0.5), end=None).fit(["a b"])
    with pytest.raises(ValueError, match="n_clusters=99 is more than the"):
        on_cluster(refined("c99(1)")).fit(text)
    with pytest.raises(ValueError, match="every sentence is empty and end=None"):
        on_cluster(mixture(), end=None).fit(["", ""])
    with pytest.raises(ValueError, match="word 'b' of sentence 0 is not in the vocab"):
        on_cluster(mixture(), vocabulary=["a"], unknown=None).fit(["a b"])


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(line for line in sentences(900) if line))
    return TextFile(path)


def test_processes(text_file):
    estimator = mixture()
    estimator.set_params(refined__structuredloglinearlm__min_count=3)
    with local_client(processes=True) as client:
        many = on_cluster(estimator, max_depth=3, client=client).fit(text_file)
    assert len({process for process, _, _ in many.shard_sizes_}) == 2
    same_mixture(LanguageModel(estimator, max_depth=3).fit(text_file), many)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["learn_rows", "write_rows", "shard", "answer"])
def test_a_worker_process_that_is_killed(text_file, monkeypatch, task):
    """Tokens, files and shards that were on it are made again."""
    killed = []

    def kill(client):
        if not killed:
            address, pid = client.run(os.getpid).popitem()
            killed.append(address)
            os.kill(pid, signal.SIGKILL)

    submit, answer = Cluster.submit, ShardDriver._answer
    place = ShardDriver._place

    def placing(driver, k):
        if task == "shard":
            kill(driver.client)
        return place(driver, k)

    def submitting(cluster, function, *arguments, **options):
        future = submit(cluster, function, *arguments, **options)
        if function.__name__ == task:
            kill(cluster.client)
        return future

    def answering(driver, *arguments):
        if task == "answer":
            kill(driver.client)
        return answer(driver, *arguments)

    monkeypatch.setattr(Cluster, "submit", submitting)
    monkeypatch.setattr(ShardDriver, "_answer", answering)
    monkeypatch.setattr(ShardDriver, "_place", placing)
    with local_client(processes=True) as client:
        many = on_cluster(mixture(), max_depth=3, client=client).fit(text_file)
    assert killed
    assert many.n_lost_shards_ >= (task == "answer")
    same_mixture(LanguageModel(mixture(), max_depth=3).fit(text_file), many)
