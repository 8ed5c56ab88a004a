"""KenLM's three programs: lmplz, query, build_binary."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import numpy as np

from .. import exchange
from .._checks import physical_memory
from ..backoff import BackoffModel, Counted
from ..backoff._counted import bytes_per_token
from ..backoff._discounts import estimate_discounts
from ..compat import kenlm
from ..context_tree import Pairs
from ..smoothing._shares import (
    discount_levels,
    hand_down,
    leave_out,
    reached,
)
from ..symbols import NumberedText, SentenceEncoder, TextFile, VocabularyRules
from ..symbols._text import LargeText
from ._write import write_model

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
    if arguments.interpolate_unigrams != 1:
        raise ValueError("--interpolate_unigrams: only 1 is supported")
    _tell_ignored(arguments)
    order, prune = arguments.order, arguments.prune
    if prune != sorted(prune) or len(prune) > order:
        raise ValueError(
            f"--prune {' '.join(map(str, prune))}: counts must not fall, and be at "
            f"most {order}, the order"
        )
    min_count: Any = 1
    if prune:
        prune = prune + [prune[-1]] * (order - len(prune))
        min_count = [count + 1 for count in prune]
    depth = order - 1
    vocabulary = arguments.limit_vocab_file
    width = max(1, depth)
    rules = VocabularyRules(
        vocabulary=None if vocabulary is None else TextFile(vocabulary),
        analyzer="kenlm",
    )
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
    counted = Counted.of_tokens(tokens, encoder.labels, width, **options)
    del tokens, encoder
    labels, pairs, count = counted.labels, counted.pairs, counted.count
    del counted
    if count[labels.end_id] == 0:
        source = "standard input" if arguments.text == "-" else arguments.text
        raise ValueError(f"{source} is empty: there is no sentence to learn from")
    words = np.delete(count[: pairs.n_classes], labels.end_id)
    keep = reached(pairs, count, min_count)
    used = pairs.adjust_counts(count)
    discounts = _discounts(pairs, used, arguments.discount_fallback)
    if not arguments.quiet:
        _print_statistics(
            pairs if keep is None else pairs.select(keep)[0],
            discounts,
            int(words.sum()),
        )
    base = np.full(pairs.n_classes, 1.0 / pairs.n_classes)
    root = used[: pairs.n_classes].copy()
    own, held = discount_levels(pairs, used, discounts, 0)
    if keep is not None:
        pairs, own, held, _ = leave_out(pairs, own, held, keep)
    numbers = hand_down(pairs, own, held, root, base, 0)
    if pairs.extension is not None:  # then the file does not need them
        pairs.forget_parents()
    write_model(BackoffModel(pairs, *numbers, labels), arguments.arpa)


def _discounts(pairs: Pairs, count: np.ndarray, fallback: list[float] | None) -> Any:
    """Modified Kneser-Ney discounts; ValueError if an order needs a fallback."""
    rows, problems = [], []
    for k in range(pairs.tree.n_levels):
        row, problem = estimate_discounts(count[pairs.level(k)], "modified", False)
        rows.append(row)
        if problem is not None:
            problems.append(f"of the {k + 1}-grams {problem}")
    if problems and fallback is None:
        more = f" (and {len(problems) - 1} orders more)" if problems[1:] else ""
        raise ValueError(
            "the text is too small to estimate discounts, or its words were chosen: "
            f"{problems[0]}{more}; --discount_fallback takes 0.5, 1 and 1.5, as KenLM "
            "does"
        )
    if problems and fallback not in ([], [0.5, 1.0, 1.5]):
        raise ValueError("--discount_fallback: only 0.5 1 1.5 is supported")
    return np.array(rows)


def _print_statistics(pairs: Pairs, discounts: np.ndarray, n_tokens: int) -> None:
    """Counts and discounts in the words of lmplz, which programs read."""
    n_types = pairs.n_classes + 1  # and <s>
    print(f"Unigram tokens {n_tokens} types {n_types}", file=sys.stderr)
    print("Statistics:", file=sys.stderr)
    for k in range(pairs.tree.n_levels):
        here = pairs.level(k)
        n = here.stop - here.start + (k == 0)
        d = discounts[k]
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
    _tell_ignored(arguments)
    files = list(arguments.files)
    if len(files) == 3:
        kind = files.pop(0)
        if kind != "probing":
            raise ValueError(f"{kind}: only the type probing is written")
    if len(files) != 2:
        raise ValueError("INPUT and OUTPUT were expected")
    model = exchange.read(files[0], format="arpa")
    exchange.write(model, files[1], format="kenlm", multiplier=arguments.multiplier)


def query(arguments: argparse.Namespace) -> None:
    """``sklstruct query``."""
    _tell_ignored(arguments)
    levels = set(arguments.level or ["all"])
    every = not levels.isdisjoint({"all", "2"})
    show_word = every or "word" in levels
    show_line = every or not levels.isdisjoint({"sentence", "1"})
    show_summary = every or not levels.isdisjoint({"summary", "0", "1"})
    model, marks = kenlm.Model(arguments.model), arguments.marks
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
                text = b"</s>" if is_end else words[i]
                word_id = end_id if is_end else model.id_of(text)
                shown = _shortest(np.float32(log_prob))
                put(f"{text.decode('utf-8', 'replace')}={word_id} {length} {shown}\t")
        n_tokens += len(scores)
        if not whole:
            break
        if show_line:
            put(f"Total: {_shortest(of_line)} OOV: {unknown}\n")
        total += float(of_line)
        n_unknown += unknown
        if arguments.flush:
            sys.stdout.flush()
    if show_summary:
        known = n_tokens - n_unknown
        put(f"Perplexity including OOVs:\t{_perplexity(total, n_tokens)}\n")
        put(f"Perplexity excluding OOVs:\t{_perplexity(total - of_unknown, known)}\n")
        put(f"OOVs:\t{n_unknown}\nTokens:\t{n_tokens}\n")


def _perplexity(total: float, n: int) -> str:
    return _shortest(np.float64(10.0 ** (-total / n))) if n else "nan"


def _shortest(value: np.floating) -> str:
    """The shortest digits that give the number back, as KenLM prints them."""
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        return np.format_float_positional(value, unique=True, trim="-")
    return np.format_float_scientific(value, unique=True, trim="-", exp_digits=1)
