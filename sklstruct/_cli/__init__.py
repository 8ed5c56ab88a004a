"""The command `sklstruct`: subcommands, their arguments, exit codes.

This module imports only the standard library, so that ``--help`` is fast. A subcommand
is a function of `_models`, `_tables` or `_kenlm`, which is imported when it runs.

Exit codes: 0; 1 for data or files, with one line on stderr; 2 for wrong arguments; 130
after Ctrl-C; 141 if the reader of a pipe went away.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["SMOOTHING", "build_binary", "lmplz", "main", "query"]

SMOOTHING = ("kneser-ney", "absolute-discount", "witten-bell", "katz", "log-linear")
# The names of `LanguageModel(estimator)`, whose module is not imported here.
QUALITY = ("fast", "good", "better", "best")
# Arguments that name files to read and files to write.
_INPUTS = ("model", "models", "text", "vocabulary", "tune", "limit_vocab_file")
_OUTPUTS = ("output", "arpa")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None: those of the process.

    Returns
    -------
    code : int
        Exit code.
    """
    try:
        arguments = _parser().parse_args(argv)
    except BrokenPipeError:
        return _pipe_closed()
    name = arguments.subcommand
    module, function = arguments.run

    def tell(message: Any, category: type, *_: Any) -> None:
        if not arguments.quiet:
            print(f"sklstruct {name}: warning: {message}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = tell  # type: ignore[assignment]
            run: Callable[[argparse.Namespace], None] = getattr(
                import_module(module, __name__), function
            )
            _check_files(arguments)
            run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _pipe_closed()
    except (OSError, ValueError, MemoryError, RuntimeError) as exc:
        message = str(exc) or type(exc).__name__
        print(f"sklstruct {name}: {message}", file=sys.stderr)
        return 1
    return 0


def _pipe_closed() -> int:
    # The interpreter flushes standard output when it ends, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def lmplz() -> int:
    """``sklstruct lmplz`` with the arguments of the process."""
    return main(["lmplz", *sys.argv[1:]])


def query() -> int:
    """``sklstruct query`` with the arguments of the process."""
    return main(["query", *sys.argv[1:]])


def build_binary() -> int:
    """``sklstruct build_binary`` with the arguments of the process."""
    return main(["build_binary", *sys.argv[1:]])


def _check_files(arguments: argparse.Namespace) -> None:
    """ValueError if an output file is an input too."""
    given = vars(arguments)
    outputs = [given[name] for name in _OUTPUTS if given.get(name)]
    inputs: list[str] = []
    for name in _INPUTS:
        value = given.get(name) or []
        inputs += [value] if isinstance(value, str) else value
    inputs = [path for path in inputs if os.path.exists(path)]
    for output in filter(os.path.exists, outputs):
        if any(os.path.samefile(output, path) for path in inputs):
            raise ValueError(
                f"{output} would be read and written; give the output another name"
            )


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
        for one in [parser, *_subparsers(parser).values()]:
            for action in one._actions:
                if action.metavar in ("FILE", "MODEL", "TEXT"):
                    action.complete = shtab.FILE
        print(shtab.complete(parser, values), flush=True)
        parser.exit(0)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sklstruct",
        description="Train, evaluate, sample, prune, mix, convert language models of "
        "words.",
    )
    parser.add_argument(
        "--print-completion", action=_Completion, choices=("bash", "zsh", "tcsh"),
        help="print the completion script of this shell, and exit",
    )  # fmt: skip
    add = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    _add_train(add)
    _add_evaluate(add)
    _add_sample(add)
    _add_prune(add)
    _add_mix(add)
    _add_convert(add)
    _add_info(add)
    _add_lmplz(add)
    _add_query(add)
    _add_build_binary(add)
    return parser


def _subcommand(
    add: Any,
    name: str,
    module: str,
    help: str,
    *,
    model: bool = False,
    output: bool = False,
    json: bool = False,
) -> argparse.ArgumentParser:
    """A subcommand with its common arguments."""
    one = add.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    one.set_defaults(run=(module, name.replace("-", "_")))
    one.add_argument(
        "-q", "--quiet", action="store_true", help="no warnings and no progress"
    )
    if model:
        one.add_argument(
            "model", metavar="MODEL",
            help="ARPA file, plain or packed, KenLM binary, native file, or .pkl of "
            "this program",
        )  # fmt: skip
    if output:
        one.add_argument(
            "-o", "--output", metavar="FILE", required=True,
            help="file of the model; its suffix is the format: .arpa; .bin, "
            ".binary, .klm or .kenlm for a KenLM binary; .sklm for a native file; .pkl "
            "for a pickle; that of another format of sklstruct.exchange; then .gz, "
            ".bz2 or .xz to compress it; - for an ARPA file to standard output",
        )  # fmt: skip
    if json:
        one.add_argument("--json", action="store_true", help="print JSON")
    return one


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        return value

    number.__name__ = f"number of at least {least}"
    return number


