"""``sklstruct lmplz``, ``build_binary``, ``query`` against KenLM's programs.

Random corpora and options go through both; the outputs are compared line by line. The
folder of KenLM's programs is in the variable KENLM_PROGRAMS, or they are on the PATH::

    python tests/cli/kenlm_programs.py 200
    python tests/cli/kenlm_programs.py 24 --record tests/cli/kenlm_outputs.json

`test_kenlm_programs.py` runs the same comparison, against recorded outputs where the
programs are missing.

KenLM counts the last n-gram of each order below the highest by its occurrences and not
by the words before it. If this changes its discounts, both discounts are compared
with the formula, and then our program is given KenLM's.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from sklstruct import _cli
from sklstruct._cli import _kenlm

PROGRAMS = ("lmplz", "build_binary", "query")
MARKS = ("<s>", "</s>", "<unk>")
# Largest difference of a log10 number of KenLM, made in float32, and ours.
TOLERANCE = 2e-5


class Case(NamedTuple):
    """A text, the options of lmplz, and a text for query."""

    corpus: str
    order: int
    options: list[str]  # without --limit_vocab_file
    vocabulary: str | None
    test: str


class Outputs(NamedTuple):
    """The output of KenLM's programs."""

    code: int  # of lmplz; 0 or 1
    arpa: str
    statistics: list[str]
    queries: list[str]  # of the ARPA file and the binary, at each level
    tries: list[str] = []  # hashes of the binaries with the options `TRIES`


def find_programs() -> Path | None:
    """The folder of KenLM's programs; None: they are not installed."""
    folder = os.environ.get("KENLM_PROGRAMS")
    if folder is None:
        found = shutil.which("lmplz")
        # Our own program of this name is a script.
        if found is None or Path(found).read_bytes()[:2] == b"#!":
            return None
        folder = os.path.dirname(found)
    if all((Path(folder) / name).exists() for name in PROGRAMS):
        return Path(folder)
    return None


# ---------------------------------------------------------------- random cases

ODD_WORDS = [
    "a\x0bb", "c\x0cd", "e\x1cf", "\x1d", "g\u00a0h", "\u3000", "é", "🙂", "<UNK>",
    "#0", "-1.5", "\u2028x",
]  # fmt: skip


def random_case(seed: int) -> Case:
    """A case that depends on the seed only."""
    rng = random.Random(seed)
    order = rng.choice([1, 2, 2, 3, 3, 3, 4, 5])
    words = [f"w{i}" for i in range(rng.choice([3, 8, 20, 50]))]
    if rng.random() < 0.4:
        words += rng.sample(ODD_WORDS, 4)
    weights = [1.0 / (i + 1) ** rng.choice([0.0, 0.7, 1.2]) for i in range(len(words))]
    skip = rng.random() < 0.2
    blanks = [" "] * 12 + ["  ", "\t", "\r", "\0"]

    def line(marks: bool) -> str:
        chosen = rng.choices(words, weights, k=rng.choice([0, 1, 2, 4, 6, 9]))
        if marks and rng.random() < 0.3:
            chosen.insert(rng.randrange(len(chosen) + 1), rng.choice(MARKS))
        text = rng.choice(["", "", "", " "])
        for word in chosen:
            text += word + rng.choice(blanks)
        return text if rng.random() < 0.3 else text.rstrip(" ")

    lines = [line(skip) for _ in range(rng.choice([3, 10, 40, 120, 500]))]
    if rng.random() < 0.3:
        lines += rng.choices(lines, k=len(lines))
    options = ["--skip_symbols"] if skip else []
    fallback = rng.random()
    if fallback < 0.6:
        options.append("--discount_fallback")
    elif fallback < 0.8:
        row = [round(rng.uniform(0, i), 2) for i in (1, 2, 3)]
        options += ["--discount_fallback", *map(str, row[: rng.choice([1, 2, 3])])]
    if rng.random() < 0.5:
        prune = sorted(rng.choices([0, 0, 1, 1, 2], k=rng.randint(1, order)))
        # KenLM gives </s> the probability 1 if it is too rare.
        if prune[0] < len(lines):
            options += ["--prune", *map(str, prune)]
    if rng.random() < 0.2:
        options += ["--interpolate_unigrams", "0"]
    elif rng.random() < 0.2:
        options += ["--vocab_pad", str(rng.choice([2, 30, 1000]))]
    vocabulary = None
    if rng.random() < 0.3:
        kept = [word for word in words if rng.random() < 0.6]
        vocabulary = rng.choice([" ", "\n"]).join([*kept, "absent"]) + "\n"
    # KenLM's query splits at vertical tabs and form feeds, too; NUL belongs to words.
    test = "\n".join(line(True).replace("\0", " ") for _ in range(5)) + "\nnew w0\n"
    return Case("\n".join(lines) + "\n", order, options, vocabulary, test)


