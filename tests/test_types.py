"""mypy on the package, and on a user's program over all of its estimators."""

import ast
import doctest
import json
import re
import subprocess
import sys
import textwrap
import typing
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from test_estimators import public_estimators

from sklstruct._compat import StrOptions
from sklstruct.loglinear import Penalty, Solver

ROOT = Path(__file__).resolve().parents[1]
CLIENT = Path(__file__).with_name("_typed_client.py")
TREE = ast.parse(CLIENT.read_text(encoding="utf-8"))
# Programs that a newcomer types; docs/index.rst shows the programs of README.md.
FIRST_PAGES = ["README.md", "docs/tutorial.rst"]


def mypy(*arguments):
    """The errors in files, by default the package; settings of pyproject.toml."""
    pytest.importorskip("mypy", reason='mypy is missing: pip install ".[peers]"')
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty"]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT
    )
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


@pytest.mark.processes
def test_package_has_no_errors():
    assert not mypy()


def pyright(file):
    """The errors in a file, by the checker of many editors."""
    reason = 'basedpyright is missing: pip install ".[peers]"'
    pytest.importorskip("basedpyright", reason=reason)
    settings = {
        "include": [str(file)],
        "extraPaths": [str(ROOT)],  # an editable package is not found otherwise
        "typeCheckingMode": "basic",
    }
    config = file.with_name("pyrightconfig.json")
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", config], capture_output=True, text=True, cwd=file.parent
    )
    assert " errors, " in done.stdout, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "- error:" in line]


CHECKERS = pytest.mark.parametrize("checker", [mypy, pyright])


@CHECKERS
@pytest.mark.processes
def test_client_has_no_errors(checker, tmp_path):
    file = tmp_path / "client.py"
    file.write_text(CLIENT.read_text(encoding="utf-8"), encoding="utf-8")
    assert not checker(file)


def test_every_public_estimator_is_in_the_client():
    used = {node.id for node in ast.walk(TREE) if isinstance(node, ast.Name)}
    # Penalties and solvers have parameters, and no methods for users.
    settings = (Penalty, Solver)
    models = (e for e in public_estimators() if not issubclass(e, settings))
    missing = sorted({e.__name__ for e in models} - used)
    assert not missing, (
        f"add a line that calls {', '.join(missing)} to tests/_typed_client.py"
    )


@pytest.mark.processes
def test_misspelt_methods_are_errors(tmp_path):
    """A misspelt attribute of any object of the client is an error."""
    text = CLIENT.read_text(encoding="utf-8").splitlines()
    wrong = {}  # line of the statement -> lines with misspelt attributes
    for statement in ast.walk(TREE):
        if isinstance(statement, ast.stmt) and not hasattr(statement, "body"):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    line = f"    {ast.unparse(node.func.value)}.misspelt"
                    wrong.setdefault(statement.lineno, []).append(line)
    lines = []
    for number, line in enumerate(text, 1):
        lines += [*wrong.get(number, ()), line]
    file = tmp_path / "client.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    found = {int(line.split(":")[1]) for line in mypy(file) if "misspelt" in line}
    expected = {i for i, line in enumerate(lines, 1) if line.endswith(".misspelt")}
    missed = [lines[i - 1].strip() for i in sorted(expected - found)]
    assert len(expected) > 50 and not missed


