"""DaskLanguageModel: a LanguageModel that is trained on a cluster."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .. import exchange
from .._checkpoint import Checkpoint
from .._compat import BaseEstimator, Interval, _fit_context, with_callbacks
from .._files import open_write
from ..backoff import BackoffClassifier
from ..exchange._arpa_shards import ArpaPlan
from ..language_model import LanguageModel
from ..language_model._encode import (
    encode_held_out,
    refuse_held_out,
    vocabulary_rules,
)
from ..language_model._names import Quality
from ..language_model._quality import collect_fallbacks
from ..language_model._unknown import warn_of_unsplit
from ..mixture import MixtureLM
from ..symbols import DEEPEST, Labels, SentenceEncoder, prepare_for_ids
from ..symbols._text import Analyzer
from ._arpa import ArpaWriter
from ._cluster import Cluster, ShardDriver, find_client
from ._models import sharded_fit
from ._parts import Vocabulary, text_parts
from ._rows import TextRows, check_composed, for_workers


class Remote(NamedTuple):
    """A fitted model on the workers."""

    driver: ShardDriver
    estimator: BackoffClassifier  # the unfitted clone in this process
    n_levels: int


class DaskLanguageModel(LanguageModel):
    r"""Language model trained on a Dask cluster.

    .. math::
        F(w) = \underbrace{F_0(w_{()})}_{\text{root}}
        + \sum_{s} F_s(w_{()}, w_s), \qquad
        w_s \text{ the weights of the contexts of shard } s .

    All contexts that end in the same symbol are one branch below the empty context, and
    no sum over contexts crosses branches except at the root. Each worker counts the
    parts of the text that it reads. The branches are divided into shards of about equal
    numbers of (context, class) pairs, and the program that fits a model in one process
    runs on every shard, in lockstep. In an iteration the shards exchange a few arrays
    of one number for each class: the sums at the root. The objective, the weights and
    the model are those of `LanguageModel` (counts and n-gram discounts exactly,
    log-linear weights up to rounding), for any number of workers.

    After `fit` the model is in this process, like any `LanguageModel`. With
    ``gather=False`` it stays on the workers, where it may be larger than the memory of
    one machine; `save` writes it from there.

    Parameters
    ----------
    estimator : estimator, default=None
        A :class:`~sklstruct.loglinear.StructuredLogLinearLM` (None: with its
        defaults), with one of the solvers that run on shards ("auto", "tree_metric",
        "diagonal", "fista") and any of the penalties of this package; or
        :class:`~sklstruct.smoothing.KneserNeyLM`,
        :class:`~sklstruct.smoothing.AbsoluteDiscountLM`,
        :class:`~sklstruct.smoothing.WittenBellLM` or
        :class:`~sklstruct.smoothing.KatzLM`; a pipeline of a
        :class:`~sklstruct.word_classes.ContextRefiner` and one of these; a
        :class:`~sklstruct.mixture.MixtureLM` of all these, or "fast". The
        `checkpoint` of a log-linear model that is not part of another is a file in a
        folder that all workers and the client share: the shards write their states
        beside it, and `fit` continues from them. Its `n_jobs` is the number of threads
        for each shard.

    max_depth, min_count, max_vocabulary, vocabulary
        As in :class:`~sklstruct.language_model.LanguageModel`.

    unknown, start, end, analyzer, out_of_vocabulary
        As in :class:`~sklstruct.language_model.LanguageModel`.

    client : distributed.Client or str, default=None
        The client of the cluster, or the address of its scheduler. None: the current
        client. A client is not copied with the model and not pickled.

    n_shards : int, default=None
        Number of shards, at least 1; it may exceed that of the workers. The same number
        gives the same model, bit by bit, on any number of workers. None: the number of
        workers when `fit` is called. A fit continues from a checkpoint with the same
        number only, so give the number with a checkpoint.

    gather : bool, default=True
        True: `fit` copies the model to this process. False: its shards stay on the
        workers until this object is fitted again or deleted; `save` writes them,
        `compute` copies them to this process and sets `estimator_` and
        `backoff_model_`. Mixtures and pipelines are always copied.

    folder : str or os.PathLike, default=None
        Folder for files of contexts, which all workers and this process see under this
        name: a mixture, a pipeline and `min_count` of a log-linear model need four
        bytes on the disk for each word and symbol of its context. The files are
        removed when the fit has ended. None: that of the system for temporary files,
        for workers on this machine.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.

    backoff_model_ : BackoffModel
        The model over the symbols themselves.

    vocabulary_ : object ndarray of shape (n_classes,)
        The symbols that are predicted: words in sorted order, `unknown`, `end`.

    shard_sizes_ : list of tuple (str, int, int)
        For each shard the process that fitted it, and its numbers of contexts and of
        pairs, the root included. Those of all fits, if the models of a mixture were
        fitted one after the other.

    n_exchanges_ : int
        Number of sums over all shards.

    n_bytes_exchanged_ : int
        Bytes of the arrays of these sums, to and from the shards. The counts of the
        shards and the gathered model, which are sent once, are not included.

    n_lost_shards_ : int
        Number of times that a shard was restored because its worker was lost.

    See Also
    --------
    sklstruct.language_model.LanguageModel : The same in one process.

    sklstruct.loglinear.Checkpoint : File of the state of a long fit.

    Notes
    -----
    If a worker is lost, the cluster counts its shards again on other workers, from the
    text, and repeats the answers to all shards since the last checkpoint, or since the
    beginning; the other shards wait. Shards of contexts in `folder` are made from its
    files. The result is the same bit by bit. If the
    scheduler is lost, the fit ends with an error; with a checkpoint the same fit on
    another cluster continues from it.

    For many small fits, such as `GridSearchCV` over `LanguageModel`, this class is not
    needed: ``joblib.parallel_config("dask")`` sends whole fits to the workers.

    References
    ----------
    .. [1] M. Rocklin, "Dask: Parallel Computation with Blocked algorithms and Task
       Scheduling", SciPy 2015.

    Examples
    --------
    >>> from sklstruct.distributed import DaskLanguageModel
    >>> from sklstruct.smoothing import WittenBellLM
    >>> model = DaskLanguageModel(WittenBellLM(), max_depth=2, n_shards=2)
    >>> import dask.bag, distributed  # doctest: +SKIP
    >>> client = distributed.Client(n_workers=2)  # doctest: +SKIP
    >>> model.fit(dask.bag.read_text("text-*.txt"))  # doctest: +SKIP
    """

    _parameter_constraints: dict = {
        **LanguageModel._parameter_constraints,
        "max_depth": [Interval(numbers.Integral, 1, DEEPEST, closed="both")],
        "client": "no_validation",
        "n_shards": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "gather": ["boolean"],
        "folder": [str, os.PathLike, None],
    }

    def __init__(
        self,
        estimator: BaseEstimator | Quality | None = None,
        *,
        max_depth: int = 4,
        min_count: int = 1,
        max_vocabulary: int | None = None,
        unknown: Any = "<unk>",
        start: Any = "<s>",
        end: Any = "</s>",
        vocabulary: ArrayLike | None = None,
        analyzer: Analyzer = "word",
        out_of_vocabulary: str = "error",
        client: Any = None,
        n_shards: int | None = None,
        gather: bool = True,
        folder: str | os.PathLike | None = None,
    ):
        super().__init__(
            estimator,
            max_depth=max_depth,
            min_count=min_count,
            max_vocabulary=max_vocabulary,
            unknown=unknown,
            start=start,
            end=end,
            vocabulary=vocabulary,
            analyzer=analyzer,
            out_of_vocabulary=out_of_vocabulary,
        )
        self.client = client
        self.n_shards = n_shards
        self.gather = gather
        self.folder = folder

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(  # type: ignore[override]  # workers read X; there are no weights
        self, X: Iterable, y: Any = None, *, X_val: Iterable | None = None
    ) -> DaskLanguageModel:
        """Fit the estimator to sentences that the workers read.

        Parameters
        ----------
        X : dask.bag.Bag, TextFile or iterable of sentences
            The elements of a bag are sentences, such as the lines of
            ``dask.bag.read_text``. All workers must see text files under the same
            names. Other sentences are sent to them.

        y : None
            Ignored.

        X_val : iterable of sentences, default=None
            Held-out sentences in this process, from which the weights of a mixture are
            learnt. None: the last sentences of X, as in `LanguageModel`.

        Returns
        -------
        self : DaskLanguageModel
            Fitted model.

        Raises
        ------
        ImportError
            If Dask is not installed.
        TypeError, ValueError
            If the estimator or its solver cannot work on shards, there is no client, a
            checkpoint belongs to another fit, or as in `LanguageModel`.
        OSError
            If a worker does not see `folder`, or its disk is full.
        RuntimeError
            If there are no workers, they have other versions of the package, all stay
            paused, several are lost with the same shard, or the scheduler is lost.
        """
        client = find_client(self.client)
        estimator = self._check_parameters()
        if isinstance(estimator, BackoffClassifier):
            sharded_fit(estimator)
            if X_val is not None:
                refuse_held_out(estimator)
            given = estimator.get_params(deep=False)
            checkpoint = Checkpoint.of_kind(given.get("checkpoint"), self, folder=False)
        else:
            self._check_composed(estimator, X_val)
        self._drop_remote()  # the workers have one model at a time

        rule = self.analyzer
        cluster = Cluster(client, text_parts(X, client, rule), rule)
        text = Vocabulary(cluster.read())
        text.odd.warn(rule)
        if rule != "char":
            warn_of_unsplit(text)
        if not text.n_sentences:
            raise ValueError(f"X is empty: there is no sentence to learn from in {X!r}")
        labels = vocabulary_rules(self).find_labels(text)
        if isinstance(self.estimator, str):
            estimator = self._check_parameters(labels.n_classes)
        prepare_for_ids(estimator, labels)

        context = self._init_callback_context(max_subtasks=1)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        inner = context.subcontext(task_name="fit-estimator")
        with collect_fallbacks(self.estimator, self.analyzer):
            if isinstance(estimator, BackoffClassifier):
                self._fit_shards(estimator, labels, cluster, checkpoint, inner, X)
            else:
                self._fit_composed(estimator, labels, cluster, inner, X, X_val)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _check_composed(self, estimator, X_val):
        check_composed(estimator, self.max_depth)
        if not self.gather:
            raise ValueError(
                f"gather=False: a {type(estimator).__name__} is put together in this "
                "process; set gather=True"
            )
        if X_val is not None and not isinstance(estimator, MixtureLM):
            refuse_held_out(estimator)

    def _count_shards(self, cluster):
        return self.n_shards or len(cluster.client.nthreads())

    def _rows(self, cluster, labels, exclude):
        n_shards = self._count_shards(cluster)
        return TextRows(cluster, labels, self.max_depth, n_shards, self.folder, exclude)

    def _fit_composed(self, estimator, labels, cluster, context, X, X_val):
        held_out = ()
        if X_val is not None:
            encoder = SentenceEncoder(labels)
            tokens = encode_held_out(self, encoder, X_val)
            held_out = encoder.windows(tokens, self.max_depth)
        rows = self._rows(cluster, labels, self.out_of_vocabulary == "exclude")
        with (
            cluster.client.as_current(),
            context.propagate_callback_context(estimator),
        ):
            context.call_on_fit_task_begin(estimator=self, X=X, y=None)
            if isinstance(estimator, MixtureLM):
                estimator.fit_rows(rows, *held_out)
            else:
                rows.fit_pipeline(estimator)
            context.call_on_fit_task_end(estimator=self, X=X, y=None)
        self._set_fitted(estimator, labels)
        self._set_figures([driver for driver, _ in rows.fits])
        self.shard_sizes_ = [size for _, sizes in rows.fits for size in sizes]

    def _set_figures(self, drivers):
        self.n_exchanges_ = sum(driver.n_exchanges for driver in drivers)
        self.n_bytes_exchanged_ = sum(driver.n_bytes for driver in drivers)
        self.n_lost_shards_ = sum(driver.n_losses for driver in drivers)

    def _fit_shards(self, estimator, labels, cluster, checkpoint, inner, X):
        how, remote = sharded_fit(estimator), for_workers(estimator)
        shards: Any = cluster
        if estimator.least_context > 1:
            shards = self._rows(cluster, labels, False).words(remote).shards(remote)
        else:
            n_shards = self._count_shards(cluster)
            cluster.count(remote, labels, self.max_depth, n_shards)
        driver = ShardDriver(shards, remote, checkpoint)
        try:
            with driver.client.as_current():
                with inner.propagate_callback_context(estimator):
                    inner.call_on_fit_task_begin(estimator=self, X=X, y=None)
                    with how.reporting(estimator) as report:
                        notes = driver.run(report)
                    inner.call_on_fit_task_end(estimator=self, X=X, y=None)
                sizes = driver.ask_all("describe")
        except BaseException:
            driver.close()
            raise
        for message, category in notes:
            warnings.warn(message, category, stacklevel=3)
        self._set_fitted(None, labels)
        del self.estimator_
        self._remote = Remote(driver, estimator, shards.n_levels)
        self.shard_sizes_ = sizes
        if self.gather:
            self.compute()
        self._set_figures([driver])  # with the losses of gathering

    def _set_fitted(self, estimator, labels, model=None):
        super()._set_fitted(estimator, labels, model)
        self._remote = None

    def _drop_remote(self):
        remote = self.__dict__.pop("_remote", None)
        if remote is not None:
            remote.driver.close()

    @property
    def predictor(self) -> Any:
        if self._on_workers():
            raise AttributeError(
                "gather=False: the model is on the workers of the cluster; compute() "
                "copies it to this process, and save writes it from there"
            )
        return super().predictor

    def _on_workers(self):
        return self.__dict__.get("_remote") is not None

    def compute(self) -> DaskLanguageModel:
        """Copy a model of ``gather=False`` from the workers to this process.

        Returns
        -------
        self : DaskLanguageModel
            With `estimator_` and `backoff_model_`; the workers are free. Nothing
            happens if the model is already in this process.

        Raises
        ------
        ValueError
            If it has more than :math:`2^{31} - 1` pairs.
        SchedulerLost
            If the scheduler of the cluster is lost.
        """
        check_is_fitted(self)
        if not self._on_workers():
            return self
        driver, estimator, _ = self._remote
        labels = self._labels
        ids = Labels.of_ids(labels.n_classes, labels.n_symbols)
        with driver.client.as_current():
            driver.gather(estimator, self.max_depth, ids)
        self._set_fitted(estimator, labels)
        driver.close()
        return self

    def save(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        method: str = "exact",
        **options: Any,
    ) -> None:
        """Write the model to a file, from the workers if it is there.

        The file is that of the gathered model, byte by byte. The shards first exchange
        the back-off weights of contexts whose lines belong to another shard, 8 bytes
        and the ids of the symbols for each, and then send their lines, a few MB at a
        time. A lost worker is replaced as in `fit`.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            As in `LanguageModel`: the file takes its name when it is complete.

        format : str, default=None
            As in `LanguageModel`; only ``"arpa"`` if the model is on the workers.

        method : {"exact", "union"}, default="exact"
            As in `LanguageModel`; "union" needs a model in this process.

        **options
            As in `LanguageModel`; `precision` only if the model is on the workers.

        Raises
        ------
        ValueError
            If a symbol cannot be written (empty, or with white space in it).
        SchedulerLost
            If the model is on the workers, and the scheduler is lost.
        """
        check_is_fitted(self)
        if self._on_workers() and method == "union":
            raise ValueError(
                "method='union' is for a MixtureLM, which is never on workers"
            )
        if not self._on_workers() or method != "exact":
            super().save(path, format=format, method=method, **options)
            return
        format = exchange.format_to_write(path, format, "path")
        if format != "arpa":
            raise ValueError(
                f"format must be 'arpa' while the model is on workers, got {format!r}; "
                "compute() copies it to this process"
            )
        driver, _, n_levels = self._remote
        plan = ArpaPlan(self._labels, driver.bounds, n_levels, **options)
        with driver.client.as_current():
            writer = ArpaWriter(driver, plan)
            with open_write(path) as file:
                writer.put(file)
            driver.ask_all("end_arpa")

    def __sklearn_clone__(self):
        # A client is a connection: copies share it.
        client, self.client = self.client, None
        try:
            copy = super().__sklearn_clone__()
        finally:
            self.client = client
        return copy.set_params(client=client)

    def __getstate__(self):
        if self._on_workers():
            raise TypeError(
                "gather=False: the model is on the workers of the cluster and cannot "
                "be pickled; compute() copies it to this process"
            )
        state = super().__getstate__()
        if not isinstance(self.client, str):
            state["client"] = None
        return state
