"""KenLM's three programs: lmplz, query, build_binary."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator

import numpy as np

from .. import exchange
from .._checks import physical_memory
from .._files import open_write
from .._warnings import warn
from ..backoff import bytes_per_token, count_parts
from ..backoff._discounts import FALLBACK, discounts_of_counts
from ..compat import kenlm
from ..exchange._arpa_levels import ArpaLevels
from ..smoothing._levels import adjust_counts, smooth
from ..symbols import NumberedText, SentenceEncoder, TextFile, VocabularyRules
from ..symbols._text_file import LargeText
from ._files import is_pickle, label_of, source_of, target_of

_MARKS = {"<s>", "</s>", "<unk>"}
_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _tell_ignored(arguments: argparse.Namespace) -> None:
    given = vars(arguments).items()
    names = [k.split()[1] for k, v in given if k.startswith("ignored ") and v]
    if names and not arguments.quiet:
        name = arguments.subcommand
        print(f"sklstruct {name}: no effect: {', '.join(names)}", file=sys.stderr)


def lmplz(arguments: argparse.Namespace) -> None:
    """``sklstruct lmplz``."""
    for name, value in vars(arguments).items():
        if name.startswith("refused ") and value is not None:
            raise ValueError(f"{name.split()[1]} is not supported")
    if arguments.vocab_pad and not arguments.interpolate_unigrams:
        raise ValueError("--vocab_pad needs --interpolate_unigrams 1")
    fallback = _fallback(arguments.discount_fallback)
    _tell_ignored(arguments)
    order, prune = arguments.order, arguments.prune
    if prune != sorted(prune) or len(prune) > order:
        raise ValueError(
            f"--prune {' '.join(map(str, prune))}: counts must not fall, and be at "
            f"most {order}, the order"
        )
    # Counts that stay, of each order.
    least = np.array(prune + (prune[-1:] or [0]) * (order - len(prune))) + 1.0
    depth = order - 1
    width = max(1, depth)
    allowed = arguments.limit_vocab_file
    if allowed is not None:
        allowed = set(TextFile(allowed).number("kenlm").symbols)
    memory, folder = _bytes(arguments.memory), _folder(arguments.temp_prefix)
    rules = VocabularyRules(analyzer="kenlm")
    text = _number(arguments, memory, folder, bytes_per_token(width))
    encoder = SentenceEncoder(rules.find_labels(text))
    labels = encoder.labels
    tokens: Iterator[np.ndarray]
    if isinstance(text, LargeText):
        size = text.part_size(bytes_per_token(width), "-S")
        tokens = encoder.encode_parts(text, size)
    else:
        tokens = iter([encoder.encode_known(text)])
    del text
    run = count_parts(tokens, labels, depth, skip=encoder.start, folder=folder)
    del tokens, encoder
    root = run.levels[0].counts.read(0, labels.n_classes)
    stays = root >= least[0]
    if allowed is not None:
        stays &= [word in allowed for word in labels.classes.tolist()]
    stays[[labels.end_id, labels.unknown_id]] = True
    # A symbol that is not a class is the start mark.
    known = np.append(stays, True)[labels.class_of_symbol]
    least[0] = 0.0  # `stays` says which unigrams do
    n_levels = len(run.levels)
    adjusted = adjust_counts(run, least[:n_levels], stays, known, folder)
    n_with = np.zeros((order, 5), dtype=np.int64)
    n_with[:n_levels] = adjusted.n_with
    discounts = _discounts(n_with, fallback, arguments.quiet)
    if not arguments.quiet:
        sizes = [level.target.size for level in run.levels]
        n_tokens = int(np.delete(root, labels.end_id).sum())
        _print_statistics(adjusted.n_kept, sizes, discounts, n_tokens)
    if arguments.interpolate_unigrams:
        n_words = max(np.count_nonzero(stays), arguments.vocab_pad)
        base = np.full(labels.n_classes, 1.0 / n_words)
    else:
        base = np.zeros(labels.n_classes)
        base[labels.unknown_id] = 1.0
    discounts = discounts[:n_levels]
    prob, backoff = smooth(run, adjusted.counts, discounts, base, folder)
    model = ArpaLevels(
        run, prob, backoff, adjusted.n_kept.tolist(), labels, memory // 4, folder
    )
    del adjusted
    with open_write(target_of(arguments.arpa)) as out:
        model.put(out)


def _folder(prefix: str | None) -> str | None:
    """The folder of a prefix of the names of temporary files."""
    if prefix is None:
        return None
    folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix) or "."
    if not os.path.isdir(folder):
        raise ValueError(f"-T {prefix}: {folder} is not a folder")
    return folder


def _fallback(given: list[float] | None) -> tuple[float, ...] | None:
    """The discounts of ``--discount_fallback``, the last also for larger counts."""
    if given is None:
        return None
    if not given:
        return FALLBACK["modified"]
    spelt = " ".join(f"{d:g}" for d in given)
    if len(given) > 3:
        raise ValueError(f"--discount_fallback {spelt}: at most 3 numbers")
    row = given + given[-1:] * (3 - len(given))
    for i, d in enumerate(row, start=1):
        if not 0.0 <= d <= i:
            raise ValueError(
                f"--discount_fallback {spelt}: the discount of count {i} must be "
                f"between 0 and {i}"
            )
    return tuple(row)


def _discounts(
    n_with: np.ndarray, fallback: tuple[float, ...] | None, quiet: bool
) -> np.ndarray:
    """Modified Kneser-Ney discounts of each order.

    n_with: (order, 5), the numbers of n-grams whose adjusted count is 1, 2, 3 and 4.
    ValueError if an order needs a fallback, and `fallback` is None. Discounts are
    float32 numbers as in KenLM, which takes every D with 0 <= D <= i: whether a number
    that is 0 by the formula comes out below 0 depends on the precision.
    """
    rows: list[tuple[float, ...]] = []
    problems = []
    for k, n in enumerate(n_with):
        few = next((i for i in (1, 2, 3) if not n[i]), None)
        if few is None:
            row = discounts_of_counts(n.astype(np.float32), "modified")
            bad = [i for i, d in enumerate(row, start=1) if not 0.0 <= d <= i]
            if not bad:
                rows.append(row)
                continue
            problem = f"the discount of count {bad[0]} is {row[bad[0] - 1]:.4g}"
        else:
            problem = f"no adjusted count is {few}"
        problems.append(f"of the {k + 1}-grams {problem}")
        if fallback is None:
            continue
        rows.append(fallback)
        if not quiet:
            d = fallback
            print(
                f"Substituting fallback discounts for order {k}: D1={d[0]:g} "
                f"D2={d[1]:g} D3+={d[2]:g}",
                file=sys.stderr,
            )
    if problems and fallback is None:
        more = f" (and {len(problems) - 1} orders more)" if problems[1:] else ""
        raise ValueError(
            "the text is too small to estimate discounts, or its words were chosen: "
            f"{problems[0]}{more}; --discount_fallback takes 0.5, 1 and 1.5, as KenLM "
            "does"
        )
    return np.array(rows, dtype=np.float64)


def _print_statistics(
    kept: np.ndarray, sizes: list[int], discounts: np.ndarray, n_tokens: int
) -> None:
    """Print counts and discounts in the format of lmplz, which programs parse."""
    # One more unigram is <s>.
    print(f"Unigram tokens {n_tokens} types {sizes[0] + 1}", file=sys.stderr)
    print("Statistics:", file=sys.stderr)
    n_levels = len(sizes)
    for k, d in enumerate(discounts):
        n_kept, size = (kept[k], sizes[k]) if k < n_levels else (0, 0)
        n = f"{n_kept + (k == 0)}"
        if n_kept < size:
            n += f"/{size + (k == 0)}"
        print(
            f"{k + 1} {n} D1={d[0]:.6g} D2={d[1]:.6g} D3+={d[2]:.6g}", file=sys.stderr
        )


def _number(
    arguments: argparse.Namespace, memory: int, folder: str | None, bytes_per_token: int
) -> NumberedText | LargeText:
    """The words of the text, without marks."""
    source = source_of(arguments.text)
    file = TextFile(source, skip_blank_lines=False, memory=memory, folder=folder)
    text = file.number_or_count(bytes_per_token, "kenlm")
    label = label_of(arguments.text)
    text.odd.warn("kenlm", label)
    if text.n_sentences == 0:
        raise ValueError(f"{label} is empty: give at least one sentence")
    marks = [i for i, word in enumerate(text.symbols) if word in _MARKS]
    if not marks:
        return text
    if arguments.skip_symbols:
        return text.without(marks)
    parts = [text] if isinstance(text, NumberedText) else text.parts(1 << 20)
    part = next(part for part in parts if np.isin(part.tokens, marks).any())
    raise ValueError(
        f"{part.where_is(marks[0])} contains {text.symbols[marks[0]]}, which is a mark "
        "and not a word; with --skip_symbols marks are read as white space"
    )


def _bytes(memory: str) -> int:
    """Bytes of a size such as ``4G`` or ``80%``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt%]?)", memory.lower())
    if not found or not float(found[1]) > 0:
        raise ValueError(f"-S {memory}: a size such as 4G or 80% was expected")
    if found[2] == "%":
        return int(physical_memory() * float(found[1]) / 100)
    return int(float(found[1]) * _UNITS[found[2] or "k"])


