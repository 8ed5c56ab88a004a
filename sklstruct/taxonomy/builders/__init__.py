"""Builders, which learn a `Taxonomy` from samples and labels.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new builder needs a file here, and its
name in `sklstruct.taxonomy`, `docs/api.rst` and `tests/_typed_client.py`; tests fail if
one of these is missing.
"""
