"""TRUSTED_TYPES are what skops asks about in files of our estimators, no more."""

import inspect
from importlib import import_module

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
        assert set(own) <= set(sklstruct.TRUSTED_TYPES), name
        asked.update(own)
        again = sio.loads(dump, trusted=list(sklstruct.TRUSTED_TYPES))
        assert repr(again) == repr(model)
    assert asked == set(sklstruct.TRUSTED_TYPES)
    missing = {kind for kind in public_estimators() if kind not in kinds}
    # bases: what is below them is there
    assert all(kind.__subclasses__() for kind in missing), missing


def test_trusted_types_are_sorted_classes():
    assert list(sklstruct.TRUSTED_TYPES) == sorted(set(sklstruct.TRUSTED_TYPES))
    for name in sklstruct.TRUSTED_TYPES:
        module, kind = name.rsplit(".", 1)
        assert inspect.isclass(getattr(import_module(module), kind))
