"""Checkpoints: a fit that was ended goes on, and ends where it would have."""

import errno
import json
import os
import subprocess
import sys
import textwrap
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from _loglinear import joint_loglinear, loglinear, loglinear_cv
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer

from sklstruct import _checkpoint
from sklstruct._checkpoint import FileStore
from sklstruct._progress import Progress
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import (
    L1,
    L2,
    AutoSolver,
    Checkpoint,
    DiagonalSolver,
    Solver,
    TreeMetricSolver,
)
from sklstruct.loglinear._joint_solver import JointBlock, _Passes
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._solvers import SOLVERS
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import GrownLM, KneserNeyLM, WittenBellLM


class Stateless(Solver):
    """A user's solver that has no state to go on from."""

    def solve(self, job, w): ...


SETTINGS = {"penalty": "tree_l2", "lam": 0.5, "alpha": 0.9, "depth_weight": 1.0}

FITS = {
    "tree_metric-l2": {"solver": "tree_metric", "penalty": "l2", "alpha": 1.0},
    "tree_metric-tree_l2": {"solver": "tree_metric", "penalty": "tree_l2"},
    "diagonal-tree_l2": {"solver": "diagonal", "penalty": "tree_l2"},
    "diagonal-tree_linf": {"solver": "diagonal", "penalty": "tree_linf"},
    "diagonal-signed": {"solver": "diagonal", "penalty": "l1", "positive": False},
    "fista-tree_linf": {"solver": "fista", "penalty": "tree_linf", "tol": 0.05},
}


def estimator(**settings):
    return loglinear(**{**SETTINGS, **settings})


class Killed(BaseException):
    """The end of a fit in the middle."""


def data(seed=0):
    tokens = np.random.default_rng(seed).zipf(1.6, 1500).clip(max=9)
    return np.lib.stride_tricks.sliding_window_view(tokens, 3)[:-1], tokens[3:]


def kill_after(monkeypatch, n_saves):
    save, calls = FileStore.save, []

    def killing(self, **state):
        save(self, **state)
        calls.append(None)
        if len(calls) == n_saves:
            raise Killed

    monkeypatch.setattr(FileStore, "save", killing)


def goes_on(make, tmp_path, monkeypatch):
    """Fits that are ended early, of the model that `make` gives, go on bit by bit."""
    whole = make().fit(*data())
    assert whole.n_iter_ > 7
    for n_saves in (1, 2, 7):
        model = make(checkpoint=Checkpoint(tmp_path / f"{n_saves}.ckpt", interval=0))
        with monkeypatch.context() as patch:
            kill_after(patch, n_saves)
            with pytest.raises(Killed):
                model.fit(*data())
        model.fit(*data())
        assert np.array_equal(model.coef_, whole.coef_)
        assert np.array_equal(model.objective_, whole.objective_)
        assert model.optimality_ == whole.optimality_
    # Again from the last checkpoint, an iteration or two from the end.
    model.fit(*data())
    assert np.array_equal(model.coef_, whole.coef_)


@pytest.mark.parametrize("every", [7, 1])
@pytest.mark.parametrize("kind", ["tree_metric", "joint"])
def test_goes_on_in_every_round_of_gap_tol(kind, every, tmp_path, monkeypatch):
    make = {
        "tree_metric": estimator,
        "joint": joint,
    }[kind]
    make = partial(make, tol=0.1, gap_tol=2e-3, max_iter=3000)
    states = goes_on_from_all(make, tmp_path, monkeypatch, every)[::every]
    assert len({state["share"] for state in states if "share" in state}) > 1


def test_other_gap_tol_goes_on(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    make = partial(estimator, checkpoint=checkpoint, tol=0.1)
    loose = make(gap_tol=0.02).fit(*data())
    strict = make(gap_tol=1e-3).fit(*data())
    assert strict.gap_ <= 1e-3 * data()[1].size < loose.gap_
    assert strict.n_iter_ > loose.n_iter_
    with pytest.raises(ValueError, match=r"another fit \(gap_tol: True there, None"):
        make().fit(*data())


def test_search_goes_on_to_its_gap(tmp_path, monkeypatch):
    def search(**settings):
        return loglinear_cv(
            penalty="l2", lam=0.5, max_fits=3, tol=0.1, gap_tol=1e-3, **settings
        )

    whole = search().fit(*data())
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    with monkeypatch.context() as patch:
        kill_after(patch, 2)
        with pytest.raises(Killed):
            search(checkpoint=checkpoint).fit(*data())
    again = search(checkpoint=checkpoint).fit(*data())
    same_search(again, whole)
    assert again.best_estimator_.gap_ <= 1e-3 * data()[1].size


def test_a_folder_keeps_the_gap_apart(tmp_path):
    make = partial(estimator, checkpoint=tmp_path, tol=0.1)
    gaps = [make(gap_tol=g).fit(*data()).gap_ for g in (None, 0.02, 1e-3)]
    assert gaps[0] > gaps[2] and gaps[2] <= 1e-3 * data()[1].size
    assert [make(gap_tol=g).fit(*data()).gap_ for g in (None, 0.02, 1e-3)] == gaps


def refuses(make, change, message, path):
    """The checkpoint of the model that `make` gives is refused after a change, and
    stays as it is."""
    model = make(checkpoint=Checkpoint(path, interval=0)).fit(*data())
    content = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        model.set_params(**change).fit(*data())
    assert path.read_bytes() == content


@pytest.mark.parametrize("fit", FITS)
def test_goes_on_bit_by_bit(fit, tmp_path, monkeypatch):
    settings = {"tol": 1e-2, **FITS[fit]}
    goes_on(partial(estimator, **settings), tmp_path, monkeypatch)


def goes_on_from_all(make, tmp_path, monkeypatch, every=1):
    """A fit goes on bit by bit from each checkpoint of a step `every`; returns what was
    in all checkpoints."""
    path, contents, states = tmp_path / "fit.ckpt", [], []
    save = FileStore.save

    def recording(self, **state):
        save(self, **state)
        contents.append(Path(self.path).read_bytes())
        plain = {k: v for k, v in state.items() if not isinstance(v, np.ndarray)}
        states.append(deepcopy(plain))

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "save", recording)
        whole = make(checkpoint=Checkpoint(path, interval=0)).fit(*data())
    model = make(checkpoint=Checkpoint(path, interval=1e9))
    for content in contents[::every]:
        path.write_bytes(content)
        model.fit(*data())
        assert np.array_equal(model.coef_, whole.coef_)
        assert np.array_equal(model.objective_, whole.objective_)
        assert model.optimality_ == whole.optimality_
        assert model.n_iter_ == whole.n_iter_
    plain = make().fit(*data())
    assert np.array_equal(plain.coef_, whole.coef_)
    assert np.array_equal(plain.objective_, whole.objective_)
    return states


