"""KenLM's binaries: models into files of either kind, and back."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import check_real
from .._files import any_place, folder_beside
from ..backoff import BackoffModel
from . import _probing, _trie
from ._arpa_read import Fail, Section, build_model, decode_words
from ._arpa_write import check_optional
from ._kenlm_entries import EntryFiles, Source, put_entries
from ._kenlm_fast import Tables
from ._kenlm_layout import (
    MOST_BITS,
    SIGN,
    Packing,
    read_layout,
    read_words,
)
from ._kenlm_ngrams import NGrams
from ._probing import ProbingFile
from ._trie import TrieFile

# ---------------------------------------------------------------------- writing


def check_multiplier(multiplier: float = 1.5) -> float:
    """The option of `sklstruct.exchange.write` for hash tables."""
    check_real("multiplier", multiplier, "(1, 100]")
    return multiplier


def check_packing(
    prob_bits: int | None = None,
    backoff_bits: int | None = None,
    pointer_bits: int | None = None,
) -> Packing:
    """The options of `sklstruct.exchange.write` for a trie."""
    prob_bits = check_optional("prob_bits", prob_bits, 1, MOST_BITS)
    # Two of the values of weights are fixed.
    backoff_bits = check_optional("backoff_bits", backoff_bits, 2, MOST_BITS)
    pointer_bits = check_optional("pointer_bits", pointer_bits, 0, 255)
    if prob_bits is None and backoff_bits is not None:
        raise ValueError("backoff_bits needs prob_bits")
    if prob_bits is not None and backoff_bits is None:
        backoff_bits = max(prob_bits, 2)
    return Packing(prob_bits, backoff_bits, pointer_bits)


def probing_image(model: BackoffModel, **options: Any) -> np.ndarray:
    """The bytes of the file of a model; see `sklstruct.exchange.write`."""
    file = io.BytesIO()
    write_probing(model, **options)(file)
    return np.frombuffer(file.getbuffer(), dtype=np.uint8)


def write_probing(
    model: BackoffModel, *, multiplier: float = 1.5
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    return _write(model, ProbingFile, check_multiplier(multiplier))


def write_trie(
    model: BackoffModel,
    *,
    prob_bits: int | None = None,
    backoff_bits: int | None = None,
    pointer_bits: int | None = None,
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    packing = check_packing(prob_bits, backoff_bits, pointer_bits)
    return _write(model, TrieFile, packing)


def _write(model: BackoffModel, kind: Any, option: Any) -> Callable[[Any], None]:
    ngrams = NGrams(model, by_hash=kind.by_hash)
    samples = [ngrams.sample()] if kind.by_hash else []
    written = kind(ngrams.counts, ngrams.ids, samples, option)

    def store(file: Any) -> None:
        with any_place(file) as image, folder_beside(image) as folder:
            written.begin(image, ngrams.ids.spelling(ngrams.words))
            source = Source(ngrams.parts(), ngrams.tree, ngrams.word_of_node)
            put_entries(folder, 0, written.entries(image, source))
            files = EntryFiles(folder, 1)
            written.values(image, files)
            written.finish(image, written.fill(image, files))

    return store


# ---------------------------------------------------------------------- reading


def read_kenlm(file: Any, label: str, *, max_candidates: float = 1e11) -> BackoffModel:
    """See `sklstruct.exchange.read`."""
    image = np.frombuffer(file.read(), dtype=np.uint8)
    layout = read_layout(image.data, label)

    def fail(message: str, line: int | None = None) -> ValueError:
        return ValueError(f"{label}: {message}")

    try:
        tables = Tables(image, layout)
    except ValueError as exc:
        raise fail(f"damaged: {exc}") from exc
    raw = [word.encode() for word in read_words(image, layout, label)]
    wrong = next((i for i, word in enumerate(raw) if tables.id_of(word) != i), None)
    if wrong is not None:
        raise fail(
            f"damaged: the word {raw[wrong][:80]!r} is spelt as number {wrong}, and "
            f"found as number {tables.id_of(raw[wrong])}"
        )
    spelt, roles = decode_words(fail, raw, 0)
    if layout.is_trie:
        found, known = _trie.ngrams(fail, image, layout)
    else:
        found = _probing.ngrams(fail, image, layout, max_candidates)
        known = layout.counts[0] == layout.n_words
    sections = [_section(fail, *part) for part in found]
    if not known:  # the file from which the tables were made had no <unk>
        del spelt[0], roles["unknown"]
        roles = {name: word - 1 for name, word in roles.items()}
        first = sections[0]
        sections[0] = Section(first.ids[:-1], first.values[1:], 0)
        sections[1:] = [part._replace(ids=part.ids - 1) for part in sections[1:]]
        if any((part.ids < 0).any() for part in sections):
            raise fail("damaged: an n-gram has <unk>, which is not a unigram")
    return build_model(fail, spelt, roles, sections)


def _section(
    fail: Fail, ids: np.ndarray, prob: np.ndarray, weight: np.ndarray
) -> Section:
    log_prob, weight = (bits.view(np.float32) for bits in (prob | SIGN, weight))
    values = np.column_stack([log_prob, weight]).astype(np.float64) + 0.0  # no -0
    bad = np.isnan(values).any(axis=1) | (values[:, 1] == np.inf)
    if bad.any():
        raise fail(
            f"damaged: a value of an n-gram of order {ids.shape[1]} is not a number"
        )
    return Section(np.ascontiguousarray(ids), values, 0)
