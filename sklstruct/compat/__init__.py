"""Modules with the names of other libraries, over the models of this one."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from . import kenlm as kenlm
    from . import pycrfsuite as pycrfsuite
else:
    __all__, __getattr__, __dir__ = face(__name__)
