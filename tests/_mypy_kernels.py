"""Plugin of mypy: what a file imports of a compiled kernel has the type Any.

mypy finds modules in files .py and .pyi. Without this plugin it takes the kernel of
`from . import _name_fast` for a misspelt attribute of the package.
"""

from pathlib import Path

from mypy.nodes import ImportFrom
from mypy.plugin import Plugin

LOWEST = 20  # priority of an import that gives no type


class Kernels(Plugin):
    def get_additional_deps(self, file):
        """(priority, name, line) of the kernels that a file imports as modules."""
        folder = Path(file.path).resolve().parent
        package = file.fullname.split(".")
        if Path(file.path).stem != "__init__":
            package.pop()
        found = []
        for node in file.imports:
            if isinstance(node, ImportFrom) and node.relative:
                n_up = node.relative - 1
                below = node.id.split(".") if node.id else []
                where = folder.joinpath(*[".."] * n_up, *below)
                parts = [*package[: len(package) - n_up], *below]
                found += [
                    (LOWEST, ".".join([*parts, name]), node.line)
                    for name, _ in node.names
                    if (where / f"{name}.pyx").exists()
                ]
        return found


def plugin(version):
    return Kernels
