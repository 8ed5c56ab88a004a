"""On clusters of real processes: searches, signals, losses, answers, versions."""

import filecmp
import gc
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module, metadata
from pathlib import Path

import joblib
import numpy as np
import pytest
from _clusters import (
    HANGS,
    local_client,
    local_cluster,
    new_client,
    on_cluster,
    until,
)
from _loglinear import loglinear
from _oracles import wikitext
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from sklstruct import HierarchicalClassifier, KneserNeyLM, StructuredLogLinearLM
from sklstruct.distributed import _driver
from sklstruct.distributed._cluster import Cluster
from sklstruct.distributed._driver import ShardDriver
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import TextFile

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
bag = pytest.importorskip("dask.bag")
cloudpickle = pytest.importorskip("cloudpickle")

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.slow


def sentences(n=400, seed=0):
    rng = random.Random(seed)
    return [
        " ".join(f"w{rng.choice([1, 2, 3, 5, 8, 13])}" for _ in range(rng.randrange(9)))
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def cluster():
    # A LocalCluster gives a worker up that is away a while after it was lost before,
    # though that is by its own loss.
    patience = {"distributed.deploy.lost-worker-timeout": "1h"}
    with dask.config.set(patience), local_cluster(processes=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """Two workers, each a process, whatever the test before did to them."""
    with new_client(cluster) as client:
        yield client


def assert_same_search(a, b):
    assert a.cv_results_.keys() == b.cv_results_.keys()
    for name, value in a.cv_results_.items():
        if name == "params":
            assert value == b.cv_results_[name]
        elif "time" not in name:
            np.testing.assert_array_equal(value, b.cv_results_[name], err_msg=name)
    assert a.best_params_ == b.best_params_


def assert_same_model(a, b, rtol=0.0):
    a, b = a.backoff_model_, b.backoff_model_
    assert a.pairs == b.pairs
    for name in ("log_prob", "log_backoff"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=0.0, atol=10 * rtol, err_msg=name
        )


# ------------------------------------------------------------------ whole fits

LOG_LINEAR = LanguageModel(StructuredLogLinearLM(penalty="tree_l2"), max_depth=3)


@pytest.mark.parametrize(
    "model, grid",
    [
        (LOG_LINEAR, {"estimator__lam": [0.1, 1.0], "max_depth": [2, 3]}),
        (LanguageModel(KneserNeyLM(discount=0.5)), {"max_depth": [2, 3, 4]}),
    ],
    ids=["log-linear", "Kneser-Ney"],
)
def test_searches(client, model, grid):
    text = sentences()
    search = GridSearchCV(model, grid, cv=3, return_train_score=True)
    before = search.get_params()
    state = pickle.dumps(before)
    here = clone(search).fit(text)
    with joblib.parallel_config("dask"):
        there = search.fit(text)
    assert_same_search(here, there)
    assert_same_model(here.best_estimator_, there.best_estimator_)
    after = search.get_params()
    assert all(after[name] is value for name, value in before.items())
    assert pickle.dumps(after) == state


@pytest.mark.parametrize(
    "estimator", [None, LogisticRegression(max_iter=30)], ids=["own", "any estimator"]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_node_models(client, estimator):
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    model = HierarchicalClassifier(estimator=estimator, random_state=0)
    here = clone(model).fit(X, y)
    before = model.set_params(n_jobs=2).get_params()
    with joblib.parallel_config("dask", n_jobs=2):
        there = model.fit(X, y)
        rows = there.predict_proba(X)
    np.testing.assert_array_equal(rows, here.predict_proba(X))
    np.testing.assert_array_equal(there.predict_proba(X), rows)
    after = model.get_params()
    assert all(after[name] is value for name, value in before.items())


def test_scores_of_sentences(client):
    text = sentences()
    model = clone(LOG_LINEAR).fit(text)
    here = model.score_samples(text)
    with joblib.parallel_config("dask"):
        there = joblib.Parallel()(
            joblib.delayed(model.score_samples)(text[a : a + 80])
            for a in range(0, 400, 80)
        )
        inside = model.score_samples(text)
    np.testing.assert_array_equal(np.concatenate(there), here)
    np.testing.assert_array_equal(inside, here)


def test_a_worker_that_is_killed_in_a_search(client, tmp_path):
    """Dask gives its fits to another one, unless it alone had what joblib sent them.

    The search then ends with an error, and another one takes up what was fitted.
    """
    text = sentences()
    flag = str(tmp_path / "killed")

    def score(model, X, y=None):
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return model.score(X)
        os.kill(os.getpid(), signal.SIGKILL)

    fits = tmp_path / "fits"
    fits.mkdir()
    model = StructuredLogLinearLM(penalty="tree_l2", checkpoint=fits)
    search = GridSearchCV(
        LanguageModel(model, max_depth=3),
        {"estimator__lam": [0.1, 0.2, 0.4]},
        cv=3,
        scoring=score,
    )
    with joblib.parallel_config("dask"):
        try:
            there = clone(search).fit(text)
        except distributed.CancelledError:
            there = clone(search).fit(text)
    assert os.path.exists(flag)
    search.set_params(estimator__estimator__checkpoint=None)
    assert_same_search(search.fit(text), there)


# ------------------------------------------------------------------- interrupts


def interrupt_when(ready):
    """Ctrl-C once something is under way."""

    def wait():
        try:
            until(ready)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def of_fits(client):
    """The keys that `DaskLanguageModel` has on the workers."""
    stored = [key for keys in client.has_what().values() for key in keys]
    return [key for key in stored if key.startswith(("sklstruct", "ShardFit"))]


def assert_usable(client):
    text = sentences(100)
    model = LanguageModel(KneserNeyLM(discount=0.5))
    one = clone(model).fit(text)
    many = on_cluster(KneserNeyLM(discount=0.5), n_shards=2).fit(text)
    assert_same_model(one, many.compute())
    search = GridSearchCV(model, {"max_depth": [2, 3]}, cv=2)
    with joblib.parallel_config("dask"):
        there = clone(search).fit(text)
    assert_same_search(search.fit(text), there)
    # joblib leaves results of an interrupted search where they are.
    until(lambda: gc.collect() >= 0 and not of_fits(client))


def test_an_interrupted_search(client, tmp_path, interrupts):
    """A model whose fits would go on until a file is there."""
    begun, end = tmp_path / "begun", tmp_path / "end"

    def score(model, X, y=None):
        begun.touch()
        deadline = time.monotonic() + HANGS
        while not end.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return 0.0

    search = GridSearchCV(
        LanguageModel(WittenBellLM()), {"max_depth": [1, 2, 3]}, cv=3, scoring=score
    )
    thread = interrupt_when(begun.exists)
    with pytest.raises(KeyboardInterrupt), joblib.parallel_config("dask"):
        search.fit(sentences())
    thread.join()
    assert not end.exists()
    end.touch()
    assert_usable(client)


def test_an_interrupted_fit(client, interrupts):
    """The fit would not end by itself."""
    estimator = loglinear(penalty="tree_l2", tol=1e-300, max_iter=10**9)
    thread = interrupt_when(lambda: "ShardFit" in " ".join(of_fits(client)))
    with pytest.raises(KeyboardInterrupt):
        on_cluster(estimator, max_depth=3, n_shards=2).fit(sentences())
    thread.join()
    assert_usable(client)


# ----------------------------------------------------- answers that do not arrive


class Unreadable:
    """Is sent, and cannot be received."""

    def __reduce__(self):
        return int, ("unreadable",)


def answer_what_cannot_be_read():
    from sklstruct.distributed._tasks import ShardFit

    class Unreadable:
        def __reduce__(self):
            return int, ("unreadable",)

    ShardFit.describe = lambda self: Unreadable()


def fail_with_what_cannot_be_read():
    from sklstruct.distributed._tasks import ShardFit

    class UnreadableError(Exception):
        def __reduce__(self):
            return int, ("unreadable",)

    def describe(self):
        raise UnreadableError("something happened")

    ShardFit.describe = describe


@pytest.mark.parametrize("direct", [False, True])
def test_answers_that_cannot_be_received(monkeypatch, direct):
    """Dask's future of a call stays open for ever: it is asked for again."""

    monkeypatch.setattr(_driver, "_DOUBT", 1.0)
    with local_client(1, processes=True, direct_to_workers=direct) as client:
        model = on_cluster(WittenBellLM(), n_shards=2, client=client)
        client.run(answer_what_cannot_be_read)
        with pytest.raises(ValueError, match="invalid literal.*unreadable") as info:
            model.fit(sentences(50))
        assert "receiving an answer of shard 0" in "".join(info.value.__notes__)
        client.run(fail_with_what_cannot_be_read)
        with pytest.raises(RuntimeError, match="UnreadableError: something") as info:
            model.fit(sentences(50))
        assert "On the worker of a shard" in "".join(info.value.__notes__)
        # A call that the worker cannot receive.
        ask_all = _driver.ShardDriver.ask_all

        def unreadable(driver, method):
            monkeypatch.setattr(_driver, "_NEVER_ARRIVED", 2.0)
            return ask_all(driver, method, Unreadable())

        monkeypatch.setattr(_driver.ShardDriver, "ask_all", unreadable)
        with pytest.raises(RuntimeError, match="call to shard 0 did not arrive at its"):
            model.fit(sentences(50))


# ----------------------------------------------------------------------- memory

GROWTH = """
import sys
from pathlib import Path
import distributed
from sklstruct.distributed import DaskLanguageModel
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import TextFile

def peak_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) / 1e3

if __name__ == "__main__":
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster) as client:
        # The smallest first: a peak only rises.
        for text in ("first.txt", "small.txt", "large.txt"):
            lm = LanguageModel(WittenBellLM(), max_depth=4)
            trainer = DaskLanguageModel(lm).fit(TextFile(text))
            for name in ("model.arpa", "model.bin", "model.sklm"):
                trainer.save(name)
            size = Path("model.sklm").stat().st_size
            print(peak_mb(), size, trainer.n_lost_shards_, flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_of_the_client_does_not_grow_with_the_model(tmp_path):
    """Words and workers are the same, the model is ten times as large."""
    rng = np.random.default_rng(0)
    (tmp_path / "client.py").write_text(GROWTH)
    for name, n in (("first", 2_000), ("small", 40_000), ("large", 440_000)):
        words = np.concatenate([np.arange(1000), rng.integers(1000, size=n)])
        lines = [" ".join(map(str, row)) for row in words.reshape(-1, 20)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "client.py"], cwd=tmp_path, capture_output=True, text=True,
        timeout=HANGS, check=True,
    )  # fmt: skip
    _, small, large = (line.split() for line in done.stdout.splitlines())
    file_mb = [int(size) / 1e6 for _, size, _ in (small, large)]
    assert file_mb[1] > 9 * file_mb[0] > 9
    assert float(large[0]) - float(small[0]) < 0.1 * (file_mb[1] - file_mb[0])


def peak_of_memory(dask_worker=None):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) * 1024


def text_of_numbers(path, n, share=0.0):
    """n words of 1000, and one of them instead of a share of the others."""
    rng = np.random.default_rng(0)
    words = np.concatenate([np.arange(1000), rng.integers(1000, size=n)])
    words[rng.random(words.size) < share] = 0
    lines = [" ".join(map(str, row)) for row in words.reshape(-1, 20)]
    path.write_text("\n".join(lines) + "\n")
    return TextFile(path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("estimator", "n_words", "share"),
    [
        # A branch with more contexts than fit into a worker.
        (KneserNeyLM(discount=0.5), 7_000_000, 0.4),
        (loglinear(penalty="l2", lam=0.1, max_iter=4), 4_000_000, 0.0),
        (loglinear(penalty="tree_l2", lam=0.5, max_iter=4), 4_000_000, 0.0),
    ],
    ids=["smoother", "l2", "tree_l2"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_memory_of_workers_does_not_grow_with_the_text(
    tmp_path, estimator, n_words, share
):
    """Counting gets 50 MB, and a shard 100 MB, for models of 70 MB and of 250 MB; the
    arrays of a log-linear fit have four and six times the size of its model."""
    peaks, sizes = [], []
    model = tmp_path / "model.sklm"
    with local_client(processes=True, memory_limit=450_000_000) as client:
        trainer = on_cluster(estimator, max_depth=3, client=client)
        for n in (1_000_000, n_words):
            text = text_of_numbers(tmp_path / "text.txt", n, share)
            trainer.fit(text).save(model)
            for kind in ("bin", "trie"):
                trainer.save(tmp_path / f"model.{kind}")
            assert trainer.n_lost_shards_ == 0
            sizes.append(model.stat().st_size)
            peaks.append(max(client.run(peak_of_memory).values()))
    assert sizes[1] - sizes[0] > 150e6
    assert peaks[1] - peaks[0] < 45e6
    if isinstance(estimator, KneserNeyLM):
        one = LanguageModel(estimator, max_depth=3).fit(text)
        for kind in ("sklm", "bin", "trie"):
            one.save(tmp_path / f"one.{kind}")
            files = tmp_path / f"one.{kind}", tmp_path / f"model.{kind}"
            assert filecmp.cmp(*files, shallow=False)


def resident(dask_worker=None):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("VmRSS")) * 1024


def write_words(path, n):
    """The first n words of SKLSTRUCT_SAMPLED; else n words, as rare as in texts."""
    source = os.environ.get("SKLSTRUCT_SAMPLED")
    with open(path, "w", encoding="utf-8") as out:
        if source is not None:
            with open(source, encoding="utf-8") as file:
                while n > 0:
                    line = next(file)
                    n -= len(line.split())
                    out.write(line)
            return
        rng = np.random.default_rng(0)
        share = 1 / np.arange(3, 30_000)
        for _ in range(0, n, 1_000_000):
            words = rng.choice(share.size, size=(50_000, 20), p=share / share.sum())
            out.writelines(" ".join(map(str, row)) + "\n" for row in words.tolist())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_workers_of_200_mb_and_50_million_words(tmp_path):
    """200 MB beyond what an idle worker takes after its imports."""
    with local_client(1, processes=True) as client:
        # The package itself imports its modules when they are used.
        client.run(import_module, "sklstruct.distributed._tasks")
        idle = max(client.run(resident).values())
    path, model = tmp_path / "text.txt", tmp_path / "model.sklm"
    write_words(path, 50_000_000)
    # Dask ends a worker beyond this limit.
    with local_client(processes=True, memory_limit=idle + 200_000_000) as client:
        trainer = on_cluster(KneserNeyLM(discount=0.5), max_depth=4, client=client)
        trainer.fit(TextFile(path)).save(model)
        assert trainer.n_lost_shards_ == 0
        assert max(client.run(peak_of_memory).values()) < idle + 200_000_000
        assert any(len(first) > 1 for first, _ in trainer._remote.driver.bounds)
    one = LanguageModel(KneserNeyLM(discount=0.5), max_depth=4).fit(TextFile(path))
    one.save(tmp_path / "one.sklm")
    assert filecmp.cmp(model, tmp_path / "one.sklm", shallow=False)


# --------------------------------------------------------------------- versions


def started_worker(address, folder, path):
    """A worker process of the command line, which finds packages in `path` first."""
    paths = [str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address]
        + ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)],
        env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_worker_with_another_version(tmp_path):
    """The metadata of another version, as an installation of it has."""
    installed = Path(metadata.distribution("sklstruct")._path)
    other = tmp_path / "other" / installed.name
    shutil.copytree(installed, other)
    text = (other / "METADATA").read_text()
    mine = metadata.version("sklstruct")
    (other / "METADATA").write_text(
        text.replace(f"\nVersion: {mine}\n", "\nVersion: 999.1\n")
    )
    with local_client(1, processes=True) as client:
        model = on_cluster(WittenBellLM(), client=client)
        model.fit(sentences(50))
        worker = started_worker(client.scheduler.address, tmp_path, other.parent)
        try:
            client.wait_for_workers(2, timeout=HANGS)

            def never():
                raise AssertionError("the text was read")

            with pytest.raises(
                RuntimeError,
                match=rf"tcp://[\d.:]+ has sklstruct 999\.1, but the client has "
                rf"sklstruct {mine}.* Install the same versions on all machines",
            ):
                model.fit(bag.from_delayed([dask.delayed(never)()]))
        finally:
            worker.terminate()
            worker.wait()


# ----------------------------------------------------------------------- losses


def worker_pids(cluster):
    """Process ids of the workers that run."""
    processes = [worker.process for worker in cluster.workers.values()]
    return [p.pid for p in processes if p is not None and p.pid]


class Events:
    """Counts what the client asks of the cluster in a fit; kills workers at some."""

    def __init__(self, patch, cluster, at=(), seed=0):
        self.n, self.killed = 0, []
        self._cluster, self._at, self._rng = cluster, list(at), random.Random(seed)
        for kind, name in ((Cluster, "submit"), (ShardDriver, "begin")):
            patch.setattr(kind, name, self._counted(getattr(kind, name)))

    def _counted(self, method):
        def counted(*arguments, **options):
            found = method(*arguments, **options)
            if self.n in self._at:
                self._kill()
            self.n += 1
            return found

        return counted

    def _kill(self):
        def pids():
            return [p for p in worker_pids(self._cluster) if p not in self.killed]

        until(pids)
        self.killed.append(self._rng.choice(pids()))
        os.kill(self.killed[-1], signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:KneserNeyLM")  # of ten sentences
@pytest.mark.parametrize(
    "estimator",
    [
        KneserNeyLM(),
        StructuredLogLinearLM(penalty="elastic_net", lam=0.2),
        StructuredLogLinearLM(penalty="tree_l2", lam=0.5),
    ],
    ids=["Kneser-Ney", "elastic_net", "tree_l2"],
)
def test_workers_killed_at_random_moments(cluster, client, estimator):
    """Also both, one after the other; the result is that without losses."""
    text = wikitext("train")[:8000]
    one = LanguageModel(estimator, max_depth=3).fit(text)
    model = on_cluster(estimator, max_depth=3, n_shards=2)
    model.fit(text[:10])  # workers import what they need
    with pytest.MonkeyPatch.context() as patch:
        events = Events(patch, cluster)
        lm = model.fit(text).compute()
    want = lm.backoff_model_
    assert_same_model(one, lm, rtol=1e-8)
    rng = random.Random(0)
    for seed in range(6):
        at = rng.sample(range(events.n), 1 + seed % 2)
        with pytest.MonkeyPatch.context() as patch:
            losses = Events(patch, cluster, at, seed)
            lm = model.fit(text).compute()
        assert len(losses.killed) == len(at)
        np.testing.assert_array_equal(lm.backoff_model_.log_prob, want.log_prob)
        if hasattr(one.estimator_, "objective_"):
            np.testing.assert_allclose(
                lm.estimator_.objective_, one.estimator_.objective_, rtol=1e-8
            )
        client.wait_for_workers(2, timeout=HANGS)
