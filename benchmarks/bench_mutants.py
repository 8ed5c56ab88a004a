"""Mutants of the package: which small changes of its code do the tests not notice?

A mutant is a copy of the package with one operator, constant, condition or statement
changed. The tests of its package run against it until one fails. A mutant that all
tests pass is a survivor: it changes nothing that can be observed, or a test is missing.
The test that fails must pass without the mutant.

    pip install ".[test,peers,dev]"
    python benchmarks/bench_mutants.py --case backoff

A seed draws the mutants from all places of a package's modules; the case says how many
of Python and of Cython, fewer where their tests take more than two minutes. A kernel
is compiled again, with checks of bounds. All happens in copies: the source tree is not
touched. Slow tests and those with data are left out.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from _common import main

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "sklstruct"
ROOT_MODULES = "modules of the root"
MAX_BYTES = 8 << 30  # of a process of tests
MAX_SECONDS = 150  # without the end of a test
MAX_CASE_SECONDS = 120  # after which a case begins no further mutant
SEED = 0

# Tests of a package where they are not the folder of its name alone.
TESTS = {
    "_cli": ["tests/cli"],
    "backoff": ["tests/backoff", "tests/test_distributions.py", "tests/smoothing"],
    ROOT_MODULES: [
        "tests/test_checks.py",
        "tests/test_files.py",
        "tests/test_full_disk.py",
        "tests/test_parallel.py",
        "tests/test_threads.py",
        "tests/test_pickles.py",
        "tests/test_estimators.py",
        "tests/loglinear/test_checkpoint.py",
    ],
}


def packages() -> list[str]:
    folders = [
        path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()
    ]
    return [*sorted(folders), ROOT_MODULES]


def cases():
    kinds = {".py": ("Python", 12), ".pyx": ("Cython", 3)}
    return [
        {"package": package, "language": language, "mutants": n, "seed": SEED}
        for package in packages()
        for suffix, (language, n) in kinds.items()
        if modules(package, suffix)
    ]


def modules(package: str, suffix: str) -> list[Path]:
    if package == ROOT_MODULES:
        return sorted(SOURCE.glob("*" + suffix))
    return sorted((SOURCE / package).rglob("*" + suffix))


# --------------------------------------------------------------------- mutants

OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def changed(node: ast.AST) -> list[ast.AST]:
    """The mutants of one node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OTHER:
            return [ast.Compare(node.left, [OTHER[type(op)]()], node.comparators)]
        case ast.BinOp(op=op) if type(op) in OTHER:
            return [ast.BinOp(node.left, OTHER[type(op)](), node.right)]
        case ast.AugAssign(op=op) if type(op) in OTHER:
            return [ast.AugAssign(node.target, OTHER[type(op)](), node.value)]
        case ast.BoolOp(op=op):
            return [ast.BoolOp(OTHER[type(op)](), node.values)]
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return [node.operand]
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value)):
            return [ast.Constant(value + 1)]
        case ast.Constant(value=float(value)):
            return [ast.Constant(2 * value or 1.0)]
        case ast.If(test=test) if not isinstance(test, ast.UnaryOp | ast.Compare):
            return [ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)]
        case ast.IfExp(test=test):
            return [ast.IfExp(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)]
        case ast.Expr(value=ast.Call()):
            return [ast.Pass()]
    return []


def is_words(node: ast.AST) -> bool:
    """Whether only people and type checkers read the node."""
    if isinstance(node, ast.FunctionDef):
        return any(ast.unparse(name) == "overload" for name in node.decorator_list)
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func) in ("warnings.warn", "warn")
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING",
        "MYPY",
    )


