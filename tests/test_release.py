"""The facts of a release agree in all files."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def project():
    return tomllib.loads(read("pyproject.toml"))["project"]


VERSION = re.search(r"^  version: '([^']+)'", read("meson.build"), re.M)[1]


@pytest.mark.parametrize(
    "path, pattern",
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("packaging/conda/recipe.yaml", r'^  version: "([^"]+)"$'),
        ("packaging/kenlm-tools/pyproject.toml", r'^version = "([^"]+)"$'),
        ("CHANGELOG.md", r"^## (?:Unreleased \()?([\d.]+)"),
    ],
)
def test_version_is_the_same_everywhere(path, pattern):
    assert re.search(pattern, read(path), re.M)[1] == VERSION


def test_conda_asks_for_what_the_wheel_asks_for():
    recipe = read("packaging/conda/recipe.yaml")
    run = recipe.split("  run:\n", 1)[1].split("\n\n", 1)[0]
    asked = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    about = project()
    assert asked == {*about["dependencies"], f"python{about['requires-python']}"}


def test_versions_of_cython_are_the_same_everywhere():
    pages = "CONTRIBUTING.md", "docs/development.rst", "packaging/conda/recipe.yaml"
    found = [
        frozenset(versions.split(","))
        for path in ("pyproject.toml", *pages)
        for versions in re.findall(r'(?i)\bcython ?([<>=!][^\s"]+)', read(path))
    ]
    assert len(found) == 5 and len(set(found)) == 1


def test_steps_of_contributors_name_files_that_exist():
    text = read("CONTRIBUTING.md")
    for name in re.findall(r"`([\w./]+/[\w./]*)`", text):
        if "_mine" not in name:
            assert (ROOT / name).exists(), name
    for name in re.findall(r"`((?:_\w+|test_\w+)\.py)`", text):
        assert name == "_mine.py" or list(ROOT.rglob(name)), name
