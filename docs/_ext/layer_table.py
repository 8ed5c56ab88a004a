"""The table of the package's layers, made from `LAYERS` of tests/test_house.py::

    .. layer-table::

A row for each package and each module of the lowest layer, bottom to top, with the
first sentence of its docstring.
"""

from __future__ import annotations

import ast
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
PLAN = ROOT / "tests" / "test_house.py"


def layers() -> list[list[str]]:
    """`LAYERS`, without running the file."""
    for node in ast.parse(PLAN.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            return ast.literal_eval(node.value)
    raise ValueError(f"{PLAN} has no LAYERS")


def purpose(room: str) -> str:
    """The first paragraph of the docstring, or the first line of a comment."""
    base = ROOT / "sklstruct"
    path = next(
        path
        for path in (
            base / room / "__init__.py",
            base / f"{room}.py",
            base / f"{room}.pxd",
        )
        if path.exists()
    )
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(source)) or ""
    else:
        text = source.splitlines()[0].removeprefix("# ")
    return " ".join(text.split("\n\n")[0].split())


class LayerTable(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 10 25 65", ""]
        rows = [("floor", "package", "contents")]
        for floor, rooms in enumerate(layers()):
            for room in rooms:
                name = "sklstruct" if room == "__init__" else room
                rows.append((str(floor), f"``{name}``", purpose(room)))
        for floor, room, text in rows:
            lines += [f"   * - {floor}", f"     - {room}", f"     - {text}"]
        self.env.note_dependency(str(PLAN))
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("layer-table", LayerTable)
    return {"parallel_read_safe": True}
