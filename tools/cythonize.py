"""Translate kernels to C, a process for each processor.

    cythonize.py DEPFILE N SOURCE_1 ... SOURCE_N C_1 ... C_N [argument of cython ...]

The first translation of a process reads Cython's own declarations, which takes longer
than most kernels do; so few processes translate many kernels each. A source is
translated if its C file is missing or older than a file that it was made from, and a C
file that would not change keeps its date: nothing is compiled again for it. DEPFILE
names, in the form of make, every file that the kernels were made from.
"""

import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from Cython.Compiler.CmdLine import parse_command_line
from Cython.Compiler.Main import compile as translate

CALLED = """\
#ifdef __GNUC__
  #define SKLSTRUCT_CALLED __attribute__((noinline, unused))
#else
  #define SKLSTRUCT_CALLED
#endif
"""


def made_from(output: str) -> list[str]:
    """Return the files that the rule beside a C file names, none without a rule."""
    rule = Path(output + ".dep")
    if not rule.exists():
        return []
    return re.findall(r"[^\s\\]+", rule.read_text(encoding="utf-8").split(":", 1)[1])


def current(output: str, arguments: list[str]) -> bool:
    """Tell whether a C file is as these arguments and its sources make it."""
    asked = Path(output + ".args")
    files = made_from(output)
    if not files or not asked.exists() or asked.read_text("utf-8") != str(arguments):
        return False
    # The rule is written at each translation, the C file only if it changes.
    made = Path(output + ".dep").stat().st_mtime_ns
    return Path(output).exists() and all(
        Path(file).exists() and Path(file).stat().st_mtime_ns < made for file in files
    )


def called(text: str) -> str:
    """Take the hint ``inline`` from Cython's own functions.

    With the hint each argument that is an array brings a copy of the code that takes
    the array, and another for each way out of the function. The copies take time to
    compile, and such code runs once per call of a kernel. The compiler still copies
    short functions.
    """
    for pattern, kind in (
        (r"void __Pyx_(?:XCLEAR|INC)_MEMVIEW", "SKLSTRUCT_CALLED"),
        (r"\w+ __Pyx_PyObject_to_Memoryview", "SKLSTRUCT_CALLED"),
        (r"[^;{(]*\b__Pyx", "CYTHON_UNUSED"),
    ):
        text = re.sub(f"static CYTHON_INLINE (?={pattern})", f"static {kind} ", text)
    return f"{CALLED}{text}"


def run(source: str, output: str, arguments: list[str]) -> bool:
    """Translate one kernel; return whether that worked."""
    if current(output, arguments):
        return True
    new = output + ".new.c"
    options, _ = parse_command_line([*arguments, "-M", "-o", new, source])
    if translate(source, options).num_errors:
        return False
    text = called(Path(new).read_text(encoding="utf-8")).replace(new, output)
    if not Path(output).exists() or Path(output).read_text("utf-8") != text:
        Path(output).write_text(text, encoding="utf-8")
    Path(new).unlink()
    Path(new + ".dep").replace(output + ".dep")
    Path(output + ".args").write_text(str(arguments), encoding="utf-8")
    return True


def main(depfile: str, n: str, *rest: str) -> int:
    n_sources = int(n)
    sources, outputs = rest[:n_sources], rest[n_sources : 2 * n_sources]
    arguments = list(rest[2 * n_sources :])
    workers = max(1, min(os.cpu_count() or 1, n_sources // 4))
    with ProcessPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(run, *pair, arguments)
            for pair in zip(sources, outputs, strict=True)
        ]
        worked = [job.result() for job in jobs]
    if not all(worked):
        return 1
    read = {file for output in outputs for file in made_from(output)}
    lines = " \\\n  ".join(sorted(read))
    Path(depfile).write_text(f"{outputs[0]}: {lines}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
