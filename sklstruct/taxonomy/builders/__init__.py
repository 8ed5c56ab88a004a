"""Builders: samples and labels in, a `Taxonomy` out. One file an idea.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new one that learns is its file, a line
in the table of `_named`, its name in `sklstruct.taxonomy` and on the API page; tests
say which of these is missing.
"""