@pytest.mark.parametrize("solver", ["tree_metric", "fista"])
def test_another_solver_is_refused(solver, tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    settings = {"penalty": "l1", "checkpoint": checkpoint}
    model = estimator(solver=solver, **settings).fit(*data())
    for other in ("tree_metric", "diagonal", "fista"):
        if other != solver:
            with pytest.raises(ValueError, match=r"another fit \(solver: .* there, "):
                model.set_params(solver=other).fit(*data())


@pytest.mark.filterwarnings("ignore:the (solver|last round) stopped:UserWarning")
def test_other_ends_go_on(tmp_path):
    make = partial(estimator, penalty="l1", solver="diagonal")
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    loose = make(checkpoint=checkpoint, tol=0.1).fit(*data())
    strict = make(checkpoint=checkpoint, tol=0.01).fit(*data())
    assert strict.optimality_ <= 0.01 < loose.optimality_ <= 0.1
    assert strict.n_iter_ > loose.n_iter_
    for max_iter in (1, 2, 5):
        short = make(checkpoint=checkpoint, tol=1e-9, max_iter=max_iter).fit(*data())
        assert np.isfinite(short.optimality_)
        assert short.objective_[-1] <= loose.objective_[-1]


def test_other_tol_and_max_iter_go_on(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    model = estimator(checkpoint=checkpoint, tol=0.1).fit(*data())
    longer = estimator(checkpoint=checkpoint, tol=1e-3).fit(*data())
    assert longer.optimality_ <= 1e-3 < model.optimality_
    assert np.array_equal(longer.objective_[: model.n_iter_ - 1], model.objective_[:-1])
    with pytest.warns(UserWarning, match="max_iter"):
        short = estimator(checkpoint=checkpoint, tol=1e-9, max_iter=2)
        short.fit(*data())
    assert np.isfinite(short.optimality_)


def test_through_a_language_model(tmp_path, monkeypatch):
    text = [" ".join("abcde"[i] for i in row) for row in data()[0] % 5]
    whole = LanguageModel(estimator(), max_depth=2).fit(text)
    path = os.fspath(tmp_path / "fit.ckpt")
    inner = estimator(checkpoint=Checkpoint(path, interval=0))
    model = LanguageModel(inner, max_depth=2)
    with monkeypatch.context() as patch:
        kill_after(patch, 3)
        with pytest.raises(Killed):
            model.fit(text)
    model.fit(text)
    assert np.array_equal(model.backoff_model_.log_prob, whole.backoff_model_.log_prob)
    with pytest.raises(ValueError, match=r"another fit \(.*counts: "):
        model.fit(text[:-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": 0.7}, "lam: 0.5 there, 0.7 here"),
        ({"alpha": 1.0}, "alpha: "),
        ({"penalty__depth_weight": 1.1}, r"penalty: 'TreeL2\(\)' there, 'TreeL2\("),
        ({"penalty": "l2"}, r"penalty: 'TreeL2\(\)' there, 'L2\(\)' here"),
        ({"solver": DiagonalSolver()}, "solver: 'TreeMetricSolver"),
    ],
)
def test_other_settings_are_refused(change, message, tmp_path):
    refuses(estimator, change, message, tmp_path / "fit.ckpt")


@pytest.mark.parametrize(
    ("penalty", "other"),
    [
        (L1([1.0] * 100), L1([1.0] * 30 + [2.0] * 70)),
        (L1(np.ones(2000)), L1(np.r_[np.ones(900), 2.0, np.ones(1099)])),
        (L2(np.r_[1.0, 1, 1, 0.5]), L2(np.r_[1.0, 1, 1, 0.5 + 1e-9])),
    ],
)
def test_a_penalty_of_many_numbers_is_told_from_another(penalty, other, tmp_path):
    refuses(
        partial(estimator, penalty=penalty, depth_weight=penalty.depth_weight),
        {"penalty": other},
        r"another fit \(penalty: 'L.*' there, 'L.*' here\)",
        tmp_path / "fit.ckpt",
    )
    for given in (penalty, other):
        settings = {"penalty": given, "depth_weight": given.depth_weight}
        model, plain = (
            estimator(checkpoint=checkpoint, **settings).fit(*data())
            for checkpoint in (tmp_path / "fits", None)
        )
        assert np.array_equal(model.coef_, plain.coef_)


def test_the_same_settings_in_other_types_go_on(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    solver = DiagonalSolver(tol=1e-3)
    for weight in ([1.0, 0.5, 0.25, 0.1], np.array([1.0, 0.5, 0.25, 0.1])):
        for show_all in (False, True):
            with config_context(print_changed_only=not show_all):
                estimator(
                    penalty=L2(weight), depth_weight=weight, solver=solver,
                    checkpoint=checkpoint,
                ).fit(*data())  # fmt: skip


def test_other_data_is_refused(tmp_path):
    model = estimator(checkpoint=Checkpoint(tmp_path / "fit.ckpt", interval=0))
    X, y = data()
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"another fit \(counts: "):
        model.fit(X, y, sample_weight=np.full(y.size, 2.0))
    with pytest.raises(ValueError, match=r"another fit \(contexts: .*pairs: "):
        model.fit(*data(seed=1))


def test_an_active_set_has_no_checkpoint(tmp_path):
    model = estimator(solver="active_set", lam=1.0, checkpoint=tmp_path / "fit.ckpt")
    with pytest.raises(ValueError, match="^checkpoint: solver=.* cannot go on from"):
        model.fit(*data())


@pytest.mark.parametrize("n", [18, 60])
def test_damaged_files_are_refused(n, tmp_path):
    path = tmp_path / "fit.ckpt"
    model = estimator(checkpoint=Checkpoint(path, interval=0))
    coef = model.fit(*data()).coef_
    content = path.read_bytes()
    cuts = [0, 5, 25, 31, 200, len(content) // 2, len(content) - 1]
    for damaged in (
        *(content[:cut] for cut in cuts),
        b"x" * 500,
        b"\x1f\x8b" + content,
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a checkpoint .* or is damaged"):
            model.fit(*data())
    refused = 0
    for at in np.linspace(0, len(content) - 1, n).astype(int):
        damaged = bytearray(content)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        try:  # a date in the archive makes no difference
            assert np.array_equal(model.fit(*data()).coef_, coef)
        except ValueError as error:
            assert "is not a checkpoint" in str(error)
            refused += 1
    assert refused > n * 50 / 60


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_full_disk_leaves_the_file_before(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"fit.ckpt{suffix}"
    checkpoint = Checkpoint(path, interval=0)
    model = estimator(tol=1e-3, checkpoint=checkpoint)
    with monkeypatch.context() as patch:
        kill_after(patch, 4)
        with pytest.raises(Killed):
            model.fit(*data())
    content = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(RuntimeWarning, match="no space left.*the fit continues"):
            model.fit(*data())
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == [path.name]
    whole = estimator(tol=1e-3).fit(*data())
    assert np.array_equal(model.coef_, whole.coef_)


class OldSolver(Solver):
    needs = ()

    def solve(self, job, w):
        raise AssertionError("must not be reached")


def test_refused_before_any_work(tmp_path):
    path = tmp_path / "fit.ckpt"
    with pytest.raises(ValueError, match="cannot go on from a checkpoint.*diagonal"):
        estimator(solver=OldSolver(), checkpoint=path).fit(*data())
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written"):
        estimator(checkpoint=tmp_path / "no" / "fit.ckpt").fit(*data())
    with pytest.raises(ValueError, match="checkpoint is an empty path"):
        estimator(checkpoint="").fit(*data())
    for interval in (-1, np.nan, np.inf, "often"):
        with pytest.raises(ValueError, match="interval"):
            estimator(checkpoint=Checkpoint(path, interval)).fit(*data())
    with pytest.raises(ValueError, match="checkpoint is for fit"):
        estimator(checkpoint=path).partial_fit(*data())
    with pytest.raises(ValueError, match="cannot go on from a checkpoint.*diagonal"):
        estimator(penalty="l2", solver=Stateless(), checkpoint=path).fit(*data())
    assert not path.exists()
    others = [name for name, kind in SOLVERS.items() if not kind.resumable]
    assert others == ["active_set"]


# ----------------------------------------------------------------- several trees


def joint(**settings):
    """Two paths, the second from the older symbol on."""
    paths = [("new", "passthrough"), ("old", FunctionTransformer(backwards))]
    return joint_loglinear(
        paths, **{"lam": 0.4, "tol": 1e-2, "padding": -1, **settings}
    )


def backwards(X):
    return np.asarray(X)[:, ::-1]


@pytest.mark.parametrize("lam, tol", [(0.4, 1e-2), (0.4, 1e-4), (1e-3, 1e-4)])
def test_joint_goes_on_bit_by_bit(lam, tol, tmp_path, monkeypatch):
    goes_on(partial(joint, lam=lam, tol=tol), tmp_path, monkeypatch)


def test_joint_goes_on_with_the_objective_of_the_best_pass():
    passes, again = (_Passes([], np.zeros((1, 1), np.float32)) for _ in range(2))
    passes.objective, passes.lowest = 3.0, 2.0
    again.set_state(passes.get_state())
    again._keep_best()
    assert again.lowest == 2.0


def test_joint_other_tol_and_max_iter_go_on(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    model = joint(checkpoint=checkpoint, tol=0.05).fit(*data())
    longer = joint(checkpoint=checkpoint).fit(*data())
    whole = joint().fit(*data())
    assert model.n_iter_ < longer.n_iter_ == whole.n_iter_
    assert np.array_equal(longer.coef_, whole.coef_)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        short = joint(checkpoint=checkpoint, tol=0, max_iter=1).fit(*data())
    assert np.isfinite(short.optimality_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": 0.7}, "lam: 0.4 there, 0.7 here"),
        ({"alpha": 0.5}, "alpha: "),
        ({"paths": [("new", "passthrough")]}, r"another fit \(contexts: "),
        ({"classes": np.arange(12)}, "classes: 9 there, 12 here"),
    ],
)
def test_joint_other_settings_are_refused(change, message, tmp_path):
    refuses(joint, change, message, tmp_path / "fit.ckpt")


def test_joint_other_data_is_refused(tmp_path):
    model = joint(checkpoint=Checkpoint(tmp_path / "fit.ckpt", interval=0))
    X, y = data()
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"another fit \(samples: "):
        model.fit(X, y, sample_weight=np.full(y.size, 2.0))
    with pytest.raises(ValueError, match=r"another fit \(samples: "):
        model.fit(X, np.roll(y, 1))
    with pytest.raises(ValueError, match=r"another fit \(contexts: .*samples: "):
        model.fit(*data(seed=1))
    structured = estimator(checkpoint=Checkpoint(tmp_path / "fit.ckpt", interval=0))
    with pytest.raises(ValueError, match="another fit"):
        structured.fit(X, y)


def test_joint_refused_before_any_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written"):
        joint(checkpoint=tmp_path / "no" / "fit.ckpt").fit(*data())
    with pytest.raises(ValueError, match="checkpoint"):
        joint(checkpoint=3).fit(*data())


# ------------------------------------------------------------------- Ctrl-C

INTERRUPTED = {
    **{name: partial(estimator, **{"tol": 1e-2, **FITS[name]}) for name in FITS},
    "joint": joint,
    "search": lambda **settings: search(**settings),
}


def interrupt_after(patch, n_calls):
    """Ctrl-C in the middle of an iteration, after it has changed its arrays."""
    left = [n_calls]

    def interrupting(function):
        def run(*args, **kwargs):
            left[0] -= 1
            result = function(*args, **kwargs)
            if left[0] == 0:
                raise KeyboardInterrupt
            return result

        return run

    plain = LogLinearLoss.value_and_gradient
    patch.setattr(LogLinearLoss, "value_and_gradient", interrupting(plain))
    patch.setattr(JointBlock, "step", interrupting(JointBlock.step))


@pytest.mark.parametrize("fit", INTERRUPTED)
def test_ctrl_c_keeps_the_last_state(fit, tmp_path, monkeypatch):
    # Small states would be copied less often than there are iterations.
    monkeypatch.setattr("sklstruct._checkpoint._COPY_EVERY", 0.0)
    whole = INTERRUPTED[fit]().fit(*data())
    path = tmp_path / "fit.ckpt"
    model = INTERRUPTED[fit](checkpoint=path)  # once a minute
    with monkeypatch.context() as patch:
        interrupt_after(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*data())
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*data())
    states, save = [], FileStore.save

    def recording(self, **state):
        states.append(state.get("iteration", state.get("part iteration")))
        save(self, **state)

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "save", recording)
        model.fit(*data())
    model, whole = (getattr(m, "best_estimator_", m) for m in (model, whole))
    assert np.array_equal(model.coef_, whole.coef_)
    assert np.array_equal(model.objective_, whole.objective_)
    if fit in ("tree_metric-l2", "diagonal-tree_l2", "gis-elastic_net"):
        assert states[0] == 8  # the seventh is made again, and two more were made


def test_only_ctrl_c_writes_between_intervals(tmp_path, monkeypatch):
    for error in (RuntimeError, KeyboardInterrupt):
        model = estimator(checkpoint=tmp_path / "fit.ckpt")
        with monkeypatch.context() as patch:
            kill_after(patch, 3)
            patch.setattr(f"{__name__}.Killed", error)
            with pytest.raises(error):
                model.fit(*data())
        assert (tmp_path / "fit.ckpt").exists() == (error is KeyboardInterrupt)


# ------------------------------------------------------------ max_iter of the runs


@pytest.mark.filterwarnings("ignore:the solver stopped:UserWarning")
@pytest.mark.parametrize("solver", [*sorted(SOLVERS.keys() - {"active_set"}), "joint"])
def test_max_iter_counts_the_iterations_of_all_runs(solver, tmp_path):
    def make(**settings):
        if solver == "joint":
            return joint(tol=0, **settings)
        return estimator(penalty="l2", solver=solver, tol=0, **settings)

    path = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    whole = make(max_iter=12).fit(*data())
    for max_iter, expected in [(12, 12), (5, 12), (12, 12), (3, 12), (7, 12), (14, 14)]:
        model = make(max_iter=max_iter, checkpoint=path).fit(*data())
        assert model.n_iter_ == expected
        if expected == 12:
            assert np.array_equal(model.coef_, whole.coef_)
    assert np.array_equal(model.coef_, make(max_iter=14).fit(*data()).coef_)


# -------------------------------------------------------------- where it may be


def refused_paths(tmp_path):
    (tmp_path / "folder.d").mkdir()
    (tmp_path / "plain").write_bytes(b"")
    yield tmp_path / "a.zip", "'.zip' cannot be written"
    yield f"{tmp_path}/a\0b.ckpt", "null character"
    yield f"{tmp_path}/\udc80\ud800.ckpt", "cannot be the name of a file"
    yield f"{tmp_path}/\udc80\ud800", "cannot be the name of a file"
    yield tmp_path / ("a" * 300 + ".ckpt"), "checkpoint cannot be written"
    yield tmp_path / "plain", "has no suffix, so it must be a folder"
    yield tmp_path / "folder.d", "has a suffix, so it must be a file"
    yield "", "empty path"
    if find_spec("compression") is None and find_spec("backports") is None:
        yield tmp_path / "a.zst", "zstd"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.ckpt")
        yield tmp_path / "pipe.ckpt", "must be a regular file"
    if os.path.isdir("/proc/self"):
        yield "/proc/self/fit.ckpt", "checkpoint cannot be written"
        yield "/proc/self/fits", "checkpoint cannot be written"


def test_a_path_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    for path, message in refused_paths(tmp_path):
        for make in (estimator, joint, search):
            with pytest.raises((ValueError, OSError), match=message):
                make(checkpoint=path).fit("no samples", [0])
            if path:
                model = make(checkpoint=Checkpoint(path, interval=0))
                with pytest.raises((ValueError, OSError), match=message):
                    model.fit("no samples", [0])
    assert {path.name for path in tmp_path.iterdir()} <= {
        "folder.d", "plain", "pipe.ckpt"
    }  # fmt: skip


def test_a_file_that_may_not_be_written_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.ckpt"
    path.write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(PermissionError, match="checkpoint cannot be written"):
        estimator(checkpoint=path).fit("no samples", [0])


def test_the_name_decides_between_file_and_folder(tmp_path):
    for name in ("fits", "of.many/"):
        for _ in range(2):  # missing, and there
            estimator(checkpoint=f"{tmp_path}/{name}").fit(*data())
            assert [path.suffix for path in (tmp_path / name).iterdir()] == [".fitted"]
    for _ in range(2):
        estimator(checkpoint=Checkpoint(tmp_path / "fit.ckpt", 0)).fit(*data())
        assert (tmp_path / "fit.ckpt").is_file()


# ---------------------------------------------------------------- forged files

FORGED = [None, True, -3, 7, 0.5, "x", [], [1, 2], {}, np.zeros(3), np.zeros((2, 2))]
FORGED += [np.zeros(0, dtype=np.int32), np.full(2000, 10**6, dtype=np.int32)]


def forge(path, name, value):
    """The checkpoint with another value, and right checksums."""
    identity = []
    state = _checkpoint._read(path, identity.append)
    if isinstance(value, np.ndarray) and isinstance(state[name], np.ndarray):
        value = value.astype(state[name].dtype)
    del state[name]
    if value is not FORGED:
        state[name] = value
    _checkpoint._write(path, identity[0], state)


@pytest.mark.filterwarnings("ignore:the (solver|last round|passes):UserWarning")
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize(  # the states of all solvers
    "fit",
    ["tree_metric-tree_l2", "diagonal-tree_l2", "fista-tree_linf", "joint", "search"],
)
def test_forged_states_are_refused_with_the_name_of_the_file(
    fit, part, tmp_path, monkeypatch
):
    path = tmp_path / "fit.ckpt"
    model = INTERRUPTED[fit](checkpoint=Checkpoint(path, interval=0))
    with monkeypatch.context() as patch:
        kill_after(patch, 3 if fit == "search" else 9)
        with pytest.raises(Killed):
            model.fit(*data())
    content = path.read_bytes()
    state = _checkpoint._read(path, lambda _: None)
    getattr(model, "estimator", model).checkpoint = Checkpoint(path, interval=1e9)
    optional = {"change", "w", "beta"} if fit in ("search", "joint") else ()
    for name, value in list(product(state, [FORGED, *FORGED]))[part::5]:
        path.write_bytes(content)
        forge(path, name, value)
        try:
            model.fit(*data())
        except ValueError as error:
            assert str(error).startswith(f"checkpoint: '{path}' ")
        except FloatingPointError as error:  # a number, but not from any fit
            assert "solver: " in str(error)
        else:  # another value of the same kind
            assert value is not FORGED or name in optional


def test_forged_headers_are_refused(tmp_path):
    path = tmp_path / "fit.ckpt"
    model = estimator(checkpoint=Checkpoint(path, interval=0)).fit(*data())
    identity = []
    _checkpoint._read(path, identity.append)
    for forged in (
        {}, [], 3, None, {"identity": identity[0]}, {"identity": [], "format": 3},
        {"identity": identity[0], "format": 3},
        {"identity": identity[0], "format": 3, "state": []},
        {"identity": identity[0], "format": 2, "state": {}},
    ):  # fmt: skip
        text = np.frombuffer(json.dumps(forged).encode(), dtype=np.uint8)
        with open(path, "wb") as file:
            np.savez(file, **{_checkpoint._HEADER: text})
        with pytest.raises(ValueError, match=f"checkpoint: '{path}' is not a checkp"):
            model.fit(*data())
    for array in (np.array([None]), np.array(["x"]), np.zeros(2, "O")):
        with open(path, "wb") as file:
            np.savez(file, **{_checkpoint._HEADER: array})
        with pytest.raises(ValueError, match=f"checkpoint: '{path}' is not a checkp"):
            model.fit(*data())


# ----------------------------------------------------------------------- a search


def search(**settings):
    return loglinear_cv(
        **{"penalty": "l2", "lam": 0.05, "alpha": 0.9, "max_fits": 7, **settings}
    )


def same_search(a, b):
    assert len(a.search_results_) == len(b.search_results_)
    for one, other in zip(a.search_results_, b.search_results_):
        assert one["held_out_loss"] == other["held_out_loss"]
        assert one["n_iter"] == other["n_iter"]
        assert (one["lam"], one["alpha"]) == (other["lam"], other["alpha"])
    assert a.held_out_loss_ == b.held_out_loss_
    a, b = a.best_estimator_, b.best_estimator_
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.objective_, b.objective_)


@pytest.mark.parametrize(
    "settings",
    [{"max_fits": 4}, {}, {"max_fits": 3, "solver": DiagonalSolver()}],
    ids=["few", "auto", "diagonal"],
)
def test_search_goes_on_bit_by_bit(settings, tmp_path, monkeypatch):
    X, y = data()
    whole = search(**settings).fit(X, y)
    n_saves = len(whole.search_results_)  # one after each fit
    for n in {1, 2, n_saves // 2, n_saves - 1, n_saves}:
        checkpoint = Checkpoint(tmp_path / f"{n}.ckpt", interval=0)
        model = search(checkpoint=checkpoint, **settings)
        with monkeypatch.context() as patch:
            kill_after(patch, n)
            with pytest.raises(Killed):
                model.fit(X, y)
        same_search(model.fit(X, y), whole)
    same_search(model.fit(X, y), whole)


def test_search_makes_no_fit_twice(tmp_path, monkeypatch):
    X, y = data()
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    model = search(checkpoint=checkpoint)
    with monkeypatch.context() as patch:
        kill_after(patch, 4)
        with pytest.raises(Killed):
            model.fit(X, y)
    solves, solve = [], TreeMetricSolver.solve

    def counting(self, *args):
        result = solve(self, *args)
        solves.append(len(result.history))
        return result

    monkeypatch.setattr(TreeMetricSolver, "solve", counting)
    model.fit(X, y)
    assert model.max_fits + 1 - len(solves) == 4
    solves.clear()
    model.fit(X, y)
    assert len(solves) == 1  # on all samples


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator__lam": 0.07}, "lam: 0.05 there, 0.07 here"),
        ({"factor": 1.5}, "factor: 1.4 there, 1.5 here"),
        ({"max_fits": 8}, "max_fits: 7 there, 8 here"),
        ({"search": ["lam"]}, "search: "),
        ({"estimator__solver__tol": 1e-3}, r"solver: 'TreeMetricSolver\(\)' there"),
        ({"validation_fraction": 0.2}, r"another fit \(.*held_out: "),
    ],
)
def test_search_other_settings_are_refused(change, message, tmp_path):
    refuses(search, change, message, tmp_path / "fit.ckpt")