def build_binary(arguments: argparse.Namespace) -> None:
    """``sklstruct build_binary``."""
    given, kind = vars(arguments), arguments.kind
    if kind not in ("probing", "trie"):
        raise ValueError(f"{kind}: the type must be probing or trie")
    names = ("prob_bits", "backoff_bits", "pointer_bits")
    options = {name: given[name] for name in names if given[name] is not None}
    if kind == "probing":
        if options.keys() - {"pointer_bits"}:
            raise ValueError("-q and -b quantise a trie, and the type is probing")
        given["ignored -a"] = options.pop("pointer_bits", None)
        options["multiplier"] = arguments.multiplier
    elif "backoff_bits" in options and "prob_bits" not in options:
        raise ValueError("-b needs -q")
    if given["refused -r"] is not None:
        raise ValueError("-r: rest costs are not supported")
    _tell_ignored(arguments)
    source = source_of(arguments.model)
    model = exchange.read(source, format="arpa")
    if given["refused -u"] is not None and model.labels.unknown is None:
        raise ValueError(
            f"-u is not supported, and {arguments.model} has no <unk>; its probability "
            "is 10^-100 then"
        )
    format = "kenlm" if kind == "probing" else kind
    exchange.write(model, target_of(arguments.output), format=format, **options)


def query(arguments: argparse.Namespace) -> None:
    """``sklstruct query``."""
    _tell_ignored(arguments)
    if is_pickle(arguments.model):
        raise ValueError(
            f"{arguments.model} is a pickle, and query reads ARPA files and binaries; "
            "sklstruct convert makes them"
        )
    names = ("summary", "sentence", "word")
    levels: set[str] = set()
    for level in arguments.level or ["all"]:
        if level == "all":
            levels.update(names)
        elif level.isdecimal():  # as KenLM, it takes the place of those before
            levels = set(names[: int(level) + 1])
        else:
            levels.add(level)
    model = kenlm.Model(arguments.model)
    show_word, show_line = "word" in levels, "sentence" in levels
    marks = arguments.marks
    put = sys.stdout.write
    end_id = model.id_of(b"</s>")
    total = of_unknown = 0.0
    n_unknown = n_tokens = 0
    whole = True
    for line in sys.stdin.buffer:
        # KenLM does not count words after the last line end as a sentence.
        whole = line.endswith(b"\n")
        words = line.split()
        # `kenlm.Model` ends a word at NUL, and KenLM's query does not.
        read = [b"<unk>" if b"\0" in word else word for word in words]
        text = b" ".join(read)
        scores = list(model.full_scores(text, bos=marks, eos=marks and whole))
        of_line = np.float32(0)
        unknown = 0
        for i, (log_prob, length, oov) in enumerate(scores):
            of_line += np.float32(log_prob)
            is_end = i == len(words)
            if oov and not is_end:
                unknown += 1
                of_unknown += log_prob
            if show_word:
                word = b"</s>" if is_end else words[i]
                word_id = end_id if is_end else model.id_of(read[i])
                shown = word.decode("utf-8", "surrogateescape")
                value = _shortest(np.float32(log_prob))
                put(f"{shown}={word_id} {length} {value}\t")
        n_tokens += len(scores)
        if not whole:
            break
        if show_line:
            put(f"Total: {_shortest(of_line)} OOV: {unknown}\n")
        total += float(of_line)
        n_unknown += unknown
        if arguments.flush:
            sys.stdout.flush()
    if "summary" in levels:
        known = n_tokens - n_unknown
        put(f"Perplexity including OOVs:\t{_perplexity(total, n_tokens)}\n")
        put(f"Perplexity excluding OOVs:\t{_perplexity(total - of_unknown, known)}\n")
        put(f"OOVs:\t{n_unknown}\nTokens:\t{n_tokens}\n")
    if not whole:
        warn(
            "the last line has no line feed: its words are in Tokens, and not in the "
            "sums, as in KenLM's query; end the text with a line feed"
        )


def _perplexity(total: float, n: int) -> str:
    with np.errstate(all="ignore"):
        return _shortest(10.0 ** -np.divide(total, n))


def _shortest(value: np.floating) -> str:
    """The shortest digits that give the number back, as KenLM prints them."""
    if value == 0:
        return "-0" if np.signbit(value) else "0"
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else str(value)
    if 1e-6 <= abs(value) < 1e21:
        return np.format_float_positional(value, unique=True, trim="-")
    return np.format_float_scientific(value, unique=True, trim="-", exp_digits=1)
