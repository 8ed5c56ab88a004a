"""The arguments of the command `sklstruct` and its subcommands.

The module imports the standard library and lists of names only.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from ..language_model._names import QUALITIES

# Name of a model, such as "kneser-ney" -> package and class; None: a mixture.
MODELS: dict[str, tuple[str, str] | None] = {
    re.sub("(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("LM")).lower(): (package, name)
    for package in ("smoothing", "loglinear")
    for name in import_module(f"..{package}", __package__).__all__
    if name.endswith("LM")
} | dict.fromkeys(QUALITIES[1:])  # the first is kneser-ney


class _Version(argparse.Action):
    """``--version`` prints the version."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: Any = None
    ) -> None:
        print(f"sklstruct {import_module('sklstruct').__version__}", flush=True)
        parser.exit(0)


class _Name(str):
    """An argument after ``--``, which is not an option."""


class _Intermixed(argparse.ArgumentParser):
    """Options may stand between the names of files, as getopt of KenLM allows."""

    _inside = False

    def _parse_optional(self, arg_string: str) -> Any:
        if isinstance(arg_string, _Name):
            return None
        return super()._parse_optional(arg_string)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # argparse cannot parse intermixed arguments together with subcommands.
        if self._inside or subparsers(self):
            return super().parse_known_args(args, namespace)
        if "--" in args:
            first = args.index("--")
            args = [*args[:first], *map(_Name, args[first + 1 :])]
        self._inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False