# -------------------------------------------------------------- both programs


def lmplz_options(case: Case, folder: Path) -> list[str]:
    """The arguments of lmplz; writes the list of words."""
    options = ["-o", str(case.order), *case.options]
    if case.vocabulary is not None:
        path = folder / "words.txt"
        path.write_bytes(case.vocabulary.encode())
        options += ["--limit_vocab_file", str(path)]
    return options


def statistics_of(text: str) -> list[str]:
    """Lines of lmplz about counts and discounts."""
    pattern = r"^(?:Unigram tokens .*|\d+ \d+(?:/\d+)? D1=.*|Substituting .*)$"
    return re.findall(pattern, text, re.M)


LEVELS = (["all"], ["sentence"], ["0"])
TRIES = ([], ["-a", 22], ["-q", 3, "-b", 2], ["-q", 8, "-a", 2])


def hash_of(path: Path) -> str:
    """The hash of a file, in the record."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def run_kenlm(case: Case, folder: Path, programs: Path) -> Outputs:
    """The output of KenLM's programs for a case."""

    def call(name: str, *arguments: Any, stdin: bytes = b"") -> Any:
        return subprocess.run(
            [programs / name, *map(str, arguments)],
            input=stdin,
            cwd=folder,
            capture_output=True,
            check=False,
        )

    small = ["-S", "40M", "-T", folder / "kenlm", "--vocab_estimate", 1000]
    made = call(
        "lmplz", *lmplz_options(case, folder), *small, stdin=case.corpus.encode()
    )
    statistics = statistics_of(made.stderr.decode())
    if made.returncode:
        return Outputs(1, "", statistics, [])
    (folder / "kenlm.arpa").write_bytes(made.stdout)
    queries = []
    if case.order > 1:  # KenLM reads no file of unigrams only
        # KenLM does not read each of its own files, such as one with weights of -inf.
        if call("build_binary", "kenlm.arpa", "kenlm.bin").returncode:
            return Outputs(0, made.stdout.decode(), statistics, [])
        for name in ("kenlm.arpa", "kenlm.bin"):
            for level in LEVELS:
                more = [] if level == ["all"] else ["-v", *level]
                done = call("query", *more, name, stdin=case.test.encode())
                queries.append(done.stdout.decode())
    tries = []
    # Our files have no empty highest order, and one word for <unk> and <UNK>.
    odd = "=0\n" in made.stdout.decode() or "\t<UNK>" in made.stdout.decode()
    for options in TRIES if queries and not odd else []:
        call("build_binary", *options, "trie", "kenlm.arpa", "kenlm.trie")
        tries.append(hash_of(folder / "kenlm.trie"))
    return Outputs(0, made.stdout.decode(), statistics, queries, tries)


