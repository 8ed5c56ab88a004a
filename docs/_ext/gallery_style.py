"""The colours of every picture: of the gallery's pages and of the benchmarks'."""

from pathlib import Path

STYLE = Path(__file__).with_name("sklstruct.mplstyle")


def use_colours(gallery_conf=None, fname=None):
    """Before each page of the gallery; matplotlib's own style was restored."""
    import matplotlib.pyplot as plt

    plt.style.use(STYLE)
