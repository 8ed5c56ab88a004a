"""Builders: samples and labels in, a `Taxonomy` out. One file an idea.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new one that learns is its file, its
lines in `_named` and in the package above.
"""