def places(tree: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    """(parent, field, index) of every node that has a mutant."""
    found = []
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        listed = isinstance(value, list)
        for i, node in enumerate(value if listed else [value]):
            if isinstance(node, ast.AST) and not is_words(node):
                if changed(node):
                    found.append((tree, name, i if listed else None))
                found += places(node)
    return found


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 60 else text[:56] + " ..."


def python_mutants(path: Path):
    """(what, function that gives the text) of each mutant of a module."""
    n_places = len(places(ast.parse(path.read_text(encoding="utf-8"))))
    for k in range(n_places):
        yield lambda k=k: python_mutant(path, k)


def python_mutant(path: Path, k: int) -> tuple[str, str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parent, name, i = places(tree)[k]
    value = getattr(parent, name)
    old = value if i is None else value[i]
    (new,) = changed(old)
    what = f"{old.lineno}: {short(ast.unparse(old))} -> {short(ast.unparse(new))}"
    if isinstance(old, ast.Constant):  # a number alone says little
        what += f" in {short(ast.unparse(parent))}"
    if i is None:
        setattr(parent, name, new)
    else:
        value[i] = new
    return what, ast.unparse(ast.fix_missing_locations(tree))


CYTHON = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ",
    " != ": " == ", " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ",
    " += ": " -= ", " -= ": " += ", " and ": " or ", " or ": " and ",
    "if not ": "if ", " + 1": " + 2", " - 1": " - 2",
}  # fmt: skip
NO_CODE = re.compile(r"\s*(#|@|from |cimport |import |raise |cdef class |ctypedef )")


def cython_mutants(path: Path):
    text = path.read_text(encoding="utf-8")
    # Strings and comments keep their length and lose their content.
    bare = re.sub(
        r'"""[\s\S]*?"""|"[^"\n]*"|#[^\n]*',
        lambda found: re.sub(r"[^\n]", "~", found[0]),
        text,
    )
    for old, new in CYTHON.items():
        for found in re.finditer(re.escape(old), bare):
            begin = text.rfind("\n", 0, found.start()) + 1
            line = text[begin : text.find("\n", begin)]
            if NO_CODE.match(line) or line.rstrip().endswith("nogil:"):
                continue
            at = text.count("\n", 0, found.start()) + 1
            what = f"{at}: {short(line)}, {old.strip()} -> {new.strip()}"
            mutant = text[: found.start()] + new + text[found.end() :]
            yield lambda what=what, mutant=mutant: (what, mutant)


# ------------------------------------------------------------------------ runs


def kernels() -> dict[str, str]:
    """name -> file of each compiled module of the package that is installed."""
    program = (
        "import importlib.util as u, json, sys, sklstruct\n"
        "print(json.dumps({n: u.find_spec(n).origin for n in sys.argv[1:]}))"
    )
    names = ["sklstruct._cyutility"]
    for path in SOURCE.rglob("*.pyx"):
        names.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *names],
        capture_output=True, text=True, check=True, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    return json.loads(done.stdout)


def copy_package(scratch: Path) -> None:
    """The Python files of the source tree with the kernels that are installed."""
    no_binary = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(SOURCE, scratch / "sklstruct", ignore=no_binary)
    for name, file in kernels().items():
        folder = scratch.joinpath(*name.split(".")[:-1])
        shutil.copy(file, folder / Path(file).name)


def compiled(scratch: Path, path: Path) -> bool:
    """Compile a kernel of the copy in place, with checks of bounds."""
    meson = (SOURCE.parent / "meson.build").read_text(encoding="utf-8")
    directives = re.findall(r"'-X', '((?!boundscheck|initializedcheck)[\w=]+)'", meson)
    directives += ["boundscheck=True", "initializedcheck=True"]
    c_file = path.with_suffix(".c")
    cython = [sys.executable, "-m", "cython", "-3", "--shared=sklstruct._cyutility"]
    cython += [word for d in directives for word in ("-X", d)]
    done = subprocess.run(
        [*cython, str(path), "-o", str(c_file)], cwd=scratch, capture_output=True
    )
    if done.returncode:
        return False
    (old,) = [
        f for f in path.parent.glob(path.stem + ".*") if f.suffix in (".so", ".pyd")
    ]
    old.unlink()
    include = [sysconfig.get_path("include"), scratch / "sklstruct", path.parent]
    include.append(scratch / "sklstruct" / "linear")
    command = [*(os.environ.get("CC", "cc").split()), "-shared", "-fPIC", "-O1", "-w"]
    command += [f"-I{folder}" for folder in include]
    module = path.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
    command += [str(c_file), "-o", str(module), "-lm"]
    return subprocess.run(command, capture_output=True).returncode == 0


