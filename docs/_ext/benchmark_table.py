"""Tables of the benchmark pages, made from the JSON that the programs write.

A table with one row per result; each line of the body is a column, as ``field``,
``field | heading`` or ``field | heading | format`` (of Python's `format`)::

    .. benchmark-table:: prox.json
       :title: Milliseconds per call
       :where: nodes = 400000

       shape
       milliseconds | sklstruct, ms | .1f

or one that spreads one field over two keys of the cases, here builders down and data
sets across::

    .. benchmark-table:: depths.json
       :where: depth = full
       :rows: builder
       :columns: section

       accuracy | | .3f

``:sort: test`` puts the rows in the order of a field. ``:least: test`` and
``:most: accuracy`` name the fields whose best figure is bold, in each group of equal
values of the field that ``:within:`` names, or in each column of a spread table.

With several body lines the cell joins them with "±"; where several results fall into
one cell (splits), it has their mean ± standard deviation. Below every table stand
machine, date and versions of the results that it shows.

In running text, the role `figure` is one number: file, conditions, field, format; with
a last part ``mean`` it is the mean of several results (splits)::

    :figure:`wikitext.json | section = models; model = l2 | test | .1f`
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmark_results import figure, is_best, plain, selects, summary, written
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"


class Best(str):
    """A cell that is shown in bold."""


def figure_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    path = RESULTS / text.partition("|")[0].strip()
    inliner.document.settings.env.note_dependency(str(path))
    book = json.loads(path.read_text(encoding="utf-8"))
    try:
        return [nodes.inline(text=figure(book["results"], text))], []
    except ValueError as exc:
        message = inliner.reporter.warning(str(exc), line=lineno)
        return [nodes.inline(text="?")], [message]


class BenchmarkTable(SphinxDirective):
    required_arguments = 1
    has_content = True
    option_spec = {
        "title": directives.unchanged,
        "where": directives.unchanged,
        "rows": directives.unchanged,
        "columns": directives.unchanged,
        "order": directives.unchanged,
        "heading": directives.unchanged,
        "sort": directives.unchanged,
        "least": directives.unchanged,
        "most": directives.unchanged,
        "within": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        path = RESULTS / self.arguments[0]
        self.env.note_dependency(str(path))
        book = json.loads(path.read_text(encoding="utf-8"))
        results = [
            {**r["case"], **r["figures"], "peak_mb": r.get("peak_mb"), "_": r}
            for r in book["results"]
            if selects(self.options.get("where", ""), r["case"])
        ]
        fields = [self.field(line) for line in self.content if line.strip()]
        if not results or not fields:
            what = "results" if fields else "columns"
            raise self.error(f"{path.name}: no {what} for this table")
        for name, _, _ in fields:
            if not any(name in result for result in results):
                raise self.error(f"{path.name}: no result has a field {name!r}")
        if "sort" in self.options:
            # rows without the figure come last
            results.sort(key=lambda r: r.get(self.options["sort"], float("inf")))
        if "rows" in self.options:
            head, body = self.pivot(results, fields)
        else:
            head = [heading for _, heading, _ in fields]
            body = [
                [
                    self.cell(written(result.get(name), how), name, how, [result], same)
                    for name, _, how in fields
                ]
                for result in results
                for same in [self.rivals(result, results)]
            ]
        return [self.table(head, body), self.note(book, results)]

    def rivals(self, result: dict, results: list) -> list[list]:
        """The results that a row is compared with, each as a list of one."""
        key = self.options.get("within")
        return [[r] for r in results if key is None or r.get(key) == result.get(key)]

    def cell(self, text: str, name: str, how: str, own: list, rivals: list) -> str:
        for option, best in (("least", min), ("most", max)):
            listed = map(str.strip, self.options.get(option, "").split(","))
            if name in listed and is_best(own, rivals, name, how, best):
                return Best(text)
        return text

    def field(self, line: str) -> tuple[str, str, str]:
        name, heading, how = ([part.strip() for part in line.split("|")] + ["", ""])[:3]
        return name, heading or name.replace("_", " "), how

    def pivot(self, results: list, fields: list) -> tuple[list, list]:
        down, across = self.options["rows"], self.options["columns"]
        rows = list(dict.fromkeys(result[down] for result in results))
        columns = list(dict.fromkeys(result[across] for result in results))
        if "order" in self.options:
            order = [name.strip() for name in self.options["order"].split(",")]
            columns = [c for o in order for c in columns if plain(c) == o]
        cell = {}
        for result in results:
            cell.setdefault((result[down], result[across]), []).append(result)
        body = []
        for row in rows:
            line = [plain(row)]
            for column in columns:
                found = cell.get((row, column), [])
                parts = [summary(found, name, how) for name, _, how in fields]
                text = " ± ".join(part for part in parts if part)
                same = [cell[key] for key in cell if key[1] == column]
                name, _, how = fields[0]
                text = self.cell(text, name, how, found, same)
                line.append(text)
            body.append(line)
        heading = self.options.get("heading", down.replace("_", " "))
        return [heading, *map(plain, columns)], body

    def table(self, head: list, body: list) -> nodes.Node:
        group = nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=1) for _ in head]
        group += nodes.thead("", self.row(head))
        group += nodes.tbody("", *(self.row(line) for line in body))
        table = nodes.table(classes=["benchmark"])
        if "title" in self.options:
            text, messages = self.state.inline_text(self.options["title"], self.lineno)
            table += nodes.title(self.options["title"], "", *text, *messages)
        table += group
        return table

    def row(self, cells: list) -> nodes.row:
        def entry(cell: str) -> nodes.entry:
            kind = nodes.strong if isinstance(cell, Best) else nodes.inline
            return nodes.entry("", nodes.paragraph("", "", kind(text=cell)))

        return nodes.row("", *map(entry, cells))

    def note(self, book: dict, results: list) -> nodes.Node:
        used = sorted({result["_"]["environment"] for result in results})
        runs: dict[str, list] = {}  # machine and versions -> dates and commits
        for index in used:
            here = book["environments"][index]
            versions = ", ".join(f"{k} {v}" for k, v in here["versions"].items())
            run = " ".join(filter(None, [here["date"], here.get("commit")]))
            runs.setdefault(f"{here['machine']}; {versions}", []).append(run)
        notes = [f"{machine}; {', '.join(dates)}" for machine, dates in runs.items()]
        text = f"{book['program']}.py: " + "; ".join(notes)
        return nodes.paragraph("", "", nodes.emphasis(text=text), classes=["measured"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_role("figure", figure_role)
    app.add_directive("benchmark-table", BenchmarkTable)
    return {"parallel_read_safe": True}