def run_ours(*arguments: Any, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of our command."""
    streams = []
    for data in (stdin, b"", b""):
        streams.append(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    given, out, err = streams
    with (
        mock.patch.object(sys, "stdin", given),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _cli.main([str(a) for a in arguments])
    out.flush()
    err.flush()
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


# ------------------------------------------------------------------ the formula


def discounts_by_hand(case: Case, last_is_raw: bool) -> list[Any]:
    """(n_1 .. n_4, discounts or None) of each order, from counts in dictionaries.

    last_is_raw: as KenLM, which counts the last n-gram of an order below the highest by
    its occurrences; last in the order of the newest word, then of the one before, with
    words numbered as they appear.
    """
    n = case.order
    ids = {"<unk>": 0, "<s>": 1, "</s>": 2}
    full: Counter[tuple[int, ...]] = Counter()
    raw = [Counter() for _ in range(n + 1)]
    left = [{} for _ in range(n + 1)]
    for line in case.corpus.split("\n")[:-1]:
        words = [w for w in re.split("[\0\t\r ]+", line) if w and w not in MARKS]
        for word in words:
            ids.setdefault(word, len(ids))
        padded = [1] * (n - 1) + [ids[w] for w in words] + [2]
        for at in range(n - 1, len(padded)):
            full[tuple(padded[at - n + 1 : at + 1])] += 1
        marked = padded[max(n - 2, 0) :]
        for at in range(int(n > 1), len(marked)):
            for k in range(1, n + 1):
                if at - k + 1 < 0:
                    break
                gram = tuple(marked[at - k + 1 : at + 1])
                raw[k][gram] += 1
                if at - k >= 0:
                    left[k].setdefault(gram, set()).add(marked[at - k])
    last = max(full, key=lambda gram: gram[::-1])
    found = []
    for k in range(1, n + 1):
        counts = dict(raw[k])
        if k < n:
            for gram in counts:
                if gram[0] != 1:
                    counts[gram] = len(left[k][gram])
            if last_is_raw and last[n - k :] in counts:
                counts[last[n - k :]] = raw[k][last[n - k :]]
        of = Counter(counts.values())
        row = [np.float32(of[i]) for i in (1, 2, 3, 4)]
        found.append((row, _discounts_of(row)))
    return found


def _discounts_of(n: list[np.float32]) -> list[np.float32] | None:
    if not all(n[:3]):
        return None
    y = n[0] / np.float32(n[0] + 2 * n[1])
    row = [np.float32(j) - np.float32(j + 1) * y * n[j] / n[j - 1] for j in (1, 2, 3)]
    good = all(0 <= d <= j for j, d in enumerate(row, start=1))
    return row if good else None


# ------------------------------------------------------------------- comparison


class Result(NamedTuple):
    """The comparison of a case."""

    n_lines: int
    problems: list[str]
    last_ngram: bool  # whether KenLM's discounts are those of its miscounting


def read_arpa(text: str) -> dict[str, tuple[float, ...]]:
    """n-gram -> its numbers."""
    found: dict[str, tuple[float, ...]] = {}
    for line in text.split("\n"):
        if "\t" in line:
            first, gram, *rest = line.split("\t")
            found[gram] = (float(first), *map(float, rest))
    return found


def compare_arpa(theirs: str, ours: str) -> tuple[int, list[str]]:
    """(number of lines, what differs) of two files."""
    a, b = read_arpa(theirs), read_arpa(ours)
    problems = [f"only KenLM has {gram!r}" for gram in a.keys() - b.keys()]
    problems += [f"only ours has {gram!r}" for gram in b.keys() - a.keys()]
    for gram in a.keys() & b.keys():
        for x, y in zip(a[gram], b[gram]):
            # A probability of 0, or a weight of 0, is -inf in KenLM.
            x, y = max(x, -99.0), max(y, -99.0)
            if abs(x - y) > TOLERANCE * max(1.0, abs(x)):
                problems.append(f"{gram!r}: {a[gram]} and {b[gram]}")
                break
    return len(a), problems


def same_statistics(theirs: str, ours: str) -> bool:
    """Whether two lines hold the same words and, to float32, the same numbers."""
    a, b = (re.split(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)", text) for text in (theirs, ours))
    return len(a) == len(b) and all(
        x == y or abs(float(x) - float(y)) <= 1e-5 * max(1.0, abs(float(x)))
        if i % 2
        else x == y
        for i, (x, y) in enumerate(zip(a, b))
    )


def compare(case: Case, theirs: Outputs, folder: Path) -> Result:
    """Run our programs on a case and compare what they print."""
    right = discounts_by_hand(case, False)
    raw = discounts_by_hand(case, True)
    moved = [a[1] for a in raw] != [a[1] for a in right]
    arguments = [*lmplz_options(case, folder), "--arpa", folder / "ours.arpa"]
    corpus = case.corpus.encode()
    code, _, err = run_ours("lmplz", *arguments, stdin=corpus)
    fallback = "--discount_fallback" in case.options
    expected = int(not fallback and any(row is None for _, row in right))
    if code != expected:
        return Result(0, [f"exit code {code}: {err.splitlines()[-1:]}"], moved)
    if moved:
        if theirs.code != int(not fallback and any(row is None for _, row in raw)):
            return Result(0, ["KenLM's exit code is not that of its counts"], True)
        if theirs.code:
            return Result(0, [], True)
        rows = [row for _, row in raw]

        def discounts(counts: Any, given: Any, quiet: bool) -> Any:
            for k, row in enumerate(rows):
                if row is None and not quiet:
                    d = given
                    print(
                        f"Substituting fallback discounts for order {k}: D1={d[0]:g} "
                        f"D2={d[1]:g} D3+={d[2]:g}",
                        file=sys.stderr,
                    )
            return np.array([given if r is None else r for r in rows], dtype=float)

        with mock.patch.object(_kenlm, "_discounts", discounts):
            code, _, err = run_ours("lmplz", *arguments, stdin=corpus)
    if code or theirs.code:
        same = bool(code) == bool(theirs.code)
        return Result(1, [] if same else [f"exit codes {theirs.code}, {code}"], moved)
    ours = (folder / "ours.arpa").read_bytes().decode()
    n_lines, problems = compare_arpa(theirs.arpa, ours)
    stated = statistics_of(err)
    n_lines += len(theirs.statistics)
    pairs = zip(sorted(theirs.statistics), sorted(stated))
    if len(stated) != len(theirs.statistics) or not all(
        same_statistics(a, b) for a, b in pairs
    ):
        problems.append(f"statistics {theirs.statistics} and {stated}")
    n, more = compare_queries(case, theirs, folder)
    return Result(n_lines + n, problems + more, moved)


def compare_queries(case: Case, theirs: Outputs, folder: Path) -> tuple[int, list[str]]:
    """(number of lines, what differs) of query, over files of KenLM's lmplz."""
    if not theirs.queries:
        return 0, []
    n_lines, problems = 0, []
    (folder / "kenlm.arpa").write_text(theirs.arpa, encoding="utf-8", newline="\n")
    code, _, err = run_ours("build_binary", folder / "kenlm.arpa", folder / "ours.bin")
    if code:
        return 0, [f"build_binary: {err}"]
    for i, options in enumerate(TRIES):
        given = [*options, "trie", folder / "kenlm.arpa", folder / f"{i}.trie"]
        run_ours("build_binary", *given)
    for i, expected in enumerate(theirs.tries):
        n_lines += 1
        if hash_of(folder / f"{i}.trie") != expected:
            problems.append(f"build_binary trie {TRIES[i]}: other bytes")
    of_arpa, of_binary = theirs.queries[: len(LEVELS)], theirs.queries[len(LEVELS) :]
    expected = iter([*of_arpa, *of_binary, *of_binary])
    for name in ("kenlm.arpa", "ours.bin", "1.trie"):
        for level in LEVELS:
            _, out, err = run_ours(
                "query", folder / name, "-v", *level, stdin=case.test.encode()
            )
            # The numbers of words are those of each file.
            a, b = (re.sub(r"=\d+ ", "= ", t) for t in (next(expected), out))
            if name == "1.trie":  # its unigrams of probability 1 have no sign
                a = a.replace(" 1 -0\t", " 1 0\t")
            n_lines += len(a.splitlines())
            if a != b:
                rows = zip(a.split("\n"), b.split("\n"))
                first = next((p for p in rows if p[0] != p[1]), (len(a), len(b)))
                problems.append(f"query {name} {level}: {first} {err}")
    return n_lines, problems


def recorded_cases() -> list[tuple[Case, Outputs]]:
    """Cases, and what KenLM's programs printed."""
    path = Path(__file__).with_name("kenlm_outputs.json")
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [(Case(*case), Outputs(*outputs)) for case, outputs in rows]


def main() -> None:
    """Compare so many cases, or record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n_cases", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--record")
    arguments = parser.parse_args()
    programs = find_programs()
    if programs is None:
        parser.error("KENLM_PROGRAMS must be the folder of KenLM's programs")
    total = SimpleNamespace(lines=0, problems=0, moved=0, refused=0)
    recorded = []
    for seed in range(arguments.first, arguments.first + arguments.n_cases):
        case = random_case(seed)
        with tempfile.TemporaryDirectory() as name:
            theirs = run_kenlm(case, Path(name), programs)
            result = compare(case, theirs, Path(name))
        total.lines += result.n_lines
        total.moved += result.last_ngram
        total.refused += theirs.code
        total.problems += len(result.problems)
        if len(theirs.arpa) < 2000 and len(case.corpus) < 2000:  # the file stays small
            recorded.append([case, theirs])
        for problem in result.problems[:3]:
            print(f"{seed}: -o {case.order} {' '.join(case.options)}", end="")
            print(" limited" if case.vocabulary else "", ":", problem)
    if arguments.record:
        text = json.dumps(recorded, ensure_ascii=True, indent=0) + "\n"
        Path(arguments.record).write_text(text, encoding="utf-8", newline="\n")
    print(
        f"{arguments.n_cases} corpora, {total.lines} lines, {total.problems} "
        f"differences; {total.moved} with KenLM's count of the last n-gram, "
        f"{total.refused} refused by both"
    )


if __name__ == "__main__":
    main()
