"""Modules with the names of other libraries, over the models of this one."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from . import kenlm

__all__ = ["kenlm"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(__name__, {".": ["kenlm"]})