def test_ctrl_c_in_the_last_fit_keeps_the_search(tmp_path, monkeypatch):
    monkeypatch.setattr("sklstruct._checkpoint._COPY_EVERY", 0.0)
    X, y = data()
    whole = search().fit(X, y)
    n_calls = sum(fit["n_iter"] for fit in whole.search_results_)
    model = search(checkpoint=tmp_path / "fit.ckpt")  # once a minute
    with monkeypatch.context() as patch:
        interrupt_after(patch, n_calls + 5)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    state = _checkpoint._read(tmp_path / "fit.ckpt", lambda _: None)
    assert len(state["fits"]) == model.max_fits
    same_search(model.fit(X, y), whole)


def test_search_other_data_is_refused(tmp_path):
    X, y = data()
    X = X.copy()
    X[-1] = 1, 2, 50
    model = search(checkpoint=Checkpoint(tmp_path / "fit.ckpt", interval=0))
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"another fit \(.*counts: "):
        model.fit(X[:-1], y[:-1])
    with pytest.raises(ValueError, match=r"another fit \(held_out: "):
        model.fit(X, np.append(y[:-1], y[-1] % 9 + 1))


# ----------------------------------------------------------------------- a folder


def texts(n=None):
    rows = data()[0][:n]
    return [" ".join("abcdefghij"[i] for i in row) for row in rows]


