"""The examples of the pages, of the docstrings and of the README do what they say."""

import doctest
import inspect
import re
import subprocess
import sys
import textwrap
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

import pytest
from _families import public_estimators

import sklstruct
from sklstruct._compat import HAS_CALLBACKS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Sphinx writes pages of its own into the folder.
MADE = {"generated", "auto_examples", "_build"}
EVERY = [
    page
    for page in [*sorted(ROOT.glob("docs/*.rst")), *sorted(ROOT.glob("docs/*/*.rst"))]
    if page.parent.name not in MADE and page.stem != "sg_execution_times"
]
PAGES = [page for page in EVERY if ">>> " in page.read_text(encoding="utf-8")]
MODULES = sorted(
    module.name
    for module in walk_packages(sklstruct.__path__, "sklstruct.")
    if find_spec(module.name).origin.endswith(".py")
)


# Packages that the examples import in functions, too.
OTHERS = [
    "ctc_beam_decoder",
    "matplotlib",
    "networkx",
    "numba",
    "pandas",
    "polars",
    "skops",
]


def skip_without_others(text):
    for name in OTHERS:
        if re.search(rf"^\s*(>>> )?(import|from) {name}\b", text, re.MULTILINE):
            pytest.importorskip(name)
    if ">>> from sklearn.callback import ProgressBar" in text:
        pytest.importorskip("rich")


@pytest.mark.skipif(not HAS_CALLBACKS, reason="pages use what scikit-learn 1.9 brought")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_page(page):
    skip_without_others(page.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed, tried = doctest.testfile(
            str(page), module_relative=False, optionflags=doctest.ELLIPSIS
        )
    assert tried > 0 and failed == 0


def test_blocks_of_the_page_of_decoders(tmp_path):
    """pyctcdecode does not install beside NumPy 2: its code is not in the prompts."""
    pytest.importorskip(
        "pyctcdecode", reason="pip install --no-deps pyctcdecode pygtrie"
    )
    page = DOCS / "user_guide" / "ctc_decoders.rst"
    text = page.read_text(encoding="utf-8")
    setup = text[: text.index("ctc-beam-decoder\n===")]
    prompts = doctest.DocTestParser().get_examples(setup)
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", text)
    program = tmp_path / "program.py"  # run apart, as it replaces the module kenlm
    lines = [example.source for example in prompts] + [*map(textwrap.dedent, blocks)]
    program.write_text("".join(lines) + "print(spoken)\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, cwd=tmp_path
    )
    printed = done.stdout.splitlines()
    assert len(printed) == 3 and len(set(printed)) == 1, done.stderr


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.stem)
def test_titles_of_page_are_unique_and_underlined(page):
    """A section that stands twice was merged badly, and links lead to one of them."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^(\S.*)\n([=\-~^])\2{3,}$", text, flags=re.MULTILINE)
    titles = [title for title, _ in lines]
    assert sorted(titles) == sorted(set(titles))
    for title, underline in re.findall(r"^(\S.*)\n((?:=|-|~|\^){4,})$", text, re.M):
        assert len(title) == len(underline), title


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    try:
        module = import_module(name)
    except ImportError as exc:  # of an extra
        pytest.skip(str(exc))
    skip_without_others(inspect.getsource(module))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_estimators_link_to_their_pages(monkeypatch):
    """In HTML, where SKLSTRUCT_DOCS is the address of the pages."""
    monkeypatch.delenv("SKLSTRUCT_DOCS", raising=False)
    model = sklstruct.LanguageModel("fast")
    assert model._get_doc_link() == ""
    monkeypatch.setenv("SKLSTRUCT_DOCS", "http://localhost:8000/")
    page = "http://localhost:8000/generated/sklstruct.language_model.LanguageModel.html"
    assert f'href="{page}"' in model._repr_html_()
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("api*.rst"))
    for estimator in public_estimators():
        if inspect.isabstract(estimator):
            continue
        # Without calling the class: some need parameters.
        address = estimator._get_doc_link(object.__new__(estimator))
        package, name = address.split("/")[-1].removesuffix(".html").rsplit(".", 1)
        assert getattr(import_module(package), name) is estimator
        after = text.split(f".. currentmodule:: {package}\n")[1:]
        assert any(re.search(rf"(?m)^   {name}$", part) for part in after), address

    class Own(sklstruct.KneserNeyLM):
        pass

    assert Own()._get_doc_link() == ""  # no page of ours


def python_of_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("block", python_of_readme(), ids=["model", "classes", "typo"])
def test_code_of_readme(block, tmp_path, monkeypatch, capsys):
    """Each block alone, as somebody pastes it."""
    monkeypatch.chdir(tmp_path)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(block, names)
    printed = capsys.readouterr().out
    if "lm" in names:
        perplexity, unknown = re.findall(r"[\d.]+(?=, |% of words)", printed)[:2]
        assert 1 < float(perplexity) < 200
        assert 0 < float(unknown) < 100 / 3  # more gives a warning
        back = sklstruct.LanguageModel.load(tmp_path / "model.arpa")
        assert back.perplexity(names["lines"][:50]) > 1
    elif "texts" in names:
        chosen, *rows = printed.splitlines()
        assert chosen == "typesmapping" and len(rows) == len(names["names"])
    else:
        assert printed.splitlines() == [
            "the value of the expression is returned",
            "please send the invoice to berlin",
        ]
