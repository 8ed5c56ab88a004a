"""Rules of the package's source code: layers, names, messages.

Each rule is a function from the source to a list of (file, line, what is wrong).
`PARAMETERS` has the only exception.
"""

import ast
import inspect
import io
import itertools
import re
import tokenize
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from _prose import comments, hits, python_prose

from sklstruct.loglinear import Penalty, Solver
from sklstruct.plotting._display import Display
from sklstruct.smoothing._engine import NGramSmoother
from sklstruct.smoothing.unigram._base import UnigramSmoother
from sklstruct.taxonomy import TaxonomyBuilder

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sklstruct"

# Bottom to top. A module may import from the lines before its own; within a line only
# files of the same package may, and the modules of the lowest line.
LAYERS = [
    [
        "_compat",
        "_checks",
        "_description",
        "_digest",
        "_docs",
        "_files",
        "_lazy",
        "_members",
        "_parallel",
        "_progress",
        "_warnings",
        "_dot",
        "_heap",
        "_exp_sum",
        "_log_sum",
        "_prefetch",
        "_random",
        "_ranked",
        "_sorted",
        "_watch",
        "_version",
        "_checkpoint",
    ],
    ["symbols"],
    ["_likelihood", "_penalties", "context_tree", "prox", "taxonomy", "factor_graph"],
    ["backoff", "linear", "word_classes"],
    ["exchange", "smoothing", "hierarchical"],
    ["loglinear"],
    ["text"],
    ["mixture", "compat"],
    ["hmm", "language_model"],
    ["distributed"],
    ["metrics", "plotting", "datasets"],
    ["_cli", "_trusted"],
    ["__init__", "__main__"],
]
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}

# Three groups use the other packages; `compat` has names of other libraries,
# over all three. Each group can be tested alone, by its folders of tests/,
# with the commands of docs/development.rst.
GROUPS = {
    "language models": [
        "context_tree",
        "backoff",
        "smoothing",
        "loglinear",
        "word_classes",
        "mixture",
        "language_model",
        "exchange",
        "distributed",
    ],
    "classes": ["linear", "hierarchical", "text"],
    "sequences": ["hmm", "factor_graph"],
}
GROUP = {room: group for group, rooms in GROUPS.items() for room in rooms}
# The packages of another group that a group imports, through their `__init__.py`.
SHARED = {
    "classes": ["exchange"],
    "sequences": ["backoff", "context_tree", "exchange", "linear", "smoothing"],
}

# There may be fewer public names, and not more: one for each job. Families, such as
# the smoothers, may get members; all names together are still bounded.
MOST_PUBLIC_NAMES, MOST_OUTSIDE_FAMILIES = 160, 109

# The sizes of a public class: parameters, lines of the docstring, methods.
MOST_PARAMETERS, MOST_LINES, MOST_METHODS = 12, 160, 25