def composite(**settings):
    """Classes and words in them, each by several models; the text is read twice."""
    structured = estimator(penalty="l2", padding=-1)
    factor = MixtureLM([("one", joint()), ("two", structured)], weights="logistic")
    factored = FactoredLM(np.arange(10) // 4, factor)
    mixed = MixtureLM([("factored", factored), ("bell", WittenBellLM())])
    return LanguageModel(mixed, max_depth=2, unknown=None, **settings)


def log_proba(model):
    return np.concatenate(model.token_log_proba(texts()[:50]))


@pytest.mark.parametrize(
    "n_saves, n, then", [(40, 200, 1e9), (1, None, 0), (40, None, 0), (200, None, 0)]
)
def test_a_folder_serves_every_fit(n_saves, n, then, tmp_path, monkeypatch):
    """then: seconds between two states that the second run saves."""
    text = texts(n)
    whole = composite().fit(text)
    model = composite(checkpoint=Checkpoint(tmp_path, interval=0))
    with monkeypatch.context() as patch:
        kill_after(patch, n_saves)
        with pytest.raises(Killed):
            model.fit(text)
    left = {path.name for path in tmp_path.iterdir()}
    assert len([name for name in left if name.endswith(".running")]) == 1
    model.set_params(checkpoint=Checkpoint(tmp_path, interval=then)).fit(text)
    assert np.array_equal(log_proba(model), log_proba(whole))
    names = {path.name for path in tmp_path.iterdir()}
    assert all(name.endswith(".fitted") for name in names)
    assert {name for name in left if name.endswith(".fitted")} < names

    # Nothing is left to do.
    def refuse(*_, **__):
        raise AssertionError("a fit was made again")

    for name in ("save", "finish"):
        monkeypatch.setattr(FileStore, name, refuse)
    model.fit(text)
    assert np.array_equal(log_proba(model), log_proba(whole))


def test_results_in_a_folder_belong_to_tol_and_max_iter(tmp_path):
    X, y = data()
    strict = estimator(tol=1e-4).fit(X, y)
    for kind in (estimator, search, joint):
        kind(checkpoint=tmp_path).fit(X, y)
    for tol in (0.1, 1e-4):
        model = estimator(tol=tol, checkpoint=tmp_path).fit(X, y)
        assert model.optimality_ <= tol
    assert np.array_equal(model.coef_, strict.coef_)
    assert len(list(tmp_path.glob("*.fitted"))) == 1 + 2 + 1 + 2
    same_search(search(checkpoint=tmp_path).fit(X, y), search().fit(X, y))


@pytest.mark.parametrize("n", [300, None])
def test_a_grid_search_goes_on(n, tmp_path):
    X, y = (part[:n] for part in data())
    grid = {"lam": [0.5, 0.2], "alpha": [0.8, 1.0]}
    plain = GridSearchCV(estimator(), grid, cv=3).fit(X, y)
    model = estimator(checkpoint=tmp_path)
    GridSearchCV(model, {"lam": [0.5], "alpha": [0.8, 1.0]}, cv=3).fit(X, y)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(before) == 2 * 3 + 1  # and the best of them on all samples
    found = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert np.array_equal(
        found.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert before.items() <= after.items()
    assert len(after) - len(before) in (2 * 3, 2 * 3 + 1)


def test_damaged_results_are_refused(tmp_path):
    model = joint(checkpoint=tmp_path).fit(*data())
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for n in (0, 30, 300, len(content) - 1):
        path.write_bytes(content[:n])
        with pytest.raises(ValueError, match="not a checkpoint .* or is damaged"):
            model.fit(*data())


def test_a_folder_reaches_the_models_that_are_made_by_default(tmp_path):
    with pytest.raises(ValueError, match="must be a folder, as"):
        FactoredLM(np.arange(4) // 2, checkpoint=tmp_path / "fit.ckpt").fit(*data())
    factored = FactoredLM([list("abcd"), list("efgh"), ["i", "j", "</s>"]])
    settings = {"max_depth": 2, "unknown": None}
    whole = LanguageModel(factored, **settings).fit(texts())
    kept = LanguageModel(factored, checkpoint=tmp_path, **settings).fit(texts())
    # The classes, and the words of each of the three.
    assert len(list(tmp_path.glob("*.fitted"))) == 4
    assert np.array_equal(log_proba(kept), log_proba(whole))


def test_a_fit_that_was_stopped_is_not_done(tmp_path, monkeypatch):
    model = estimator(checkpoint=tmp_path, verbose=0)
    whole = estimator().fit(*data())

    def solve(self, job, w):
        return plain(self, job._replace(report=lambda *_: True), w)

    plain = TreeMetricSolver.solve
    with monkeypatch.context() as patch:
        patch.setattr(TreeMetricSolver, "solve", solve)
        model.fit(*data())
    assert [path.suffix for path in tmp_path.iterdir()] == [".running"]
    model.fit(*data())
    assert np.array_equal(model.coef_, whole.coef_)
    assert [path.suffix for path in tmp_path.iterdir()] == [".fitted"]


def test_a_search_that_was_stopped_is_not_done(tmp_path, monkeypatch):
    whole = search().fit(*data())
    model, step = search(checkpoint=tmp_path), Progress.step

    def stopping(self, message, *what):
        step(self, message, *what)
        return message.startswith("fit 3:")

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "step", stopping)
        assert len(model.fit(*data()).search_results_) == 3
    same_search(model.fit(*data()), whole)


@pytest.mark.parametrize("kind", [partial(estimator, penalty="l2"), joint, search])
def test_a_short_fit_leaves_its_checkpoint(kind, tmp_path):
    X, y = data()
    model = kind(checkpoint=tmp_path / "fit.ckpt").fit(X, y)  # once a minute
    with pytest.raises(ValueError, match=r"another fit .* or name a folder"):
        model.fit(X[:700], y[:700])
    if kind is not search:
        with pytest.warns(UserWarning, match="max_iter"):
            short = kind(checkpoint=tmp_path / "short.ckpt", max_iter=3).fit(X, y)
        assert (tmp_path / "short.ckpt").exists()
        longer = short.set_params(solver=AutoSolver(tol=1e-2)).fit(X, y)
        whole = kind(tol=1e-2).fit(X, y)
        assert np.array_equal(longer.objective_, whole.objective_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_a_grid_search_with_a_file_is_refused(tmp_path):
    model = estimator(checkpoint=tmp_path / "fit.ckpt")
    with pytest.raises(ValueError, match=r"another fit .* or name a folder"):
        GridSearchCV(model, {"lam": [0.5, 0.2]}, cv=3).fit(*data())


def test_a_folder_is_not_made_by_a_refusal(tmp_path):
    fits = tmp_path / "fits"
    for make in (estimator, joint, search):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            make(checkpoint=fits).fit([[0, 1]], [0, 1])
    with pytest.raises(ValueError, match="no part of this KneserNeyLM"):
        LanguageModel(KneserNeyLM(), checkpoint=fits).fit(texts())
    with pytest.raises(ValueError, match="cannot go on from a checkpoint"):
        estimator(solver="active_set", lam=1.0, checkpoint=fits).fit(*data())
    assert not fits.exists()


def test_a_checkpoint_of_a_factored_model_without_default_models(tmp_path):
    given = estimator(padding=-1)
    for other in (None, WittenBellLM()):
        factored = FactoredLM(np.arange(10) // 4, given, other)
        with pytest.raises(ValueError, match="^checkpoint is for the default models"):
            clone(factored).set_params(checkpoint=tmp_path).fit(*data())
        assert not list(tmp_path.iterdir())
    model = LanguageModel(factored, max_depth=2, unknown=None, checkpoint=tmp_path)
    model.fit(texts())
    assert [path.suffix for path in tmp_path.iterdir()] == [".fitted"]
    assert model.estimator_.checkpoint is None


def test_checkpoint_of_a_language_model(tmp_path):
    text = texts()
    with pytest.raises(ValueError, match="must be a folder, as"):
        composite(checkpoint=tmp_path / "fit.ckpt").fit(text)
    with pytest.raises(ValueError, match="no part of this KneserNeyLM"):
        LanguageModel(KneserNeyLM(), checkpoint=tmp_path).fit(text)
    with pytest.raises(ValueError, match="checkpoint is for fit"):
        LanguageModel(checkpoint=tmp_path).partial_fit(text)
    mixed = MixtureLM([("greedy", GrownLM()), ("lasso", estimator())])
    kept = LanguageModel(mixed, max_depth=2, checkpoint=tmp_path).fit(text)
    assert len(list(tmp_path.glob("*.fitted"))) == 2  # for the weights, and of all
    plain = LanguageModel(mixed, max_depth=2).fit(text)
    assert np.array_equal(log_proba(kept), log_proba(plain))
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    model = LanguageModel(max_depth=2, checkpoint=checkpoint).fit(text)
    assert (tmp_path / "fit.ckpt").exists()
    assert model.estimator_.checkpoint is checkpoint
    own = estimator(checkpoint=tmp_path / "own.ckpt")
    model = LanguageModel(own, max_depth=2, checkpoint=checkpoint).fit(text)
    assert model.estimator_.checkpoint == tmp_path / "own.ckpt"


# --------------------------------------------------------------------- processes


KILLS = """
    import faulthandler, os, random, signal, sys, time
    import numpy as np
    from sklstruct import StructuredLogLinearLM
    from sklstruct.mixture import FactoredLM
    from sklstruct.loglinear import (
        AutoSolver, Checkpoint, JointLogLinear, StructuredLogLinearLMCV
    )

    path, seed, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    folder = os.path.join(os.path.dirname(path), "fits")
    os.mkdir(folder)
    tokens = np.random.default_rng(0).zipf(1.6, 20000).clip(max=50)
    X, y = np.lib.stride_tricks.sliding_window_view(tokens, 3)[:-1], tokens[3:]

    def fit(checkpoint):
        solver = AutoSolver(tol=1e-3)
        if kind == "joint":
            model = JointLogLinear(lam=0.1, solver=solver, checkpoint=checkpoint)
        elif kind == "folder":
            checkpoint = checkpoint and Checkpoint(folder, interval=0)
            factor = JointLogLinear(lam=0.1, solver=solver, checkpoint=checkpoint)
            model = FactoredLM(np.arange(50) // 10, factor)
        elif kind == "search":
            model = StructuredLogLinearLMCV(
                StructuredLogLinearLM(lam=0.1, solver=solver, checkpoint=checkpoint),
                max_fits=8,
            )
        else:
            model = StructuredLogLinearLM(
                penalty="tree_l2", lam=0.5, alpha=0.9,
                solver=solver, checkpoint=checkpoint
            )
        return model.fit(X, y)

    def found(model):
        return model.target_log_proba(X, y)

    begin = time.perf_counter()
    whole = fit(None)
    seconds = time.perf_counter() - begin
    draw = random.Random(seed)
    killed = 0
    for attempt in range(40):
        child = os.fork()
        if child == 0:
            code = 1
            # A child that hangs would hold the pipes open that the test waits for.
            faulthandler.dump_traceback_later(1000, exit=True)
            try:
                model = fit(Checkpoint(path, interval=0))
                code = 0 if np.array_equal(found(model), found(whole)) else 2
            finally:
                os._exit(code)
        if attempt < 12:
            time.sleep(draw.random() * 0.7 * seconds)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
            continue
        assert os.WEXITSTATUS(status) == 0, status
        if attempt >= 12:
            break
    print(killed)
"""


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(
    "kind",
    ["structured", "joint", "search", "folder"],
)
def test_killed_at_any_moment(kind, tmp_path):
    """Children are killed (-9) at random moments; the last ends as if none had been."""
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(KILLS),
            tmp_path / "fit.ckpt",
            "0",
            kind,
        ],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0
