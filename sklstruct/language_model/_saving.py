"""FilesMixin: a language model in files of this and other programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from sklearn.utils.validation import check_is_fitted

from .. import exchange
from .._files import check_path
from ..backoff import BackoffModel, mix
from ..backoff._model import check_model
from ..symbols import Labels, need_symbols, object_array
from ..symbols._text import BLANK, Analyzer
from ._predictors import WindowClassifier


class FilesMixin:
    """Methods that save and load a language model, or make it of a back-off model."""

    if TYPE_CHECKING:
        analyzer: Analyzer

        def __init__(self, **params: Any) -> None: ...
        def _validate_params(self) -> None: ...
        def _set_fitted(self, estimator: Any, labels: Labels, tree: Any) -> None: ...

        @property
        def backoff_model_(self) -> BackoffModel: ...

    @property
    def from_file(self) -> bool:
        """True if this model, or the one it was cloned from, was read from a file.

        Such a file does not say how the model was trained: `fit` replaces the model by
        a new model of `estimator`. To use the model inside other estimators, give
        ``FrozenEstimator(model)``.
        """
        return getattr(self, "_from_file", False)

    def save(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        **options: Any,
    ) -> None:
        """Write the model to a file that other programs read.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            A file whose name ends in ``.gz``, ``.bz2`` or ``.xz`` is compressed. The
            file is renamed to `path` when it is complete; an older file stays until
            then.

        format : {"arpa", "kenlm", "trie", "att", "native"}, default=None
            Format of the file: the text of ARPA files, the probing binary or the trie
            of KenLM, the text of a weighted automaton of AT&T's and OpenFst's tools, or
            a file of this library. None: the format of the suffix, ``.arpa`` or
            ``.lm``; ``.bin``, ``.binary``, ``.klm`` or ``.kenlm``; ``.trie``; ``.att``;
            ``.sklm``. A file object, a pipe or a device gets ``"arpa"``.

        **options
            Options of the format. Of ``"arpa"``: `precision` (None), decimals of the
            log10 values, 1 to 15; None: the digits of single precision. Of ``"kenlm"``:
            `multiplier` (1.5), buckets of the hash tables for each n-gram, above 1. Of
            ``"trie"``: `prob_bits` (None), 1 to 25 bits to which numbers are quantised,
            `backoff_bits` (None: as `prob_bits`), 2 to 25, and `pointer_bits` (None), 0
            to 255, the most bits that are taken out of a pointer. Of ``"att"``:
            `backoff` ("<epsilon>"), the symbol of the arcs that read nothing. Of
            ``"native"``: `dtype` ("float64"); "float32" halves the numbers and rounds
            them.

        Raises
        ------
        AttributeError
            If the model is not a table of n-grams, such as a model over refined
            contexts, a factored model, and a mixture that was trained as a whole or
            whose weights depend on the history. ``joblib.dump`` keeps any model.
        ValueError
            If a symbol cannot be written (empty, or with white space in it).
        TypeError
            If the format does not have the option.

        Warns
        -----
        UserWarning
            If the model is a mixture; see Notes.

        See Also
        --------
        load : The reverse.

        Notes
        -----
        A mixture of fitted models with constant weights, such as by `interpolate`, is
        written as one table with the n-grams of all models. Their probabilities are
        those of the mixture. All other probabilities are approximate, because the
        models back off with different weights. ``joblib.dump`` keeps the mixture
        itself.
        """
        check_is_fitted(self)
        format = exchange.format_to_write(path, format, "path")
        try:
            model = table_of(self)
        except AttributeError as error:
            raise AttributeError(
                "save needs a model that is a BackoffModel; joblib.dump(model, path) "
                f"keeps any model. {error}"
            ) from None
        exchange.write(model, path, format=format, **options)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        out_of_vocabulary: str = "error",
        analyzer: Analyzer | None = None,
        **options: Any,
    ) -> Self:
        """Read a model from a file of this library or another program.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            Plain, or compressed by gzip, bzip2, xz or (from Python 3.14 on, before
            with the package ``backports.zstd``) zstd.

        format : {"arpa", "kenlm", "trie", "att", "native"}, default=None
            Format of the file; None: it is recognised by the first bytes, or by the
            suffix ``.att`` of the name.

        out_of_vocabulary : {"error", "exclude"}, default="error"
            Parameter of the model, for files without an unknown word.

        analyzer : {"word", "kenlm", "char"}, default=None
            As in `from_backoff`.

        **options
            Options of the format. Of ``"att"``: `backoff` ("<epsilon>"), the symbol of
            the arcs that back off. Of ``"native"``: `mmap` (True), whether a plain
            file is mapped, and `verify` (True), whether hashes are compared; pointers
            and ids are checked in any case. Of ``"kenlm"`` and ``"trie"``:
            `max_candidates` (1e11), the most candidates that are tried for the n-grams
            of one order of a probing binary.

        Returns
        -------
        model : LanguageModel
            Ready to score and sample; ``estimator_`` is None.

        Raises
        ------
        ValueError
            If the file is not valid; the message names the place. See :ref:`exchange`.
        TypeError
            If the format does not have the option.

        See Also
        --------
        save : The reverse.
        """
        if not hasattr(path, "read"):
            check_path(path, "path")
        model = exchange.read(path, format=format, **options)
        oov = out_of_vocabulary
        return cls.from_backoff(model, out_of_vocabulary=oov, analyzer=analyzer)

    @classmethod
    def from_backoff(
        cls,
        model: BackoffModel,
        *,
        out_of_vocabulary: str = "error",
        analyzer: Analyzer | None = None,
    ) -> Self:
        """Make a language model of a back-off model, such as a pruned model.

        Parameters
        ----------
        model : BackoffModel
            A model with context symbols; its arrays are shared.

        out_of_vocabulary : {"error", "exclude"}, default="error"
            Parameter of the language model, if `model` has no unknown word.

        analyzer : {"word", "kenlm", "char"}, default=None
            The rule by which the model splits strings. None: the rule of the labels of
            `model`, which is "kenlm" for all files but native files, because other
            files store no rule. With "char" the symbol ``"\u2581"``, which stands for a
            blank in files of models of characters, becomes a blank.

        Returns
        -------
        model : LanguageModel
            Ready to score and sample; ``estimator_`` is None.

        Examples
        --------
        >>> from sklstruct.backoff import prune
        >>> from sklstruct.language_model import LanguageModel
        >>> lm = LanguageModel("fast", max_depth=2).fit(["a b", "a c", "a b c"])
        >>> smaller = LanguageModel.from_backoff(prune(lm.backoff_model_, to=6))
        >>> smaller.backoff_model_.n_pairs
        6
        """
        check_model(model)
        labels = model.labels
        need_symbols(labels, "a model over sentences")
        out = cls(
            max_depth=model.max_depth,
            unknown=labels.unknown,
            start=labels.start,
            end=labels.end,
            analyzer=labels.analyzer if analyzer is None else analyzer,
            out_of_vocabulary=out_of_vocabulary,
        )
        out._validate_params()
        # Words are a table of strings or objects, as after `fit`. If they are already,
        # the model itself is used, because a mapped model is pickled as its file.
        are_objects = labels.strings is not None or (
            labels.classes.dtype == labels.known_symbols("").dtype == object
        )
        if not are_objects or labels.analyzer != out.analyzer:
            names = [labels.classes.tolist(), labels.known_symbols("").tolist()]
            if out.analyzer == "char" and labels.analyzer != "char":
                names = [[" " if w == BLANK else w for w in one] for one in names]
            settings = labels.settings | {"analyzer": out.analyzer}
            model = model.relabel(Labels(*map(object_array, names), **settings))
        out._set_fitted(None, model.labels, model)
        return out


def table_of(model: Any) -> BackoffModel:
    """The n-grams that a file of a fitted model holds, for a mixture those of all
    models; AttributeError for models that are not tables.
    """
    mixture = getattr(model, "estimator_", None)
    if hasattr(mixture, "weights_"):  # imports the package of mixtures if needed only
        from ..mixture import MixtureLM

        if isinstance(mixture, MixtureLM):
            return _table_of_mixture(mixture)
    return model.backoff_model_


def _table_of_mixture(mixture):
    if mixture.weights_ is None:
        raise AttributeError("the weights of the MixtureLM depend on the history")
    tables = []
    for name, part in mixture.models:
        fitted = getattr(part, "estimator", None)
        if not isinstance(fitted, WindowClassifier):
            raise AttributeError(
                f"{name!r} was trained inside the MixtureLM; train each model alone, "
                "and mix the fitted models by interpolate"
            )
        try:
            tables.append(table_of(fitted.model))
        except AttributeError as error:
            raise AttributeError(f"{name!r} of the MixtureLM: {error}") from None
    return mix(tables, mixture.weights_)
