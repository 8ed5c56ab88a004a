"""Builders: samples and labels in, a `Taxonomy` out.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new builder is a file here, and its
name in `sklstruct.taxonomy`, `docs/api.rst` and `tests/_typed_client.py`; tests say
which of these is missing.
"""
