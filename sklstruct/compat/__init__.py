"""Modules with the names of other libraries, over the models of this one."""

__all__ = ["kenlm"]
