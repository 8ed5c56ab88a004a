"""Two files of results side by side: ratios of figures, second file to first.

    python benchmarks/compare.py BEFORE.json AFTER.json [--figures fit_seconds test]

Cases are matched by their values; figures are those that both have and that are
numbers. A figure in seconds, or peak memory, of 0.97 is 3 % less than before.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _common import case_name, print_table, read_results


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--figures", nargs="+", help="only these")
    args = parser.parse_args()
    before, after = (
        {case_name(r["case"]): r["figures"] | {"peak_mb": r["peak_mb"]}
         for r in read_results(path)["results"]}
        for path in (args.before, args.after)
    )  # fmt: skip
    rows = []
    for name, old in before.items():
        new = after.get(name, {})
        for figure, value in old.items():
            other = new.get(figure)
            if args.figures and figure not in args.figures:
                continue
            if isinstance(value, (int, float)) and isinstance(other, (int, float)):
                ratio = other / value if value else None
                row = {"case": name, "figure": figure, "before": value, "after": other}
                rows.append(row | {"ratio": ratio})
    print_table(rows)


if __name__ == "__main__":
    main()
