"""A text that comes with Python, generators of samples, and readers of files."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._clustered import make_clustered_classes as make_clustered_classes
    from ._conll import read_conll as read_conll
    from ._conll import write_conll as write_conll
    from ._python_topics import load_python_topics as load_python_topics
    from ._sparse_classes import make_sparse_classes as make_sparse_classes
    from ._svmlight import load_sparse_labels as load_sparse_labels
    from ._svmlight import save_sparse_labels as save_sparse_labels
else:
    __all__, __getattr__, __dir__ = face(__name__)
