"""Builders: samples and labels in, a `Taxonomy` out. One file an idea.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new one that learns is its file and a
line in `_named`, in the face of `sklstruct.taxonomy`, on the API page and in the table
of the user guide; tests name each that is missing.
"""