def walk(tree):
    """The nodes of a syntax tree, as `ast.walk` in a third of its time."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                left.append(value)
            elif isinstance(value, list):
                left += [part for part in value if isinstance(part, ast.AST)]


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def room(name):
    """The package, or the module of the lowest floor, that a file belongs to."""
    return name.split("/")[0].split(".")[0]


@cache
def sources():
    """name -> syntax tree of every Python file of the package."""
    return {
        name_of(path): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def nodes():
    """name -> nodes of the syntax tree of every Python file of the package."""
    return {name: list(walk(tree)) for name, tree in sources().items()}


@cache
def kernels():
    """name -> lines of every Cython file."""
    return {
        name_of(path): path.read_text(encoding="utf-8").splitlines()
        for path in sorted(PACKAGE.rglob("*.p[yx][xd]"))
    }


def module_file(parts):
    """The file of a module given by its names below the package, or None."""
    base = "/".join(parts)
    files = (
        (f"{base}/__init__.py", f"{base}.py", f"{base}.pyx", f"{base}.pxd")
        if base
        else ("__init__.py",)
    )
    return next((f for f in files if f in sources() or f in kernels()), None)


def origin(name, module, level):
    """Names below the package of `from module import`, None if it is foreign."""
    if level == 0:
        parts = (module or "").split(".")
        return parts[1:] if parts[0] == "sklstruct" else None
    here = Path(name).parent.parts
    up = here[: len(here) - level + 1]
    return [*up, *(module.split(".") if module else [])]


CIMPORT = re.compile(r"\s*from\s+(\.*)([\w.]*)\s+c?import\s+(.+)")


@cache
def imports():
    """The list of `each_import`."""
    return list(each_import())


def each_import():
    """(importing file, line, imported file, imported names), functions included."""
    for name, found in nodes().items():
        for node in found:
            if isinstance(node, ast.ImportFrom):
                parts = origin(name, node.module, node.level)
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    parts = origin(name, alias.name, 0)
                    if parts is not None:
                        yield name, node.lineno, module_file(parts), []
                continue
            else:
                continue
            if parts is None:
                continue
            objects = []
            for imported in names:
                module = module_file([*parts, imported])
                if module is not None:  # `from . import _kernel`
                    yield name, node.lineno, module, []
                else:
                    objects.append(imported)
            if objects:
                yield name, node.lineno, module_file(parts), objects
    for name, lines in kernels().items():
        for number, line in enumerate(lines, 1):
            found = CIMPORT.match(line)
            if found is None:
                continue
            parts = origin(name, found[2], len(found[1]))
            if parts is not None:
                yield name, number, module_file(parts), []


# ----------------------------------------------------------------------- rules


def layers():
    """Nothing imports upward."""
    for name, line, imported, _ in imports():
        if imported is None:
            yield name, line, "imports a module that is not there"
            continue
        mine, other = room(name), room(imported)
        if mine == other or mine == "__init__":
            continue
        same_floor = FLOOR[mine] == FLOOR[other]
        if FLOOR[other] > FLOOR[mine] or (same_floor and FLOOR[mine] > 0):
            yield name, line, f"imports {imported}, which is not below"


def groups():
    """A group imports only shared packages of another group, by their public names."""
    for name, line, imported, _ in imports():
        mine, other = GROUP.get(room(name)), GROUP.get(room(imported or ""))
        if mine is None or other is None or mine == other:
            continue
        if room(imported) not in SHARED.get(mine, ()):
            yield name, line, f"imports {imported} of {other!r}: add it to SHARED"
        elif not imported.endswith("/__init__.py"):
            yield name, line, f"imports {imported}: import it from the package"


def group_commands():
    """docs/development.rst has the command that tests a group alone."""
    page = (ROOT / "docs" / "development.rst").read_text(encoding="utf-8")
    words = " ".join(page.replace("\\\n", "").split())
    for rooms in GROUPS.values():
        command = " ".join(["pytest", *(f"tests/{room}" for room in rooms)])
        if command not in words:
            yield "docs/development.rst", 0, f"add the command: {command}"


def circles():
    """No two files import each other, on no way."""
    below = {}
    for name, _, imported, _ in imports():
        below.setdefault(name.replace(".pyx", ".py"), set()).add(
            (imported or "").replace(".pyx", ".py")
        )
    done, path = set(), []

    def visit(name):
        if name in path:
            yield name, 0, "circle: " + " -> ".join([*path[path.index(name) :], name])
            return
        if name in done:
            return
        path.append(name)
        for other in sorted(below.get(name, ())):
            if other != name:
                yield from visit(other)
        path.pop()
        done.add(name)

    for name in sorted(below):
        yield from visit(name)


def relative_imports():
    """Imports of the package's own modules are relative."""
    for name, found in nodes().items():
        for node in found:
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            for module in modules:
                if module.split(".")[0] == "sklstruct":
                    yield name, node.lineno, f"imports {module} by its absolute name"
    for name, lines in kernels().items():
        for number, line in enumerate(lines, 1):
            if re.match(r"\s*(from|c?import)\s+sklstruct\b", line):
                yield name, number, "imports by an absolute name"


def shared_names():
    """A name that two files share has no leading underscore; modules may have one."""
    for name, line, source, objects in imports():
        if source == "_compat.py":  # scikit-learn's private names, under those names
            continue
        for imported in objects:
            if imported.startswith("_") and not imported.startswith("__"):
                yield name, line, f"imports the private name {imported}"
    for name, found in nodes().items():
        modules = set()
        for node in found:
            if isinstance(node, ast.ImportFrom):
                parts = origin(name, node.module, node.level)
                for alias in node.names:
                    if parts is not None and module_file([*parts, alias.name]):
                        modules.add(alias.asname or alias.name)
        for node in found:
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in modules
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            ):
                yield name, node.lineno, f"uses {node.value.id}.{node.attr}"