def _add_train(add: Any) -> None:
    one = _subcommand(add, "train", "._models", "train a model on text", output=True)
    one.add_argument(
        "text", nargs="+", metavar="TEXT",
        help="file of one sentence a line, words with white space between them, plain "
        "or packed; - for standard input",
    )  # fmt: skip
    one.add_argument(
        "-n", "--order", type=_at_least(1), default=5, help="length of the n-grams (5)"
    )
    how = one.add_mutually_exclusive_group()
    how.add_argument(
        "--smoothing", choices=SMOOTHING, default=SMOOTHING[0], help="(kneser-ney)"
    )
    how.add_argument(
        "--quality", choices=QUALITY,
        help="better is slower; all but fast are written as a .pkl",
    )  # fmt: skip
    one.add_argument(
        "--tune", metavar="TEXT",
        help="held-out text for the weights of --quality good, better and best",
    )  # fmt: skip
    one.add_argument(
        "--min-count", type=_at_least(1), default=1, metavar="N",
        help="words that occur less often become the unknown word (1)",
    )  # fmt: skip
    one.add_argument(
        "--max-vocabulary", type=_at_least(1), metavar="N", help="most frequent words"
    )
    one.add_argument("--vocabulary", metavar="FILE", help="file of all words")
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
    one = _subcommand(add, "evaluate", "._models", help, model=True, json=True)
    one.add_argument(
        "text", nargs="?", default="-", metavar="TEXT",
        help="file of one sentence a line; - or nothing for standard input",
    )  # fmt: skip
    how = one.add_mutually_exclusive_group()
    how.add_argument(
        "--by-depth", action="store_true",
        help="by the number of words of context that the model used",
    )  # fmt: skip
    how.add_argument(
        "--per-sentence", action="store_true",
        help="a line a sentence: log10-probability, tokens, unknown words, perplexity, "
        "sentence, with tabs between them",
    )  # fmt: skip


def _add_sample(add: Any) -> None:
    help = "print sentences drawn from a model"
    one = _subcommand(add, "sample", "._models", help, model=True)
    one.add_argument(
        "-k", type=_at_least(0), default=10, metavar="N", help="sentences (10)"
    )
    one.add_argument("--seed", type=_at_least(0), help="seed of the random numbers")
    one.add_argument(
        "--max-length", type=_at_least(0), default=100, metavar="N",
        help="words after which a sentence is cut (100)",
    )  # fmt: skip
    one.add_argument("--prefix", default="", help="first words of every sentence")
    one.add_argument(
        "--temperature", type=float, default=1.0, help="below 1: probable words (1)"
    )
    one.add_argument(
        "--top-k", type=_at_least(1), metavar="N", help="only the N most probable words"
    )
    one.add_argument(
        "--top-p", type=float, default=1.0,
        help="only the most probable words with this probability together (1)",
    )  # fmt: skip


def _add_prune(add: Any) -> None:
    help = "remove n-grams that change little"
    one = _subcommand(add, "prune", "._tables", help, model=True, output=True)
    how = one.add_mutually_exclusive_group()
    how.add_argument(
        "--threshold", type=float,
        help="remove n-grams that change the perplexity by less than this share",
    )  # fmt: skip
    how.add_argument(
        "--to", metavar="SIZE",
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
    one = _subcommand(add, "convert", "._tables", help, model=True)
    one.add_argument("output", metavar="FILE", help="as -o for train")
    one.add_argument("--precision", type=_at_least(1), help="decimals of an ARPA file")


def _add_info(add: Any) -> None:
    help = "print order, sizes and marks of a model"
    _subcommand(add, "info", "._tables", help, model=True, json=True)


def _add_lmplz(add: Any) -> None:
    one = _subcommand(
        add, "lmplz", "._kenlm", "train modified Kneser-Ney with the arguments of KenLM"
    )
    one.add_argument("-o", "--order", type=_at_least(1), required=True)
    # lmplz ignores arguments that are no options, and recipes pass "-" or "".
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
        "--interpolate_unigrams", nargs="?", const=1, default=1, type=int,
        help="only 1: unigrams are interpolated with the uniform distribution",
    )  # fmt: skip
    one.add_argument(
        "--skip_symbols", action="store_true",
        help="<s>, </s> and <unk> in the text are white space",
    )  # fmt: skip
    one.add_argument("--limit_vocab_file", metavar="FILE", help="all words")
    one.add_argument("-S", "--memory", default="80%", help="such as 4G or 80%% (80%%)")
    for name in (
        "-T --temp_prefix", "--vocab_estimate", "--vocab_pad", "--minimum_block",
        "--sort_block", "--block_count",
    ):  # fmt: skip
        one.add_argument(
            *name.split(), dest=f"ignored {name}", metavar="X", help="has no effect"
        )
    one.add_argument("--verbose_header", action="store_true", help="has no effect")
    for name in ("--intermediate", "--renumber", "--collapse_values"):
        one.add_argument(
            name, nargs="?", const="", dest=f"refused {name}", help="is refused"
        )


def _no_file(text: str) -> str:
    if text not in ("-", ""):
        raise argparse.ArgumentTypeError(f"{text!r}: --text names the text")
    return text


def _add_query(add: Any) -> None:
    help = "score sentences of standard input as KenLM's query"
    one = _subcommand(add, "query", "._kenlm", help, model=True)
    one.add_argument(
        "-v", dest="level", action="append",
        choices=["word", "sentence", "summary", "all", "0", "1", "2"],
        help="level of the output; may be repeated (all)",
    )  # fmt: skip
    one.add_argument("-n", dest="marks", action="store_false", help="no <s> and </s>")
    one.add_argument("-b", dest="flush", action="store_true", help="no buffer")
    one.add_argument("-l", dest="ignored -l", help="has no effect: files are mapped")


def _add_build_binary(add: Any) -> None:
    one = _subcommand(
        add, "build_binary", "._kenlm", "write a KenLM binary with KenLM's arguments"
    )
    one.add_argument(
        "-p", dest="multiplier", type=float, default=1.5, help="buckets an n-gram (1.5)"
    )
    one.add_argument("-i", dest="ignored -i", action="store_true", help="has no effect")
    one.add_argument("-s", dest="ignored -s", action="store_true", help="has no effect")
    one.add_argument("files", nargs="+", metavar="[probing] INPUT OUTPUT")
