"""TRUSTED_TYPES are what skops asks about in files of our estimators, no more."""

import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from _families import public_estimators
from _fitted import fitted, make

import sklstruct

sio = pytest.importorskip("skops.io")


def test_trusted_types_of_every_public_estimator(tmp_path):
    asked, kinds = set(), set()
    for name, entry in fitted().items():
        model = make(entry)
        kinds.add(type(model))
        dump = sio.dumps(model)
        own = sio.get_untrusted_types(data=dump)
        unknown = sorted(set(own) - set(sklstruct.TRUSTED_TYPES))
        assert not unknown, f"{name}: add to sklstruct/_trusted.py {unknown}"
        asked.update(own)
        again = sio.loads(dump, trusted=list(sklstruct.TRUSTED_TYPES))
        assert repr(again) == repr(model)
    assert asked == set(sklstruct.TRUSTED_TYPES)
    # Bases are not fitted, the classes below them are.
    missing = {kind for kind in public_estimators() if kind not in kinds}
    missing = sorted(kind.__name__ for kind in missing if not kind.__subclasses__())
    assert not missing, f"add to fitted() in tests/_fitted.py: {', '.join(missing)}"


def test_trusted_types_are_sorted_classes():
    assert list(sklstruct.TRUSTED_TYPES) == sorted(set(sklstruct.TRUSTED_TYPES))
    for name in sklstruct.TRUSTED_TYPES:
        module, kind = name.rsplit(".", 1)
        assert inspect.isclass(getattr(import_module(module), kind))


def test_recipe_of_mlflow(tmp_path, monkeypatch):
    """The code of the page, run as it stands."""
    pytest.importorskip("mlflow.sklearn", reason="needs MLflow")
    page = Path(__file__).parents[1] / "docs" / "user_guide" / "exchange.rst"
    code = re.search(
        r"MLflow takes them by name:\n\n.. code-block:: python\n\n((?: .*\n|\n)+)",
        page.read_text(encoding="utf-8"),
    )[1]
    monkeypatch.chdir(tmp_path)
    sentences = ["sea salt", "salt sea", "salt", "sea salt sea"]
    lm = sklstruct.LanguageModel(sklstruct.KneserNeyLM(discount=0.5), max_depth=2)
    expected = lm.fit(sentences).score_samples(sentences)
    known = {"sklstruct": sklstruct, "lm": lm}
    exec(textwrap.dedent(code), known)
    assert known["lm"] is not lm and (tmp_path / "folder").is_dir()
    np.testing.assert_array_equal(known["lm"].score_samples(sentences), expected)
