"""KenLM's three programs: lmplz, query, build_binary."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import numpy as np

from .. import exchange
from .._checks import physical_memory
from ..backoff import BackoffModel, bytes_per_token, count_text
from ..backoff._backoff_fast import counts_of_counts
from ..backoff._discounts import FALLBACK, discounts_of_counts
from ..compat import kenlm
from ..context_tree import Pairs, renumber_pairs
from ..smoothing._shares import (
    discount_levels,
    hand_down,
    leave_out,
    reached,
)
from ..symbols import (
    Labels,
    NumberedText,
    SentenceEncoder,
    TextFile,
    VocabularyRules,
)
from ..symbols._text_file import LargeText
from ._files import is_pickle, source_of, write_model

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
    prune = prune + prune[-1:] * (order - len(prune))
    depth = order - 1
    width = max(1, depth)
    allowed = arguments.limit_vocab_file
    if allowed is not None:
        allowed = set(TextFile(allowed).number("kenlm").symbols)
    rules = VocabularyRules(analyzer="kenlm")
    text = _number(arguments, bytes_per_token(width))
    encoder = SentenceEncoder(rules.find_labels(text))
    front = width - 1
    options: dict[str, Any] = {"depth": depth, "skip": encoder.start}
    tokens: Any
    if isinstance(text, LargeText):
        size = text.part_size(bytes_per_token(width))
        tokens = encoder.encode_parts(text, size, front=front)
        options["folder"] = text.file.folder
    else:
        tokens = encoder.encode_known(text, front=front)
        options["extend"] = True  # for the file of the n-grams
    del text
    counted = count_text(tokens, encoder.labels, width, **options)
    del tokens, encoder
    labels, pairs, count = counted.labels, counted.pairs, counted.count
    del counted
    words = np.delete(count[: pairs.n_classes], labels.end_id)
    keep = _kept(pairs, count, labels, prune, allowed)
    used = pairs.adjust_counts(count)
    n_levels = pairs.tree.n_levels
    levels = [pairs.level(k) if k < n_levels else slice(0) for k in range(order)]
    counts = [used[here] for here in levels]
    discounts = _discounts(counts, fallback, arguments.quiet)
    if not arguments.quiet:
        kept = [
            c.size if keep is None else int(keep[h].sum())
            for c, h in zip(counts, levels)
        ]
        _print_statistics(kept, counts, discounts, int(words.sum()))
    root = used[: pairs.n_classes].copy()
    discounted, backoff_mass = discount_levels(pairs, used, discounts, 0)
    if keep is not None:
        stays = keep[: pairs.n_classes]
        pairs, discounted, backoff_mass, _ = leave_out(
            pairs, discounted, backoff_mass, keep
        )
        pairs, labels = _without_words(pairs, labels, stays)
        discounted = np.concatenate(
            [discounted[: stays.size][stays], discounted[stays.size :]]
        )
        root = root[stays]
    if arguments.interpolate_unigrams:
        n_words = max(pairs.n_classes, arguments.vocab_pad)
        base = np.full(pairs.n_classes, 1.0 / n_words)
    else:
        base = np.zeros(pairs.n_classes)
        base[labels.unknown_id] = 1.0
    numbers = hand_down(pairs, discounted, backoff_mass, root, base, 0)
    if pairs.extension is not None:  # then the file does not need them
        pairs.forget_parents()
    write_model(BackoffModel(pairs, *numbers, labels), arguments.arpa, "arpa")


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


def _kept(
    pairs: Pairs,
    count: np.ndarray,
    labels: Labels,
    prune: list[int],
    allowed: set[str] | None,
) -> np.ndarray | None:
    """A mask of the n-grams that stay; None: all do.

    An n-gram stays if it occurs more often than the number of its order in `prune`, and
    all of its words are allowed; the marks always stay.
    """
    if not any(prune) and allowed is None:
        return None
    least: Any = [n + 1 for n in prune] or 1
    keep = reached(pairs, count, least)
    if keep is None:
        keep = np.ones(pairs.n_pairs, dtype=bool)
    stays = count[: pairs.n_classes] >= np.atleast_1d(least)[0]
    if allowed is not None:
        stays &= [word in allowed for word in labels.classes.tolist()]
    stays[[labels.end_id, labels.unknown_id]] = True
    keep[: pairs.n_classes] = stays
    # A symbol that is not a class is the start mark.
    known = np.append(stays, True)[labels.class_of_symbol]
    tree = pairs.tree
    alive = np.ones(tree.n_nodes, dtype=bool)
    for k in range(1, tree.n_levels):
        here = tree.level(k)
        alive[here] = alive[tree.parent[here]] & known[tree.symbol[here]]
    keep &= alive[pairs.nodes()] & stays[pairs.target]
    return keep


def _without_words(
    pairs: Pairs, labels: Labels, stays: np.ndarray
) -> tuple[Pairs, Labels]:
    """The pairs and labels without words that only pairs of the root still have."""
    if stays.all():
        return pairs, labels
    symbols = labels.known_symbols("lmplz")
    known = np.append(stays, True)[labels.class_of_symbol]
    fewer = Labels(
        labels.classes[stays],
        symbols[known],
        start=labels.start,
        end=labels.end,
        unknown=labels.unknown,
        analyzer=labels.analyzer,
    )
    ids = [
        np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32)
        for mask in (stays, known)
    ]
    n_symbols = int(known.sum())
    smaller, _ = renumber_pairs(pairs, ids[0], fewer.n_classes, ids[1], n_symbols)
    return smaller, fewer


def _discounts(
    counts: list[np.ndarray], fallback: tuple[float, ...] | None, quiet: bool
) -> np.ndarray:
    """Modified Kneser-Ney discounts of the adjusted counts of each order.

    ValueError if an order needs a fallback, and `fallback` is None. Discounts are
    float32 numbers as in KenLM, which takes every D with 0 <= D <= i: whether a number
    that is 0 by the formula comes out below 0 depends on the precision.
    """
    rows: list[tuple[float, ...]] = []
    problems = []
    for k, adjusted in enumerate(counts):
        n = np.zeros(5)
        counts_of_counts(adjusted, n)
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
    kept: list[int], counts: list[np.ndarray], discounts: np.ndarray, n_tokens: int
) -> None:
    """Counts and discounts in the words of lmplz, which programs read."""
    # One more unigram is <s>.
    print(f"Unigram tokens {n_tokens} types {counts[0].size + 1}", file=sys.stderr)
    print("Statistics:", file=sys.stderr)
    for k, (n_kept, count, d) in enumerate(zip(kept, counts, discounts)):
        n = f"{n_kept + (k == 0)}"
        if n_kept < count.size:
            n += f"/{count.size + (k == 0)}"
        print(
            f"{k + 1} {n} D1={d[0]:.6g} D2={d[1]:.6g} D3+={d[2]:.6g}", file=sys.stderr
        )


def _number(
    arguments: argparse.Namespace, bytes_per_token: int
) -> NumberedText | LargeText:
    """The words of the text, without marks."""
    memory = _bytes(arguments.memory)
    source = sys.stdin.buffer if arguments.text == "-" else arguments.text
    file = TextFile(source, skip_blank_lines=False, memory=memory)
    text = file.number_or_count(bytes_per_token, "kenlm")
    text.odd.warn("kenlm", arguments.text)
    if text.n_sentences == 0:
        source = "standard input" if arguments.text == "-" else arguments.text
        raise ValueError(f"{source} is empty: there is no sentence to learn from")
    marks = [i for i, word in enumerate(text.symbols) if word in _MARKS]
    if not marks:
        return text
    if arguments.skip_symbols:
        return text.without(marks)
    parts = [text] if isinstance(text, NumberedText) else text.parts(1 << 20)
    part = next(part for part in parts if np.isin(part.tokens, marks).any())
    raise ValueError(
        f"{part.where_is(marks[0])} holds {text.symbols[marks[0]]}, a mark and no "
        "word; --skip_symbols takes it for white space"
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
    exchange.write(model, arguments.output, format=format, **options)


_LEVELS = {"2": 3, "1": 2, "0": 1}


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
        elif level in _LEVELS:  # as KenLM, it takes the place of those before
            levels = set(names[: _LEVELS[level]])
        else:
            levels.add(level)
    model = kenlm.Model(arguments.model)
    show_word, show_line = "word" in levels, "sentence" in levels
    marks = arguments.marks
    put = sys.stdout.write
    end_id = model.id_of(b"</s>")
    total = of_unknown = 0.0
    n_unknown = n_tokens = 0
    for line in sys.stdin.buffer:
        # KenLM does not count words after the last line end as a sentence.
        whole = line.endswith(b"\n")
        words = line.split()
        scores = list(model.full_scores(line, bos=marks, eos=marks and whole))
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
                word_id = end_id if is_end else model.id_of(word)
                text = word.decode("utf-8", "surrogateescape")
                value = _shortest(np.float32(log_prob))
                put(f"{text}={word_id} {length} {value}\t")
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
