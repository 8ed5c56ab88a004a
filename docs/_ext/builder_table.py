"""The table of the builders of taxonomies, made from `TAXONOMY_BUILDERS`.

    .. builder-table::

A row is the name, the class and the first line of its docstring.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sklstruct.taxonomy import TAXONOMY_BUILDERS


class BuilderTable(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
        lines += ["   * - name", "     - class", "     - idea"]
        for name, builder in sorted(TAXONOMY_BUILDERS.items()):
            summary = (builder.__doc__ or "").strip().splitlines()[0]
            lines += [
                f"   * - ``{name}``",
                f"     - :class:`~sklstruct.taxonomy.{builder.__name__}`",
                "     - " + re.sub(r' \("\w+"\)|\.$', "", summary),
            ]
        return self.parse_text_to_nodes(StringList(lines, source=__file__))


def setup(app: Sphinx) -> dict:
    app.add_directive("builder-table", BuilderTable)
    return {"parallel_read_safe": True}
