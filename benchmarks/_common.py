"""What the benchmarks share: data, timing, the machine's name."""

from __future__ import annotations

import gzip
import os
import platform
import resource
import sys
import time
from pathlib import Path


def data_folder(name):
    """A folder of SKLSTRUCT_DATA, or exit with the reason."""
    root = os.environ.get("SKLSTRUCT_DATA")
    if not root:
        sys.exit("set SKLSTRUCT_DATA to the folder of the data sets to run this")
    folder = Path(root) / name
    if not folder.is_dir():
        sys.exit(f"SKLSTRUCT_DATA holds no folder {name!r}")
    return folder


def wikitext(split):
    """Sentences (lists of words) of WikiText-2; empty lines dropped."""
    path = data_folder("wikitext-2") / f"{split}.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.split() for line in lines if line.strip()]


def machine():
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def peak_mb():
    """Peak memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)


def best_time(function, repeat=7):
    """Shortest of several runs, in seconds: the least disturbed one."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)