def last_text(node):
    """The literal text with which a message ends, or None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return last_text(node.values[-1]) if node.values else None
    if isinstance(node, ast.BinOp):
        return last_text(node.right if isinstance(node.op, ast.Add) else node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return last_text(node.func.value) if node.func.attr == "format" else None
    return None


def full_stops():
    """Messages of errors and warnings have no final full stop."""
    for name, found in nodes().items():
        for node in found:
            if isinstance(node, ast.Raise):
                call = node.exc
            elif isinstance(node, ast.Expr):
                call = node.value
                function = getattr(call, "func", None)
                if getattr(function, "attr", getattr(function, "id", "")) != "warn":
                    continue
            else:
                continue
            if not isinstance(call, ast.Call) or not call.args:
                continue
            ends = [call.args[0]]
            if isinstance(call.args[0], ast.IfExp):
                ends = [call.args[0].body, call.args[0].orelse]
            for end in ends:
                text = last_text(end)
                if text and text.rstrip().endswith(".") and not text.endswith("..."):
                    yield name, node.lineno, f"message ends with a stop: {text[-30:]!r}"


def public_functions(tree):
    """(function, whether it is a method) of module and public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node, False
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and (
                    not inner.name.startswith("_") or inner.name == "__init__"
                ):
                    yield inner, True


def annotations():
    """Public functions and methods say the types of parameters and result."""
    for name, tree in sources().items():
        for function, method in public_functions(tree):
            arguments = function.args
            parameters = [*arguments.posonlyargs, *arguments.args]
            static = any(
                getattr(d, "id", "") == "staticmethod" for d in function.decorator_list
            )
            if method and not static:
                parameters = parameters[1:]
            parameters += arguments.kwonlyargs
            parameters += [a for a in (arguments.vararg, arguments.kwarg) if a]
            missing = [a.arg for a in parameters if a.annotation is None]
            if function.returns is None and function.name != "__init__":
                missing.append("the result")
            if missing:
                what = f"{function.name}: no type of {', '.join(missing)}"
                yield name, function.lineno, what


def faces():
    """A name that three packages import is in the face of its package."""
    places = {}
    for name, line, source, objects in imports():
        if source and source.count("/") and not source.endswith("/__init__.py"):
            for imported in objects if room(name) != room(source) else ():
                places.setdefault((source, imported), []).append((name, line))
    for (source, imported), found in places.items():
        if len({room(name) for name, _ in found}) > 2:
            for name, line in found:
                face = f"sklstruct/{room(source)}/__init__.py"
                yield (
                    name,
                    line,
                    (
                        f"imports {imported} from {source}: add it to {face} as "
                        f"`import {imported} as {imported}` and import it from there"
                    ),
                )


def lazy(found):
    """Whether a file creates its names by `_lazy.face`."""
    return any(isinstance(n, ast.ImportFrom) and n.module == "_lazy" for n in found)


def faces_in_use():
    """A name in a face is public (`import X as X`), or another package imports it."""
    used = {
        (source, imported)
        for name, _, source, objects in imports()
        for imported in objects
        if source and room(name) != room(source)
    }
    packages = {
        alias.name  # from .. import exchange
        for found in nodes().values()
        for node in found
        if isinstance(node, ast.ImportFrom) and node.module is None
        for alias in node.names
    }
    used |= {
        (f"{node.value.id}/__init__.py", node.attr)
        for found in nodes().values()
        for node in found
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in packages
    }
    for name, found in nodes().items():
        if not name.endswith("/__init__.py") or not lazy(found):
            continue
        for node in found:
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                for alias in node.names:
                    if alias.asname is None and (name, alias.name) not in used:
                        yield name, node.lineno, f"{alias.name} is not used elsewhere"


SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")


def docstring_spacing():
    """One blank line between the entries of a docstring's sections."""
    for name, found in nodes().items():
        for node in found:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            lines = (ast.get_docstring(node) or "").splitlines()
            section = ""
            for i, line in enumerate(lines):
                if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()):
                    section = line.strip()
                entry = re.match(r"\S.*? : ", line) and section in SECTIONS
                before = lines[i - 1].strip() if i else ""
                if entry and before and not re.fullmatch(r"-{3,}", before):
                    at = node.lineno
                    yield name, at, f"{node.name}: no blank line above {line!r}"


def one_warn():
    """Warnings are issued by `_warnings.warn`, at the line of the user."""
    for name, found in nodes().items():
        if name == "_warnings.py":
            continue
        for node in found:
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "warnings.warn":
                yield name, node.lineno, "call `warn` of `_warnings`"


