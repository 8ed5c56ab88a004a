"""Translate the kernels of one package to C, in one process.

    cythonize.py DEPFILE N SOURCE_1 ... SOURCE_N C_1 ... C_N [argument of cython ...]

Starting Cython and reading its own declarations takes longer than most kernels do, so
that a process for each doubles the time. A C file that would not change keeps its
date: nothing is compiled again for it. DEPFILE names, in the form of make, every file
that the kernels were made from.
"""

import re
import sys
from pathlib import Path

from Cython.Compiler.CmdLine import parse_command_line
from Cython.Compiler.Main import compile as translate


def main(depfile: str, n: str, *rest: str) -> int:
    n_sources = int(n)
    sources, outputs = rest[:n_sources], rest[n_sources : 2 * n_sources]
    read: set[str] = set()
    for source, output in zip(sources, outputs, strict=True):
        new = output + ".new.c"
        options, _ = parse_command_line(
            [*rest[2 * n_sources :], "-M", "-o", new, source]
        )
        if translate(source, options).num_errors:
            return 1
        text = Path(new).read_text(encoding="utf-8").replace(new, output)
        if not Path(output).exists() or Path(output).read_text("utf-8") != text:
            Path(output).write_text(text, encoding="utf-8")
        rule = Path(new + ".dep").read_text(encoding="utf-8").split(":", 1)[1]
        read.update(re.findall(r"[^\s\\]+", rule))
        Path(new).unlink()
        Path(new + ".dep").unlink()
    lines = " \\\n  ".join(sorted(read))
    Path(depfile).write_text(f"{outputs[0]}: {lines}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
