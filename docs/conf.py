"""Sphinx configuration; build with ``sphinx-build -W -b html docs docs/_build/html``.

Nothing is fetched while building or reading: there is no intersphinx, and MathJax is a
part of the pages.
"""

import os
import re
import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)
here = Path(__file__).resolve().parent
root = here.parent
sys.path.insert(0, str(here / "_ext"))

project = "sklstruct"
author = "The sklstruct developers"
project_copyright = author
release = version = installed_version("sklstruct")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
    "myst_parser",  # of the changelog
    "sphinx_design",  # cards of the first page
    "sphinx_copybutton",
    "benchmark_table",
    "builder_table",
    "layer_table",
]
exclude_patterns = ["_build", "_templates", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
default_role = "any_name"  # see setup()
highlight_language = "python"
# Formulas a little larger than the text; to match its x-height would be too much.
mathjax3_config = {"chtml": {"matchFontHeight": False, "scale": 1.08}}
add_module_names = False
toc_object_entries_show_parents = (
    "hide"  # "fit", not "LanguageModel.fit", in the margin
)
smartquotes_action = "De"  # dashes and dots; quotes are often those of names in code
copybutton_prompt_text = r">>> |\.\.\. |\.\.\.$"  # lines of output are left out
copybutton_prompt_is_regexp = True

autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints = "none"  # numpydoc sections say more than annotations
numpydoc_show_class_members = False  # the class template lists them
numpydoc_class_members_toctree = False

# ------------------------------------------------------------------ html

html_theme = "pydata_sphinx_theme"
html_title = "sklstruct"
html_static_path = ["_static"]
html_css_files = ["sklstruct.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_sidebars = {
    page: [] for page in ("index", "install", "tutorial", "development", "changelog")
}

# --------------------------------------------------------------- gallery


def write(path, text):
    """Write a generated source; an unchanged one keeps its time stamp."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# The gallery gets its own folder with the pages (plot_*.py) in groups, and their
# headers, so that examples/ holds programs alone, which may also run for minutes.
GROUPS = {  # folder -> (title, sentence, words that a page's name may hold)
    "language_models": (
        "Language models",
        "From sentences to perplexities, tuned parameters and next words.",
        (
            "perplexity",
            "grid_search",
            "lam_path",
            "penalties",
            "language",
            "pruning",
            "models_differ",
            "mixture",
            "keypad",
            "tagger",
        ),
    ),
    "smoothing": (
        "Smoothing",
        "Probabilities from counts.",
        ("smooth", "unigram"),
    ),
    "taxonomies": (
        "Many classes",
        "Trees of classes, and classification along them.",
        ("taxonomy", "many_classes", "inner_nodes", "experts"),
    ),
    "more": ("More", "Other structured models.", ("",)),
}
# Estimators that a page of the gallery shows link to the API, two folders above.
os.environ["SKLSTRUCT_DOCS"] = "../.."
pages = sorted((root / "examples").glob("plot_*.py"))
staged = here / "_build" / "examples"
extensions.append("sphinx_gallery.gen_gallery")
sphinx_gallery_conf = {
    "examples_dirs": [str(staged)],
    "gallery_dirs": ["auto_examples"],
    "doc_module": ("sklstruct",),
    "reference_url": {"sklstruct": None},
    "download_all_examples": False,
    "show_memory": False,
    "reset_modules": ("matplotlib", "gallery_style.use_colours"),
    "capture_repr": ("_repr_html_",),  # not "<Display object at 0x...>"
    "show_signature": False,
    "write_computation_times": False,  # its page loads scripts from other servers
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "subsection_order": [f"_build/examples/{folder}" for folder in GROUPS],
}
wanted = {
    staged
    / "GALLERY_HEADER.rst": ".. _examples:\n\nExamples\n========\n\nEach page is "
    "a program of the folder ``examples``, run when these pages were built.\n",
}
for page in pages:
    folder = next(
        folder
        for folder, (_, _, words) in GROUPS.items()
        if any(word in page.stem for word in words)
    )
    title, sentence, _ = GROUPS[folder]
    head = f"{title}\n{'-' * len(title)}\n\n{sentence}\n"
    wanted[staged / folder / "GALLERY_HEADER.rst"] = head
    # The user guide shows first pictures, which a build with plot_gallery=0 lacks.
    program = page.read_text(encoding="utf-8") + "# sphinx_gallery_dummy_images=1\n"
    wanted[staged / folder / page.name] = program
for path, text in wanted.items():
    write(path, text)
for old in {*staged.rglob("*.py"), *staged.rglob("*.rst")} - set(wanted):
    old.unlink()
for old in (here / "auto_examples").glob("*/plot_*.*"):  # of a page that moved
    if staged / old.parent.name / f"{old.name.split('.')[0]}.py" not in wanted:
        old.unlink()

# ------------------------------------------------------------------ hooks


def public_packages():
    """Names of the packages that offer public names."""
    folders = sorted(p.parent.name for p in root.glob("sklstruct/*/__init__.py"))
    return [f"sklstruct.{name}" for name in folders if not name.startswith("_")]


def check_api_page(app):
    """Warn about public names that the pages of the API lack; drop stale pages."""
    listed, pages, module = set(), set(), None
    texts = (page.read_text(encoding="utf-8") for page in sorted(here.glob("api*.rst")))
    for line in "\n".join(texts).split("\n"):
        found = re.match(r"\.\. currentmodule:: (\S+)", line)
        if found:
            module = found[1]
        found = re.match(r"(?:   |\.\. data:: )([A-Za-z]\w*)$", line)
        if found:
            listed.add(f"{module}.{found[1]}")
            if line.startswith(" "):  # in an autosummary: has its own page
                pages.add(f"{module}.{found[1]}")
    for name in public_packages():
        for public in getattr(import_module(name), "__all__", ()):
            if f"{name}.{public}" not in listed:
                logger.warning("api.rst does not list %s.%s", name, public)
    for page in (here / "generated").glob("*.rst"):
        if page.stem not in pages:  # of a name that is gone
            page.unlink()


def plain_foreign_references(app, what, name, obj, options, lines):
    """Inherited docstrings refer to labels of scikit-learn's own pages."""
    if not (getattr(obj, "__module__", None) or "").startswith("sklstruct"):
        for i, line in enumerate(lines):
            line = re.sub(r":ref:`([^`<]+?)\s*<[^>]*>`", r"\1", line)
            lines[i] = re.sub(r":(?:ref|term):`([^`<]+)`", r"\1", line)


def any_name_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """`name` in single backquotes: a link where it is a public name, else code.

    numpydoc's convention for names of parameters, attributes and classes; the role
    "any" would warn about the first two.
    """
    from docutils import nodes
    from sphinx.addnodes import pending_xref

    env = inliner.document.settings.env
    literal = nodes.literal(rawtext, text)
    if not re.fullmatch(r"[A-Za-z_][\w.]*", text):
        return [nodes.literal(rawtext, text)], []
    node = pending_xref(
        rawtext,
        literal,
        refdomain="py",
        reftype="obj",
        reftarget=text,
        refexplicit=False,
        refwarn=False,
        refdoc=env.docname,
    )
    if text[0].isupper():  # a class, in whatever package
        node["refspecific"] = True
    node["py:module"] = env.ref_context.get("py:module")
    node["py:class"] = env.ref_context.get("py:class")
    return [node], []


def setup(app):
    app.add_role("any_name", any_name_role)
    app.connect("builder-inited", check_api_page)
    app.connect("autodoc-process-docstring", plain_foreign_references)