class _Completion(argparse.Action):
    """``--print-completion SHELL`` prints the completion script of the shell."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: Any = None
    ) -> None:
        try:
            shtab = import_module("shtab")
        except ImportError:
            parser.exit(
                1,
                f"{parser.prog}: {option} needs shtab: pip install "
                "'sklstruct[completion]'\n",
            )
        for one in every_parser(parser).values():
            for action in one._actions:
                if action.metavar in ("FILE", "MODEL", "TEXT"):
                    action.complete = shtab.FILE
        print(shtab.complete(parser, values), flush=True)
        parser.exit(0)


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def every_parser(
    parser: argparse.ArgumentParser, name: str = "sklstruct"
) -> dict[str, Any]:
    """The parser and those of its subcommands, at all depths, by their last name."""
    found = {name: parser}
    for inner, one in subparsers(parser).items():
        found |= every_parser(one, f"{name} {inner}")
    return found


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sklstruct",
        description="Train, evaluate, sample, prune, mix, convert language models of "
        "words.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument(
        "--print-completion", action=_Completion, choices=("bash", "zsh", "tcsh"),
        help="print the completion script of this shell, and exit",
    )  # fmt: skip
    add = parser.add_subparsers(
        dest="subcommand", required=True, metavar="COMMAND", parser_class=_Intermixed
    )
    _add_train(add)
    _add_evaluate(add)
    _add_sample(add)
    _add_prune(add)
    _add_mix(add)
    _add_convert(add)
    _add_info(add)
    _add_classify(add)
    _add_lmplz(add)
    _add_query(add)
    _add_build_binary(add)
    return parser


_MODEL = (
    "ARPA file, plain or packed, KenLM binary, native file, or .pkl of this program; "
    "- for standard input"
)


def _subcommand(
    add: Any,
    name: str,
    module: str,
    help: str,
    *,
    model: str = "",
    output: bool = False,
    json: bool = False,
    quiet: Sequence[str] = ("-q", "--quiet"),
) -> argparse.ArgumentParser:
    """A subcommand with its common arguments."""
    one = add.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    one.set_defaults(run=(module, name.replace("-", "_")))
    one.add_argument(*quiet, action="store_true", help="no warnings and no progress")
    if model:
        one.add_argument("model", metavar="MODEL", help=model)
    if output:
        one.add_argument(
            "-o", "--output", metavar="FILE", required=True,
            help="file of the model; its suffix is the format: .arpa or .lm; .bin, "
            ".binary, .klm or .kenlm for a KenLM binary; .sklm for a native file; .pkl "
            "for a pickle; that of another format of sklstruct.exchange; then .gz, "
            ".bz2, .xz or .zst to compress it; - for an ARPA file to standard output",
        )  # fmt: skip
    if json:
        one.add_argument("--json", action="store_true", help="print JSON")
    return one


def _number(kind: Any, what: str, allowed: Callable[[Any], bool]) -> Any:
    def number(text: str) -> Any:
        with suppress(ValueError):
            value = kind(text)
            if allowed(value):
                return value
        raise argparse.ArgumentTypeError(f"{text!r}: {what} was expected")

    return number


def _at_least(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    whole = _number(int, f"a whole number of at least {least}", lambda n: n >= least)

    def number(text: str) -> int:
        value = whole(text)
        if value > most:
            raise argparse.ArgumentTypeError(f"{text}: at most {most}")
        return value

    return number


def _size(text: str) -> int | str:
    if text.isdecimal():
        return int(text)
    return text if re.fullmatch(r"\d+(\.\d+)?\s*[kMG]B", text) else 0


_ORDER = _at_least(1, 2**24 + 1)
_POSITIVE = _number(float, "a positive number", lambda value: 0 < value < math.inf)


def _add_train(add: Any) -> None:
    one = _subcommand(add, "train", "._models", "train a model on text", output=True)
    one.add_argument(
        "text", nargs="+", metavar="TEXT",
        help="file of one sentence per line, words with white space between them, "
        "plain or packed; - for standard input",
    )  # fmt: skip
    one.add_argument(
        "-n", "--order", type=_ORDER, default=5, help="length of the n-grams (5)"
    )
    one.add_argument(
        "--model", dest="estimator", choices=MODELS, default="kneser-ney",
        help="(kneser-ney); better and best are mixtures, slower and written as a .pkl",
    )  # fmt: skip
    one.add_argument(
        "--tune", metavar="TEXT", help="held-out text for the weights of a mixture"
    )
    one.add_argument(
        "--min-count", type=_at_least(1), default=1, metavar="N",
        help="words that occur less often become the unknown word (1)",
    )  # fmt: skip
    one.add_argument(
        "--max-vocabulary", type=_at_least(1), metavar="N", help="most frequent words"
    )
    one.add_argument(
        "--vocabulary", metavar="FILE", help="file of all words; - for standard input"
    )
    one.add_argument(
        "--unknown", default="<unk>", metavar="WORD", help="the unknown word (<unk>)"
    )
    one.add_argument(
        "--characters", action="store_true",
        help="learn characters instead of words, for text without spaces; a .pkl or "
        ".sklm keeps this for evaluate and sample",
    )  # fmt: skip


def _add_evaluate(add: Any) -> None:
    help = "print the perplexity of a text"
    one = _subcommand(add, "evaluate", "._models", help, model=_MODEL, json=True)
    one.add_argument(
        "text", nargs="?", default="-", metavar="TEXT",
        help="file of one sentence per line; - or nothing for standard input",
    )  # fmt: skip
    how = one.add_mutually_exclusive_group()
    how.add_argument(
        "--by-depth", action="store_true",
        help="by the number of words of context that the model used",
    )  # fmt: skip
    how.add_argument(
        "--per-sentence", action="store_true",
        help="a line per sentence: log10-probability, tokens, unknown words, "
        "perplexity, sentence, with tabs between them",
    )  # fmt: skip


def _add_sample(add: Any) -> None:
    help = "print sentences drawn from a model"
    one = _subcommand(add, "sample", "._models", help, model=_MODEL)
    one.add_argument(
        "-k", type=_at_least(0), default=10, metavar="N", help="sentences (10)"
    )
    one.add_argument(
        "--seed", type=_at_least(0, 2**32 - 1), help="seed of the random numbers"
    )
    one.add_argument(
        "--max-length", type=_at_least(0), default=100, metavar="N",
        help="words after which a sentence is cut (100)",
    )  # fmt: skip
    one.add_argument("--prefix", default="", help="first words of every sentence")
    one.add_argument(
        "--temperature", type=_POSITIVE, default=1.0,
        help="below 1: probable words (1)",
    )  # fmt: skip
    one.add_argument(
        "--top-k", type=_at_least(1), metavar="N", help="only the N most probable words"
    )
    one.add_argument(
        "--top-p", default=1.0,
        type=_number(float, "a number above 0 and at most 1", lambda p: 0 < p <= 1),
        help="only the most probable words with this probability together (1)",
    )  # fmt: skip


def _add_prune(add: Any) -> None:
    help = "remove n-grams that change little"
    one = _subcommand(add, "prune", "._tables", help, model=_MODEL, output=True)
    how = one.add_mutually_exclusive_group()
    how.add_argument(
        "--threshold",
        type=_number(float, "a number of at least 0", lambda least: least >= 0),
        help="remove n-grams that change the perplexity by less than this share",
    )  # fmt: skip
    how.add_argument(
        "--to", metavar="SIZE",
        type=_number(_size, "a number of n-grams, or a size such as 20MB,", bool),
        help="largest size of the result: 1000000 n-grams, or 20MB in memory",
    )  # fmt: skip
    one.add_argument(
        "--vocabulary", metavar="FILE",
        help="file of all words; others become the unknown word before pruning",
    )  # fmt: skip


def _add_mix(add: Any) -> None:
    help = "mix models of any vocabularies"
    one = _subcommand(add, "mix", "._mix", help, output=True, json=True)
    one.add_argument("models", nargs="+", metavar="MODEL", help="as for evaluate")
    how = one.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--weights", type=_weights, metavar="W,W",
        help="a weight for each model, with commas between them; their sum is 1",
    )  # fmt: skip
    how.add_argument(
        "--tune", metavar="TEXT", help="held-out text that the weights are learnt from"
    )


def _weights(text: str) -> list[float]:
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError as exc:
        message = f"{text!r}: numbers with commas between them were expected"
        raise argparse.ArgumentTypeError(message) from exc
    if not all(0.0 <= weight <= 1.0 for weight in weights):
        raise argparse.ArgumentTypeError(f"{text!r}: weights are between 0 and 1")
    if not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
        total = f"{sum(weights):g}"
        raise argparse.ArgumentTypeError(f"{text!r}: weights sum to 1, not {total}")
    return weights


def _add_convert(add: Any) -> None:
    help = "write a model in another format"
    one = _subcommand(add, "convert", "._tables", help, model=_MODEL)
    one.add_argument("output", metavar="OUTPUT", help="as -o for train")
    one.add_argument(
        "--precision", type=_at_least(1, 15), help="decimals of an ARPA file"
    )


def _add_info(add: Any) -> None:
    help = "print order, sizes and marks of a model"
    _subcommand(add, "info", "._tables", help, model=_MODEL, json=True)


def _add_classify(add: Any) -> None:
    help = "train, test and use classifiers of texts"
    group = add.add_parser("classify", help=help, description=f"{help.capitalize()}.")
    steps = group.add_subparsers(
        dest="step", required=True, metavar="STEP", parser_class=_Intermixed
    )
    file = (
        "lines of fastText, __label__x text; or, by the suffix, .tsv or .csv; plain or "
        "packed; - for standard input"
    )
    model = "file of classify train, or .bin or .ftz of fastText"
    module = "._classify"

    train = _subcommand(steps, "train", module, "train on labelled texts", json=True)
    train.add_argument("text", metavar="FILE", help=file)
    train.add_argument("output", metavar="MODEL", help="- for standard output")
    train.add_argument(
        "--features", choices=["auto", "letters", "words", "both"], default="auto",
        help="n-grams (auto)",
    )  # fmt: skip
    train.add_argument(
        "--min-count", type=_at_least(1), metavar="N",
        help="n-grams that are in fewer texts are left out (2, but 1 for words of "
        "at most 100 000 texts)",
    )  # fmt: skip
    train.add_argument(
        "-C", type=_POSITIVE, default=1.0,
        help="inverse of the regularisation, positive (1)",
    )  # fmt: skip
    train.add_argument(
        "--tune", metavar="FILE",
        help="held-out texts, by which small weights are left out; texts with labels "
        "that FILE lacks are passed over",
    )  # fmt: skip
    train.add_argument(
        "--seed", type=_at_least(0, 2**32 - 1), default=0, help="of random numbers (0)"
    )

    help = "print the most probable labels of each line"
    predict = _subcommand(steps, "predict", module, help, json=True)
    predict.add_argument("model", metavar="MODEL", help=model)
    predict.add_argument(
        "text", nargs="?", default="-", metavar="FILE",
        help="a text per line; - or nothing for standard input",
    )  # fmt: skip

    help = "print precision and recall of the most probable labels, and log-loss"
    test = _subcommand(steps, "test", module, help, json=True)
    test.add_argument("model", metavar="MODEL", help=model)
    test.add_argument("text", metavar="FILE", help=file)
    for one in (predict, test):
        one.add_argument("-k", type=_at_least(1), default=1, help="most labels (1)")
        one.add_argument(
            "--threshold", default=0.0, metavar="P",
            type=_number(float, "a number from 0 to 1", lambda p: 0 <= p <= 1),
            help="least probability of a label, from 0 to 1 (0)",
        )  # fmt: skip
    for one in (train, test):
        one.add_argument(
            "--label-prefix", default="__label__", metavar="PREFIX",
            help="first letters of labels in lines of fastText (__label__)",
        )  # fmt: skip
        one.add_argument(
            "--columns", type=_columns, metavar="LABEL,TEXT",
            help="columns of a .tsv or .csv (1,2)",
        )  # fmt: skip
        one.add_argument(
            "--header", action="store_true", help="leave out the first row"
        )


def _columns(text: str) -> tuple[int, int]:
    parts = text.split(",")
    numbers = {int(part) for part in parts if part.isdecimal()} - {0}
    if len(parts) != 2 or len(numbers) != 2:
        message = f"{text!r}: two different numbers of columns, from 1, were expected"
        raise argparse.ArgumentTypeError(message)
    return int(parts[0]), int(parts[1])


def _add_lmplz(add: Any) -> None:
    one = _subcommand(
        add, "lmplz", "._kenlm", "train modified Kneser-Ney with the arguments of KenLM"
    )
    one.add_argument("-o", "--order", type=_ORDER, required=True)
    # lmplz ignores arguments that are not options, and recipes pass "-" or "".
    one.add_argument("rest", nargs="*", type=_no_file, metavar="-", help="no effect")
    one.add_argument("--text", metavar="FILE", default="-", help="(standard input)")
    one.add_argument("--arpa", metavar="FILE", default="-", help="(standard output)")
    one.add_argument(
        "--prune", nargs="*", type=_at_least(0), default=[], metavar="COUNT",
        help="remove n-grams that occur at most so often, by order; the last repeats",
    )  # fmt: skip
    one.add_argument(
        "--discount_fallback", nargs="*", type=float, metavar="D",
        help="discounts of orders whose counts are too few (0.5 1 1.5)",
    )  # fmt: skip
    one.add_argument(
        "--interpolate_unigrams", nargs="?", const=True, default=True, type=_switch,
        metavar="0|1",
        help="0: the mass that the unigrams hold back is that of <unk> (1)",
    )  # fmt: skip
    one.add_argument(
        "--skip_symbols", action="store_true",
        help="<s>, </s> and <unk> in the text are white space",
    )  # fmt: skip
    one.add_argument(
        "--limit_vocab_file", metavar="FILE",
        help="n-grams with words that are not in this file are removed",
    )  # fmt: skip
    one.add_argument(
        "--vocab_pad", type=_at_least(0), default=0, metavar="N",
        help="<unk> gets the probability that it has among at least N words",
    )  # fmt: skip
    one.add_argument("-S", "--memory", default="80%", help="such as 4G or 80%% (80%%)")
    one.add_argument(
        "-T", "--temp_prefix", metavar="PREFIX",
        help="folder of temporary files, or a prefix of names in there",
    )  # fmt: skip
    _add_unused(
        one,
        ignored="--vocab_estimate --minimum_block --sort_block --block_count",
        switches="--verbose_header --renumber",
        refused="--intermediate --collapse_values",
    )


def _add_unused(
    one: argparse.ArgumentParser, ignored: str, switches: str = "", refused: str = ""
) -> None:
    """Options of KenLM that have no effect, with or without a value, or raise an
    error."""
    for name in ignored.split():
        one.add_argument(
            name, dest=f"ignored {name}", metavar="X", help="has no effect"
        )
    for name in switches.split():
        one.add_argument(
            name, dest=f"ignored {name}", action="store_true", help="has no effect"
        )
    for name in refused.split():
        one.add_argument(
            name, nargs="?", const="", dest=f"refused {name}", help="is refused"
        )


def _switch(text: str) -> bool:
    for value, names in ((True, "1 true yes on"), (False, "0 false no off")):
        if text.lower() in names.split():
            return value
    raise argparse.ArgumentTypeError(f"{text!r}: 0 or 1 was expected")


def _no_file(text: str) -> str:
    if text not in ("-", ""):
        raise argparse.ArgumentTypeError(f"{text!r}: --text names the text")
    return text


def _add_query(add: Any) -> None:
    help = "score sentences of standard input as KenLM's query"
    model = "ARPA file, plain or packed, KenLM binary or native file"
    one = _subcommand(add, "query", "._kenlm", help, model=model)
    one.add_argument(
        "-v", dest="level", action="append",
        choices=["word", "sentence", "summary", "all", "0", "1", "2"],
        help="level of the output; may be repeated (all). 2 is all, 1 is sentence and "
        "summary, 0 is summary",
    )  # fmt: skip
    one.add_argument("-n", dest="marks", action="store_false", help="no <s> and </s>")
    one.add_argument("-b", dest="flush", action="store_true", help="no buffer")
    _add_unused(one, ignored="-l")


def _add_build_binary(add: Any) -> None:
    # -q is the number of bits of KenLM.
    one = _subcommand(
        add, "build_binary", "._kenlm", "write a KenLM binary with KenLM's arguments",
        quiet=["--quiet"],
    )  # fmt: skip
    one.add_argument(
        "-p", dest="multiplier", type=float, default=1.5,
        help="buckets per n-gram (1.5)",
    )  # fmt: skip
    for name, dest, what in (
        ("-q", "prob_bits", "quantise the probabilities of a trie to so many bits"),
        ("-b", "backoff_bits", "quantise its back-off weights; needs -q (as -q)"),
        ("-a", "pointer_bits", "compress its pointers, at most so many bits of each"),
    ):
        one.add_argument(name, dest=dest, type=int, metavar="BITS", help=what)
    _add_unused(one, "-S -m -T -t -w", switches="-i -s -v", refused="-r -u")
    one.add_argument(
        "files", nargs="+", action=_Files, metavar="FILE",
        help="the type, probing (if left out) or trie; ARPA file; file of the binary",
    )  # fmt: skip


class _Files(argparse.Action):
    """``[TYPE] INPUT OUTPUT`` into `kind`, `model` and `output`."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: Any = None
    ) -> None:
        if len(values) not in (2, 3):
            parser.error("INPUT and OUTPUT were expected")
        namespace.kind = values[0] if len(values) == 3 else "probing"
        namespace.model, namespace.output = values[-2:]