def tests_of(package: str) -> list[str]:
    """Files of tests, the smaller the earlier."""
    found = []
    for name in TESTS.get(package, [f"tests/{package}"]):
        path = ROOT / name
        found += path.rglob("test_*.py") if path.is_dir() else [path]
    return [str(path) for path in sorted(found, key=lambda p: p.stat().st_size)]


class Here:
    """Plugin of pytest: a file that names the test that runs, or fails to be read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logstart(self, nodeid, location):
        self.file.write_text(nodeid, encoding="utf-8")

    def pytest_collectreport(self, report):
        if report.failed:
            self.file.write_text(report.nodeid, encoding="utf-8")


def run_tests(scratch: Path, files: list[str]) -> tuple[str, str]:
    """The outcome of the tests against the copy, "passed" or "failed" or another, and
    the last test.

    A fork of this process, which has imported what the tests need but the package.
    """
    import pytest
    import sklearn.linear_model  # noqa: F401

    here = scratch / "test"
    here.write_text("", encoding="utf-8")
    child = os.fork()
    if not child:
        code = 3
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
            log = os.open(scratch / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(ROOT)
            # An editable install would come first.
            finders = [
                f for f in sys.meta_path if "mesonpy" not in repr(type(f)).lower()
            ]
            sys.meta_path[:] = finders
            sys.path.insert(0, str(scratch))
            os.environ["PYTHONPATH"] = str(scratch)
            os.environ.pop("SKLSTRUCT_DATA", None)
            sys.dont_write_bytecode = True
            options = ["-x", "-q", "--everything", "-p", "no:cacheprovider"]
            options += [f"--basetemp={scratch}/tmp", f"--rootdir={ROOT}"]
            code = int(pytest.main([*options, *files], plugins=[Here(here)]))
            import sklstruct

            if not str(sklstruct.__file__).startswith(str(scratch)):
                code = 99
        finally:
            os._exit(code)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.time() - here.stat().st_mtime > MAX_SECONDS:
            break
        time.sleep(0.05)
    at = here.read_text(encoding="utf-8")
    if not done:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "out of time", at
    code = os.waitstatus_to_exitcode(status)
    if code == 99:
        sys.exit("the tests import another copy of the package")
    return ("passed" if code == 0 else "failed" if code == 1 else "died"), at


def run(case):
    package, n = case["package"], case["mutants"]
    suffix, mutants = {
        "Python": (".py", python_mutants), "Cython": (".pyx", cython_mutants)
    }[case["language"]]  # fmt: skip
    every = [(path, m) for path in modules(package, suffix) for m in mutants(path)]
    rng = random.Random(f"{case['seed']} {package} {suffix}")
    chosen = rng.sample(every, min(n, len(every)))
    files = tests_of(package)
    survivors, killed = [], {"failed": 0, "died": 0, "out of time": 0}
    end = time.monotonic() + MAX_CASE_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder) / "clean"
        copy_package(clean)
        for path, mutant in chosen:
            if time.monotonic() > end:
                break
            what, text = mutant()
            scratch = Path(folder) / "mutant"
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(clean / "sklstruct", scratch / "sklstruct")
            name = path.relative_to(ROOT)
            (scratch / name).write_text(text, encoding="utf-8")
            if suffix == ".pyx" and not compiled(scratch, scratch / name):
                continue  # not a mutant: it does not compile
            # Tests of the module's own name first: they are likely to fail.
            stem = path.stem.strip("_").removesuffix("_fast")
            first = sorted(files, key=lambda f: stem not in f)
            begin = time.perf_counter()
            how, test = run_tests(scratch, first)
            taken = time.perf_counter() - begin
            print(
                f"{how:>11} {taken:6.1f} s  {name}:{what}  {test}",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            if how == "passed":
                survivors.append(f"{name.relative_to('sklstruct')}:{what}")
                continue
            if run_tests(clean, [test] if test else files)[0] != "passed":
                log = (clean / "log").read_text(errors="replace")
                raise RuntimeError(f"{test} fails without a mutant:\n" + log[-3000:])
            killed[how] += 1
    return {
        "places": len(every),
        "tried": len(survivors) + sum(killed.values()),
        "noticed": sum(killed.values()),
        "survivors": "; ".join(survivors),
    }


if __name__ == "__main__":
    main(cases, run)
