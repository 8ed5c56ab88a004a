"""Modules with the names of other libraries, over the models of this one."""

from . import kenlm

__all__ = ["kenlm"]
