"""Shared by the benchmarks: one main, timing, data, and the JSON of the results.

A program is two functions and one line::

    def cases():
        "Small dicts of plain values, cheap to make; what tells the runs apart."
        return [{"shape": "chain", "n": 10**3}, {"shape": "star", "n": 10**3}]

    def run(case):
        "One case -> dict of figures (numbers or short strings), seconds in seconds."
        data = make(case["shape"], case["n"])
        times = fastest(ours=lambda: ours(data), numpy=lambda: np.exp(data))
        ours = times["ours"].cpu
        return {"seconds": ours, "ratio": ours / times["numpy"].cpu}

    if __name__ == "__main__":
        main(cases, run)

`main` gives every program the same arguments (``--help``), runs each case in its
own process, so that the peak memory is the case's and one failure is not the end,
prints a table, and with ``--out`` writes the results after every case. The tables of
the documentation are made from such files (``docs/benchmarks/results``).

A case marked ``"slow": True`` is left out by ``--quick``. A program that measures other
tools as well names them, ``main(cases, run, peers=("spams",))``, and asks
``"spams" in options.peers``; a case that is another tool's alone is marked ``"needs":
"spams"`` and left out unless that tool is asked for. The module imports nothing of
sklstruct: a program runs with whatever version is installed.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import functools
import gzip
import json
import multiprocessing
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

Case = dict[str, Any]
Figures = dict[str, Any]

# Choices of the command line, for `run` to read; `main` fills it.
options = argparse.Namespace(repeats=5, quick=False, peers=())

# The colours of the pictures, as in the gallery.
STYLE = Path(__file__).parents[1] / "docs" / "_ext" / "sklstruct.mplstyle"

DISTRIBUTIONS = ("sklstruct", "scikit-learn", "numpy", "scipy")

# ------------------------------------------------------------------------ data


def data_folder(name: str) -> Path:
    """A folder of SKLSTRUCT_DATA, or exit with the reason."""
    root = os.environ.get("SKLSTRUCT_DATA")
    if not root:
        sys.exit("set SKLSTRUCT_DATA to the folder of the data sets to run this")
    folder = Path(root) / name
    if not folder.is_dir():
        sys.exit(f"SKLSTRUCT_DATA holds no folder {name!r}")
    return folder


@functools.cache
def ewt(split: str) -> Any:
    """A part of UD English EWT, as `read_conll` gives it: form, upos, xpos."""
    from sklstruct.datasets import read_conll

    path = data_folder("ud-english-ewt") / f"{split}.tsv.gz"
    return read_conll(path, ("form", "upos", "xpos"))


@functools.cache
def wikitext(split: str) -> list[list[str]]:
    """Sentences (lists of words) of WikiText-2; empty lines dropped."""
    path = data_folder("wikitext-2") / f"{split}.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.split() for line in lines if line.strip()]


def spoken_sentences(split: str, word_of: Callable[[str], Any]) -> Iterator[list]:
    """The words before each full stop of WikiText-2, without punctuation.

    word_of: the symbol of a word; that of ``<unk>`` is asked for as well.
    """
    for line in wikitext(split):
        words: list = []
        for word in line:
            if word == ".":
                if words:
                    yield words
                words = []
            elif word[0].isalnum() or word == "<unk>":
                words.append(word_of(word))


def first_words(sentences: Iterable[list[str]], n_words: int) -> list[list[str]]:
    """The first sentences that hold at least `n_words` words."""
    kept, total = [], 0
    for sentence in sentences:
        if total >= n_words:
            break
        kept.append(sentence)
        total += len(sentence)
    return kept


def kenlm_model(path: str | Path) -> Any:
    """KenLM's model of an ARPA file, read without its progress bar."""
    import kenlm

    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    return kenlm.Model(str(path), config)


def lmplz_program() -> str:
    """KenLM's program that estimates models, or exit with the reason."""
    program = shutil.which(os.environ.get("LMPLZ", "lmplz"))
    if program is None:
        sys.exit("set LMPLZ to KenLM's lmplz to compare with it")
    return program