def filled_blocks():
    """No block of a public docstring is left to fill; see `shared_docs`."""
    for package in public_packages():
        module = import_module(package)
        for name in getattr(module, "__all__", ()):
            documented = getattr(module, name)
            members = vars(documented) if inspect.isclass(documented) else {}
            parts = {name: documented, **{f"{name}.{k}": m for k, m in members.items()}}
            for what, part in parts.items():
                for line in (getattr(part, "__doc__", None) or "").splitlines():
                    if re.fullmatch(r" *\{\w+\}", line):
                        yield package, 0, f"{what}: {line.strip()} stays"


def documented_names():
    """(package, name) of docs/api.rst and docs/api_solvers.rst."""
    listed, module = set(), None
    pages = sorted((ROOT / "docs").glob("api*.rst"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for line in text.splitlines():
        found = re.match(r"\.\. currentmodule:: (\S+)", line)
        if found:
            module = found[1]
        found = re.match(r"(?:   |\.\. data:: )([A-Za-z]\w*)$", line)
        if found:
            listed.add((module, found[1]))
    return listed


def public_packages():
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        if not path.parent.name.startswith("_"):
            yield f"sklstruct.{path.parent.name}"


def api_page():
    """Every public name has its line on the API page, and no other."""
    listed = documented_names()
    public = {
        (package, name)
        for package in public_packages()
        for name in getattr(import_module(package), "__all__", ())
    }
    for package, name in sorted(public ^ listed):
        where = f"docs/api.rst, under `currentmodule:: {package}`"
        change = "add a line" if (package, name) in public else "take away the line"
        yield package, 0, f"{change} `{name}` in {where}"


def public_objects():
    """(qualified name, object) of every public name."""
    for package in public_packages():
        for name in getattr(import_module(package), "__all__", ()):
            yield f"{package}.{name}", getattr(import_module(package), name)


def public_names():
    """The number of public names outside of families does not grow."""
    families = (NGramSmoother, UnigramSmoother, Penalty, Solver, Display)
    families += (TaxonomyBuilder,)
    every = [found for _, found in public_objects()]
    members = [c for c in every if inspect.isclass(c) and issubclass(c, families)]
    for what, n, most in (
        ("public names", len(every), MOST_PUBLIC_NAMES),
        ("outside of families", len(every) - len(members), MOST_OUTSIDE_FAMILIES),
    ):
        if n > most:
            text = f"{n} {what}, {most} are allowed: is one of them a second way to do "
            yield "sklstruct", 0, text + "the same?"


def sizes():
    """Public classes have few parameters and methods, and a docstring to be read."""
    for name, found in public_objects():
        if not inspect.isclass(found) or not found.__module__.startswith("sklstruct"):
            continue
        methods = [m for m in vars(found).values() if inspect.isfunction(m)]
        for what, size, limit in (
            ("parameters", len(inspect.signature(found).parameters), MOST_PARAMETERS),
            ("lines of docstring", len(inspect.getdoc(found).splitlines()), MOST_LINES),
            ("methods", len(methods), MOST_METHODS),
        ):
            if size > limit:
                yield name, 0, f"{size} {what}, {limit} are allowed"


INT32_MAX = re.compile(r"2\s*\*\*\s*31\s*-\s*1\b|\b2147483647\b|iinfo\(np\.int32\)")


def one_largest_id():
    """The largest id is written in one place, `_checks.INT32_MAX`."""
    texts = {
        name_of(path): path.read_text(encoding="utf-8").splitlines()
        for pattern in ("*.py", "*.p[yx][xd]")
        for path in sorted(PACKAGE.rglob(pattern))
    }
    for name, lines in texts.items():
        for number, line in enumerate(lines, 1):
            if name != "_checks.py" and INT32_MAX.search(line):
                yield name, number, line.strip()


def lazy_faces():
    """A face imports its names below TYPE_CHECKING, and each is found at run time."""
    for name, tree in sources().items():
        if not name.endswith("/__init__.py") or name.startswith("_cli/"):
            continue
        package = import_module(
            f"sklstruct.{Path(name).parent.as_posix()}".replace("/", ".")
        )
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.level:
                given = {alias.name for alias in node.names}
                if given != {"face"} and name.count("/") == 1:
                    yield name, node.lineno, f"imports {', '.join(given)} at once"
            elif isinstance(node, ast.If) and node.orelse:
                for line in node.body:
                    for alias in line.names:
                        if not hasattr(package, alias.name):
                            yield name, line.lineno, f"{alias.name} is not found"


STRUCT = re.compile(r"\s*(?:cdef|ctypedef)\s+(?:packed\s+)?struct\s+(\w+)\s*:")
POINTER_NAME = re.compile(r"ctypedef\s+[\w ]+\*\s*(\w+)")
EXTENSION = re.compile(r"cdef class (\w+)")
FIELD = re.compile(r"(?:readonly |public )?(?:const )?(\w+)(?:\[\w+\])?(.*)")
VIEW_OF_ADDRESS = re.compile(r"<[^<>]*\[[^\]]*:[^\]]*\]\s*>\s*[&(\w]")


def block(lines, start):
    """The lines below line `start` that are indented further, without comments."""
    depth = len(lines[start]) - len(lines[start].lstrip())
    for line in lines[start + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            return
        yield line.split("#")[0]


def pointer_types():
    """Names of C types that hold an address: structs, also of structs, and typedefs."""
    fields, found = {}, set()
    for lines in kernels().values():
        for number, line in enumerate(lines):
            if struct := STRUCT.match(line):
                fields[struct[1]] = list(block(lines, number))
            elif alias := POINTER_NAME.match(line):
                found.add(alias[1])
    while True:
        more = {
            name
            for name, texts in fields.items()
            if any("*" in text or found & {*text.split()[:1]} for text in texts)
        }
        if more <= found:
            return found
        found |= more


def fields(body):
    """(type, rest of the line) of the attributes of an extension class."""
    grouped = False
    for line in body:
        depth, text = len(line) - len(line.lstrip()), line.strip()
        if text and depth == 4:
            grouped = text == "cdef:"
            text = text.removeprefix("cdef ") if text.startswith("cdef ") else ""
        elif not grouped:
            continue
        if (field := FIELD.match(text)) and "(" not in text:
            yield field[1], field[2]


@cache
def classes_with_addresses():
    """(name of a class, its file) -> the lines of the class in all its files."""
    types, bodies = pointer_types(), {}
    for name, lines in kernels().items():
        for number, line in enumerate(lines):
            if extension := EXTENSION.match(line):
                key = extension[1], name.rsplit(".", 1)[0]
                bodies.setdefault(key, []).extend(block(lines, number))
    return {
        key: bodies[key]
        for key in sorted(bodies)
        if any(kind in types or "*" in rest for kind, rest in fields(bodies[key]))
    }


def class_names():
    """A name is the name of one class; `compat` has the names of other libraries."""
    found = {}
    for name, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and room(name) != "compat":
                found.setdefault(node.name, []).append((name, node.lineno))
    for name, lines in kernels().items():
        for number, line in enumerate(lines, 1):
            match = re.match(r"cdef class (\w+)\b.*:$", line)
            if match and name.endswith(".pyx"):
                found.setdefault(match[1], []).append((name, number))
    for cls, places in found.items():
        for name, line in places[1:]:
            yield name, line, f"{cls} is also a class of {places[0][0]}"


def plain_words():
    """Comments, docstrings, messages and pages are plain English, names are terms."""
    folders = ["sklstruct", "examples", "docs", "tests", "benchmarks", "packaging"]
    kinds = [*(f"{folder}/**/*" for folder in folders), "tools/*", ".ci/*"]
    kinds += ["*.md", "*.toml", "*.build"]
    suffixes = [".py", ".pyx", ".pxd", ".h", ".rst", ".md"]
    suffixes += [".sh", ".toml", ".build", ".yaml"]
    for path in sorted({path for kind in kinds for path in ROOT.glob(kind)}):
        name = path.relative_to(ROOT).as_posix()
        made = name.startswith(("docs/auto_examples", "docs/generated"))  # by Sphinx
        listed = name == "tests/_prose.py"  # the list of phrases
        written = path.suffix in suffixes or name == ".ci/run"
        if written and not made and not listed:
            for line, what in hits(path):
                yield name, line, what


def values_in_examples():
    """The output of an example is a value: a number, a word or a table."""
    paths = [*ROOT.glob("docs/*.rst"), *ROOT.glob("docs/user_guide/*.rst")]
    for path in [*paths, ROOT / "README.md", *PACKAGE.rglob("*.py")]:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, (before, line) in enumerate(itertools.pairwise(lines), 2):
            shown = before.lstrip().startswith((">>> ", "... "))
            if shown and line.strip() in ("True", "False"):
                yield path.relative_to(ROOT).as_posix(), number, line.strip()


def kept_addresses():
    """A class that stores an address stores in `keep` who owns it, or frees it."""
    for name, lines in kernels().items():
        for number, line in enumerate(lines, 1):
            if VIEW_OF_ADDRESS.search(line.split("#")[0]):
                what = "makes a view of an address, which keeps no owner: keep the view"
                yield name, number, what
    page = (ROOT / "docs" / "development.rst").read_text(encoding="utf-8")
    table = page.split(".. _addresses:")[1].split("\nAdding a part")[0]
    listed = set(re.findall(r"\* - ``(\w+)``", table))
    for (owner, stem), body in classes_with_addresses().items():
        source = "\n".join(kernels()[f"{stem}.pyx"])
        frees = any("def __dealloc__" in line for line in body)
        keeps = any(re.search(r"\bkeep$", rest.strip()) for _, rest in fields(body))
        if keeps and not re.search(r"\.keep = (?!None)", source):
            yield f"{stem}.pyx", 0, f"{owner}.keep is never set"
        if not keeps and not frees:
            what = f"{owner} stores an address without its owner: add `keep`"
            yield f"{stem}.pyx", 0, what
        if owner not in listed:
            what = f"add {owner} to the table of addresses in docs/development.rst"
            yield f"{stem}.pyx", 0, what
    for owner in sorted(listed - {owner for owner, _ in classes_with_addresses()}):
        yield "docs/development.rst", 0, f"{owner} stores no address: take it away"


def short_vectors():
    """A vector is not longer than a register of AVX2: GCC keeps others in memory."""
    for path in sorted(PACKAGE.rglob("*.h")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            found = re.search(r"vector_size\((\d+)\)", line)
            if found and int(found[1]) > 32:
                yield path.relative_to(ROOT).as_posix(), number, line.strip()


def stable_calls():
    """Macros of Python's C API are not in the limited API, that of the wheels."""
    for name, lines in kernels().items():
        for number, line in enumerate(lines, 1):
            if found := re.search(r"\bPy[A-Z]\w*_[A-Z]{2,}[A-Z_]*\b", line):
                yield name, number, found[0]


def indices_from_the_end():
    """Kernels are compiled with wraparound=False: index -1 is not the last one."""
    for name, lines in kernels().items():
        for number, line in enumerate(lines, 1):
            if re.search(r"\w\[(.*, )?-\d+(, .*)?\]", line.split("#")[0]):
                yield name, number, line.strip()


RULES = [
    layers,
    groups,
    group_commands,
    circles,
    relative_imports,
    shared_names,
    full_stops,
    annotations,
    faces,
    faces_in_use,
    docstring_spacing,
    one_warn,
    filled_blocks,
    api_page,
    public_names,
    sizes,
    one_largest_id,
    lazy_faces,
    class_names,
    plain_words,
    values_in_examples,
    kept_addresses,
    short_vectors,
    stable_calls,
    indices_from_the_end,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule):
    broken = sorted(rule())
    lines = [f"{name}:{line}: {what}" for name, line, what in broken]
    assert not lines, f"{inspect.getdoc(rule)}\n" + "\n".join(lines)


def test_comments_are_those_of_the_tokenizer():
    for name in ("_prose.py", "test_house.py", "symbols/test_analyzer.py"):
        text = (ROOT / "tests" / name).read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        expected = [
            (token.start[0], not token.line[: token.start[1]].strip(), token.string)
            for token in tokens
            if token.type == tokenize.COMMENT
        ]
        assert list(comments(text)) == expected


def test_prose_is_that_of_the_syntax_tree():
    text = (ROOT / "sklstruct" / "_checks.py").read_text(encoding="utf-8")
    inner, expected = set(), []
    for node in walk(ast.parse(text)):
        if id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            inner.update(map(id, walk(node)))
            parts = [getattr(value, "value", "") for value in node.values]
            expected.append("".join(p if isinstance(p, str) else "X" for p in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            expected.append(node.value)
    found = ["\n".join(line for _, line in block) for block in python_prose(text)]
    assert len(expected) > 90 and set(expected) <= set(found)
    for block in python_prose(text):
        for number, line in block:
            assert line[:5].split("X")[0] in text.split("\n")[number - 1]


def test_every_room_has_a_floor():
    rooms = {room(name) for name in [*sources(), *kernels()]}
    missing = sorted(rooms - set(FLOOR))
    assert not missing, f"add {', '.join(missing)} to LAYERS in tests/test_house.py"
