"""Matplotlib, imported when something is drawn."""

from types import ModuleType


def import_pyplot() -> ModuleType:
    """`matplotlib.pyplot`, or an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as exc:
        raise ImportError(
            'plotting needs matplotlib: install it with `pip install "sklstruct[plot]"`'
            " or `pip install matplotlib`"
        ) from exc
    return plt