def edits(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The least number of insertions, deletions and substitutions from a to b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(last + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


# ---------------------------------------------------------------------- timing


class Times(NamedTuple):
    """The least seconds of several calls, and what the last call returned.

    `cpu` counts the seconds of all threads; on a machine that does other work it is
    the one to compare.
    """

    cpu: float
    wall: float
    result: Any


def fastest(*, repeats: int | None = None, budget: float = 60.0, **functions: Callable):
    """name -> `Times` of each function, called in turns: a b a b a b.

    Two programs measured in turns see the same neighbours, so that their ratio
    survives a machine that does other work. No further round is begun when `budget`
    seconds are used up.
    """
    repeats = options.repeats if repeats is None else repeats
    cpu = dict.fromkeys(functions, float("inf"))
    wall = dict(cpu)
    results: dict[str, Any] = {}
    begin = time.perf_counter()
    for done in range(repeats):
        if done and time.perf_counter() - begin > budget:
            break
        for name, function in functions.items():
            results[name] = None  # free the last one before the next is made
            start, start_cpu = time.perf_counter(), time.process_time()
            results[name] = function()
            cpu[name] = min(cpu[name], time.process_time() - start_cpu)
            wall[name] = min(wall[name], time.perf_counter() - start)
    return {name: Times(cpu[name], wall[name], results[name]) for name in functions}


def timed(function: Callable, *args: Any, repeats: int | None = None, **kwargs: Any):
    """`Times` of one function: ``timed(model.fit, X, y, repeats=1)``."""
    call = functools.partial(function, *args, **kwargs)
    return fastest(repeats=repeats, call=call)["call"]


def peak_mb() -> float:
    """Peak memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)


# ----------------------------------------------------------------- environment


def machine() -> str:
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def commit() -> str | None:
    """Commit of the programs, with "+" where they or the package were changed since."""
    git = functools.partial(
        subprocess.run,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    try:
        found = git(["git", "rev-parse", "--short=12", "HEAD"]).stdout.strip()
        changed = git(
            ["git", "status", "--porcelain", "sklstruct", "benchmarks"]
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + "+" if changed.strip() else found


def environment(distributions: Sequence[str] = DISTRIBUTIONS) -> dict[str, Any]:
    """Commit, machine, date and versions, as they stand beside the results."""
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "versions": versions,
        "threads": os.environ.get("OMP_NUM_THREADS", "not limited"),
    }


# --------------------------------------------------------------------- results


def read_results(path: Path | None) -> dict[str, Any]:
    """Environments and results that `main` wrote; empty without a file."""
    if path is None or not path.exists():
        return {"program": "", "environments": [], "results": []}
    return json.loads(path.read_text(encoding="utf-8"))


def write_results(path: Path, book: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    head = {key: value for key, value in book.items() if key != "results"}
    lines = [json.dumps(result, ensure_ascii=False) for result in book["results"]]
    text = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
    text += ',\n "results": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


def record(
    book: dict[str, Any], here: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """The results with one more, in place of an older one of the same case.

    Environments that no result has any more are left out.
    """
    known = book["environments"]
    result = result | {"environment": len(known)}
    kept = [old for old in book["results"] if old["case"] != result["case"]]
    at = [old["case"] == result["case"] for old in book["results"]]
    kept.insert(at.index(True) if any(at) else len(kept), result)
    environments = []
    for i, old in enumerate(kept):
        of_old = [*known, here][old["environment"]]
        if of_old not in environments:
            environments.append(of_old)
        kept[i] = old | {"environment": environments.index(of_old)}
    return book | {"environments": environments, "results": kept}


def case_name(case: Case) -> str:
    """``name`` of a case, or all its values."""
    return str(case.get("name") or " ".join(str(v) for v in case.values()))


def plain(value: Any) -> Any:
    """A figure as JSON holds it: numpy's scalars become Python's."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"figures must be numbers or strings, got {value!r}")


def show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def print_table(rows: Sequence[dict[str, Any]], width: int = 110) -> None:
    """Rows of equal keys under one head, or side by side where they are too wide."""
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows:
        tables.setdefault(tuple(row), []).append([show(v) for v in row.values()])
    for head, body in tables.items():
        lines = aligned([list(head), *body])
        if len(lines[0]) > width:
            lines = aligned(list(map(list, zip(head, *body))))
        print("\n" + "\n".join(lines))


def aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [
        "  ".join(f"{cell:>{w}}" for cell, w in zip(line, widths)).rstrip()
        for line in cells
    ]


# ------------------------------------------------------------------------ main


def arguments(
    description: str, argv: Sequence[str] | None, peers: Sequence[str]
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--case",
        action="extend",
        nargs="+",
        metavar="WORD",
        default=[],
        help="only the cases whose name holds one of these words (* and ? allowed)",
    )
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument(
        "--quick", action="store_true", help="leave out slow cases, repeat twice"
    )
    parser.add_argument("--repeats", type=int, help="calls of which the best counts")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.json", help="write the results there"
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out cases that --out has already"
    )
    if peers:
        parser.add_argument(
            "--peer",
            nargs="*",
            metavar="NAME",
            choices=peers,
            help="measure other tools too: " + ", ".join(peers) + "; all without NAME",
        )
    parser.add_argument(
        "--same-process",
        action="store_true",
        help="run all cases in this process (profilers, debuggers)",
    )
    chosen = parser.parse_args(argv)
    if chosen.repeats is None:
        chosen.repeats = 2 if chosen.quick else 5
    if chosen.repeats < 1:
        parser.error("--repeats must be at least 1")
    if chosen.resume and chosen.out is None:
        parser.error("--resume needs --out")
    if not peers or chosen.peer is None:
        chosen.peers = ()
    else:
        chosen.peers = tuple(chosen.peer or peers)
    return chosen


def selected(case: Case, words: Sequence[str]) -> bool:
    name = case_name(case)
    return not words or any(fnmatch.fnmatch(name, f"*{word}*") for word in words)


def measure(run: Callable[[Case], Figures], case: Case) -> dict[str, Any]:
    """Figures, peak memory and seconds of one case, or the error."""
    start, cpu = time.perf_counter(), time.process_time()
    try:
        figures = run(dict(case))
    except Exception:
        return {"case": case, "error": traceback.format_exc()}
    return {
        "case": case,
        "figures": plain(figures),
        "peak_mb": round(peak_mb()),
        "wall_seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "repeats": options.repeats,
    }


def _send(run: Callable[[Case], Figures], case: Case, pipe: Any) -> None:
    pipe.send(measure(run, case))
    pipe.close()


def measure_apart(run: Callable[[Case], Figures], case: Case) -> dict[str, Any]:
    """`measure` in a child process."""
    # A fork keeps the imports; this process has not started a thread.
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(run, case, send))
    child.start()
    send.close()
    try:
        result = receive.recv()
    except EOFError:
        child.join()
        result = {"case": case, "error": f"the process ended with {child.exitcode}"}
    child.join()
    return result


