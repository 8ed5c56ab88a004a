"""DaskLanguageModel: a LanguageModel that is trained on a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Integral
from typing import Any, BinaryIO, NamedTuple

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._checkpoint import Checkpoint
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    Interval,
    MetaEstimatorMixin,
    _fit_context,
    with_callbacks,
)
from .._files import check_writable
from ..backoff import BackoffClassifier, refuse_held_out
from ..language_model import LanguageModel
from ..language_model._encode import encode_held_out, number, vocabulary_rules
from ..language_model._quality import merge_warnings
from ..language_model._unknown import warn_of_unsplit
from ..mixture import MixtureLM
from ..symbols import Labels, SentenceEncoder, prepare_for_ids
from ._client import find_client
from ._cluster import Cluster
from ._driver import ShardDriver
from ._parts import Vocabulary, text_parts
from ._rows import TextRows, check_composed, for_workers
from ._save import save_shards
from ._sharded_fit import most_bytes, sharded_fit


class Remote(NamedTuple):
    """A fitted model on the workers."""

    driver: ShardDriver
    lm: LanguageModel  # not fitted
    estimator: BackoffClassifier  # not fitted
    labels: Labels


class DaskLanguageModel(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Language model trained on a Dask cluster.

    .. math::
        F(w) = \underbrace{F_0(w_{()})}_{\text{root}}
        + \sum_{s} F_s(w_{()}, w_s), \qquad
        w_s \text{ the weights of the contexts of shard } s .

    All contexts that end in the same symbol are one branch below the empty context, and
    no sum over contexts crosses branches except at the root. Each worker counts the
    parts of the text that it reads, in pieces that fit its memory, and writes the
    counts to its disk. The branches are divided into shards of about equal numbers of
    samples; a large branch of a smoother is divided by its next symbols. A shard merges
    the counts of its contexts from the disks. The program that fits a model in one
    process runs on all shards, and stops at each sum over the shards. A worker has one
    shard of a smoother in memory at a time, and as many shards of a log-linear model as
    fit into half of its memory; the other shards are in files. In an iteration the
    shards exchange the sums at the root, and at divided branches: a few arrays with one
    number for each class. For any number of workers, the result is equal to the result
    of `LanguageModel`: exactly for models of counts, and up to rounding for log-linear
    models.

    After `fit` the model is in files on the disks of the workers, and can be larger
    than their memory. `compute` copies the model to this process, as a `LanguageModel`.
    `save` writes a file from the workers.

    Parameters
    ----------
    model : LanguageModel
        Not fitted; it is cloned. Its `estimator` is a
        :class:`~sklstruct.loglinear.StructuredLogLinearLM` (None: with its defaults),
        with one of the solvers that run on shards ("auto", "tree_metric", "diagonal",
        "fista") and one of the penalties "l1", "l2", "elastic_net" and "tree_l2"; or
        :class:`~sklstruct.smoothing.KneserNeyLM`,
        :class:`~sklstruct.smoothing.AbsoluteDiscountLM`,
        :class:`~sklstruct.smoothing.WittenBellLM` or
        :class:`~sklstruct.smoothing.KatzLM`; a pipeline of a
        :class:`~sklstruct.word_classes.ContextRefiner` and one of these; a
        :class:`~sklstruct.mixture.MixtureLM` of all these, or "fast". The
        `checkpoint` of a log-linear model that is not part of another is a file in a
        folder that all workers and the client share: the shards write their states
        beside it, at the start and once in each interval, and `fit` continues from
        them. Its `n_jobs` is the number of threads
        for each shard.

    client : distributed.Client or str, default=None
        The client of the cluster, or the address of its scheduler. None: the current
        client. A client is not copied with the model and not pickled.

    n_shards : int, default=None
        Number of shards, at least 1; it may exceed that of the workers. The same number
        gives the same model, bit by bit, on any number of workers. None: the number of
        workers when `fit` is called, or more, so that a shard fits into half of a
        worker's memory beyond its imports. A fit continues from a checkpoint with the
        same number only, so give the number with a checkpoint.

    folder : str or os.PathLike, default=None
        Folder for files of contexts, which all workers and this process see under this
        name: a mixture, a pipeline and a log-linear model with `min_count` need four
        bytes on the disk for each word, and four for each symbol of its context. The
        files are removed at the end of the fit. None: the system's folder for temporary
        files, which is enough if all workers are on this machine.

    Attributes
    ----------
    model_ : LanguageModel
        The fitted model in this process: after `compute`. A mixture or a pipeline is
        assembled in this process, so that it is set by `fit`.

    shard_sizes_ : list of tuple (str, int, int)
        For each shard, the process that fitted it and its numbers of counted contexts
        and pairs. Contexts above those of the shard, such as the root, are included. If
        the models of a mixture were fitted one after the other, the list has the shards
        of all fits.

    n_exchanges_ : int
        Number of sums over all shards.

    n_bytes_exchanged_ : int
        Bytes of the arrays of these sums, to and from the shards. The counts of the
        shards and the computed model, which are sent once, are not included.

    n_lost_shards_ : int
        Number of times that a shard was restored because its worker was lost.

    See Also
    --------
    sklstruct.language_model.LanguageModel : The same in one process.

    sklstruct.loglinear.Checkpoint : File of the state of a long fit.

    Notes
    -----
    If a worker is lost, other workers count its parts of the text again, merge its
    shards, and repeat the answers to all shards since the last checkpoint, or since the
    beginning; the other shards wait. Shards of contexts in `folder` are made from its
    files. The result is the same bit by bit. If the scheduler is lost, the fit ends
    with an error; with a checkpoint the same fit on another cluster continues from it.

    For many small fits, such as `GridSearchCV` over `LanguageModel`, this class is not
    needed: ``joblib.parallel_config("dask")`` sends whole fits to the workers.

    References
    ----------
    .. [1] M. Rocklin, "Dask: Parallel Computation with Blocked algorithms and Task
       Scheduling", SciPy 2015.

    Examples
    --------
    >>> from sklstruct.distributed import DaskLanguageModel
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import WittenBellLM
    >>> trigrams = LanguageModel(WittenBellLM(), max_depth=2)
    >>> trainer = DaskLanguageModel(trigrams, n_shards=2)
    >>> import dask.bag, distributed  # doctest: +SKIP
    >>> client = distributed.Client(n_workers=2)  # doctest: +SKIP
    >>> trainer.fit(dask.bag.read_text("text-*.txt"))  # doctest: +SKIP
    >>> lm = trainer.compute()  # doctest: +SKIP
    """

    _parameter_constraints: dict = {
        "model": [LanguageModel],
        "client": "no_validation",
        "n_shards": [Interval(Integral, 1, None, closed="left"), None],
        "folder": [str, os.PathLike, None],
    }

    def __init__(
        self,
        model: LanguageModel,
        *,
        client: Any = None,
        n_shards: int | None = None,
        folder: str | os.PathLike | None = None,
    ):
        self.model = model
        self.client = client
        self.n_shards = n_shards
        self.folder = folder

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Iterable, y: Any = None, *, X_val: Iterable | None = None
    ) -> DaskLanguageModel:
        """Fit the model to sentences that the workers read.

        Parameters
        ----------
        X : Dask collection, list of Delayed, TextFile or iterable of sentences
            The elements of a bag, such as the lines of ``dask.bag.read_text``, of a
            Dask series or an array are sentences; a Delayed gives a list of them. All
            workers must see text files under the same names. Counting takes a quarter
            of a worker's memory, and at most `memory` of the `TextFile`. Other
            sentences are sent to the workers.

        y : None
            Ignored.

        X_val : iterable of sentences, default=None
            Held-out sentences in this process, from which the weights of a mixture are
            learnt. None: the last sentences of X, as in `LanguageModel`.

        Returns
        -------
        self : DaskLanguageModel
            Fitted; the model is on the workers.

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
        if self.model.max_depth < 1:
            raise ValueError(
                "model: max_depth=0 of the LanguageModel is for a fit in one process; "
                "set it to 1 or more"
            )
        client = find_client(self.client)
        if self.folder is not None:
            check_writable(os.path.join(self.folder, ".sklstruct"), name="folder")
        lm = clone(self.model)
        lm._validate_params()
        if lm.checkpoint is not None:
            raise ValueError(
                "model: checkpoint of the LanguageModel is for a fit in one process; "
                "set checkpoint of its estimator"
            )
        estimator = lm._check_parameters()
        checkpoint = None
        if isinstance(estimator, BackoffClassifier):
            sharded_fit(estimator)
            given = estimator.get_params(deep=False)
            checkpoint = Checkpoint.of(given.get("checkpoint"), self, folder=False)
        else:
            check_composed(estimator, lm.max_depth)
        if X_val is not None and not isinstance(estimator, MixtureLM):
            refuse_held_out(estimator)
        self._drop()  # the workers have one model at a time

        rule = lm.analyzer
        if X_val is not None:
            X_val = number(X_val, rule, "X_val")
        parts, memory = text_parts(X, client, rule)
        cluster = Cluster(client, parts, rule, memory)
        text = Vocabulary(cluster.read())
        text.odd.warn(rule)
        if rule != "char":
            warn_of_unsplit(text)
        if not text.n_sentences:
            raise ValueError(f"X is empty: give at least one sentence in {X!r}")
        labels = vocabulary_rules(lm).find_labels(text)
        if isinstance(lm.estimator, str):
            estimator = lm._check_parameters(labels.n_classes)
        prepare_for_ids(estimator, labels)

        context = self._init_callback_context(max_subtasks=1)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        inner = context.subcontext(task_name="fit-estimator")
        with (
            merge_warnings(lm.estimator, rule),
            client.as_current(),
            inner.propagate_callback_context(estimator),
        ):
            inner.call_on_fit_task_begin(estimator=self, X=X, y=None)
            if isinstance(estimator, BackoffClassifier):
                self._fit_shards(lm, estimator, labels, cluster, text, checkpoint)
            else:
                self._fit_composed(lm, estimator, labels, cluster, X_val)
            inner.call_on_fit_task_end(estimator=self, X=X, y=None)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _rows(self, cluster, lm, labels, exclude):
        shards = self.n_shards, self.folder
        return TextRows(cluster, labels, lm.max_depth, *shards, exclude)

    def _fit_composed(self, lm, estimator, labels, cluster, X_val):
        held_out = ()
        if X_val is not None:
            encoder = SentenceEncoder(labels)
            tokens = encode_held_out(lm, encoder, X_val)
            held_out = encoder.windows(tokens, lm.max_depth)
        rows = self._rows(cluster, lm, labels, lm.out_of_vocabulary == "exclude")
        if isinstance(estimator, MixtureLM):
            estimator.fit_rows(rows, *held_out)
        else:
            rows.fit_pipeline(estimator)
        lm._set_fitted(estimator, labels)
        self.model_ = lm
        self._set_figures([driver for driver, _ in rows.fits])
        self.shard_sizes_ = [size for _, sizes in rows.fits for size in sizes]

    def _fit_shards(self, lm, estimator, labels, cluster, text, checkpoint):
        remote = for_workers(estimator)
        shards: Any = cluster
        if estimator.least_context > 1:
            rows = self._rows(cluster, lm, labels, False)
            shards = rows.words(remote).shards(remote)
        else:
            longest, sizes = remote.max_depth, text.sizes(labels)
            depth = lm.max_depth if longest is None else longest
            n_bytes = most_bytes(estimator, int(sizes.sum()), depth)
            n_shards = cluster.choose_shards(self.n_shards, n_bytes)
            divide = sharded_fit(estimator).restarts
            cluster.count(labels, sizes, lm.max_depth, longest, n_shards, divide)
        driver = ShardDriver(shards, remote, checkpoint)
        try:
            self.shard_sizes_ = driver.fit(estimator)
        except BaseException:
            driver.close()
            raise
        self._remote = Remote(driver, lm, estimator, labels)
        self._set_figures([driver])

    def _set_figures(self, drivers):
        self.n_exchanges_ = sum(driver.n_exchanges for driver in drivers)
        self.n_bytes_exchanged_ = sum(driver.n_bytes for driver in drivers)
        self.n_lost_shards_ = sum(driver.n_losses for driver in drivers)

    def _drop(self):
        """Forget the model of an earlier fit."""
        vars(self).pop("model_", None)
        remote = vars(self).pop("_remote", None)
        if remote is not None:
            remote.driver.close()

    def compute(self) -> LanguageModel:
        """Copy the model from the workers to this process.

        Returns
        -------
        model : LanguageModel
            The fitted model, `model_`; the workers are free. The same object if the
            model is already in this process.

        Raises
        ------
        ValueError
            If the model has more than :math:`2^{31} - 1` pairs.
        RuntimeError
            If the scheduler of the cluster is lost.
        """
        check_is_fitted(self, "shard_sizes_")
        if not self._on_workers():
            return self.model_
        driver, lm, estimator, labels = self._remote
        ids = Labels.of_ids(labels.n_classes, labels.n_symbols)
        with driver.client.as_current():
            driver.gather(estimator, lm.max_depth, ids)
        lm._set_fitted(estimator, labels)
        self._set_figures([driver])  # with the losses of gathering
        self._drop()
        self.model_ = lm
        return lm

    def _on_workers(self):
        return "_remote" in vars(self)

    def save(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        **options: Any,
    ) -> None:
        """Write the model to a file, from the workers if it is there.

        All shards write their parts of the file at the same time, and the numbers of
        the model do not pass through this process. The file has the same bytes as a
        file of the computed model (a compressed file after decompression). A lost
        worker is replaced as in `fit`.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            As in `LanguageModel`: the file takes its name when it is complete. While
            the model is on the workers, a file in a folder that this process and all
            workers see under one name. For an ARPA file or a KenLM binary the folder
            must have room for twice the size. Only an ARPA file can be compressed.

        format : str, default=None
            As in `LanguageModel`; all but ``"att"`` if the model is on the workers.

        **options
            As in `LanguageModel`.

        Raises
        ------
        ValueError
            If a symbol cannot be written (empty, or with white space in it), the value
            of a parameter is not valid, or a native file would have more than
            :math:`2^{31} - 1` pairs.
        OSError
            If a worker does not see the folder, or the disk is full.
        RuntimeError
            If the model is on the workers, and the scheduler is lost.
        """
        check_is_fitted(self, "shard_sizes_")
        if not self._on_workers():
            self.model_.save(path, format=format, **options)
            return
        driver, _, _, labels = self._remote
        with driver.client.as_current():
            save_shards(driver, labels, path, format, **options)

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
                "the model is on the workers of the cluster and cannot be pickled; "
                "pickle the result of compute(), which is in this process"
            )
        state = super().__getstate__()
        if not isinstance(self.client, str):
            state["client"] = None
        return state

    def __sklearn_tags__(self):
        return self.model.__sklearn_tags__()
