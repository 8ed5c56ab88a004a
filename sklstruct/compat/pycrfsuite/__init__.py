r"""The names of python-crfsuite, over our own conditional random field.

.. math::
    \log p(y \mid x) = \sum_t \sum_a x_{ta} w_{a y_t} + \sum_{t > 1} w_{y_{t-1} y_t}
    - \log Z(x)

:math:`x_{ta}` is the value of the attribute a of item t; the weights w are those of a
model file of CRFsuite, which `Tagger` opens and `Trainer` writes. Best paths are those
of CRFsuite, also of paths of equal score.

A program that says ``import pycrfsuite`` runs with ``from sklstruct.compat import
pycrfsuite``. If it cannot be changed, call ``sklstruct.compat.pycrfsuite.install()``
first.
"""

from __future__ import annotations

from .._stand_in import stand_in
from ._tagger import ItemSequence, ParsedDump, Tagger
from ._trainer import BaseTrainer, CRFSuiteError, Trainer

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "ParsedDump",
    "Tagger",
    "Trainer",
    "install",
]

# Of the CRFsuite whose files are read and written.
CRFSUITE_VERSION = "0.12.2"


def install() -> None:
    """Put this module where ``import pycrfsuite`` finds it.

    For tests and scripts of programs that cannot be changed.

    Raises
    ------
    RuntimeError
        If another module of that name is loaded.
    """
    stand_in(__name__, "pycrfsuite")