def main(
    cases: Callable[[], list[Case]],
    run: Callable[[Case], Figures],
    *,
    peers: Sequence[str] = (),
    argv: Sequence[str] | None = None,
) -> None:
    """Run the cases that the command line chooses; exit with 1 if one failed."""
    program = sys.modules[run.__module__]
    chosen = arguments(program.__doc__ or "", argv, peers)
    vars(options).update(vars(chosen))
    named = [case for case in cases() if selected(case, chosen.case)]
    todo = [case for case in named if case.get("needs", None) in (None, *chosen.peers)]
    if named and not todo:
        sys.exit("these cases measure other tools: add --peer")
    if not todo:
        sys.exit("no case has such a name; --list prints them")
    if chosen.quick:
        todo = [case for case in todo if not case.get("slow")]
    marks = ("slow", "needs")
    todo = [{k: v for k, v in case.items() if k not in marks} for case in todo]
    if chosen.list:
        if argv is None:  # not in a test: `--list | head` ends quietly
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        print("\n".join(case_name(case) for case in todo))
        return
    here = environment((*DISTRIBUTIONS, *peers))
    versions = ", ".join(f"{k} {v}" for k, v in here["versions"].items())
    print(f"{here['machine']}\n{versions}", flush=True)
    book = read_results(chosen.out)
    book["program"] = Path(program.__file__ or "").stem
    if chosen.resume:
        known = [old["case"] for old in book["results"]]
        todo = [case for case in todo if case not in known]
    failed, rows = 0, []
    for case in todo:
        result = (measure if chosen.same_process else measure_apart)(run, case)
        if "error" in result:
            failed += 1
            print(f"\n{case_name(case)}: {result['error']}", file=sys.stderr)
            continue
        extra = {k: result[k] for k in ("peak_mb", "wall_seconds", "cpu_seconds")}
        print(
            f"{case_name(case)}: {extra['wall_seconds']:.1f} s",
            file=sys.stderr,
            flush=True,
        )
        rows.append(case | result["figures"] | extra)
        if chosen.out:
            book = record(book, here, result)
            write_results(chosen.out, book)
    print_table(rows)
    if failed:
        sys.exit(f"{failed} of {len(todo)} cases failed")