def snippets(page):
    """The Python programs of a page: its blocks of code, and its prompts as one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".md"):
        return re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    prompts = "".join(e.source for e in doctest.DocTestParser().get_examples(text))
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", text)
    # Blocks go on after the prompts.
    return [prompts + "".join(map(textwrap.dedent, blocks))]


@pytest.mark.processes
@pytest.mark.parametrize("page", FIRST_PAGES)
def test_programs_of_the_first_pages_have_no_errors(page, tmp_path):
    programs = snippets(page)
    assert programs and all(programs)
    for i, program in enumerate(programs):
        file = tmp_path / f"program{i}.py"
        file.write_text(program, encoding="utf-8")
        # A page uses a name again for another thing; the package does not.
        found = mypy("--allow-redefinition", file)
        assert not [line for line in found if file.name in line]


@pytest.mark.processes
def test_misspelt_names_of_models_are_errors(tmp_path):
    file = tmp_path / "client.py"
    file.write_text(
        "from sklstruct import LanguageModel\n"
        'LanguageModel("fast", analyzer="char")\n'
        'LanguageModel("fats")\n'
        'LanguageModel("fast", analyzer="chars")\n'
        'LanguageModel().fit([]).predict_next("a")[0][0].upper()\n'
        'LanguageModel().surprisal([], unit="bit")\n',
        encoding="utf-8",
    )
    assert [int(line.split(":")[1]) for line in mypy(file)] == [3, 4, 6]


def strings(hint):
    """The strings of all `Literal` in a type."""
    if typing.get_origin(hint) is typing.Literal:
        return {value for value in typing.get_args(hint) if isinstance(value, str)}
    return set().union(*map(strings, typing.get_args(hint)))


def test_types_name_the_options_that_are_valid():
    n = 0
    for estimator in public_estimators():
        rules = getattr(estimator, "_parameter_constraints", {})
        # The constructors of builders are generated from the annotations of classes.
        of = estimator if is_dataclass(estimator) else estimator.__init__
        for name, hint in typing.get_type_hints(of).items():
            if named := strings(hint):
                options = [o.options for o in rules[name] if isinstance(o, StrOptions)]
                assert named == set().union(*options), (estimator, name)
                n += 1
    assert n > 10


@CHECKERS
@pytest.mark.processes
def test_documented_attributes_are_known(checker, tmp_path):
    """Attributes that `fit` sets by their names must be annotated in the class."""
    docscrape = pytest.importorskip(
        "numpydoc.docscrape", reason='numpydoc is missing: pip install ".[peers]"'
    )
    lines = []
    for i, estimator in enumerate(public_estimators()):
        listed = docscrape.ClassDoc(estimator)["Attributes"]
        names = [name.strip() for entry in listed for name in entry.name.split(",")]
        lines.append(f"from {estimator.__module__} import {estimator.__name__} as E{i}")
        lines.append(f"def _{i}(model: E{i}) -> None:")
        lines += [f"    model.{name}" for name in [*names, "get_params", "misspelt"]]
    file = tmp_path / "client.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    found = checker(file)
    assert len(found) == sum("misspelt" in line for line in lines) > 50
    assert all("misspelt" in line for line in found), found


@pytest.mark.processes
def test_benchmarks_call_what_the_package_has(tmp_path):
    """Names, attributes and arguments; other types of the programs are not checked."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from sklstruct.backoff import BackoffModel, misspelt\n"
        "def run(model: BackoffModel):\n"
        "    model.misspelt\n"
        "    model.rows([0], misspelt=1)\n"
        "    model.follow()\n"
        "    model.row_sums.sum()\n"
        "    model.depth(1, 2, 3)\n",
        encoding="utf-8",
    )
    source = "".join(
        path.read_text("utf-8") for path in (ROOT / "sklstruct").rglob("*.py")
    )
    classes = "|".join(sorted(set(re.findall(r"^class (\w+)", source, re.MULTILINE))))
    pattern = re.compile(
        r"Unexpected keyword argument|Missing (positional|named) argument|"
        r'Too many (positional )?arguments for "\w+" of "|'
        r'Module "sklstruct\S* has no attribute|'
        rf'"({classes})" has no attribute'
    )
    programs = sorted((ROOT / "benchmarks").glob("*.py"))
    found = mypy("--check-untyped-defs", "--ignore-missing-imports", *programs, wrong)
    ours = [line for line in found if line.startswith("benchmarks") or "wrong" in line]
    found = [line for line in ours if pattern.search(line)]
    lines = sorted({line.split(":")[1] for line in found})
    assert lines == ["1", "3", "4", "5", "7"], found
    assert all("wrong.py" in line for line in found), found
